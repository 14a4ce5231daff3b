"""What scripts/gpu does: steps in order of value, within one deadline, over a file that it goes on with.

The file has one JSON line for the run that began it, one when a step begins and one when it ends, and
between them what the programs write themselves. A step that ended is not run again; what was cut, or
had no time, comes in the next run behind what never began.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from result_lines import result_lines

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUT = 124
FOUND = 9  # by compute-sanitizer

# What the host alone can refuse is no case of the device's.
NOT_OURS = ("Linear.RefusesACpuStream*", "*.NamesTheFirstRow*", "*.RefusesAbsurdValues*")
# A case or few for each kernel and form, small enough for their loops on the host.
FIRST = (
    "Embed.EqualsTheReferenceExactly", "FastEmbed.GivesThePlainFormsBits",
    "RmsNorm.NormsThePiecesOfARowByThemselves", "FastNorm.FollowsItsRule",
    "Rope.EqualsTheReference*", "FastRope.FollowsItsRule",
    "CombineSlots.GivesTheReferencesBits*", "FastCombine.GivesThePlainFormsBits",
    "PermuteRows.MovesEach*", "FastRows.*",
    "PackFp8.GivesTheReferencesBits*", "UnpackFp8.GivesTheReferencesBits*",
    "All/GateTopKTest.EqualsTheReference/Mixtral", "Shapes/FastGateTest.*/PastATile",
    "Both/ScheduleExpertsTest.GivesTheSpecificationsResultAtAModelsSize/*",
    "Ways/GateAndScheduleTest.*/Rows", "Shapes/RouteRoundTest.*/Rows",
    "All/GroupedExpertFfnTest.EqualsTheReference/Bf16",
    "Shapes/FastExpertsTest.*/NoWholeTiles",
    "Wgmma/FastExpertsTest.*/NoWholeTiles", "Wgmma/FastExpertsTest.*/Wide*",
    "WgmmaFp8/FastExpertsTest.*/NoWholeBlocks", "WgmmaFp8/FastExpertsTest.*/Wide*",
    "WgmmaMxfp4/FastExpertsTest.*/NoWholeSteps", "WgmmaMxfp4/FastExpertsTest.*/Wide*",
    "WgmmaExperts.HaveTheSameBits*",
    "All/LinearTest.EqualsTheReference/Bf16", "HeadLinear.EqualsTheReference*",
    "Shapes/FastLinearTest.FollowsItsRule/NoWholeTiles",
    "Shapes/FastHeadLinearTest.FollowsItsRule/NoWholeTiles",
    "KvWrite.Stores*", "All/PagedAttentionTest.EqualsTheReference/APrompt",
    "Shapes/FastAttentionTest.GivesWhatItsRulesSay/GroupOf8",
    "Shapes/FastAttentionTest.GivesWhatItsRulesSay/Fp8GroupOf4",
    "LatentWrite.Stores*", "FastLatentWrite.*", "All/LatentAttentionTest.BothForms*/OddSizes",
    "Shapes/FastAbsorbedTest.GivesWhatItsRulesSay/Heads16",
    "Shapes/FastAbsorbedTest.GivesWhatItsRulesSay/Fp8Heads16",
    "Shapes/WgmmaAbsorbedTest.GivesWhatItsRulesSay/Heads128",
    "Shapes/WgmmaAbsorbedTest.GivesWhatItsRulesSay/Fp8Heads128",
    "Shapes/FastExpandedTest.GivesWhatItsRulesSay/OneHead",
    "SampleOnEveryDevice.TopKBreaks*", "SampleOnCuda.*",
)
DEVICE = "device_gpu_test"  # streams, graphs, flags, shared memory and loads
GOLDEN = "golden_gpu_test"  # whole instances over tests/golden
SANITIZERS = {"memcheck": 60, "racecheck": 60, "synccheck": 40, "initcheck": 40}  # seconds
BENCHES = ("machine", "experts", "gate", "attention", "layer", "serve", "rows", "projections", "premise", "processes")


def filter_of(cases):
    return f"--gtest_filter={':'.join(cases)}-{':'.join(NOT_OURS)}"


class Book:
    """The file of results."""

    def __init__(self, path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def lines(self):
        return result_lines(self.path)

    def write(self, **fields):
        line = json.dumps(fields)
        print(line, flush=True)
        whole = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("" if whole else "\n") + line + "\n")

    def begin(self, run):
        """Refuses results of another GPU or of other programs: they would stand for these."""
        for line in self.lines():
            there = line.get("run")
            if there is None:
                continue
            differ = [key for key in ("gpu", "programs") if there.get(key) != run[key]]
            if differ:
                said = ", ".join(f"{key} {there.get(key)}, this is {run[key]}" for key in differ)
                raise SystemExit(f"scripts/gpu: {self.path} has results of {said}; give another file")
        self.write(run=run)

    def tries(self, step):
        return sum(line.get("step") == step and "begins" in line for line in self.lines())

    def ended(self, step):
        return any(line.get("step") == step and line.get("ended") for line in self.lines())

    def begun(self):
        """How often a case, or what a bench times, has begun."""
        return sum("bench_begins" in line or ("begins" in line and "step" not in line) for line in self.lines())

    def failures(self):
        """Steps and cases that did not do what they should."""
        begun, ended, found = {}, set(), []
        lines = self.lines()
        done = {line["step"] for line in lines if line.get("step") and line.get("ended")}
        for line in lines:
            name = line.get("bench_begins") or ("step" not in line and line.get("begins"))
            if name:
                begun[name] = begun.get(name, 0) + 1
            if "bench" in line:
                ended.add(line["bench"])
            if "case" in line:
                ended.add(line["case"])
                if not line.get("passed"):
                    found.append(line["case"])
            if line.get("step") and "failed" in line and line["step"] not in done:
                found.append(f"step {line['step']}")
            if "found" in line:
                found.append(f"step {line['step']}: {line['found']}")
        found += [name for name, times in begun.items() if times > 1 and name not in ended]  # they hang, or end the process
        return sorted(set(found))


class Step:
    def __init__(self, name, seconds, *command, cases=None, book=None, missing=None):
        self.name, self.seconds, self.command = name, seconds, [str(word) for word in command]
        self.cases = cases  # of cases of GoogleTest, the book that they are in: who was cut is run once more
        self.book = cases or book  # of what says when it begins a case: who ends its process is left behind
        self.missing = missing  # why it cannot be run here, or what tells


def in_a_group():
    """So that it ends with its own children, and with this process."""
    os.setpgid(0, 0)
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Runner:
    def __init__(self, book, seconds, logs):
        self.book, self.logs = book, logs
        self.deadline = time.monotonic() + seconds

    def left(self):
        return self.deadline - time.monotonic()

    def log_of(self, name):
        return self.logs / f"{name.replace(' ', '-')}.log"

    def once(self, name, command, seconds, environment=None):
        with self.log_of(name).open("ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=in_a_group,
                                     env={**os.environ, "JANUS_SOURCE_DIR": str(ROOT), **(environment or {})})
            try:
                return child.wait(max(seconds, 0.1))
            except BaseException as why:  # its own children too, which hold the GPU as well
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                if isinstance(why, subprocess.TimeoutExpired):
                    return CUT
                raise

    def run(self, step, environment=None):
        """Whether it is done, for good or not."""
        if self.book.ended(step.name):
            return True
        if self.left() < 5:
            return False
        missing = step.missing() if callable(step.missing) else step.missing
        if missing:
            self.book.write(step=step.name, skipped=missing)
            return True
        self.book.write(step=step.name, begins=True)
        until = time.monotonic() + min(step.seconds, self.left())
        passes = ([], ["--again"]) if step.cases else ([],)
        status = 0
        for more in passes:
            status = self.run_behind_faults(step, more, until, environment)
            if step.cases and status in (1, FOUND):
                status = 0  # each case that ended has a line that says how
            if status != 0:
                break
        if found := self.found_in(step):
            self.book.write(step=step.name, found=found)
        if status == CUT:
            self.book.write(step=step.name, cut=True)
        elif status != 0:
            # It is tried again in the next run.
            self.book.write(step=step.name, failed=status, says=self.last_words(step), log=str(self.log_of(step.name)))
        else:
            self.book.write(step=step.name, ended=True)
        return status == 0

    def run_behind_faults(self, step, more, until, environment):
        """A case that ended the process, or lost it the GPU, is in the book: the next process goes on behind it."""
        while True:
            begun = step.book.begun() if step.book else 0
            status = self.once(step.name, step.command + more, until - time.monotonic(), environment)
            final = (0, CUT, 1, FOUND) if step.cases else (0, CUT)
            if status in final or not step.book or step.book.begun() == begun:
                return status

    def last_words(self, step):
        words = self.log_of(step.name).read_text(errors="replace").split("\n")
        return next((line.strip()[:200] for line in reversed(words) if line.strip()), "")

    def found_in(self, step):
        """What compute-sanitizer says first, where its summaries say that it found something."""
        log = self.log_of(step.name)
        text = log.read_text(errors="replace") if log.exists() else ""
        if not re.search(r"^========= (ERROR SUMMARY: [1-9]|RACECHECK SUMMARY: [1-9])", text, re.MULTILINE):
            return None
        match = re.search(r"^========= (.*(?:Invalid|Misaligned|Race reported|hazard detected|Uninitialized|"
                          r"Barrier error|MMA sequence|Program hit).*)$", text, re.MULTILINE)
        return match[1].strip() if match else f"something, {log}"

    def run_all(self, steps):
        """What is not done."""
        # Never begun before once cut; among equals the order of value.
        order = sorted(steps, key=lambda step: self.book.tries(step.name))
        return [step.name for step in order if not self.run(step)]


def digest_of(paths):
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:12]


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def first_gpu(fields):
    """What nvidia-smi says of it; None: nothing."""
    return output_of("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0")


def architecture():
    """As CMake is to compile for the first GPU; None: it does not say."""
    match = re.fullmatch(r"(\d+)\.(\d)", first_gpu("compute_cap") or "")
    return match and f"{match[1]}{match[2]}{'a' if match[1] == '9' else ''}"


def build(log):
    """The folder of the programs. Without Ninja by make; without GoogleTest without the parity cases."""
    ninja = shutil.which("ninja")
    folder = ROOT / ("build/cuda" if ninja else "build/cuda-make")
    configure = ["cmake", "--preset", "cuda", "-B", str(folder), "-DJANUS_WARNINGS_ARE_ERRORS=OFF"]
    configure += [] if ninja else ["-G", "Unix Makefiles"]
    if found := architecture():
        configure.append(f"-DJANUS_CUDA_ARCHITECTURES={found}")
    make = ["cmake", "--build", str(folder), "--parallel", str(os.cpu_count()), "--target", "gpu_benches"]
    with log.open("wb") as file:
        done = subprocess.run(configure, stdout=file, stderr=file, check=False, cwd=ROOT).returncode == 0
        if done and "kernels_gpu_test" in (output_of("cmake", "--build", str(folder), "--target", "help") or ""):
            make += ["kernels_gpu_test", DEVICE]
        done = done and subprocess.run(make, stdout=file, stderr=file, check=False, cwd=ROOT).returncode == 0
    if not done:
        print("".join(log.read_text(errors="replace").splitlines(True)[-40:]), file=sys.stderr)
        raise SystemExit(f"scripts/gpu: the build failed, {log}")
    return folder / "bin"


def sanitizer_step(tool, test, book, run, missing):
    """Over the first cases, with a book of its own: there they have not run."""
    program = shutil.which("compute-sanitizer")
    missing = missing or (None if program else "no compute-sanitizer here")
    own = Book(pathlib.Path(f"{book.path}.{tool}"))
    if not missing:
        own.begin(run)
    # Where all blocks are of one stretch an end that is passed is the next one's begin.
    apart = ["--apart"] if tool == "memcheck" else []
    return Step(tool, SANITIZERS[tool], program or "", "--tool", tool, "--error-exitcode", FOUND, test,
                filter_of(FIRST), "--results", own.path, *apart, cases=own, missing=missing)


def torch_step(name, script, needs, book):
    def missing():
        check = f"import torch, sys; {needs}sys.exit(not torch.cuda.is_available())"
        try:
            found = subprocess.run(["python3", "-c", check], capture_output=True, check=False, timeout=40).returncode
        except subprocess.TimeoutExpired:
            return "torch did not say within 40 s whether it sees a GPU"
        return "no Python here with what it needs and a GPU that torch sees" if found else None
    return Step(name, 45, "python3", ROOT / "bench/gpu" / script, "--results", book.path, missing=missing)


def mps_says(words, where):
    """What nvidia-cuda-mps-control answers; nothing where it does not within 10 s."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(["nvidia-cuda-mps-control"], input=f"{words}\n", text=True, capture_output=True,
                              check=False, timeout=10, env={**os.environ, **where}).stdout.strip()
    return ""


