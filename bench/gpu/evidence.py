"""What scripts/gpu does: runs steps in order of value, within one deadline, and continues a file of results.

The file has one JSON line for each run, one when a step begins and one when it ends, and between these the lines of
the programs. A step that ended is not run again unless its program or script has changed: then its lines are put
aside. A step that was cut, or had no time, runs in the next run, after the steps that have never begun.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import evidence_archive
import figures
from bounded import ROOT, in_a_group, killed, output_of
from gpu_build import BUILD_SECONDS, NEEDS, Built, beside_nvcc, bring, build, first_gpu, first_gpu_id
from result_book import Book
from step_runner import FOUND, Digests, Runner, Step

SCRIPTS = ROOT / "bench/gpu"
OFF = {"NCCL": "not used (docs/design/010)", "UCX": "not in preset cuda, which links with a compiler alone"}
NO_PARITY = 3  # exit status if nothing failed, but a step that compares results did not run

# These cases test what the host refuses; they need no device.
NOT_OURS = ("Linear.RefusesACpuStream*", "*.NamesTheFirstRow*", "*.RefusesAbsurdValues*")
# One or a few cases for each kernel and form, small enough for reference loops on the host.
FIRST = (
    "Embed.EqualsTheReferenceExactly", "FastEmbed.GivesThePlainFormsBits",
    "RmsNorm.NormsThePiecesOfARowByThemselves", "FastNorm.FollowsItsRule",
    "Rope.EqualsTheReference*", "FastRope.FollowsItsRule",
    "CombineSlots.GivesTheReferencesBits*", "FastCombine.GivesThePlainFormsBits",
    "PermuteRows.MovesEach*", "FastRows.*",
    "PackFp8.GivesTheReferencesBits*", "UnpackFp8.GivesTheReferencesBits*",
    "AddTerms.GivesTheReferencesBits*", "CombineSums.GivesTheReferencesBits*",
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
PARITY = "kernels_gpu_test"
DEVICE = "device_gpu_test"  # streams, graphs, flags, shared memory and loads
GOLDEN = "golden_gpu_test"  # whole instances over tests/golden
BENCHES = ("machine", "experts", "gate", "attention", "layer", "serve", "rows", "projections", "premise", "processes",
           "attention_split512", "attention_split2048")
# The most wanted first, as the build may be cut.
PROGRAMS = ("machine_gpu_bench", PARITY, DEVICE, *(f"{name}_gpu_bench" for name in BENCHES[1:6]), GOLDEN,
            *(f"{name}_gpu_bench" for name in BENCHES[6:]))

# For each step: the seconds that it is expected to take (not measured yet), and its limit. On a first run of ten
# minutes the expected times leave BUILD_TYPICAL for the build. The limits leave it no time: they assume programs that
# are built already.
TYPICAL_AND_LIMIT = {
    "machine": (8, 20), "first cases": (30, 40), "device": (10, 20), "experts": (30, 45), "gate": (15, 25),
    "attention": (35, 50), "layer": (12, 25), "serve": (60, 80), "golden": (20, 40), "rows": (10, 20),
    "projections": (10, 20), "premise": (12, 20), "free choice": (30, 45), "memcheck": (35, 50), "racecheck": (40, 60),
    "synccheck": (30, 40), "memcheck device": (30, 45), "attention table": (1, 10), "transformers": (60, 90),
    "attention_split512": (15, 25), "attention_split2048": (15, 25), "processes": (40, 60),
    "processes with MPS": (40, 60), "every case": (150, 240), "initcheck": (30, 40),
}
FIRST_RUN = tuple(TYPICAL_AND_LIMIT)[:15]
RUN_SECONDS, BUILD_TYPICAL = 570, 180
WATCHED = {"memcheck": ("memcheck", PARITY), "racecheck": ("racecheck", PARITY), "synccheck": ("synccheck", PARITY),
           "initcheck": ("initcheck", PARITY), "memcheck device": ("memcheck", DEVICE)}  # steps: tool, program


def filter_of(cases):
    return f"--gtest_filter={':'.join(cases)}-{':'.join(NOT_OURS)}"


class Steps:
    """Steps over programs in one folder and one file of results."""

    def __init__(self, built, book, logs):
        self.built, self.book, self.logs = built, book, logs
        self.digests = Digests()

    def program(self, name):
        return self.built.folder / name

    def without(self, name):
        """Why a program cannot be run; None: it can."""
        if name in self.built.fresh:
            return None
        return f"no {name}: {self.built.without.get(name, 'it is not there')}"

    def step(self, name, *command, needs, **more):
        step = Step(name, TYPICAL_AND_LIMIT[name][1], *command, needs=needs, **more)
        step.digest = self.digests.of(needs) if step.missing is None or callable(step.missing) else None
        return step

    def bench(self, name):
        program = f"{name}_gpu_bench"
        return self.step(name, self.program(program), "--results", self.book.path, needs=[self.program(program)],
                         book=self.book, missing=self.without(program))

    def cases(self, name, program, cases=()):
        """All cases of a program if `cases` is empty."""
        return self.step(name, self.program(program), *([filter_of(cases)] if cases else []), "--results", self.book.path,
                         needs=[self.program(program)], cases=self.book, missing=self.without(program))

    def watched(self, name):
        """Runs the first cases, or the device cases, under a tool. They get another book: under the tool they have not run yet."""
        tool, program = WATCHED[name]
        sanitizer = beside_nvcc("compute-sanitizer", self.built.folder.parent)
        missing = self.without(program) or (None if sanitizer else "no compute-sanitizer here")
        own = Book(evidence_archive.own_path(self.book.path, name))
        # The cases make calls that are refused, and check the error themselves.
        options = ["--report-api-errors", "no"] if tool == "memcheck" else []
        # In one allocation, the end of a block is the start of the next. memcheck sees an overrun only with separate
        # blocks.
        chosen = [filter_of(FIRST), *(["--apart"] if tool == "memcheck" else [])] if program == PARITY else []
        return self.step(name, sanitizer or "", "--tool", tool, *options, "--error-exitcode", FOUND, self.program(program),
                         *chosen, "--results", own.path, needs=[self.program(program)], cases=own, missing=missing,
                         is_watched=True)

    def script(self, name, file, benches=(), **more):
        """Its lines depend also on the lines of these benchmarks."""
        needs = [SCRIPTS / file, *(self.program(f"{bench}_gpu_bench") for bench in benches)]
        return self.step(name, sys.executable, SCRIPTS / file, "--results", self.book.path,
                         needs=[path for path in needs if path.exists()], after=benches, **more)

    def mps(self):
        name = "processes_gpu_bench"
        return self.step("processes with MPS", self.program(name), "--mps", "--results", self.book.path,
                         needs=[self.program(name)], book=self.book, missing=self.without(name))

    def all_of(self, mode):
        steps = [self.bench("machine"), self.cases("first cases", PARITY, FIRST)]
        if mode == "first":
            return steps
        return [*steps, self.cases("device", DEVICE),
                *(self.bench(name) for name in ("experts", "gate", "attention", "layer", "serve")),
                self.cases("golden", GOLDEN),
                *(self.bench(name) for name in ("rows", "projections", "premise")),
                self.script("free choice", "free_choice.py", ("projections", "attention", "rows", "experts"),
                            missing=torch_lacks("")),
                *(self.watched(name) for name in ("memcheck", "racecheck", "synccheck", "memcheck device")),
                self.script("attention table", "attention_table.py", ("attention",)),
                self.script("transformers", "transformers_decode.py", ("serve",),
                            missing=torch_lacks("import transformers; ")),
                self.bench("attention_split512"), self.bench("attention_split2048"),
                self.bench("processes"), self.cases("every case", PARITY, ["*"]),
                # It may see little of managed memory (docs/cuda.md).
                self.watched("initcheck")]


def torch_lacks(needs):
    def missing(seconds):
        check = f"import torch, sys; {needs}sys.exit(not torch.cuda.is_available())"
        found = subprocess.run([sys.executable, "-c", check], capture_output=True, check=False, timeout=seconds).returncode
        return "no Python here with what it needs and a GPU that torch sees" if found else None
    return missing


def mps_says(words, where):
    """The answer of nvidia-cuda-mps-control; empty if it takes longer than 10 s."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(["nvidia-cuda-mps-control"], input=f"{words}\n", text=True, capture_output=True,
                              check=False, timeout=10, env={**os.environ, **where}).stdout.strip()
    return ""


