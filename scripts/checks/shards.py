"""The shards of scripts/nightly: what each runs and depends on (.ci/nightly.toml), and its kept result."""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import time
import tomllib

import builds
import cluster
import ctest
import process
import tree
from outcome import Failure, Outcome

PLAN = process.ROOT / ".ci" / "nightly.toml"
STORE = process.CACHE / "nightly"

NOT_TO_BE_HAD = 77  # exit status of a command if this machine lacks what it needs


@dataclasses.dataclass
class Shard:
    name: str
    cold_minutes: int  # time with nothing cached; used until a time is recorded
    sources: list
    preset: str = ""  # its build folder has the tests
    tests: list = dataclasses.field(default_factory=list)  # patterns of ctest's names
    rest: bool = False  # all tests of the preset that no other shard names
    targets: list = dataclasses.field(default_factory=list)  # what to build besides the tests' programs
    label: str = ""  # only tests with this ctest label
    without_label: str = ""
    fresh_seed: bool = False
    suites: list = dataclasses.field(default_factory=list)  # suites of e2e/
    run: str = ""  # bash
    family: str = ""


def load():
    with open(PLAN, "rb") as file:
        plan = tomllib.load(file)
    everywhere = plan["every_shard"]["sources"]
    groups = plan["groups"]
    shards = []
    for entry in plan["shard"]:
        sources = []
        for source in entry.pop("sources"):
            sources += groups[source[1:]] if source.startswith("@") else [source]
        shards.append(Shard(sources=sorted(set(sources + everywhere)), **entry))
    return shards


def _names(shard, shards):
    """The suites of ctest that belong to this shard."""
    found = ctest.suites(f"build/{shard.preset}")
    with_label = [n for n, test in found.items()
                  if (not shard.label or shard.label in test["labels"]) and shard.without_label not in test["labels"]]

    def matches(patterns):
        return [n for n in with_label if any(re.search(p, n) for p in patterns)]

    if not shard.rest:
        return matches(shard.tests), found
    taken = set()
    for other in shards:
        if other.preset == shard.preset and other.family == shard.family and not other.rest:
            taken |= set(matches(other.tests))
    return [n for n in with_label if n not in taken], found


def _fresh_seed(shard):
    """A variable with another seed each time, if the shard wants one."""
    return {"JANUS_SEED": str(int.from_bytes(os.urandom(4), "big"))} if shard.fresh_seed else {}


def _run_tests(shard, shards, folder, until, shown):
    configure = f"cmake --preset {shard.preset}"
    if process.run(configure, folder / "configure.log", until, shown=False) != 0:
        return Outcome(shard.name, failures=[Failure(f"{shard.preset} configure", "", configure)])
    names, found = _names(shard, shards)
    goals = ctest.programs_of(names, found, f"build/{shard.preset}") + shard.targets
    outcome = builds.build(shard.name, shard.preset, goals, folder / "build.log", until, shown)
    if names:
        outcome.add(ctest.run(shard.name, f"build/{shard.preset}", names, folder / "tests.log", until=until,
                              environment={"JANUS_NIGHTLY": "1", **_fresh_seed(shard)}, shown=shown))
    return outcome


def _run_suites(shard, folder, until, shown):
    install = "scripts/deps cluster images"
    if process.run(install, folder / "packages.log", until, shown=False) != 0:
        return Outcome(shard.name, failures=[Failure("packages", "", install)])
    built = Outcome(shard.name)
    if shard.targets:
        built = builds.build(shard.name, "dev", shard.targets, folder / "build.log", until, shown)
        if built.failures:
            return built
    told = cluster.run(shard.name, shard.suites, folder / "suites.log", 1, until, shown, _fresh_seed(shard))
    told.suites += built.suites
    told.built = built.built
    return told


def _run_command(shard, folder, until, shown):
    outcome = Outcome(shard.name)
    code = process.run(f"source scripts/checks/steps.sh; {shard.run}", folder / "run.log", until, shown=shown)
    if process.was_interrupted(code):
        raise process.Cut
    if code == 0:
        outcome.passed = 1
    elif code == NOT_TO_BE_HAD:
        outcome.skipped.append((shard.name, "this machine cannot have what it needs", 1))
    else:
        outcome.failures.append(Failure(shard.name, "", f"scripts/nightly {shard.name}"))
    return outcome


def hash_of(shard):
    """Of its sources and of its own entry in the plan."""
    return hashlib.sha256((tree.hash_of(shard.sources) + repr(shard)).encode()).hexdigest()[:16]


def run(shard, shards, limit=None, shown=True):
    """Runs a shard for at most `limit` seconds, and keeps its result. Returns (status, outcome)."""
    folder = STORE / shard.name
    folder.mkdir(parents=True, exist_ok=True)
    sources = hash_of(shard)
    begun = time.monotonic()
    until = None if limit is None else begun + limit
    try:
        if shard.suites:
            outcome = _run_suites(shard, folder, until, shown)
        elif shard.preset:
            outcome = _run_tests(shard, shards, folder, until, shown)
        else:
            outcome = _run_command(shard, folder, until, shown)
        status = "red" if outcome.failures else "green" if outcome.passed else "skipped"
    except process.Cut:
        status, outcome = "cut", Outcome(shard.name)
    except Exception as error:  # a shard must not end the gate or the other shards
        status, outcome = "red", Outcome(shard.name)
        outcome.failures.append(Failure(shard.name, "", f"scripts/nightly {shard.name}", f"{type(error).__name__}: {error}"))
    outcome.seconds = time.monotonic() - begun
    _keep(shard, status, sources, outcome)
    return status, outcome


def _keep(shard, status, sources, outcome):
    """A shard that was cut keeps its older result, which is stale by its old sources, and loses its time: it did not fit."""
    before = kept(shard)
    record = {
        "status": status, "sources": sources, "seconds": round(outcome.seconds - outcome.built, 1),
        "built": round(outcome.built, 1), "at": time.time(),
        "failures": [[f.suite, f.test, f.repeat, f.reason] for f in outcome.failures],
        "skipped": [[what, why] for what, why, _ in outcome.skipped],
        "suites": [[name, round(seconds, 1), how] for name, seconds, how in outcome.suites],
        "flaky": outcome.flaky,
    }
    if status == "cut":
        record = {**(before or {"status": "cut", "sources": "", "failures": []}), "seconds": None, "at": time.time()}
    path = STORE / shard.name / "result.json"
    path.with_suffix(".new").write_text(json.dumps(record, indent=1))
    path.with_suffix(".new").replace(path)


def kept(shard):
    """The kept result of a shard, or None."""
    try:
        return json.loads((STORE / shard.name / "result.json").read_text())
    except (OSError, ValueError):
        return None


def state(shard):
    """(state, record): green, red, skipped, or stale (the shard never ended, or its sources have changed). Red stays red
    until a run ends with another result."""
    record = kept(shard)
    if record is None:
        return "stale", None
    if record["status"] == "red":
        return "red", record
    if record["status"] == "cut" or record["sources"] != hash_of(shard):
        return "stale", record
    return record["status"], record


def expected_seconds(shard):
    record = kept(shard)
    if record and record.get("seconds") is not None:
        return record["seconds"] + min(record.get("built", 0), 60)  # sources that changed are compiled again
    return 60 * shard.cold_minutes


def due(shard):
    """Whether another run would give a new result."""
    now, record = state(shard)
    return now == "stale" or (now == "red" and record["sources"] != hash_of(shard))


def log_folder(shard):
    return pathlib.Path(STORE / shard.name)
