"""The seed and the time limits of the tests in Python, as tests/support has them for those in C++."""

import math
import os
import sys

# kDefaultSeed of tests/support/random.h.
DEFAULT_SEED = 1


def draw_seed():
    """JANUS_SEED if it is set, else DEFAULT_SEED. Says which, so that a failure can be run again."""
    seed = int(os.environ.get("JANUS_SEED", DEFAULT_SEED))
    print(f"JANUS_SEED={seed}", file=sys.stderr)
    return seed


def time_scale(environment=os.environ):
    """How much longer time limits are than on a fast machine with nothing else to do (time_scale.h). Programs with a
    sanitizer say so by JANUS_SANITIZE."""
    given = environment.get("JANUS_TIME_SCALE")
    if given is None:
        return 10.0 if environment.get("CI") or environment.get("JANUS_SANITIZE") else 1.0
    try:
        scale = float(given)
    except ValueError:
        scale = 0.0
    if not (math.isfinite(scale) and scale > 0):
        sys.exit(f"JANUS_TIME_SCALE: '{given}' is not a positive number")
    return scale


def scaled(seconds):
    """A limit after which a test says that what should have come never comes. Not for a wait after which a test says
    that nothing came."""
    return seconds * time_scale()
