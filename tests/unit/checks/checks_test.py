"""The report of scripts/test and scripts/nightly for suites that fail, are skipped, pass on a second try or are cut."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "checks"))

import builds  # noqa: E402
import cluster  # noqa: E402
import ctest  # noqa: E402
import gate  # noqa: E402
import nightly  # noqa: E402
import outcome  # noqa: E402
import process  # noqa: E402
import shards  # noqa: E402
import tree  # noqa: E402


class CtestTest(unittest.TestCase):
    """A build folder with suites that are shell commands."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=ROOT / "build"))
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)
        self.name = str(self.folder.relative_to(ROOT))

    def run_suites(self, text):
        (self.folder / "CTestTestfile.cmake").write_text(textwrap.dedent(text))
        names = list(ctest.suites(self.name))
        return ctest.run("tests", self.name, names, self.folder / "tests.log", shown=False)

    def test_a_failed_case_is_named_with_the_command_that_repeats_it_and_its_seed(self):
        told = self.run_suites(r"""
            add_test(good "sh" "-c" "printf '[  PASSED  ] 3 tests.\n[  SKIPPED ] 2 tests, listed below:\n'")
            add_test(bad "sh" "-c" "printf 'JANUS_SEED=7\n[  FAILED  ] Room.Case (1 ms)\n[  PASSED  ] 4 tests.\n'; exit 1")
            """)
        self.assertEqual(outcome.verdict([told]), "7 passed, 1 failed, 2 skipped")
        (failure,) = told.failures
        self.assertEqual((failure.suite, failure.test), ("bad", "Room.Case"))
        self.assertIn("JANUS_SEED=7 ", failure.repeat)
        self.assertIn("-R '^bad$'", failure.repeat)
        self.assertIn(failure.repeat, "\n".join(outcome.problems([told])))

    def test_a_program_that_was_not_built_is_a_failure(self):
        told = self.run_suites('add_test(gone "/nonexistent/gone_test")')
        self.assertEqual(outcome.verdict([told]), "0 passed, 1 failed, 0 skipped")
        self.assertIn("not built", told.failures[0].reason)

    def test_an_interrupted_ctest_is_no_failure(self):
        with self.assertRaises(process.Cut):
            self.run_suites('add_test(interrupts "sh" "-c" "kill -TERM $PPID; sleep 600")')

    def test_a_program_that_was_not_built_is_among_those_to_build(self):
        program = self.folder / "bin" / "gone_test"
        (self.folder / "CTestTestfile.cmake").write_text(f'add_test([=[gone]=] "{program}" "--flag")\n')
        found = ctest.suites(self.name)
        self.assertEqual(ctest.programs_of(["gone"], found, self.name), ["bin/gone_test"])

    def test_a_case_of_googletest_is_repeated_by_its_program(self):
        program = str(ROOT / "build" / "dev" / "bin" / "room_test")
        found = {"room": {"command": [program]}}
        self.assertEqual(ctest._gtest_command("room", found, "Room/Case.X/1"),
                         "build/dev/bin/room_test --gtest_filter=Room/Case.X/1")

    def test_a_suite_that_cannot_run_here_is_skipped(self):
        told = self.run_suites("""
            add_test(elsewhere "sh" "-c" "exit 77")
            set_tests_properties(elsewhere PROPERTIES SKIP_RETURN_CODE 77)
            """)
        self.assertEqual(outcome.verdict([told]), "0 passed, 0 failed, 1 skipped")

    def test_a_suite_about_time_is_tried_twice_and_no_other_is(self):
        tries = self.folder / "tries"
        told = self.run_suites(f"""
            add_test(late "sh" "-c" "test -e {tries}.late || {{ touch {tries}.late; exit 1; }}")
            add_test(never "sh" "-c" "exit 1")
            set_tests_properties(late never PROPERTIES LABELS timing)
            add_test(untimed "sh" "-c" "test -e {tries} || {{ touch {tries}; exit 1; }}")
            """)
        self.assertEqual(told.flaky, ["late"])
        self.assertEqual(sorted(f.suite for f in told.failures), ["never", "untimed"])
        self.assertIn("FLAKY", "\n".join(outcome.problems([told])))


