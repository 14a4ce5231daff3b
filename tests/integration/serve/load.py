"""Clients that send requests while a service changes, and compare all answers, tokens and bits of their logits."""

import http.client
import json
import os
import random
import threading
import time

from serving import DEADLINE, draw_seed, wait_for

SOAK = bool(os.environ.get("JANUS_SOAK"))
SEED = draw_seed()
CLIENTS = 6
VOCABULARY = 3072  # of the demo model
# The liveness probe ends a hanging worker after 15 to 20 seconds.
ANSWER = 4 * DEADLINE


def requests():
    draw = random.Random(SEED)
    return [{
        "model": "golden",
        "prompt": [draw.randrange(8, VOCABULARY) for _ in range(draw.choice([1, 5, 17, 64]))],
        "max_tokens": draw.choice([40, 200, 800]),
        "temperature": draw.choice([0, 0.6, 1.0]),
        "seed": i,
        "ignore_eos": True,
        "logits_hash": True,
        "return_token_ids": True,
        "stream": True,
    } for i in range(12)]


class Load:
    """Clients that repeat the same requests and compare every answer with the first one."""

    def __init__(self, port, asked=None):
        self.port = port
        self.requests = asked or requests()
        self.wanted = [self.ask(request)[0] for request in self.requests]
        self.stopping = threading.Event()
        self.mu = threading.Lock()
        self.answered = 0
        self.wrong = []
        self.gaps = []  # long gaps: (end by wall clock, seconds)
        self.clients = [threading.Thread(target=self.run, args=(i,)) for i in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def ask(self, request):
        """((token ids, hashes), gaps between messages) of a streamed answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER)
        tokens, hashes, gaps = [], [], []
        try:
            connection.request("POST", "/v1/completions", json.dumps(request),
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            if reply.status != 200:
                raise AssertionError(f"{reply.status}: {reply.read().decode()}")
            last = time.monotonic()
            for line in reply:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                message = json.loads(line[6:])
                if "error" in message:
                    raise AssertionError(str(message["error"]))
                for choice in message["choices"]:
                    tokens += choice.get("token_ids") or []
                    hashes += choice.get("logits_hashes") or []
                now = time.monotonic()
                gaps.append((time.time(), now - last))
                last = now
        finally:
            connection.close()
        return (tokens, hashes), gaps

    def run(self, number):
        draw = random.Random(f"{SEED} {number}")
        while not self.stopping.is_set():
            i = draw.randrange(len(self.requests))
            try:
                answer, gaps = self.ask(self.requests[i])
            except (AssertionError, OSError, http.client.HTTPException, ValueError) as error:
                answer, gaps = repr(error), []
            with self.mu:
                self.answered += 1
                self.gaps += [gap for gap in gaps if gap[1] > 0.05]
                if answer != self.wanted[i]:
                    self.wrong.append((i, answer if isinstance(answer, str) else "other tokens or bits"))

    def count(self):
        with self.mu:
            return self.answered

    def await_answers(self, more):
        target = self.count() + more
        wait_for(lambda: self.count() >= target, f"{more} answers", ANSWER)

    def longest_gap(self, since):
        with self.mu:
            return max((gap for when, gap in self.gaps if when >= since), default=0.0)

    def stop(self):
        self.stopping.set()
        for client in self.clients:
            client.join()
