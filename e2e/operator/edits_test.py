"""Edits each field of the spec of a running service: python3 e2e/operator/edits_test.py

For each row of edits.py, a service is started with fake pods, edited by `kubectl apply`, and given its old value again.
Only what the row names may change; nothing may be left behind.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import ROOT, wait_for  # noqa: E402
from edits import ROWS, merged, value_at  # noqa: E402
from operator_case import OperatorCase  # noqa: E402

DEMO = f"{ROOT}/examples/demo-model"
# The path only has to be absolute. The pods find out whether anything is there.
OTHER = f"{ROOT}/examples/other-model"
BASE = {"model": {"source": {"type": "HostPath", "hostPath": {"path": DEMO}}},
        "roles": {"attention": {"replicas": 1}, "experts": {"replicas": 1}}, "gateway": {"replicas": 1}}
CORE, GROUP = "/api/v1", "/apis/serving.janus.dev/v1alpha1"
KINDS = {"services": CORE, "pods": CORE, "moeservices": GROUP, "moetopologies": GROUP, "moerolescalers": GROUP,
         "deployments": "/apis/apps/v1", "poddisruptionbudgets": "/apis/policy/v1",
         "networkpolicies": "/apis/networking.k8s.io/v1"}
SERVICE, ROLE = "serving.janus.dev/service", "serving.janus.dev/role"


def leaves(schema, path=""):
    """Dotted paths of all schema fields without subfields, with their defaults."""
    for name, one in schema["properties"].items():
        if "properties" in one:
            yield from leaves(one, f"{path}{name}.")
        else:
            yield f"{path}{name}", one.get("default")


def movement(role, before, after):
    """The change in the terms of edits.py."""
    if before == after:
        return set()
    if before < after:
        return {f"{role}+"}
    if after < before:
        return {f"{role}-"}
    return {f"{role}, in part"} if before & after else {role}


class World:
    """All services of a namespace with their objects, as the server has them at about the same time."""

    def __init__(self, server, namespace):
        self.lists = {}
        for kind, group in KINDS.items():
            status, body = server.request("GET", f"{group}/namespaces/{namespace}/{kind}")
            assert status == 200, body
            self.lists[kind] = body["items"]
        self.services = {one["metadata"]["name"]: one for one in self.lists["moeservices"]}

    def of(self, kind, service):
        return [one for one in self.lists[kind]
                if one["metadata"].get("labels", {}).get(SERVICE) == service
                or service in [owner["name"] for owner in one["metadata"].get("ownerReferences", [])]]

    def pods(self, service):
        return [pod for pod in self.of("pods", service) if ROLE in pod["metadata"]["labels"]]

    def conditions(self, service):
        return {one["type"]: one for one in self.services[service].get("status", {}).get("conditions", [])}

    def is_settled(self, service, stalled):
        """Nothing is in progress: the service is as wanted, or its conditions say that it cannot be."""
        generation, conditions = self.services[service]["metadata"]["generation"], self.conditions(service)
        if not conditions or any(one["observedGeneration"] != generation for one in conditions.values()):
            return False
        if self.services[service]["status"]["observedGeneration"] != generation:
            return False
        if (conditions["Stalled"]["reason"] if conditions["Stalled"]["status"] == "True" else "") != stalled:
            return False
        if not stalled and conditions["Progressing"]["reason"] != "Complete":
            return False
        return self._topology_is_settled(service) and all(
            one["status"].get(count) == one["spec"]["replicas"] and
            one["status"].get("observedGeneration") == one["metadata"]["generation"]
            for one in self.of("deployments", service)
            for count in ("replicas", "updatedReplicas", "availableReplicas"))

    def _topology_is_settled(self, service):
        topologies, pods = self.of("moetopologies", service), self.pods(service)
        if not topologies:
            return not pods
        spec = topologies[0]["spec"]
        members = {one["podUID"] for one in spec["committed"]["instances"]}
        there = {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        wanted = self.services[service]["spec"]
        if wanted.get("suspend", False):
            are_right = not pods
        else:
            standby = wanted.get("scaling", {}).get("standby", 0)  # of each role
            are_right = there >= members and len(there - members) == 2 * standby
        return len(topologies) == 1 and "proposed" not in spec and len(there) == len(pods) and are_right

    def state(self, service):
        """Everything that an edit may change."""
        topology = self.of("moetopologies", service)
        return {**{role: {pod["metadata"]["uid"] for pod in self.pods(service) if pod["metadata"]["labels"][ROLE] == role}
                   for role in ("attention", "experts")},
                "epoch": topology[0]["spec"]["lastEpoch"] if topology else 0,
                **self._kept(service)}

    def _kept(self, service):
        return {"gateway": [one["spec"] for one in self.of("deployments", service)],
                "endpoint": {one["metadata"]["name"]: one["spec"] for one in self.of("services", service)},
                "budgets": {one["metadata"]["name"]: one["spec"] for one in self.of("poddisruptionbudgets", service)},
                "scalers": {one["metadata"]["name"]: one["spec"] for one in self.of("moerolescalers", service)},
                "policies": {one["metadata"]["name"]: one["spec"] for one in self.of("networkpolicies", service)}}

    def shape(self, service):
        """What must be the same again with the old spec."""
        return {"pods": sorted((pod["metadata"]["labels"][ROLE], pod["metadata"]["labels"]["serving.janus.dev/revision"])
                               for pod in self.pods(service)),
                # The other two tell of the traffic and of decisions.
                "conditions": {kind: (one["status"], one["reason"]) for kind, one in self.conditions(service).items()
                               if kind not in ("SLOMet", "ScalingReady")},
                **self._kept(service)}


def moved(before, after):
    out = {part for part in before if part not in ("attention", "experts") and before[part] != after[part]}
    return out.union(*(movement(role, before[role], after[role]) for role in ("attention", "experts")))


class EditsTest(OperatorCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("fake-c", "fake-d"):
            cls.add_fake_node(name)
        cls.try_kubectl("label", "nodes", "--all", "pool=rows")
        done = cls.try_kubectl("create", "priorityclass", "rows", "--value=1")
        assert done.returncode == 0, done.stderr

    def make_claims(self):
        """Bound volumes for models; they point nowhere, as they are never mounted."""
        for name in ("models-one", "models-two"):
            volume = f"{name}-{self.namespace}"
            self.kubectl("apply", "-f", "-", namespaced=False, text=json.dumps({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"], "storageClassName": "rows",
                         "hostPath": {"path": "/nowhere"}}}))
            self.addCleanup(self.try_kubectl, "delete", "pv", volume, "--wait=false")
            self.kubectl("apply", "-f", "-", text=json.dumps({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
                "spec": {"accessModes": ["ReadOnlyMany"], "storageClassName": "rows", "volumeName": volume,
                         "resources": {"requests": {"storage": "1Gi"}}}}))

    def object(self, name, *patches):
        spec = BASE
        for patch in patches:
            spec = merged(spec, patch)
        text = json.dumps({"apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService",
                           "metadata": {"name": name}, "spec": spec})
        return json.loads(text.replace('"@other"', json.dumps(OTHER)))

    def apply_all(self, objects):
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def await_settled(self, stalled):
        """`stalled`: the reason by service. Returns the world when all services are settled."""
        world = None

        def holds():
            nonlocal world
            world = World(self.server, self.namespace)
            return all(world.is_settled(service, reason) for service, reason in stalled.items())

        try:
            wait_for(holds, "all services to be as their rows say")
        except Exception:
            for service, reason in stalled.items():
                if not world.is_settled(service, reason):
                    print(f"{service} ({self.paths[service]}):", json.dumps(world.conditions(service)), file=sys.stderr)
            raise
        # The operator has also finished all its work.
        wait_for(lambda: not any(self.metrics(self.operator)[name] for name in (
            "workqueue_depth", "controller_runtime_active_workers")), "an operator with nothing to do")
        return World(self.server, self.namespace)

    def walk(self, rows):
        """Each edit on a separate service, all at once."""
        self.server = self.api_server()
        self.operator = self.start("operator-0", "--leader-election=false", "--api-qps=1000", "--api-burst=1000",
                                   "--timed-devices")
        self.paths = {f"row-{i}": path for i, path in enumerate(rows)}
        edits = {service: rows[path] for service, path in self.paths.items()}
        firsts = [self.object(service, edit.before) for service, edit in edits.items()]
        is_built = {service: "" for service in edits}
        self.apply_all(firsts)
        first = self.await_settled(is_built)
        self.apply_all([self.object(service, edit.before, edit.after) for service, edit in edits.items()])
        then = self.await_settled({service: edit.stalled for service, edit in edits.items()})
        did = {one: moved(first.state(one), then.state(one)) for one in edits}
        self.assertEqual({self.paths[one]: (did[one], "want", edit.moves)
                          for one, edit in edits.items() if did[one] != edit.moves}, {})
        self.apply_all(firsts)
        last = self.await_settled(is_built)
        self.maxDiff = None
        for one in edits:
            self.assertEqual(last.shape(one), first.shape(one), self.paths[one])
        self.kubectl("delete", "moesvc", "--all", "--wait=false")

        def left():
            world = World(self.server, self.namespace)
            return [one for kind in KINDS for one in world.lists[kind]]

        wait_for(lambda: not left(), "everything gone")

    def test_every_field_has_its_row(self):
        crd = json.loads(self.kubectl("get", "crd", "moeservices.serving.janus.dev", "-o", "json", namespaced=False))
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        fields = dict(leaves(schema))
        self.assertEqual(sorted(ROWS), sorted(fields))
        for path, edit in ROWS.items():
            before = value_at(merged(BASE, edit.before), path)
            after = value_at(merged(merged(BASE, edit.before), edit.after), path)
            before = fields[path] if before is None else before
            self.assertIsNotNone(after, path)
            self.assertNotEqual(after, before, path)

    def test_what_the_server_refuses(self):
        rows = {path: edit for path, edit in ROWS.items() if edit.refused}
        self.assertEqual(len(rows), 2)
        for i, edit in enumerate(rows.values()):
            self.apply_all([self.object(f"row-{i}", edit.before)])
            done = self.try_kubectl("-n", self.namespace, "apply", "-f", "-",
                                    text=json.dumps(self.object(f"row-{i}", edit.before, edit.after)))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(edit.refused, done.stderr)

    def test_what_is_not_supported_moves_nothing(self):
        self.walk({path: edit for path, edit in ROWS.items() if edit.stalled})

    def test_what_rolls_pods(self):
        self.make_claims()
        self.walk({path: edit for path, edit in ROWS.items()
                   if edit.moves & {"attention", "experts"} and not edit.needs_hub})

    def test_what_rolls_no_pods(self):
        self.walk({path: edit for path, edit in ROWS.items()
                   if not edit.moves & {"attention", "experts"} and not edit.stalled and not edit.refused})


if __name__ == "__main__":
    unittest.main(verbosity=2)
