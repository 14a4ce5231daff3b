"""The price of batch invariance. It compares kernels that use one algorithm for every batch with torch's,
which choose freely (cuBLAS, cuDNN, FlashAttention, its own norms), at the sizes of projections_gpu_bench,
attention_gpu_bench and rows_gpu_bench. The experts of experts_gpu_bench at 4,096 rows and more are compared
with dense products of as many operations, whose weights do not depend on experts. Run it on the same GPU,
with the file of results that those programs have written. It adds a JSON line per case that they have.
`price` is by how much torch's rate exceeds ours: 0.1 is 10 %. The rate is in bytes or, if operations are the
limit, in operations. For a norm, `price` is by how much our time exceeds torch's for the same bytes in and
out, fp32 to bfloat16. torch has no single norm for this: it norms and rounds in two passes.

Cases that move less than 16 MiB are left out: such a call takes about as long as its launch. A first line
says so, with the number of cases.

    python3 bench/gpu/free_choice.py --results FILE
    python3 bench/gpu/free_choice.py --try     # every case once on a CPU, small; writes nothing

Needs torch, or ends with status 77. Inputs rotate through 4 GiB, as for our kernels. Times are taken
between two events round the call, as medians of 30 calls, each queued while the GPU is kept busy
(bench/gpu/stream_times.h). If Python has not queued a call before the GPU is free, all calls are timed
again behind a longer spin; if the longest spin is too short, the line has `host_too_slow`. For attention,
torch may choose among its backends, and the fastest counts. Above 512 Ki keys only backends that do not
copy the keys for each head are tried. torch has keys and values in one piece, ours has them on pages; above
4 GiB torch allocates separate memory, if there is enough.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
from collections.abc import Callable

try:
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as why:
    print(why)
    sys.exit(77)

ARENA_BYTES = 4 << 30
CALLS, WARM_UP = 30, 3
SPIN_CYCLES = 2_000_000  # about a millisecond: Python queues slower than C++
MOST_SPIN_CYCLES = SPIN_CYCLES * 16
LEAST_BYTES = 16 << 20
MANY_KEYS = 1 << 19
BF16 = torch.bfloat16
BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
            SDPBackend.MATH)

# Outputs and inputs, as in projections_gpu_bench.
MATRICES = {
    "DeepSeek-V3": {"q_a": (1536, 7168), "q_b": (24576, 1536), "kv_a": (576, 7168), "o": (7168, 16384)},
    "Qwen3-235B": {"q": (8192, 4096), "k": (512, 4096), "v": (512, 4096), "o": (4096, 8192)},
}
# Hidden and intermediate size, then experts and rows of each, as in experts_gpu_bench.
EXPERTS = {"DeepSeek-V3": (7168, 2048), "DeepSeek-V2": (5120, 1536)}
BATCHES = ((8, 512), (32, 128), (8, 2048), (16, 1024), (32, 512))
# Heads, kv heads and head dim, as in attention_gpu_bench.
HEADS = {"Qwen3-235B": (64, 4, 128), "Mixtral": (32, 8, 128)}
# Groups, hidden size, and a factor for each of the numbers of rows, as in rows_gpu_bench.
NORMS = ((1, 7168, 1), (68, 128, 1), (1, 512, 8))


@dataclasses.dataclass
class Case:
    name: str  # our line, to compare time and bytes with
    bytes: int  # that torch must move
    make: Callable[["Arena"], Callable[[int], object]]  # makes the call, which gets its number
    of: str  # the torch function that is timed
    flops: int = 0  # if operations are compared
    is_by_time: bool = False  # compares times of the same work, not bytes


class Arena:
    """Random bfloat16 memory that inputs rotate through."""

    def __init__(self, device: str, size: int):
        self.device = device
        self.of = torch.empty(size // 2, dtype=BF16, device=device).uniform_(-0.02, 0.02)
        self.beyond: torch.Tensor | None = None

    def piece(self, call: int, *shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        """An input of a call, behind that of the call before, round the arena. An fp32 value is made of two elements;
        none is infinite or NaN."""
        if dtype != BF16:
            return self.piece(call, *shape[:-1], 2 * shape[-1]).view(dtype)
        count = torch.Size(shape).numel()
        if count > self.of.numel():
            return self.large(count).view(shape)
        room = (count + 127) // 128 * 128
        first = call % (self.of.numel() // room) * room
        return self.of[first:first + count].view(shape)

    def large(self, count: int) -> torch.Tensor:
        """Memory that is reused, for inputs larger than the cache."""
        if self.beyond is None or self.beyond.numel() < count:
            self.beyond = None
            self.beyond = torch.empty(count, dtype=BF16, device=self.device).uniform_(-0.02, 0.02)
        return self.beyond[:count]

    def rows(self, *shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=self.device).uniform_(-1, 1)


def projection(model: str, matrix: str, rows: int) -> Case:
    outputs, inputs = MATRICES[model][matrix]

    def make(arena: Arena) -> Callable[[int], object]:
        x = arena.rows(rows, inputs)
        return lambda call: functional.linear(x, arena.piece(call, outputs, inputs))

    moved = 2 * (outputs * inputs + rows * (inputs + outputs))
    return Case(f"{model} {matrix} bf16 fast, {rows} rows", moved, make, "linear")


def dense(model: str, experts: int, rows_each: int) -> Case:
    """Up and down projections as if one expert had all rows."""
    hidden, intermediate = EXPERTS[model]
    rows = experts * rows_each

    def make(arena: Arena) -> Callable[[int], object]:
        x, h = arena.rows(rows, hidden), arena.rows(rows, intermediate)

        def call(number: int) -> object:
            functional.linear(x, arena.piece(number, 2 * intermediate, hidden))
            return functional.linear(h, arena.piece(number, hidden, intermediate))
        return call

    moved = 2 * (3 * hidden * intermediate + rows * (2 * hidden + 3 * intermediate))
    return Case(f"{model} bf16 wgmma, {experts} experts of {rows_each}", moved, make, "linear",
                6 * rows * hidden * intermediate)


def attention(model: str, batch: int, context: int, backend: SDPBackend) -> Case:
    heads, kv_heads, width = HEADS[model]

    def make(arena: Arena) -> Callable[[int], object]:
        queries = arena.rows(batch, heads, 1, width)

        def call(number: int) -> object:
            both = arena.piece(number, 2, batch, kv_heads, context, width)
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(queries, both[0], both[1],
                                                               enable_gqa=True)
        return call

    moved = 2 * batch * (2 * kv_heads * context * width + 2 * heads * width)
    return Case(f"{model} attention bf16 fast, batch {batch} context {context}", moved, make,
                f"sdpa, {backend.name.lower()}")


def norm(groups: int, hidden: int, rows: int, name_rows: int) -> Case:
    """From fp32, the residual's type, to bfloat16."""
    def make(arena: Arena) -> Callable[[int], object]:
        weight = arena.rows(hidden, dtype=torch.float32)

        def call(number: int) -> object:
            x = arena.piece(number, rows, groups, hidden, dtype=torch.float32)
            return functional.rms_norm(x, (hidden,), weight, 1e-6).to(BF16)
        return call

    return Case(f"norm of {groups} x {hidden}, {name_rows} rows", 6 * rows * groups * hidden + 2 * hidden,
                make, "rms_norm, then to bfloat16", is_by_time=True)


