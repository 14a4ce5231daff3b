"""A service that keeps its latency target by itself, live on this machine: scripts/bench scaling

`python3 -B bench/scaling_trial.py --help` has the options; it uses the programs of build/dev.
Timed devices play DeepSeek-V2 on H200s. A swell of load comes and goes; then the same requests go to a fixed 2A4E of the
same small model. Prints JSON lines: what requests got, how the counts moved, when each decision served, whether recorded
decisions repeat, and whether all answers are those of the fixed size. Leave the machine alone meanwhile (or use chrt -f 5): a run in which
more than 1 % of the modelled times were missed is void, and the last line says so.
"""

import argparse
import csv
import json
import math
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = ROOT / "build" / "dev" / "bin"
DEMO = ROOT / "examples" / "demo-model"
WINDOW = 15  # seconds of the trace


def say(what, **figures):
    print(json.dumps({"bench": "scaling", "what": what, **figures}), flush=True)


def swell(minutes, quiet, busy, seed):
    """(seconds, prompt tokens, answer tokens): quiet, busy from minute 1 on and over by minute 6, quiet."""
    draw, at, requests = random.Random(seed), 0.0, []
    while True:
        edges = ((60, quiet), (120, busy), (300, busy), (360, quiet), (1e9, quiet))
        before = (0, quiet)
        for edge in edges:
            if at < edge[0]:
                rate = before[1] + (edge[1] - before[1]) * (at - before[0]) / (edge[0] - before[0])
                break
            before = edge
        at += draw.expovariate(rate)
        if at >= minutes * 60:
            return requests
        requests.append((round(at, 3), draw.randint(30, 120), draw.randint(60, 180)))


