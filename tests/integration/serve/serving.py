"""Runs janusctl serve with its own state, sockets and port, for the tests of this folder."""

import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support" / "python"))
from janus_test import draw_seed, scaled  # noqa: E402, F401 (its users import them from here)

SOURCE = pathlib.Path(os.environ.get("JANUS_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", SOURCE / "build" / "dev" / "bin"))
GOLDEN = SOURCE / "tests" / "golden"
DEMO = SOURCE / "examples" / "demo-model"
DEADLINE = scaled(60.0)


def wait_for(condition, what, seconds=DEADLINE):
    """Polls, because the condition depends on another process."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


def free_ports(count):
    """The first of so many free ports in a row, below those that the kernel assigns to connections."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()[0])
    while True:
        first = random.randrange(lowest // 2, lowest - count)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


def free_port():
    return free_ports(1)


WEIGHTS = ("config.json", "generation_config.json", "model.safetensors")
TEXT = ("tokenizer.json", "tokenizer_config.json")


def copy_golden(folder, family="mixtral"):
    """A random fp32 checkpoint of the golden tests, with as much of their tokenizer as its vocabulary holds."""
    folder.mkdir()
    for name in WEIGHTS:
        shutil.copy(GOLDEN / family / name, folder)
    for name in TEXT:
        shutil.copy(GOLDEN / "tokenizer" / name, folder)
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    bpe = tokenizer["model"]
    if vocabulary >= len(bpe["vocab"]):
        return
    # Merges are in the order of their ids, so a prefix of them is a smaller tokenizer.
    bpe["vocab"] = {token: i for token, i in bpe["vocab"].items() if i < vocabulary}
    bpe["merges"] = [pair for pair in bpe["merges"] if "".join(pair) in bpe["vocab"]]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def copy_demo(folder):
    """The demo model, bf16."""
    folder.mkdir()
    for name in WEIGHTS + TEXT:
        shutil.copy(DEMO / name, folder)


class Service:
    """One run of janusctl serve at a time; open() and close() around all of it."""

    def open(self, copy_model=copy_golden):
        # Short, because the paths of sockets are limited.
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="jserve-", dir="/tmp"))
        self.run_dir = self.dir / "run"
        self.run_dir.mkdir()
        self.model = self.dir / "golden"
        copy_model(self.model)
        self.env = dict(
            os.environ, XDG_STATE_HOME=str(self.dir / "state"), XDG_RUNTIME_DIR=str(self.run_dir)
        )
        self.logs = self.dir / "state" / "janus" / "golden"
        self.janusctl = None
        self.port = free_port()

    def close(self):
        if self.janusctl is not None:
            self.janusctl.kill()
            self.janusctl.wait()
            self.janusctl.stdout.close()
            self.janusctl.stderr.close()
        shutil.rmtree(self.dir)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # The run

    def start(self, *arguments, program=None, model=True, **env):
        command = [str(program or BIN / "janusctl"), "serve", "--port", str(self.port)]
        if model:
            command += ["--model", str(self.model)]
        self.janusctl = subprocess.Popen(
            command + list(arguments),
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.janusctl

    def wait_for_line(self, beginning):
        lines = []
        for line in self.janusctl.stdout:
            lines.append(line)
            if line.startswith(beginning):
                return "".join(lines)
        raise AssertionError("".join(lines) + self.janusctl.stderr.read())

    def start_serving(self, *arguments, **options):
        self.start(*arguments, **options)
        return self.wait_for_line("serving ")

    def serve_object(self, spec, *arguments):
        """Serves a MoEService of that spec."""
        path = self.dir / "service.yaml"
        path.write_text(json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService",
            "metadata": {"name": "golden"}, "spec": spec}))
        return self.start_serving("-f", str(path), *arguments, model=False)

    def ends(self):
        """Output and error of a run that must end without a signal."""
        return self.janusctl.communicate(timeout=DEADLINE)

    def stop(self):
        """Sends Ctrl-C, which must leave nothing; returns what janusctl has printed meanwhile."""
        self.janusctl.send_signal(2)
        out, error = self.ends()
        assert (self.janusctl.returncode, error) == (0, ""), error
        self.assert_nothing_left()
        return out

    def refused(self, *arguments, **options):
        """The one message of a run that must end with an error and leave nothing."""
        self.start(*arguments, **options)
        out, error = self.ends()
        assert self.janusctl.returncode != 0, out
        assert error.startswith("janusctl: "), error
        assert "serving golden at" not in out, out
        self.assert_nothing_left()
        return error

    def processes(self):
        """Workers and gateways of this run: (pid, command)."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and f"--model={self.model}".encode() in command:
                found.append((int(entry.name), [part.decode() for part in command]))
        return found

    def find_pid(self, name):
        """Of the pod <service>-<role>-<revision>-<id>, called role-id; or of the gateway."""
        for pid, _ in self.processes():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            pod = next((v[9:].decode() for v in variables if v.startswith(b"HOSTNAME=")), "")
            parts = pod.removeprefix("golden-").split("-")
            if name == "gateway" == parts[0] or name == f"{parts[0]}-{parts[-1]}":
                return pid
        return None

    def pid_of(self, name):
        pid = self.find_pid(name)
        assert pid is not None, f"{name} does not run"
        return pid

    def assert_nothing_left(self):
        wait_for(lambda: not self.processes(), "the end of all processes")
        assert list(self.run_dir.iterdir()) == []

    # The service

    def post(self, body, path="/v1/completions", timeout=DEADLINE):
        request = urllib.request.Request(
            self.url + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code}: {error.read().decode()}") from error

    def complete(self, prompt, tokens=16):
        reply = self.post(
            {"model": "golden", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        )
        return reply["choices"][0]["text"]

    def complete_when_it_listens(self, prompt, tokens=16):
        """Completes at a gateway that may be restarting."""
        wait_for(self.listens, "the gateway")
        return self.complete(prompt, tokens)

    def listens(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=DEADLINE) as reply:
                return reply.status == 200
        except OSError:
            return False

    def ctl(self, *arguments):
        """What janusctl reports of the running service."""
        done = subprocess.run([BIN / "janusctl", *arguments], env=self.env, capture_output=True,
                              text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, kind):
        """Empty: the API does not answer yet."""
        done = subprocess.run([BIN / "janusctl", "get", kind, "-o", "json"], env=self.env,
                              capture_output=True, text=True, timeout=DEADLINE)
        if done.returncode != 0:
            return []
        root = json.loads(done.stdout)
        return root["items"] if root["kind"] == "List" else [root]

    def edit(self, spec):
        """Merges into the object's spec, as `kubectl patch` does."""
        with socket.socket(socket.AF_UNIX) as api:
            api.connect(str(self.logs / "api"))
            body = json.dumps({"spec": spec})
            api.sendall((f"PATCH /apis/serving.janus.dev/v1alpha1/namespaces/default/moeservices/golden HTTP/1.1\r\n"
                         "Host: localhost\r\nContent-Type: application/merge-patch+json\r\nConnection: close\r\n"
                         f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
            reply = api.makefile("rb").read().decode()
        assert reply.startswith("HTTP/1.1 200"), reply

    def is_probed(self, name):
        """Whether the node has found the worker ready."""
        for pod in self.objects("pods"):
            parts = pod["metadata"]["name"].removeprefix("golden-").split("-")
            if f"{parts[0]}-{parts[-1]}" == name:
                return pod["status"].get("containerStatuses", [{}])[0].get("ready", False)
        return False

    def metric(self, name, url=None):
        with urllib.request.urlopen((url or self.url) + "/metrics", timeout=DEADLINE) as reply:
            found = re.search(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", reply.read().decode(), re.M)
        assert found, f"no metric {name}"
        return float(found.group(1))
