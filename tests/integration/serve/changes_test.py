"""Sends requests while a service changes its size and loses workers. None fails, and every token and
the bits of its logits are those of an undisturbed service. bf16, real processes, through the gateway.

JANUS_SOAK=1 changes and loses twenty times each, otherwise twice. JANUS_SEED repeats a run's random
choices. Prints the cost of a change: the longest gap between two tokens of any stream, and its parts.
"""

import http.client
import json
import os
import random
import re
import signal
import sys
import threading
import time
import unittest
from datetime import datetime

from load import ANSWER, CLIENTS, SEED, SOAK, Load
from serving import Service, copy_demo, wait_for

TIMES = 20 if SOAK else 2


class TwoModelLoad(Load):
    """Keeps all answers: only at the end it is known which of two models each must come from."""

    def __init__(self, port):
        self.answers = []  # (request, answer, or what went wrong)
        super().__init__(port)

    def run(self, number):
        draw = random.Random(f"{SEED} {number}")
        while not self.stopping.is_set():
            i = draw.randrange(len(self.requests))
            try:
                answer = self.ask(self.requests[i])[0]
            except (AssertionError, OSError, http.client.HTTPException, ValueError) as error:
                answer = repr(error)
            with self.mu:
                self.answered += 1
                self.answers.append((i, answer))

    def take(self):
        with self.mu:
            answers, self.answers = self.answers, []
        return answers