def processes_with_mps(runner, step):
    """Kernels of several processes at once, where the service starts without root."""
    if runner.book.ended(step.name) or runner.left() < 5:
        return runner.book.ended(step.name)
    if not shutil.which("nvidia-cuda-mps-control"):
        step.missing = "no nvidia-cuda-mps-control: processes have taken turns"
        return runner.run(step)
    pipes = tempfile.mkdtemp()
    where = {"CUDA_MPS_PIPE_DIRECTORY": pipes, "CUDA_MPS_LOG_DIRECTORY": pipes}
    try:
        if runner.once("mps", ["nvidia-cuda-mps-control", "-d"], 10, where) != 0:
            step.missing = "MPS does not start: processes have taken turns"
            return runner.run(step)
        done = runner.run(step, where)
        if done and not mps_says("get_server_list", where):
            runner.book.write(step=step.name, found="no process reached MPS: they have taken turns")
        return done
    finally:
        mps_says("quit -t 5", where)
        shutil.rmtree(pipes, ignore_errors=True)


def host():
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} CPUs, {model[1] if model else os.uname().machine}"


@contextlib.contextmanager
def clocks(logs):
    """What the GPU's clocks and temperature were meanwhile, in a file; it keeps the driver ready, too."""
    watch = None
    with contextlib.suppress(OSError), (logs / "clocks.csv").open("ab") as file:
        watch = subprocess.Popen(
            ["nvidia-smi", "--query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw", "--format=csv",
             "--id=0", "-lms", "500"], stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=in_a_group)
    try:
        yield
    finally:
        if watch:
            watch.kill()
            watch.wait()


