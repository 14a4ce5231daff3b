"""scripts/gpu over programs that are scripted here: what runs, in which order, and what a later run makes of it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/gpu"))
sys.dont_write_bytecode = True

import evidence  # noqa: E402

CASES = os.environ.get("JANUS_CASES")  # the parity cases, compiled for the host

# Does what the folder `script` has under its name: the exit of its next run, or how long it sleeps. Says in `calls`
# with which arguments it ran.
FAKE = """#!/usr/bin/env python3
import json, pathlib, sys, time
me = pathlib.Path(sys.argv[0])
here = me.parent
with open(here / "calls", "a") as calls:
    calls.write(json.dumps([me.name, *sys.argv[1:]]) + "\\n")
script = here / "script" / me.name
todo = script.read_text().split() if script.exists() else []
if todo:
    script.write_text(" ".join(todo[1:]))
    what = todo[0]
    results = pathlib.Path(sys.argv[sys.argv.index("--results") + 1]) if "--results" in sys.argv else None
    if what.startswith("begin:"):
        with open(results, "a") as file:
            file.write(json.dumps({"begins": what.split(":")[1]}) + "\\n")
        sys.exit(4)
    if what.startswith("bench:"):
        with open(results, "a") as file:
            file.write(json.dumps({"bench_begins": what.split(":")[1]}) + "\\n")
        sys.exit(3)
    if what.startswith("tell:"):
        print(what[5:].replace("_", " "))
        sys.exit(3)
    if what.startswith("say:"):
        print(what[4:].replace("_", " ").replace("/", "\\n"))
        sys.exit(9)
    if what == "sleep":
        time.sleep(60)
    sys.exit(int(what))