def processes_with_mps(runner, step):
    """Runs kernels of several processes at once, if the MPS service starts without root."""
    if step.missing or runner.book.ended(step.name) or runner.left() < 5:
        return runner.run(step)
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
            runner.book.write(step=step.name, says="no process reached MPS: they have taken turns")
        return done
    finally:
        mps_says("quit -t 5", where)
        shutil.rmtree(pipes, ignore_errors=True)


def host():
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} CPUs, {model[1] if model else os.uname().machine}"


@contextlib.contextmanager
def clocks(logs):
    """Logs the GPU's clocks and temperature to a file meanwhile. This also keeps the driver loaded."""
    watch = None
    with contextlib.suppress(OSError), (logs / "clocks.csv").open("ab") as file:
        watch = subprocess.Popen(
            ["nvidia-smi", "--query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw", "--format=csv",
             f"--id={first_gpu_id()}", "-lms", "500"],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=in_a_group)
    try:
        yield
    finally:
        if watch:
            killed(watch)


def default_path(run):
    """The file's name depends only on the GPU, so that a later run finds the results that are still valid."""
    gpu = re.sub(r"[^a-z0-9]+", "-", run["gpu"].lower()).strip("-")
    return ROOT / "bench/results" / f"gpu-{gpu}.jsonl"