def default_path(run):
    gpu = re.sub(r"[^a-z0-9]+", "-", run["gpu"].lower()).strip("-")
    return ROOT / "bench/results" / f"gpu-{gpu}-{run['commit']}-{run['programs']}.jsonl"


def main(mode, results):
    started = time.monotonic()
    seconds = float(os.environ.get("JANUS_GPU_SECONDS", "570"))
    logs = pathlib.Path(os.environ.get("JANUS_GPU_LOGS", ROOT / "build/gpu-logs"))
    logs.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("JANUS_GPU_TEST")
    folder = pathlib.Path(given).resolve().parent if given else build(logs / "build.log")
    built = time.monotonic() - started
    test = pathlib.Path(given) if given else folder / "kernels_gpu_test"
    programs = [path for path in [test, folder / DEVICE, folder / GOLDEN, *(folder / f"{name}_gpu_bench" for name in BENCHES)] if path.exists()]
    programs += sorted((ROOT / "bench/gpu").glob("*.py"))
    run = {
        "command": " ".join(["scripts/gpu", mode]),
        "commit": output_of("git", "describe", "--always", "--dirty") or os.environ.get("JANUS_COMMIT", "unknown"),
        "programs": digest_of(programs),
        "gpu": first_gpu("name,memory.total") or "none",
        "board": first_gpu("uuid,pci.bus_id"),
        "driver": first_gpu("driver_version,clocks.max.sm,clocks.max.mem,power.limit"),
        "host": host(),
        "build_seconds": round(built),
    }
    book = Book(pathlib.Path(results) if results else default_path(run))
    book.begin(run)
    runner = Runner(book, seconds - built, logs)
    no_test = None if test.exists() else f"there is no {test}: GoogleTest was not there when it was to be built"

    def bench(name, limit):
        program = folder / f"{name}_gpu_bench"
        return Step(name, limit, program, "--results", book.path, book=book,
                    missing=None if program.exists() else f"there is no {program}")

    def parity(name, limit, cases):
        return Step(name, limit, test, filter_of(cases), "--results", book.path, cases=book, missing=no_test)

    def cases_of(name, program, limit, built_by):
        missing = None if program.exists() else f"there is no {program}: {built_by}"
        return Step(name, limit, program, "--results", book.path, cases=book, missing=missing)

    def sanitizer(tool):
        return sanitizer_step(tool, test, book, run, no_test)

    steps = [bench("machine", 30), parity("first cases", 45, FIRST)]
    if mode == "all":
        steps += [cases_of("device", folder / DEVICE, 30, "GoogleTest was not there when it was to be built"),
                  bench("experts", 60), bench("gate", 45), bench("attention", 60), bench("layer", 40),
                  bench("serve", 120), cases_of("golden", folder / GOLDEN, 60, "preset dev-cuda builds it"),
                  bench("rows", 30), bench("projections", 30), bench("premise", 30),
                  sanitizer("memcheck"), sanitizer("racecheck"), sanitizer("synccheck"), bench("processes", 60),
                  Step("attention table", 10, "python3", ROOT / "bench/gpu/attention_table.py", "--results", book.path),
                  torch_step("free choice", "free_choice.py", "", book),
                  torch_step("transformers", "transformers_decode.py", "import transformers; ", book),
                  parity("every case", 240, ["*"]),
                  # Of managed memory it may see little (docs/cuda.md).
                  sanitizer("initcheck")]
    with clocks(logs):
        open_steps = runner.run_all(steps)
        mps = Step("processes with MPS", 60, folder / "processes_gpu_bench", "--mps", "--results", book.path, book=book)
        if mode == "all" and not processes_with_mps(runner, mps):
            open_steps.append(mps.name)
    failures = book.failures()
    for tool in SANITIZERS:
        failures += [f"{tool}: {name}" for name in Book(pathlib.Path(f"{book.path}.{tool}")).failures()]
    book.write(seconds=round(time.monotonic() - started), failed=failures, open=open_steps, results=str(book.path))
    if open_steps:
        print(f"scripts/gpu: run it again for what is open: {', '.join(open_steps)}")
    return 1 if failures else 0
