"""How long tests wait until something is true, by how slow the machine may be.

JANUS_TIME_SCALE stretches every such limit; without it a machine that sets CI has ten times as long. It is for waits
alone: what must not happen within a time is asked of that time.
"""

import math
import os


def limit(seconds):
    """Whole seconds; what is given is enough for a machine that does nothing else."""
    scale = os.environ.get("JANUS_TIME_SCALE") or ("10" if os.environ.get("CI") else "1")
    return math.ceil(seconds * float(scale))


TIMEOUT = f"--timeout={limit(300)}s"  # what kubectl and Helm are told
