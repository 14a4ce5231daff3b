"""A service that keeps its latency target by itself, live on this machine: scripts/bench scaling

`python3 -B bench/scaling_trial.py --help` has the options; it uses the programs of build/dev.
Timed devices play DeepSeek-V2 on H200s. A swell of load comes and goes; then the same requests go to a fixed 2A4E of the
same small model, and to the simulator. Prints JSON lines: what requests got, how the counts moved, when each decision served,
whether recorded decisions repeat, and whether all answers are those of the fixed size. --by runs another policy instead: once with one micro-batch and once
with two, as a user could try, and the line `better` names the better run. Leave the machine alone meanwhile (or use chrt -f 5): a run in which
more than 1 % of the modelled times were missed is void, and the last line says so.
"""

import argparse
import http.client
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support" / "python"))

from growth import parts_of  # noqa: E402
from load_trial import attainment_of, draw_requests, write_trace  # noqa: E402
from made_model import bf16, vocabulary, write_mixtral  # noqa: E402

BIN = ROOT / "build" / "dev" / "bin"
FIRST_TOKEN = 10  # seconds, the target


def say(what, **figures):
    print(json.dumps({"bench": "scaling", "what": what, **figures}), flush=True)


# Requests per second between these edges (seconds of the trace) rise and fall evenly. The last rate stays.
SHAPES = {
    "swell": lambda quiet, busy, _: ((0, quiet), (60, quiet), (120, busy), (300, busy), (360, quiet)),
    "waves": lambda quiet, busy, _: [(1800 * i, busy if i % 2 else quiet) for i in range(9)],
    "halves": lambda quiet, busy, end: ((0, quiet), (end / 20, quiet), (end * 3 / 20, busy), (end * 3 / 10, busy), (end * 2 / 5, busy / 2)),
}


def requests_of(args):
    """Prompts are short: `scale` of them are computed at once, which delays others more than as many prompts one after the
    other would."""
    return draw_requests(SHAPES[args.shape](args.quiet, args.busy, args.minutes * 60), args.minutes * 60, (10, 40))


def make_model(folder):
    """A random model with 32 small experts in each of two layers. The demo model's eight experts are too few to stand for
    160: an instance would hold one or two of them, and no number of instances between would be of use."""
    draw, ones = random.Random(1), ((64,), bf16([1.0] * 64))

    def drawn(*shape):
        return shape, bf16([draw.gauss(0, 0.1) for _ in range(math.prod(shape))])

    tensors = {"model.embed_tokens.weight": drawn(vocabulary(), 64), "model.norm.weight": ones}
    for layer in range(2):
        at = f"model.layers.{layer}."
        tensors |= {at + "input_layernorm.weight": ones, at + "post_attention_layernorm.weight": ones,
                    at + "block_sparse_moe.gate.weight": drawn(32, 64)}
        tensors |= {f"{at}self_attn.{name}_proj.weight": drawn(64, 64) for name in "qkvo"}
        for expert in range(32):
            tensors |= {f"{at}block_sparse_moe.experts.{expert}.{name}.weight": drawn(*shape)
                        for name, shape in (("w1", (32, 64)), ("w2", (64, 32)), ("w3", (32, 64)))}
    return write_mixtral(folder, {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2,
                                  "num_hidden_layers": 2, "num_local_experts": 32, "num_experts_per_tok": 4}, tensors)


def service(args, model, roles, micro_batches=0):
    """Of timed devices; a role that `roles` gives no replicas is scaled by the service. `micro_batches`: 0: chosen."""
    # Each default of the API, on the clock of the trace. The operator divides what no field sets, except the five minutes of SLOMet.
    # Starts of processes and kills are real.
    def scaled(seconds, least=1):
        return max(least, round(seconds / args.time_scale))

    down = {"scaleDown": {"stabilizationWindowSeconds": scaled(300), "policies": [{"type": "Percent", "value": 100, "periodSeconds": scaled(15)}]}}
    wanted = {role: roles.get(role) or {"scaling": {"behavior": down}} for role in ("attention", "experts")}
    if args.wrong_experts != 1:
        wanted["experts"]["hardwareProfile"] = "wrong"
    wanted["experts"]["placement"] = {"rebalanceIntervalSeconds": scaled(3600, 60)}
    spec = {"slo": {"tpot": {"targetMilliseconds": round(args.tpot / args.time_scale)},
                    "ttft": {"targetMilliseconds": round(1000 * FIRST_TOKEN / args.time_scale)}}, "device": "Timed", "roles": wanted,
            "timed": {"hardware": "H200", "model": args.model, "scale": args.scale, "timeScale": args.time_scale},
            "scaling": {"intervalSeconds": scaled(15), "pendingTimeoutSeconds": scaled(1200)}}
    if micro_batches:
        spec["pipeline"] = {"microBatches": micro_batches}
    return object_of(model, spec)


