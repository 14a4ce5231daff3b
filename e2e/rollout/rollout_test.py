"""A service that changes to another model, in real pods on two nodes: python3 e2e/rollout/rollout_test.py

It is asked without a pause meanwhile. No request may fail, and every answer must come from a single model.
"""

import json
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import wait_for  # noqa: E402
from served_case import OF_WORKERS, ServedCase  # noqa: E402


def spoil(folder):
    """Another model of the same shape: changes one bit of each number's mantissa, an eighth of it up or down."""
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    data[begin::2] = data[begin::2].translate(bytes(byte ^ 0x10 for byte in range(256)))
    weights.write_bytes(data)


class RolloutTest(ServedCase):
    def edit(self, **model):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", json.dumps({"spec": {"model": model}}))

    def pods(self):
        return {uid for uid, *_ in self.states(OF_WORKERS).values()}

    def await_replaced(self, before):
        """All old pods have gone; there is one topology."""
        def holds():
            return self.condition("Progressing")[1] == "Complete" and not before & self.pods()

        wait_for(holds, "the end of the old model's pods")
        self.await_served("demo")
        self.assertEqual(len(self.get("moetopologies")["items"]), 1)

    def go_over(self, rollout, **model):
        """Texts before and after the change, by prompt."""
        self.apply("demo", "demo", gateway={"replicas": 2}, rollout=rollout,
                   roles={"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 2}})
        self.await_served("demo")
        first = self.check_answers(self.ask_demo())
        askers, before = self.ask_demo(), self.pods()
        self.edit(**model)
        self.await_replaced(before)
        askers.await_more(12)
        meanwhile, last = self.answers_of(askers), self.check_answers(self.ask_demo())
        self.assertNotEqual(first, last, "these models cannot be told apart")
        self.assertEqual(meanwhile, {prompt: first[prompt] | last[prompt] for prompt in first})

    def other_model(self, name):
        shutil.copytree(self.models / "demo", self.models / name)
        spoil(self.models / name)
        return self.models / name

    def test_another_model_comes_beside_the_one_that_serves(self):
        other = self.other_model("beside")
        # Also another tokenizer: a digest of every byte shows the difference.
        with open(other / "generation_config.json", "a", encoding="utf-8") as config:
            config.write("\n")
        self.go_over({"drainSeconds": 60}, source={"hostPath": {"path": str(other)}})

    def test_another_model_takes_the_place_of_the_one_that_served(self):
        self.go_over({"type": "Recreate", "drainSeconds": 60},
                     source={"hostPath": {"path": str(self.other_model("instead"))}})


if __name__ == "__main__":
    unittest.main(verbosity=2)
