"""The README's way onto a cluster, with its commands as written there: python3 e2e/install/install_test.py

The commands are taken from README.md. They push to a registry that runs in the cluster's network, and the nodes pull from
it. The registry's name is replaced by its address, `scripts/deps images` is left out, and the images take this machine's
programs. With JANUS_SOAK=1 the images are compiled as a user does it. This needs the network of this machine and then that
of the cluster: all images are built first, then pushed. After each block the test checks its result.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "integration" / "serve"))

from cluster_case import CLUSTER, ROOT, ClusterCase, wait_for  # noqa: E402
from tiers import cannot_run  # noqa: E402

from certificates import CONTROL_PLANE  # noqa: E402
from control_plane import ControlPlane  # noqa: E402
from needs import PYTHON, missing  # noqa: E402
from node import Node  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
REGISTRY = "registry.example.com/team"  # README's
SOAK = "JANUS_SOAK" in os.environ
PROMPTS = ("Elizabeth looked out of the window", "It is a truth universally acknowledged",
           "Mr. Darcy walked into the room and")
# Greedy continuations, as they stream.
ASK = """
import json, openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=20)
model = client.models.list().data[0].id
for prompt in sys.argv[2:]:
    stream = client.completions.create(model=model, prompt=prompt, max_tokens=48, temperature=0, stream=True)
    print(json.dumps([chunk.choices[0].text for chunk in stream if chunk.choices]))
