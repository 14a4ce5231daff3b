"""What the tests of this folder share: a hub, a cache of its own for each test, janusctl and the official client."""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ.get("JANUS_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", SOURCE / "build" / "dev" / "bin"))
DEMO = SOURCE / "examples" / "demo-model"
sys.path.insert(0, str(SOURCE / "tests" / "support" / "python"))
from janus_test import draw_seed, scaled  # noqa: E402
from test_hub import Repo, TestHub  # noqa: E402

DEADLINE = scaled(60.0)
NAME = "org/demo"
SMALL = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
WEIGHTS = "model.safetensors"
SHARDS = [f"model-0000{i}-of-00005.safetensors" for i in range(1, 6)]
INDEX = "model.safetensors.index.json"


def demo_files():
    """The demo model, beside files that no server needs."""
    files = {name: (DEMO / name).read_bytes() for name in [*SMALL, WEIGHTS, "README.md"]}
    return files | {"pytorch_model.bin": b"pickle", "modeling.py": b"import os", "onnx/config.json": b"{}"}


def sharded_files(shard_bytes=300_000):
    """The demo model's small files, with random bytes as weights."""
    draw = random.Random(draw_seed())
    files = {name: (DEMO / name).read_bytes() for name in SMALL}
    files |= {name: draw.randbytes(shard_bytes) for name in SHARDS}
    files[INDEX] = json.dumps({"metadata": {}, "weight_map": {f"t{i}": name for i, name in enumerate(SHARDS)}}).encode()
    return files | {"consolidated.safetensors": b"another copy"}


@contextlib.contextmanager
def serving(repos, **options):
    hub = TestHub(repos, **options)
    try:
        yield hub
    finally:
        hub.close()


class Machine:
    """A home folder, with the programs that download into its cache."""

    def __init__(self, folder, hub=None, endpoint=None):
        self.folder = folder
        self.cache = folder / "cache"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_", "SSL_"))}
        self.env = kept | {"HOME": str(folder), "HF_HUB_CACHE": str(self.cache),
                           "XDG_STATE_HOME": str(folder / "state"), "XDG_RUNTIME_DIR": str(folder),
                           "HF_ENDPOINT": endpoint or (hub.endpoint if hub else "http://127.0.0.1:9")}

    def start(self, *arguments, **env):
        return subprocess.Popen([BIN / "janusctl", *arguments], env=self.env | env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, *arguments, **env):
        """Exit status, output and errors of janusctl."""
        done = subprocess.run([BIN / "janusctl", *arguments], env=self.env | env, capture_output=True, text=True,
                              timeout=DEADLINE)
        return done.returncode, done.stdout, done.stderr

    def download(self, model=NAME, **env):
        """Downloads with janusctl; returns the folder of the snapshot."""
        status, out, error = self.run("models", model, "--download", **env)
        assert (status, error) == (0, ""), error
        return pathlib.Path(out.splitlines()[-1].rsplit(": ", 1)[1])

    def refused(self, model=NAME, **env):
        """The message of a download that must fail."""
        status, out, error = self.run("models", model, "--download", **env)
        assert status != 0, out
        assert error.startswith("janusctl: ") and error.count("\n") == 1, error
        return error

    def official(self, model=NAME, allow=None, local_files_only=False, **env):
        """Downloads with huggingface_hub; returns the folder, or the error as text."""
        program = ("import sys, json, huggingface_hub as h\n"
                   "a = json.loads(sys.argv[1])\n"
                   "print(h.snapshot_download(**a))")
        arguments = {"repo_id": model, "allow_patterns": allow, "local_files_only": local_files_only}
        done = subprocess.run([sys.executable, "-c", program, json.dumps(arguments)],
                              env=self.env | {"HF_HUB_DISABLE_TELEMETRY": "1"} | env,
                              capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return pathlib.Path(done.stdout.strip())

    def blobs(self, ending=""):
        return sorted(path for path in self.cache.glob("models--*/blobs/*") if path.name.endswith(ending))


def names_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def wait_for(condition, what):
    """Polls, because the condition depends on another process."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {DEADLINE:.0f} s")


__all__ = ["BIN", "DEADLINE", "DEMO", "INDEX", "Machine", "NAME", "Repo", "SHARDS", "SMALL", "TestHub", "WEIGHTS", "demo_files",
           "names_in", "serving", "sharded_files", "wait_for"]
