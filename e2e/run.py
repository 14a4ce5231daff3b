"""Runs suites, several at a time: python3 e2e/run.py [--json FILE] LANES SUITE...

A suite mostly waits for its cluster, and each has a separate cluster. The output of a suite is shown when it has ended. All
suites run, even after a failure. The end lists the result of each, and how to repeat what failed. The exit code is 1 if any
failed. FILE gets the same as a list of {suite, seconds, status: passed|failed|skipped, passed: N, failed: N, skipped: N,
failures: [{test, repeat}], reason}. It is rewritten after each suite; a suite that has not ended is in it as failed, with
that reason. JANUS_REQUIRE names tiers whose suites must not be skipped (support/tiers.py).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "e2e" / "support"))

from tiers import required  # noqa: E402


def repeat(suite, *tests):
    """The command that runs it again, with the environment variables that tests use."""
    variables = [f"{name}={value}" for name, value in sorted(os.environ.items())
                 if name == "KUBECONFIG" or (name.startswith("JANUS_") and name != "JANUS_CLUSTER")]
    return shlex.join([*variables, "python3", "-B", suite, *tests])


def last_line(text):
    return (text.strip().splitlines() or [""])[-1][:300]


def fold(suite, lines, code):
    """The result of a suite without its seconds. `lines`: from run_suite.py, and the exit code."""
    planned, outcomes, reasons = [], {}, {}
    for line in lines:
        if "planned" in line:
            planned = line["planned"]
        elif outcomes.get(line["test"]) != "failed":
            outcomes[line["test"]], reasons[line["test"]] = line["outcome"], line["reason"]
    failed = [test for test, outcome in outcomes.items() if outcome in ("failed", "begun")]
    # A test, or a class that was skipped as a whole.
    skipped = {test for test in planned if outcomes.get(test, outcomes.get(test.split(".")[0])) == "skipped"}
    why = [reasons[test] for test, outcome in outcomes.items() if outcome == "skipped"]
    failures = [{"test": test, "repeat": repeat(suite, test), "reason": last_line(reasons[test]) or "not run to its end"}
                for test in failed]
    if failures:
        ended = [] if code in (0, 1) else [f"it ended with {code} in the middle of a test"]
        why = ended + [f"{test}: {last_line(reasons[test]) or 'not run to its end'}" for test in failed]
    elif code != 0 or not planned:
        failures = [{"test": "", "repeat": repeat(suite)}]
        why = [f"it ended with {code}" if code != 0 else "it has no tests"]
    passed = [test for test in planned if outcomes.get(test) == "passed"]
    status = "failed" if failures else "passed" if passed else "skipped"
    return {"suite": suite, "status": status, "passed": len(passed), "failed": len(failures), "skipped": len(skipped),
            "failures": failures, "reason": "; ".join(dict.fromkeys(why))}


def slowest(lines):
    """The longest parts of a suite, as text: tests, and the setup before the first."""
    took, begun = {}, {}
    for line in lines:
        if line.get("outcome") == "begun":
            if not begun:
                took["coming up"] = line["at"] - lines[0]["at"]
            begun[line["test"]] = line["at"]
        elif line.get("test") in begun:
            took[line["test"]] = line["at"] - begun[line["test"]]
    longest = sorted(took, key=took.get, reverse=True)[:4]
    return ", ".join(f"{test} {took[test]:.0f} s" for test in longest if took[test] >= 5)


class Lanes:
    def __init__(self, suites, report):
        self.suites = suites
        self.report = report
        self.lock = threading.Lock()
        self.results = {}

    def run(self, suite):
        with self.lock:
            print(f"--- {suite}: begins", flush=True)
        begun = time.monotonic()
        with tempfile.NamedTemporaryFile("r", prefix="janus-suite-", encoding="utf-8") as book:
            done = subprocess.run([sys.executable, "-B", "e2e/support/run_suite.py", suite, book.name], cwd=ROOT,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", check=False)
            # If the suite was killed, its last line may be incomplete.
            lines = [json.loads(line) for line in book if line.endswith("\n")]
        seconds = time.monotonic() - begun
        with self.lock:
            self.results[suite] = {**fold(suite, lines, done.returncode), "seconds": round(seconds, 1)}
            longest = f"; {slowest(lines)}" if slowest(lines) else ""
            print(f"{done.stdout}--- {suite}: {seconds:.0f} s, {self.results[suite]['status']}{longest}", flush=True)
            self.write()

    def all(self):
        """In the order of the arguments."""
        def unfinished(suite):
            return {"suite": suite, "status": "failed", "passed": 0, "failed": 1, "skipped": 0, "seconds": 0,
                    "failures": [{"test": "", "repeat": repeat(suite)}], "reason": "not run to its end"}
        return [self.results.get(suite) or unfinished(suite) for suite in self.suites]

    def write(self):
        if self.report is None:
            return
        new = self.report.with_name(self.report.name + ".new")
        new.write_text(json.dumps(self.all(), indent=1) + "\n", encoding="utf-8")
        new.rename(self.report)

    def print(self):
        print("\n=== suites")
        for one in self.all():
            counts = ", ".join(f"{one[what]} {what}" for what in ("passed", "failed", "skipped") if one[what])
            print(f"{one['status']:8}{one['seconds']:5.0f} s  {one['suite']}: {counts}")
            if one["reason"]:
                print(f"{'':17}{one['reason']}")
            for failure in one["failures"]:
                print(f"{'':17}{failure['test'] or 'the suite'}; again: {failure['repeat']}")
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(usage="e2e/run.py [--json FILE] LANES SUITE...")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("lanes", type=int)
    parser.add_argument("suites", nargs="+")
    arguments = parser.parse_args()
    if arguments.lanes < 1:
        parser.error("LANES is at least 1")
    try:
        required()
    except ValueError as error:
        parser.error(str(error))
    suites = [os.path.relpath(suite, ROOT) for suite in arguments.suites]
    lanes = Lanes(suites, arguments.json and arguments.json.absolute())
    lanes.write()
    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.lanes) as pool:
            list(pool.map(lanes.run, suites))
    finally:
        lanes.print()
    return 1 if any(one["status"] == "failed" for one in lanes.all()) else 0


if __name__ == "__main__":
    sys.exit(main())
