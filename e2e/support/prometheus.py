"""A Prometheus on a node of the test cluster, with examples/monitoring/prometheus.yaml.

Debian's Prometheus has no discovery by Kubernetes. Discovery does the same from outside, with the labels of role "pod".
"""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

from cluster_case import ROOT, wait_for
from tiers import cannot_run

from certificates import CONTROL_PLANE, address
from metrics_adapter import register

ADAPTER_PORT = 9444


def programs():
    """The folder with Prometheus, prometheus-adapter and KEDA's kinds."""
    done = subprocess.run([ROOT / "e2e" / "build" / "build", "monitoring"], stdout=subprocess.PIPE, text=True, check=True)
    folder = pathlib.Path(done.stdout.strip())
    if not (folder / "prometheus").exists():
        cannot_run("build", "there is no Prometheus, nor Debian's package of it")
    return folder


def as_json(folder, path):
    """A YAML file, read by the program `queries`."""
    return json.loads(subprocess.run([folder / "queries", path], stdout=subprocess.PIPE, check=True).stdout)


def targets_of(pod):
    """What kubernetes_sd_configs of role "pod" make of a pod: a target for each port."""
    meta, status = pod["metadata"], pod["status"]
    own = {"__meta_kubernetes_namespace": meta["namespace"], "__meta_kubernetes_pod_name": meta["name"],
           **{"__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", name): value
              for name, value in meta.get("labels", {}).items()}}
    return [{"targets": [f"{status['podIP']}:{port['containerPort']}"],
             "labels": {**own, "__meta_kubernetes_pod_container_port_name": port.get("name", "")}}
            for container in pod["spec"]["containers"] for port in container.get("ports", []) if "podIP" in status]


class Discovery:
    """Keeps a file of targets (file_sd_configs) that follows the cluster's pods until `close`."""

    def __init__(self, case, file):
        self.case, self.file, self.ended = case, file, threading.Event()
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        while not self.ended.wait(1):
            done = self.case.try_kubectl("get", "pods", "-A", "-o", "json")
            if done.returncode == 0:
                found = [target for pod in json.loads(done.stdout)["items"] for target in targets_of(pod)]
                new = self.file.with_suffix(".new")
                new.write_text(json.dumps(found))
                new.rename(self.file)

    def close(self):
        self.ended.set()
        self.thread.join()


class Prometheus:
    """Runs until the test ends, or `stop`. It scrapes every second."""

    def __init__(self, case):
        self.box, self.folder = case.nodes[0].box, programs()
        self.data = pathlib.Path(tempfile.mkdtemp(prefix="janus-prometheus-"))
        case.addCleanup(shutil.rmtree, self.data)
        case.addCleanup(self.stop)
        text = (ROOT / "examples" / "monitoring" / "prometheus.yaml").read_text()
        for ours, theirs in (("scrape_interval: 15s", "scrape_interval: 1s, evaluation_interval: 1s"),
                             ("kubernetes_sd_configs: [{role: pod}]",
                              f"file_sd_configs: [{{files: [{self.data}/pods.json], refresh_interval: 2s}}]"),
                             ("/etc/prometheus/janus/", f"{ROOT}/charts/janus-operator/monitoring/")):
            case.assertIn(ours, text)
            text = text.replace(ours, theirs)
        (self.data / "prometheus.yaml").write_text(text)
        case.addCleanup(Discovery(case, self.data / "pods.json").close)
        self.url = f"http://{address(case.nodes[0].number)}:9090"
        self.start()

    def start(self):
        self.box.start("prometheus", self.folder / "prometheus", f"--config.file={self.data}/prometheus.yaml",
                       f"--storage.tsdb.path={self.data}/data")
        ready = self.box.command("curl", "-sf", "-o", "/dev/null", f"{self.url}/-/ready")
        wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, "Prometheus")

    def stop(self):
        subprocess.run(self.box.command("pkill", "-x", "prometheus"), check=False)
        wait_for(lambda: subprocess.run(self.box.command("pgrep", "-x", "prometheus"), stdout=subprocess.DEVNULL,
                                        check=False).returncode != 0, "the end of Prometheus")

    def get(self, path, **fields):
        words = [word for name, value in fields.items() for word in ("--data-urlencode", f"{name}={value}")]
        return json.loads(self.box.run("curl", "-s", "-G", *words, f"{self.url}/api/v1/{path}"))

    def query(self, query):
        """The samples now: (labels, number)."""
        answer = self.get("query", query=query)
        if answer["status"] != "success":
            raise AssertionError(f"{query}: {answer['error']}")
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]


def start_adapter(case, prometheus):
    """prometheus-adapter with examples/autoscaling/prometheus-adapter.yaml serves external metrics."""
    plane, rules = case.plane, as_json(prometheus.folder, ROOT / "examples/autoscaling/prometheus-adapter.yaml")["rules"]
    config = prometheus.data / "adapter.json"
    config.write_text(json.dumps({"externalRules": rules["external"]}))  # as the adapter's chart writes it
    kubeconfig = f"{case.state}/pki/admin.kubeconfig"
    plane.box.start("adapter", prometheus.folder / "adapter", f"--config={config}", f"--prometheus-url={prometheus.url}",
                    "--metrics-relist-interval=5s", "--metrics-max-age=1m", f"--lister-kubeconfig={kubeconfig}",
                    f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
                    f"--secure-port={ADAPTER_PORT}", f"--bind-address={CONTROL_PLANE}",
                    f"--tls-cert-file={case.state}/pki/apiserver.crt",
                    f"--tls-private-key-file={case.state}/pki/apiserver.key")
    case.addCleanup(subprocess.run, plane.box.command("pkill", "-x", "adapter"), check=False)
    register(case, ADAPTER_PORT)
