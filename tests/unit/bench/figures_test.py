"""The table of scripts/gpu: which lines count for which row, and when a figure is met."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


RUN = {"run": {"gpu": "NVIDIA H200", "driver": "1", "commit": "abc"}}


def bench(name, **fields):
    return {"bench": name, **fields}


AEBS = "AEBS of 512 rows of 8 in 256, {}, {} instances, slots {} %"
# Lines as the programs write them.
LINES = [
    RUN,
    bench("empty kernel", us=2.0),
    bench("read 1 GiB", us=258.0, bytes=1 << 30),
    bench(AEBS.format("greedy", 16, 150), us=7.0, empty_us=1.5),
    bench(AEBS.format("greedy", 32, 150), us=8.5, empty_us=1.5),
    bench(AEBS.format("greedy", 64, 150), us=99.0, empty_us=1.5),
    bench(AEBS.format("exact", 16, 150), us=9.5, empty_us=1.5),
    bench(AEBS.format("exact", 32, 150), us=12.0, empty_us=1.5),
    bench(AEBS.format("greedy", 16, 200), us=5.0, empty_us=1.5, host_too_slow=1),
    bench(AEBS.format("exact", 16, 200), us=13.0, empty_us=1.5),
    bench(AEBS.format("greedy", 32, 200), us=9.0, empty_us=1.5),
    bench(AEBS.format("exact", 32, 200), us=11.5, empty_us=1.5),
    bench("DeepSeek-V3, 64 rows, greedy, 16 instances, slots 150 %: shares", of_in_turn=0.9, of_sum=0.8),
    bench("DeepSeek-V3 fp8 wgmma, fit of experts of 8", a_us=7.0, b_us=10.0),
    bench("DeepSeek-V3 fp8 wgmma, fit of experts of 64", a_us=-1.0, b_us=10.7),
    bench("DeepSeek-V3 bf16 wgmma, fit of experts of 8", a_us=7.0, b_us=22.0),
    bench("DeepSeek-V3 fp8 wgmma, 16 experts of 8", us=1, bytes=700e6, share_of_read=0.5),
    bench("DeepSeek-V3 fp8 wgmma, 16 experts of 8", us=1, bytes=700e6, share_of_read=0.9),
    bench("DeepSeek-V3 fp8 wgmma, 2 experts of 8", us=1, bytes=88e6, share_of_read=0.2),
    bench("DeepSeek-V3 fp8 wgmma narrow, 16 experts of 64", us=1, bytes=700e6, share_of_read=0.3),
    bench("DeepSeek-V3 fp8 wgmma, 32 experts of 512", us=1, bytes=1400e6, share_of_read=0.1),
    bench("DeepSeek-V3 mxfp4 wgmma, 32 experts of 32", us=1, bytes=700e6, share_of_read=0.61),
    bench("DeepSeek-V2 mxfp4 wgmma, 32 experts of 32", us=1, bytes=401e6, share_of_read=0.61),
    bench("DeepSeek-V3 mxfp4 wgmma, 16 experts of 32", us=1, bytes=374e6, share_of_read=0.6),
    bench("DeepSeek-V3 mxfp4 wgmma, 32 experts of 16", us=1, bytes=700e6, share_of_read=0.84),
    bench("DeepSeek-V3 bf16 wgmma, 32 experts of 128, torch", us=1, bytes=1, price=0.1),
    bench("DeepSeek-V3 q_b bf16 fast, 8 rows, torch", us=1, bytes=1, price=0.12),
    bench("Mixtral attention bf16 fast, batch 64 context 4096, torch", us=1, bytes=1, price=-0.12),
    bench("norm of 1 x 7168, 4096 rows, torch", us=1, bytes=1, price=-0.2),
    bench("Qwen3-235B attention fp8 fast, batch 64 context 4096", us=115.0),
    bench("split 512, Qwen3-235B attention fp8 fast, batch 64 context 4096", us=100.0),
    bench("split 2048, Qwen3-235B attention fp8 fast, batch 64 context 4096", us=120.0),
    bench("Qwen3-235B attention fp8 fast, batch 1 context 4096", us=9.0),
    bench("split 512, Qwen3-235B attention fp8 fast, batch 1 context 4096", us=10.0),
    bench("split 2048, Qwen3-235B attention fp8 fast, batch 1 context 4096", us=9.5),
    bench("Qwen3-235B attention fp8 fast, batch 1 context 16384", us=9.0),
    bench("split 512, Qwen3-235B attention fp8 fast, batch 1 context 16384", us=1.0),
    bench("split 512, DeepSeek, 128 heads, latent attention bf16 wgmma, batch 64 context 4096", us=1, host_too_slow=1),
    bench("split 2048, DeepSeek, 128 heads, latent attention bf16 wgmma, batch 64 context 4096", us=1),
    bench("Qwen3-235B attention fp8 fast, batch 16 context 4096", us=9.0),
    bench("split 512, Qwen3-235B attention fp8 fast, batch 16 context 4096", us=1.0, host_too_slow=1),
    bench("split 2048, Qwen3-235B attention fp8 fast, batch 16 context 4096", us=1.0),
    bench("Mixtral attention bf16 fast, batch 64 context 4096, table", table_us=1, ours_over=1.25),
    bench("AEBS of 8192 rows of 8 in 256, greedy, 32 instances, slots 150 %", us=80.0),
    bench("V2-Lite, transformers, batch 64", tpot_ms=9.0, ours_over=0.75),
    bench("V2-Lite of 4 layers, MPS, 1A1E, processes, batch 64, prompt 64, answer 64", same_bits=1),
    bench("Qwen3-235B attention fp8 fast, fit", a_us=6.0, bytes_per_us=3_900_000, share_of_read=0.975),
    bench("DeepSeek, 128 heads, latent attention bf16 wgmma, batch 64 context 4096", us=1, tflops=610.0),
    bench("DeepSeek, 128 heads, latent attention fp8 wgmma, batch 256 context 16384", us=1, tflops=500.0),
    bench("DeepSeek, 128 heads, latent attention fp8 wgmma, batch 16 context 16384", us=1, tflops=50.0),
    bench("norm of 1 x 7168, 4096 rows", us=1, bytes=117e6),
    bench("norm of 1 x 7168, 4096 rows, share", share_of_copy=0.95),
    bench("norm of 1 x 7168 plain, 4096 rows", us=1, bytes=117e6),
    bench("norm of 1 x 7168 plain, 4096 rows, share", share_of_copy=0.1),
    bench("norm of 1 x 7168, 64 rows", us=1, bytes=2e6),
    bench("norm of 1 x 7168, 64 rows, share", share_of_copy=0.3),
    bench("embedding, 4096 rows", us=1, bytes=117e6), bench("embedding, 4096 rows, share", share_of_copy=0.2),
    bench("rope of 68 x 128, halves, 4096 rows", us=1, bytes=117e6),
    bench("rope of 68 x 128, halves, 4096 rows, share", share_of_copy=0.89),
    bench("permute, 8192 rows", us=1, bytes=235e6), bench("permute, 8192 rows, share", share_of_copy=0.91),
    bench("combine of 8, 4096 rows", us=1, bytes=235e6, host_too_slow=1),
    bench("combine of 8, 4096 rows, share", share_of_copy=0.91),
    bench("Mixtral layer in a graph, 64 rows, context 2048", us=1, share_of_limits=0.4, gaps_us=3.5),
    bench("V2-Lite, 1A1E, batch 64, prompt 64, answer 128", same_bits=1, outside_kernels_share=0.2),
    bench("V2-Lite, 2A3E, batch 64, prompt 64, answer 128", same_bits=0),
    bench("V2-Lite, 2A3E, in place, batch 1, prompt 64, answer 128", refused="no peer access"),
    bench("V2-Lite of 4 layers, 1A1E, processes, batch 64, prompt 64, answer 64", same_bits=0),
    bench("V2-Lite, request 0 over batches of 64, 1, 256", same_bits=1),
    bench("Mixtral of 24 layers, request 0 over batches of 64, 1, 256", same_bits=1),
    bench("DeepSeek-V3 fp8, whole expert layer of 32 of 256 experts, 128 rows", over_read=1.2),
    bench("Qwen3-235B attention bf16 fast, batch 1 context 1024", us=6.5),
    bench("Mixtral attention bf16 fast, batch 1 context 1024", us=5.5),
    *({"step": "memcheck", "case": f"S.{i}", "passed": True, **({"skipped": "no wgmma"} if i > 2 else {})} for i in range(5)),
    {"step": "memcheck", "seconds": 9.0, "exit": 0},
    {"step": "racecheck", "begins": "S.A"}, {"step": "racecheck", "case": "S.A", "passed": True},
    {"step": "racecheck", "seconds": 9.0, "exit": 9, "bad": ["Race reported | here"]},
    {"step": "synccheck", "begins": "S.A"}, {"step": "synccheck", "seconds": 9.0, "exit": "cut", "during": "S.A"},
    {"step": "initcheck", "skipped": "there is no compute-sanitizer"},
    {"step": "golden", "begins": "S.A"}, {"step": "golden", "case": "S.B", "passed": False},
    {"step": "golden", "seconds": 9.0, "exit": 1, "bad": ["S.A lost", "S.B failed"]},
]


class FiguresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "results.jsonl"
        self.path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + '{"bench": "cut')

    def rows(self, *lines):
        if lines:
            self.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = subprocess.run([ROOT / "scripts/gpu", "table", self.path], capture_output=True, text=True, check=True)
        cells = [re.split(r" *\| *", line)[1:-1] for line in done.stdout.splitlines() if line.startswith("|")]
        return {row[0]: row[1:] for row in cells}, done.stdout

    def test_each_row_has_its_worst_and_whether_that_meets_it(self):
        rows, said = self.rows()
        expected = {
            "AEBS greedy, 1.5 times the slots": ["<= 8 us", "8.5", "7", "2 of 2", "no"],
            "AEBS greedy, twice the slots": ["<= 11 us", "9", "9", "1 of 2, 1 too slow", "incomplete"],
            "AEBS exact beyond greedy": ["<= 3 us", "3.5", "2.5", "3 of 4", "no"],
            "AEBS greedy, 64 instances": ["-", "99", "99", "1 of 2", "shown"],
            "AEBS greedy, 8,192 rows": ["-", "80", "80", "1 of 2", "shown"],
            "gate and AEBS over their sum": ["<= 1", "0.8", "0.8", "1 of 4", "incomplete"],
            "whole expert layer, 32 of 256 experts, 128 rows, over reads of its weights": ["<= 1.25", "1.2", "1.2", "1 of 1", "yes"],
            "experts in fp8, a": ["<= 8 us", "7", "-1", "2 of 5", "no fit"],
            "experts in fp8, b": ["<= 10.8 us of reads", "10.7", "10", "2 of 5", "incomplete"],
            "experts in bf16, b": ["<= 21.6 us of reads", "22", "22", "1 of 5", "no"],
            "experts in fp8 and bf16 from 350 MB up, share of reads": [">= 0.85", "0.9", "0.9", "1 of 60", "incomplete"],
            "experts in mxfp4 from 350 MB up, 1 to 16 rows, share of reads": [">= 0.85", "0.84", "0.84", "1 of 9", "no"],
            "experts in mxfp4 from 350 MB up, 32 rows, share of reads": [">= 0.6", "0.6", "0.61", "3 of 3", "yes"],
            "experts of 4,096 rows and more, price beside cuBLASLt": ["<= 0.176", "0.1", "0.1", "1 of 10", "incomplete"],
            "grouped-query decode, B over reads": [">= 0.95", "0.975", "0.975", "1 of 4", "incomplete"],
            "grouped-query decode, batch 1, 1,024 keys": ["<= 6 us", "6.5", "5.5", "2 of 2", "no"],
            "grouped-query decode, batch 1, fp8 cache, 4,096 keys": ["<= 10 us", "9", "9", "1 of 2", "incomplete"],
            "grouped-query decode, time over the published one": ["-", "1.25", "1.25", "1", "shown"],
            "MLA decode of 128 heads, goal": [">= 600 TFLOPS", "500", "610", "2 of 18", "no"],
            "MLA decode of 128 heads, at least": [">= 480 TFLOPS", "500", "610", "2 of 18", "incomplete"],
            "MLA decode of 128 heads, price of one length of splits": ["-", "-", "-", "0 of 12", "-"],
            "norm from 64 MiB up, share of copies": [">= 0.9", "0.95", "0.95", "1 of 3", "incomplete"],
            "rope from 64 MiB up, share of copies": [">= 0.9", "0.89", "0.89", "1 of 2", "no"],
            "permute and combine from 64 MiB up, share of copies": [">= 0.9", "0.91", "0.91", "1 of 2, 1 too slow", "incomplete"],
            "pack and unpack from 64 MiB up, share of copies": [">= 0.9", "-", "-", "0 of 2", "-"],
            "price of identical bits, projections": ["<= 0.03", "0.12", "0.12", "1 of 15", "no"],
            "price of identical bits, attention": ["<= 0.03", "-0.12", "-0.12", "1 of 27", "incomplete"],
            "price of identical bits, one length of splits": ["<= 0.03", "0.15", "0", "2 of 18", "no"],
            "price of identical bits, norms": ["<= 0.03", "-0.2", "-0.2", "1 of 3", "incomplete"],
            "a layer in a graph, share of its limits": ["-", "0.4", "0.4", "1 of 8", "shown"],
            "a layer in a graph, gaps": ["-", "3.5", "3.5", "1 of 8", "shown"],
            "a service: TPOT of 1A1E over that of transformers": ["-", "0.75", "0.75", "1 of 6", "shown"],
            "a service: share of time outside kernels": ["-", "0.2", "0.2", "1 of 48", "shown"],
            "a service: the same bits over topologies": [">= 1", "0", "1", "2 of 48", "no"],
            "a service: a request's bits over batches": [">= 1", "1", "1", "2 of 2", "yes"],
            "a service of processes: the same bits": [">= 1", "0", "0", "1 of 10", "no"],
            "memcheck": ["correct", "-", "", "3 passed, 2 skipped", "yes"],
            "racecheck": ["correct", "Race reported / here", "", "1 passed", "no"],
            "synccheck": ["correct", "-", "", "0", "incomplete"],
            "initcheck": ["correct", "there is no compute-sanitizer", "", "0", "-"],
            "golden": ["correct", "S.A lost", "", "1 lost, 1 failed", "no"],
            "device": ["correct", "-", "", "0", "-"],
        }
        for what, row in expected.items():
            self.assertEqual(rows[what], row, what)
        self.assertIn("NVIDIA H200, driver 1, commit abc, runs: 1\nreads 4.19 TB/s\n", said)
        self.assertIn("refused: V2-Lite, 2A3E, in place, batch 1, prompt 64, answer 128: no peer access\n", said)

    def test_a_gpu_without_wgmma_is_held_by_the_form_that_it_has(self):
        rows, _ = self.rows(RUN, bench("DeepSeek-V3 fp8 fast, fit of experts of 8", a_us=7.0, b_us=10.0),
                            bench("DeepSeek, 128 heads, latent attention bf16 fast, batch 64 context 4096", tflops=9.0),
                            bench("DeepSeek-V3 bf16 fast, 32 experts of 128, torch", price=0.1))
        self.assertEqual(rows["experts in fp8, a"][3], "1 of 5")
        self.assertEqual(rows["MLA decode of 128 heads, goal"][3], "1 of 18")
        self.assertEqual(rows["experts of 4,096 rows and more, price beside cuBLASLt"][3], "1 of 10")

    def test_what_reads_bound_is_held_to_the_bandwidth_of_the_gpu(self):
        fits = [bench(f"DeepSeek-V3 fp8 wgmma, fit of experts of {rows}", a_us=7.0, b_us=15.0) for rows in (1, 8, 16, 32, 64)]
        read = bench("read 1 GiB", us=(1 << 30) / 3.2e6 + 2, bytes=1 << 30)
        slow = bench("read 1 GiB", us=1e6, bytes=1 << 30, host_too_slow=1)
        rows, _ = self.rows({"run": {"gpu": "NVIDIA H100", "driver": "1", "commit": "abc"}}, bench("empty kernel", us=2.0), read, slow,
                            *fits)
        self.assertEqual(rows["experts in fp8, b"], ["<= 10.8 us of reads (here 16.2)", "15", "15", "5 of 5", "yes"])
        self.assertEqual(rows["experts in fp8, a"], ["<= 8 us", "7", "7", "5 of 5", "yes"])
        rows, _ = self.rows(RUN, read, *fits)
        self.assertEqual(rows["experts in fp8, b"], ["<= 10.8 us of reads", "15", "15", "5 of 5", "no"])

    def test_runs_of_the_last_commit_on_the_last_gpu_count(self):
        name = "AEBS of 512 rows of 8 in 256, greedy, 16 instances, slots 150 %"
        for other in ({"commit": "def"}, {"gpu": "NVIDIA H100"}):
            rows, said = self.rows(RUN, bench(name, us=5.0), {"run": {**RUN["run"], **other}}, bench(name, us=99.0),
                                   RUN, bench(name, us=6.0))
            self.assertEqual(rows["AEBS greedy, 1.5 times the slots"][1:4], ["6", "6", "1 of 2"])
            self.assertIn("commit abc, runs: 2\nspread of times over the runs: median 20.0%, most 20.0%\n", said)

    def test_nothing_is_measured_of_a_run_without_lines(self):
        rows, _ = self.rows(RUN)
        self.assertEqual({row[-1] for row in rows.values()} - {"met", "---"}, {"-"})
        self.assertIn("no run", self.rows(bench("device"))[1])

    def test_the_premise_is_drawn(self):
        self.path.write_text("".join(json.dumps(bench(f"premise, 64 rows, {experts} experts activated", us=3.0)) + "\n"
                                     for experts in (4, 8)))
        drawn = self.path.with_suffix(".svg")
        subprocess.run([sys.executable, "-B", ROOT / "bench/gpu/premise_plot.py", self.path, drawn], check=True)
        self.assertEqual(drawn.read_text().count("<circle"), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
