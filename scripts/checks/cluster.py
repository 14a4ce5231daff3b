"""Runs suites of e2e/ through e2e/run.py, which reports each of them."""

import json
import os
import time

import process
from outcome import Failure, Outcome


def run(name, suites, log, lanes=2, until=None, shown=True, environment=None):
    """`environment`: more variables. Raises process.Cut at `until`, and after an interrupt."""
    begun = time.monotonic()
    outcome = Outcome(name)
    report = log.with_suffix(".json")
    report.unlink(missing_ok=True)
    # Under CI other tests wait ten times as long. Here a hanging suite would then take the time of the whole run.
    patience = {"JANUS_TIME_SCALE": os.environ.get("JANUS_TIME_SCALE", "3")}
    status = process.run(f"python3 -B e2e/run.py --json {report} {lanes} {' '.join(suites)}", log, until,
                         {**patience, **(environment or {})}, shown)
    if process.was_interrupted(status):
        raise process.Cut  # which says nothing about the suites
    outcome.seconds = time.monotonic() - begun
    try:
        told = json.loads(report.read_text())
    except (OSError, ValueError):
        told = []
    for suite in told:
        outcome.passed += suite["passed"]
        if suite["status"] == "skipped" or suite["skipped"]:
            outcome.skipped.append((suite["suite"], suite.get("reason") or "some of its tests cannot run here",
                                    max(suite["skipped"], 1)))
        for failure in suite["failures"]:
            outcome.failures.append(Failure(suite["suite"], failure["test"], failure["repeat"], failure.get("reason") or ""))
        if suite["status"] == "failed" and not suite["failures"]:
            outcome.failures.append(Failure(suite["suite"], "", f"python3 -B {suite['suite']}", suite.get("reason") or ""))
        outcome.suites.append((suite["suite"], suite["seconds"], suite["status"]))
    silent = set(suites) - {suite["suite"] for suite in told}
    outcome.failures += [Failure(suite, "", f"python3 -B {suite}", "it told no result") for suite in sorted(silent)]
    if status != 0 and not outcome.failures:
        outcome.failures.append(Failure("e2e/run.py", "", f"python3 -B e2e/run.py {lanes} {' '.join(suites)}",
                                        f"it ended with {status}"))
    return outcome
