"""Several nodes on one machine: the links between them are measured. The exchange mode and the side of the gate follow
from that, and a service changes them while requests run."""

import pathlib
import re
import threading
import unittest
import urllib.request

from serving import DEADLINE, Service, copy_demo, free_ports, scaled, wait_for  # isort: skip (it sets the path)
from load import ANSWER, CLIENTS, Load

MODES = ("Direct", "TwoPhaseSingle", "TwoPhaseParallel")
NODES = ("--nodes", "2x2,1x2", "--name", "golden")
EXPERT_NODES = ("--nodes", "1x2,2x2", "--name", "golden")
# A status in which only such words have changed is written once a minute.
STATUS = scaled(180)


class ExchangeMode(Service, unittest.TestCase):
    def setUp(self):
        self.open(copy_demo)

    def tearDown(self):
        self.close()

    def topology(self):
        services = self.objects("services")
        return services[0]["status"].get("topology", {}) if services else {}

    def test_auto_takes_a_mode_by_its_measured_links_and_says_why(self):
        self.start_serving(*NODES)
        before = self.complete("ab")
        reason = wait_for(lambda: "; measured " in self.topology().get("exchangeReason", "") and self.topology()["exchangeReason"],
                          "a mode by measured links", STATUS)
        self.assertRegex(reason, r"; measured \S+ [MG]bit/s, \S+ ms and \S+ us a message; ")
        chosen = reason.split(":")[0]
        times = {mode: float(re.search(rf"\b{mode}:? (\S+) ms", reason)[1]) for mode in MODES}
        # The first epoch has the default, which stays unless another mode gains much.
        if chosen == "TwoPhaseParallel":
            self.assertLessEqual(times[chosen], min(times.values()) / 0.74 + 0.11, reason)
        else:
            self.assertLessEqual(times[chosen], times["TwoPhaseParallel"] * 0.76, reason)
        wait_for(lambda: self.topology()["exchangeMode"] == chosen, "an epoch in that mode", STATUS)
        self.assertIn("Exchange:", self.ctl("describe", "golden"))
        self.assertIn(chosen + ": ", self.ctl("describe", "golden"))
        self.assertEqual(self.complete("ab"), before)
        logs = "".join(path.read_text() for path in self.logs.rglob("*.log"))
        self.assertEqual(len(set(re.findall(r'link measured.*?"?node"?[=:]"?([\w-]+)', logs))), 1, "there is one expert node")
        self.stop()

    def test_a_mode_of_the_user_stays(self):
        self.start_serving(*NODES, "--exchange-mode", "TwoPhaseSingle")
        reason = wait_for(lambda: self.topology().get("exchangeReason"), "the reason", STATUS)
        self.assertEqual(reason, "TwoPhaseSingle: spec.exchange.mode asks for it")
        self.assertEqual(self.topology()["exchangeMode"], "TwoPhaseSingle")
        self.stop()

    def test_workers_of_a_machine_let_the_kernel_choose_their_ports(self):
        """In a range of ports UCX waits for a free one: beside other services, in the next epoch, after a restart."""
        self.start_serving(*NODES)
        environments = [pathlib.Path(f"/proc/{pid}/environ").read_bytes() for pid, _ in self.processes()]
        self.assertEqual(len(environments), 7, "6 workers and a gateway")
        self.assertFalse([one for one in environments if b"UCX_TCP_PORT_RANGE=" in one])
        self.stop()

    def committed(self):
        """What the record of the topology says; empty while another epoch is prepared."""
        topologies = self.objects("topologies")
        spec = topologies[0]["spec"] if topologies else {}
        return {} if "proposed" in spec else spec.get("committed", {})

    def test_the_gate_changes_its_side_under_load(self):
        first = free_ports(6)
        self.start_serving(*EXPERT_NODES, "--exchange-mode", "TwoPhaseParallel", "--gate", "experts", "--debug-logits-hash",
                           "--worker-metrics-port", str(first))
        threading.Thread(target=self.janusctl.stdout.read, daemon=True).start()
        load = Load(self.port)
        workers = {pid for pid, _ in self.processes()}
        epochs = [self.committed()["epoch"]]

        def gated():
            """Rounds in which the first attention instance has computed the gate."""
            with urllib.request.urlopen(f"http://127.0.0.1:{first}/metrics", timeout=DEADLINE) as reply:
                found = re.search(r'^janus_round_seconds_count{role="attention",.*module="gate"} (\S+)$',
                                  reply.read().decode(), re.M)
            return float(found[1]) if found else 0

        for exchange, gate in (({"gate": "Attention"}, "Attention"), ({"gate": "Experts", "mode": "Direct"}, "Experts"),
                               ({"gate": "Attention"}, "Attention"), ({"gate": "Experts"}, "Experts")):
            self.edit({"exchange": exchange})
            wait_for(lambda g=gate: self.committed().get("gate") == g, f"the gate on {gate}", ANSWER)
            epochs.append(self.committed()["epoch"])
            load.await_answers(CLIENTS)  # the last step of the epoch before has ended
            before = gated()
            load.await_answers(CLIENTS)
            self.assertEqual(gated() > before, gate == "Attention", exchange)
        self.assertEqual(epochs, list(range(epochs[0], epochs[0] + 5)), "each edit is one epoch")
        load.stop()
        self.assertEqual(load.wrong, [])
        self.assertGreater(load.answered, 8 * CLIENTS)
        self.assertEqual({pid for pid, _ in self.processes()}, workers, "no worker was started again")
        log = (self.logs / "operator.log").read_text()
        self.assertIn("in mode TwoPhaseParallel with the gate on attention", log)
        self.assertIn("in mode Direct with the gate on experts", log)
        self.stop()

    def test_auto_compares_both_sides_of_the_gate(self):
        self.start_serving(*EXPERT_NODES)
        before = self.complete("ab")
        reason = wait_for(lambda: "; measured " in self.topology().get("exchangeReason", "") and self.topology()["exchangeReason"],
                          "a side by measured links", STATUS)
        found = re.match(r"(\w+), gate on (\w+): (\S+) ms a round, gate on (\w+) (\S+) ms, ", reason)
        self.assertTrue(found, reason)
        mode, gate, chosen, _, other = found.groups()
        # What is chosen, at first the gate on experts, stays unless the other side gains much: links are measured again.
        self.assertLessEqual(float(chosen), float(other) / 0.74 + 0.11, reason)
        for one in MODES:
            self.assertRegex(reason, rf"\b{one}(,| \S+ ms, gate on attention \S+ ms)", reason)
        wait_for(lambda: (self.topology()["exchangeMode"], self.topology()["gate"].lower()) == (mode, gate),
                 "an epoch with that", STATUS)
        self.assertEqual(self.complete("ab"), before)
        self.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
