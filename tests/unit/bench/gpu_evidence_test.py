"""scripts/gpu with scripted programs and a scripted clock: what runs in which order, and what is left of a run that is cut."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("gpu", str(ROOT / "scripts/gpu"))
gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu", loader))
loader.exec_module(gpu)

CASES = os.environ.get("JANUS_CASES")  # the parity cases, compiled for the host

# What a program does is in do/NAME; without it, it passes one case. It writes its arguments to `calls`.
FAKE = """#!/bin/sh
here=$(dirname "$0")
me=$(basename "$0")
echo "$me $*" >> "$here/calls"
[ $# = 0 ] && exit 2
for results; do :; done
if [ -f "$here/do/$me" ]; then . "$here/do/$me"; fi
echo '{"begins": "S.A"}
{"case": "S.A", "passed": true}' >> "$results"
[ $me = compute-sanitizer ] && echo "========= ERROR SUMMARY: 0 errors"
exit 0
"""
HANGS = 'echo \'{"begins": "S.B"}\' >> "$results"; sleep 3600 & echo $! > "$here/hanging"; wait\n'


class GpuTest(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.root = pathlib.Path(kept.name)
        (self.root / "bench").symlink_to(ROOT / "bench")
        self.folder, self.results = self.root / "bin", self.root / "results.jsonl"
        (self.folder / "do").mkdir(parents=True)
        for name in ("compute-sanitizer", *gpu.PROGRAMS):
            self.program(name, FAKE)
        self.program("nvidia-smi", '#!/bin/sh\ncase "$*" in *name*) echo "NVIDIA H200, 580.1, 9 MiB" ;; *cap*) echo 9.0 ;; esac\n')
        (self.folder / "torch.py").write_text("raise ImportError('no torch here')\n")
        for how in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.addCleanup(signal.signal, how, signal.getsignal(how))
        self.time, self.while_hanging = 0, lambda: None

    def program(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def do(self, name, text):
        (self.folder / "do" / name).write_text(text)

    def is_hanging(self):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.folder / "hanging").read_text())
            return "(sleep) S" in pathlib.Path(f"/proc/{pid}/stat").read_text()
        return False

    def now(self):
        """Time passes only while a program hangs, however slow this machine is."""
        if self.is_hanging():
            self.time += 7
            self.assertLess(self.time, 2000, "it should have been cut")
            self.while_hanging()
        return self.time

    def run_gpu(self, *words, **environment):
        """The exit status. Sets what was printed, the lines of the results, how each step ended, and the calls of programs."""
        (self.folder / "calls").write_text("")
        given = {"PATH": f"{self.folder}:/usr/bin:/bin", "JANUS_GPU_PROGRAMS": str(self.folder), "JANUS_COMMIT": "abc",
                 "JANUS_GPU_LOGS": str(self.root / "logs"), "PYTHONPATH": str(self.folder), "JANUS_GPU_SECONDS": "1000000"}
        said = io.StringIO()
        with mock.patch.dict(os.environ, {**given, **environment}), mock.patch.object(gpu, "ROOT", self.root), \
                mock.patch.object(gpu, "NEEDS", self.root / "needs"), mock.patch.object(gpu, "now", self.now), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = gpu.main([*words] or [str(self.results)])
        self.said = said.getvalue()
        self.lines = [json.loads(line) for line in self.results.read_text().splitlines()] if self.results.exists() else []
        self.ended = {line["step"]: line.get("exit", line.get("skipped")) for line in self.lines
                      if "exit" in line or ("skipped" in line and "case" not in line)}
        self.calls = [line.split() for line in (self.folder / "calls").read_text().splitlines()]
        return status

    def test_steps_run_in_order_of_value(self):
        self.assertEqual(self.run_gpu(), 0, self.said)
        self.assertEqual(list(self.ended), [step[0] for step in gpu.STEPS])
        self.assertEqual({name for name, how in self.ended.items() if how == "no torch here"}, {"free choice", "transformers"})
        self.assertEqual(set(self.ended.values()), {0, "no torch here"})
        run = self.lines[0]["run"]
        self.assertEqual((run["gpu"], run["driver"], run["commit"]), ("NVIDIA H200", "580.1", "abc"))
        self.assertIn({"case": "S.A", "passed": True, "step": "golden"}, self.lines)
        self.assertIn("| racecheck | correct | - | | 1 passed | yes |", self.said)
        tools = [call for call in self.calls if call[0] == "compute-sanitizer"]
        self.assertEqual([call[2] for call in tools], ["memcheck", "racecheck", "synccheck", "memcheck", "initcheck"])
        self.assertEqual(["--apart" in call for call in tools], [True, False, False, False, False])
        self.assertEqual(self.run_gpu(JANUS_GPU_STEPS="gate,machine"), 0)
        self.assertEqual([call[0] for call in self.calls if call[1:]], ["machine_gpu_bench", "gate_gpu_bench"])
        self.assertIn("commit abc, runs: 2", self.said)

    def test_limits_leave_time_for_a_service(self):
        limits = {step[0]: step[1] for step in gpu.STEPS}
        before = list(limits)[:list(limits).index("serve") + 1]
        self.assertEqual(before, ["machine", "first cases", "device", "golden", "gate", "experts", "attention", "attention table",
                                  "projections", "layer", "serve"])
        self.assertLessEqual(sum(limits[name] for name in before), gpu.RUN_SECONDS - gpu.LAST_SECONDS)

    def test_a_limit_ends_a_program_with_its_children(self):
        self.do("gate_gpu_bench", HANGS.replace("begins", "device"))
        with mock.patch.object(gpu, "STEPS", [step[:3] for step in gpu.STEPS]):
            self.assertEqual(self.run_gpu(), 0, "no check was cut")
        self.assertFalse(self.is_hanging())
        self.assertEqual((self.ended["gate"], self.ended["experts"]), ("cut", 0))
        self.assertLess(self.time, gpu.RUN_SECONDS)

    def test_a_run_ends_in_time_and_what_is_not_checked_is_named(self):
        self.do("golden_gpu_test", HANGS)
        with mock.patch.object(gpu, "STEPS", [(*step[:1], 1000000, *step[2:3]) for step in gpu.STEPS]):
            self.assertEqual(self.run_gpu(JANUS_GPU_SECONDS="540"), 3)
        self.assertLess(self.time, 540)
        self.assertEqual((self.ended["device"], self.ended["golden"], self.ended["gate"]), (0, "cut", "no time was left"))
        self.assertIn("not checked: golden: it was cut\nnot checked: memcheck: no time was left\n", self.said)
        self.assertIn("| golden | correct | - | | 0 | incomplete |", self.said)

    def test_a_run_that_is_ended_prints_what_it_has(self):
        self.do("experts_gpu_bench", HANGS)
        self.while_hanging = lambda: os.kill(os.getpid(), signal.SIGTERM)
        self.assertEqual(self.run_gpu(), 3)
        self.assertFalse(self.is_hanging())
        self.assertEqual((self.ended["gate"], self.ended["experts"], self.ended["attention"]), (0, "cut", "no time was left"))
        self.assertIn("| AEBS greedy, twice the slots | <= 11 us | - |", self.said)

    def test_what_hangs_or_ends_its_process_fails_and_the_others_run(self):
        once = 'if ! grep -q S.B "$results"; then {}; fi\n'
        for how in (HANGS.strip(), 'echo \'{"begins": "S.B"}\' >> "$results"; exit 4'):
            self.do("kernels_gpu_test", once.format(how))
            self.assertEqual(self.run_gpu(JANUS_GPU_STEPS="first cases,device"), 1)
            self.assertEqual([call[0] for call in self.calls if call[1:]], [gpu.PARITY, gpu.PARITY, "device_gpu_test"])
            self.assertIn("failed: first cases: S.B lost\n", self.said)
            self.assertIn("| first cases | correct | S.B lost | | 1 lost, 1 passed | no |", self.said)

    def test_what_fails_fails_the_run(self):
        self.do("serve_gpu_bench", "echo not the same bits; exit 1\n")
        self.do("device_gpu_test", 'echo \'{"begins": "S.C"}\n{"case": "S.C", "passed": false}\' >> "$results"; exit 1\n')
        self.do("golden_gpu_test", "exit 0\n")
        self.assertEqual(self.run_gpu(), 1)
        for line in ("device: S.C failed", "golden: exit 1 no case was run", "serve: exit 1 not the same bits"):
            self.assertIn(f"failed: {line}\n", self.said)
        self.assertEqual(self.ended["rows"], 0)

    def test_what_a_tool_finds_and_what_it_did_not_look_at(self):
        report = "[ RUN      ] S.A\n========= Invalid read of size 4\n=========     at Run\n========= ERROR SUMMARY: 1 error\n"
        self.do("compute-sanitizer", f"[ $2 = memcheck ] && echo '{report}' && exit 9\n[ $2 = racecheck ] && echo no device && exit 1\n")
        self.assertEqual(self.run_gpu(JANUS_GPU_STEPS="memcheck,racecheck,synccheck"), 1)
        self.assertIn("failed: memcheck: Invalid read of size 4; at Run; ERROR SUMMARY: 1 error; S.A\n", self.said)
        self.assertIn("not checked: racecheck: compute-sanitizer did not look at it: no device\n", self.said)
        self.assertEqual(self.ended["synccheck"], 0)

    def test_programs_that_are_missing_are_named(self):
        (self.folder / gpu.PARITY).unlink()
        self.assertEqual(self.run_gpu(), 3)
        self.assertIn("not checked: first cases: there is no kernels_gpu_test", self.said)
        self.assertEqual((self.ended["experts"], self.ended["device"]), (0, 0))

    def build(self, with_ninja, lacks=""):
        """A run with a cmake that builds all programs but `lacks`. Returns the calls of cmake."""
        made = self.root / ("build/cuda" if with_ninja else "build/cuda-make") / "bin"
        made.mkdir(parents=True)
        (made / lacks).write_text("old") if lacks else None
        self.program("cmake", f"""#!/bin/sh
echo "$*" >> {self.root}/cmake
case "$*" in *help) echo {' '.join(gpu.PROGRAMS)} ;; *--parallel*)
  for name in {' '.join(gpu.PROGRAMS)}; do [ $name = "{lacks}" ] || cp {self.folder}/$name {made}; done
  echo "a.cu(1): error: no such thing"; exit {1 if lacks else 0} ;; esac
