"""scripts/gpu with scripted programs: what runs, in which order, and what a later run does with the results."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench/gpu"), str(ROOT / "tests/support/python")]
sys.dont_write_bytecode = True

import bounded  # noqa: E402
import evidence  # noqa: E402
import evidence_archive  # noqa: E402
import gpu_build  # noqa: E402
import sanitizer_report  # noqa: E402
import step_runner  # noqa: E402
from janus_test import scaled  # noqa: E402
from result_book import Book  # noqa: E402

CASES = os.environ.get("JANUS_CASES")  # the parity cases, compiled for the host

# Seconds that a run may take, long enough for any machine. A test that needs the end moves the clock.
LONG = 3600

# Reads the file in the folder `script` with the program's name: the exit status of its next run, or how long it sleeps.
# Writes its arguments to `calls`. By default, a program of cases has one that passes, and compute-sanitizer finds
# nothing.
FAKE = f"#!{pathlib.Path(sys.executable).resolve()} -ES\n" + """
import hashlib, json, pathlib, sys, time
me = pathlib.Path(sys.argv[0])
here = me.parent
with open(here / "calls", "a") as calls:
    calls.write(json.dumps([me.name, *sys.argv[1:]]) + "\\n")
script = here / "script" / me.name
todo = script.read_text().split() if script.exists() else []
results = pathlib.Path(sys.argv[sys.argv.index("--results") + 1]) if "--results" in sys.argv else None
def book(**line):
    with open(results, "a") as file:
        file.write(json.dumps(line) + "\\n")
what = todo[0] if todo else "well"
script.write_text(" ".join(todo[1:]))
if what.startswith("begin:"):
    book(begins=what.split(":")[1])
    sys.exit(4)
if what.startswith("case:"):
    _, name, passed, status = what.split(":")
    book(begins=name)
    book(case=name, passed=passed == "passed", ms=1)
    sys.exit(int(status))
if what.startswith("bench:"):
    book(bench_begins=what.split(":")[1])
    sys.exit(3)
if what.startswith("tell:"):
    print(what[5:].replace("_", " "))
    sys.exit(3)
if what.startswith("say:"):
    book(begins="S.Bad")
    book(case="S.Bad", passed=True, ms=1)
    print(what[4:].replace("_", " ").replace("/", "\\n"))
    sys.exit(9)
if what == "sleep":
    time.sleep(3600)
if what != "well":
    sys.exit(int(what))
if me.name.endswith("_gpu_test") or me.name == "compute-sanitizer":
    name = "S." + hashlib.sha1(repr([word for word in sys.argv if word != str(results)]).encode()).hexdigest()[:8]
    if "--again" not in sys.argv:
        book(begins=name)
        book(case=name, passed=True, ms=1)
    if me.name == "compute-sanitizer":
        print("========= ERROR SUMMARY: 0 errors")
