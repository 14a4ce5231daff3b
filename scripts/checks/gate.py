"""All phases of the gate: scripts/test [quick] [PHASE...]

Runs every phase that can still run after a failure, and ends with one list of failures and how to repeat them. The last
line is 'N passed, N failed, N skipped'. `quick`: the build, its tests and one served prompt. PHASE: only these.

Phases: packages, lint, build, tests, served, cluster (the core suites of e2e/), tidy (of what changed lately).
JANUS_REQUIRE names what this machine must be able to run ("api node images"); if it cannot, this is a failure. After its
verdict the gate runs the stalest shards of scripts/nightly for eight minutes (JANUS_STALEST_MINUTES). A red shard is
reported first and last, but does not change the verdict. Logs and times are in build/gate/.
"""

import json
import os
import subprocess
import sys
import time
import tomllib

import builds
import cluster
import ctest
import nightly
import process
import shards
from outcome import Failure, Outcome, problems, times_table, verdict

LOGS = process.ROOT / "build" / "gate"
TIDY_REPORT = LOGS / "tidy.json"
LAST_SECOND = 80 * 60  # the latest end of nightly shards: a whole run may take ninety minutes


class Gate:
    def __init__(self, plan, quick, names):
        self.plan = plan
        self.quick = quick
        self.with_tidy = "tidy" in names
        self.cluster_programs = None
        self.tidy_run = None
        self.tidy_command = f"scripts/lint tidy --commits {plan['tidy_commits']} --most {plan['tidy_most']} --json {TIDY_REPORT}"

    def packages(self):
        groups = "build test" if self.quick else "build test cluster images"
        return self._command("packages", f"scripts/deps {groups}")

    def lint(self):
        outcome = Outcome("lint")
        listed = subprocess.run(["scripts/lint", "list"], cwd=process.ROOT, capture_output=True, text=True, check=True)
        for check in listed.stdout.split():
            outcome.add(self._command("lint", f"scripts/lint {check}", check))
        return outcome

    def build(self):
        if not self.quick:
            self.cluster_programs = self._start("command -v go >/dev/null || exit 0; e2e/build/build node",
                                                LOGS / "cluster-programs.log")
        return builds.build("build", "dev", [], LOGS / "build.log")

    def tests(self):
        names = [name for name, suite in ctest.suites("build/dev").items() if "nightly" not in suite["labels"]]
        if not names:
            return Outcome("tests", failures=[Failure("ctest", "", "cmake --preset dev", "no test is configured")])
        return ctest.run("tests", "build/dev", names, LOGS / "tests.log")

    def served(self):
        return self._command("served", "scripts/quickstart --no-deps")

    def cluster(self):
        if self.cluster_programs is not None:
            if self._end(self.cluster_programs) != 0:
                print(process.tail(self.cluster_programs[2]), flush=True)
            self.cluster_programs = None
        # Clusters wait more than they compute: clang-tidy works in between.
        if self.with_tidy:
            self._start_tidy()
        return cluster.run("cluster", self.plan["core_suites"], LOGS / "cluster.log")

    def tidy(self):
        outcome = Outcome("tidy")
        if self.tidy_run is None:
            self._start_tidy()
        process.yield_no_more(self.tidy_run[0])
        status = self._end(self.tidy_run)
        print((LOGS / "tidy.log").read_text(errors="replace"), flush=True)
        if not TIDY_REPORT.exists():
            outcome.failures.append(Failure("clang-tidy", "", self.tidy_command, f"it ended with {status}"))
            return outcome
        told = json.loads(TIDY_REPORT.read_text())
        outcome.passed = len(told["clean"])
        outcome.failures = [Failure("clang-tidy", file, f"scripts/lint tidy {file}") for file in told["failed"]]
        if told["left"]:
            outcome.skipped.append(("clang-tidy", f"{len(told['left'])} more changed files are left to scripts/nightly",
                                    len(told["left"])))
        return outcome

    def stop(self):
        process.kill_all()

    def _command(self, phase, command, check=""):
        begun = time.monotonic()
        outcome = Outcome(phase)
        log = LOGS / f"{phase}{'-' + check if check else ''}.log"
        if process.run(command, log) == 0:
            outcome.passed = 1
        else:
            outcome.failures.append(Failure(check, "", command))
        if check:
            outcome.suites.append((f"{phase} {check}", time.monotonic() - begun, "failed" if outcome.failures else "passed"))
        return outcome

    def _start_tidy(self):
        TIDY_REPORT.unlink(missing_ok=True)
        self.tidy_run = self._start(self.tidy_command, LOGS / "tidy.log")

    # What runs beside a phase does so at the lowest priority: (process, log, its path).
    def _start(self, command, path):
        log = open(path, "wb")  # pylint: disable=consider-using-with
        return process.start(command, log, nice=19), log, path

    def _end(self, started):
        running, log, _ = started
        status = process.end(running)
        log.close()
        return status


