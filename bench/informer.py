#!/usr/bin/env python3
"""Our informer of pods beside client-go's: scripts/bench informer, scripts/bench watch

informer: both list and watch the pods of one real API server (e2e/cluster), in turn, and keep the same
fields of each; what that costs until all are there, and what memory it holds then.
watch: the events of those pods, recorded while they were made, scheduled, run and some deleted, are
played at a fixed rate to both, in turn; whether each heard all of them in order, and how late.

JANUS_BENCH_PODS (10000), JANUS_BENCH_ROUNDS (3), JANUS_BENCH_RATE (2000 events a second) change it.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLUSTER = ROOT / "e2e" / "cluster" / "cluster"
BENCH = ROOT / "build" / "dev" / "bin" / "kube-bench"
PODS = int(os.environ.get("JANUS_BENCH_PODS", 10000))
ROUNDS = int(os.environ.get("JANUS_BENCH_ROUNDS", 3))
RATE = int(os.environ.get("JANUS_BENCH_RATE", 2000))
NODES = 100
DELETED_EVERY = 10
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
    """client-go's side, of the versions that the test cluster is built of; outside the tree."""
    out = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus" / "clientgo"
    say("building client-go's side")
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./clientgo"], check=True,
                   cwd=ROOT / "e2e" / "build" / "kube", env={**os.environ, "CGO_ENABLED": "0"})
    return out


def line(bench, row):
    print(json.dumps({"bench": bench, **row}), flush=True)


def medians(rows):
    """Of each client, over the rounds."""
    out = {}
    for client in dict.fromkeys(row["client"] for row in rows):
        own = [row for row in rows if row["client"] == client]
        out[client] = {name: statistics.median(row[name] for row in own)
                       for name in own[0] if isinstance(own[0][name], (int, float))}
    return out


def ratios(bench, rows, ours, theirs, names):
    of = medians(rows)
    line(bench, {"medians_of": ROUNDS, "ours_to": theirs,
                 **{name: round(of[ours][name] / of[theirs][name], 3) for name in names}})


def make_pods(recording):
    """Pods as they are made, put on fake nodes and run there; what the watch tells of it."""
    nodes = [{"apiVersion": "v1", "kind": "Node",
              "metadata": {"name": f"fake-{i}", "annotations": {"kwok.x-k8s.io/node": "fake"},
                           "labels": {"kubernetes.io/hostname": f"fake-{i}"}}} for i in range(NODES)]
    run(CLUSTER, "kubectl", "apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List",
                                                                 "items": nodes}))
    run(CLUSTER, "kubectl", "create", "namespace", "bench")
    run(CLUSTER, "kubectl", "wait", "--for=create", "serviceaccount/default", "-n", "bench", "--timeout=300s")
    recorder = subprocess.Popen([*IN_CLUSTER, BENCH, "record", recording, str(PODS), str(PODS // DELETED_EVERY)],
                                stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert recorder.stdout.readline() == "recording\n"
    say(f"making {PODS} pods")
    run(*IN_CLUSTER, BENCH, "fill", PODS)
    return recorder


def informer(peer, recording):
    recorder = make_pods(recording)
    wait_running()
    rows = []
    for _ in range(ROUNDS):
        for command in ([BENCH, "follow", PODS], [peer, "follow", "-count", PODS],
                        [peer, "follow", "-count", PODS, "-format", "protobuf"]):
            row = json.loads(run(*IN_CLUSTER, *command))
            line("informer", row)
            rows.append(row)
    for theirs in ("client-go json", "client-go protobuf"):
        ratios("informer", rows, "janus", theirs, ("resident_mib", "peak_mib", "cpu_seconds", "sync_seconds"))
    recorder.kill()
    recorder.wait()


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
    """Of each object in turn, what is told of it; and in what order all were told."""
    order = []
    with open(recording, encoding="utf-8") as events:
        for text in events:
            event = json.loads(text)
            metadata = event["object"]["metadata"]
            order.append((metadata["name"],
                          "deleted" if event["type"] == "DELETED" else metadata["resourceVersion"]))
    return order


def judge(order, due_file, log_file):
    """How many were lost or told out of order, and how late the others came (ms)."""
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


def watch(peer, recording, folder):
    order = expected(recording)
    rows = []
    for _ in range(ROUNDS):
        for ours in (True, False):
            port = free_port()
            due, log = folder / "due", folder / "log"
            server = subprocess.Popen([BENCH, "play", recording, str(RATE), str(port), due],
                                      stdout=subprocess.PIPE, text=True)
            try:
                assert server.stdout.readline() == "serving\n"
                command = ([BENCH, "hear", port, len(order), log] if ours else
                           [peer, "hear", "-server", f"http://127.0.0.1:{port}", "-count", len(order), "-log", log])
                cost = json.loads(run(*command))
            finally:
                server.kill()
                server.wait()
            row = {**cost, "rate": RATE, **judge(order, due, log)}
            line("watch", row)
            rows.append(row)
    ratios("watch", rows, "janus", "client-go json", ("p50_ms", "p99_ms", "cpu_seconds", "resident_mib"))
    if any(row["lost"] or row["objects_out_of_order"] for row in rows):
        sys.exit("events were lost or told out of order")


def main():
    if sys.argv[1:] not in (["informer"], ["watch"]):
        sys.exit(__doc__)
    peer = build_peer()
    with tempfile.TemporaryDirectory(prefix="janus-bench-") as name:
        folder = pathlib.Path(name)
        recording = folder / "events"
        run(CLUSTER, "up", "api")
        try:
            if sys.argv[1] == "informer":
                informer(peer, recording)
            else:
                recorder = make_pods(recording)
                wait_running()
                run(*IN_CLUSTER, BENCH, "thin", PODS, DELETED_EVERY)
                if recorder.wait() != 0:
                    sys.exit("the recorder failed")
        finally:
            run(CLUSTER, "down")
        if sys.argv[1] == "watch":
            watch(peer, recording, folder)


if __name__ == "__main__":
    main()
