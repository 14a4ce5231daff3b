"""janus-operator on the test cluster, with workers that do at once what it asks."""

import json
import os
import pathlib
import re
import signal
import subprocess
import unittest

from cluster_case import CLUSTER, ROOT, ClusterCase, wait_for
from rights import refusals, rights_of_the_chart, write_kubeconfig, writes_to_services

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))


class OperatorCase(ClusterCase):
    """A cluster with two fake nodes, fake-a and fake-b, and the kinds of the API. Operators have the rights that the chart
    gives them, in the test's namespace."""

    has_operators = False  # some have started

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.is_given:
            raise unittest.SkipTest("its oracle is the audit log of a cluster of its own")
        cls.install_crds()
        for name in ("fake-a", "fake-b"):
            cls.add_fake_node(name)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        # The chart gives exactly the rights that e2e/chart uses; other suites must need no more.
        audit_log = cls.state_folder() / "log" / "audit.log"
        refused = refusals(audit_log)
        if refused:
            raise AssertionError(f"janus-operator has no right to {refused}")
        to_status, others = writes_to_services(audit_log)
        if cls.has_operators and to_status == 0:
            raise AssertionError(f"{audit_log} has no write to a MoEService's status, so it does not show what operators did")
        if others:
            raise AssertionError(f"janus-operator wrote more of a MoEService than its status: {others}")

    def setUp(self):
        super().setUp()
        self.folder = ROOT / "build" / "e2e" / self.namespace
        self.folder.mkdir(parents=True, exist_ok=True)
        self.book = self.folder / "fences"
        programs = (self.state_folder() / "programs").resolve()
        rights = rights_of_the_chart(programs, self.namespace, self.environment)
        self.addCleanup(self.try_kubectl, "delete", "-f", "-", "--wait=false", text=rights)
        self.kubectl("apply", "-f", "-", text=rights)
        self.kubeconfig = self.folder / "operator.kubeconfig"
        token = self.kubectl("create", "token", "janus-operator", "--duration=2h").strip()
        write_kubeconfig(self.kubeconfig, token, self.state_folder() / "pki")

    # The operators.

    def start(self, name, *flags):
        program = BIN / "operator-with-prompt-members"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev {program.name}")
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [CLUSTER, "run", program, f"--kubeconfig={self.kubeconfig}", f"--watch-namespace={self.namespace}",
                 f"--lease-namespace={self.namespace}", f"--pod-name={name}",
                 "--metrics-address=127.0.0.1:0", "--health-address=127.0.0.1:0",
                 "--worker-image=worker:1", "--gateway-image=gateway:1",
                 f"--host-path={ROOT}/examples", *flags],
                env={**self.environment, "JANUS_FENCE_BOOK": str(self.book)}, stdout=subprocess.PIPE,
                stderr=log, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        ready = process.stdout.readline()
        self.assertRegex(ready, r"^janus-operator ready metrics=\S+ health=\S+$",
                         (self.folder / f"{name}.log").read_text())
        type(self).has_operators = True
        process.metrics, process.health = re.findall(r"=(\S+)", ready)
        wait_for(lambda: self.page(process.health, "readyz")[0] == 200, "the operator's /readyz")
        return process

    def page(self, address, path):
        """(HTTP status, text)."""
        done = subprocess.run([*self.in_network, "curl", "-s", "-w", "\n%{http_code}", f"http://{address}/{path}"],
                              capture_output=True, text=True, check=False)
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text

    def metrics(self, process):
        """Metrics summed over their labels, without buckets of histograms."""
        values = {}
        for line in self.page(process.metrics, "metrics")[1].splitlines():
            if line.startswith("#") or "_bucket{" in line:
                continue
            name, value = re.match(r"(\w+)(?:\{.*\})? (\S+)", line).groups()
            values[name] = values.get(name, 0) + float(value)
        return values

    # The service.

    def object(self, attention, experts):
        return json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "demo"},
            "spec": {"model": {"source": {"type": "HostPath",
                                          "hostPath": {"path": f"{ROOT}/examples/demo-model"}}},
                     "roles": {"attention": {"replicas": attention}, "experts": {"replicas": experts}}}})

    def apply(self, attention, experts):
        self.kubectl("apply", "-f", "-", text=self.object(attention, experts))

    def get(self, what):
        return json.loads(self.kubectl("get", what, "-o", "json"))

    def workers(self):
        items = json.loads(self.kubectl("get", "pods", "-l", "app.kubernetes.io/name=janus-worker",
                                        "-o", "json"))["items"]
        return {pod["metadata"]["name"]: pod for pod in items if "deletionTimestamp" not in pod["metadata"]}

    def is_ready(self):
        service = self.get("moesvc/demo")
        return any(one["type"] == "Ready" and one["status"] == "True"
                   and one["observedGeneration"] == service["metadata"]["generation"]
                   for one in service.get("status", {}).get("conditions", []))

    def await_whole(self, attention, experts):
        """Waits until the service is ready at this generation and has exactly the wanted workers, all of them members."""
        def holds():
            if not self.is_ready():
                return False
            workers = self.workers()
            members = [pod for pod in workers.values()
                       if pod["metadata"]["labels"].get("serving.janus.dev/member") == "true"]
            return len(workers) == len(members) == attention + experts
        wait_for(holds, f"a whole {attention}A{experts}E")
        topology = self.get("moetopologies")["items"]
        self.assertEqual(len(topology), 1)
        self.assertNotIn("proposed", topology[0]["spec"])
        self.assertEqual({one["podUID"] for one in topology[0]["spec"]["committed"]["instances"]},
                         {pod["metadata"]["uid"] for pod in self.workers().values()})

    # The audit log.

    def audited(self, agent):
        """Requests of callers with that name in this namespace."""
        with open(self.state_folder() / "log" / "audit.log", encoding="utf-8") as log:
            for line in log:
                if not line.endswith("\n"):
                    break  # the last line is not complete yet
                if f'"namespace":"{self.namespace}"' in line and f'"userAgent":"{agent}/' in line:
                    yield json.loads(line)

    def writes(self):
        """(verb, resource, name, code) of each write of operators in this namespace, without Leases and Events."""
        return [(entry["verb"], entry["objectRef"]["resource"], entry["objectRef"].get("name", ""),
                 entry["responseStatus"]["code"]) for entry in self.audited("janus-operator")
                if entry["objectRef"]["resource"] not in ("leases", "events")
                and entry["verb"] not in ("get", "list", "watch")]

    def created_pods(self):
        """Names of the pods that the server created for operators."""
        return [name for verb, resource, name, code in self.writes()
                if (verb, resource, code) == ("create", "pods", 201)]

    def bound_pods(self):
        """Names of the workers' pods that the scheduler bound, once for each that was created. If the caller is killed
        during a create, the server still creates the pod but logs the request as timed out."""
        return [entry["objectRef"]["name"] for entry in self.audited("kube-scheduler")
                if entry["objectRef"].get("subresource") == "binding" and entry["responseStatus"]["code"] == 201
                and re.search("-(attention|experts)-", entry["objectRef"]["name"])]

    def check_books(self, pods):
        """Checks that `pods` pods were created, none twice, and that no worker accepted a call of a deposed leader."""
        made = self.bound_pods()
        self.assertEqual(len(made), pods, made)
        self.assertEqual(len(set(made)), pods, made)
        fence = 0
        for line in self.book.read_text().splitlines():
            words = line.split()
            if words[-1] == "taken":
                self.assertGreaterEqual(int(words[2]), fence, line)
                fence = int(words[2])
