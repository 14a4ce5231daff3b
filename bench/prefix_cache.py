#!/usr/bin/env python3
"""What the prefix cache is worth on the demo model: python3 bench/prefix_cache.py

first: 16 clients ask at the same moment, three times each, about one text of 1,500 tokens. Prints the median time to
the first token and the share of prompt tokens that were not computed, with the cache and without it.
spread: 24 clients ask about the same text for 20 s on four attention instances. Prints the mean of each instance's
running sequences over the mean of all.

Build janusctl, janus-gateway and janus-worker first (cmake --build build/dev).
"""

import concurrent.futures
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
JANUSCTL = ROOT / "build" / "dev" / "bin" / "janusctl"
PREFIX = [3 + i * 7 % 3000 for i in range(1500)]
CLIENTS, TURNS = 16, 3
SPREAD_CLIENTS, SPREAD_SECONDS, INSTANCES = 24, 20, 4


class Service:
    """The demo model, served by so many attention instances and two expert instances."""

    def __init__(self, attention, prefix_cache):
        self.folder = tempfile.TemporaryDirectory()
        self.name = f"prefixes-{attention}"
        spec = pathlib.Path(self.folder.name) / "service.yaml"
        spec.write_text(json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService",
            "metadata": {"name": self.name},
            "spec": {"model": {"source": {"type": "HostPath",
                                          "hostPath": {"path": str(ROOT / "examples" / "demo-model")}}},
                     "slo": {"tpot": {"targetMilliseconds": 1000}},
                     "roles": {"attention": {"replicas": attention, "kvCache": {"prefixCache": prefix_cache}},
                               "experts": {"replicas": 2}}}}), encoding="utf-8")
        self.port, self.metrics_port = 18080, 19100
        self.process = subprocess.Popen(
            [JANUSCTL, "serve", "-f", spec, "--port", str(self.port), "--worker-metrics-port", str(self.metrics_port)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if line.startswith("serving "):
                break
        else:
            raise SystemExit("the service did not start")
        self.reader = threading.Thread(target=self.process.stdout.read)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.reader.join()
        self.folder.cleanup()

    def ask(self, prompt, tokens=8):
        """The time to the first token, and the usage."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        begun = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(
            {"model": self.name, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, "ignore_eos": True,
             "stream_options": {"include_usage": True}}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(answer.read().decode())
        first, usage = None, None
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            first = first or time.monotonic() - begun
            usage = json.loads(line[6:]).get("usage") or usage
        connection.close()
        return first, usage

    def running(self):
        """Sequences of each instance. All have equally many keys, so these are the loads of their keys; janus_kv_tokens counts
        what sequences share once."""
        found = []
        for instance in range(INSTANCES):
            connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port + instance, timeout=10)
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
            connection.close()
            found.append(float(re.search(r"^janus_sequences_running(?:\{[^}]*\})? (\S+)$", page, re.M).group(1)))
        return found


def first_tokens(prefix_cache):
    with Service(1, prefix_cache) as service, concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        service.ask([5, 6, 7])
        start = threading.Barrier(CLIENTS)

        def client(number):
            start.wait()
            return [service.ask(PREFIX + [100 + number, 200 + turn]) for turn in range(TURNS)]

        answers = [answer for answers in pool.map(client, range(CLIENTS)) for answer in answers]
    usages = [usage for _, usage in answers]
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    return statistics.median(first for first, _ in answers), cached / sum(usage["prompt_tokens"] for usage in usages)


def spread():
    samples, stop = [], threading.Event()
    with Service(INSTANCES, "Auto") as service, concurrent.futures.ThreadPoolExecutor(SPREAD_CLIENTS) as pool:
        end = time.monotonic() + SPREAD_SECONDS

        def client(number):
            for turn in range(1_000_000):
                if time.monotonic() > end:
                    return
                service.ask(PREFIX + [100 + number, 200 + turn % 2000], 32)

        clients = [pool.submit(client, number) for number in range(SPREAD_CLIENTS)]
        while time.monotonic() < end:
            samples.append(service.running())
            stop.wait(0.25)
        for one in clients:
            one.result()
    means = [statistics.mean(sample[i] for sample in samples) for i in range(INSTANCES)]
    return [mean / statistics.mean(means) for mean in means]


if __name__ == "__main__":
    without, _ = first_tokens("Disabled")
    with_cache, share = first_tokens("Auto")
    print(f"first: {with_cache:.3f} s with the cache, {without:.3f} s without ({with_cache / without:.2f}x); "
          f"{share:.1%} of prompt tokens were not computed")
    print("spread: " + ", ".join(f"{share:.2f}" for share in spread()) + " of the mean of running sequences")
