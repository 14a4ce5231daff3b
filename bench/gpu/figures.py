"""What scripts/gpu measured, beside the figures that the kernels must meet, as a Markdown table.

    python3 bench/gpu/figures.py RESULTS...

A row has the worst and the best of its cases, how many cases there are of how many there should be, and whether the
worst meets the figure. `-`: not measured; `incomplete`: all measured cases meet it, but some are missing; `no fit`: the
fitted line begins below zero and has no meaning; `shown`: there is no bound. Cases whose host was too slow are not
judged; they are counted separately. Bounds on times that the memory limits are for the H200. On another GPU such a bound
is multiplied by 4.8 TB/s over the read rate of the same run, which the table also shows.
"""

import dataclasses
import pathlib
import re
import statistics
import sys
from collections.abc import Callable

from result_lines import result_lines

Line = dict[str, object]
MANY_BYTES = 350e6  # above this, reading experts runs at the memory's rate
MANY_ROW_BYTES = 64 << 20
H200_BYTES_PER_US = 4.8e6
SPLITS = (512, 2048)  # other lengths that are timed
EXACT_US = 3.0  # extra time allowed to the exact AEBS over the greedy one


@dataclasses.dataclass
class Figure:
    what: str
    bound: float | None  # none: only shown
    cases: str  # a regular expression for the names of lines
    key: str
    expected: int  # number of cases that the programs have; 0: as many as another figure has
    at_least: bool = False
    where: Callable[[Line], bool] = lambda line: True
    unit: str = ""
    is_read: bool = False  # a time limited by reads, for an H200
    is_fit: bool = False  # of a line: no fit if it begins below zero


def rows_of(line: Line) -> int:
    return int(str(line["bench"]).rsplit(" ", 1)[-1])


def is_many_keys(line: Line) -> bool:
    match = re.search(r"batch (\d+) context (\d+)", str(line["bench"]))
    return match is not None and int(match[1]) >= 64 and int(match[2]) >= 4096


def is_large(least: float) -> Callable[[Line], bool]:
    return lambda line: float(str(line.get("bytes", 0))) >= least


AEBS = r"AEBS of {} rows of 8 in 256, {}, {} instances, slots {} %"
BOTH = "(16|32)"  # numbers of instances
# On GPUs without wgmma the form that they have replaces it (form_of).
EXPERTS = r"DeepSeek-V3 {} wgmma, fit of experts of (1|8|16|32|64)"
CALLS = r"DeepSeek-V\d {} wgmma, \d+ experts of \d+"
GQA = r"(Qwen3-235B|Mixtral) attention (bf16|fp8) fast, fit"
LATENT = r"DeepSeek, 128 heads, latent attention (bf16|fp8) wgmma, batch \d+ context \d+"
LATENT_FIT = r"DeepSeek, 16 heads, latent attention (bf16|fp8) fast, fit"
SERVED = r"(?:V2-Lite|Mixtral)(?: of \d+ layers)?, {}, batch \d+, prompt 64, answer {}"


def of_rows(what: str, cases: str, expected: int) -> Figure:
    return Figure(f"{what} from 64 MiB up, share of copies", 0.9, rf"{cases}, \d+ rows, share", "share_of_copy", expected,
                  at_least=True, where=is_large(MANY_ROW_BYTES))


