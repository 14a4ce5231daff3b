"""A trace of requests whose rate changes, and what its requests got: for trials with `janusctl load --trace`."""

import csv
import math
import random

WINDOW = 15  # seconds of the trace


def draw_requests(edges, seconds, prompt_tokens, seed=1):
    """(second, prompt tokens, answer tokens). `edges`: (second, requests per second), from 0 on: rates between them change
    evenly, and the last rate stays."""
    draw, at, requests = random.Random(seed), 0.0, []
    while True:
        after = next((edge for edge in edges if edge[0] > at), None)
        before = [edge for edge in edges if edge[0] <= at][-1]
        rate = before[1] if after is None else before[1] + (after[1] - before[1]) * (at - before[0]) / (after[0] - before[0])
        at += draw.expovariate(rate)
        if at >= seconds:
            return requests
        requests.append((round(at, 3), draw.randint(*prompt_tokens), draw.randint(60, 180)))


def write_trace(path, requests):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("arrival_s", "input_tokens", "output_tokens"), *requests])


def attainment_of(lines, target_seconds, ttft_seconds=math.inf):
    """Shares of the requests that kept the targets, by the lines of `janusctl load`: of all, and of those that arrived from the
    first window on that attains again after the first violation."""
    windows = {}  # by the window of the trace in which they arrived: kept, all
    for one in lines:
        counts = windows.setdefault(int(one["arrival_seconds"] // WINDOW), [0, 0])
        counts[0] += not one["error"] and one["tpot_seconds"] <= target_seconds and one["ttft_seconds"] <= ttft_seconds
        counts[1] += 1
    missed = [w for w in sorted(windows) if windows[w][0] < 0.95 * windows[w][1]]
    mended = next((w for w in sorted(windows) if missed and w > missed[0] and w not in missed), 0)
    after = [windows[w] for w in windows if w >= mended]
    return {"percent": round(100 * sum(k for k, _ in windows.values()) / len(lines), 1),
            "violated_at_seconds": missed[0] * WINDOW if missed else None,
            "mended_at_seconds": mended * WINDOW if missed else None,
            "percent_after": round(100 * sum(k for k, _ in after) / max(1, sum(n for _, n in after)), 1)}
