#!/usr/bin/env python3
"""Compares our informer of pods with client-go's: scripts/bench informer, scripts/bench watch. For both on the
same pods: python3 bench/informer.py informer watch

Ours reads JSON. client-go is measured in protobuf, which it chooses for built-in kinds, and in JSON.

informer: each client in turn lists and watches the pods of one real API server (e2e/cluster) and keeps the same
fields of each. Measures the cost until all are there, and the memory after that.
watch: first, each client watches while the pods of a real API server are changed as fast as the server allows.
Measures whether it received every change, and how long after the server's answer. Second, the events of pods
that were made, scheduled, run and partly deleted have been recorded. They are played at a fixed rate to each
client in turn. Measures whether it received all events in order, and how late.

JANUS_BENCH_PODS (10000), JANUS_BENCH_ROUNDS (3), JANUS_BENCH_RATE (2000 events a second) and
JANUS_BENCH_WRITES (5000) change the defaults.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLUSTER = ROOT / "e2e" / "cluster" / "cluster"
BENCH = ROOT / "build" / "dev" / "bin" / "kube-bench"
PODS = int(os.environ.get("JANUS_BENCH_PODS", 10000))
ROUNDS = int(os.environ.get("JANUS_BENCH_ROUNDS", 3))
RATE = int(os.environ.get("JANUS_BENCH_RATE", 2000))
WRITES = int(os.environ.get("JANUS_BENCH_WRITES", 5000))
NODES = 100
DELETED_EVERY = 10
CLIENTS = ("janus", "client-go protobuf", "client-go json")
STATE = pathlib.Path(os.environ.get("XDG_STATE_HOME", pathlib.Path.home() / ".local" / "state"))
ENVIRONMENT = {**os.environ, "JANUS_CLUSTER": "bench", "JANUS_NAMESPACE": "bench"}
IN_CLUSTER = [str(CLUSTER), "run"]


def say(what):
    print(what, file=sys.stderr, flush=True)


def run(*words, text=None, **extra):
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True,
                          check=False, env={**ENVIRONMENT, **extra})
    if done.returncode != 0:
        sys.exit(f"{words[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def build_peer():
    """Builds client-go's program with the versions of the test cluster, outside the tree."""
    out = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus" / "clientgo"
    say("building client-go's side")
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./clientgo"], check=True,
                   cwd=ROOT / "e2e" / "build" / "kube", env={**os.environ, "CGO_ENABLED": "0"})
    return out


def line(bench, row):
    print(json.dumps({"bench": bench, **row}), flush=True)


def medians(rows):
    """Medians over the rounds, for each client."""
    out = {}
    for client in dict.fromkeys(row["client"] for row in rows):
        own = [row for row in rows if row["client"] == client]
        out[client] = {name: statistics.median(row[name] for row in own)
                       for name in own[0] if isinstance(own[0][name], (int, float))}
    return out


def ratios(bench, rows, names):
    """Our figures over those of each other client."""
    of = medians(rows)
    for client, figures in of.items():
        line(bench, {"median_of": ROUNDS, "client": client, **{name: figures[name] for name in names}})
    for wire in ("protobuf", "json"):
        ours, theirs = of["janus"], of[f"client-go {wire}"]
        line(bench, {"medians_of": ROUNDS, "ours_to_client_go_in": wire,
                     **{name: round(ours[name] / theirs[name], 3) for name in names if theirs[name]}})


def follow(peer, client):
    if client == "janus":
        return [BENCH, "follow", PODS]
    return [peer, "follow", "-count", PODS, "-format", client.split()[1]]


def hear(peer, client, count, log, port=0):
    """The command of a client that watches a real API server's pods or, with a port, what is played there."""
    if client == "janus":
        return [BENCH, "hear", port, count, log]
    place = ["-server", f"http://127.0.0.1:{port}"] if port else []
    return [peer, "hear", *place, "-count", count, "-log", log, "-format", client.split()[1]]


