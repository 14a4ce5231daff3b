"""Leaders that are stopped during their term, at each call that decides: python3 e2e/operator/fences_test.py

A leader is stopped (SIGSTOP) when a write of its MoETopology has left it but not reached the server, or when a call to its
workers has begun but has not reached any of them. Another operator takes over. Then the call continues, and the first
operator wakes up. JANUS_SEED chooses the positions; with JANUS_SOAK all are tried.
"""

import fcntl
import json
import os
import pathlib
import random
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import wait_for  # noqa: E402
from held_case import HeldCase  # noqa: E402

# Steps of the user: a first epoch, one with more instances, one of another model, and the last with no time for running
# answers.
FIRST, MORE, OTHER, AT_ONCE = "first", "more", "other", "at_once"
# (name of the call, step during which it happens, the write that it is or that it follows, whether it is a call to
# workers)
POSITIONS = [("make", FIRST, "make", False)]
for _step in (FIRST, MORE, OTHER):
    POSITIONS += [("propose", _step, "propose", False), ("prepare", _step, "propose", True),
                  ("commit", _step, "commit", False), ("tell", _step, "commit", True)]
POSITIONS += [("end", OTHER, "end", False), ("drain", OTHER, "end", True), ("leave", AT_ONCE, "end", True)]
# Calls of a successor that found a proposal.
SUCCESSORS = [("raise", MORE, "raise", False), ("tell_again", MORE, "raise", True),
              ("abort_call", FIRST, "raise", True), ("abort", MORE, "abort", False)]
VERBS = {"prepare": "prepare", "tell": "commit", "tell_again": "commit", "drain": "drain", "leave": "drain",
         "abort_call": "abort"}
SEED = int(os.environ.get("JANUS_SEED", "1"))


class FencesTest(HeldCase):
    def setUp(self):
        super().setUp()
        self.more = {}

    def object(self, attention, experts):
        tree = json.loads(super().object(attention, experts))
        tree["spec"]["model"].update(self.more.get("model", {}))
        tree["spec"].update({name: value for name, value in self.more.items() if name != "model"})
        return json.dumps(tree)

    def stop_at(self, process, write, is_call, act):
        """Runs `act`, and stops the operator at that write, or at the call that follows."""
        (self.folders[process.name] / "held").unlink(missing_ok=True)
        self.hold(process, write)
        act()
        wait_for((self.folders[process.name] / "held").exists, f"{process.name} to come to '{write}'")
        if not is_call:
            self.stop(process)
            return
        # The workers are a file. While the test holds its lock, calls do not reach them.
        with open(self.book, "a", encoding="utf-8") as book:
            fcntl.flock(book, fcntl.LOCK_EX)
            self.let_go(process)
            self.assertEqual(self.answer(process), "200")
            wait_for(lambda: any("->" in line and f" {process.pid} " in line
                                 for line in pathlib.Path("/proc/locks").read_text().splitlines()),
                     f"{process.name} to call its workers")
            self.stop(process)

    # What the test observes.

    def writes_by_operator(self):
        """(when, operator, code, verb, resource) of each write in order, without Leases and Events."""
        names = {f"JTI={token}": name for name, token in self.tokens.items()}
        found = []
        for entry in self.audited("janus-operator"):
            if entry["verb"] in ("get", "list", "watch") or entry["objectRef"]["resource"] in ("leases", "events"):
                continue
            credential = entry["user"]["extra"]["authentication.kubernetes.io/credential-id"][0]
            found.append((entry["requestReceivedTimestamp"], names[credential], entry["responseStatus"]["code"],
                          entry["verb"], entry["objectRef"]["resource"]))
        return sorted(found)

    def orders(self, process):
        """The lines of this operator in the workers' file."""
        return [line.split() for line in self.book.read_text().splitlines() if line.split()[5] == str(process.pid)]

    # One position.

    def act_of(self, step):
        """The user's step, and the counts that follow."""
        if step in (OTHER, AT_ONCE):
            self.more = {"model": {"dtype": "Float32"},
                         "rollout": {"type": "Recreate", "drainSeconds": 300 if step == OTHER else 0}}
        counts = (2, 3) if step == MORE else (1, 2)
        return lambda: self.apply(*counts), counts

    def go_through(self, position, is_successor=False):
        name, step, write, is_call = position
        old = self.start_behind_proxy("operator-0")
        wait_for(lambda: self.metrics(old).get("leader_election_master_status") == 1, "the first to lead")
        new = self.start_behind_proxy("operator-1")
        if step != FIRST:
            self.apply(1, 2)
            self.await_whole(1, 2)
        act, counts = self.act_of(step)
        if is_successor:
            # The first operator, stopped at its Prepare, leaves a proposal. Its successor is stopped, and the first one
            # continues.
            self.stop_at(new, write, is_call,
                         lambda: self.stop_at(old, "propose", True, act))
            old, new = new, old
            new.send_signal(signal.SIGCONT)
        else:
            self.stop_at(old, write, is_call, act)
        known = len(self.writes_by_operator())
        self.await_whole(*counts)
        since = self.writes_by_operator()[known:]
        first = next(when for when, who, code, *_ in since if who == new.name and code < 300)
        told = len(self.orders(old))
        if not is_call:
            self.let_go(old)
            self.assertEqual(self.answer(old), "409", "of a write that came after another leader's")
        old.send_signal(signal.SIGCONT)
        wait_for(lambda: self.metrics(old).get("leader_election_master_status") == 0, "it to see that it leads no more")
        if is_call:
            late = wait_for(lambda: self.orders(old)[told:], "its call to go on")
            self.assertEqual(late[0][1], VERBS[name])
        # Another edit, which both operators see.
        self.apply(1, 1)
        self.await_whole(1, 1)
        # The old leader finishes the pass that it was in; workers and server reject its calls.
        self.assertEqual({words[-1] for words in self.orders(old)[told:]}, {"refused"} if is_call else set())
        late = [entry for entry in self.writes_by_operator() if entry[0] > first and entry[1] == old.name]
        self.assertEqual([entry for entry in late if entry[2] < 300], [], "accepted from the old leader")
        made = {FIRST: 3, MORE: 5, OTHER: 6, AT_ONCE: 6}[step]
        self.check_books(made)


def add_tests():
    tests = [(position, False) for position in POSITIONS] + [(position, True) for position in SUCCESSORS]
    chosen = tests
    if "JANUS_SOAK" not in os.environ:
        # One of each kind.
        kinds = [[one for one in tests if (one[0][3], one[1]) == kind] for kind in
                 ((False, False), (True, False), (False, True), (True, True))]
        chosen = [random.Random(SEED).choice(kind) for kind in kinds]
    for position, is_successor in chosen:
        def test(self, position=position, is_successor=is_successor):
            print(f"seed {self.seed()}: {position[0]}, {position[1]}", file=sys.stderr)
            self.go_through(position, is_successor)
        setattr(FencesTest, f"test_stopped_at_{position[0]}_{position[1]}", test)


add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=2)
