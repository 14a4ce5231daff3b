"""How long tests wait until something is true, by how slow the machine may be.

JANUS_TIME_SCALE stretches every such limit; without it a machine that sets CI has ten times as long. It is for waits
alone: what must not happen within a time is asked of that time.
"""

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support" / "python"))

from janus_test import scaled  # noqa: E402


def limit(seconds):
    """Whole seconds; what is given is enough for a machine that does nothing else."""
    return math.ceil(scaled(seconds))


TIMEOUT = f"--timeout={limit(300)}s"  # what kubectl and Helm are told