def make_pods(recording, in_protobuf):
    """Records the events of pods that are created, put on fake nodes and run there."""
    nodes = [{"apiVersion": "v1", "kind": "Node",
              "metadata": {"name": f"fake-{i}", "annotations": {"kwok.x-k8s.io/node": "fake"},
                           "labels": {"kubernetes.io/hostname": f"fake-{i}"}}} for i in range(NODES)]
    run(CLUSTER, "kubectl", "apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List",
                                                                 "items": nodes}))
    run(CLUSTER, "kubectl", "create", "namespace", "bench")
    run(CLUSTER, "kubectl", "wait", "--for=create", "serviceaccount/default", "-n", "bench", "--timeout=300s")
    other = ProtobufRecorder(in_protobuf)
    recorder = subprocess.Popen([*IN_CLUSTER, BENCH, "record", recording, str(PODS), str(PODS // DELETED_EVERY)],
                                stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert recorder.stdout.readline() == "recording\n"
    say(f"making {PODS} pods")
    run(*IN_CLUSTER, BENCH, "fill", PODS)
    return recorder, other


class ProtobufRecorder(threading.Thread):
    """Records the watch's events in protobuf, from before the first pod is made. The server ends a watch if a client falls
    behind for a moment; the recorder then continues after the last event. A watch that ends without any event is the
    last."""

    def __init__(self, recording):
        super().__init__()
        self.recording = recording
        recording.touch()
        self.process = None
        self.watch("")
        self.is_ending = False
        self.start()

    def watch(self, after):
        pki = STATE / "janus" / "cluster" / ENVIRONMENT["JANUS_CLUSTER"] / "pki"
        server = json.loads((pki / "admin.kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        with open(self.recording, "ab") as out:
            self.process = subprocess.Popen(
                [*IN_CLUSTER, "curl", "-sfN", "--http1.1", "--cacert", pki / "ca.crt", "--cert", pki / "admin.crt",
                 "--key", pki / "admin.key", "-H", "Accept: application/vnd.kubernetes.protobuf",
                 f"{server}/api/v1/namespaces/bench/pods?watch=true{after}"], stdout=out, env=ENVIRONMENT)

    def run(self):
        told = 0
        while True:
            code = self.process.wait()
            ends = frames(self.recording)
            if self.is_ending or len(ends) == told:
                return
            told = len(ends)
            os.truncate(self.recording, ends[-1])
            say(f"the watch in protobuf ended (curl: {code}) and is begun again")
            self.watch(f"&resourceVersion={last_version(self.recording, ends)}")

    def end(self):
        self.is_ending = True
        while self.is_alive():
            self.process.kill()
            self.join(0.1)


def field(message, wanted):
    """The first field with that number in a protobuf message that has only lengths and varints."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 128:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        size = varint()
        if kind == 0:
            continue
        if number == wanted:
            return message[at:at + size]
        at += size
    return b""


def last_version(recording, ends):
    """resourceVersion of the last event. It is in WatchEvent.object.raw, an Unknown with a Pod in it."""
    with open(recording, "rb") as file:
        file.seek(ends[-2] if len(ends) > 1 else 0)
        event = file.read()[4:]
    unknown = field(field(event, 2), 1).removeprefix(b"k8s\0")
    return field(field(field(unknown, 2), 1), 6).decode()


def frames(recording):
    """The offsets at which whole events end in the recording."""
    data = recording.read_bytes() if recording.exists() else b""
    at, ends = 0, []
    while len(data) - at >= 4:
        at += 4 + int.from_bytes(data[at:at + 4], "big")
        if at > len(data):
            break
        ends.append(at)
    return ends


def finish(recorders, recording, in_protobuf):
    """Checks that both recordings hold the same events: all until the first recorder ended."""
    recorder, other = recorders
    if recorder.wait() != 0:
        sys.exit("the recorder failed")
    count = len(expected(recording))
    while len(frames(in_protobuf)) < count:
        if not other.is_alive():
            sys.exit("the recorder of protobuf ended too soon")
        time.sleep(0.5)
    other.end()
    ends = frames(in_protobuf)
    if len(ends) != count:
        sys.exit(f"{len(ends)} events were recorded in protobuf, {count} in JSON")
    with open(in_protobuf, "r+b") as file:
        file.truncate(ends[-1])


def informer(peer):
    rows = []
    for _ in range(ROUNDS):
        for client in CLIENTS:
            stolen = stolen_share()
            row = json.loads(run(*IN_CLUSTER, *follow(peer, client)))
            line("informer", {**row, "stolen_percent": stolen(), "load": round(os.getloadavg()[0], 1)})
            rows.append(row)
    ratios("informer", rows, ("resident_mib", "peak_mib", "cpu_seconds", "sync_seconds"))


def stolen_share():
    """Returns a function that gives the share of the machine's time since now that the host gave to others."""
    def now():
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return fields[7], sum(fields)
    stolen, of = now()

    def share():
        later, all_later = now()
        return round(100 * (later - stolen) / max(1, all_later - of), 1)
    return share


def wait_running():
    while True:
        pending = run(CLUSTER, "kubectl", "get", "pods", "-n", "bench", "--field-selector=status.phase!=Running",
                      "-o", "name").count("\n")
        if pending == 0:
            return
        say(f"{pending} do not run yet")
        time.sleep(5)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def expected(recording):
    """The events of each object in order, and the order of all events."""
    order = []
    with open(recording, encoding="utf-8") as events:
        for text in events:
            event = json.loads(text)
            metadata = event["object"]["metadata"]
            order.append((metadata["name"],
                          "deleted" if event["type"] == "DELETED" else metadata["resourceVersion"]))
    return order


def judge(order, due_file, log_file):
    """How many events were lost or out of order, and how late the others were (ms)."""
    due = {what: int(text) for what, text in zip(order, due_file.read_text().split())}
    heard = [text.split() for text in log_file.read_text().splitlines()]
    of_object = {}
    for name, version in order:
        of_object.setdefault(name, []).append(version)
    told = {}
    for name, version, _ in heard:
        told.setdefault(name, []).append(version)
    lost = len(set(order) - {(name, version) for name, version, _ in heard})
    reordered = sum(told.get(name, []) != versions for name, versions in of_object.items())
    late = sorted((int(at) - due[name, version]) / 1e6 for name, version, at in heard)
    return {"events": len(order), "heard": len(heard), "lost": lost, "objects_out_of_order": reordered,
            "p50_ms": late[len(late) // 2], "p99_ms": late[len(late) * 99 // 100], "max_ms": late[-1]}


def churn(peer, folder):
    """Changes the real server's pods as fast as it allows, while each client watches in turn."""
    for client in CLIENTS:
        writes, log = folder / "writes", folder / "log"
        known = PODS - PODS // DELETED_EVERY
        listener = subprocess.Popen([*IN_CLUSTER, *map(str, hear(peer, client, known + WRITES, log))],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        if listener.stderr.readline() != "synced\n":
            sys.exit(f"{client}: {listener.communicate()}")
        made = json.loads(run(*IN_CLUSTER, BENCH, "churn", PODS, DELETED_EVERY, WRITES, writes))
        cost = json.loads(listener.communicate(timeout=180)[0])
        heard, told = {}, {}
        for text in log.read_text().splitlines():
            name, version, at = text.split()
            heard[name, version] = int(at)
            told.setdefault(name, []).append(version)
        # This server has a single etcd: versions are ascending numbers.
        reordered = sum(versions != sorted(versions, key=int) for versions in told.values()
                        if "deleted" not in versions)
        written = [text.split() for text in writes.read_text().splitlines()]
        lost = sum((name, version) not in heard for name, version, _ in written)
        late = sorted(max(0, heard[name, version] - int(at)) / 1e6
                      for name, version, at in written if (name, version) in heard)
        line("churn", {**cost, **made, "lost": lost, "objects_out_of_order": reordered,
                       "p50_ms": late[len(late) // 2], "p99_ms": late[len(late) * 99 // 100], "load": round(os.getloadavg()[0], 1)})
        if lost or reordered:
            sys.exit("events of the real server were lost or told out of order")


def watch(peer, recording, in_protobuf, folder):
    order = expected(recording)
    rows = []
    for _ in range(ROUNDS):
        for client in CLIENTS:
            port = free_port()
            due, log = folder / "due", folder / "log"
            stolen = stolen_share()
            server = subprocess.Popen([BENCH, "play", recording, in_protobuf, str(RATE), str(port), due],
                                      stdout=subprocess.PIPE, text=True)
            try:
                assert server.stdout.readline() == "serving\n"
                cost = json.loads(run(*hear(peer, client, len(order), log, port)))
            finally:
                server.kill()
                server.wait()
            row = {**cost, "rate": RATE, **judge(order, due, log)}
            line("watch", {**row, "stolen_percent": stolen(), "load": round(os.getloadavg()[0], 1)})
            rows.append(row)
    ratios("watch", rows, ("p50_ms", "p99_ms", "cpu_seconds", "resident_mib"))
    if any(row["lost"] or row["objects_out_of_order"] for row in rows):
        sys.exit("events were lost or told out of order")


def main():
    wanted = set(sys.argv[1:])
    if not wanted or not wanted <= {"informer", "watch"}:
        sys.exit(__doc__)
    peer = build_peer()
    with tempfile.TemporaryDirectory(prefix="janus-bench-") as name:
        folder = pathlib.Path(name)
        recording, in_protobuf = folder / "events", folder / "events.pb"
        run(CLUSTER, "up", "api")
        recorders = ()
        try:
            recorders = make_pods(recording, in_protobuf)
            wait_running()
            if "informer" in wanted:
                informer(peer)
            if "watch" in wanted:
                run(*IN_CLUSTER, BENCH, "thin", PODS, DELETED_EVERY)
                finish(recorders, recording, in_protobuf)
                churn(peer, folder)
        finally:
            if recorders:
                recorders[0].kill()
                recorders[0].wait()
                recorders[1].end()
            run(CLUSTER, "down")
        if "watch" in wanted:
            watch(peer, recording, in_protobuf, folder)


if __name__ == "__main__":
    main()
