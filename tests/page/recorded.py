"""A made recording of a service: six hours with two swells of load, the decisions that follow them, and routing.

It is deterministic, and has the form that v1/services/NAMESPACE/NAME answers with.
"""

import functools
import math
import random

END = 1732770000.5
INTERVAL = 15
TARGET = 0.1
MOST_EXPERTS = 14
LAYERS, EXPERTS, TOP_K, SLOTS = 26, 64, 6, 12


def load_at(t):
    """Requests per second: a quiet level, and a swell that began 40 minutes before the end, and an older one."""
    swell = sum(high * math.exp(-(((t - (END - before)) / wide) ** 2)) for before, wide, high in ((1500, 560, 13), (14400, 1500, 11)))
    return 2.4 + 0.5 * math.sin(t / 900) + swell


def step_seconds(running, m, n):
    return 0.014 + 0.0005 * running / m + 0.04 / n + 0.0036 * running / n


def expected(rate, m, n):
    """(TPOT, sequences that run) at this rate: each writes 100 tokens."""
    running = 4.0
    for _ in range(60):
        running = min(900.0, 0.5 * running + 0.5 * rate * 100 * step_seconds(running, m, n))
    return step_seconds(running, m, n), running


def weighed(rate, m, n):
    """Candidates around (m, n), the cheapest that fits first; the others say why they lost."""
    found = []
    for a in range(max(1, m - 1), m + 3):
        for e in sorted({max(8, n - 2), n, min(MOST_EXPERTS, n + 2), min(MOST_EXPERTS, n + 4)}):
            tpot, _ = expected(rate, a, e)
            found.append({"counts": f"{a}A{e}E", "tpotSeconds": tpot, "ttftSeconds": 0.12 + 2 * tpot, "pressure": tpot / TARGET,
                          "gpus": a + e, "cost": float(a + e), "lostBy": ""})
    found.sort(key=lambda c: (c["pressure"] > 0.7, c["cost"] if c["pressure"] <= 0.7 else c["pressure"], c["tpotSeconds"]))
    best = found[0]
    for other in found[1:]:
        if other["pressure"] > 0.7:
            other["lostBy"] = f"at {100 * other['pressure']:.0f} % of a target or limit; a change may reach 70 %"
        elif other["cost"] > best["cost"]:
            other["lostBy"] = f"costs {other['cost']:.0f}, the chosen {best['cost']:.0f}"
        else:
            other["lostBy"] = f"costs the same, and its TPOT is {1e3 * (other['tpotSeconds'] - best['tpotSeconds']):.1f} ms longer"
    return found[:7]


def counts_of(text):
    m, n = text.rstrip("E").split("A")
    return int(m), int(n)


def changes(points, decisions, draw):
    """Runs the service over `points` (times), appends to `decisions`, and yields the series."""
    m = wanted_m = 1
    n = wanted_n = 8
    ready_at, last_change, calm = None, points[0], 0
    for t in points:
        if ready_at is not None and t >= ready_at:
            m, n, ready_at = wanted_m, wanted_n, None
        rate = load_at(t)
        tpot, running = expected(rate, m, n)
        observed = tpot * (1 + draw.gauss(0, 0.025)) * (1.12 if ready_at is not None and tpot > 0.09 else 1)
        ended = max(0, round(rate * INTERVAL * draw.uniform(0.9, 1.1)))
        kept = 1 / (1 + math.exp(-(TARGET / observed - 1.0) * 22 - 1.5))
        yield {"t": t, "requestsPerSecond": round(rate * draw.uniform(0.93, 1.07), 2), "promptTokensPerSecond": round(rate * 200, 1),
               "running": round(running), "waiting": max(0, round((observed - 0.105) * 700)), "attention": m, "experts": n,
               "attentionWanted": wanted_m, "expertsWanted": wanted_n, "tpotSeconds": round(observed, 5),
               "ttftSeconds": round(0.12 + 2 * observed + max(0.0, observed - 0.1) * 12, 4), "predictedTpotSeconds": round(tpot * 0.98, 5),
               "ended": ended, "attained": min(ended, round(ended * kept))}
        if ready_at is not None:
            continue
        found = weighed(rate, m, n)
        best = found[0]
        to = counts_of(best["counts"])
        calm = calm + 1 if best["cost"] < m + n else 0
        up = tpot > 0.99 * TARGET and best["cost"] > m + n
        down = calm >= 12 and t - last_change > 240
        if not up and not down:
            continue
        violated = observed > TARGET
        decisions.append({
            "t": t, "action": "ScaleUp" if up else "ScaleDown", "from": f"{m}A{n}E", "to": best["counts"],
            "reason": ("SLOViolated" if violated else "SLOAtRisk") if up else "Cheaper",
            "message": (f"The observed TPOT is {1e3 * observed:.0f} ms and the target 100 ms; {best['counts']} is expected to need "
                        f"{1e3 * best['tpotSeconds']:.0f} ms." if up else
                        f"{best['counts']} kept the target in all predictions of the last {calm * INTERVAL} s and costs "
                        f"{best['cost']:.0f} instead of {m + n}."),
            "limitedBy": "spec.roles.*.scaling.maxReplicas" if to[1] == MOST_EXPERTS else "",
            "predictedTpotSeconds": best["tpotSeconds"], "observedTpotSeconds": observed, "cost": best["cost"], "candidates": found})
        wanted_m, wanted_n = to
        ready_at, last_change, calm = t + (45 if up else INTERVAL), t, 0


