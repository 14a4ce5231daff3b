"""Compares decoding with the reference implementation. Hugging Face transformers generates token by token with its
key/value cache; this engine (mono_bench) does the same in turns within one run. Both use the model of mono_bench
(1.6 G random parameters, Mixtral's form, bf16) and one thread on one core.

    bash scripts/deps.d/golden.sh                                # once: torch and transformers
    ${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv/bin/python bench/transformers_decode.py

scripts/bench transformers does both. One JSON line per batch size.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

import torch
import transformers

MONO = pathlib.Path(__file__).resolve().parent.parent / "build/dev/bin/mono_bench"


def mono_step_ms(batch: int, steps: int) -> float:
    """The engine's median step, with experts in the same process and on the same thread."""
    command = [MONO, "--batch", str(batch), "--steps", str(steps), "--blocks", "1"]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        row = json.loads(line)
        if row["bench"] == "mono" and row["form"] == "mono":
            return row["step_ms_median"]
    raise RuntimeError("mono_bench printed no line of the form 'mono'")


@torch.inference_mode()
def transformers_steps_ms(model, batch: int, steps: int) -> list[float]:
    cache = transformers.DynamicCache(config=model.config)
    tokens = torch.arange(batch).unsqueeze(1) * 7919 % model.config.vocab_size
    out = []
    for _ in range(steps):
        began = time.perf_counter()
        logits = model(input_ids=tokens, past_key_values=cache, use_cache=True).logits
        tokens = logits[:, -1:].argmax(dim=-1)
        out.append((time.perf_counter() - began) * 1e3)
    return out[2:]  # the first tokens also allocate memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=3)
    args = parser.parse_args()
    shape = json.loads(subprocess.run([MONO, "--config"], capture_output=True, text=True, check=True).stdout)
    os.sched_setaffinity(0, {0})
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**shape)).eval()
    for batch in (1, 16):
        reference, ours = [], []
        for _ in range(args.blocks):
            reference += transformers_steps_ms(model, batch, args.steps)
            os.sched_setaffinity(0, range(os.cpu_count()))  # mono_bench pins its own threads
            ours.append(mono_step_ms(batch, args.steps))
            os.sched_setaffinity(0, {0})
        both = {"transformers": statistics.median(reference), "mono": statistics.median(ours)}
        print(
            json.dumps(
                {
                    "bench": "transformers_decode",
                    "batch": batch,
                    "transformers": transformers.__version__,
                    "torch": torch.__version__,
                    "transformers_step_ms": round(both["transformers"], 2),
                    "mono_step_ms": round(both["mono"], 2),
                    "transformers_over_mono": round(both["transformers"] / both["mono"], 2),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
