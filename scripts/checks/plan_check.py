#!/usr/bin/env python3
"""Checks that .ci/gate.toml and .ci/nightly.toml fit the tree and the time limit of a change."""

import pathlib
import re
import sys
import tomllib

import gate
import shards

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_MINUTES = 60
# Suites that draw from JANUS_SEED, and for which one seed is enough.
ONE_SEED = {
    "test_support_python",  # it tests how a seed is drawn
}
ROOMS = ["common", "kernels", "proto", "rpc", "controllers", "hub", "dataplane", "operator", "cli", "tests"]


def drawing_suites():
    """The suites of ctest with a source that draws from JANUS_SEED, from tests/**/CMakeLists.txt."""
    found = set()
    for file in sorted((ROOT / "tests").rglob("CMakeLists.txt")):
        text = file.read_text()
        suites = re.findall(r"\bjanus_test\(\s*(\w+)\s(.*?)\bDEPS\b", text, re.S)
        suites += re.findall(r"\badd_test\(NAME (\w+)\s(.*?)\)$", text, re.S | re.M)
        for name, words in suites:
            words = words.replace("${CMAKE_SOURCE_DIR}", str(ROOT)).replace("${CMAKE_CURRENT_SOURCE_DIR}", str(file.parent))
            for source in re.findall(r"[\w./-]+\.(?:cc|py)\b", words):
                path = file.parent / source
                if path.exists() and re.search(r"\b(TestSeed|draw_seed)\(\)", path.read_text()):
                    found.add(name)
    return sorted(found)


def drawing_cluster_suites():
    """The suites of e2e/ that draw from JANUS_SEED."""
    draws = re.compile(r"""\bself\.seed\(\)|environ\.get\("JANUS_SEED\"""")
    return sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("e2e/*/*_test.py") if draws.search(p.read_text()))


def complaints():
    plan = tomllib.loads((ROOT / ".ci" / "gate.toml").read_text())
    if (total := sum(plan["phases"].values())) > MOST_MINUTES:
        yield f".ci/gate.toml: the phases' budgets come to {total} minutes, more than {MOST_MINUTES}"
    for name in plan["phases"]:
        if not callable(getattr(gate.Gate, name, None)):
            yield f".ci/gate.toml: '{name}' is no phase of scripts/checks/gate.py"
    all_shards = shards.load()
    names = [s.name for s in all_shards]
    yield from (f".ci/nightly.toml: two shards are named {n}" for n in sorted({n for n in names if names.count(n) > 1}))
    run = plan["core_suites"] + [suite for s in all_shards for suite in s.suites]
    there = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("e2e/*/*_test.py"))
    for suite in there:
        if suite not in run and not any(suite in s.run for s in all_shards):
            yield f"{suite}: neither .ci/gate.toml nor .ci/nightly.toml runs it"
    yield from (f"{suite}: no such suite, and .ci/ names it" for suite in run if suite not in there)
    tidied = re.findall(r"[\w/]+", " ".join(s.run.partition("--under")[2] for s in all_shards))
    for source in sorted(str(p.relative_to(ROOT)) for room in ROOMS for p in (ROOT / room).rglob("*.cc")):
        if not any(source.startswith(folder + "/") for folder in tidied):
            yield f"{source}: no shard of .ci/nightly.toml runs clang-tidy over it"
    seeded = [s for s in all_shards if s.fresh_seed]
    unseeded = [suite for suite in drawing_suites()
                if suite not in ONE_SEED and not any(re.search(pattern, suite) for s in seeded for pattern in s.tests)]
    unseeded += [suite for suite in drawing_cluster_suites() if not any(suite in s.suites for s in seeded)]
    yield from (f"{suite} draws from JANUS_SEED: no shard of .ci/nightly.toml with fresh_seed runs it" for suite in unseeded)
    for shard in all_shards:
        for source in shard.sources:
            if not (ROOT / source).exists():
                yield f".ci/nightly.toml: {shard.name}: no {source}"


def main():
    found = list(complaints())
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
