"""What operator/kube reads in protobuf is what it reads in JSON: python3 e2e/kube/protobuf_test.py"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CLUSTER, MODULES, ROOT, ClusterCase, need_modules, wait_for  # noqa: E402
from limits import TIMEOUT  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
ACCEPT = "application/vnd.kubernetes.protobuf,application/json"  # as operator/kube/client.cc

PORT = {"name": "http", "containerPort": 80}
PODS = {
    "least": {"containers": [{"name": "a", "image": "x"}]},
    "probes": {"containers": [{
        "name": "a", "image": "x", "ports": [PORT, {"containerPort": 53, "protocol": "UDP", "hostPort": 5353}],
        "livenessProbe": {"httpGet": {"path": "/", "port": "http", "httpHeaders": [{"name": "X", "value": ""}]}},
        "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1},
        "startupProbe": {"grpc": {"port": 80, "service": ""}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}, "postStart": {"exec": {"command": ["true"]}}}}]},
    "environment": {"containers": [{
        "name": "a", "image": "x", "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c", "optional": False}}],
        "env": [{"name": "EMPTY", "value": ""}, {"name": "ODD", "value": "é \u2028 <&> \"\\\n\t\x7f \U0001F600"},
                {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}],
        "resources": {"requests": {"cpu": "0.5", "memory": "1e9"},
                      "limits": {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "10M"}}}]},
    "volumes": {"containers": [{
        "name": "a", "image": "x", "volumeMounts": [
            {"name": "none", "mountPath": "/none", "readOnly": True, "subPath": "s"},
            {"name": "disk", "mountPath": "/disk", "mountPropagation": "None"}]}],
        "volumes": [
            {"name": "none", "emptyDir": {}},
            {"name": "disk", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "map", "configMap": {"name": "c", "defaultMode": 0, "items": [
                {"key": "k", "path": "p", "mode": 511}]}},
            {"name": "secret", "secret": {"secretName": "s", "optional": False}},
            {"name": "host", "hostPath": {"path": "/", "type": ""}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "made", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
            {"name": "all", "projected": {"sources": [
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}]},
    "placed": {"containers": [{"name": "a", "image": "x"}],
               "initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}],
               "nodeSelector": {"b": "", "a": "1"}, "priority": 0, "hostNetwork": True, "dnsPolicy": "None",
               "dnsConfig": {"nameservers": ["10.0.0.1"], "options": [{"name": "ndots", "value": "2"}, {"name": "x"}]},
               "hostAliases": [{"ip": "10.0.0.2", "hostnames": ["h"]}],
               "tolerations": [{"operator": "Exists"},
                               {"key": "k", "effect": "NoExecute", "value": "v", "tolerationSeconds": 0}],
               "topologySpreadConstraints": [{
                   "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": None,
                   "labelSelector": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a", "b"]}]},
                   "matchLabelKeys": ["rev"]}],
               "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                   {"weight": 100, "podAffinityTerm": {"topologyKey": "h", "labelSelector": {}}}]},
                   "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                       {"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}},
               "readinessGates": [{"conditionType": "example.com/ready"}], "schedulingGates": [{"name": "g"}]},
    "secured": {"containers": [{
        "name": "a", "image": "x", "stdin": True, "tty": True, "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "runAsUser": 0, "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
                            "seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}}],
        "automountServiceAccountToken": False, "enableServiceLinks": False, "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 0, "activeDeadlineSeconds": 1000, "hostname": "h", "subdomain": "s",
        "securityContext": {"runAsNonRoot": False, "fsGroup": 0, "supplementalGroups": [0, 1, 4294967295 // 2],
                            "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}],
                            "fsGroupChangePolicy": "OnRootMismatch"}},
}


class ProtobufTest(ClusterCase):
    def make(self, kind, name, api_version="v1", metadata=None, **fields):
        self.kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}))

    def make_objects(self):
        odd = {"labels": {"b": "", "a": "x", "example.com/c": "y"}, "annotations": {"note": "é\n\"<&>\u2028", "empty": ""}}
        wait_for(lambda: self.try_kubectl("-n", self.namespace, "get", "serviceaccount", "default")
                 .returncode == 0, "the namespace's default service account")
        self.make("Node", f"fake-{self.namespace}", metadata={
            "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"zone": "a"}},
            spec={"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True},
            status={"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "4"}})
        for name, spec in PODS.items():
            self.make("Pod", name, metadata=odd, spec=spec)
        self.make("Pod", "runs", spec={**PODS["least"], "nodeName": f"fake-{self.namespace}"})
        self.make("Pod", "leaves", spec=PODS["least"], metadata={"finalizers": ["example.com/stays"]})
        self.kubectl("delete", "pod", "leaves", "--wait=false")
        self.addCleanup(self.kubectl, "patch", "pod", "leaves", "--type=json", "-p",
                        '[{"op":"remove","path":"/metadata/finalizers"}]')
        self.make("ConfigMap", "odd", metadata=odd, data={"b": "", "a": "x\ny"}, immutable=True,
                  binaryData={"raw": "AAH/gA=="})
        self.make("Service", "both", metadata=odd, spec={
            "selector": {"a": "x"}, "publishNotReadyAddresses": True,
            "ports": [{"name": "n", "port": 80, "targetPort": "http"}, {"name": "m", "port": 81, "targetPort": 8081}]})
        self.make("Service", "headless", spec={"clusterIP": "None", "ports": [{"port": 1}]})
        self.make("ServiceAccount", "none", automountServiceAccountToken=False, imagePullSecrets=[{"name": "s"}])
        self.make("Deployment", "web", api_version="apps/v1", metadata=odd, spec={
            "replicas": 0, "selector": {"matchLabels": {"a": "x"}}, "progressDeadlineSeconds": 60,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"a": "x"}}, "spec": PODS["least"]}})
        self.make("NetworkPolicy", "doors", api_version="networking.k8s.io/v1", metadata=odd, spec={
            "podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{}],
            "ingress": [{"ports": [{"port": "http"}, {"port": 1, "endPort": 2, "protocol": "UDP"}],
                         "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                                  {"namespaceSelector": {}, "podSelector": {"matchLabels": {"a": "x"}}}]}]})
        for name, bound in (("count", {"minAvailable": 1}), ("share", {"maxUnavailable": "50%"})):
            self.make("PodDisruptionBudget", name, api_version="policy/v1",
                      spec={**bound, "selector": {"matchLabels": {"a": "x"}}})
        self.kubectl("wait", "--for=condition=Ready", "pod/runs", TIMEOUT)

    def test_objects_are_the_same_in_both_formats(self):
        self.make_objects()
        server = self.api_server()
        for path in ("/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments"):
            for query in ("?limit=1", "?watch=true&timeoutSeconds=1"):
                kind = server.content_type(path + query, ACCEPT)
                self.assertEqual(kind.split(";")[0], ACCEPT.split(",", maxsplit=1)[0], path + query)
        program = BIN / "kube-compare"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev kube-compare")
        command = [program] if self.is_given else [CLUSTER, "run", program]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        counts = dict(line.split(": ") for line in done.stdout.splitlines())
        self.assertEqual(len(counts), 8, done.stdout)
        self.assertGreaterEqual(int(counts["pods"]), len(PODS) + 2)
        self.assertTrue(all(int(count) > 0 for count in counts.values()), counts)
        print(", ".join(done.stdout.splitlines()), file=sys.stderr)


class TablesTest(unittest.TestCase):
    def test_tables_are_those_of_the_pinned_modules(self):
        need_modules("k8s.io/api/core/v1")
        fresh = subprocess.run(["go", "run", "-trimpath", "./protobuftables"], cwd=MODULES, check=True,
                               capture_output=True, text=True).stdout
        self.assertEqual(fresh, (ROOT / "operator" / "kube" / "protobuf_tables.cc").read_text(),
                         "make it anew: e2e/build/kube/protobuftables says how")


if __name__ == "__main__":
    unittest.main(verbosity=2)
