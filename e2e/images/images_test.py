"""The images, in pods of real kubelets: python3 e2e/images/images_test.py

They are built from this machine's programs by the stages that make the shipped ones (scripts/images), and the
operator is installed by the chart. From an object to tokens that a client of the endpoint reads.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CLUSTER, ROOT, ClusterCase, wait_for  # noqa: E402

from control_plane import ControlPlane  # noqa: E402
from node import Node  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus"
REGISTRY = "janus.test"


class ImagesTest(ClusterCase):
    tier = "node"

    @classmethod
    def setUpClass(cls):
        if shutil.which("buildah") is None:
            raise unittest.SkipTest("buildah is not installed; scripts/deps images installs it")
        super().setUpClass()
        if cls.is_given:
            raise unittest.SkipTest("the given cluster's nodes cannot be given images")
        state = cls.state_folder()
        cls.programs = (state / "programs").resolve()
        plane = ControlPlane(state, cls.programs)
        cls.nodes = [Node(state, cls.programs, number, plane) for number in (1, 2)]
        archives = state / "archives"
        # Its own store, which goes with the cluster.
        store = state / "storage.conf"
        store.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{state}/images"\nrunroot = "{state}/images-run"\n')
        cls.environment["CONTAINERS_STORAGE_CONF"] = str(store)
        done = subprocess.run([ROOT / "scripts" / "images", "--programs", BIN, "--registry", REGISTRY,
                               "--archive", archives], capture_output=True, text=True, check=False,
                              env=cls.environment)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.images = done.stdout.split()
        for archive in sorted(archives.glob("*.tar")):
            for node in cls.nodes:
                node.ctr("images", "import", archive)
            archive.unlink()
        # A folder of every machine, readable by anybody's user.
        cls.models = pathlib.Path(tempfile.mkdtemp(prefix="janus-models-"))
        cls.addClassCleanup(shutil.rmtree, cls.models)
        cls.models.chmod(0o755)
        shutil.copytree(ROOT / "examples" / "demo-model", cls.models / "demo")
        done = subprocess.run(
            [CLUSTER, "run", cls.programs / "helm", "install", "janus-operator", ROOT / "charts" / "janus-operator",
             "-n", "janus-system", "--create-namespace", "--set", f"global.imageRegistry={REGISTRY}",
             "--set", "image.pullPolicy=Never", "--set", f"hostPaths={{{cls.models}}}", "--wait", "--timeout=5m"],
            capture_output=True, text=True, check=False, env=cls.environment)
        if done.returncode != 0:
            said = cls.try_kubectl("-n", "janus-system", "describe", "pods").stdout
            raise AssertionError(done.stderr + said)

    def _keep(self):
        super()._keep()
        folder = ROOT / "build" / "e2e" / self._testMethodName
        for place, selector, name in (("janus-system", "app.kubernetes.io/name=janus-operator", "operator"),
                                      (self.namespace, "serving.janus.dev/service", "service")):
            (folder / f"{name}.log").write_text(self.try_kubectl(
                "-n", place, "logs", "-l", selector, "--prefix", "--tail=400").stdout)
            (folder / f"{name}.txt").write_text(self.try_kubectl("-n", place, "describe", "pods").stdout)

    def test_the_operator_runs_as_the_chart_installs_it(self):
        pods = json.loads(self.kubectl("-n", "janus-system", "get", "pods", "-o", "json", namespaced=False))["items"]
        self.assertEqual(len(pods), 2)
        self.assertEqual({pod["spec"]["nodeName"] for pod in pods}, {"node1", "node2"})
        for pod in pods:
            self.assertEqual(pod["status"]["containerStatuses"][0]["restartCount"], 0)

    def test_images_say_what_they_are_and_run_as_nobody(self):
        self.assertEqual(len(self.images), 3)
        for image in self.images:
            said = json.loads(subprocess.run(["buildah", "inspect", "--type", "image", image], capture_output=True,
                                             text=True, check=True, env=self.environment).stdout)
            config = said["OCIv1"]["config"]
            self.assertEqual(config["User"], "65532:65532")
            self.assertEqual(config["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")

    def test_an_object_becomes_pods_that_answer(self):
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "demo"},
            "spec": {"model": {"source": {"type": "HostPath", "hostPath": {"path": f"{self.models}/demo"}},
                               "dtype": "Float32"},
                     "device": "CPU",
                     "roles": {"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 2}},
                     "gateway": {"replicas": 1}}}))
        self.kubectl("wait", "--for=condition=Ready", "moesvc/demo", "--timeout=300s")
        address = self.kubectl("get", "service", "demo", "-o", "jsonpath={.spec.clusterIP}")
        wait_for(lambda: self.kubectl("get", "deployment", "demo-gateway", "-o",
                                      "jsonpath={.status.readyReplicas}") == "1", "the gateway")
        # On a node, where the Service has an address.
        said = self.nodes[0].box.run(CACHE / "test-venv" / "bin" / "python", ROOT / "examples" / "chat.py",
                                     "--base-url", f"http://{address}/v1", "Elizabeth looked out of the window.")
        self.assertRegex(said, r"demo: \S+( \S+){3}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
