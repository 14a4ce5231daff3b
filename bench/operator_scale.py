#!/usr/bin/env python3
"""The operator with many services, on a real API server with fake pods: scripts/bench operator

Each service has one attention and nine expert pods. Workers do at once what the operator asks (tests/operator).
create: the operator starts when three quarters of the services exist. Measures the time from its first creation to the
creation of the last pod. A bare client then creates the same objects, over as many connections as the operator has
workers. `writes` are all that the operator sent in that time.
idle: requests to the API server while nothing happens, without watches that the server ended. No Lease is held.
memory: resident bytes without a service, with some of them and with all, and the line through the last two. There are
no channels to workers. passes: the time of one pass, by the operator's own histogram.

JANUS_BENCH_SERVICES (100), JANUS_BENCH_IDLE_SECONDS (600) and JANUS_BENCH_QPS (1000) change the defaults.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "e2e" / "cluster"))
from box import wait_for  # noqa: E402

CLUSTER = ROOT / "e2e" / "cluster" / "cluster"
OPERATOR = ROOT / "build" / "dev" / "bin" / "operator-with-prompt-members"
SERVICES = int(os.environ.get("JANUS_BENCH_SERVICES", 100))
IDLE_SECONDS = int(os.environ.get("JANUS_BENCH_IDLE_SECONDS", 600))
QPS = int(os.environ.get("JANUS_BENCH_QPS", 1000))
PODS_EACH = 10
PODS_PER_NODE = 100
WORKERS = 8
ENVIRONMENT = {**os.environ, "JANUS_CLUSTER": "bench-operator"}
STATE = pathlib.Path(os.environ.get("XDG_STATE_HOME", pathlib.Path.home() / ".local" / "state"))
FOLDER = STATE / "janus" / "cluster" / ENVIRONMENT["JANUS_CLUSTER"]
# In this order: pods need their service accounts.
MADE = ("serviceaccounts", "services", "secrets", "deployments.apps", "poddisruptionbudgets.policy", "pods")
DEADLINE_SECONDS = 1800


def say(what):
    print(what, file=sys.stderr, flush=True)


def run(*words, text=None):
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True, check=False,
                          env=ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def kubectl(*words, text=None):
    return run(CLUSTER, "kubectl", *words, text=text)


def as_list(items):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


class Operator:
    def __init__(self, folder):
        self.log = open(folder / "operator.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [CLUSTER, "run", OPERATOR, "--lease-namespace=default", "--leader-election=false", "--worker-image=worker:1",
             "--gateway-image=gateway:1", "--metrics-address=127.0.0.1:0", "--health-address=127.0.0.1:0",
             f"--host-path={ROOT}/examples", f"--workers={WORKERS}",
             f"--api-qps={QPS}", f"--api-burst={QPS}"],
            env={**ENVIRONMENT, "JANUS_FENCE_BOOK": str(folder / "fences")}, stdout=subprocess.PIPE, stderr=self.log,
            text=True)
        self.address = re.search(r"metrics=(\S+)", self.process.stdout.readline()).group(1)

    def page(self):
        return run(CLUSTER, "run", "curl", "-s", f"http://{self.address}/metrics")

    def value(self, name):
        """The sum over all labels."""
        found = re.findall(rf"(?m)^{name}(?:\{{.*\}})? (\S+)$", self.page())
        return sum(float(one) for one in found)

    def resident(self):
        return int(self.value("process_resident_memory_bytes"))

    def requests(self):
        return self.value("rest_client_requests_total") - self.value("reflector_watches_total")

    def quantile(self, which):
        """The upper bound, in seconds, of the bucket that holds it."""
        buckets = {}
        for bound, count in re.findall(r'(?m)^controller_runtime_reconcile_time_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$',
                                       self.page()):
            buckets[float(bound)] = buckets.get(float(bound), 0) + float(count)
        total = max(buckets.values())
        return min(bound for bound, count in buckets.items() if count >= which * total)

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def service(number):
    return {"apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService",
            "metadata": {"name": f"chat-{number}", "namespace": "bench"},
            "spec": {"model": {"source": {"type": "HostPath", "hostPath": {"path": f"{ROOT}/examples/demo-model"}}},
                     "roles": {"attention": {"replicas": 1}, "experts": {"replicas": PODS_EACH - 1}}}}


def is_ready(one):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in one.get("status", {}).get("conditions", []))


def apply(first, last, operator):
    operator.process.send_signal(signal.SIGSTOP)
    kubectl("create", "-f", "-", text=as_list([service(i) for i in range(first, last)]))
    operator.process.send_signal(signal.SIGCONT)
    begun = time.monotonic()
    while True:
        items = json.loads(kubectl("get", "moesvc", "-n", "bench", "-o", "json"))["items"]
        ready = sum(map(is_ready, items))
        if ready == last:
            return
        if time.monotonic() > begun + DEADLINE_SECONDS:
            sys.exit(f"{ready} of {last} services are Ready after {DEADLINE_SECONDS} s")
        time.sleep(2)


def creation(log_file, offset, first):
    """What the operator created, from the server's audit log after `offset`: from its first creation for a service with
    that number or higher, to its last creation of a pod. Returns the seconds, the number of writes, and the objects as
    (kind, namespace, name). Writes that it still owed to earlier services do not count."""
    writes = []

    def is_of_these(entry):
        number = re.match(r"chat-(\d+)\b", entry["objectRef"].get("name", ""))
        return number is not None and int(number.group(1)) >= first

    with open(log_file, encoding="utf-8") as log:
        log.seek(offset)
        for line in log:
            if line.endswith("\n") and '"userAgent":"janus-operator/' in line:
                entry = json.loads(line)
                if entry["verb"] in ("create", "update", "patch", "delete"):
                    writes.append(entry)
    made = [entry for entry in writes
            if entry["responseStatus"]["code"] == 201 and "subresource" not in entry["objectRef"]]
    begun = min(seconds_of(entry["requestReceivedTimestamp"]) for entry in made if is_of_these(entry))
    ended = max(seconds_of(entry["stageTimestamp"]) for entry in made if entry["objectRef"]["resource"] == "pods")
    within = [entry for entry in writes if begun <= seconds_of(entry["requestReceivedTimestamp"]) <= ended]
    names = set()
    for entry in made:
        if entry in within:
            what = entry["objectRef"]
            group = what.get("apiGroup", "")
            names.add((what["resource"] + ("." + group if group else ""), what["namespace"], what["name"]))
    return ended - begun, len(within), names


def seconds_of(stamp):
    whole, fraction = stamp.rstrip("Z").split(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction}")


def bare(services):
    """Seconds to create these objects again in another namespace. It goes service by service, like the operator, so that
    Kubernetes' own controllers have the same work meanwhile."""
    text = (FOLDER / "pki" / "admin.kubeconfig").read_text()
    host = json.loads(text)["clusters"][0]["cluster"]["server"].removeprefix("https://")
    script = f"""
import concurrent.futures, http.client, json, ssl, sys, time
context = ssl.create_default_context(cafile={str(FOLDER / "pki" / "ca.crt")!r})
context.load_cert_chain({str(FOLDER / "pki" / "admin.crt")!r}, {str(FOLDER / "pki" / "admin.key")!r})
services = [json.loads(line) for line in sys.stdin]
def create(worker):
    connection = http.client.HTTPSConnection({host!r}, context=context)
    for path, body in [one for service in services[worker::{WORKERS}] for one in service]:
        connection.request("POST", path, body, {{"Content-Type": "application/json"}})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            sys.exit(f"{{path}}: {{text}}")
begun = time.monotonic()
with concurrent.futures.ThreadPoolExecutor({WORKERS}) as pool:
    list(pool.map(create, range({WORKERS})))
print(time.monotonic() - begun)
"""
    return float(run(CLUSTER, "run", "python3", "-c", script, text="".join(json.dumps(one) + "\n" for one in services)))