class BuildTest(unittest.TestCase):
    def build(self, said):
        """`said` is what ninja printed before it ended with an error."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            log.write_text(said)
            with unittest.mock.patch.object(process, "run", return_value=2):
                return builds.build("build", "dev", [], log)

    def test_each_target_that_did_not_build_is_a_failure(self):
        told = self.build("FAILED: one.o \nFAILED: two.o \nninja: build stopped: cannot make progress due to previous errors.\n")
        self.assertEqual([failure.test for failure in told.failures], ["one.o", "two.o"])

    def test_an_interrupted_build_is_no_failure(self):
        with self.assertRaises(process.Cut):
            self.build("FAILED: one.o \nninja: build stopped: interrupted by user.\n")


class ClusterTest(unittest.TestCase):
    def run_suites(self, status, told=None):
        """`status` is that of e2e/run.py, and `told` its report."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "cluster.log"

            def run(*_):
                if told is not None:
                    log.with_suffix(".json").write_text(json.dumps(told))
                return status

            with unittest.mock.patch.object(process, "run", side_effect=run):
                return cluster.run("cluster", ["e2e/room_test.py"], log)

    def test_interrupted_suites_are_no_failure(self):
        for status in (-9, -15, 130, 143):
            with self.assertRaises(process.Cut):
                self.run_suites(status)

    def test_a_crash_is_a_failure_of_what_told_nothing(self):
        for status in (-11, 134, 139):
            (failure,) = self.run_suites(status).failures
            self.assertEqual((failure.suite, failure.reason), ("e2e/room_test.py", "it told no result"))

    def test_an_error_after_the_last_suite_is_a_failure(self):
        passed = {"suite": "e2e/room_test.py", "status": "passed", "passed": 2, "skipped": 0, "failures": [], "seconds": 1}
        self.assertEqual(self.run_suites(0, [passed]).failures, [])
        for status in (1, 139):
            (failure,) = self.run_suites(status, [passed]).failures
            self.assertEqual((failure.suite, failure.reason), ("e2e/run.py", f"it ended with {status}"))
            self.assertIn("e2e/run.py 2 e2e/room_test.py", failure.repeat)
        failed = passed | {"status": "failed", "failures": [{"test": "Room.test", "repeat": "again"}]}
        (failure,) = self.run_suites(1, [failed]).failures
        self.assertEqual(failure.test, "Room.test")


class CountTest(unittest.TestCase):
    def test_cases_that_unittest_leaves_out_do_not_count_as_passed(self):
        self.assertEqual(ctest._count("Ran 5 tests in 0.1s\n\nOK (skipped=2)\n"), (3, 2))
        self.assertEqual(ctest._count("Ran 5 tests in 0.1s\n\nFAILED (failures=1, skipped=2)\n"), (3, 2))
        self.assertEqual(ctest._count("Ran 5 tests in 0.1s\n\nOK\n"), (5, 0))

    def test_a_case_of_unittest_is_named_once(self):
        self.assertEqual(ctest._failed_cases("FAIL: test_x (a_test.A.test_x)\nERROR: test_y (a_test.A)\n"),
                         ["a_test.A.test_x", "a_test.A.test_y"])


class TimesTest(unittest.TestCase):
    def test_each_phase_and_suite_has_its_seconds(self):
        phase = outcome.Outcome("tests", seconds=70.0, suites=[("bits", 57.4, "passed"), ("comm", 3.0, "failed")])
        phase.failures.append(outcome.Failure("comm", "", "ctest -R comm"))
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(gate, "LOGS", pathlib.Path(folder)):
            gate.write_times([phase], [])
            self.assertEqual((pathlib.Path(folder) / "times.csv").read_text().splitlines(), [
                "kind,name,seconds,building,result", "phase,tests,70,0,failed", "suite,tests: bits,57,0,passed",
                "suite,tests: comm,3,0,failed"])


