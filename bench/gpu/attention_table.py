"""Compares times of attention that others have measured (data/calibration) with those of
attention_gpu_bench. Adds a JSON line to the file of results for each case that a table of the same
GPU has, too. `ours_over` is our time over theirs.
    python3 bench/gpu/attention_table.py --results FILE [--calibration FOLDER]

For keys and values, the tables' calls read the same keys again and again, of which up to 40 MB stay
in the cache. Ours read keys that no call before has read: up to that size, their times are shorter.
For latent attention the tables time the whole module in fp8, with its projections. Those lines have
no `ours_over`.
"""

import argparse
import csv
import gzip
import json
import pathlib
import re
import sys

# Heads, and heads of keys and values, as in attention_gpu_bench.
HEADS = {"Qwen3-235B": (64, 4), "Mixtral": (32, 8)}
HEAD_DIM = 128
TYPES = {"bf16": "bfloat16", "fp8": "fp8"}
GROUPED = re.compile(r"(\S+) attention (bf16|fp8) fast, batch (\d+) context (\d+)")
LATENT = re.compile(r"DeepSeek, (\d+) heads, latent attention (bf16|fp8) (wgmma|fast), "
                    r"batch (\d+) context (\d+)")


def table_rows(folder: pathlib.Path, name: str) -> list[dict[str, str]]:
    with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


class Tables:
    """For one GPU: the shortest time of each case over all kernels in the table, in microseconds, and
    the name of that kernel."""

    def __init__(self, folder: pathlib.Path, gpu: str):
        self.grouped: dict[tuple, tuple[float, str]] = {}
        self.latent: dict[tuple, tuple[float, str]] = {}
        for row in table_rows(folder, f"{gpu}_attention_decode"):
            if row["window_size"] != "0" or int(row["head_dim"]) != HEAD_DIM:
                continue
            key = (int(row["num_heads"]), int(row["num_key_value_heads"]), row["kv_cache_dtype"],
                   int(row["batch_size"]), int(row["step"]) + 1)
            self.keep(self.grouped, key, row)
        for row in table_rows(folder, f"{gpu}_mla_decode_sglang"):
            self.keep(self.latent, (int(row["num_heads"]), int(row["batch_size"]), int(row["isl"])), row)

    @staticmethod
    def keep(times: dict[tuple, tuple[float, str]], key: tuple, row: dict[str, str]) -> None:
        took = 1e3 * float(row["latency"])
        if key not in times or took < times[key][0]:
            times[key] = (took, row["kernel_source"])

    def beside(self, name: str) -> dict | None:
        """The fields to compare with our line; None: the table does not have this case."""
        if match := GROUPED.fullmatch(name):
            model, cache, batch, context = match.groups()
            if model not in HEADS:
                return None
            found = self.grouped.get((*HEADS[model], TYPES[cache], int(batch), int(context)))
            return found and {"table_us": round(found[0], 3), "of": found[1]}
        if match := LATENT.fullmatch(name):
            heads, _, _, batch, context = match.groups()
            found = self.latent.get((int(heads), int(batch), int(context)))
            return found and {"table_module_us": round(found[0], 3), "of": found[1]}
        return None


def gpu_of(rows: list[dict]) -> str | None:
    """The name that the tables use for the GPU of these results."""
    for row in rows:
        if row.get("bench") == "device":
            for name in ("H200", "H100"):
                if name in row["name"]:
                    return name.lower()
    return None


def compare(path: pathlib.Path, folder: pathlib.Path) -> int:
    """Returns how many lines it has written."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    gpu = gpu_of(rows)
    if gpu is None:
        print("no table of this GPU", file=sys.stderr)
        return 0
    tables = Tables(folder, gpu)
    written = 0
    with path.open("a") as out:
        for row in rows:
            if "bench" not in row or "us" not in row or (fields := tables.beside(row["bench"])) is None:
                continue
            fields = {"bench": f"{row['bench']}, table", **fields, "table": gpu}
            if "table_us" in fields:
                fields["ours_over"] = round(row["us"] / fields["table_us"], 4)
            out.write(json.dumps(fields) + "\n")
            written += 1
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--calibration", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "data/calibration")
    args = parser.parse_args()
    print(f"{compare(args.results, args.calibration)} lines")


if __name__ == "__main__":
    main()
