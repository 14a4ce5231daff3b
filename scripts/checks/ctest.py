"""Runs ctest and reports which tests of which suite failed. A suite is one of ctest's tests: often a GoogleTest program."""

import json
import pathlib
import re
import shlex
import subprocess
import time
import xml.etree.ElementTree

import process
from outcome import Failure, Outcome

HUNG_SECONDS = 1800  # ends a hanging test; normal tests take much less


def suites(folder):
    """{name: {"command": [...], "labels": [...]}} of a configured build folder."""
    done = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], cwd=process.ROOT, capture_output=True,
                          text=True, check=True)
    found, commands = {}, _commands(folder)
    for test in json.loads(done.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        found[test["name"]] = {"command": test.get("command") or commands.get(test["name"], []),
                               "labels": properties.get("LABELS", []),
                               "environment": properties.get("ENVIRONMENT", [])}
    return found


def _commands(folder):
    """Commands by suite, also for programs that are not built yet, for which ctest reports no command."""
    commands = {}
    for file in (process.ROOT / folder).rglob("CTestTestfile.cmake"):
        for name, words in re.findall(r"^add_test\((?:\[=\[)?([\w.-]+)(?:\]=\])? (.*)\)$", file.read_text(), re.M):
            commands[name] = shlex.split(words)
    return commands


def programs_of(names, found, folder):
    """The ninja targets of the programs that these suites run."""
    bin_folder = str(process.ROOT / folder / "bin") + "/"
    goals = set()
    for name in names:
        for word in found[name]["command"]:
            if word.startswith(bin_folder) and "/" not in word[len(bin_folder):]:
                goals.add("bin/" + word[len(bin_folder):])
    return sorted(goals)


def _gtest_command(suite, found, test):
    """The command for one case; None: the suite is not a GoogleTest program."""
    command = found.get(suite, {}).get("command", [])
    # ctest repeats what runs with flags or variables of its own.
    if len(command) > 1 or found.get(suite, {}).get("environment"):
        return None
    if not command or not re.fullmatch(r"[\w/]+\.[\w/]+", test):
        return None
    program = pathlib.Path(command[0])
    try:
        program = program.relative_to(process.ROOT)
    except ValueError:
        return None
    return f"{program} --gtest_filter={shlex.quote(test)}"


def _failed_cases(text):
    """The failed cases of GoogleTest, pytest or unittest in a suite's output."""
    cases = re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", text, re.M)
    cases += [name for name in re.findall(r"^FAILED (\S+)", text, re.M) if "::" in name]
    # Newer versions of unittest already write the test's name into the brackets.
    cases += [where if where.endswith("." + name) else f"{where}.{name}"
              for name, where in re.findall(r"^(?:FAIL|ERROR): (\w+) \(([\w.]+)\)", text, re.M)]
    return sorted(set(cases))


def _count(text):
    """(passed, skipped) cases from the suite's output; (1, 0) if it reports none."""
    passed = [int(n) for n in re.findall(r"^\[  PASSED  \] (\d+) tests?\.", text, re.M)]
    skipped = [int(n) for n in re.findall(r"^\[  SKIPPED \] (\d+) tests?[,.]", text, re.M)]
    if passed:
        return sum(passed), sum(skipped)
    told = re.search(r"^Ran (\d+) tests? in ", text, re.M)
    if told:
        left_out = re.search(r"^(?:OK|FAILED) \(.*?skipped=(\d+)", text, re.M)
        skipped = int(left_out.group(1)) if left_out else 0
        return max(int(told.group(1)) - skipped, 0), skipped
    told = re.search(r"(\d+) passed(?:, (\d+) skipped)?.* in [\d.]+s", text)
    if told:
        return int(told.group(1)), int(told.group(2) or 0)
    return 1, 0


def _run_once(name, folder, names, log, lanes, until, environment, shown):
    begun = time.monotonic()
    outcome = Outcome(name)
    junit = process.ROOT / folder / "junit.xml"
    junit.unlink(missing_ok=True)
    pattern = "^(" + "|".join(re.escape(n) for n in names) + ")$"
    status = process.run(
        f"ctest --test-dir {folder} -R {shlex.quote(pattern)} --output-on-failure --no-tests=error -j{lanes} "
        f"--timeout {HUNG_SECONDS} --test-output-size-passed 65536 --test-output-size-failed 1048576 "
        f"--output-junit {junit}", log, until, {"GTEST_BRIEF": "1", **(environment or {})}, shown)
    outcome.seconds = time.monotonic() - begun
    found = suites(folder)
    if not junit.exists():
        if process.was_interrupted(status):
            raise process.Cut  # which says nothing about the suites
        outcome.failures.append(Failure("ctest", "", f"ctest --test-dir {folder}", f"it ended with {status}"))
        return outcome
    for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        suite, seconds = case.get("name"), float(case.get("time") or 0)
        text = case.findtext("system-out") or ""
        again = f"ctest --test-dir {folder} --output-on-failure -R '^{suite}$'"
        skip = case.find("skipped")
        why_not = skip.get("message") or "" if skip is not None else ""
        if case.get("status") == "run":
            passed, skipped = _count(text)
            outcome.passed += passed
            if skipped:
                outcome.skipped.append((suite, f"{skipped} of its cases skip themselves", skipped))
            outcome.suites.append((suite, seconds, "passed"))
        elif "SKIP" in why_not or case.get("status") == "disabled":
            outcome.skipped.append((suite, "it cannot run here", 1))
            outcome.suites.append((suite, seconds, "skipped"))
        else:
            cases = _failed_cases(text)
            if "[  PASSED  ]" in text:
                passed, skipped = _count(text)
                outcome.passed += passed
                if skipped:
                    outcome.skipped.append((suite, f"{skipped} of its cases skip themselves", skipped))
            seed = re.search(r"^JANUS_SEED=(\d+)", text, re.M)
            before = f"JANUS_SEED={seed.group(1)} " if seed else ""
            why = "its program was not built" if "Unable to find executable" in why_not else why_not
            for test in cases or [""]:
                outcome.failures.append(
                    Failure(suite, test, before + (_gtest_command(suite, found, test) or again), "" if cases else why))
            outcome.suites.append((suite, seconds, "failed"))
    return outcome


def run(name, folder, names, log, lanes=3, until=None, environment=None, shown=True):
    """Runs these suites of a build folder. Those labelled `timing` run last, one at a time, and once more if they fail: a
    pass is then reported as FLAKY. Raises process.Cut at `until`."""
    begun = time.monotonic()
    found = suites(folder)
    timing = [n for n in names if "timing" in found[n]["labels"]]
    others = [n for n in names if n not in timing]
    outcome = Outcome(name)
    if others:
        outcome.add(_run_once(name, folder, others, log, lanes, until, environment, shown))
    if timing:
        log = log.with_name(log.name + ".timing")
        part = _run_once(name, folder, timing, log, 1, until, environment, shown)
        again = sorted({f.suite for f in part.failures if f.suite in timing})
        if again:
            second = _run_once(name, folder, again, log.with_name(log.name + ".again"), 1, until, environment, shown)
            still = {f.suite for f in second.failures}
            part.failures = [f for f in part.failures if f.suite not in again] + second.failures
            part.suites = [s for s in part.suites if s[0] not in again] + second.suites
            part.passed += second.passed
            part.flaky += [suite for suite in again if suite not in still]
        outcome.add(part)
    outcome.seconds = time.monotonic() - begun
    return outcome