"""


class GpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "script").mkdir()
        for name in ["kernels_gpu_test", evidence.DEVICE, evidence.GOLDEN, "compute-sanitizer", *(f"{name}_gpu_bench" for name in evidence.BENCHES)]:
            self.program(name, FAKE)
        self.program("nvidia-smi", "#!/bin/sh\necho \"a GPU, 1 MiB\"\n")
        # Only what is scripted, and what scripts need.
        for name in ("python3", "git", "sh", "env"):
            (self.folder / name).symlink_to(subprocess.run(["which", name], capture_output=True, text=True,
                                                           check=True).stdout.strip())
        self.results = self.folder / "results.jsonl"

    def program(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def script(self, name, *todo):
        (self.folder / "script" / name).write_text(" ".join(todo))

    def run_gpu(self, mode="all", seconds=60):
        (self.folder / "calls").write_text("")
        done = subprocess.run(
            [ROOT / "scripts/gpu", mode, self.results], capture_output=True, text=True, check=False,
            env={"PATH": str(self.folder), "JANUS_GPU_TEST": str(self.folder / "kernels_gpu_test"),
                 "JANUS_GPU_SECONDS": str(seconds), "HOME": str(self.folder),
                 "JANUS_GPU_LOGS": str(self.folder / "logs")})
        self.calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        self.assertNotIn("Traceback", done.stderr)
        return done

    def names(self):
        return [call[0].removesuffix("_gpu_bench") for call in self.calls]

    def last(self):
        return evidence.Book(self.results).lines()[-1]

    def test_first_is_the_machine_and_the_first_cases(self):
        done = self.run_gpu("first")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names(), ["machine", "kernels_gpu_test", "kernels_gpu_test"])
        self.assertIn("--again", self.calls[2])
        self.assertEqual(self.last()["open"], [])

    def test_all_runs_in_order_of_value_and_once(self):
        self.assertEqual(self.run_gpu().returncode, 0)
        names = self.names()
        for before, behind in zip(evidence.BENCHES, evidence.BENCHES[1:]):
            self.assertLess(names.index(before), names.index(behind))
        self.assertEqual(names.count("compute-sanitizer"), 8)
        self.assertEqual(names.count(evidence.DEVICE), 2)
        self.assertEqual(names.count(evidence.GOLDEN), 2)
        self.assertEqual([call for call in self.calls if "--apart" in call and "memcheck" not in call], [])
        every = [call for call in self.calls if "--gtest_filter=*-" + ":".join(evidence.NOT_OURS) in call]
        self.assertEqual(len(every), 2)
        run = evidence.Book(self.results).lines()[0]["run"]
        self.assertEqual((run["gpu"], run["command"]), ("a GPU, 1 MiB", "scripts/gpu all"))
        self.assertRegex(run["commit"], r"\w{7}")
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names(), [], "all has ended")

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
        done = self.run_gpu(seconds=7)
        self.assertEqual(done.returncode, 0, "to be cut is no failure")
        self.assertEqual(self.names(), ["machine", "kernels_gpu_test", "kernels_gpu_test", evidence.DEVICE, evidence.DEVICE, "experts"])
        self.assertEqual(self.last()["open"][:2], ["experts", "gate"])
        self.assertIn("run it again for what is open: experts, gate", done.stdout)
        self.assertEqual(self.run_gpu().returncode, 0)
        self.assertEqual(self.names()[0], "gate")
        self.assertIn("experts", self.names())

    def test_a_case_that_ends_the_process_is_left_behind(self):
        self.script("kernels_gpu_test", "begin:S.One", "begin:S.Two", "0", "0")
        done = self.run_gpu("first")
        self.assertEqual(self.names(), ["machine"] + 4 * ["kernels_gpu_test"])
        self.assertEqual([("--again" in call) for call in self.calls[1:]], [False, False, False, True])
        self.assertEqual(done.returncode, 0, "they may pass when they are run again")
        evidence.Book(self.results).write(begins="S.One")
        done = self.run_gpu("first")
        self.assertEqual((done.returncode, self.last()["failed"]), (1, ["S.One"]), "began twice and never ended")

    def test_a_bench_goes_on_behind_what_ends_it(self):
        self.script("experts_gpu_bench", "bench:one", "bench:one", "bench:two", "0")
        self.assertEqual(self.run_gpu().returncode, 1)
        self.assertEqual(self.names().count("experts"), 4)
        self.assertEqual(self.last()["failed"], ["one"], "it began twice and never ended; the other may be run again")
        self.assertTrue(evidence.Book(self.results).ended("experts"))

    def test_a_program_that_begins_no_case_is_not_begun_for_ever(self):
        self.script("kernels_gpu_test", "tell:no_GPU", "0", "0")
        self.assertEqual(self.run_gpu("first").returncode, 1)
        self.assertIn("no GPU", [line.get("says") for line in evidence.Book(self.results).lines()])
        self.assertEqual(self.names(), ["machine", "kernels_gpu_test"])
        self.assertEqual(self.run_gpu("first").returncode, 0)

    def test_a_case_that_failed_fails_every_run(self):
        evidence.Book(self.results).write(case="S.Bad", passed=False, ms=1)
        for _ in range(2):
            self.assertEqual(self.run_gpu("first").returncode, 1)
            self.assertEqual(self.last()["failed"], ["S.Bad"])

    def test_what_a_sanitizer_finds_stays_found(self):
        self.script("compute-sanitizer", "say:=========_Invalid_read_of_size_4/=========_ERROR_SUMMARY:_1_error")
        for _ in range(2):
            self.assertEqual(self.run_gpu().returncode, 1)
            self.assertEqual(self.last()["failed"], ["step memcheck: Invalid read of size 4"])

    def test_what_each_tool_says(self):
        runner = evidence.Runner(evidence.Book(self.results), 60, self.folder)
        step = evidence.Step("tool", 1, "true")
        for text, found in (
                ("========= ERROR SUMMARY: 0 errors", None),
                ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", None),
                ("========= Error: Race reported between Write access and Read access\n"
                 "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
                 "Error: Race reported between Write access and Read access"),
                ("========= Warpgroup MMA sequence error detected.\n========= ERROR SUMMARY: 2 errors",
                 "Warpgroup MMA sequence error detected."),
                ("========= Barrier error detected. Divergent thread(s) in block\n========= ERROR SUMMARY: 32 errors",
                 "Barrier error detected. Divergent thread(s) in block"),
                ("========= what nobody knows\n========= ERROR SUMMARY: 1 error", "something, ")):
            runner.log_of("tool").write_text(text)
            said = runner.found_in(step)
            self.assertTrue(said == found or (found and said and said.startswith(found)), (text, said))

    def test_results_of_another_gpu_or_of_other_programs_are_refused(self):
        self.assertEqual(self.run_gpu("first").returncode, 0)
        self.program("rows_gpu_bench", FAKE + "\n")
        done = self.run_gpu("first")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"has results of programs \w+, this is \w+; give another file")
        self.program("rows_gpu_bench", FAKE)
        self.program("nvidia-smi", "#!/bin/sh\necho another\n")
        self.assertIn("has results of gpu a GPU, 1 MiB, this is another", self.run_gpu("first").stderr)
        self.assertEqual(self.names(), [])

    def test_what_is_not_there_is_said_and_fails_nothing(self):
        (self.folder / "kernels_gpu_test").unlink()
        (self.folder / "compute-sanitizer").unlink()
        (self.folder / evidence.DEVICE).unlink()
        (self.folder / evidence.GOLDEN).unlink()
        self.assertEqual(self.run_gpu().returncode, 0)
        skipped = {line["step"]: line["skipped"] for line in evidence.Book(self.results).lines() if "skipped" in line}
        self.assertIn("GoogleTest", skipped["first cases"])
        self.assertIn("GoogleTest", skipped["device"])
        self.assertIn("preset dev-cuda", skipped["golden"])
        self.assertIn("memcheck", skipped)
        self.assertIn("MPS", " ".join(skipped))
        self.assertIn("torch", skipped["free choice"])
        self.assertIn("experts", self.names())

    def test_a_line_that_was_cut_short_is_none_and_spoils_no_other(self):
        book = evidence.Book(self.results)
        self.results.write_text('{"step": "machine", "ended": tr')
        book.write(step="experts", ended=True)
        self.assertEqual((book.ended("machine"), book.ended("experts")), (False, True))

    def build(self, *programs, targets="", fails=""):
        """What cmake was asked by a build where only these programs are, and where the benches are to lie."""
        calls = self.folder / "cmake-calls"
        self.program("cmake", f"""#!/bin/sh
