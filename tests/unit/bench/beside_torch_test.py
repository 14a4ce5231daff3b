"""The comparison with torch and transformers: which cases run, and what is computed from their times. torch does not run."""

import contextlib
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench/gpu"), str(pathlib.Path(__file__).parent)]
sys.dont_write_bytecode = True

import torch_stub  # noqa: E402

torch = torch_stub.install()
import free_choice  # noqa: E402
import transformers_decode  # noqa: E402
from steps_and_figures import FIGURES  # noqa: E402


class Clock:
    """A GPU that has finished its queue `queue_cycles` after it began; a spin of up to that time is too short."""

    def __init__(self, queue_cycles):
        self.queue_cycles, self.spun, self.spins = queue_cycles, 0, []

    def sleep(self, cycles):
        self.spun = cycles
        self.spins.append(cycles)

    def event(self, enable_timing=False):
        return types.SimpleNamespace(record=lambda: None, query=lambda: self.spun < self.queue_cycles,
                                     elapsed_time=lambda end: 0.5)

    def install(self):
        torch.cuda = types.SimpleNamespace(synchronize=lambda: None, _sleep=self.sleep, Event=self.event)


class FreeChoice(unittest.TestCase):
    def compare(self, *lines, took=10.0, is_ahead=True):
        """The lines of the comparison, by name."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            with mock.patch.object(free_choice, "Gpu", lambda: None), \
                    mock.patch.object(free_choice, "fastest", lambda gpu, choices: (took, is_ahead, choices[0])):
                free_choice.compare(path)
            written = [json.loads(line) for line in path.read_text().splitlines()[len(lines):]]
        return {line["bench"]: line for line in written}

    def test_what_its_launch_bounds_is_left_out_and_said_to_be(self):
        names = [choices[0].name for choices in free_choice.cases()]
        written = self.compare(*({"bench": choices[0].name, "us": 1.0, "bytes": 1, "tflops": 1.0}
                                 for choices in free_choice.all_cases()))
        self.assertIn("DeepSeek-V3 q_a bf16 fast, 8 rows", names)
        for name in ("DeepSeek-V3 kv_a bf16 fast, 8 rows", "norm of 1 x 7168, 64 rows",
                     "Qwen3-235B attention bf16 fast, batch 1 context 512"):
            self.assertNotIn(name, names)
            self.assertNotIn(f"{name}, torch", written)
        said = written["free choice"]
        self.assertEqual((said["left_out"], said["why"]),
                         (len(free_choice.all_cases()) - len(names), "less than 16 MiB: bound by the launch"))
        self.assertGreater(said["left_out"], 0)

    def test_the_table_of_figures_expects_these_cases(self):
        named = [f"{choices[0].name}, torch" for choices in free_choice.cases()]
        of_price = [figure for figure in FIGURES if figure[3] == "price"]
        for what, _, cases, _, expected in of_price:
            self.assertEqual(sum(re.fullmatch(cases, name) is not None for name in named), expected, what)
        self.assertEqual(sum(figure[4] for figure in of_price), len(named))

    def test_prices(self):
        written = self.compare(
            {"bench": "norm of 1 x 7168, 4096 rows", "us": 12.0, "bytes": 1},
            {"bench": "DeepSeek-V3 o bf16 fast, 8 rows", "us": 20.0, "bytes": 2 * (7168 * 16384 + 8 * (7168 + 16384))},
            {"bench": "DeepSeek-V3 bf16 wgmma, 8 experts of 512", "us": 1.0, "bytes": 1, "tflops": 10.0},
            {"bench": "DeepSeek-V3 q_b bf16 fast, 8 rows", "us": 20.0, "bytes": 1, "host_too_slow": 1})
        norm = written["norm of 1 x 7168, 4096 rows, torch"]
        self.assertEqual((norm["price"], norm["us"], norm["ours_us"]), (0.2, 10.0, 12.0), "both times of one work")
        self.assertEqual(norm["bytes"], 4096 * 7168 * 6 + 2 * 7168)
        self.assertEqual(written["DeepSeek-V3 o bf16 fast, 8 rows, torch"]["price"], 1.0)
        flops = 6 * 4096 * 7168 * 2048
        self.assertAlmostEqual(written["DeepSeek-V3 bf16 wgmma, 8 experts of 512, torch"]["price"],
                               flops / 10.0 / 1e6 / 10.0 - 1, 3)
        self.assertEqual(len(written), 5, "what we have not is not timed, and one says what is left out")
        self.assertEqual([name for name, line in written.items() if "host_too_slow" in line],
                         ["DeepSeek-V3 q_b bf16 fast, 8 rows, torch"])

    def test_a_line_says_where_python_was_not_ahead(self):
        ours = {"bench": "DeepSeek-V3 o bf16 fast, 8 rows", "us": 20.0, "bytes": 1}
        for is_ahead, said in ((False, 1), (True, None)):
            line = self.compare(ours, is_ahead=is_ahead)["DeepSeek-V3 o bf16 fast, 8 rows, torch"]
            self.assertEqual(line.get("host_too_slow"), said)

    def test_a_spin_is_as_long_as_python_needs(self):
        gpu = object.__new__(free_choice.Gpu)
        gpu.arena = None
        case = free_choice.Case("a case", 1, lambda arena: lambda call: None, "nothing")
        spin, most = free_choice.SPIN_CYCLES, free_choice.MOST_SPIN_CYCLES
        for needed, spins, is_ahead in ((spin, [spin], True), (3 * spin, [spin, 4 * spin], True),
                                        (most + 1, [spin, 4 * spin, 16 * spin], False)):
            clock = Clock(needed)
            clock.install()
            self.assertEqual(gpu.microseconds(case), (500.0, is_ahead))
            self.assertEqual(sorted(set(clock.spins)), spins)


class Transformers(unittest.TestCase):
    def test_its_layers_are_those_of_the_service(self):
        names = ["Mixtral of 2 layers, 1A1E, batch 64, prompt 64, answer 64",
                 "Mixtral of 2 layers, 1A1E, processes, batch 64, prompt 64, answer 64",
                 "Mixtral of 2 layers, MPS, 1A1E, batch 64, prompt 64, answer 64"]
        self.assertIsNone(transformers_decode.layers_served(names))
        names.append("Mixtral of 24 layers, 1A1E, batch 64, prompt 64, answer 128")
        self.assertEqual(transformers_decode.layers_served(names), 24)

    def test_contexts_are_those_of_the_service(self):
        text = (ROOT / "bench/gpu/serve_gpu_bench.cc").read_text()
        loads = re.search(r"kLoads\[\] = \{(.*)\};", text)[1]
        self.assertEqual(set(re.findall(r"\{\d+, (\d+), (\d+)\}", loads)),
                         {(str(transformers_decode.PROMPT), str(transformers_decode.ANSWER))})

    def test_stands_beside_what_was_served(self):
        made = []
        torch.device = lambda name: contextlib.nullcontext()
        torch.cuda = types.SimpleNamespace(empty_cache=lambda: None)
        sys.modules["transformers"].__version__ = "stub"
        ours = [{"bench": f"V2-Lite, 1A1E, batch {batch}, prompt 64, answer 128", "tpot_ms": 3.0} for batch in (1, 64)]
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(transformers_decode, "v2_lite", lambda layers: made.append(layers) or mock.Mock()), \
                mock.patch.object(transformers_decode, "tpot_ms", lambda model, batch, answer: 2.0):
            path = pathlib.Path(folder) / "results"
            path.write_text("".join(json.dumps(line) + "\n" for line in ours))
            transformers_decode.compare(path)
            written = [json.loads(line) for line in path.read_text().splitlines()[2:]]
        self.assertEqual([(line["bench"], line["ours_over"]) for line in written],
                         [("V2-Lite, transformers, batch 64", 1.5), ("V2-Lite, transformers, batch 1", 1.5)])
        self.assertEqual(made, [27])

    def test_a_token_takes_the_mean_of_all_behind_the_first(self):
        asked = []

        def seconds(model, batch, answer):
            asked.append(answer)
            return 0.254
        with mock.patch.object(transformers_decode, "decode_seconds", seconds):
            self.assertAlmostEqual(transformers_decode.tpot_ms(None, 64, 128), 2.0)
        self.assertEqual(asked, [transformers_decode.WARM_UP, 128])


if __name__ == "__main__":
    unittest.main(verbosity=2)
