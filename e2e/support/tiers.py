"""What a machine may lack, by tier, and whether it may: JANUS_REQUIRE="node images" names what must be there."""

import os
import unittest

# Each with the one that it stands on.
TIERS = {"build": None, "api": "build", "node": "api", "images": "node", "cuda": None, "ucx": None}


def required():
    """Those that are named, and what they stand on."""
    found = set()
    for tier in os.environ.get("JANUS_REQUIRE", "").split():
        if tier not in TIERS:
            raise ValueError(f"JANUS_REQUIRE: '{tier}' is no tier; {', '.join(TIERS)} are")
        while tier is not None:
            found.add(tier)
            tier = TIERS[tier]
    return found


def cannot_run(tier, reason):
    """Skips the test or class that calls it, or fails it where the tier is required."""
    if tier in required():
        raise AssertionError(f"JANUS_REQUIRE names {tier}, or what stands on it: {reason}")
    raise unittest.SkipTest(reason)