def backends_for(keys: int) -> tuple[SDPBackend, ...]:
    return BACKENDS if keys <= MANY_KEYS else BACKENDS[:-1]


def all_cases() -> list[list[Case]]:
    """The torch cases for each of our lines, of which the fastest counts; the most informative lines first."""
    listed = [[projection(model, matrix, rows)]
              for rows in (8, 64, 1) for model in MATRICES for matrix in MATRICES[model]]
    listed += [[attention(model, batch, context, backend) for backend in backends_for(batch * context)]
               for context in (4096, 512, 16384, 65536) for model in HEADS for batch in (64, 1, 16, 256)
               if batch * context <= 1 << 22]
    listed += [[dense(model, *batch)] for batch in BATCHES for model in EXPERTS]
    listed += [[norm(groups, hidden, times * rows, times * rows)]
               for rows in (4096, 64) for groups, hidden, times in NORMS]
    return listed


def cases() -> list[list[Case]]:
    return [choices for choices in all_cases() if choices[0].bytes >= LEAST_BYTES]


class Gpu:
    def __init__(self) -> None:
        self.arena = Arena("cuda", ARENA_BYTES)

    def microseconds(self, case: Case) -> tuple[float, bool]:
        """Returns also whether Python was ahead of the GPU at every call."""
        call = case.make(self.arena)
        for number in range(WARM_UP):
            call(number)
        cycles = SPIN_CYCLES
        while True:
            took, is_ahead = self.sample(call, cycles)
            if is_ahead or cycles >= MOST_SPIN_CYCLES:
                return took, is_ahead
            cycles *= 4

    @staticmethod
    def sample(call: Callable[[int], object], cycles: int) -> tuple[float, bool]:
        torch.cuda.synchronize()
        is_ahead = True
        ends = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                for _ in range(CALLS)]
        for number, (begin, end) in enumerate(ends):
            spun = torch.cuda.Event()
            torch.cuda._sleep(cycles)
            spun.record()
            begin.record()
            call(WARM_UP + number)
            end.record()
            is_ahead = is_ahead and not spun.query()
        torch.cuda.synchronize()
        return 1e3 * statistics.median(begin.elapsed_time(end) for begin, end in ends), is_ahead


