"""bench/gpu/attention_table.py over small tables and results."""

import gzip
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/gpu"))
sys.dont_write_bytecode = True

import attention_table  # noqa: E402

GROUPED = """kernel_source,batch_size,num_heads,num_key_value_heads,head_dim,kv_cache_dtype,step,window_size,latency
fa3,64,64,4,128,bfloat16,4095,0,0.132
triton,64,64,4,128,bfloat16,4095,0,0.120
fa3,64,64,4,128,bfloat16,4095,1024,0.010
fa3,64,64,4,64,bfloat16,4095,0,0.011
fa3,64,64,4,128,fp8,4095,0,0.080
fa3,4,32,8,128,bfloat16,511,0,0.009
"""
LATENT = """kernel_source,num_heads,batch_size,isl,latency
flashinfer,128,64,4096,0.250
fa3,128,64,4096,0.206
"""
QWEN = "Qwen3-235B attention bf16 fast, batch 64 context 4096"


class AttentionTable(unittest.TestCase):
    def setUp(self) -> None:
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.folder = pathlib.Path(self.kept.name)
        self.results = self.folder / "results"
        for name, rows in (("attention_decode", GROUPED), ("mla_decode_sglang", LATENT)):
            with gzip.open(self.folder / f"h200_{name}.csv.gz", "wt") as file:
                file.write(rows)

    def compare(self, *rows: dict) -> dict[str, dict]:
        with self.results.open("a") as out:
            for row in rows:
                out.write(json.dumps(row) + "\n")
        attention_table.compare(self.results, self.folder)
        lines = [json.loads(line) for line in self.results.read_text().splitlines()]
        return {line["bench"]: line for line in lines if line.get("bench", "").endswith(", table")}

    def test_the_shortest_of_the_same_case_stands_beside_ours(self) -> None:
        written = self.compare({"commit": "abc"}, {"bench": "device", "name": "NVIDIA H200"},
                               {"bench": QWEN, "us": 150.0},
                               {"bench": QWEN.replace("bf16", "fp8"), "us": 60.0},
                               {"bench": "Mixtral attention bf16 fast, batch 4 context 512", "us": 9.0})
        self.assertEqual(written[f"{QWEN}, table"]["table_us"], 120.0)
        self.assertEqual(written[f"{QWEN}, table"]["of"], "triton")
        self.assertEqual(written[f"{QWEN}, table"]["ours_over"], 1.25)
        self.assertEqual(written[f"{QWEN.replace('bf16', 'fp8')}, table"]["ours_over"], 0.75)
        self.assertEqual(written["Mixtral attention bf16 fast, batch 4 context 512, table"]["ours_over"], 1.0)

    def test_of_a_module_the_time_alone(self) -> None:
        name = "DeepSeek, 128 heads, latent attention bf16 wgmma, batch 64 context 4096"
        written = self.compare({"bench": "device", "name": "NVIDIA H200"}, {"bench": name, "us": 100.0})
        self.assertEqual(written, {f"{name}, table": {
            "bench": f"{name}, table", "table_module_us": 206.0, "of": "fa3", "table": "h200"}})

    def test_what_the_table_has_not_is_left_out(self) -> None:
        written = self.compare({"bench": "device", "name": "NVIDIA H200"},
                               {"bench": QWEN.replace("4096", "1500"), "us": 1.0},
                               {"bench": QWEN.replace("fast", "plain"), "us": 1.0},
                               {"bench": "Qwen3-235B attention bf16 fast, fit", "a_us": 1.0},
                               {"bench": f"{QWEN}, torch", "us": 1.0})
        self.assertEqual(written, {})

    def test_another_gpu_has_no_table(self) -> None:
        self.assertEqual(self.compare({"bench": "device", "name": "NVIDIA A100"},
                                      {"bench": QWEN, "us": 150.0}), {})

    def test_the_tables_here_have_cases_of_both_shapes_and_formats(self) -> None:
        for gpu in ("h200", "h100"):
            tables = attention_table.Tables(ROOT / "data/calibration", gpu)
            for model in attention_table.HEADS:
                for cache in attention_table.TYPES:
                    for batch, context in ((64, 4096), (1, 512), (16, 16384)):
                        name = f"{model} attention {cache} fast, batch {batch} context {context}"
                        self.assertGreater(tables.beside(name)["table_us"], 1.0, name)


if __name__ == "__main__":
    unittest.main()
