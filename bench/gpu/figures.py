"""What scripts/gpu measured beside the figures that the kernels are held to, as a table of Markdown.

    python3 bench/gpu/figures.py RESULTS...

A row has the worst and the best of the cases that it is about, how many there are, and whether the worst meets
the figure; `-`: nothing of it has been measured.
"""

import dataclasses
import pathlib
import re
import sys
from collections.abc import Callable

from result_lines import result_lines

Line = dict[str, object]
MANY_BYTES = 350e6  # from where on experts are read at the memory's rate
MANY_ROW_BYTES = 64 << 20


@dataclasses.dataclass
class Figure:
    what: str
    bound: float
    cases: str  # names of lines, as a regular expression
    key: str
    at_least: bool = False
    where: Callable[[Line], bool] = lambda line: True
    unit: str = ""


def rows_of(line: Line) -> int:
    return int(str(line["bench"]).rsplit(" ", 1)[-1])


def is_many_keys(line: Line) -> bool:
    match = re.search(r"batch (\d+) context (\d+)", str(line["bench"]))
    return match is not None and int(match[1]) >= 64 and int(match[2]) >= 4096


def is_large(least: float) -> Callable[[Line], bool]:
    return lambda line: float(str(line.get("bytes", 0))) >= least


AEBS = r"AEBS of 512 rows of 8 in 256, {}, (16|32) instances, slots {} %"
EXPERTS = r"DeepSeek-V3 {} wgmma, fit of experts of (1|8|16|32|64)"
CALLS = r"DeepSeek-V\d {} wgmma, \d+ experts of \d+"
FIGURES = (
    Figure("AEBS greedy, 1.5 times the slots", 8, AEBS.format("greedy", 150), "us", unit="us"),
    Figure("AEBS greedy, twice the slots", 11, AEBS.format("greedy", 200), "us", unit="us"),
    Figure("AEBS exact, 1.5 times the slots", 11, AEBS.format("exact", 150), "us", unit="us"),
    Figure("AEBS exact, twice the slots", 14, AEBS.format("exact", 200), "us", unit="us"),
    Figure("router and AEBS over their sum", 1, r".*: shares", "of_sum"),
    Figure("experts in fp8, a", 8, EXPERTS.format("fp8"), "a_us", unit="us"),
    Figure("experts in fp8, b", 10.8, EXPERTS.format("fp8"), "b_us", unit="us"),
    Figure("experts in bf16, b", 21.6, EXPERTS.format("bf16"), "b_us", unit="us"),
    Figure("experts in fp8 and bf16 from 350 MB up, share of reads", 0.85, CALLS.format("(fp8|bf16)"), "share_of_read",
           at_least=True, where=lambda line: is_large(MANY_BYTES)(line) and rows_of(line) <= 64),
    Figure("experts in mxfp4 to 16 rows, share of reads", 0.85, CALLS.format("mxfp4"), "share_of_read", at_least=True,
           where=lambda line: is_large(MANY_BYTES)(line) and rows_of(line) <= 16),
    Figure("experts in mxfp4 of 32 rows, share of reads", 0.6, CALLS.format("mxfp4"), "share_of_read", at_least=True,
           where=lambda line: is_large(MANY_BYTES)(line) and rows_of(line) == 32),
    # A price of p is a rate of 1 / (1 + p) of theirs.
    Figure("experts of 4,096 rows and more, price beside cuBLASLt", 1 / 0.85 - 1,
           r"DeepSeek-V\d bf16 wgmma, \d+ experts of \d+, torch", "price"),
    Figure("GQA decode, a", 8, r"(Qwen3-235B|Mixtral) attention (bf16|fp8) fast, fit", "a_us", unit="us"),
    Figure("GQA decode, B over reads", 0.95, r"(Qwen3-235B|Mixtral) attention (bf16|fp8) fast, fit", "share_of_read",
           at_least=True),
    Figure("MLA decode of 128 heads, goal", 600,
           r"DeepSeek, 128 heads, latent attention (bf16|fp8) wgmma, batch \d+ context \d+", "tflops", at_least=True,
           where=is_many_keys, unit="TFLOPS"),
    Figure("MLA decode of 128 heads, at least", 480,
           r"DeepSeek, 128 heads, latent attention (bf16|fp8) wgmma, batch \d+ context \d+", "tflops", at_least=True,
           where=is_many_keys, unit="TFLOPS"),
    Figure("MLA decode of 16 heads, a", 8, r"DeepSeek, 16 heads, latent attention (bf16|fp8) fast, fit", "a_us",
           unit="us"),
    Figure("MLA decode of 16 heads, B over reads", 0.95, r"DeepSeek, 16 heads, latent attention (bf16|fp8) fast, fit",
           "share_of_read", at_least=True),
    Figure("norm, rope, permute, combine, pack from 64 MiB up, share of copies", 0.9, r".*, share", "share_of_copy",
           at_least=True, where=lambda line: is_large(MANY_ROW_BYTES)(line)),
    Figure("price of batch invariance", 0.1, r"(?!.*experts of).*, torch", "price"),
    Figure("a layer in a graph, share of its limits", 0, r".*", "share_of_limits", at_least=True),
    Figure("a service: the same bits over topologies and batches", 1, r".*", "same_bits", at_least=True),
)