def fastest(gpu: Gpu, choices: list[Case]) -> tuple[float, bool, Case] | None:
    """None if no case can run."""
    best = None
    for case in choices:
        try:
            took, is_ahead = gpu.microseconds(case)
        except RuntimeError as refusal:  # the backend does not support these heads
            print(f"{case.name}, {case.of}: {refusal}", file=sys.stderr)
            torch.cuda.empty_cache()  # frees what the case holds after it ran out of memory
            continue
        if best is None or took < best[0]:
            best = (took, is_ahead, case)
    return best


def price_of(case: Case, took: float, ours: dict) -> float:
    if case.is_by_time:
        return ours["us"] / took - 1
    if case.flops:
        return case.flops / took / 1e6 / ours["tflops"] - 1
    return case.bytes / took / (ours["bytes"] / ours["us"]) - 1


def compare(path: pathlib.Path) -> None:
    rows = map(json.loads, path.read_text().splitlines())
    lines = {row["bench"]: row for row in rows if "bench" in row}

    def write(row: dict) -> None:
        with path.open("a") as out:
            out.write(json.dumps(row) + "\n")

    write({"bench": "free choice", "left_out": len(all_cases()) - len(cases()),
           "why": f"less than {LEAST_BYTES >> 20} MiB: bound by the launch"})
    gpu = Gpu()
    for choices in cases():
        # For a GPU without wgmma.
        beside = next((name for name in (choices[0].name, choices[0].name.replace(" wgmma", " fast")) if name in lines), "")
        ours = lines.get(beside)
        # A line without a time may have the reason instead.
        is_timed = ours is not None and "us" in ours and ("tflops" in ours or not choices[0].flops)
        if not is_timed or (best := fastest(gpu, choices)) is None:
            continue
        took, is_ahead, case = best
        row = {"bench": f"{beside}, torch", "us": round(took, 3), "ours_us": ours["us"],
               "price": round(price_of(case, took, ours), 4), "bytes": case.bytes, "of": case.of,
               "torch": torch.__version__}
        if not is_ahead or "host_too_slow" in ours:
            row["host_too_slow"] = 1
        write(row)


def try_all() -> None:
    """Checks that every case runs, on an arena that is small enough to wrap round many times."""
    arena = Arena("cpu", 1 << 28)
    tried = 0
    for choices in all_cases():
        case = choices[-1]  # of attention with few keys, the backend that every device has
        if 2 * case.bytes > 1 << 28:
            continue
        result = case.make(arena)(3)
        assert torch.isfinite(result).all(), case.name
        tried += 1
    print(f"{tried} of {len(all_cases())} cases, those within 128 MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--try", dest="tries", action="store_true")
    args = parser.parse_args()
    if args.tries == (args.results is not None):
        parser.error("either --results FILE or --try")
    if not args.tries and not torch.cuda.is_available():
        print("torch sees no GPU")
        sys.exit(77)
    with torch.inference_mode():
        try_all() if args.tries else compare(args.results)


if __name__ == "__main__":
    main()