class ShardTest(unittest.TestCase):
    def setUp(self):
        store = tempfile.TemporaryDirectory()
        self.addCleanup(store.cleanup)
        self.addCleanup(setattr, shards, "STORE", shards.STORE)
        shards.STORE = pathlib.Path(store.name)
        self.source = pathlib.Path(tempfile.mkstemp(dir=ROOT, prefix="shard-source-")[1])
        self.addCleanup(self.source.unlink)

    def shard(self, command, name="one", minutes=1):
        return shards.Shard(name=name, cold_minutes=minutes, sources=[self.source.name], run=command)

    def change_the_source(self):
        self.source.write_text(self.source.read_text() + "more\n")
        tree._hash.cache_clear()
        tree.files.cache_clear()

    def run_shard(self, shard, limit=None):
        tree.files.cache_clear()
        return shards.run(shard, [shard], limit, shown=False)[0]

    def test_what_never_ran_is_stale_and_counts_its_cold_budget(self):
        shard = self.shard("true", minutes=3)
        self.assertEqual(shards.state(shard)[0], "stale")
        self.assertEqual(shards.expected_seconds(shard), 180)
        self.assertEqual(nightly.exit_status([shard]), 3)

    def test_green_becomes_stale_when_a_source_changes(self):
        shard = self.shard("true")
        self.assertEqual(self.run_shard(shard), "green")
        self.assertEqual(shards.state(shard)[0], "green")
        self.assertLess(shards.expected_seconds(shard), 60)
        self.assertEqual(nightly.exit_status([shard]), 0)
        self.change_the_source()
        self.assertEqual(shards.state(shard)[0], "stale")

    def test_red_stays_red_until_a_run_ends_otherwise(self):
        shard = self.shard("false")
        self.assertEqual(self.run_shard(shard), "red")
        self.change_the_source()
        self.assertEqual(shards.state(shard)[0], "red")
        self.assertTrue(shards.due(shard))
        self.assertEqual(nightly.exit_status([shard]), 1)
        self.assertIn("scripts/nightly one", "\n".join(nightly.red_lines([shard])))
        self.assertEqual(self.run_shard(self.shard("true")), "green")
        self.assertEqual(nightly.red_lines([shard]), [])

    def test_a_shard_that_is_cut_is_stale_and_no_longer_fits(self):
        shard = self.shard("sleep 600", minutes=5)
        self.assertEqual(self.run_shard(shard, limit=0.2), "cut")
        self.assertEqual(shards.state(shard)[0], "stale")
        self.assertEqual(shards.expected_seconds(shard), 300)

    def test_a_shard_that_is_cut_keeps_no_green_of_other_sources(self):
        shard = self.shard("true")
        self.run_shard(shard)
        self.change_the_source()
        self.run_shard(self.shard("sleep 600"), limit=0.2)
        self.assertEqual(shards.state(shard)[0], "stale")

    def test_an_error_of_the_runner_is_red_with_its_reason_and_ends_nothing(self):
        shard = self.shard("true")
        with unittest.mock.patch.object(shards, "_run_command", side_effect=OSError("no such junit.xml")):
            self.assertEqual(self.run_shard(shard), "red")
        self.assertIn("OSError: no such junit.xml", "\n".join(nightly.red_lines([shard])))

    def test_a_change_of_its_own_entry_makes_it_stale(self):
        shard = self.shard("true")
        self.run_shard(shard)
        shard.run = "true; true"
        self.assertEqual(shards.state(shard)[0], "stale")

    def test_what_is_interrupted_is_cut_and_what_crashes_is_red(self):
        self.assertEqual(self.run_shard(self.shard("kill -TERM $$; sleep 600")), "cut")
        self.assertEqual(self.run_shard(self.shard("sh -c 'kill -SEGV $$'")), "red")

    def test_what_this_machine_cannot_have_is_skipped(self):
        shard = self.shard("exit 77")
        self.assertEqual(self.run_shard(shard), "skipped")
        self.assertEqual(nightly.exit_status([shard]), 0)

    def test_each_shard_that_ended_has_its_seconds(self):
        one, never = self.shard("true"), self.shard("true", "never")
        self.run_shard(one)
        self.assertEqual(nightly.times([one, never]), "kind,name,seconds,building,result\nshard,one,0,0,green\n")

    def test_suites_with_fresh_seeds_get_another_one_each_time(self):
        seeds = []

        def run(command, *rest, **_):
            if "e2e/run.py" in command:
                seeds.append(rest[2].get("JANUS_SEED"))
            return 0

        with unittest.mock.patch.object(process, "run", side_effect=run):
            for fresh in (True, True, False):
                shard = shards.Shard("one", 1, [self.source.name], suites=["e2e/room_test.py"], fresh_seed=fresh)
                self.assertEqual(self.run_shard(shard), "red", "it told no result")
        self.assertEqual(len({*seeds}), 3)
        self.assertEqual([seed is None for seed in seeds], [False, False, True])

    def test_the_stalest_that_fit_run_oldest_first(self):
        tree.files.cache_clear()
        old, new, long = self.shard("true", "old"), self.shard("true", "new"), self.shard("true", "long", minutes=9)
        self.run_shard(new)
        self.change_the_source()
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            done = nightly.stalest([long, new, old], minutes=2)
        self.assertEqual([result.name for _, result in done], ["old", "new"])
        self.assertIn("never run in 2 minutes, so run them by name: scripts/nightly long\n", told.getvalue())


class ProcessTest(unittest.TestCase):
    def test_a_command_leaves_no_process_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            self.assertEqual(process.run(f"sleep 600 & echo $! >{pid}", f"{folder}/log", shown=False), 0)
            self.await_end(int(pid.read_text()))

    def test_the_limit_ends_a_command_and_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            # Like ninja, which starts a new process group.
            with self.assertRaises(process.Cut):
                process.run(f"set -m; sleep 600 & echo $! >{pid}; wait", f"{folder}/log", time.monotonic() + 1, shown=False)
            self.await_end(int(pid.read_text()))

    # A killed process exists until it is scheduled once more.
    def await_end(self, pid):
        until = time.monotonic() + 60
        while self.runs(pid):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    @staticmethod
    def runs(pid):
        try:
            return "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
        except FileNotFoundError:
            return False


if __name__ == "__main__":
    os.makedirs(ROOT / "build", exist_ok=True)
    unittest.main()
