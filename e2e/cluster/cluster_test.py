"""The test cluster itself: it comes up, does what a cluster does, and leaves nothing behind.

    python3 e2e/cluster/cluster_test.py            both tiers, as far as this machine can
    JANUS_SOAK=1 python3 e2e/cluster/cluster_test.py     20 cycles of each

Its own cluster, "self-test", beside whatever else runs.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import box  # noqa: E402
import node  # noqa: E402
import sysctls  # noqa: E402

CLUSTER = HERE / "cluster"
SOAK = bool(os.environ.get("JANUS_SOAK"))
os.environ["JANUS_CLUSTER"] = "self-test"
FOLDER = pathlib.Path(os.environ.get("XDG_STATE_HOME", pathlib.Path.home() / ".local/state")) \
    / "janus/cluster/self-test"


# Of an `up`, by the first file that each leaves in the cluster's folder.
PHASES = ("tier", "pki/ca.crt", "control-plane/ready", "log/control-plane-etcd.log",
          "log/control-plane-kube-apiserver.log", "node1/ready", "log/node1-containerd.log", "node2/ready",
          "log/control-plane-kube-controller-manager.log", "log/node1-kubelet.log", "log/node2-kube-proxy.log")


def cluster(*words, **options):
    return subprocess.run([CLUSTER, *words], capture_output=True, text=True, check=False, **options)


def machine():
    """What a cluster could leave on this machine: everything but processes, which carry its mark."""
    def lines(*command):
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    mounts = {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
    return {
        "mounts": mounts,
        "links": {json.dumps(link["ifname"]) for link in json.loads("".join(lines("ip", "-j", "link")))},
        "routes": {re.sub(r"expires \S+", "", line) for line in lines("ip", "route")},
        "namespaces": lines("ip", "netns"),
        "cgroups": {str(path) for path in node.CGROUPS.glob("*/janus-*")},
        "sysctls": lines("sysctl", "-e", *sysctls.NAMES),
        "rules": lines("iptables-save") if os.geteuid() == 0 and shutil.which("iptables-save") else set(),
    }


class SysctlsTest(unittest.TestCase):
    """With settings that are files of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="janus-sysctls-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in sysctls.NAMES[1:]:  # the kernel has not all of them
            self.settings().file(name).parent.mkdir(parents=True, exist_ok=True)
            self.settings().file(name).write_text("1\n")
        self.one, self.other = self.folder / "one", self.folder / "other"
        for cluster_folder in (self.one, self.other):
            cluster_folder.mkdir()

    def settings(self):
        """As each program that is started makes it anew."""
        return sysctls.Sysctls(self.folder / "book.json", self.folder / "sys")

    def write(self, value):
        """What a kubelet does."""
        for name in sysctls.NAMES[1:]:
            self.settings().file(name).write_text(value)

    def values(self):
        return {self.settings().file(name).read_text().strip() for name in sysctls.NAMES[1:]}

    def test_the_last_of_two_clusters_gives_them_back(self):
        for first, last in ((self.one, self.other), (self.other, self.one)):
            self.settings().hold(self.one)
            self.write("0")
            self.settings().hold(self.other)  # sees what the first has made of them
            self.settings().release(first)
            self.settings().release(first)  # a second down
            self.assertEqual(self.values(), {"0"}, "the other still needs them")
            self.settings().release(last)
            self.assertEqual(self.values(), {"1"})
            self.assertFalse((self.folder / "book.json").exists())

    def test_a_cluster_that_never_had_them_gives_nothing_back(self):
        self.settings().release(self.other)
        self.settings().hold(self.one)
        self.write("0")
        self.settings().release(self.other)
        self.assertEqual(self.values(), {"0"})

    def test_a_cluster_whose_folder_is_gone_keeps_nobody_waiting(self):
        self.settings().hold(self.one)
        self.write("0")
        self.settings().hold(self.other)
        self.one.rmdir()
        self.settings().release(self.other)
        self.assertEqual(self.values(), {"1"})

    def test_who_comes_again_after_its_folder_went_knows_what_they_were(self):
        self.settings().hold(self.one)
        self.write("0")
        self.one.rmdir()
        self.settings().hold(self.other)
        self.settings().release(self.other)
        self.assertEqual(self.values(), {"1"})


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.before = machine()

    def tearDown(self):
        done = cluster("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_nothing_left()

    def assert_nothing_left(self):
        self.assertEqual(box.marked(FOLDER), [])
        self.assertFalse(FOLDER.exists())
        after = machine()
        for what, there in self.before.items():
            self.assertEqual(after[what] - there, set(), what)

    def up(self, tier):
        done = cluster("up", tier)
        if "cannot run here" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout, file=sys.stderr)

    def kubectl(self, *words, text=None):
        done = cluster("kubectl", *words, input=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_fake_pods_become_ready_in_the_api_tier(self):
        self.up("api")
        self.kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "fake", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}}))
        self.kubectl("create", "deployment", "web", "--image=janus.test/none:1", "--replicas=3")
        self.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=300s")
        addresses = self.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.podIP}").split()
        self.assertEqual(len(addresses), 3)
        # One process can answer for the address of every fake pod.
        serve = ("import http.server,sys;"
                 "http.server.HTTPServer((sys.argv[1],8080),http.server.SimpleHTTPRequestHandler).handle_request()")
        with subprocess.Popen([CLUSTER, "run", sys.executable, "-c", serve, addresses[0]],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            box.wait_for(lambda: cluster("run", "curl", "-sf", "-o", "/dev/null",
                                         f"http://{addresses[0]}:8080/").returncode == 0,
                         "an answer from the fake pod's address")
            server.wait(10)

    def test_pods_run_and_find_each_other_in_the_node_tier(self):
        self.up("node")
        self.kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "List", "items": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                 "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                     "metadata": {"labels": {"app": "web"}},
                     "spec": {"topologySpreadConstraints": [{
                         "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                         "whenUnsatisfiable": "DoNotSchedule",
                         "labelSelector": {"matchLabels": {"app": "web"}}}],
                         "containers": [{
                             "name": "web", "image": "janus.test/busybox:1", "imagePullPolicy": "Never",
                             "command": ["sh", "-c", "hostname > /tmp/index.html; exec httpd -f -p 80 -h /tmp"],
                             "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}}]}}}},
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                 "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"},
                 "spec": {"containers": [{
                     "name": "client", "image": "janus.test/busybox:1", "imagePullPolicy": "Never",
                     "command": ["sleep", "3600"],
                     "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}]}))
        self.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=300s")
        self.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=300s")
        self.assertEqual(len(set(self.kubectl("get", "pods", "-l", "app=web", "-o",
                                              "jsonpath={.items[*].spec.nodeName}").split())), 2)
        answers = set()
        for _ in range(20):
            answers.add(self.kubectl("exec", "client", "--", "wget", "-qO-", "http://web.default/").strip())
        self.assertEqual(len(answers), 2, "both pods, on both nodes, answer for the service")
        self.assertTrue(all(name.startswith("web-") for name in answers), answers)

    def test_nothing_is_left_of_an_up_that_was_killed(self):
        """At a seeded moment of some of its phases (JANUS_SOAK=1: of each, five times)."""
        if os.geteuid() != 0:
            self.skipTest("it needs root, for namespaces")
        tier = "api" if node.missing_for_nodes() else "node"
        phases = [phase for phase in PHASES if tier == "node" or "node" not in phase]
        seed = int(os.environ.get("JANUS_SEED", "1"))
        chosen = random.Random(seed)
        for phase in phases * 5 if SOAK else sorted(chosen.sample(phases, 4), key=phases.index):
            delay = chosen.uniform(0, 0.5)
            with self.subTest(phase=phase):
                self.kill_in(tier, phase, delay)
                print(f"seed {seed}: killed {delay:.3f} s after {phase}", file=sys.stderr)
                done = cluster("down")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assert_nothing_left()

    def kill_in(self, tier, phase, delay):
        """An `up`, so long after its phase has left its first trace."""
        with subprocess.Popen([CLUSTER, "up", tier], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True) as half:
            try:
                box.wait_for(lambda: (FOLDER / phase).exists() or half.poll() is not None, phase)
                half.wait(delay)
                self.fail(f"it came to its end within {delay:.3f} s of {phase}")
            except subprocess.TimeoutExpired:
                pass
            finally:
                if half.poll() is None:
                    os.killpg(half.pid, signal.SIGKILL)

    @unittest.skipUnless(SOAK, "a few minutes: JANUS_SOAK=1")
    def test_twenty_cycles(self):
        for tier in ("api", "node"):
            slowest = 0.0
            for _ in range(20):
                began = time.monotonic()
                self.up(tier)
                slowest = max(slowest, time.monotonic() - began)
                self.assertEqual(cluster("down").returncode, 0)
                self.assert_nothing_left()
            print(f"{tier}: the slowest of 20 was up in {slowest:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
