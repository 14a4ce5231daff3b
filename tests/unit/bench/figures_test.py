"""The table of figures: which lines count for which row, and when a figure is met."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/gpu"))
sys.dont_write_bytecode = True

import figures  # noqa: E402


def bench(name, **fields):
    return {"bench": name, **fields}


# As the programs write them.
LINES = [
    {"run": {"gpu": "a GPU", "driver": "1", "commit": "abc", "command": "scripts/gpu all"}},
    bench("AEBS of 512 rows of 8 in 256, greedy, 16 instances, slots 150 %", us=7.0, empty_us=1.5),
    bench("AEBS of 512 rows of 8 in 256, greedy, 32 instances, slots 150 %", us=8.5, empty_us=1.5),
    bench("AEBS of 512 rows of 8 in 256, greedy, 64 instances, slots 150 %", us=99.0, empty_us=1.5),
    bench("AEBS of 512 rows of 8 in 256, exact, 16 instances, slots 200 %", us=13.0, empty_us=1.5),
    bench("DeepSeek-V3, 64 rows, greedy, 16 instances, slots 150 %: shares", of_in_turn=0.9, of_sum=0.8),
    bench("DeepSeek-V3 fp8 wgmma, fit of experts of 8", a_us=7.0, b_us=10.0),
    bench("DeepSeek-V3 fp8 wgmma, 16 experts of 8", us=1, bytes=700e6, share_of_read=0.9),
    bench("DeepSeek-V3 fp8 wgmma, 2 experts of 8", us=1, bytes=88e6, share_of_read=0.2),
    bench("DeepSeek-V3 fp8 wgmma narrow, 16 experts of 64", us=1, bytes=700e6, share_of_read=0.3),
    bench("DeepSeek-V3 fp8 wgmma, 32 experts of 512", us=1, bytes=1400e6, share_of_read=0.1),
    bench("DeepSeek-V3 mxfp4 wgmma, 32 experts of 32", us=1, bytes=700e6, share_of_read=0.61),
    bench("DeepSeek-V3 mxfp4 wgmma, 32 experts of 16", us=1, bytes=700e6, share_of_read=0.84),
    bench("DeepSeek-V3 bf16 wgmma, 32 experts of 128, torch", us=1, bytes=1, price=0.1),
    bench("DeepSeek-V3 q bf16 fast, 8 rows, torch", us=1, bytes=1, price=0.12),
    bench("Qwen3-235B attention fp8 fast, fit", a_us=6.0, bytes_per_us=3_900_000, share_of_read=0.975),
    bench("DeepSeek, 128 heads, latent attention bf16 wgmma, batch 64 context 4096", us=1, tflops=610.0),
    bench("DeepSeek, 128 heads, latent attention fp8 wgmma, batch 256 context 16384", us=1, tflops=500.0),
    bench("DeepSeek, 128 heads, latent attention fp8 wgmma, batch 16 context 16384", us=1, tflops=50.0),
    bench("norm of 1 x 7168, 4096 rows", us=1, bytes=117e6),
    bench("norm of 1 x 7168, 4096 rows, share", share_of_copy=0.95),
    bench("norm of 1 x 7168, 64 rows", us=1, bytes=2e6),
    bench("norm of 1 x 7168, 64 rows, share", share_of_copy=0.3),
    bench("V2-Lite, 1A1E, batch 64, prompt 64, answer 128", same_bits=1),
    bench("V2-Lite, 2A3E, batch 64, prompt 64, answer 128", same_bits=0),
    {"step": "memcheck", "ended": True}, {"step": "racecheck", "found": "Race reported"},
    {"begins": "S.A"}, {"case": "S.A", "passed": True, "ms": 1}, {"case": "S.B", "passed": False, "ms": 1},
]


class FiguresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "results.jsonl"
        self.path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + '{"bench": "cut')

    def rows(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/gpu/figures.py", self.path], capture_output=True,
                              text=True, check=True)
        cells = [re.split(r" *\| *", line)[1:-1] for line in done.stdout.splitlines() if line.startswith("|")]
        return {row[0]: row[1:] for row in cells}, done.stdout

    def test_each_row_has_its_worst_and_whether_that_meets_it(self):
        rows, said = self.rows()
        expected = {
            "AEBS greedy, 1.5 times the slots": ["<= 8 us", "8.5", "7", "2", "no"],
            "AEBS greedy, twice the slots": ["<= 11 us", "-", "-", "0", "-"],
            "AEBS exact, twice the slots": ["<= 14 us", "13", "13", "1", "yes"],
            "router and AEBS over their sum": ["<= 1", "0.8", "0.8", "1", "yes"],
            "experts in fp8, b": ["<= 10.8 us", "10", "10", "1", "yes"],
            "experts in fp8 and bf16 from 350 MB up, share of reads": [">= 0.85", "0.9", "0.9", "1", "yes"],
            "experts in mxfp4 to 16 rows, share of reads": [">= 0.85", "0.84", "0.84", "1", "no"],
            "experts in mxfp4 of 32 rows, share of reads": [">= 0.6", "0.61", "0.61", "1", "yes"],
            "experts of 4,096 rows and more, price beside cuBLASLt": ["<= 0.1765", "0.1", "0.1", "1", "yes"],
            "GQA decode, B over reads": [">= 0.95", "0.975", "0.975", "1", "yes"],
            "MLA decode of 128 heads, goal": [">= 600 TFLOPS", "500", "610", "2", "no"],
            "MLA decode of 128 heads, at least": [">= 480 TFLOPS", "500", "610", "2", "yes"],
            "norm, rope, permute, combine, pack from 64 MiB up, share of copies": [">= 0.9", "0.95", "0.95", "1", "yes"],
            "price of batch invariance": ["<= 0.1", "0.12", "0.12", "1", "no"],
            "a service: the same bits over topologies and batches": [">= 1", "0", "1", "2", "no"],
            "compute-sanitizer, memcheck": ["clean", "clean", "", "", "yes"],
            "compute-sanitizer, racecheck": ["clean", "found: Race reported", "", "", "no"],
            "compute-sanitizer, initcheck": ["clean", "-", "", "", "-"],
        }
        for what, row in expected.items():
            self.assertEqual(rows[what], row, what)
        self.assertIn("a GPU, driver 1, commit abc: `scripts/gpu all`", said)
        self.assertIn("1 cases passed; failed: S.B.", said)

    def test_nothing_is_measured_of_an_empty_file(self):
        self.path.write_text("")
        rows, _ = self.rows()
        self.assertEqual({row[-1] for row in rows.values()} - {"met", "---"}, {"-"})

    def test_says_how_it_is_used(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/gpu/figures.py"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("RESULTS", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
