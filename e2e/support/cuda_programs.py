"""Finds a janus-worker with CUDA, if one was compiled from the current sources."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "dev-cuda" / "bin"
# The sources of a worker.
ROOMS = ("cmake", "common", "kernels", "proto", "rpc", "dataplane")
SOURCES = (".cc", ".h", ".cu", ".cuh", ".proto", ".cmake", ".txt")
HOW = "scripts/deps cuda && cmake --preset dev-cuda && ninja -C build/dev-cuda janus-worker"


def find_cuda_programs():
    """(its folder, None) or (None, the reason). JANUS_CUDA_BIN_DIR names another folder, which is not checked."""
    if "JANUS_CUDA_BIN_DIR" in os.environ:
        return pathlib.Path(os.environ["JANUS_CUDA_BIN_DIR"]).resolve(), None
    worker = BIN / "janus-worker"
    if not worker.exists():
        return None, f"no worker with CUDA was compiled here: {HOW}"
    # Compiling takes minutes, so it is not done here; an older program would test other sources.
    newer = [file for room in ROOMS for file in (ROOT / room).rglob("*")
             if file.suffix in SOURCES and file.stat().st_mtime > worker.stat().st_mtime]
    if newer:
        return None, f"the worker with CUDA is older than {newer[0].relative_to(ROOT)}: {HOW}"
    return BIN, None
