"""Starts real janus-gateway processes in front of scripted workers, and stops them."""

import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import httpx
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support" / "python"))
from janus_test import scaled  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
# For all waits: a busy machine is slow, and only a fault lasts for ever.
DEADLINE = scaled(60.0)


def wait_until(condition, what, deadline=DEADLINE):
    """Polls, because the condition depends on another process."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < end, f"timed out waiting for {what}"
        time.sleep(0.005)
    return value


class Process:
    """A child process. Reads its stdout lines as they come, and keeps its stderr."""

    def __init__(self, command, **env):
        self.stderr = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(
            [str(c) for c in command], stdout=subprocess.PIPE, stderr=self.stderr, text=True,
            env={**os.environ, **env}
        )
        self.lines = []
        self._queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.child.stdout:
            self.lines.append(line.strip())
            self._queue.put(line.strip())
        self._queue.put(None)

    def first_line(self):
        line = self._queue.get(timeout=DEADLINE)
        assert line is not None, f"exit {self.child.wait()}: {self.errors()}"
        return line

    def errors(self):
        self.stderr.seek(0)
        return self.stderr.read()

    def stop(self, how=signal.SIGTERM, deadline=DEADLINE):
        if self.child.poll() is None:
            self.child.send_signal(how)
        try:
            return self.child.wait(timeout=deadline)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise


def address_of(worker):
    return worker if isinstance(worker, str) else worker.address


class Scripted(Process):
    """tests/support/scripted_attention."""

    released = None  # the file of --stall-until

    def __init__(self, address, *flags):
        self.address = address
        super().__init__([BIN / "scripted-attention", "--listen", address, *flags])
        assert "ready" in self.first_line()

    def release(self):
        self.released.touch()

    def events(self, kind):
        return [e for e in map(json.loads, list(self.lines)) if kind in e]

    def wait_for(self, kind, count=1):
        return wait_until(
            lambda: (found := self.events(kind)) if len(self.events(kind)) >= count else None,
            f"{count} x {kind}",
        )


class Gateway(Process):
    def __init__(self, model, workers, *flags, attached=None, env=None):
        members = [f for w in workers for f in ("--member", address_of(w))]
        super().__init__(
            [BIN / "janus-gateway", "--listen", "127.0.0.1:0", "--model", model,
             "--model-name", "tiny", *members, *flags], **(env or {})
        )
        self.url = self.first_line().split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])
        attached = len(workers) if attached is None else attached
        wait_until(
            lambda: self.metric("janus_gateway_attention_instances") == attached, "attachment"
        )

    def get(self, path, **options):
        return httpx.get(self.url + path, timeout=DEADLINE, **options)

    def metrics(self):
        return self.get("/metrics").text

    def metric(self, name):
        for line in self.metrics().splitlines():
            if line.startswith(name) and line[len(name)] in " {":
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")

    def client(self, key="none", **options):
        options.setdefault("max_retries", 0)
        return openai.OpenAI(base_url=self.url + "/v1", api_key=key, timeout=DEADLINE, **options)

    def post(self, body, path="/v1/completions", **options):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(self.url + path, content=data, timeout=DEADLINE, **options)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A checkpoint folder without weights: the gateway needs none."""
    folder = tmp_path_factory.mktemp("model")
    golden = ROOT / "tests" / "golden"
    for name in ("config.json", "generation_config.json"):
        shutil.copy(golden / "mixtral" / name, folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(golden / "tokenizer" / name, folder)
    return folder


class Starter:
    """Starts processes for a test and stops all of them at its end; a gateway must exit with success."""

    def __init__(self, model):
        self.model = model
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-"))
        self.processes = []
        self.epoch = 0

    def scripted(self, *flags, topology=None, at=None):
        address = at or f"unix:{self.folder}/{len(self.processes)}.sock"
        self.processes.append(
            Scripted(address, "--topology", topology or self.folder / "topology", *flags))
        return self.processes[-1]

    def held(self, *flags):
        """A worker that stops every request after its first token, until release()."""
        released = self.folder / f"released-{len(self.processes)}"
        worker = self.scripted("--stall-after", "1", "--stall-until", released, *flags)
        worker.released = released
        return worker

    def commit(self, workers, epoch=None, file=None):
        """Sets the topology that the scripted workers send to watchers from now on."""
        self.epoch = epoch or self.epoch + 1
        file = file or self.folder / "topology"
        attention = "".join(
            f'attention {{ role: ROLE_ATTENTION address: "{address_of(w)}" }} ' for w in workers)
        file.with_suffix(".new").write_text(
            f"fence: 1 committed {{ epoch: {self.epoch} {attention}}}")
        file.with_suffix(".new").replace(file)

    def gateway(self, workers, *flags, model=None, **options):
        self.commit(workers)
        self.processes.append(Gateway(model or self.model, workers, *flags, **options))
        return self.processes[-1]

    def templated(self, source, *flags):
        """A gateway with this chat template before a scripted worker, which answers with the prompt."""
        template = self.folder / "template.jinja"
        template.write_text(source)
        return self.gateway([self.scripted()], "--chat-template", template, *flags)

    def stop(self):
        for process in reversed(self.processes):
            alive = process.child.poll() is None
            code = process.stop(signal.SIGTERM if isinstance(process, Gateway) else signal.SIGKILL)
            if isinstance(process, Gateway) and alive:
                assert code == 0, process.errors()
        shutil.rmtree(self.folder)


@pytest.fixture
def start(model):
    starter = Starter(model)
    yield starter
    starter.stop()


@pytest.fixture(scope="module")
def shared(model):
    """One worker and one gateway for tests that do not change them."""
    starter = Starter(model)
    worker = starter.scripted()
    gateway = starter.gateway([worker], "--debug-logits-hash")
    gateway.worker = worker
    yield gateway
    starter.stop()
