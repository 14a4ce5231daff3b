"""Several nodes on one machine: the links between them are measured, and the exchange mode follows from that."""

import re
import unittest

from serving import Service, copy_demo, scaled, wait_for  # isort: skip (it sets the path)

MODES = ("Direct", "TwoPhaseSingle", "TwoPhaseParallel")
NODES = ("--nodes", "2x2,1x2", "--name", "golden")
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
