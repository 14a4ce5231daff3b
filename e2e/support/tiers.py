"""Tiers are what a machine may lack. JANUS_REQUIRE="node images" names the tiers that it must have."""

import os
import unittest

# Each tier with the tier that it needs.
TIERS = {"build": None, "api": "build", "node": "api", "images": "node", "cuda": None, "ucx": None, "rdma": None}


def required():
    """The tiers that are named, and those that they need."""
    found = set()
    for tier in os.environ.get("JANUS_REQUIRE", "").split():
        if tier not in TIERS:
            raise ValueError(f"JANUS_REQUIRE: '{tier}' is no tier; {', '.join(TIERS)} are")
        while tier is not None:
            found.add(tier)
            tier = TIERS[tier]
    return found


def cannot_run(tier, reason):
    """Skips the calling test or class, or fails it if the tier is required."""
    if tier in required():
        raise AssertionError(f"JANUS_REQUIRE names {tier}, or what stands on it: {reason}")
    raise unittest.SkipTest(reason)
