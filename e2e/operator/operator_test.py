"""janus-operator on a real API server, with fake pods: python3 e2e/operator/operator_test.py

The program is janus-operator but for its workers, which do at once what they are told and remember the
highest fence together (tests/operator). What it did is asked of the API and of the server's audit log.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CLUSTER, ROOT, ClusterCase, wait_for  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
OWNED = "pods,services,serviceaccounts,deployments,poddisruptionbudgets,moetopologies"
SERVICE = "serving.janus.dev/service"


class OperatorTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.is_given:
            raise unittest.SkipTest("its oracle is the audit log of a cluster of its own")
        cls.install_crds()
        for name in ("fake-a", "fake-b"):
            cls.add_fake_node(name)

    def setUp(self):
        super().setUp()
        self.folder = ROOT / "build" / "e2e" / self.namespace
        self.folder.mkdir(parents=True, exist_ok=True)
        self.book = self.folder / "fences"

    # The operators.

    def start(self, name, *flags):
        program = BIN / "operator-with-prompt-members"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev {program.name}")
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [CLUSTER, "run", program, f"--watch-namespace={self.namespace}",
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
        process.metrics, process.health = re.findall(r"=(\S+)", ready)
        wait_for(lambda: self.page(process.health, "readyz")[0] == 200, "the operator's /readyz")
        return process

    def page(self, address, path):
        """(HTTP status, text)."""
        done = subprocess.run([CLUSTER, "run", "curl", "-s", "-w", "\n%{http_code}", f"http://{address}/{path}"],
                              env=self.environment, capture_output=True, text=True, check=False)
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text

    def metrics(self, process):
        """Sums over their labels of all that are no histogram's buckets."""
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
        """Ready at this generation, and exactly the workers that are wanted, all of them members."""
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
        """What callers of that name did in this namespace."""
        with open(self.state_folder() / "log" / "audit.log", encoding="utf-8") as log:
            for line in log:
                if f'"namespace":"{self.namespace}"' in line and f'"userAgent":"{agent}/' in line:
                    yield json.loads(line)

    def writes(self):
        """(verb, resource, name, code) of each write of operators in this namespace, Leases and Events left out."""
        return [(entry["verb"], entry["objectRef"]["resource"], entry["objectRef"].get("name", ""),
                 entry["responseStatus"]["code"]) for entry in self.audited("janus-operator")
                if entry["objectRef"]["resource"] not in ("leases", "events")]

    def created_pods(self):
        """Names of the pods that the server made for operators."""
        return [name for verb, resource, name, code in self.writes()
                if (verb, resource, code) == ("create", "pods", 201)]

    def bound_pods(self):
        """Names of the workers' pods that the scheduler bound, once for each that was made. The server makes one too
        whose caller is killed meanwhile, but books it as timed out."""
        return [entry["objectRef"]["name"] for entry in self.audited("kube-scheduler")
                if entry["objectRef"].get("subresource") == "binding" and entry["responseStatus"]["code"] == 201
                and re.search("-(attention|experts)-", entry["objectRef"]["name"])]

    def check_books(self, pods):
        """So many pods were made, none of them twice, and no worker took what an earlier leader said."""
        made = self.bound_pods()
        self.assertEqual(len(made), pods, made)
        self.assertEqual(len(set(made)), pods, made)
        fence = 0
        for line in self.book.read_text().splitlines():
            words = line.split()
            if words[-1] == "taken":
                self.assertGreaterEqual(int(words[2]), fence, line)
                fence = int(words[2])

    # The tests.

    def test_a_service_comes_up_changes_heals_and_goes(self):
        process = self.start("operator-0")
        self.apply(1, 2)
        self.await_whole(1, 2)
        self.assertEqual({one["metadata"]["name"] for one in self.get("services")["items"]}, {"demo", "demo-members"})
        self.assertEqual({one["metadata"]["name"]: one["spec"]["minAvailable"] for one in self.get("pdb")["items"]},
                         {"demo-attention": 1, "demo-experts": 2})
        wait_for(lambda: self.get("deployment/demo-gateway")["status"].get("availableReplicas") == 2, "gateways")
        self.assertEqual(self.get("serviceaccount/demo-worker")["automountServiceAccountToken"], False)
        self.assertRegex(self.kubectl("get", "moesvc", "--no-headers"), r"(?m)^demo +.*\b1/1\b.*\b2/2\b.*\bTrue\b")
        described = self.kubectl("describe", "moesvc", "demo")
        for words in ("Type:                  Ready", "Created", "TopologyCommitted"):
            wait_for(lambda words=words: words in self.kubectl("describe", "moesvc", "demo"), f"'{words}' in {described}")

        self.apply(2, 4)
        self.await_whole(2, 4)
        self.apply(1, 3)
        self.await_whole(1, 3)
        lost = sorted(self.workers())[-1]
        self.kubectl("delete", "pod", lost, "--wait=false")
        wait_for(lambda: lost not in self.workers(), "the pod's end")
        self.await_whole(1, 3)
        self.check_books(7)

        names = set(self.metrics(process))
        told = {re.sub("_(sum|count)$", "", name) for name in names}
        page = (ROOT / "docs" / "metrics.md").read_text()
        self.assertEqual(told - set(re.findall(r"`(\w+)", page)), set(), "names that docs/metrics.md lacks")
        for name in ("controller_runtime_reconcile_total", "workqueue_adds_total", "rest_client_requests_total",
                     "leader_election_master_status", "janus_role_ready_replicas", "process_resident_memory_bytes"):
            self.assertIn(name, names)

        self.kubectl("delete", "moesvc", "demo")
        wait_for(lambda: not [one for one in self.get(OWNED)["items"] if SERVICE in one["metadata"].get("labels", {})],
                 "everything gone")
        process.terminate()
        self.assertEqual(process.wait(), 0)
        self.assertEqual(self.get("lease/janus-operator")["spec"].get("holderIdentity", ""), "")

    def test_what_is_as_wanted_is_left_alone(self):
        process = self.start("operator-0", "--leader-election=false")
        self.apply(1, 2)
        self.await_whole(1, 2)
        wait_for(lambda: self.get("deployment/demo-gateway")["status"].get("availableReplicas") == 2, "gateways")
        # `kubectl diff` ends with 1 where there is a difference.
        self.kubectl("diff", "-f", "-", text=self.object(1, 2))
        wait_for(lambda: self.metrics(process)["janus_events_waiting"] == 0, "all Events written")

        def passes():
            return self.metrics(process)["controller_runtime_reconcile_time_seconds_count"]

        # A pass after everything was seen; then whoever applies again, or annotates, moves nothing.
        for text in ("1", "2"):
            before, count = self.writes(), passes()
            self.kubectl("apply", "-f", "-", text=self.object(1, 2))
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=self.object(1, 2))
            self.kubectl("annotate", "--overwrite", "moesvc", "demo", f"touched={text}")
            wait_for(lambda count=count: passes() > count, "a pass")
        self.assertEqual(self.writes(), before)

        def requests():
            """But for watches that the server ended."""
            values = self.metrics(process)
            return values["rest_client_requests_total"] - values["reflector_watches_total"]

        idle = requests()
        self.assertRaises(subprocess.TimeoutExpired, process.wait, 10)
        self.assertEqual(requests(), idle, "requests of an operator with nothing to do")

    def test_what_cannot_be_is_said(self):
        self.start("operator-0")
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "demo"},
            "spec": {"model": {"source": {"type": "HuggingFace", "huggingFace": {"repo": "a/b"}}},
                     "slo": {"tpot": {"targetMilliseconds": 60}}}}))
        self.kubectl("wait", "--for=condition=Stalled", "moesvc/demo", "--timeout=300s")
        stalled = [one for one in self.get("moesvc/demo")["status"]["conditions"] if one["type"] == "Stalled"][0]
        self.assertEqual(stalled["reason"], "NotSupported")
        self.assertIn("use HostPath, PersistentVolumeClaim or Image", stalled["message"])

    def lose_leader(self, how):
        """Two operators; the leader is lost while it brings the service up. The processes, the lost one first."""
        operators = {name: self.start(name) for name in ("operator-0", "operator-1")}
        holder = wait_for(lambda: self.try_kubectl(
            "-n", self.namespace, "get", "lease", "janus-operator", "-o",
            "jsonpath={.spec.holderIdentity}").stdout, "a leader")
        leader = operators.pop(holder.split("_")[0])
        self.apply(2, 4)
        wait_for(self.created_pods, "a pod")
        leader.send_signal(how)
        return leader, *operators.values()

    def test_a_leader_that_is_ended_hands_over(self):
        leader, _ = self.lose_leader(signal.SIGTERM)
        self.assertEqual(leader.wait(), 0)
        self.await_whole(2, 4)
        self.check_books(6)

    def test_a_leader_that_is_killed_is_followed(self):
        self.lose_leader(signal.SIGKILL)
        self.await_whole(2, 4)
        self.check_books(6)

    def test_a_leader_that_slept_through_its_term_does_no_harm(self):
        leader, _ = self.lose_leader(signal.SIGSTOP)
        self.await_whole(2, 4)
        leader.send_signal(signal.SIGCONT)
        wait_for(lambda: self.page(leader.health, "healthz")[0] == 200, "it to be awake")
        self.apply(1, 5)
        self.await_whole(1, 5)
        self.check_books(7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