def written_by_us(made):
    """The objects from creation(), for each service as (path, JSON), as another client would create them."""
    out = {}
    for what in MADE:
        for item in json.loads(kubectl("get", what, "-A", "-o", "json"))["items"]:
            if (what, item["metadata"]["namespace"], item["metadata"]["name"]) not in made:
                continue
            of = item["metadata"]["labels"].get("app.kubernetes.io/instance") or item["metadata"]["labels"][
                "serving.janus.dev/service"]
            metadata = {name: item["metadata"][name] for name in ("name", "labels", "annotations")
                        if name in item["metadata"]}
            item["metadata"] = {**metadata, "namespace": "bare"}
            item.pop("status", None)
            spec = item.get("spec", {})
            for name in ("nodeName", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if name != "clusterIP" or spec.get(name) != "None":
                    spec.pop(name, None)
            kind, _, group = what.partition(".")
            version = item["apiVersion"]
            root = f"/apis/{version}" if group else f"/api/{version}"
            out.setdefault(of, []).append((f"{root}/namespaces/bare/{kind}", json.dumps(item)))
    return list(out.values())


def line(what, **row):
    print(json.dumps({"bench": f"operator {what}", "services": SERVICES, **row}), flush=True)


def measure(folder):
    for namespace in ("bench", "bare"):
        kubectl("create", "namespace", namespace)
    kubectl("apply", *(word for path in sorted((ROOT / "crds").glob("*.yaml")) for word in ("-f", path)))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
    nodes = 2 * SERVICES * (PODS_EACH + 2) // PODS_PER_NODE + 2
    kubectl("apply", "-f", "-", text=as_list([
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"fake-{i}",
                                                          "annotations": {"kwok.x-k8s.io/node": "fake"}},
         "status": {"allocatable": {"cpu": "1000", "memory": "4000Gi", "pods": str(PODS_PER_NODE)}}}
        for i in range(nodes)]))
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", "bare", "--timeout=300s")
    operator = Operator(folder)
    try:
        memory = {0: operator.resident()}
        part = SERVICES // 4
        say(f"{part} services")
        apply(0, part, operator)
        memory[part] = operator.resident()
        say(f"{SERVICES} services")
        log = FOLDER / "log" / "audit.log"
        before = log.stat().st_size
        apply(part, SERVICES, operator)
        peak = operator.resident()
        line("passes", p50_seconds_at_most=operator.quantile(0.5), p99_seconds_at_most=operator.quantile(0.99))
        ours, writes, made = creation(log, before, part)
        objects = written_by_us(made)
        wait_for(lambda: operator.value("janus_events_waiting") == 0, "all Events written")
        first = operator.requests()
        say(f"nothing happens for {IDLE_SECONDS} s")
        begun = time.monotonic()
        try:
            operator.process.wait(IDLE_SECONDS)
            sys.exit("the operator has ended")
        except subprocess.TimeoutExpired:
            pass
        idle = operator.requests() - first
        memory[SERVICES] = operator.resident()
        # a + b x services, through the two points. The fixed cost of the first services is in a. The operator connects
        # to no worker.
        each = (memory[SERVICES] - memory[part]) / (SERVICES - part)
        line("memory", resident_bytes=memory, just_after_creation=peak, a_bytes=round(memory[part] - part * each),
             b_bytes_per_service=round(each), open_channels=0)
        line("idle", seconds=round(time.monotonic() - begun), requests=idle,
             requests_per_second_per_service=idle / SERVICES / (time.monotonic() - begun))
    finally:
        operator.end()
    theirs = bare(objects)
    line("create", objects=sum(map(len, objects)), writes=writes, operator_seconds=round(ours, 2), bare_seconds=round(theirs, 2),
         ratio=round(ours / theirs, 2))


def main():
    with tempfile.TemporaryDirectory(prefix="janus-bench-") as name:
        run(CLUSTER, "up", "api")
        try:
            measure(pathlib.Path(name))
        finally:
            run(CLUSTER, "down")


if __name__ == "__main__":
    main()
