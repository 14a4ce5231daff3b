"""Leader election on a real API server: python3 e2e/kube/failover_test.py

Two processes are candidates and act while they lead; the audit log shows which one acted when. The time of a change of
leader is printed but not judged: it depends on the machine's load. The test checks whether the lease expired. It must
expire after a leader was killed, and must not expire after a leader released it.
"""

import collections
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CLUSTER, ROOT, ClusterCase, wait_for  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
Act = collections.namedtuple("Act", "time term identity")
LEASE_SECONDS = 15  # client-go's default


def seconds(timestamp):
    return datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


class FailoverTest(ClusterCase):
    def setUp(self):
        super().setUp()
        if self.is_given:
            self.skipTest("its oracle is the audit log of a cluster of its own")
        self.candidates = {name: self.start(name) for name in ("a", "b")}

    def start(self, identity):
        program = BIN / "kube-candidate"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev kube-candidate")
        out = ROOT / "build" / "e2e" / self.namespace / identity
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(out, "w", encoding="utf-8") as log:
            process = subprocess.Popen([CLUSTER, "run", program, identity], stdout=log,
                                       env={**self.environment, "JANUS_NAMESPACE": self.namespace})
        process.out = out
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def writes(self, resource):
        """Writes of the candidates that the server did, from the audit log."""
        log = self.state_folder() / "log" / "audit.log"
        for line in log.read_text(encoding="utf-8").splitlines():
            if f'"{self.namespace}"' not in line or "kube-candidate" not in line:
                continue
            event = json.loads(line)
            if event["objectRef"]["resource"] == resource and event["responseStatus"]["code"] in (200, 201):
                yield event

    def acts(self):
        """In the order of the requests to the server."""
        found = []
        for event in self.writes("configmaps"):
            _, term, identity, _ = event["objectRef"]["name"].split("-")
            self.assertIn(f"kube-candidate-{identity}/", event["userAgent"])
            found.append(Act(seconds(event["requestReceivedTimestamp"]), int(term), identity))
        return sorted(found)

    def await_acts(self, wanted, what):
        """The acts that are `wanted`, when there are ten of them."""
        return wait_for(lambda: (lambda acts: acts if len(acts) >= 10 else None)(
            [act for act in self.acts() if wanted(act)]), what)

    def await_leader(self):
        """Waits for a first leader that acts, and until the other one sees it. Returns the leader's name."""
        leader = self.await_acts(lambda act: True, "a first leader's acts")[0].identity
        other = "b" if leader == "a" else "a"
        wait_for(lambda: f"leader {leader}" in self.candidates[other].out.read_text(), "the other's view")
        return leader, other

    def check(self):
        """Checks the terms so far: each has one leader, and leaders change only with the term."""
        acts = self.acts()
        leaders = collections.defaultdict(set)
        for act in acts:
            leaders[act.term].add(act.identity)
        self.assertTrue(all(len(names) == 1 for names in leaders.values()), dict(leaders))
        return acts

    def pause_of_the_lease(self, leader, other):
        """The time from the old leader's last write of the lease to the new leader's first."""
        times = {name: [seconds(event["requestReceivedTimestamp"]) for event in self.writes("leases")
                        if f"kube-candidate-{name}/" in event["userAgent"]] for name in (leader, other)}
        return min(times[other]) - max(times[leader])

    def hand_over(self, how, goal):
        leader, other = self.await_leader()
        began = time.time()
        self.candidates[leader].send_signal(how)
        first = self.await_acts(lambda act: act.identity == other, "the other's acts")[0]
        print(f"{how.name}: another leads after {first.time - began:.2f} s (goal {goal})", file=sys.stderr)
        acts = self.check()
        old = [act for act in acts if act.identity == leader]
        self.assertLess(old[-1].time, first.time, "the old leader acted after the new one")
        self.assertEqual(first.term, old[-1].term + 1)
        return leader, other

    def test_a_leader_that_ends_gives_its_lease_up(self):
        leader, other = self.hand_over(signal.SIGTERM, "3 s")
        self.assertEqual(self.candidates[leader].wait(), 0)
        self.assertLess(self.pause_of_the_lease(leader, other), LEASE_SECONDS, "the lease ran out")

    def test_a_leader_that_is_killed_is_followed(self):
        leader, other = self.hand_over(signal.SIGKILL, "22 s")
        # The other candidate counts from when it saw the last write.
        self.assertGreater(self.pause_of_the_lease(leader, other), LEASE_SECONDS, "the lease had not run out")

    def test_a_leader_that_slept_through_its_term_acts_no_more_in_it(self):
        leader, other = self.await_leader()
        self.candidates[leader].send_signal(signal.SIGSTOP)
        slept_at = self.acts()[-1].term
        first = self.await_acts(lambda act: act.identity == other, "the other's acts")[0]
        self.candidates[leader].send_signal(signal.SIGCONT)
        wait_for(lambda: f"leader {other}" in self.candidates[leader].out.read_text(), "it to see the other lead")
        count = len(self.acts())
        wait_for(lambda: len(self.acts()) >= count + 10, "ten more acts")
        acts = self.check()
        self.assertEqual(first.term, slept_at + 1)
        # A request in flight when the leader was stopped may still arrive; it carries its term.
        late = [act for act in acts if act.identity == leader and act.time > first.time]
        self.assertLessEqual(len(late), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
