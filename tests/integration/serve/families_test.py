"""Every family, served by real processes over HTTP, gives the tokens and experts of the reference implementation
(tests/golden), and logits of the same bits whatever the split and the transport."""

import array
import base64
import concurrent.futures
import functools
import json
import shutil
import unittest

from serving import GOLDEN, TEXT, Service, copy_demo, copy_golden

# (m, n, transport). The others must equal the first.
CONFIGURATIONS = [(1, 1, "SharedMemory"), (2, 3, "SharedMemory"), (2, 2, "TCP")]


def cases_of(family):
    """The cases of the checkpoint's unchanged config.json."""
    cases = json.loads((GOLDEN / family / "golden.json").read_text())["cases"]
    return [case for case in cases if case["config"] == "config.json"]


def experts_of(family):
    """By case: the ids [prompt and greedy_ids, layers, k] of the reference's router, as one list."""
    data = (GOLDEN / family / "golden_experts.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:start])
    out = {}
    for name, tensor in tensors.items():
        first, end = tensor["data_offsets"]
        ids = [-1 if id == 255 else id for id in data[start + first : start + end]]
        positions, layers, k = tensor["shape"]
        out[name.removesuffix(".experts")] = (ids, layers * k)
    return out


def decoded(routed):
    return array.array("i", base64.b64decode(routed)).tolist()


class Families(Service, unittest.TestCase):
    def answers(self, configuration, cases):
        """(token ids, hashes of their logits, experts) by case, all requested at once."""
        m, n, transport = configuration
        self.serve_object({
            "model": {"source": {"type": "HostPath", "hostPath": {"path": str(self.model)}}},
            "exchange": {"transport": transport},
            "roles": {"attention": {"replicas": m}, "experts": {"replicas": n}},
        }, "--debug-logits-hash")
        self.assertEqual(len(self.processes()), m + n + 1)

        def ask(case, start=0):
            answer = self.post({
                "model": "golden", "prompt": case["prompt"], "max_tokens": len(case["greedy_ids"]),
                "temperature": 0, "logits_hash": True, "return_token_ids": True,
                "return_routed_experts": True, "routed_experts_start_len": start,
            })
            choice = answer["choices"][0]
            experts = decoded(answer["sglext"]["routed_experts"])
            return choice["token_ids"], choice["logits_hashes"], experts

        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            got = list(pool.map(ask, cases))
        # The prefix cache has these prompts now. It may be used only before the first position with experts.
        long, (tokens, hashes, experts) = cases[-1], got[-1]
        self.assertEqual(ask(long), (tokens, hashes, experts))
        width = len(experts) // (len(long["prompt"]) + len(tokens) - 1)
        self.assertEqual(ask(long, 100), (tokens, hashes, experts[100 * width :]))
        self.stop()
        return got

    def check(self, family):
        cases, reference = cases_of(family), experts_of(family)
        self.assertEqual([len(case["prompt"]) for case in cases], [1, 17, 300])
        self.open(functools.partial(copy_golden, family=family))
        try:
            first = None
            for configuration in CONFIGURATIONS:
                with self.subTest(configuration=configuration):
                    got = self.answers(configuration, cases)
                    for case, (tokens, hashes, experts) in zip(cases, got):
                        self.assertEqual(tokens, case["greedy_ids"], case["name"])
                        self.assertEqual(len(set(hashes)), len(tokens), case["name"])
                        ids, width = reference[case["name"]]
                        self.assertEqual(experts, ids[:-width], case["name"])
                    first = first or got
                    self.assertEqual(got, first)
        finally:
            self.close()

    def test_mixtral(self):
        self.check("mixtral")

    def test_glm4_moe(self):
        self.check("glm4_moe")

    def test_gpt_oss(self):
        self.check("gpt_oss")

    def test_llama4(self):
        self.check("llama4")

    def test_minimax_m2(self):
        self.check("minimax_m2")

    def test_olmoe(self):
        self.check("olmoe")

    def test_qwen2_moe(self):
        self.check("qwen2_moe")

    def test_qwen3_moe(self):
        self.check("qwen3_moe")

    def test_deepseek_v2(self):
        self.check("deepseek_v2")

    def test_deepseek_v2_lite(self):
        self.check("deepseek_v2_lite")

    def test_deepseek_v3(self):
        self.check("deepseek_v3")


def copy_kimi(folder):
    """The demo model with a vocabulary in the format of tiktoken."""
    copy_demo(folder)
    for name in TEXT:
        (folder / name).unlink()
    for name in ("tiktoken.model", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "tokenizer_tiktoken" / name, folder)


class Tiktoken(Service, unittest.TestCase):
    def test_text_goes_both_ways(self):
        self.open(copy_kimi)
        try:
            self.serve_object({
                "model": {"source": {"type": "HostPath", "hostPath": {"path": str(self.model)}}},
                "roles": {"attention": {"replicas": 1}, "experts": {"replicas": 2}},
            })
            golden = json.loads((GOLDEN / "tokenizer_tiktoken" / "cases.json").read_text())
            for case in golden["encode"][::10]:
                got = self.post({"model": "golden", "prompt": case["text"]}, "/tokenize")
                self.assertEqual(got["tokens"], case["ids"], case["text"])
            chat = next(case for case in golden["chat"] if "text" in case)
            answer = self.post({
                "model": "golden", "messages": chat["messages"], "max_tokens": 5, "return_token_ids": True,
                "add_generation_prompt": chat["add_generation_prompt"],
            }, "/v1/chat/completions")
            self.assertEqual(answer["usage"]["prompt_tokens"], len(chat["ids"]))
            # The worker reads the vocabulary too: it masks what a grammar forbids.
            answer = self.post({
                "model": "golden", "prompt": "x", "max_tokens": 20,
                "structured_outputs": {"choice": ["\u4f60\u597d", "world"]},
            })
            self.assertIn(answer["choices"][0]["text"], ["\u4f60\u597d", "world"])
        finally:
            self.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
