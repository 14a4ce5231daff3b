"""A cluster of two nodes that have images of this machine's programs, with the operator installed by the chart."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from cluster_case import ROOT, ClusterCase
from limits import TIMEOUT
from made_images import made_images
from tiers import cannot_run

from control_plane import ControlPlane
from needs import PYTHON, missing
from node import Node

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
CHART = ROOT / "charts" / "janus-operator"
REGISTRY = "janus.test"


class ImagesCase(ClusterCase):
    """`models` is a folder that every machine and every user can read; `images` are the names of the built images;
    `values` are additional Helm values."""

    tier = "node"
    values = {}

    @classmethod
    def setUpClass(cls):
        reason = missing("images")
        if reason:
            cannot_run("images", reason)
        super().setUpClass()
        if cls.is_given:
            raise unittest.SkipTest("the given cluster's nodes cannot be given images")
        cls.state = cls.state_folder()
        cls.programs = (cls.state / "programs").resolve()
        cls.plane = ControlPlane(cls.state, cls.programs)
        cls.nodes = [Node(cls.state, cls.programs, number, cls.plane) for number in (1, 2)]
        cls.images, cls.archives = made_images(BIN, REGISTRY)
        cls.give_nodes(cls.archives)
        cls.models = pathlib.Path(tempfile.mkdtemp(prefix="janus-models-"))
        cls.addClassCleanup(shutil.rmtree, cls.models)
        cls.models.chmod(0o755)
        shutil.copytree(ROOT / "examples" / "demo-model", cls.models / "demo")
        done = cls.try_helm("install", "janus-operator", CHART, "--create-namespace", *cls.settings(), "--wait",
                            TIMEOUT)
        if done.returncode != 0:
            said = cls.try_kubectl("-n", "janus-system", "describe", "pods").stdout
            raise AssertionError(done.stderr + said)

    @classmethod
    def give_nodes(cls, archives):
        """Imports the images on all nodes at once."""
        def give(node):
            for archive in archives:
                node.ctr("images", "import", archive)
        with concurrent.futures.ThreadPoolExecutor(len(cls.nodes)) as pool:
            list(pool.map(give, cls.nodes))

    @classmethod
    def settings(cls, **more):
        """Helm's --set arguments; `__` in a name is a dot."""
        values = {"global__imageRegistry": REGISTRY, "image__pullPolicy": "Never", "hostPaths": f"{{{cls.models},/run/janus}}",
                  **cls.values, **more}
        return [word for name, value in values.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]

    @classmethod
    def try_helm(cls, *words):
        return subprocess.run([*cls.in_network, cls.programs / "helm", "-n", "janus-system",
                               *(str(word) for word in words)], capture_output=True, text=True, check=False,
                              env={**cls.environment, "HELM_CACHE_HOME": f"{cls.state}/helm"})

    def helm(self, *words):
        """The output. A failure fails the test with the error text."""
        done = self.try_helm(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def _keep(self):
        super()._keep()
        folder = ROOT / "build" / "e2e" / self._testMethodName
        for place, selector, name in (("janus-system", "app.kubernetes.io/name=janus-operator", "operator"),
                                      (self.namespace, "serving.janus.dev/service", "service")):
            (folder / f"{name}.log").write_text(self.try_kubectl(
                "-n", place, "logs", "-l", selector, "--prefix", "--tail=400").stdout)
            (folder / f"{name}.txt").write_text(self.try_kubectl("-n", place, "describe", "pods").stdout)

    def get(self, what, *words):
        return json.loads(self.kubectl("get", what, *words, "-o", "json"))

    def operators(self):
        """The operator's pods."""
        return json.loads(self.kubectl("-n", "janus-system", "get", "pods", "-l",
                                       "app.kubernetes.io/component=operator", "-o", "json",
                                       namespaced=False))["items"]
