"""An adapter of a monitoring system for HorizontalPodAutoscalers (external_metrics.py)."""

import json
import pathlib
import subprocess
import sys

from cluster_case import CLUSTER
from limits import TIMEOUT

from certificates import CONTROL_PLANE

PROGRAM = pathlib.Path(__file__).with_name("external_metrics.py")
API = "v1beta1.external.metrics.k8s.io"
PORT = 9443


def register(case, port):
    """An adapter at this port of the control plane serves external metrics until the test ends."""
    case.addCleanup(case.try_kubectl, "delete", "apiservice", API)
    case.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics"},
         "spec": {"ports": [{"port": 443, "targetPort": port}]}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"name": "metrics-1", "labels": {"kubernetes.io/service-name": "metrics"}},
         "ports": [{"port": port, "protocol": "TCP"}],
         "endpoints": [{"addresses": [CONTROL_PLANE], "conditions": {"ready": True}}]}]}))
    case.kubectl("apply", "-f", "-", namespaced=False, text=json.dumps({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API},
        "spec": {"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100,
                 "versionPriority": 100, "insecureSkipTLSVerify": True,
                 "service": {"name": "metrics", "namespace": case.namespace}}}))
    case.kubectl("wait", "--for=condition=Available", f"apiservice/{API}", TIMEOUT, namespaced=False)


class MetricsAdapter:
    """Is registered with the API server until the test ends."""

    def __init__(self, case, folder):
        self.folder = folder / "metrics"
        self.folder.mkdir(parents=True, exist_ok=True)
        pki = case.state_folder() / "pki"
        process = subprocess.Popen(
            [CLUSTER, "run", sys.executable, "-B", PROGRAM, pki / "apiserver.crt", pki / "apiserver.key",
             CONTROL_PLANE, str(PORT), self.folder], env=case.environment, stdout=subprocess.PIPE, text=True)
        case.addCleanup(process.communicate)
        case.addCleanup(process.kill)
        case.assertEqual(process.stdout.readline(), "ready\n")
        register(case, PORT)

    def measure(self, **values):
        """Sets the values of these metrics."""
        for name, value in values.items():
            (self.folder / f".{name}").write_text(str(value))
            (self.folder / f".{name}").rename(self.folder / name)