FIGURES = (
    Figure("AEBS greedy, 1.5 times the slots", 8, AEBS.format(512, "greedy", BOTH, 150), "us", 2, unit="us"),
    Figure("AEBS greedy, twice the slots", 11, AEBS.format(512, "greedy", BOTH, 200), "us", 2, unit="us"),
    Figure("AEBS exact beyond greedy, 1.5 times the slots", EXACT_US, AEBS.format(512, "exact", BOTH, 150),
           "beyond_greedy_us", 2, unit="us"),
    Figure("AEBS exact beyond greedy, twice the slots", EXACT_US, AEBS.format(512, "exact", BOTH, 200),
           "beyond_greedy_us", 2, unit="us"),
    *(Figure(f"AEBS greedy of 512 rows, {n} instances, slots {slots} %", None,
             AEBS.format(512, "greedy", n, slots), "us", 1, unit="us")
      for n in (8, 64) for slots in (150, 200)),
    *(Figure(f"AEBS greedy of {rows:,} rows, 16 and 32 instances", None,
             AEBS.format(rows, "greedy", BOTH, 150), "us", 2, unit="us")
      for rows in (64, 1024, 4096, 8192)),
    Figure("gate and AEBS over their sum", 1, r".*: shares", "of_sum", 4),
    Figure("experts in fp8, a", 8, EXPERTS.format("fp8"), "a_us", 5, unit="us", is_fit=True),
    Figure("experts in fp8, b", 10.8, EXPERTS.format("fp8"), "b_us", 5, unit="us", is_read=True, is_fit=True),
    Figure("experts in bf16, b", 21.6, EXPERTS.format("bf16"), "b_us", 5, unit="us", is_read=True, is_fit=True),
    # DeepSeek-V3: 8 experts and more in fp8, 4 and more in bf16; V2: 16 and 8; each with five numbers of rows.
    Figure("experts in fp8 and bf16 from 350 MB up, share of reads", 0.85, CALLS.format("(fp8|bf16)"), "share_of_read", 60,
           at_least=True, where=lambda line: is_large(MANY_BYTES)(line) and rows_of(line) <= 64),
    Figure("experts in mxfp4 to 16 rows, share of reads", 0.85, CALLS.format("mxfp4"), "share_of_read", 9, at_least=True,
           where=lambda line: is_large(MANY_BYTES)(line) and rows_of(line) <= 16),
    Figure("experts in mxfp4 of 32 rows, share of reads", 0.6, CALLS.format("mxfp4"), "share_of_read", 3, at_least=True,
           where=lambda line: is_large(MANY_BYTES)(line) and rows_of(line) == 32),
    Figure("experts in mxfp4 of 64 rows, share of the tensor cores' rate", None, CALLS.format("mxfp4"), "share_of_peak", 3,
           at_least=True, where=lambda line: is_large(MANY_BYTES)(line) and rows_of(line) == 64),
    # A price of p means a rate of 1 / (1 + p) of theirs.
    Figure("experts of 4,096 rows and more, price beside cuBLASLt", 1 / 0.85 - 1,
           r"DeepSeek-V\d bf16 wgmma, \d+ experts of \d+, torch", "price", 10),
    Figure("GQA decode, a", 8, GQA, "a_us", 4, unit="us", is_fit=True),
    Figure("GQA decode, B over reads", 0.95, GQA, "share_of_read", 4, at_least=True, is_fit=True),
    Figure("GQA decode, time over the table's for this GPU", None, r".* attention (bf16|fp8) fast, .*, table", "ours_over",
           0),
    Figure("MLA decode of 128 heads, goal", 600, LATENT, "tflops", 18, at_least=True, where=is_many_keys, unit="TFLOPS"),
    Figure("MLA decode of 128 heads, at least", 480, LATENT, "tflops", 18, at_least=True, where=is_many_keys,
           unit="TFLOPS"),
    *(Figure(f"MLA decode of 128 heads, splits of {split}", None, rf"split {split}, {LATENT}", "tflops", 12, at_least=True,
             where=is_many_keys, unit="TFLOPS") for split in SPLITS),
    Figure("MLA decode of 128 heads, price of one length of splits", None, LATENT, "split_price", 12, where=is_many_keys),
    Figure("MLA decode of 16 heads, a", 8, LATENT_FIT, "a_us", 2, unit="us", is_fit=True),
    Figure("MLA decode of 16 heads, B over reads", 0.95, LATENT_FIT, "share_of_read", 2, at_least=True, is_fit=True),
    of_rows("norm", r"norm of \d+ x \d+", 3),
    of_rows("rope", r"rope of \d+ x \d+, (halves|interleaved)", 2),
    of_rows("permute", "permute", 1),
    of_rows("combine", "combine of 8", 1),
    of_rows("pack", r"pack in fp8", 1),
    of_rows("unpack", r"unpack from fp8", 1),
    Figure("price of batch invariance, projections", 0.1, r".* bf16 fast, \d+ rows, torch", "price", 15),
    Figure("price of batch invariance, attention", 0.1, r".* attention bf16 fast, .*, torch", "price", 27),
    Figure("price of batch invariance, one length of splits, GQA", 0.1,
           r"Qwen3-235B attention (bf16|fp8) fast, batch \d+ context \d+", "split_price", 18),
    Figure("price of batch invariance, norms", 0.1, r"norm .*, torch", "price", 3),
    Figure("a layer in a graph, share of its limits", None, r".* layer in a graph, .*", "share_of_limits", 8,
           at_least=True),
    Figure("a layer in a graph, gaps", None, r".* layer in a graph, .*", "gaps_us", 8, unit="us"),
    Figure("a service: TPOT of 1A1E over that of transformers", None, r".*, transformers, batch \d+", "ours_over", 6),
    Figure("a service: share of time outside kernels", None, SERVED.format(".*", 128), "outside_kernels_share", 48),
    Figure("a service: the same bits over topologies", 1, SERVED.format(".*", 128), "same_bits", 48, at_least=True),
    Figure("a service: a request's bits over batches", 1, r".*, request 0 over batches of .*", "same_bits", 2,
           at_least=True),
    Figure("a service of processes: the same bits", 1, SERVED.format(r"\dA\dE.*", 64), "same_bits", 10, at_least=True),
    Figure("a service of processes with MPS: the same bits", 1, SERVED.format(r"MPS, \dA\dE.*", 64), "same_bits", 10,
           at_least=True),
)


