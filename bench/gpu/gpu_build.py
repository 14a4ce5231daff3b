"""Builds what scripts/gpu runs, on a machine that may have little more than a CUDA toolkit. Also packs the libraries that
such a machine lacks."""

import dataclasses
import os
import pathlib
import re
import shutil
import time

from bounded import CUT, ROOT, ended, output_of, started

NEEDS = ROOT / "build/gpu-needs"
BUILD_SECONDS = 240
ASK_SECONDS = 30  # for all programs together, if only a build tells whether they are up to date
ERROR = re.compile(r"CMake Error|\b(?:fatal )?error\b ?[:#]|ptxas fatal|undefined reference|No such file|Killed")


@dataclasses.dataclass
class Built:
    folder: pathlib.Path  # with the programs
    fresh: set[str]  # programs built from this tree
    without: dict[str, str]  # why others are missing
    failed: str | None = None  # the first error
    seconds: float = 0.0


def first_gpu_id():
    """The id that nvidia-smi uses for the GPU of these programs. They count GPUs in the same order (CUDA_DEVICE_ORDER)."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"


def first_gpu(fields):
    """These fields from nvidia-smi; None: no answer."""
    return output_of("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", f"--id={first_gpu_id()}", seconds=30)


def architecture():
    """The architecture for which CMake compiles on this GPU; None: unknown."""
    match = re.fullmatch(r"(\d+)\.(\d)", first_gpu("compute_cap") or "")
    return match and f"{match[1]}{match[2]}{'a' if match[1] == '9' else ''}"


def beside_nvcc(tool, folder):
    """The path of a tool of the CUDA toolkit: the one that the build used, or would find. None: not found."""
    cache = folder / "CMakeCache.txt"
    used = re.search(r"^JANUS_NVCC:\w+=(/.+)$", cache.read_text(errors="replace"), re.M) if cache.is_file() else None
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    folders = [*([os.path.dirname(used[1])] if used else []), *(f"{home}/bin" for home in homes if home),
               os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    return next(filter(None, (shutil.which(tool, path=each) for each in folders)), None)


def prefixes():
    given = [os.environ.get("GTEST_ROOT"), *re.split("[:;]", os.environ.get("CMAKE_PREFIX_PATH", ""))]
    return [pathlib.Path(prefix) for prefix in [*given, "/usr/local", "/usr"] if prefix]


def bring(needs=NEEDS, where=None):
    """Copies the installed headers and libraries of GoogleTest, and the headers of nlohmann_json. Returns what is missing."""
    parts = {
        "GoogleTest": [("include/gtest", "include/gtest"), ("lib*/**/libgtest.a", "lib/libgtest.a"),
                       ("lib*/**/libgtest_main.a", "lib/libgtest_main.a")],
        "nlohmann_json": [("include/nlohmann", "include/nlohmann"),
                          ("share/cmake/nlohmann_json", "share/cmake/nlohmann_json")],
    }
    lacks = []
    shutil.rmtree(needs, ignore_errors=True)
    for part, files in parts.items():
        for prefix in where or prefixes():
            found = [(next(iter(sorted(prefix.glob(pattern))), None), to) for pattern, to in files]
            if all(source for source, _ in found):
                break
        else:
            lacks.append(part)
            continue
        for source, to in found:
            (needs / to).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, needs / to)
    return lacks


def bounded_run(command, seconds, log):
    with log.open("ab") as file:
        return ended(started(command, file), seconds)


def first_error(log):
    text = log.read_text(errors="replace").splitlines()
    return next((line.strip()[:300] for line in text if ERROR.search(line)),
                next((line.strip()[:300] for line in reversed(text) if line.strip()), "it said nothing"))


def is_fresh(folder, target, ninja, until, log):
    """Whether the target is up to date."""
    if ninja:
        return "no work to do" in (output_of(ninja, "-C", str(folder), "-n", target, seconds=20) or "")
    # make has no such question: with the files of cmake it always has something to do.
    return bounded_run(["cmake", "--build", str(folder), "--target", target], until - time.monotonic(), log) == 0


def build(log, programs, seconds=BUILD_SECONDS, needs=NEEDS):
    """Builds all of `programs` that compile, with make if there is no Ninja. Programs that need GoogleTest are built only
    if it is there. One that failed, or had no time, is not fresh: an older program may be in its place."""
    began = time.monotonic()
    ninja = shutil.which("ninja")
    folder = ROOT / ("build/cuda" if ninja else "build/cuda-make")
    built = Built(folder / "bin", set(), {})
    log.write_bytes(b"")
    if not shutil.which("cmake"):
        built.failed = "no cmake (3.24 or later)"
        built.without = dict.fromkeys(programs, "the build failed")
        return built
    configure = ["cmake", "--preset", "cuda", "-B", str(folder), "-DJANUS_WARNINGS_ARE_ERRORS=OFF"]
    configure += [] if ninja else ["-G", "Unix Makefiles"]
    if needs.is_dir():
        configure += [f"-DCMAKE_PREFIX_PATH={needs}", f"-DGTEST_ROOT={needs}"]
    if found := architecture():
        configure.append(f"-DJANUS_CUDA_ARCHITECTURES={found}")
    status = bounded_run(configure, seconds, log)
    there = output_of("cmake", "--build", str(folder), "--target", "help") or "" if status == 0 else ""
    targets = [name for name in programs if re.search(rf"\b{name}\b", there)]
    if status == 0:
        make = ["cmake", "--build", str(folder), "--parallel", str(os.cpu_count()), "--target", *targets]
        status = bounded_run([*make, "--", "-k", *(["0"] if ninja else [])], seconds - (time.monotonic() - began), log)
    until = time.monotonic() + ASK_SECONDS
    built.fresh = {name for name in targets if status == 0 or is_fresh(folder, name, ninja, until, log)}
    if status != 0:
        built.failed = f"it was cut after {seconds:.0f} s" if status == CUT else first_error(log)
    for name in programs:
        if name not in built.fresh:
            built.without[name] = ("the build failed" if status != 0 and (name in targets or not there)
                                   else "what it needs was not there to build it (scripts/gpu bring)")
    built.seconds = time.monotonic() - began
    return built
