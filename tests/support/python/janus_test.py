"""The seed and the time limits of the tests in Python, like tests/support for the C++ tests."""

import math
import os
import sys

# kDefaultSeed of tests/support/random.h.
DEFAULT_SEED = 1


def draw_seed():
    """JANUS_SEED if it is set, otherwise DEFAULT_SEED. Prints it, so that a failed run can be repeated."""
    seed = int(os.environ.get("JANUS_SEED", DEFAULT_SEED))
    print(f"JANUS_SEED={seed}", file=sys.stderr)
    return seed


def time_scale(environment=os.environ):
    """How much longer time limits are than on a fast idle machine (time_scale.h). JANUS_SANITIZE marks programs
    with a sanitizer."""
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
    """For a limit after which a test concludes that an event never comes. Not for a wait after which a test concludes
    that no event came."""
    return seconds * time_scale()
