"""Builds a preset, continues after an error, and reports what did not build."""

import re
import time

import process
from outcome import Failure, Outcome


def build(name, preset, targets, log, until=None, shown=True):
    """Configures a preset and builds the targets (all, if there are none). One failure for each target that did not build.
    Raises process.Cut at `until`, and after an interrupt, which says nothing about the targets."""
    begun = time.monotonic()
    outcome = Outcome(name)
    folder = f"build/{preset}"
    goals = " ".join(targets)
    wanted = f"cmake --preset {preset}"
    status = process.run(
        f"mkdir -p {folder}; {wanted} >{folder}/configure.log 2>&1 || {{ cat {folder}/configure.log; exit 90; }}; "
        f"ninja -C {folder} -k 0 --quiet {goals}", log, until, shown=shown)
    outcome.seconds = outcome.built = time.monotonic() - begun
    if status == 90:
        outcome.failures.append(Failure(f"{preset} configure", "", wanted))
    elif status != 0:
        said = log.read_text(errors="replace")
        if "ninja: build stopped: interrupted" in said:
            raise process.Cut
        broken = sorted(set(re.findall(r"^FAILED: (\S+)", said, re.M)))
        for goal in broken or [goals]:
            outcome.failures.append(Failure(f"{preset} build", goal, f"ninja -C {folder} {goal}".rstrip()))
    else:
        outcome.passed = 1
    outcome.suites.append((f"{name} {preset}", outcome.seconds, "failed" if outcome.failures else "passed"))
    return outcome