def placement(draw):
    """Skewed routing, and slots that give the experts with the most rows two replicas."""
    instances = [f"demo-experts-a1-{i}" for i in range(8)]
    layers = []
    for layer in range(LAYERS):
        weights = [1 / (1 + rank) ** 0.55 for rank in range(EXPERTS)]
        draw.shuffle(weights)
        weights = [w * draw.uniform(0.7, 1.3) for w in weights]
        shares = [round(TOP_K * w / sum(weights), 4) for w in weights]
        slots, loads = [[] for _ in instances], [0.0] * len(instances)
        by_share = sorted(range(EXPERTS), key=lambda e: -shares[e])
        twice = by_share[: len(instances) * SLOTS - EXPERTS]
        for expert in by_share + twice:
            part = shares[expert] / (2 if expert in twice else 1)
            at = min((i for i in range(len(instances)) if len(slots[i]) < SLOTS and expert not in slots[i]), key=lambda i: loads[i])
            slots[at].append(expert)
            loads[at] += part
        layers.append({"layer": layer, "share": shares, "slots": [sorted(s) for s in slots]})
    return {"t": END - 1200, "message": "The search moved 61 of 2,496 slots.", "busiestBefore": 9.4, "busiestAfter": 7.1,
            "instances": instances, "layers": layers}


@functools.cache
def service(hours=6, namespace="default", name="demo"):
    draw = random.Random(7)
    times = [END - INTERVAL * k for k in range(hours * 3600 // INTERVAL, 0, -1)]
    decisions = []
    series = list(changes(times, decisions, draw))
    last = series[-1]
    decisions.append({"t": END - 5, "action": "Hold", "from": f"{last['attention']}A{last['experts']}E", "to": f"{last['attention']}A{last['experts']}E",
                      "reason": "Satisfied", "message": f"The observed TPOT is {1e3 * last['tpotSeconds']:.0f} ms and the target 100 ms.", "limitedBy": "",
                      "predictedTpotSeconds": last["predictedTpotSeconds"], "observedTpotSeconds": last["tpotSeconds"],
                      "cost": float(last["attention"] + last["experts"]), "candidates": []})
    role = {"starting": 0, "draining": 0}
    return {"namespace": namespace, "name": name, "time": END, "emulated": "H200 as deepseek-v3, scale 64",
            "targets": {"tpotSeconds": TARGET, "tpotPercentile": 0.95, "ttftSeconds": None, "ttftPercentile": None},
            "now": {"epoch": 3 + len(decisions), "microBatches": 1,
                    "attention": {"wanted": last["attentionWanted"], "ready": last["attention"], **role},
                    "experts": {"wanted": last["expertsWanted"], "ready": last["experts"], **role}},
            "series": series, "decisions": decisions,
            "modelError": {"attention": 0.03, "experts": 0.05, "exchange": 0.02, "step": 0.04}, "placement": placement(draw)}


if __name__ == "__main__":
    import json

    print(json.dumps(service(), indent=1))