"""


class GpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "script").mkdir()
        for name in ("compute-sanitizer", *evidence.PROGRAMS):
            self.program(name, FAKE)
        self.program("nvidia-smi", "#!/bin/sh\necho \"a GPU, 1 MiB\"\n")
        # Only the scripted programs, and what scripts need.
        (self.folder / "python3").symlink_to(pathlib.Path(sys.executable).resolve())
        for name in ("git", "sh", "env", "strip"):
            (self.folder / name).symlink_to(subprocess.run(["which", name], capture_output=True, text=True,
                                                           check=True).stdout.strip())
        self.results = self.folder / "results.jsonl"

    def program(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def script(self, name, *todo):
        (self.folder / "script" / name).write_text(" ".join(todo))

    def environment(self, seconds=LONG):
        return {"PATH": str(self.folder), "JANUS_GPU_TEST": str(self.folder / "kernels_gpu_test"),
                "JANUS_GPU_SECONDS": str(seconds), "HOME": str(self.folder), "JANUS_GPU_LOGS": str(self.folder / "logs")}

    def run_gpu(self, mode="all"):
        (self.folder / "calls").write_text("")
        done = subprocess.run([ROOT / "scripts/gpu", mode, self.results], capture_output=True, text=True, check=False,
                              env=self.environment())
        self.calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        self.assertNotIn("Traceback", done.stderr)
        return done

    def run_until(self, is_over):
        """Runs everything in this process; its time ends as soon as is_over() holds. Returns the output and the status."""
        (self.folder / "calls").write_text("")
        whole = LONG
        clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + (whole if is_over() else 0))
        before = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        said = io.StringIO()
        with mock.patch.dict(os.environ, self.environment(whole)), mock.patch.object(step_runner, "time", clock), \
                contextlib.redirect_stdout(said):
            status = evidence.main("all", str(self.results))
        self.calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return status, said.getvalue()

    def names(self):
        return [call[0].removesuffix("_gpu_bench") for call in self.calls]

    def last(self):
        return Book(self.results).lines()[-1]

    def lines_of(self, step):
        return [line for line in Book(self.results).lines() if line.get("step") == step]

    def packed(self):
        with tarfile.open(evidence_archive.archive_of(self.results)) as archive:
            return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}

    def test_first_is_the_machine_and_the_first_cases(self):
        done = self.run_gpu("first")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names(), ["machine", "kernels_gpu_test", "kernels_gpu_test"])
        self.assertIn("--again", self.calls[2])
        self.assertEqual(self.last()["open"], [])

    def test_results_lie_where_the_caller_says(self):
        done = subprocess.run([ROOT / "scripts/gpu", "first", "results.jsonl"], capture_output=True, check=False,
                              cwd=self.folder, env={**self.environment(), "JANUS_GPU_LOGS": "logs"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("case", {key for line in Book(self.results).lines() for key in line})
        self.assertIn("logs/machine.log", self.packed())

    def test_all_runs_in_order_of_value_and_once(self):
        done = self.run_gpu()
        self.assertEqual(done.returncode, 0, done.stdout)
        begun = [line["step"] for line in Book(self.results).lines() if line.get("step") and "begins" in line]
        torch = {"free choice", "transformers"}
        mps = ["processes with MPS"]
        self.assertEqual(begun, [name for name in evidence.TYPICAL_AND_LIMIT if name not in {*torch, *mps}])
        names = self.names()
        self.assertEqual(names.count("compute-sanitizer"), 10)
        self.assertEqual(names.count(evidence.DEVICE), 2)
        self.assertEqual(names.count(evidence.GOLDEN), 2)
        self.assertEqual([call for call in self.calls if "--apart" in call and "memcheck" not in call], [])
        watched = [call for call in self.calls if call[0] == "compute-sanitizer"]
        self.assertEqual([call for call in watched if ("--report-api-errors" in call) != ("memcheck" in call)], [])
        self.assertEqual(sum(str(self.folder / evidence.DEVICE) in call for call in watched), 2)
        every = [call for call in self.calls if "--gtest_filter=*-" + ":".join(evidence.NOT_OURS) in call]
        self.assertEqual(len(every), 2)
        run = Book(self.results).lines()[0]["run"]
        self.assertEqual((run["gpu"], run["command"]), ("a GPU, 1 MiB", "scripts/gpu all"))
        self.assertRegex(run["commit"], r"\w{7}")
        self.assertEqual(set(run["off"]), {"NCCL", "UCX"})
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names(), [], "all has ended")

    def test_limits_fit_the_times_that_a_run_has(self):
        typical = {name: seconds for name, (seconds, _) in evidence.TYPICAL_AND_LIMIT.items()}
        limit = {name: seconds for name, (_, seconds) in evidence.TYPICAL_AND_LIMIT.items()}
        self.assertEqual([name for name in typical if typical[name] >= limit[name]], [])
        self.assertLessEqual(sum(typical[name] for name in evidence.FIRST_RUN) + evidence.BUILD_TYPICAL,
                             evidence.RUN_SECONDS)
        self.assertLessEqual(sum(limit[name] for name in evidence.FIRST_RUN), evidence.RUN_SECONDS)
        self.assertEqual(evidence.FIRST_RUN[-1], "racecheck")
        self.assertLessEqual(limit["machine"] + limit["first cases"], 60)

    def test_what_fails_holds_nothing_else_up_and_is_tried_again(self):
        self.script("serve_gpu_bench", "1")
        done = self.run_gpu()
        self.assertEqual(done.returncode, 1)
        self.assertIn("premise", self.names())
        self.assertIn("compute-sanitizer", self.names())
        self.assertEqual(self.last()["failed"], ["step serve"])
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names(), ["serve"])

    def test_what_has_no_time_is_open_and_comes_before_what_was_cut(self):
        self.script("experts_gpu_bench", "sleep")
        # The program itself records the call: the book names a step before its program runs.
        status, said = self.run_until(lambda: "experts_gpu_bench" in (self.folder / "calls").read_text())
        self.assertEqual(status, 0, "to be cut is no failure")
        self.assertEqual(self.names(), ["machine", "kernels_gpu_test", "kernels_gpu_test", evidence.DEVICE, evidence.DEVICE, "experts"])
        self.assertEqual(self.last()["open"][:2], ["experts", "gate"])
        self.assertIn("run it again for what is open: experts, gate", said)
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names()[0], "gate")
        self.assertIn("experts", self.names())

    def test_a_case_that_ends_the_process_is_left_behind(self):
        self.script("kernels_gpu_test", "begin:S.One", "begin:S.Two", "0", "0")
        done = self.run_gpu("first")
        self.assertEqual(self.names(), ["machine"] + 4 * ["kernels_gpu_test"])
        self.assertEqual([("--again" in call) for call in self.calls[1:]], [False, False, False, True])
        self.assertEqual(done.returncode, 0, "they may pass when they are run again")
        Book(self.results).write(begins="S.One")
        done = self.run_gpu("first")
        self.assertEqual((done.returncode, self.last()["failed"]), (1, ["S.One"]), "began twice and never ended")

    def test_a_bench_goes_on_behind_what_ends_it(self):
        self.script("experts_gpu_bench", "bench:one", "bench:one", "bench:two", "0")
        self.assertEqual(self.run_gpu().returncode, 1)
        self.assertEqual(self.names().count("experts"), 4)
        self.assertEqual(self.last()["failed"], ["one"], "it began twice and never ended; the other may be run again")
        self.assertTrue(Book(self.results).ended("experts"))

    def test_a_program_that_begins_no_case_is_not_begun_for_ever(self):
        self.script("kernels_gpu_test", "tell:no_GPU", "well", "well")
        self.assertEqual(self.run_gpu("first").returncode, 1)
        self.assertIn("no GPU", [line.get("says") for line in Book(self.results).lines()])
        self.assertEqual(self.names(), ["machine", "kernels_gpu_test"])
        self.assertEqual(self.run_gpu("first").returncode, 0)

    def test_a_case_that_failed_fails_every_run(self):
        self.script("kernels_gpu_test", "case:S.Bad:failed:1")
        for _ in range(2):
            self.assertEqual(self.run_gpu("first").returncode, 1)
            self.assertEqual(self.last()["failed"], ["S.Bad"])
        self.assertTrue(Book(self.results).ended("first cases"))

    def test_an_exit_for_failed_cases_without_a_case_is_none_of_theirs(self):
        for status in (1, step_runner.FOUND):
            self.script("kernels_gpu_test", "well", str(status))
            self.assertEqual(self.run_gpu("first").returncode, 1)
            self.assertEqual(self.last()["failed"], ["step first cases"])
            self.assertIn({"step": "first cases", "exit": status, "says": "", "during": None}, self.lines_of("first cases"))
        self.assertFalse(Book(self.results).ended("first cases"))

    def test_what_ran_no_case_is_not_done(self):
        self.script("kernels_gpu_test", "0", "0")
        self.assertEqual(self.run_gpu("first").returncode, 1)
        self.assertIn("no case was run", [line.get("says") for line in self.lines_of("first cases")])

    def test_counts_what_cases_did(self):
        self.script("compute-sanitizer", "begin:S.Lost", "case:S.Bad:failed:1", "case:S.Good:passed:0")
        self.assertEqual(self.run_gpu().returncode, 1)
        counts = [line for line in self.lines_of("memcheck") if "passed" in line]
        self.assertEqual(counts, [{"step": "memcheck", "passed": 1, "failed": 1, "skipped": 0, "lost": 1}])
        self.assertEqual(self.lines_of("racecheck")[1]["passed"], 1)
        self.assertEqual(self.lines_of("first cases")[1], {"step": "first cases", "passed": 1, "failed": 0, "skipped": 0,
                                                           "lost": 0})

    def test_a_tool_that_looked_at_nothing_did_not_find_it_clean(self):
        self.script("compute-sanitizer", "case:S.One:passed:0", "0")
        self.assertEqual(self.run_gpu().returncode, 1)
        self.assertEqual(self.last()["failed"], ["step memcheck"])
        self.assertIn("compute-sanitizer gave no summary", [line.get("says") for line in self.lines_of("memcheck")])

    def test_how_a_process_ended_and_in_what_is_written(self):
        self.script("experts_gpu_bench", "bench:one", "0")
        self.script("kernels_gpu_test", "begin:S.One", "well", "well")
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertIn({"step": "experts", "exit": 3, "says": "", "during": "one"}, self.lines_of("experts"))
        self.assertIn({"step": "first cases", "exit": 4, "says": "", "during": "S.One"}, self.lines_of("first cases"))

    def test_what_a_sanitizer_finds_stays_found(self):
        self.script("compute-sanitizer", "say:=========_Invalid_read_of_size_4/=========_____at_Run/=========_ERROR_SUMMARY:_1_error")
        for _ in range(2):
            self.assertEqual(self.run_gpu().returncode, 1)
            self.assertEqual(self.last()["failed"], ["step memcheck: Invalid read of size 4; at Run; in S.Bad"])

    def test_what_a_log_said_of_other_programs_is_not_said_again(self):
        (self.folder / "logs").mkdir()
        (self.folder / "logs/memcheck.log").write_text("========= Invalid read\n========= ERROR SUMMARY: 1 error\n")
        (self.folder / "logs/experts.log").write_text("the words of another\n")
        self.script("experts_gpu_bench", "1")
        self.run_gpu()
        self.assertEqual([line for line in self.lines_of("memcheck") if "found" in line], [])
        self.assertEqual([line["says"] for line in self.lines_of("experts") if "failed" in line], [""])

    def test_what_each_tool_says(self):
        for text, found in (
                ("========= ERROR SUMMARY: 0 errors", None),
                ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", None),
                ("[ RUN      ] S.One\n[       OK ] S.One (1 ms)\n[ RUN      ] S.Two\n"
                 "========= Error: Race reported between Write access at Run+0x10\n"
                 "=========     and Read access at Run+0x20 [4 hazards]\n=========\n"
                 "[ RUN      ] S.Three\n========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
                 "Error: Race reported between Write access at Run+0x10; and Read access at Run+0x20 [4 hazards]; in S.Two"),
                ("========= Invalid __global__ write of size 4 bytes\n=========     at Kernel(int)+0x100\n"
                 "=========     by thread (31,0,0) in block (7,0,0)\n=========     Address 0x1 is misaligned\n"
                 "=========     Saved host backtrace up to driver entry point\n=========     #0 0x1\n",
                 "Invalid __global__ write of size 4 bytes; at Kernel(int)+0x100; by thread (31,0,0) in block (7,0,0); "
                 "Address 0x1 is misaligned; in S.Last"),
                ("========= Warpgroup MMA sequence error detected.\n========= ERROR SUMMARY: 2 errors",
                 "Warpgroup MMA sequence error detected.; in S.Last"),
                ("========= what nobody knows\n========= ERROR SUMMARY: 1 error",
                 "ERROR SUMMARY: 1, and no report that is known here")):
            self.assertEqual(sanitizer_report.found_in(text, "S.Last"), found)

    def test_what_a_tool_did_not_look_at(self):
        summary = "========= ERROR SUMMARY: 0 errors"
        self.assertIsNone(sanitizer_report.unseen_in(f"========= Target application returned an error\n{summary}"))
        self.assertEqual(sanitizer_report.unseen_in("[       OK ] S.One"), "compute-sanitizer gave no summary")
        self.assertEqual(sanitizer_report.unseen_in(f"========= Error: Device not supported. See\n{summary}"),
                         "Error: Device not supported. See")

    def test_results_of_another_gpu_are_refused(self):
        self.assertEqual(self.run_gpu("first").returncode, 0)
        self.program("nvidia-smi", "#!/bin/sh\necho another\n")
        done = self.run_gpu("first")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has results of gpu a GPU, 1 MiB, this is another; give another file", done.stderr)
        self.assertEqual(self.names(), [])
        (self.folder / "nvidia-smi").unlink()
        done = self.run_gpu("first")
        self.assertIn("and nvidia-smi says nothing of the one here: try again", done.stderr)
        self.program("nvidia-smi", "#!/bin/sh\necho \"a GPU, 2 MiB\"\n")
        self.assertEqual(self.run_gpu("first").returncode, 0, "of which another driver leaves more")

    def test_the_gpu_is_the_one_that_programs_compute_on(self):
        self.program("nvidia-smi", "#!/bin/sh\ncase \"$*\" in *--id=3) echo three ;; *--id=0) echo zero ;; esac\n")
        for visible, name in ((None, "zero"), ("", "zero"), ("3,1", "three")):
            given = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
            with mock.patch.dict(os.environ, {"PATH": str(self.folder), **given}):
                self.assertEqual(gpu_build.first_gpu("name"), name)

    def test_a_step_of_another_program_runs_anew_and_no_other(self):
        self.script("rows_gpu_bench", "bench:old", "0")
        self.assertEqual(self.run_gpu().returncode, 0)
        book = Book(self.results)
        old = book.of_step("rows")
        self.assertTrue(any(line.get("bench_begins") == "old" for line in old))
        machine = book.of_step("machine")
        self.program("rows_gpu_bench", FAKE + "\n")
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names(), ["rows"])
        lines = book.lines()
        self.assertEqual([line["retired"] for line in lines if "retired" in line], old, "and nothing of it is lost")
        self.assertEqual([line.get("bench_begins") for line in lines if "bench_begins" in line], [])
        self.assertEqual(len({line["digest"] for line in book.of_step("rows") if "digest" in line}), 1)
        self.assertEqual(book.of_step("machine"), machine)
        self.assertIn(b'"case"', self.packed()["results.jsonl.memcheck"])
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names(), [])

    def test_what_hangs_on_a_bench_is_done_anew_with_it(self):
        self.assertEqual(self.run_gpu().returncode, 0)
        self.program("attention_gpu_bench", FAKE + "\n")
        self.assertEqual(self.run_gpu().returncode, 0)
        tables = [line for line in Book(self.results).of_step("attention table") if "begins" in line]
        self.assertEqual((self.names(), len(tables)), (["attention"], 1))

    def test_what_stands_beside_a_bench_waits_for_it(self):
        self.script("attention_gpu_bench", "1")
        self.run_gpu()
        self.assertIn({"step": "attention table", "waits_for": ["attention"]}, self.lines_of("attention table"))
        self.assertEqual(self.last()["open"], ["attention", "attention table"])
        self.assertEqual(self.last()["failed"], ["step attention"])
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertTrue(Book(self.results).ended("attention table"))

    def test_cases_of_another_program_are_run_under_every_tool_again(self):
        self.assertEqual(self.run_gpu().returncode, 0)
        self.program("kernels_gpu_test", FAKE + "\n")
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names(), ["kernels_gpu_test"] * 2 + ["compute-sanitizer"] * 6 + ["kernels_gpu_test"] * 2
                         + ["compute-sanitizer"] * 2)
        books = [json.loads(line) for line in self.packed()["results.jsonl.memcheck"].decode().splitlines()]
        self.assertEqual(sum("case" in line for line in books), 1)

    def test_a_digest_is_of_what_runs(self):
        source, out = self.folder / "one.c", []
        source.write_text("int main(void) { return 0; }\n")
        for name in ("a", "b"):
            other = self.folder / name / "other.c"
            other.parent.mkdir()
            other.write_text(source.read_text())
            program = self.folder / name / "program"
            subprocess.run(["cc", "-g", "-Wl,--build-id", other, "-o", program], check=True)
            out.append(program)
        self.assertNotEqual(out[0].read_bytes(), out[1].read_bytes(), "its debug information has the folder")
        self.assertEqual(*(step_runner.Digests().of([program]) for program in out))
        self.assertIsNone(step_runner.Digests().of([self.folder / "none"]))
        source.write_text("int main(void) { return 1; }\n")
        subprocess.run(["cc", "-g", source, "-o", out[1]], check=True)
        self.assertNotEqual(*(step_runner.Digests().of([program]) for program in out))

    def test_what_holds_no_kernel_says_so_and_fails(self):
        (self.folder / "kernels_gpu_test").unlink()
        (self.folder / evidence.DEVICE).unlink()
        (self.folder / evidence.GOLDEN).unlink()
        done = self.run_gpu()
        self.assertEqual(done.returncode, evidence.NO_PARITY)
        self.assertIn("NOTHING HOLDS THESE KERNELS: first cases did not run: no kernels_gpu_test", done.stdout)
        self.assertIn("scripts/gpu: golden did not run: no golden_gpu_test", done.stdout)
        skipped = {line["step"]: line["skipped"] for line in Book(self.results).lines() if "skipped" in line
                   and "passed" not in line}
        self.assertIn("kernels_gpu_test", skipped["first cases"])
        self.assertIn("MPS", " ".join(skipped))
        self.assertIn("torch", skipped["free choice"])
        self.assertIn("experts", self.names())
        self.assertEqual(self.last()["unheld"][:2], ["first cases", "device"])

    @unittest.skipIf(shutil.which("compute-sanitizer", path="/usr/local/cuda/bin"), "this machine has one")
    def test_a_machine_without_the_sanitizer_says_so(self):
        (self.folder / "compute-sanitizer").unlink()
        done = self.run_gpu()
        self.assertEqual(done.returncode, evidence.NO_PARITY)
        for tool in ("memcheck", "racecheck", "synccheck", "memcheck device", "initcheck"):
            self.assertIn(f"scripts/gpu: {tool} did not run: no compute-sanitizer", done.stdout)
        self.assertNotIn("NOTHING HOLDS", done.stdout)

    def test_all_that_came_of_a_run_is_told_and_in_one_archive(self):
        self.script("rows_gpu_bench", "tell:what_rows_say", "0")
        (self.folder / "logs").mkdir()
        (self.folder / "logs/long.log").write_bytes(b"begin" + bytes(3 << 20) + b"end")
        Book(self.results).write(bench="slow", us=1, host_too_slow=1)
        done = self.run_gpu()
        self.assertEqual(done.returncode, 1)
        self.assertIn("| compute-sanitizer, memcheck | clean | clean | | 1 passed | yes |", done.stdout)
        self.assertIn("\nfailed: step rows\n", done.stdout)
        self.assertIn("\nhost too slow: slow\n", done.stdout)
        packed = self.packed()
        self.assertLess(evidence_archive.archive_of(self.results).stat().st_size, 8 << 20)
        self.assertIn(b"what rows say", packed["logs/rows.log"])
        self.assertLess(len(packed["logs/long.log"]), 1 << 20)
        self.assertTrue(packed["logs/long.log"].startswith(b"begin") and packed["logs/long.log"].endswith(b"end"))
        self.assertEqual({name for name in packed if name.startswith("results.jsonl.")},
                         {f"results.jsonl.{name.replace(' ', '-')}" for name in evidence.WATCHED})
        beside = [path.name for path in self.folder.glob("results.jsonl*")]
        self.assertEqual(sorted(beside), ["results.jsonl", "results.jsonl.tar.gz"])

    def test_another_machine_goes_on_with_what_was_brought_back(self):
        self.script("compute-sanitizer", "case:S.One:passed:0", "sleep")
        self.run_until(lambda: "compute-sanitizer" in (self.folder / "calls").read_text())
        self.assertIn("memcheck", self.last()["open"])
        for log in (self.folder / "logs").iterdir():
            log.unlink()
        self.assertEqual(self.run_gpu().returncode, 0)
        cases = [line for line in self.packed()["results.jsonl.memcheck"].decode().splitlines() if '"case"' in line]
        self.assertEqual(len(cases), 2, "its book goes on")
        self.results.unlink()
        self.assertEqual(self.run_gpu().returncode, 0)
        cases = [line for line in self.packed()["results.jsonl.memcheck"].decode().splitlines() if '"case"' in line]
        self.assertEqual(len(cases), 1, "without its results it is another's")

    def test_a_run_that_is_ended_tells_what_it_has(self):
        self.script("experts_gpu_bench", "sleep")
        run = subprocess.Popen([ROOT / "scripts/gpu", "all", self.results], stdout=subprocess.PIPE, text=True,
                               env=self.environment())
        until = time.monotonic() + scaled(30)
        while not any(line.get("step") == "experts" for line in Book(self.results).lines()):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=scaled(30))
        self.assertEqual(run.returncode, 128 + signal.SIGTERM)
        self.assertIn("| AEBS greedy, twice the slots |", said)
        self.assertIn("logs/first-cases.log", self.packed())

    def test_the_premise_is_drawn(self):
        Book(self.results).write(bench="premise, 64 rows, 4 experts activated", us=3.0)
        self.run_gpu("first")
        self.assertIn("<svg", pathlib.Path(f"{self.results}.premise.svg").read_text())

    def test_a_mend_goes_on_with_the_same_file(self):
        self.assertEqual(evidence.default_path({"gpu": "NVIDIA H100 80GB HBM3, 81559 MiB", "commit": "one"}),
                         ROOT / "bench/results/gpu-nvidia-h100-80gb-hbm3-81559-mib.jsonl")

    def test_a_line_that_was_cut_short_is_none_and_spoils_no_other(self):
        book = Book(self.results)
        self.results.write_text('{"step": "machine", "ended": tr')
        book.write(step="experts", ended=True)
        self.assertEqual((book.ended("machine"), book.ended("experts")), (False, True))

    ALL = " ".join(evidence.PROGRAMS)

    def build(self, *programs, targets=ALL, fails="", fresh="", seconds=scaled(20), needs=None):
        """The calls of cmake in a build with only these programs, and its result. `fails`: the first words of the call that
        fails, or "time" if the time ends; `fresh`: the programs that ninja reports as up to date."""
        calls = self.folder / "cmake-calls"
        calls.unlink(missing_ok=True)
        (self.folder / "ninja").unlink(missing_ok=True)
        self.program("cmake", f"""#!/bin/sh