def this_run(mode):
    return {
        "command": " ".join(["scripts/gpu", mode]),
        "commit": output_of("git", "describe", "--always", "--dirty") or os.environ.get("JANUS_COMMIT", "unknown"),
        "gpu": first_gpu("name,memory.total") or "none",
        "board": first_gpu("uuid,pci.bus_id"),
        "driver": first_gpu("driver_version,clocks.max.sm,clocks.max.mem,power.limit"),
        "host": host(),
        "off": OFF,
    }


def programs_of(book, logs, seconds):
    """The programs that JANUS_GPU_TEST names, or else those built here."""
    given = os.environ.get("JANUS_GPU_TEST")
    if given:
        folder = pathlib.Path(given).resolve().parent
        return Built(folder, {name for name in PROGRAMS if (folder / name).exists()}, {})
    built = build(logs / "build.log", PROGRAMS, min(BUILD_SECONDS, seconds))
    book.write(build="failed" if built.failed else "done", seconds_of_build=round(built.seconds),
               error=built.failed, without=built.without)
    return built


def run_steps(mode, book, logs, built, seconds):
    """The steps that are not done, and those whose cases could not be run."""
    runner = Runner(book, seconds, logs)
    all_steps = Steps(built, book, logs)
    steps = all_steps.all_of(mode)
    mps = all_steps.mps()
    stale = book.retire({step.name: step.digest for step in [*steps, mps] if step.digest})
    for name in stale & set(WATCHED):
        evidence_archive.own_path(book.path, name).unlink(missing_ok=True)
    with clocks(logs):
        left_open = runner.run_all(steps)
        if mode == "all" and not processes_with_mps(runner, mps):
            left_open.append(mps.name)
    unheld = {step.name: runner.skipped[step.name] for step in steps if step.cases and step.name in runner.skipped}
    return left_open, unheld


def failures_of(book):
    found = book.failures()
    for name in WATCHED:
        found += [f"{name}: {case}" for case in Book(evidence_archive.own_path(book.path, name)).failures()]
    return found


def tell(book, logs):
    """Prints the results, whatever ended the run, and packs all details into one archive."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run([sys.executable, SCRIPTS / "premise_plot.py", book.path, f"{book.path}.premise.svg"],
                       capture_output=True, check=False, timeout=10)
    lines = book.lines()
    try:
        print(figures.table(lines))
    except Exception as why:  # the measurements are in the file nevertheless
        print(f"scripts/gpu: no table of {book.path}: {why!r}")
    for line in lines:
        if "host_too_slow" in line:
            print(f"host too slow: {line.get('bench')}")
    for name in failures_of(book):
        print(f"failed: {name}")
    print(f"scripts/gpu: {book.path}, {evidence_archive.pack(book.path, logs, WATCHED)}", flush=True)


def bring_needs():
    lacks = bring()
    found = [path for path in NEEDS.rglob("*") if path.is_file()]
    if found:
        print(f"{NEEDS}: {sum(path.stat().st_size for path in found) / 1e6:.1f} MB; carry it to the same place there")
    for part in lacks:
        print(f"scripts/gpu: {part} is not installed here (GTEST_ROOT and CMAKE_PREFIX_PATH are looked into, too)",
              file=sys.stderr)
    return 1 if lacks else 0


def main(mode, results):
    if mode == "bring":
        return bring_needs()
    started = time.monotonic()
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # nvidia-smi's
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seconds = float(os.environ.get("JANUS_GPU_SECONDS", RUN_SECONDS))
    logs = pathlib.Path(os.environ.get("JANUS_GPU_LOGS", ROOT / "build/gpu-logs")).resolve()  # programs run in ROOT
    logs.mkdir(parents=True, exist_ok=True)
    run = this_run(mode)
    book = Book(pathlib.Path(results).resolve() if results else default_path(run))
    evidence_archive.restore(book.path, logs, WATCHED)
    book.begin(run)
    try:
        built = programs_of(book, logs, seconds)
        left_open, unheld = run_steps(mode, book, logs, built, seconds - (time.monotonic() - started))
        failures = failures_of(book) + ([f"the build: {built.failed}"] if built.failed else [])
        book.write(seconds=round(time.monotonic() - started), failed=failures, open=left_open, unheld=list(unheld),
                   results=str(book.path))
    finally:
        tell(book, logs)
    if built.failed:
        print(f"scripts/gpu: the build failed: {built.failed} ({logs / 'build.log'})")
    if left_open:
        print(f"scripts/gpu: run it again for what is open: {', '.join(left_open)}")
    for name, why in unheld.items():
        print(f"scripts/gpu: {'NOTHING HOLDS THESE KERNELS: ' if name == 'first cases' else ''}{name} did not run: {why}")
    return 1 if failures else NO_PARITY if unheld else 0
