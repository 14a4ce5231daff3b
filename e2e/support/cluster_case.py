"""The common base of the suites on a cluster.

With KUBECONFIG they run on that cluster, with kubectl from PATH. Otherwise each suite starts the test cluster of its tier
(e2e/cluster) and stops it again. If neither is possible, every test of the suite is skipped with the reason, or fails with
it if JANUS_REQUIRE names the tier (tiers.py).
"""

import fcntl
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from box import DEADLINE_SECONDS, wait_for  # noqa: E402
from control_plane import ControlPlane  # noqa: E402
from limits import TIMEOUT, limit  # noqa: E402
from needs import missing  # noqa: E402
from tiers import cannot_run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "e2e" / "cluster" / "cluster"
MODULES = ROOT / "e2e" / "build" / "kube"
CRDS = sorted((ROOT / "crds").glob("*.yaml"))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def listens(path):
    """A socket's name exists before a process listens on it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def need_modules(package):
    """Requires Go and the modules of e2e/build/kube with this package, present or downloadable."""
    reason = missing("build")
    if not reason:
        done = subprocess.run(["go", "list", "-mod=readonly", package], cwd=MODULES, check=False, capture_output=True,
                              text=True)
        reason = done.stderr.strip() if done.returncode != 0 else ""
    if reason:
        cannot_run("build", reason)


class ApiServer:
    """The API server behind kubectl's proxy, which has the credentials. A socket file can be reached from other network
    namespaces."""

    def __init__(self, kubectl_command, environment):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-proxy-"))
        path = self.folder / "socket"
        self.proxy = subprocess.Popen([*kubectl_command, "proxy", f"--unix-socket={path}"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      env=environment)
        wait_for(lambda: listens(path), "kubectl proxy")
        self.connection = _UnixConnection(path)

    def request(self, method, path, body=None, content="application/json"):
        """(HTTP status, body); JSON is decoded. A path that is not served yet gives 404 in plain text."""
        self.connection.request(method, path, None if body is None else json.dumps(body),
                                {"Content-Type": content, "Accept": "application/json"})
        response = self.connection.getresponse()
        text = response.read()
        is_json = "json" in response.getheader("Content-Type", "")
        return response.status, json.loads(text) if is_json and text else text.decode() or None

    def close(self):
        self.connection.close()
        self.proxy.terminate()
        self.proxy.wait()
        shutil.rmtree(self.folder)


class ClusterCase(unittest.TestCase):
    """`tier` is "api" or "node". Each test has a separate namespace, `self.namespace`. If it fails, the namespace's events
    and objects and its part of the audit log are kept in build/e2e/<test>."""

    tier = "api"

    @classmethod
    def setUpClass(cls):
        cls.environment = dict(os.environ)
        cls.is_given = bool(os.environ.get("KUBECONFIG"))
        if cls.is_given:
            cls.kubectl_command, cls.kubectl_environment = ["kubectl"], cls.environment
            cls.in_network = []
            return
        cls.environment["JANUS_CLUSTER"] = f"suite-{cls.__name__.lower()}"
        cls.take_turn()
        cls.addClassCleanup(subprocess.run, [CLUSTER, "down"], env=cls.environment, check=True)
        done = subprocess.run([CLUSTER, "up", cls.tier], env=cls.environment, capture_output=True,
                              text=True, check=False)
        if "cannot run here" in done.stderr:
            print(f"{cls.__name__}: {done.stderr.strip()}", file=sys.stderr)
            cannot_run(cls.tier, done.stderr.strip().removeprefix("cluster: "))
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls._enter(ControlPlane(cls.state_folder(), (cls.state_folder() / "programs").resolve()))

    @classmethod
    def take_turn(cls):
        """Waits for another run of this suite, as from another clone, whose cluster `up` would remove. Its end, even by a
        kill, ends its turn."""
        path = cls.state_folder().with_name(f".{cls.state_folder().name}.turn")
        path.parent.mkdir(parents=True, exist_ok=True)
        turn = open(path, "w", encoding="utf-8")  # pylint: disable=consider-using-with
        cls.addClassCleanup(turn.close)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{cls.__name__}: waits for another run of this suite, which has its cluster", file=sys.stderr, flush=True)
            fcntl.flock(turn, fcntl.LOCK_EX)

    @classmethod
    def _enter(cls, plane):
        """The first words of `cluster kubectl` and `cluster run`. Without their Python, which takes longer than kubectl.
        `in_network`: for a program that needs the cluster's network."""
        kubeconfig, cache = plane.pki / "admin.kubeconfig", plane.folder / "kube-cache"
        cls.kubectl_command = plane.box.command(plane.programs / "kubectl", f"--kubeconfig={kubeconfig}")
        cls.kubectl_environment = {**plane.box.environment(), "KUBECACHEDIR": str(cache)}
        cls.in_network = ["nsenter", "-t", str(plane.box.pid()), "-n", "--", "env", "NO_PROXY=*", "no_proxy=*",
                          f"KUBECONFIG={kubeconfig}", f"KUBECACHEDIR={cache}"]

    @classmethod
    def state_folder(cls):
        """The state folder of the cluster that this suite started."""
        base = pathlib.Path(os.environ.get("XDG_STATE_HOME", pathlib.Path.home() / ".local" / "state"))
        return base / "janus" / "cluster" / cls.environment.get("JANUS_CLUSTER", "")

    @classmethod
    def add_fake_node(cls, name):
        """A node whose pods KWOK runs."""
        done = cls.try_kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}}))
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    @classmethod
    def install_crds(cls):
        for path in CRDS:
            done = cls.try_kubectl("apply", "-f", path)
            if done.returncode != 0:
                raise AssertionError(done.stderr)
        for path in CRDS:
            cls.await_kind(f"crd/{path.stem}.serving.janus.dev")

    @classmethod
    def await_kind(cls, *names):
        """Waits until the server serves these CRDs. `kubectl wait` fails on a CRD so new that it has no conditions yet."""
        deadline = time.monotonic() + limit(300)
        while True:
            done = cls.try_kubectl("wait", "--for=condition=Established", *names, TIMEOUT)
            if done.returncode == 0:
                return
            if "accessor error" not in done.stderr or time.monotonic() > deadline:
                raise AssertionError(done.stderr)

    def run(self, result=None):
        result = result if result is not None else self.defaultTestResult()
        words = re.sub("([A-Z])", r"-\1", self._testMethodName.removeprefix("test_")).lower()
        self.namespace = re.sub("[^a-z0-9]+", "-", words)[:50].strip("-") + f"-{os.getpid()}"
        self.used_seed = None
        bad = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > bad:
            if self.used_seed is not None:
                print(f"{self._testMethodName}: its draws are those of JANUS_SEED={self.used_seed}", file=sys.stderr)
            self._keep()
        if not getattr(self, "__unittest_skip__", False):
            self.try_kubectl("delete", "namespace", self.namespace, "--ignore-not-found", "--wait=false")
        return result

    def seed(self):
        """The seed of the test's random choices. It is printed if the test fails."""
        self.used_seed = int(os.environ.get("JANUS_SEED", "1"))
        return self.used_seed

    def setUp(self):
        self.kubectl("create", "namespace", self.namespace, namespaced=False)

    def _keep(self):
        folder = ROOT / "build" / "e2e" / self._testMethodName
        folder.mkdir(parents=True, exist_ok=True)
        for name, words in (("events", ("get", "events", "-o", "yaml")),
                            ("objects", ("get", "all,moesvc,mrs,moetop", "-o", "yaml"))):
            (folder / f"{name}.yaml").write_text(self.try_kubectl("-n", self.namespace, *words).stdout)
        audit = self.state_folder() / "log" / "audit.log"
        if not self.is_given and audit.exists():
            with open(audit, encoding="utf-8") as log, open(folder / "audit.log", "w", encoding="utf-8") as out:
                out.writelines(line for line in log if f'"namespace":"{self.namespace}"' in line)
        print(f"kept in {folder}", file=sys.stderr)

    @classmethod
    def try_kubectl(cls, *words, text=None):
        return subprocess.run([*cls.kubectl_command, *(str(word) for word in words)], input=text,
                              capture_output=True, text=True, check=False, env=cls.kubectl_environment)

    def kubectl(self, *words, text=None, namespaced=True):
        """The output. A failure fails the test with the error text."""
        place = ("-n", self.namespace) if namespaced else ()
        done = self.try_kubectl(*place, *words, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def api_server(self):
        server = ApiServer(self.kubectl_command, self.kubectl_environment)
        self.addCleanup(server.close)
        return server