def run_phases(gate, names):
    outcomes = []
    for name in names:
        minutes = gate.plan["phases"][name]
        print(f"\n=== {name}", flush=True)
        begun = time.monotonic()
        try:
            outcome = getattr(gate, name)()
        except Exception as error:  # pylint: disable=broad-exception-caught  # the other phases can still run
            outcome = Outcome(name, failures=[Failure("", "", f"scripts/test {name}", repr(error))])
        outcome.name = name
        outcome.seconds = time.monotonic() - begun
        outcomes.append(outcome)
        print(f"=== {name}: {outcome.seconds:.0f} s of {60 * minutes}: {verdict([outcome])}", flush=True)
        if outcome.seconds > 90 * minutes:
            print(f"=== warning: {name} took more than half again its budget", flush=True)
    return outcomes


def write_times(outcomes, all_shards):
    rows = []
    for outcome in outcomes:
        rows.append(("phase", outcome.name, outcome.seconds, 0, "failed" if outcome.failures else "passed"))
        rows += [("suite", f"{outcome.name}: {name}", seconds, 0, how) for name, seconds, how in outcome.suites]
    for shard in all_shards:
        now, record = shards.state(shard)
        if record and record.get("seconds") is not None:
            rows.append(("shard", shard.name, record["seconds"], record.get("built") or 0, now))
    (LOGS / "times.csv").write_text(times_table(rows))
    longest = sorted((row for row in rows if row[0] == "suite"), key=lambda row: -row[2])[:12]
    print("\nWhat took longest (all of it: build/gate/times.csv)")
    for _, name, seconds, *_ in longest:
        print(f"  {seconds:6.0f} s  {name}")


def main():
    words = sys.argv[1:]
    if words and words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    quick = "quick" in words
    with open(process.ROOT / ".ci" / "gate.toml", "rb") as file:
        plan = tomllib.load(file)
    named = [w for w in words if w != "quick"]
    unknown = [w for w in named if w not in plan["phases"]]
    if unknown:
        print(f"scripts/test: '{unknown[0]}' is no phase; {', '.join(plan['phases'])} are", file=sys.stderr)
        return 2
    names = named or [n for n in plan["phases"] if not (quick and n in ("cluster", "tidy", "lint"))]
    whole = not named and not quick
    LOGS.mkdir(parents=True, exist_ok=True)
    all_shards = shards.load()
    if whole:
        for line in nightly.red_lines(all_shards):
            print(line)
    gate = Gate(plan, quick, names)
    begun = time.monotonic()
    try:
        outcomes = run_phases(gate, names)
        print(f"\nThe gate took {time.monotonic() - begun:.0f} s.")
        for line in problems(outcomes):
            print(line)
        print(verdict(outcomes), flush=True)
        if whole:
            minutes = min(float(os.environ.get("JANUS_STALEST_MINUTES", plan["stalest_minutes"])),
                          (LAST_SECOND - (time.monotonic() - begun)) / 60)
            if minutes > 0:
                print(f"\n=== nightly: the stalest shards, for {minutes:.0f} minutes at the most", flush=True)
                nightly.stalest(all_shards, minutes)
        write_times(outcomes, all_shards)
        print()
        for line in problems(outcomes):
            print(line)
        if whole:
            for line in nightly.red_lines(all_shards):
                print(line)
        print(verdict(outcomes), flush=True)
        return int(any(o.failures for o in outcomes))
    finally:
        gate.stop()


if __name__ == "__main__":
    process.end_on_signals()
    sys.exit(main())