echo "$*" >> {calls}
case "$*" in
  *"--target help"*) echo "{targets}" ;;
  *{fails or "nothing"}*) echo no such compiler; exit 1 ;;
esac
""")
        self.program("nvidia-smi", "#!/bin/sh\necho 9.0\n")
        for name in programs:
            self.program(name, "#!/bin/sh\n")
        before = os.environ["PATH"]
        os.environ["PATH"] = str(self.folder)
        try:
            found = evidence.build(self.folder / "log")
        finally:
            os.environ["PATH"] = before
        return calls.read_text().splitlines(), found

    def test_builds_with_ninja_for_the_gpu_that_is_there(self):
        calls, found = self.build("ninja", targets="kernels_gpu_test: phony")
        self.assertIn("-DJANUS_CUDA_ARCHITECTURES=90a", calls[0])
        self.assertNotIn("Makefiles", calls[0])
        self.assertTrue(calls[2].endswith("--target gpu_benches kernels_gpu_test device_gpu_test"), calls[2])
        self.assertEqual(found, ROOT / "build/cuda/bin")

    def test_builds_with_make_and_without_googletest(self):
        calls, found = self.build(targets="... gpu_benches")
        self.assertIn("-G Unix Makefiles", calls[0])
        self.assertTrue(calls[2].endswith("--target gpu_benches"), calls[2])
        self.assertEqual(found, ROOT / "build/cuda-make/bin")

    def test_a_build_that_fails_says_where(self):
        for fails in ("--preset", "gpu_benches"):
            with self.assertRaises(SystemExit) as ended:
                self.build("ninja", fails=fails)
            self.assertIn("the build failed", str(ended.exception))
            self.assertIn("no such compiler", (self.folder / "log").read_text())

    def test_what_is_cut_leaves_no_child_behind(self):
        left = self.folder / "left"
        self.program("parent", f"#!/bin/sh\n(sleep 30; touch {left}) &\necho $! > {self.folder / 'child'}\nwait\n")
        runner = evidence.Runner(evidence.Book(self.results), 60, self.folder)
        self.assertEqual(runner.once("parent", [str(self.folder / "parent")], 0.5), evidence.CUT)
        child = pathlib.Path("/proc") / (self.folder / "child").read_text().strip() / "stat"
        self.assertTrue(not child.exists() or child.read_text().split()[2] == "Z")

    def test_says_how_it_is_used(self):
        for words in (["some"], ["all", "file", "more"]):
            done = subprocess.run([ROOT / "scripts/gpu", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("scripts/gpu [first|all] [RESULTS]", done.stderr)

    def test_benches_are_those_that_are_built(self):
        text = (ROOT / "bench/gpu/CMakeLists.txt").read_text()
        built = set(re.findall(r"\b(\w+)_gpu_bench\b(?!\.cu)", text)) - {"name"}
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