def object_of(model, spec):
    source = {"source": {"type": "HostPath", "hostPath": {"path": str(model)}}}
    return {"apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "demo"}, "spec": {"model": source} | spec}


def wrong_profile(factor):
    """An H200 that reads its memory `factor` times as fast."""
    return {"apiVersion": "serving.janus.dev/v1alpha1", "kind": "HardwareProfile", "metadata": {"name": "wrong"},
            "spec": {"memory": "141e9", "memoryBandwidth": str(round(4.8e12 * factor)), "peak": {"bf16": "989e12", "fp8": "1979e12"},
                     "intraNodeBandwidth": "450e9", "interNodeBandwidth": "50e9"}}


# All of which janusctl serve makes objects.
KINDS = ([f"/apis/serving.janus.dev/v1alpha1/{one}" for one in ("moeservices", "moerolescalers", "moetopologies")]
         + [f"/api/v1/{one}" for one in ("pods", "services", "configmaps", "secrets", "serviceaccounts")]
         + ["/apis/events.k8s.io/v1/events", "/apis/coordination.k8s.io/v1/leases", "/apis/apps/v1/deployments",
            "/apis/policy/v1/poddisruptionbudgets", "/apis/networking.k8s.io/v1/networkpolicies", "/apis/batch/v1/jobs"])


class Served:
    """`janusctl serve` as a context manager: `url`, `page`, `logs`."""

    def __init__(self, folder, spec, *arguments):
        folder.mkdir()
        self.arguments = arguments
        self.file = folder / "service.json"
        self.file.write_text(json.dumps(spec))

    def __enter__(self):
        self.log = open(self.file.with_suffix(".log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([BIN / "janusctl", "serve", "-f", self.file, "--port", "0", *self.arguments],
                                        stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        while True:
            text = self.file.with_suffix(".log").read_text()
            serving = re.search(r"serving \S+ at (\S+)/v1", text)
            logs = re.search(r"\nlogs: (\S+)", text)
            if serving and logs:
                break
            if self.process.poll() is not None:
                raise SystemExit(text)
            time.sleep(0.2)
        self.url, self.logs, self.page = serving[1], logs[1], re.search(r"page: (\S+)", text)[1]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def record(self):
        return json.load(urllib.request.urlopen(f"{self.page}v1/services/default/demo"))

    def events(self):
        done = subprocess.run([BIN / "janusctl", "get", "events", "demo", "-o", "json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["items"]

    def call(self, method, path, body=None):
        """To its API, which is a Unix socket."""
        api = http.client.HTTPConnection("localhost")
        api.sock = socket.socket(socket.AF_UNIX)
        api.sock.settimeout(30)
        try:
            api.sock.connect(f"{self.logs}/api")
            api.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            reply = api.getresponse()
            text = reply.read().decode()
        finally:
            api.close()
        if reply.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {reply.status} {text}")
        return json.loads(text)

    def create(self, plural, body):
        self.call("POST", f"/apis/serving.janus.dev/v1alpha1/{plural}", body)

    def objects(self):
        """How many there are, by kind."""
        return {path.rpartition("/")[2]: len(self.call("GET", path)["items"]) for path in KINDS}


def processes_of(served, program):
    """pids; the service's model is in the folder of the trial."""
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(program) and str(served.file.parent.parent).encode() in b" ".join(words):
                out.append(int(entry.name))
    return out


class Killer(threading.Thread):
    """Kills a worker now and then, and notes what the other processes hold. `error`: why it ended too early; empty: it did not."""

    def __init__(self, served, every):
        super().__init__()
        self.served, self.every, self.kills, self.error = served, every, 0, ""
        self.ended, self.draw, self.held, self.objects = threading.Event(), random.Random(1), [], []

    def run(self):
        try:
            while not self.ended.wait(self.every):
                self.kill_and_look()
        except Exception as error:  # a thread's errors are lost
            self.error = f"{type(error).__name__}: {error}"

    def kill_and_look(self):
        victims = processes_of(self.served, b"janus-worker")
        if victims:
            try:
                os.kill(self.draw.choice(victims), signal.SIGKILL)
                self.kills += 1
            except ProcessLookupError:
                pass
        self.objects.append(self.served.objects())
        self.held.append([self.of(pid) for pid in [self.served.process.pid, *processes_of(self.served, b"janus-gateway")]])

    @staticmethod
    def of(pid):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return {"mebibytes": int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024,
                "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]), "files": len(os.listdir(f"/proc/{pid}/fd"))}

    def report(self):
        third = max(1, len(self.held) // 3)
        say("kills", workers=self.kills, error=self.error)
        if not self.held:
            return
        for at, name in enumerate(("janusctl", "gateway")):
            for what in ("mebibytes", "threads", "files"):
                self.compare(name, what, [one[at][what] for one in self.held if len(one) > at], third)
        # Events that do not repeat stay for an hour.
        self.compare("store", "objects without events", [sum(one.values()) - one["events"] for one in self.objects], third)
        for kind in sorted({kind for one in self.objects for kind, count in one.items() if count}):
            self.compare("store", kind, [one[kind] for one in self.objects], third)

    def check(self):
        if self.error:
            raise SystemExit(f"the killer ended after {self.kills} kills: {self.error}")

    @staticmethod
    def compare(name, what, values, third):
        say("held", by=name, held=what, first_third=statistics.median(values[:third]), last_third=statistics.median(values[-third:]))


class QueueAutoscaler(threading.Thread):
    """The rule of a HorizontalPodAutoscaler (autoscaling/v2 with its defaults) for both roles, by waiting requests: one
    instance of each role for every `per_instance` of them. Attention and experts have their own limits below."""

    TOLERANCE, SYNC, CALM = 0.1, 15, 300

    def __init__(self, args, served, least):
        super().__init__()
        self.args, self.served, self.counts, self.least = args, served, least, least
        self.ended, self.wished, self.changes = threading.Event(), [], [(time.time(), least)]

    def waiting(self):
        text = urllib.request.urlopen(f"{self.served.url}/metrics").read().decode()
        return self.args.scale * float(re.search(r"^vllm:num_requests_waiting\S* (\S+)", text, re.M)[1])

    def run(self):
        while not self.ended.wait(self.SYNC / self.args.time_scale):
            self.step(self.waiting(), time.monotonic() * self.args.time_scale)

    def step(self, waiting, now):
        wish = []
        for count, least in zip(self.counts, self.least):
            wished = math.ceil(waiting / self.args.per_instance)
            if abs(waiting / (self.args.per_instance * count) - 1) <= self.TOLERANCE:
                wished = count
            wish.append(max(least, min(wished, max(2 * count, count + 4), 24)))
        self.wished = [(at, one) for at, one in self.wished if at > now - self.CALM] + [(now, wish)]
        calm = [max(one[i] for _, one in self.wished) for i in range(2)]
        counts = [new if new > count else min(count, quiet) for new, count, quiet in zip(wish, self.counts, calm)]
        if counts != self.counts:
            done = subprocess.run([BIN / "janusctl", "scale", "demo", "--attention", str(counts[0]), "--experts", str(counts[1])],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                return
            say("decision", change=f"{self.counts[0]}A{self.counts[1]}E to {counts[0]}A{counts[1]}E", waiting=waiting)
            self.counts = counts
            self.changes.append((time.time(), counts))


def load(served, trace, time_scale, out):
    done = subprocess.run([BIN / "janusctl", "load", "--url", served.url, "--trace", trace, "--time-scale",
                           str(time_scale), "--output", out, "--ignore-eos", "--max-concurrency", "1024"],
                          capture_output=True, text=True, check=False)
    return [json.loads(line) for line in out.read_text().splitlines()], done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=15, help="of the trace")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="swell", help="of the load over time")
    parser.add_argument("--by", default="ours", help="ours; queue: the rule of a HorizontalPodAutoscaler on waiting requests; mAnE: fixed")
    parser.add_argument("--least", default="1A4E", help="where the rule on waiting requests begins, and the fewest instances that it keeps")
    parser.add_argument("--per-instance", type=float, default=5, help="waiting requests for which the rule on them wants an instance")
    parser.add_argument("--micro-batches", type=int, default=0,
                        help="of a service whose counts the service does not choose itself; 0: one run with one and one with two, and the better of these")
    parser.add_argument("--model", default="deepseek-v2", help="a model preset, played by the timed devices")
    parser.add_argument("--time-scale", type=int, default=1)
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--tpot", type=float, default=50, help="milliseconds of the timed devices")
    parser.add_argument("--quiet", type=float, default=0.8, help="requests per second of the trace")
    parser.add_argument("--busy", type=float, default=5, help="requests per second of the trace")
    parser.add_argument("--wrong-experts", type=float, default=1,
                        help="decisions take expert instances for devices that read memory so many times as fast as they do")
    parser.add_argument("--kill-every", type=float, default=0, help="real seconds between kills of a worker at random; 0: none")
    parser.add_argument("--simulate", action="store_true", help="only simulate it, with ours and the policies beside it")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all logs and the recorded worlds, and print it")
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
    trace = folder / "trace.csv"
    write_trace(trace, requests_of(args))
    say("trial", shape=args.shape, by=args.by, wrong_experts=args.wrong_experts)
    if args.simulate:
        return simulate(args, trace, None, 10)
    model = make_model(folder / "model")
    if args.by == "ours":
        return live(args, folder, model, trace)
    # With fixed counts the user chooses the micro-batches, and can try both.
    tries = [args.micro_batches] if args.micro_batches else [1, 2]
    runs = {one: otherwise(args, folder / f"live-{one}", model, trace, one) for one in tries}
    best = better({one: percent for one, (percent, _) in runs.items()})
    say("better", micro_batches=best, percent=runs[best][0], is_void=any(is_void for _, is_void in runs.values()))


def better(percent):
    """The number of micro-batches with the highest attainment; the lower one if they are equal."""
    return min(percent, key=lambda one: (-percent[one], one))


def otherwise(args, folder, model, trace, micro_batches):
    """A run by another policy than ours. Returns the percentage of requests that kept the target, and whether the run is void."""
    folder.mkdir()
    say("run", micro_batches=micro_batches)
    counts = [int(one) for one in (args.least if args.by == "queue" else args.by)[:-1].split("A")]
    roles = dict(zip(("attention", "experts"), ({"replicas": count} for count in counts)))
    with Served(folder / "live", service(args, model, roles, micro_batches)) as served:
        began = time.time()
        scaler = QueueAutoscaler(args, served, counts)
        if args.by == "queue":
            scaler.start()
        lines, said = load(served, trace, args.time_scale, folder / "live.jsonl")
        if args.by == "queue":
            scaler.ended.set()
            scaler.join()
    percent = attainment(args, lines)
    points = [{"t": max(at, began), "attention": m, "experts": n} for at, (m, n) in scaler.changes]
    cost(args, points + [points[-1] | {"t": began + args.minutes * 60 / args.time_scale}])
    say("validity", is_void="void:" in said, load=said.strip().splitlines())
    return percent, "void:" in said


def live(args, folder, model, trace):
    with Served(folder / "live", service(args, model, {})) as served:
        if args.wrong_experts != 1:
            served.create("hardwareprofiles", wrong_profile(args.wrong_experts))
        killer = Killer(served, args.kill_every)
        if args.kill_every:
            killer.start()
        began = time.time()
        lines, said = load(served, trace, args.time_scale, folder / "live.jsonl")
        if args.kill_every:
            killer.ended.set()
            killer.join()
            killer.report()
        record, events = served.record(), served.events()
        replayed = subprocess.run([BIN / "janusctl", "replay", "demo", "--save", folder / "worlds"], capture_output=True, text=True, check=False).stdout
    fixed = object_of(model, {"roles": {"attention": {"replicas": 2}, "experts": {"replicas": 4}}})
    with Served(folder / "fixed", fixed) as served:
        plain, _ = load(served, trace, 5 * args.time_scale, folder / "fixed.jsonl")
    fails = [one for one in lines if one["error"]]
    answers = {one["index"]: one["answer_hash"] for one in plain if not one["error"]}
    say("requests", sent=len(lines), failed=len(fails), at_fixed_size=len(answers),
        different_answers=sum(answers.get(one["index"]) != one["answer_hash"] for one in lines if not one["error"]))
    attainment(args, lines)
    first = cost(args, series_of(args, record, began))
    took = decisions(args, record, events, began)
    say("recorded decisions", replay=replayed.strip().splitlines()[-1:])
    say("model error", **record["modelError"])
    say("validity", is_void="void:" in said, load=said.strip().splitlines())
    simulate(args, trace, first, round(statistics.median(took), 2) if took else 10)
    killer.check()


def series_of(args, record, began):
    """The counts over the time of the trace."""
    end = began + args.minutes * 60 / args.time_scale
    within = [p for p in record["series"] if began - 30 <= p["t"] <= end]
    return [{"t": max(p["t"], began), "attention": p["attention"], "experts": p["experts"]} for p in within] + [within[-1] | {"t": end}]


def cost(args, series):
    seconds = sum((b["t"] - a["t"]) * (a["attention"] + a["experts"]) for a, b in zip(series, series[1:]))
    names = [f"{p['attention']}A{p['experts']}E" for p in series]
    say("counts", first=names[0], most_attention=max(p["attention"] for p in series),
        most_experts=max(p["experts"] for p in series), last=names[-1], gpu_seconds=round(seconds * args.time_scale))
    return names[0]


def decisions(args, record, events, began):
    """Prints the changes, and for a growth the seconds from the first reading above the target since the change before, and of
    its parts, all of the trace. Returns the seconds from each growth's decision until its new members served, which readings every interval
    would round up."""
    series, took, before = record["series"], [], began
    for one in record["decisions"]:
        if one["action"] == "Hold" or one["t"] < began:
            continue
        say("decision", at_seconds=round((one["t"] - began) * args.time_scale), action=one["action"],
            change=f"{one['from']} to {one['to']}", reason=one["reason"])
        if one["action"] == "ScaleUp":
            above = [p["t"] for p in series if before < p["t"] <= one["t"] and (p["tpotSeconds"] or 0) > args.tpot / args.time_scale / 1000]
            parts = {name: round(args.time_scale * took_it, 2) for name, took_it in (parts_of(one["t"], events) or {}).items()}
            noticing = args.time_scale * (one["t"] - min(above, default=one["t"]))
            say("growth", change=f"{one['from']} to {one['to']}", noticing=round(noticing, 1), **parts)
            if parts:
                took.append(sum(parts.values()))
        before = one["t"]
    return took


def simulate(args, trace, first, start):
    """The same requests in the simulator, with the start times of the live run. A copy of the whole model cannot be a timed device:
    it gets `scale` times as many requests, which come apart and so are easier to serve. `apart` marks these runs, ours among them."""
    for scale, policies in (("--timed-scale", "ours,static,oracle"), ("--scale", "ours,whole,hpa")):
        command = [BIN / "janusctl", "simulate", "--model", args.model, "--hardware", "H200", "--trace", trace, scale, str(args.scale),
                   "--tpot-milliseconds", str(args.tpot), "--ttft-seconds", str(FIRST_TOKEN), "--interval-seconds", "15", "--start-seconds", str(start),
                   "--predictor", "None", "--policies", policies, "--json"]
        done = subprocess.run(command + (["--first-counts", first] if first and "ours" in policies else []),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        for one in json.loads(done.stdout)["policies"]:
            say("simulated", policy=one["policy"], apart=scale == "--scale", gpu_seconds=round(one["gpuHours"] * 3600), percent=round(100 * one["attainment"], 1),
                counts=[change["to"] for change in one["decisions"]], start_seconds=start)


def attainment(args, lines):
    figures = attainment_of(lines, args.tpot / args.time_scale / 1000, FIRST_TOKEN / args.time_scale)
    say("attainment", **figures)
    return figures["percent"]


if __name__ == "__main__":
    main()
