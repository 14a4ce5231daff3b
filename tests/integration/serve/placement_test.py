"""The traffic of a service changes to another task, and the placement of its experts follows: served by real processes, on the
routing that DeepSeek-V2-Lite chose for two tasks (data/routing).

It takes seven minutes, since a placement is searched for once a minute at most. Prints a JSON line for each search.
"""

import json
import random
import re
import sys
import threading
import unittest
import urllib.error
import urllib.request

from serving import Service, draw_seed, scaled, wait_for  # isort: skip (it sets the path)
from made_model import measured_routing, write_routed

EXPERTS, TOKENS, CLIENTS, MINUTE = 64, 16, 16, 60
SEED = draw_seed()
TASKS = ("deepseek_v2_lite_intent", "deepseek_v2_lite_law")


class Traffic:
    """Clients that always ask for a task's tokens, until it ends."""

    def __init__(self, service, tokens):
        self.service, self.tokens, self.task = service, tokens, 0
        self.ended, self.lock = threading.Event(), threading.Lock()
        self.answers, self.failures = {}, []
        self.threads = [threading.Thread(target=self.run, args=(one,)) for one in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, one):
        draw = random.Random(f"{SEED} {one}")
        while not self.ended.is_set():
            # Few enough different requests that each is asked often, before and after a change.
            task, first, length = self.task, draw.randrange(self.tokens), draw.choice([3, 9, 20])
            prompt = [task * self.tokens + (first + i) % self.tokens for i in range(length)]
            try:
                choice = self.service.post({
                    "model": "golden", "prompt": prompt, "max_tokens": 48, "temperature": 0, "ignore_eos": True,
                    "logits_hash": True, "return_token_ids": True})["choices"][0]
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append(repr(error))
                continue
            with self.lock:
                self.answers.setdefault((task, first, length), []).append((choice["token_ids"], choice["logits_hashes"]))

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


class Placement(Service, unittest.TestCase):
    def setUp(self):
        self.open(lambda folder: write_routed(folder, measured_routing(TASKS, TOKENS), EXPERTS))

    def tearDown(self):
        self.close()

    def placement(self):
        """{} before the first record."""
        try:
            with urllib.request.urlopen(f"{self.page}v1/services/default/golden", timeout=scaled(60)) as reply:
                return json.load(reply)["placement"] or {}
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 404)
            return {}

    def next_search(self, what):
        """What the next search finds: experts that the busiest instance reads, before and after, and loaded replicas."""
        last = self.placement()

        def searched():
            now = self.placement()
            return now.get("message") and (now["t"] != last.get("t") or not last.get("message")) and now

        found = wait_for(searched, f"a search {what}", scaled(4 * MINUTE))
        print(json.dumps({"search": what, **{name: found[name] for name in ("busiestBefore", "busiestAfter", "message")}}),
              file=sys.stderr, flush=True)
        return found["busiestBefore"], found["busiestAfter"]

    def test_experts_follow_the_traffic(self):
        said = self.serve_object({
            "model": {"source": {"type": "HostPath", "hostPath": {"path": str(self.model)}}}, "device": "CPU",
            "roles": {"attention": {"replicas": 1, "maxBatchSize": CLIENTS},
                      # One slot for each expert: where it is, it is read.
                      "experts": {"replicas": 8, "slotsPerInstance": EXPERTS // 8,
                                  "placement": {"rebalanceIntervalSeconds": 90, "windowSeconds": 60}}},
        }, "--debug-logits-hash")
        said += self.wait_for_line("logs: ")
        self.page = re.search(r"page: (\S+)", said)[1]
        traffic = Traffic(self, TOKENS)
        try:
            in_order, first = self.next_search("of the first task")
            # The samples of the next search are all of the other task.
            traffic.task = 1
            shifted, other = self.next_search("after the other task began")
            now, best = self.next_search("with the placement that it chose")
        finally:
            traffic.end()
        for line in self.ctl("get", "events").splitlines():
            if "PlacementChanged" in line:
                print(line, file=sys.stderr)
        print(json.dumps({"requests": sum(map(len, traffic.answers.values())), "different": len(traffic.answers)}), file=sys.stderr)
        self.assertEqual(traffic.failures, [])
        for answers in traffic.answers.values():
            self.assertEqual(answers, answers[:1] * len(answers))
        # Both searches were needed, and the second one brought the service to within 5 % of what a search can reach.
        self.assertGreater(in_order, 1.05 * first)
        self.assertGreater(shifted, 1.05 * other)
        self.assertLessEqual(now, 1.05 * best)


if __name__ == "__main__":
    unittest.main(verbosity=2)
