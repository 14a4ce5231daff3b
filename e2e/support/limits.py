"""How long tests wait for a condition on slow machines.

JANUS_TIME_SCALE multiplies every such limit; if CI is set and it is not, the factor is ten. It is only for waits: a check
that something does not happen within a time uses the time itself.
"""

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support" / "python"))

from janus_test import scaled  # noqa: E402


def limit(seconds):
    """Whole seconds. `seconds` is enough for an idle machine."""
    return math.ceil(scaled(seconds))


TIMEOUT = f"--timeout={limit(300)}s"  # for kubectl and Helm