"""


def readme_blocks():
    """The commands of the README's section, block by block."""
    section = re.search("^## On a cluster\n(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S)[1]
    return re.findall("^```sh\n(.*?)^```", section, re.M | re.S)


def when(entry):
    return datetime.datetime.fromisoformat(entry["stageTimestamp"])


class InstallTest(ClusterCase):
    tier = "node"

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
        plane = ControlPlane(cls.state, cls.programs)
        cls.nodes = [Node(cls.state, cls.programs, number, plane) for number in (1, 2)]
        store = cls.state / "storage.conf"
        store.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{cls.state}/images"\n'
                         f'runroot = "{cls.state}/images-run"\n')
        cls.environment["CONTAINERS_STORAGE_CONF"] = str(store)
        cls.plane = plane
        cls.start_registry()

    @classmethod
    def start_registry(cls):
        """A registry in the control plane's network, without TLS. Both ends are configured for this, as users do it with
        a private registry."""
        cls.registry = f"{CONTROL_PLANE}:5000"
        kept = cls.state / "registry"
        kept.mkdir()
        cls.plane.box.start("registry", cls.programs / "crane", "registry", "serve", "--address", cls.registry,
                            "--disk", kept)
        hosts = cls.state / "registries" / cls.registry / "hosts.toml"
        hosts.parent.mkdir(parents=True)
        hosts.write_text(f'[host."http://{cls.registry}"]\ncapabilities = ["pull", "resolve"]\n')
        pushes = cls.state / "registries.conf"
        pushes.write_text(f'[[registry]]\nlocation = "{cls.registry}"\ninsecure = true\n')
        cls.environment["CONTAINERS_REGISTRIES_CONF"] = str(pushes)
        wait_for(lambda: subprocess.run([CLUSTER, "run", "curl", "-sf", f"http://{cls.registry}/v2/"],
                                        capture_output=True, check=False, env=cls.environment).returncode == 0,
                 "the registry")

    def replaced(self, command):
        """The command in a form that works here; empty: left out."""
        if command.startswith("scripts/deps images"):
            return ""
        command = command.replace(REGISTRY, f"{self.registry}/team")
        if command.startswith("scripts/images "):
            return command.replace(" --push", "") if SOAK else f"{command} --programs {BIN}"
        return command

    def where(self, command):
        """The first words of a command, by the network that it needs."""
        if command.startswith("scripts/images "):
            return [] if SOAK else self.into_its_network()
        return [CLUSTER, "run"]

    def into_its_network(self):
        """Runs in the cluster's network with this machine's files."""
        return ["nsenter", f"--net=/proc/{self.plane.box.pid()}/ns/net", "--"]

    def push(self, images):
        for image in images:
            subprocess.run([*self.into_its_network(), "buildah", "push", "--quiet", image], check=True,
                           stdout=subprocess.DEVNULL, env=self.environment)

    def run_block(self, text):
        """Runs its commands one by one in the repository's folder, with access to the cluster's network. Returns what each
        printed."""
        said = []
        for command in filter(None, map(self.replaced, text.replace("\\\n", " ").strip().splitlines())):
            print(f"$ {command}", flush=True)
            where = self.where(command)
            environment = {**self.environment, "PATH": f"{self.programs}:{PYTHON.parent}:{os.environ['PATH']}",
                           "HELM_CACHE_HOME": f"{self.state}/helm"}
            if command.endswith("&"):
                self.start(command.removesuffix("&"), where, environment)
                continue
            done = subprocess.run([*where, "bash", "-c", command], cwd=ROOT, env=environment, capture_output=True,
                                  text=True, check=False)
            print(done.stdout, flush=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            said.append(done.stdout)
            if command.startswith("scripts/images ") and SOAK:
                self.push(done.stdout.split())
        return said

    def start(self, command, where, environment):
        log = self.state / "port-forward.log"
        process = subprocess.Popen([*where, "bash", "-c", f"exec {command.replace('port-forward.log', str(log))}"],
                                   cwd=ROOT, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for(lambda: process.poll() is not None or "Forwarding from" in log.read_text() if log.exists() else False,
                 "the forwarded port")

    def ask(self, where, url):
        done = subprocess.run([*where, PYTHON, "-c", ASK, url, *PROMPTS], capture_output=True, text=True,
                              check=False, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        chunks = [json.loads(line) for line in done.stdout.splitlines()]
        # How many tokens arrive together depends on the machine. Without streaming, the whole answer would be one
        # chunk.
        self.assertGreater(max(len(one) for one in chunks), 1, "it streams")
        return ["".join(one) for one in chunks]

    def as_janusctl_serves(self):
        """The answers of `janusctl serve` to the same prompts, with the same object except for the parts that make pods."""
        from serving import free_port
        port, folder = free_port(), self.state / "serve"
        folder.mkdir()
        text = (ROOT / "examples" / "moeservice.yaml").read_text()
        local = re.sub(r"\{type: Image, image: \{path: \S+?\}\}",
                       f"{{type: HostPath, hostPath: {{path: {ROOT}/examples/demo-model}}}}", text)
        self.assertNotEqual(local, text)
        local = re.sub(r"^ +resources: .*\n", "", local, flags=re.M)  # its workers are processes of this machine
        (folder / "service.yaml").write_text(local)
        with open(folder / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen([BIN / "janusctl", "serve", "-f", folder / "service.yaml", "--port", str(port)],
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       env={**os.environ, "XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)})
        try:
            wait_for(lambda: process.poll() is not None or subprocess.run(
                ["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}/health"], check=False).returncode == 0,
                "janusctl serve")
            self.assertIsNone(process.poll(), (folder / "log").read_text())
            return self.ask([], f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait()

    def audited(self):
        with open(self.state / "log" / "audit.log", encoding="utf-8") as log:
            written = [json.loads(line) for line in log if line.endswith("\n")]
        return [entry for entry in written if entry.get("responseStatus", {}).get("code", 0) in (200, 201)]

    def print_share(self, applied, answered):
        """The operator's share of the time, from the server's log."""
        log = self.audited()

        def times(verb, resource, user, subresource=None):
            return [when(one) for one in log if one["verb"] == verb and one["objectRef"]["resource"] == resource
                    and user in one["user"]["username"] and one["objectRef"].get("subresource") == subresource
                    and one["objectRef"].get("namespace") == "default"]

        operator = ":janus-system:janus-operator"
        created = min(times("patch", "moeservices", "") + times("create", "moeservices", ""))
        pods = times("create", "pods", operator)
        committed = times("patch", "pods", operator, "status")  # members are labelled after they were told
        ready = max(one for one in times("patch", "pods", "system:node:", "status") if one < min(committed))
        print(f"apply -> last pod created {(max(pods) - created).total_seconds():.3f} s; last container ready -> "
              f"members told {(min(committed) - ready).total_seconds():.3f} s; apply -> first answer complete "
              f"{answered - applied:.1f} s", flush=True)

    def _keep(self):
        super()._keep()
        folder = ROOT / "build" / "e2e" / self._testMethodName
        for place in ("janus-system", "default"):
            (folder / f"{place}.txt").write_text(
                self.try_kubectl("-n", place, "describe", "pods,moesvc,moetop").stdout)
            for pod in self.try_kubectl("-n", place, "get", "pods", "-o", "name").stdout.split():
                (folder / f"{pod.replace('/', '-')}.log").write_text(
                    self.try_kubectl("-n", place, "logs", pod, "--tail=400").stdout)

    def replicas(self):
        return json.loads(self.try_kubectl("-n", "default", "get", "moesvc", "demo", "-o", "json").stdout)

    def test_the_commands_of_the_readme_lead_from_nothing_to_tokens(self):
        blocks = readme_blocks()
        self.assertEqual(len(blocks), 3)
        self.assertIn(f"--registry {REGISTRY} --push", blocks[0])
        self.assertIn(f"global.imageRegistry={REGISTRY}", blocks[0])
        install, apply = re.match("(.*?)(^kubectl apply.*)", blocks[0], re.M | re.S).groups()
        self.run_block(install)
        applied = time.monotonic()
        said = self.run_block(apply)
        self.assertRegex(said[2], r"demo +\S* +1/1 +2/2 ")
        self.assertIn("TopologyCommitted", said[3])

        said = self.run_block(blocks[1])
        answered = time.monotonic()
        self.print_share(applied, answered)
        self.assertRegex(said[-1], r"demo: \S+( \S+){3}")
        url = "http://127.0.0.1:8000"
        whole = self.as_janusctl_serves()
        self.assertEqual(self.ask([CLUSTER, "run"], url), whole)

        # Step by step: in between, the service still answers, with the same text.
        lines = blocks[2].strip().splitlines()
        self.run_block("\n".join(lines[:2]))
        self.assertEqual(self.replicas()["status"]["topology"]["n"], 3)
        self.assertEqual(self.ask([CLUSTER, "run"], url), whole)
        refused = subprocess.run([CLUSTER, "run", self.programs / "helm", "uninstall", "janus-operator", "-n",
                                  "janus-system"], capture_output=True, text=True, check=False, env=self.environment)
        self.assertNotEqual(refused.returncode, 0, "with services there")
        self.assertIn("1 MoEService(s) would run without an operator", refused.stderr + refused.stdout)
        self.run_block("\n".join(lines[2:]))
        wait_for(lambda: not self.try_kubectl("-n", "default", "get", "pods", "-o", "name").stdout, "the end of pods")
        self.assertEqual(self.try_kubectl("-n", "janus-system", "get", "deployments", "-o", "name").stdout, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