echo "$*" >> {calls}
case "$*" in
  *"--target help"*) echo "{targets}" ;;
  "{fails or "nothing"}"*) echo compiling; echo "a.cu(1): error: no such thing"; echo "b.cu(1): error: nor this"; exit 1 ;;
  *--parallel*) {"sleep 30" if fails == "time" else ""} ;;
esac
""")
        self.program("nvidia-smi", "#!/bin/sh\necho 9.0\n")
        self.program("sleep", "#!/bin/sh\nexec /bin/sleep $1\n")
        for name in programs:
            self.program(name, f"""#!/bin/sh
case " {fresh} " in *" $4 "*) echo "ninja: no work to do." ;; *) echo "[1/2] nvcc" ;; esac
""")
        before = os.environ["PATH"]
        os.environ["PATH"] = str(self.folder)
        try:
            found = gpu_build.build(self.folder / "log", evidence.PROGRAMS, seconds, needs or self.folder / "needs")
        finally:
            os.environ["PATH"] = before
        return calls.read_text().splitlines(), found

    def test_builds_with_ninja_for_the_gpu_that_is_there(self):
        calls, found = self.build("ninja")
        self.assertIn("-DJANUS_CUDA_ARCHITECTURES=90a", calls[0])
        self.assertNotIn("Makefiles", calls[0])
        self.assertNotIn("gpu-needs", calls[0])
        self.assertTrue(calls[2].endswith(f"--target {self.ALL} -- -k 0"), calls[2])
        self.assertEqual((found.folder, found.failed, found.fresh),
                         (ROOT / "build/cuda/bin", None, set(evidence.PROGRAMS)))

    def test_builds_with_make_and_without_googletest(self):
        there = [name for name in evidence.PROGRAMS if name.endswith("bench")]
        calls, found = self.build(targets="\n".join(f"... {name}" for name in there))
        self.assertIn("-G Unix Makefiles", calls[0])
        self.assertTrue(calls[2].endswith(f"--target {' '.join(there)} -- -k"), calls[2])
        self.assertEqual((found.folder, found.failed, found.fresh), (ROOT / "build/cuda-make/bin", None, set(there)))
        self.assertIn("scripts/gpu bring", found.without["kernels_gpu_test"])

    def test_a_build_is_told_where_what_was_brought_lies(self):
        needs = self.folder / "brought"
        needs.mkdir()
        calls, _ = self.build("ninja", needs=needs)
        self.assertIn(f"-DCMAKE_PREFIX_PATH={needs} -DGTEST_ROOT={needs}", calls[0])

    def test_what_did_not_compile_costs_nothing_else(self):
        calls, found = self.build("ninja", fails="--build", fresh="rows_gpu_bench gate_gpu_bench")
        self.assertEqual(found.failed, "a.cu(1): error: no such thing")
        self.assertEqual(found.fresh, {"rows_gpu_bench", "gate_gpu_bench"})
        self.assertEqual(found.without["kernels_gpu_test"], "the build failed")
        _, found = self.build(fails=f"--build {ROOT}/build/cuda-make --parallel")
        self.assertEqual((found.failed, found.fresh), ("a.cu(1): error: no such thing", set(evidence.PROGRAMS)),
                         "make is asked for each")
        _, found = self.build("ninja", fails="--preset")
        self.assertEqual((found.failed, found.fresh), ("a.cu(1): error: no such thing", set()))

    def test_a_machine_without_cmake_has_a_build_that_failed(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.folder)}):
            found = gpu_build.build(self.folder / "log", evidence.PROGRAMS, 5, self.folder / "needs")
        self.assertEqual((found.failed, found.fresh), ("no cmake (3.24 or later)", set()))
        self.assertIn("the build failed", found.without["kernels_gpu_test"])

    def test_a_build_has_a_limit(self):
        began = time.monotonic()
        limit = scaled(2)
        _, found = self.build("ninja", fails="time", fresh="rows_gpu_bench", seconds=limit)
        self.assertLess(time.monotonic() - began, scaled(20))
        self.assertEqual((found.failed, found.fresh), (f"it was cut after {limit:.0f} s", {"rows_gpu_bench"}))

    def test_a_build_that_failed_fails_the_run_and_what_it_left_runs(self):
        built = gpu_build.Built(self.folder, {"rows_gpu_bench", "machine_gpu_bench"},
                                {name: "the build failed" for name in evidence.PROGRAMS if "rows" not in name},
                                "a.cu(1): error", 3.0)
        environment = {**self.environment(), "JANUS_GPU_TEST": ""}
        with mock.patch.dict(os.environ, environment), mock.patch.object(evidence, "build", lambda *_: built), \
                mock.patch("builtins.print"):
            before = signal.getsignal(signal.SIGTERM)
            self.addCleanup(signal.signal, signal.SIGTERM, before)
            self.assertEqual(evidence.main("all", str(self.results)), 1)
        self.calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        self.assertEqual(self.names(), ["machine", "rows"], "others may be of an older tree")
        self.assertEqual(self.last()["failed"], ["the build: a.cu(1): error"])
        line = next(line for line in Book(self.results).lines() if "build" in line)
        self.assertEqual((line["build"], line["error"]), ("failed", "a.cu(1): error"))

    def test_brings_what_another_machine_lacks(self):
        here, needs = self.folder / "usr", self.folder / "needs"
        for name in ("include/gtest/gtest.h", "lib/x/libgtest.a", "lib/x/libgtest_main.a", "include/nlohmann/json.hpp",
                     "share/cmake/nlohmann_json/nlohmann_jsonConfig.cmake"):
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_text(name)
        self.assertEqual(gpu_build.bring(needs, [self.folder / "none", here]), [])
        self.assertEqual({str(path.relative_to(needs)) for path in needs.rglob("*") if path.is_file()},
                         {"include/gtest/gtest.h", "lib/libgtest.a", "lib/libgtest_main.a", "include/nlohmann/json.hpp",
                          "share/cmake/nlohmann_json/nlohmann_jsonConfig.cmake"})
        (here / "lib/x/libgtest.a").unlink()
        self.assertEqual(gpu_build.bring(needs, [here]), ["GoogleTest"])
        self.assertFalse((needs / "include/gtest").exists())

    def test_who_does_not_go_when_killed_is_left_behind(self):
        class Stuck:
            pid, returncode = 1 << 30, None

            def wait(self, seconds):
                raise subprocess.TimeoutExpired("stuck", seconds)
        runner = step_runner.Runner(Book(self.results), 60, self.folder)
        with mock.patch.object(step_runner, "started", lambda *_: Stuck()):
            self.assertEqual(runner.once("stuck", ["stuck"], 0.1), bounded.CUT)
        self.assertIn("has not gone", self.last()["stuck"])

    def test_a_program_that_is_asked_has_a_limit(self):
        began = time.monotonic()
        self.assertIsNone(bounded.output_of("sleep", "20", seconds=0.2))
        self.assertLess(time.monotonic() - began, scaled(5))

    def test_what_tells_what_is_missing_has_no_longer_than_is_left(self):
        asked = []

        def missing(seconds):
            asked.append(seconds)
            raise subprocess.TimeoutExpired("python3", seconds)
        step = step_runner.Step("torch", 45, "true", missing=missing)
        runner = step_runner.Runner(Book(self.results), 20, self.folder)
        self.assertFalse(runner.run(step), "it may be there")
        self.assertLessEqual(asked[0], 20)
        self.assertEqual(Book(self.results).lines(), [])
        runner = step_runner.Runner(Book(self.results), 100, self.folder)
        self.assertTrue(runner.run(step))
        self.assertEqual((asked[1], "40 s" in self.last()["skipped"]), (step_runner.TORCH_SECONDS, True))

    def assert_has_gone(self, pid):
        """Within 10 s (scaled): a killed process exists until it is scheduled."""
        until = time.monotonic() + scaled(10)
        while time.monotonic() < until:
            try:
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.05)
        self.fail(f"process {pid} is still there")

    def assert_cut_with_its_child(self):
        """Checks a program `parent` that is cut after it has written its child's pid to the file `child`."""
        child = self.folder / "child"

        def ended(program, _, stuck):
            until = time.monotonic() + scaled(30)
            while not (child.exists() and child.read_text().endswith("\n")):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            return bounded.ended(program, 0.1, stuck)
        runner = step_runner.Runner(Book(self.results), 60, self.folder)
        with mock.patch.object(step_runner, "ended", ended), mock.patch.object(bounded, "GRACE_SECONDS", scaled(3)):
            self.assertEqual(runner.once("parent", [str(self.folder / "parent")], 3), bounded.CUT)
        self.assert_has_gone(child.read_text().strip())

    def test_what_is_cut_leaves_no_child_behind(self):
        left = self.folder / "left"
        self.program("parent", f"#!/bin/sh\n(sleep 30; touch {left}) &\necho $! > {self.folder / 'child'}\nwait\n")
        self.assert_cut_with_its_child()

    def test_who_has_groups_of_its_own_may_end_them(self):
        self.program("parent", f"""#!/bin/sh
trap 'kill $child; exit 1' TERM
setsid sleep 30 &
child=$!
echo $child > {self.folder / "child"}
wait
""")
        self.assert_cut_with_its_child()

    def test_says_how_it_is_used(self):
        for words in (["some"], ["all", "file", "more"], ["bring", "file"]):
            done = subprocess.run([ROOT / "scripts/gpu", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("scripts/gpu [first|all] [RESULTS]", done.stderr)

    def test_benches_are_those_that_are_built(self):
        text = (ROOT / "bench/gpu/CMakeLists.txt").read_text()
        built = set(re.findall(r"\b(\w+)_gpu_bench\b(?!\.cu)", text)) - {"name"}
        built |= {f"attention_split{split}" for split in re.findall(r"\d+", re.search(r"foreach\(split (.*)\)", text)[1])}
        built |= {"serve", "processes"} if "foreach(name serve processes)" in text else set()
        self.assertEqual(set(evidence.BENCHES), built)

    @unittest.skipUnless(CASES, "JANUS_CASES names no program")
    def test_first_names_cases_that_there_are(self):
        suite, there = "", []
        listed = subprocess.run([CASES, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            if line.startswith(" "):
                there.append(suite + line.split("#")[0].strip())
            else:
                suite = line.split("#")[0].strip()
        chosen = set()
        for pattern in evidence.FIRST:
            matches = {name for name in there if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name)}
            self.assertTrue(matches, pattern)
            chosen |= matches
        self.assertLess(len(chosen), 120, "they are to end within a minute")


class ToolkitTest(unittest.TestCase):
    def test_a_tool_is_sought_beside_the_nvcc_of_the_build_first(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for home in ("used", "named"):
                tool = folder / home / "bin/compute-sanitizer"
                tool.parent.mkdir(parents=True)
                tool.touch(mode=0o755)
            with mock.patch.dict(os.environ, {"CUDA_HOME": f"{folder}/named"}):
                self.assertEqual(evidence.beside_nvcc("compute-sanitizer", folder),
                                 f"{folder}/named/bin/compute-sanitizer")
                (folder / "CMakeCache.txt").write_text(f"JANUS_NVCC:FILEPATH={folder}/used/bin/nvcc\n")
                self.assertEqual(evidence.beside_nvcc("compute-sanitizer", folder),
                                 f"{folder}/used/bin/compute-sanitizer")


if __name__ == "__main__":
    unittest.main(verbosity=2)