def read(paths: list[pathlib.Path]) -> list[Line]:
    return complete([line for path in paths for line in result_lines(path)])


def complete(lines: list[Line]) -> list[Line]:
    """With the bytes of a share, which another line has."""
    named = {str(line["bench"]): line for line in lines if "bench" in line}
    for name, line in named.items():
        if name.endswith(", share") and name.removesuffix(", share") in named:
            line.setdefault("bytes", named[name.removesuffix(", share")].get("bytes", 0))
    return lines


def row_of(figure: Figure, lines: list[Line]) -> str:
    found = [float(str(line[figure.key])) for line in lines
             if figure.key in line and re.fullmatch(figure.cases, str(line.get("bench", ""))) and figure.where(line)]
    asked = f"{'>=' if figure.at_least else '<='} {figure.bound:.4g} {figure.unit}".rstrip()
    if not found:
        return f"| {figure.what} | {asked} | - | - | 0 | - |"
    worst, best = (min(found), max(found)) if figure.at_least else (max(found), min(found))
    met = worst >= figure.bound if figure.at_least else worst <= figure.bound
    return f"| {figure.what} | {asked} | {worst:.4g} | {best:.4g} | {len(found)} | {'yes' if met else 'no'} |"


def sanitizer_rows(lines: list[Line]) -> list[str]:
    rows = []
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        of = [line for line in lines if line.get("step") == tool]
        found = [line["found"] for line in of if "found" in line]
        ended = any(line.get("ended") for line in of)
        said = f"found: {found[0]}" if found else "clean" if ended else "-"
        rows.append(f"| compute-sanitizer, {tool} | clean | {said} | | | {'no' if found else 'yes' if ended else '-'} |")
    return rows


def table(lines: list[Line]) -> str:
    runs = [line["run"] for line in lines if isinstance(line.get("run"), dict)]
    slow = sum("host_too_slow" in line for line in lines)
    failed = sorted(str(line["case"]) for line in lines if "case" in line and not line.get("passed"))
    passed = len({str(line["case"]) for line in lines if "case" in line and line.get("passed")})
    head = [f"{run['gpu']}, driver {run['driver']}, commit {run['commit']}: `{run['command']}`" for run in runs[:1]]
    head += [f"{passed} cases passed; failed: {', '.join(failed) or 'none'}."]
    head += [f"{slow} lines whose host was too slow to be left out."] if slow else []
    return "\n".join([*head, "", "| what | asked | worst | best | cases | met |", "|---|---|---|---|---|---|",
                      *(row_of(figure, lines) for figure in FIGURES), *sanitizer_rows(lines)])


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    print(table(read([pathlib.Path(path) for path in sys.argv[1:]])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