""")
        (made / "do").symlink_to(self.folder / "do")
        with mock.patch.object(gpu.shutil, "which", lambda name, path="": (name != "ninja" or with_ninja) and str(self.folder / name)):
            self.status = self.run_gpu(JANUS_GPU_PROGRAMS="", JANUS_GPU_STEPS="first cases,rows,device")
        return (self.root / "cmake").read_text().splitlines()

    def test_a_program_that_does_not_compile_stops_no_other(self):
        (self.root / "needs").mkdir()
        calls = self.build(True, lacks="rows_gpu_bench")
        self.assertIn(f"-DCMAKE_PREFIX_PATH={self.root}/needs -DGTEST_ROOT={self.root}/needs -DJANUS_CUDA_ARCHITECTURES=90a", calls[0])
        self.assertTrue(calls[2].endswith(f"--target {' '.join(gpu.PROGRAMS)} -- -k 0"), calls[2])
        self.assertEqual((self.status, self.ended["build"], self.ended["first cases"], self.ended["device"]), (1, 1, 0, 0))
        self.assertIn("there is no rows_gpu_bench", self.ended["rows"], "an old one does not count")
        self.assertIn("failed: build: a.cu(1): error: no such thing\n", self.said)

    def test_make_builds_where_there_is_no_ninja(self):
        calls = self.build(False)
        self.assertIn("-G Unix Makefiles", calls[0])
        self.assertTrue(calls[2].endswith("-- -k"), calls[2])
        self.assertEqual((self.status, self.ended["rows"]), (0, 0))

    def test_programs_that_do_not_start_here_are_built(self):
        self.program(gpu.PROGRAMS[0], "#!/bin/sh\nexit 1\n")
        self.program("cmake", "#!/bin/sh\nexit 1\n")
        self.assertEqual(self.run_gpu(), 1)
        self.assertEqual((self.ended["programs"], self.ended["build"]), (f"those in {self.folder} do not start here", 1))

    def test_brings_what_another_machine_lacks(self):
        names = ("include/gtest/gtest.h", "lib/x/libgtest.a", "lib/x/libgtest_main.a", "include/nlohmann/json.hpp",
                 "share/cmake/nlohmann_json/nlohmann_jsonConfig.cmake")
        for name in names:
            (self.root / "usr" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "usr" / name).write_text(name)
        self.assertEqual(self.run_gpu("bring", CMAKE_PREFIX_PATH=str(self.root / "usr")), 0)
        needs = self.root / "needs"
        self.assertEqual({str(path.relative_to(needs)): path.read_text() for path in needs.rglob("*") if path.is_file()},
                         {name.replace("/x/", "/"): name for name in names})

    def test_says_how_it_is_used(self):
        for words in (["one", "two"], ["table"], ["--help"], ["bring", "file"]):
            self.assertEqual(self.run_gpu(*words), 2)
            self.assertIn("scripts/gpu [RESULTS]", self.said)
        self.assertEqual(self.run_gpu(JANUS_GPU_STEPS="gate,gates"), 2)
        self.assertIn("there is no step gates", self.said)

    def test_benches_are_those_that_are_built(self):
        text = (ROOT / "bench/gpu/CMakeLists.txt").read_text()
        built = set(re.findall(r"\b(\w+_gpu_bench)\b(?!\.cu)", text)) - {"name"}
        built |= {f"attention_split{split}_gpu_bench" for split in re.search(r"foreach\(split (.*)\)", text)[1].split()}
        built |= {f"{name}_gpu_bench" for name in re.search(r"foreach\(name (serve.*)\)", text)[1].split()}
        self.assertEqual({name for name in gpu.PROGRAMS if name.endswith("bench")}, built)

    @unittest.skipUnless(CASES, "JANUS_CASES names no program")
    def test_first_names_cases_that_there_are(self):
        suite, there = "", []
        for line in subprocess.run([CASES, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
            name = line.split("#")[0].strip()
            suite, there = (suite, [*there, suite + name]) if line.startswith(" ") else (name, there)
        first = next(step[4] for step in gpu.STEPS if step[0] == "first cases")
        chosen = [{name for name in there if re.fullmatch(re.escape(one).replace(r"\*", ".*"), name)} for one in first]
        self.assertEqual([one for one, names in zip(first, chosen) if not names], [])
        self.assertLess(len(set.union(*chosen)), 120, "they are to end within a minute")


if __name__ == "__main__":
    unittest.main(verbosity=2)