def read(paths: list[pathlib.Path]) -> list[Line]:
    return [line for path in paths for line in result_lines(path)]


def complete(lines: list[Line]) -> list[Line]:
    """The last line of each name, with fields taken from other lines: the bytes of a share, the greedy AEBS."""
    named = {str(line["bench"]): dict(line) for line in lines if "bench" in line}
    for name, line in named.items():
        if name.endswith(", share") and name.removesuffix(", share") in named:
            of = named[name.removesuffix(", share")]
            line.setdefault("bytes", of.get("bytes", 0))
            if "host_too_slow" in of:
                line["host_too_slow"] = 1
        greedy = named.get(name.replace(", exact, ", ", greedy, "), line)
        if greedy is not line and "us" in line and "us" in greedy:
            line["beyond_greedy_us"] = float(str(line["us"])) - float(str(greedy["us"]))
            if "host_too_slow" in greedy:
                line["host_too_slow"] = 1
        splits = [named[other] for split in SPLITS if "us" in named.get(other := f"split {split}, {name}", {})]
        # Compares only if all lengths are there and none was too slow. The other fields of the line stay in any case.
        if len(splits) == len(SPLITS) and "us" in line and not any("host_too_slow" in other for other in splits):
            us = float(str(line["us"]))
            line["split_price"] = us / min([us, *(float(str(other["us"])) for other in splits)]) - 1
    return [*(line for line in lines if "bench" not in line), *named.values()]


def read_rates(lines: list[Line]) -> list[float]:
    """The read rate that every program measured, in bytes per microsecond."""
    empty = [float(str(line["us"])) for line in lines if line.get("bench") == "empty kernel"] or [0.0]
    return [float(str(line["bytes"])) / (float(str(line["us"])) - statistics.median(empty)) for line in lines
            if line.get("bench") == "read 1 GiB" and "host_too_slow" not in line]


def scale_of(lines: list[Line]) -> float:
    """How much longer than on an H200 a time limited by reads may be."""
    gpus = [str(line["run"].get("gpu")) for line in lines if isinstance(line.get("run"), dict)]
    rates = read_rates(lines)
    return 1.0 if not rates or any("H200" in gpu for gpu in gpus) else H200_BYTES_PER_US / statistics.median(rates)


def form_of(lines: list[Line]) -> str:
    return "wgmma" if any(" wgmma" in str(line.get("bench", "")) for line in lines) else "fast"