class Changes(Service, unittest.TestCase):
    def setUp(self):
        self.open(copy_demo)
        self.random = random.Random(SEED)

    def tearDown(self):
        self.close()

    def serve(self, m, n, load_of=Load, **spec):
        self.serve_object({
            **spec,
            "model": {"source": {"type": "HostPath", "hostPath": {"path": str(self.model)}},
                      "dtype": "BFloat16"},
            "roles": {"attention": {"replicas": m, "maxBatchSize": 8}, "experts": {"replicas": n}},
        }, "--debug-logits-hash")
        # Drain its output, so that it never waits for a reader.
        threading.Thread(target=self.janusctl.stdout.read, daemon=True).start()
        load = load_of(self.port)
        load.await_answers(2 * CLIENTS)
        return load

    def check(self, load):
        load.stop()
        self.assertEqual(load.wrong, [])
        print(f"{load.answered} answers, none failed, all tokens and bits as undisturbed", file=sys.stderr)
        self.janusctl.send_signal(signal.SIGINT)
        wait_for(lambda: self.janusctl.poll() is not None, "the end")
        self.assertEqual(self.janusctl.returncode, 0, self.janusctl.stderr.read())
        self.assert_nothing_left()

    def epochs(self):
        """(when, "prepared" or "committed", epoch), by the operator's log."""
        found = re.findall(r'^(\S+)Z .* note="epoch (\d+) is (prepared|committed)',
                           (self.logs / "operator.log").read_text(), re.M)
        return [(datetime.fromisoformat(when + "+00:00").timestamp(), what, int(epoch))
                for when, epoch, what in found]

    def ready_at(self, m, n):
        """Whether this many instances serve by the newest spec."""
        services = self.objects("services")
        if not services:
            return False
        service = services[0]
        ready = next(c for c in service["status"]["conditions"] if c["type"] == "Ready")
        topology = service["status"].get("topology", {})
        return (ready["status"] == "True"
                and ready["observedGeneration"] == service["metadata"]["generation"]
                and (topology.get("m"), topology.get("n")) == (m, n))

    def tell(self, what, began, load):
        """Prints the cost: the longest gap, and the steps of each epoch since `began`."""
        steps = ", ".join(f"epoch {epoch} {said} at {1e3 * (when - began):.0f} ms"
                          for when, said, epoch in self.epochs() if when >= began)
        print(f"{what}: longest gap {1e3 * load.longest_gap(began):.0f} ms; {steps}", file=sys.stderr)

    def test_m_and_n_change_under_load(self):
        load = self.serve(1, 2)
        for _ in range(TIMES):
            for m, n in ((2, 4), (1, 2)):
                began = time.time()
                self.ctl("scale", "--attention", str(m), "--experts", str(n), "--wait")
                wait_for(lambda m=m, n=n: self.ready_at(m, n), f"{m}A{n}E")
                load.await_answers(CLIENTS)
                self.tell(f"to {m}A{n}E", began, load)
        self.check(load)

    def test_only_one_of_them_changes_under_load(self):
        load = self.serve(1, 2)
        for m, n in ((2, 2), (2, 3), (1, 3), (1, 2)):
            began = time.time()
            self.ctl("scale", "--attention", str(m), "--experts", str(n), "--wait")
            load.await_answers(CLIENTS)
            self.tell(f"to {m}A{n}E", began, load)
        self.check(load)

    def test_settings_change_under_load(self):
        load = self.serve(2, 2)
        # First a setting that is constant for an attention pod's life, so new pods replace it; then
        # one of the epoch, without a new pod.
        for spec, is_for_life in (
                ({"roles": {"attention": {"maxBatchSize": 4}}}, True),
                ({"roles": {"attention": {"kvCache": {"size": "64Mi"}}}}, True),
                ({"roles": {"experts": {"scheduling": "AEBSGreedy", "spareSlots": 1}}}, False),
                ({"slo": {"tpot": {"targetMilliseconds": 40}}, "pipeline": {"microBatches": 2}}, False)):
            before = self.names()
            began = time.time()
            self.edit(spec)
            wait_for(lambda: self.ready_at(2, 2), f"{spec} to be carried out", ANSWER)
            load.await_answers(CLIENTS)
            self.tell(json.dumps(spec), began, load)
            gone = {name for name in before if is_for_life and name.startswith("attention")}
            self.assertEqual(before - self.names(), gone)
        self.check(load)

    def test_another_model_takes_the_place_under_load(self):
        load = self.serve(2, 2, TwoModelLoad, rollout={"type": "Recreate"})
        first = load.wanted
        models = [first]
        # First all answers have time to end; then none has.
        for dtype, drain in (("Float32", 300), ("BFloat16", 0)):
            before = self.names()
            load.await_answers(CLIENTS)
            self.assertEqual([a for i, a in load.take() if a != models[-1][i]], [], "undisturbed")
            began = time.time()
            self.edit({"model": {"dtype": dtype}, "rollout": {"drainSeconds": drain}})
            wait_for(lambda: self.ready_at(2, 2), f"{dtype} to be carried out", ANSWER)
            # All earlier requests have an answer.
            load.await_answers(3 * CLIENTS)
            self.tell(f"{dtype} after a drain of {drain} s", began, load)
            self.assertEqual(before & self.names(), set(), "all pods are new ones")
            answers = load.take()
            models.append([load.ask(request)[0] for request in load.requests])
            of_old, of_new = models[-2:]
            counts = {"old": 0, "new": 0, "ended": 0}
            for i, answer in answers:
                if isinstance(answer, str):
                    self.assertIn("ask again", answer)
                    self.assertEqual(drain, 0, "it had the time to come to its end")
                    counts["ended"] += 1
                else:
                    self.assertIn(answer, (of_old[i], of_new[i]), "a mixed answer")
                    counts["old" if answer == of_old[i] else "new"] += 1
            print(f"answers meanwhile: {counts}", file=sys.stderr)
            self.assertGreater(counts["new"], 0)
            if drain == 0:
                self.assertGreater(counts["ended"], 0)
        self.assertNotEqual(models[1], first, "another arithmetic has other bits")
        self.assertEqual(models[2], first, "the first one again")
        load.take()
        self.check(load)

    def names(self):
        """The running instances: attention-1, experts-2, ..."""
        return {"-".join(pod["metadata"]["name"].removeprefix("golden-").split("-")[::2])
                for pod in self.objects("pods")
                if "gateway" not in pod["metadata"]["name"] and "deletionTimestamp" not in pod["metadata"]}

    def lose(self, signal_number, what):
        load = self.serve(2, 2)
        for i in range(TIMES):
            for role in ("attention", "experts"):
                time.sleep(self.random.uniform(0.0, 0.5))  # anywhere in a step
                name = f"{role}-{self.random.choice([1, 2])}"
                victim = self.pid_of(name)
                began = time.time()
                os.kill(victim, signal_number)
                wait_for(lambda v=victim, n=name: self.find_pid(n) not in (None, v),
                         f"{name} to be started again", ANSWER)
                wait_for(lambda: self.ready_at(2, 2), "all of the service", ANSWER)
                load.await_answers(CLIENTS)
                self.tell(f"{name} {what}", began, load)
        self.check(load)

    def test_workers_are_killed_under_load(self):
        self.lose(signal.SIGKILL, "killed")

    @unittest.skipUnless(SOAK, "twenty seconds each: the liveness probe's")
    def test_workers_hang_for_ever_under_load(self):
        self.lose(signal.SIGSTOP, "stopped for ever")

    def test_workers_stand_still_for_a_while_under_load(self):
        load = self.serve(2, 2)
        for _ in range(TIMES):
            for role in ("attention", "experts"):
                name = f"{role}-{self.random.choice([1, 2])}"
                began = time.time()
                victim = self.pid_of(name)
                os.kill(victim, signal.SIGSTOP)
                # Shorter and longer than what its peers take for a loss.
                time.sleep(self.random.uniform(0.0, 8.0 if SOAK else 4.0))
                os.kill(victim, signal.SIGCONT)
                load.await_answers(2 * CLIENTS)
                wait_for(lambda: self.ready_at(2, 2), "all of the service", ANSWER)
                self.tell(f"{name} stood still", began, load)
        self.check(load)


if __name__ == "__main__":
    unittest.main(verbosity=2)
