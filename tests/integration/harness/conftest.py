"""The environments that scripts/deps installs for the tests of this folder, and the demo model in fp32."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "serve"))
from serving import DEADLINE, Service, copy_demo  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus"
LIMIT = 10 * DEADLINE


def program(name):
    """The path of a program of the environment of that name; skips the test if it is not installed."""
    path = CACHE / f"{name}-venv" / "bin" / name
    if not path.exists():
        pytest.skip(f"{path} is not there: run scripts/deps harness")
    return path


def copy_demo_fp32(folder):
    """The demo model, each bf16 weight widened. In fp32 another implementation's texts are the same: its sums differ
    by far less than two candidates do."""
    copy_demo(folder)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    for name, tensor in header.items():
        if name != "__metadata__":
            assert tensor["dtype"] == "BF16", name
            tensor["dtype"] = "F32"
            tensor["data_offsets"] = [2 * offset for offset in tensor["data_offsets"]]
    text = json.dumps(header).encode()
    wide = bytearray(2 * (len(data) - begin))
    wide[2::4], wide[3::4] = data[begin::2], data[begin + 1::2]
    path.write_bytes(len(text).to_bytes(8, "little") + text + wide)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["dtype"] = "float32"
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def run(command, folder, **variables):
    """Runs a program in that folder; its output is the message of a failure."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=LIMIT, cwd=folder,
        env={**os.environ, "HF_HOME": str(CACHE / "huggingface"), "TOKENIZERS_PARALLELISM": "false",
             "OMP_NUM_THREADS": "1", **variables})
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done


@pytest.fixture(scope="session")
def service():
    serving = Service()
    serving.open(copy_demo_fp32)
    try:
        serving.start_serving("--experts", "2")
        yield serving
        serving.stop()
    finally:
        serving.close()