def row_of(figure: Figure, lines: list[Line], form: str, scale: float) -> str:
    cases_of = re.compile(figure.cases.replace("wgmma", form))
    of = [line for line in lines
          if figure.key in line and cases_of.fullmatch(str(line.get("bench", ""))) and figure.where(line)]
    found = [float(str(line[figure.key])) for line in of if "host_too_slow" not in line]
    bound = figure.bound and figure.bound * (scale if figure.is_read else 1.0)
    asked = "-"
    if figure.bound is not None:
        asked = f"{'>=' if figure.at_least else '<='} {figure.bound:.4g} {figure.unit}".rstrip()
        asked += f" (here {bound:.4g})" if bound != figure.bound else ""
    cases = f"{len(found)} of {figure.expected}" if figure.expected else f"{len(found)}"
    cases += f", {len(of) - len(found)} too slow" if len(of) > len(found) else ""
    if not found:
        return f"| {figure.what} | {asked} | - | - | {cases} | - |"
    worst, best = (min(found), max(found)) if figure.at_least else (max(found), min(found))
    if bound is None:
        met = "shown"
    elif figure.is_fit and min(found) <= 0:
        met = "no fit"
    elif (worst < bound) if figure.at_least else (worst > bound):
        met = "no"
    else:
        met = "yes" if len(found) >= figure.expected else "incomplete"
    return f"| {figure.what} | {asked} | {worst:.4g} | {best:.4g} | {cases} | {met} |"


WATCHED = ("memcheck", "memcheck device", "racecheck", "synccheck", "initcheck")


def sanitizer_rows(lines: list[Line]) -> list[str]:
    rows = []
    for step in WATCHED:
        of = [line for line in lines if line.get("step") == step]
        found = [line["found"] for line in of if "found" in line]
        counts = next((line for line in reversed(of) if "passed" in line), {})
        ended = any(line.get("ended") for line in of)
        of_cases = ", ".join(f"{counts[how]} {how}" for how in ("passed", "failed", "skipped", "lost") if counts.get(how))
        is_clean = ended and counts.get("passed") and not counts.get("failed") and not counts.get("lost")
        said = f"found: {found[0]}".replace("|", "/") if found else "clean" if is_clean else "not known" if ended else "-"
        met = "no" if found or (ended and not is_clean) else "yes" if is_clean else "-"
        rows.append(f"| compute-sanitizer, {step} | clean | {said} | | {of_cases or '0'} | {met} |")
    return rows


def head_of(lines: list[Line]) -> list[str]:
    runs = [line["run"] for line in lines if isinstance(line.get("run"), dict)]
    slow = sum("host_too_slow" in line for line in lines)
    cases = {str(line["case"]): line for line in lines if "case" in line}
    failed = sorted(name for name, line in cases.items() if not line.get("passed"))
    skipped = sum(bool(line.get("skipped")) for line in cases.values())
    head = [f"{run['gpu']}, driver {run['driver']}: `{run['command']}`" for run in runs[:1]]
    if runs:
        head += [f"Commits: {', '.join(dict.fromkeys(str(run['commit']) for run in runs))}."]
        head += [f"Off: {'; '.join(f'{part} {why}' for part, why in run['off'].items())}." for run in runs[:1] if "off" in run]
    head += [f"{len(cases) - len(failed) - skipped} cases passed, {skipped} skipped; failed: {', '.join(failed) or 'none'}."]
    if rates := read_rates(lines):
        head += [f"Reads {statistics.median(rates) / 1e6:.2f} TB/s."]
    head += [f"{slow} lines were not judged: the host was too slow for them."] if slow else []
    head += [f"Refused: {line['bench']}: {line['refused']}." for line in lines if "refused" in line]
    return head


def table(lines: list[Line]) -> str:
    scale, head, form = scale_of(lines), head_of(lines), form_of(lines)
    lines = complete(lines)
    return "\n".join([*head, "", "| what | asked | worst | best | cases | met |", "|---|---|---|---|---|---|",
                      *(row_of(figure, lines, form, scale) for figure in FIGURES), *sanitizer_rows(lines)])


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    print(table(read([pathlib.Path(path) for path in sys.argv[1:]])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
