"""What replicas and their scheduling gain, live on this machine: scripts/bench replicas

Eight expert instances hold 64 or 256 experts of a layer: once each, or with the replicas that a service has by default, with the
greedy and with the exact form of AEBS. Timed devices play DeepSeek-V2 and V3 on H200s. Tokens choose the experts that
DeepSeek-V2-Lite chose (data/routing), and of 256 by a skewed draw. Prints JSON lines: the experts that an instance reads of a
layer in a step (a mean over steps, of the instances that read most and least), and the time per output token. Leave the machine alone
meanwhile (or use chrt -f 5): a run in which more than 1 % of the modelled times were missed is void.
"""

import argparse
import concurrent.futures
import itertools
import json
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request

from scaling_trial import BIN, Served, object_of
from made_model import measured_routing, write_routed  # isort: skip (the first import sets the path)

INSTANCES, PORT = 8, 19600


def skewed_routing(tokens, layers, experts, top_k):
    """As measured_routing gives it: popular experts are chosen about thirty times as often as rare ones."""
    draw, out = random.Random(1), []
    weights = [[1 / (1 + rank / 8) for rank in draw.sample(range(experts), experts)] for _ in range(layers)]
    for _ in range(tokens):
        row = []
        for layer in range(layers):
            chosen = []
            while len(chosen) < top_k:
                one, = draw.choices(range(experts), weights[layer])
                if one not in chosen:
                    chosen.append(one)
            row.append(chosen)
        out.append(row)
    return [out]


CASES = {64: ("deepseek-v2", lambda: measured_routing(("deepseek_v2_lite_law",), 128)),
         256: ("deepseek-v3", lambda: skewed_routing(128, 3, 256, 8))}


def counters():
    """(rounds, activated experts) of each expert instance; the attention instance has the first port."""
    out = []
    for instance in range(INSTANCES):
        page = urllib.request.urlopen(f"http://127.0.0.1:{PORT + 1 + instance}/metrics").read().decode()
        out.append([float(re.search(rf"^janus_{name}_total\S* (\S+)", page, re.M)[1]) for name in ("rounds", "activated_experts")])
    return out


def ask(served, seconds, clients):
    """The times per output token of all answers that ended within `seconds`."""
    end = time.monotonic() + seconds

    def one(seed):
        draw, took = random.Random(seed), []
        while time.monotonic() < end:
            body = {"model": "demo", "prompt": [draw.randrange(128) for _ in range(8)], "max_tokens": 64, "temperature": 0,
                    "ignore_eos": True, "stream": True}
            request = urllib.request.Request(f"{served.url}/v1/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as reply:
                times = [time.monotonic() for line in reply if line.startswith(b"data: {")]
            took.append((times[-1] - times[0]) / (len(times) - 1))
        return took

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return list(itertools.chain.from_iterable(pool.map(one, range(clients))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30, help="of each case")
    parser.add_argument("--clients", type=int, default=16)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="janus-replicas-") as name:
        folder = pathlib.Path(name)
        for experts, (named, routing) in CASES.items():
            model = folder / str(experts)
            write_routed(model, routing(), experts)
            for what, more in (("one replica each", {"slotsPerInstance": experts // INSTANCES}),
                               ("default, greedy", {"scheduling": "AEBSGreedy"}), ("default, exact", {})):
                run(args, folder / f"{experts} {what}", model, (experts, named, what), more)


def run(args, folder, model, names, more):
    experts, named, what = names
    spec = {"device": "Timed", "timed": {"hardware": "H200", "model": named},
            "roles": {"attention": {"replicas": 1}, "experts": {"replicas": INSTANCES, "placement": {"policy": "RoundRobin"}, **more}}}
    with Served(folder, object_of(model, spec), "--worker-metrics-port", str(PORT)) as served:
        ask(served, 2, args.clients)
        before = counters()
        took = ask(served, args.seconds, args.clients)
        after = counters()
        said = subprocess.run([BIN / "janusctl", "describe", "demo"], capture_output=True, text=True, check=True).stdout
    each = [(a[1] - b[1]) / (a[0] - b[0]) for a, b in zip(after, before)]
    print(json.dumps({"bench": "replicas", "experts": experts, "as": named, "slots": what, "most_experts_read": round(max(each), 2),
                      "least_experts_read": round(min(each), 2), "tpot_milliseconds": round(1000 * statistics.median(took), 1),
                      "answers": len(took), "is_void": "void:" in said}), flush=True)


if __name__ == "__main__":
    main()