def make_model(folder):
    """A random model with 32 small experts in each of two layers. The demo model's eight experts are too few to stand for
    160: an instance would hold one or two of them, and no number of instances between would be of use."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(DEMO / name, folder)
    config = json.loads((DEMO / "config.json").read_text())
    config |= {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2,
               "num_hidden_layers": 2, "num_local_experts": 32, "num_experts_per_tok": 4}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], 64), "model.norm.weight": (64,)}
    for layer in range(2):
        at = f"model.layers.{layer}."
        shapes |= {at + "input_layernorm.weight": (64,), at + "post_attention_layernorm.weight": (64,),
                   at + "block_sparse_moe.gate.weight": (32, 64)}
        shapes |= {f"{at}self_attn.{name}_proj.weight": (64, 64) for name in "qkvo"}
        for expert in range(32):
            shapes |= {f"{at}block_sparse_moe.experts.{expert}.{name}.weight": shape
                       for name, shape in (("w1", (32, 64)), ("w2", (64, 32)), ("w3", (32, 64)))}
    draw, header, parts, end = random.Random(1), {}, [], 0
    for name, shape in shapes.items():
        count = math.prod(shape)
        values = [1.0] * count if len(shape) == 1 else [draw.gauss(0, 0.1) for _ in range(count)]
        words = struct.pack(f"<{count}f", *values)
        parts.append(b"".join(words[i + 2:i + 4] for i in range(0, len(words), 4)))  # bf16: the upper half
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": (end, end + 2 * count)}
        end += 2 * count
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    return folder


def service(args, model, roles, slo):
    spec = {"model": {"source": {"type": "HostPath", "hostPath": {"path": str(model)}}}, "roles": roles}
    if slo:
        spec |= {"slo": {"tpot": {"targetMilliseconds": round(args.tpot / args.time_scale)}}, "device": "Timed",
                 "timed": {"hardware": "H200", "model": args.model, "scale": args.scale, "timeScale": args.time_scale},
                 "scaling": {"intervalSeconds": max(1, round(15 / args.time_scale))}}
        down = {"scaleDown": {"stabilizationWindowSeconds": round(300 / args.time_scale)}}
        spec["roles"] = {role: {"scaling": {"behavior": down}} for role in ("attention", "experts")}
    return {"apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "demo"}, "spec": spec}


class Served:
    """`janusctl serve` as a context manager: `url`, `page`."""

    def __init__(self, folder, spec):
        self.file = folder / f"{len(list(folder.iterdir()))}.json"
        self.file.write_text(json.dumps(spec))

    def __enter__(self):
        self.log = open(self.file.with_suffix(".log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([BIN / "janusctl", "serve", "-f", self.file, "--port", "0"], stdout=self.log,
                                        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        while True:
            text = self.file.with_suffix(".log").read_text()
            serving = re.search(r"serving \S+ at (\S+)/v1", text)
            if serving and "\nlogs: " in text:
                break
            if self.process.poll() is not None:
                raise SystemExit(text)
            time.sleep(0.2)
        self.url, self.page = serving[1], re.search(r"page: (\S+)", text)[1]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def load(served, trace, time_scale, out):
    done = subprocess.run([BIN / "janusctl", "load", "--url", served.url, "--trace", trace, "--time-scale",
                           str(time_scale), "--output", out, "--ignore-eos", "--max-concurrency", "1024"],
                          capture_output=True, text=True, check=False)
    return [json.loads(line) for line in out.read_text().splitlines()], done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=15, help="of the trace")
    parser.add_argument("--model", default="deepseek-v2", help="a model preset, played by the timed devices")
    parser.add_argument("--time-scale", type=int, default=1)
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--tpot", type=float, default=50, help="milliseconds of the timed devices")
    parser.add_argument("--quiet", type=float, default=0.8, help="requests per second of the trace")
    parser.add_argument("--busy", type=float, default=5, help="requests per second of the trace")
    parser.add_argument("--counts", help="mAnE: keep these counts instead of scaling, and print only what requests got")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all logs, and print it")
    args = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-scaling-"))
    try:
        run(args, folder)
    finally:
        if args.keep:
            print(folder, file=sys.stderr)
        else:
            shutil.rmtree(folder)


def run(args, folder):
    model = make_model(folder / "model")
    requests = swell(args.minutes, args.quiet, args.busy, 1)
    trace = folder / "trace.csv"
    with open(trace, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("arrival_s", "input_tokens", "output_tokens"))
        writer.writerows(requests)
    (folder / "live").mkdir()
    if args.counts:
        m, n = map(int, args.counts[:-1].split("A"))
        spec = service(args, model, {}, True)
        spec["spec"]["roles"] = {"attention": {"replicas": m}, "experts": {"replicas": n}}
        spec["spec"]["pipeline"] = {"microBatches": 2}
        with Served(folder / "live", spec) as served:
            lines, said = load(served, trace, args.time_scale, folder / "live.jsonl")
        attainment(args, lines)
        say("counts", always=args.counts, gpu_seconds=round(60 * args.minutes * (m + n)))
        return say("validity", is_void="void:" in said, load=said.strip().splitlines())
    with Served(folder / "live", service(args, model, {}, True)) as served:
        began = time.time()
        lines, said = load(served, trace, args.time_scale, folder / "live.jsonl")
        record = json.load(urllib.request.urlopen(f"{served.page}v1/services/default/demo"))
        replayed = subprocess.run([BIN / "janusctl", "replay"], capture_output=True, text=True, check=False).stdout
    (folder / "fixed").mkdir()
    with Served(folder / "fixed", service(args, model, {"attention": {"replicas": 2}, "experts": {"replicas": 4}}, False)) as served:
        fixed, _ = load(served, trace, 5 * args.time_scale, folder / "fixed.jsonl")
    report(args, lines, record, began, fixed)
    say("recorded decisions", replay=replayed.strip().splitlines()[-1:])
    say("validity", is_void="void:" in said, load=said.strip().splitlines())


def report(args, lines, record, began, fixed):
    fails = [one for one in lines if one["error"]]
    answers = {one["index"]: one["answer_hash"] for one in fixed if not one["error"]}
    say("requests", sent=len(lines), failed=len(fails), at_fixed_size=len(answers),
        different_answers=sum(answers.get(one["index"]) != one["answer_hash"] for one in lines if not one["error"]))
    attainment(args, lines)

    series = [p for p in record["series"] if p["t"] >= began - 30]
    seconds = sum((b["t"] - a["t"]) * (a["attention"] + a["experts"]) for a, b in zip(series, series[1:]))
    say("counts", first=f"{series[0]['attention']}A{series[0]['experts']}E",
        most_attention=max(p["attention"] for p in series), most_experts=max(p["experts"] for p in series),
        last=f"{series[-1]['attention']}A{series[-1]['experts']}E", gpu_seconds=round(seconds * args.time_scale))
    for one in record["decisions"]:
        if one["action"] == "Hold" or one["t"] < began:
            continue
        reached = next((p["t"] for p in series if p["t"] > one["t"] and f"{p['attention']}A{p['experts']}E" == one["to"]), None)
        say("decision", at_seconds=round((one["t"] - began) * args.time_scale), action=one["action"], change=f"{one['from']} to {one['to']}",
            reason=one["reason"], serves_after_seconds=None if reached is None else round((reached - one["t"]) * args.time_scale, 1))


def attainment(args, lines):
    target = args.tpot / args.time_scale / 1000
    # By the window of the trace in which they arrived.
    windows = {}
    for one in lines:
        counts = windows.setdefault(int(one["arrival_seconds"] // WINDOW), [0, 0])
        counts[0] += not one["error"] and one["tpot_seconds"] <= target
        counts[1] += 1
    missed = [w for w in sorted(windows) if windows[w][0] < 0.95 * windows[w][1]]
    # The first violation is mended in the first window after it that attains.
    mended = next((w for w in sorted(windows) if missed and w > missed[0] and w not in missed), 0)
    after = [windows[w] for w in windows if w >= mended]
    say("attainment", percent=round(100 * sum(k for k, _ in windows.values()) / len(lines), 1),
        violated_at_seconds=missed[0] * WINDOW if missed else None, mended_at_seconds=mended * WINDOW if missed else None,
        percent_after=round(100 * sum(k for k, _ in after) / max(1, sum(n for _, n in after)), 1))


if __name__ == "__main__":
    main()
