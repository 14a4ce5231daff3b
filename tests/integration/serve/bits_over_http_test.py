"""The bits of the logits do not depend on m, n, replicas, or other requests. Checked through the
gateway, with real processes. JANUS_SOAK=1 sends more requests."""

import concurrent.futures
import os
import random
import subprocess
import time
import unittest

from serving import BIN, Service, copy_demo, copy_golden, draw_seed

SOAK = bool(os.environ.get("JANUS_SOAK"))
# (m, n, slots per instance); eight experts, so that what is beyond them are replicas.
CONFIGURATIONS = [(1, 1, 8), (1, 3, 3), (2, 2, 4), (2, 2, 7), (3, 5, 2), (3, 5, 4)]
if SOAK:
    CONFIGURATIONS += [(1, 3, 6), (1, 3, 8), (3, 5, 8), (4, 4, 3), (1, 8, 1), (5, 1, 8)]
REQUESTS = 150 if SOAK else 12
SEED = draw_seed()


def requests_of(vocabulary):
    draw = random.Random(SEED)
    out = []
    for i in range(REQUESTS):
        out.append({
            "model": "golden",
            "prompt": [draw.randrange(8, vocabulary) for _ in range(draw.choice([1, 5, 17, 64, 150]))],
            "max_tokens": draw.randint(4, 20),
            "temperature": draw.choice([0, 0.6, 1.0, 1.5]),
            "top_p": draw.choice([1, 0.9]),
            "seed": i,
            "ignore_eos": True,
            "logits_hash": True,
            "return_token_ids": True,
        })
    return out


class Bits(Service, unittest.TestCase):
    def answers(self, configuration, dtype, requests, clients, cache="Auto", serve=None):
        """(token ids, hashes) by request, sent in random order at random times."""
        m, n, slots = configuration
        serve = serve or self.serve_object
        serve({
            "model": {"source": {"type": "HostPath", "hostPath": {"path": str(self.model)}},
                      "dtype": dtype},
            "device": "CPU",
            "roles": {"attention": {"replicas": m, "maxBatchSize": 8, "kvCache": {"dtype": cache}},
                      "experts": {"replicas": n, "slotsPerInstance": slots}},
        }, "--debug-logits-hash")
        self.assertEqual(len(self.processes()), m + n + 1)
        draw = random.Random(f"{SEED} {configuration}")
        order = list(range(len(requests)))
        draw.shuffle(order)
        pauses = [draw.choice([0, 0.01, 0.05]) for _ in order]

        def ask(i):
            time.sleep(pauses[i])  # arrivals that are not in step with the steps
            choice = self.post(requests[i])["choices"][0]
            return choice["token_ids"], choice["logits_hashes"]

        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            got = dict(zip(order, pool.map(ask, order)))
        self.stop()
        return [got[i] for i in range(len(requests))]

    def check(self, dtype, copy_model, vocabulary):
        self.open(copy_model)
        try:
            requests = requests_of(vocabulary)
            alone = self.answers(CONFIGURATIONS[0], dtype, requests, clients=1)
            for request, (tokens, hashes) in zip(requests, alone):
                self.assertEqual(len(tokens), request["max_tokens"])
                self.assertEqual(len(hashes), len(tokens))
                self.assertGreater(len(set(hashes)), 1)
            for configuration in CONFIGURATIONS:
                with self.subTest(configuration=configuration):
                    got = self.answers(configuration, dtype, requests, clients=6)
                    for i, (wanted, had) in enumerate(zip(alone, got)):
                        self.assertEqual(had, wanted, f"request {i} of {requests[i]}")
        finally:
            self.close()

    def test_fp32_logits_have_equal_bits_in_every_configuration(self):
        self.check("Float32", copy_golden, 512)

    def test_bf16_logits_have_equal_bits_in_every_configuration(self):
        self.check("BFloat16", copy_demo, 3072)

    def test_bits_are_equal_over_several_nodes_in_every_exchange_mode(self):
        self.open(copy_demo)
        try:
            requests = requests_of(3072)[:6]
            alone = self.answers(CONFIGURATIONS[0], "BFloat16", requests, 1)
            for mode, gate in [("Direct", "Experts"), ("Direct", "Attention"), ("TwoPhaseSingle", "Experts"),
                               ("TwoPhaseParallel", "Attention"), ("Auto", "Experts")]:
                def nodes(spec, *arguments):
                    self.start_serving("--nodes", "2x2,2x2", "--exchange-mode", mode, "--gate", gate, "--name",
                                       "golden", *arguments)
                with self.subTest(mode=mode, gate=gate):
                    several = self.answers((4, 4, 0), "Auto", requests, 4, serve=nodes)
                    self.assertEqual(several, alone)
        finally:
            self.close()

    def check_own_bits(self, options_of_nodes):
        """A single pair and four nodes, each with its options, have equal bits, which differ from those without options."""
        requests = requests_of(3072)[:4]
        plain = self.answers(CONFIGURATIONS[0], "BFloat16", requests, 1)
        results = []
        for (nodes, counts), options in zip(
                ((["--attention", "1", "--experts", "1"], (1, 1, 0)),
                 (["--nodes", "2x2,2x2", "--exchange-mode", "TwoPhaseParallel"], (4, 4, 0))), options_of_nodes):
            def served(spec, *arguments):
                self.start_serving(*nodes, *options, "--name", "golden", *arguments)
            results.append(self.answers(counts, "Auto", requests, 4, serve=served))
        self.assertEqual(results[0], results[1])
        for i, (_, hashes) in enumerate(results[0]):
            self.assertNotEqual(hashes, plain[i][1], f"request {i}: the option had no effect")

    def test_an_exchange_in_fp8_has_bits_of_its_own_in_every_configuration_and_mode(self):
        self.open(copy_demo)
        try:
            self.check_own_bits([["--compression", "fp8"]] * 2)
        finally:
            self.close()

    def test_exact_sums_have_bits_of_their_own_in_every_configuration_and_mode(self):
        self.open(copy_demo)
        try:
            printed = subprocess.run([BIN / "janusctl", "calibrate", self.model], check=True, capture_output=True,
                                     text=True).stdout
            exponents = printed.split("[")[1].split("]")[0].replace(" ", "")
            sums = ["--sum", "fixed-point"]
            # The first calibrates at its start, and finds the same exponents.
            self.check_own_bits([sums, [*sums, f"--sum-exponents={exponents}"]])
        finally:
            self.close()

    def test_a_cache_in_fp8_has_bits_of_its_own_in_every_configuration(self):
        self.open(copy_demo)
        try:
            requests = requests_of(3072)[:4]
            plain = self.answers(CONFIGURATIONS[0], "BFloat16", requests, 1)
            alone = self.answers(CONFIGURATIONS[0], "BFloat16", requests, 1, "FP8")
            several = self.answers(CONFIGURATIONS[-1], "BFloat16", requests, 4, "FP8")
            self.assertEqual(several, alone)
            for i, (_, hashes) in enumerate(alone):
                self.assertNotEqual(hashes, plain[i][1], f"request {i}: the field reached nobody")
        finally:
            self.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
