"""Decodes the models of serve_gpu_bench with Hugging Face transformers on the same GPU, with random weights
of the same shapes in bfloat16. Run it with the file of results of serve_gpu_bench: that says how many of
Mixtral's layers were served. It adds a JSON line for each model and batch that the file has for 1A1E.
`ours_over` is the TPOT of our 1A1E over that of transformers.

    python3 bench/gpu/transformers_decode.py --results FILE
    python3 bench/gpu/transformers_decode.py --try     # both models, small, on a CPU; writes nothing

Needs torch and transformers, or ends with status 77. TPOT is the mean of all steps after the first token, as
for ours, and over the same contexts: prompts of 64 tokens, answers of 128. A short answer comes first, to
warm up.
"""

import argparse
import json
import pathlib
import re
import sys
import time
from collections.abc import Iterable

try:
    import torch
    import transformers
except ImportError as why:
    print(why)
    sys.exit(77)

PROMPT, ANSWER, WARM_UP = 64, 128, 4
# Lines of serve_gpu_bench. processes_gpu_bench serves only two layers, and answers half as long.
OURS = re.compile(rf"Mixtral of (\d+) layers, 1A1E, batch \d+, prompt {PROMPT}, answer {ANSWER}")


def mixtral(layers: int, scale: int = 1) -> transformers.PreTrainedModel:
    """`scale`: divides the sizes of the model."""
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=32000 // scale, hidden_size=4096 // scale, intermediate_size=14336 // scale,
        num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128 // scale, num_local_experts=8, num_experts_per_tok=2,
        max_position_embeddings=4096, rope_theta=1e6))


def v2_lite(layers: int, scale: int = 1) -> transformers.PreTrainedModel:
    return transformers.DeepseekV2ForCausalLM(transformers.DeepseekV2Config(
        vocab_size=102400 // scale, hidden_size=2048 // scale, intermediate_size=10944 // scale,
        moe_intermediate_size=1408 // scale, num_hidden_layers=layers, num_attention_heads=16,
        num_key_value_heads=16, n_shared_experts=2, n_routed_experts=64, num_experts_per_tok=6,
        first_k_dense_replace=1, norm_topk_prob=False, topk_method="greedy",
        kv_lora_rank=512 // scale, q_lora_rank=None, qk_rope_head_dim=64 // scale,
        qk_nope_head_dim=128 // scale, v_head_dim=128 // scale, max_position_embeddings=4096))


@torch.inference_mode()
def decode_seconds(model: transformers.PreTrainedModel, batch: int, answer: int) -> float:
    """Seconds from the first token of an answer to its last."""
    device = model.device
    cache = transformers.DynamicCache(config=model.config)
    tokens = (torch.arange(batch * PROMPT, device=device) * 7919 + 1).view(batch, PROMPT)
    tokens %= model.config.vocab_size
    began = 0.0
    for made in range(answer):
        logits = model(input_ids=tokens, past_key_values=cache, use_cache=True,
                       logits_to_keep=1).logits
        tokens = logits[:, -1:].argmax(dim=-1)
        if device.type == "cuda" and made in (0, answer - 1):
            torch.cuda.synchronize()
        if made == 0:
            began = time.perf_counter()
    return time.perf_counter() - began


def tpot_ms(model: transformers.PreTrainedModel, batch: int, answer: int) -> float:
    decode_seconds(model, batch, WARM_UP)
    return decode_seconds(model, batch, answer) / (answer - 1) * 1e3


def layers_served(names: Iterable[str]) -> int | None:
    """Mixtral's layers; None: it was not served."""
    return next((int(match[1]) for name in names if (match := OURS.fullmatch(name))), None)


def compare(path: pathlib.Path) -> None:
    rows = map(json.loads, path.read_text().splitlines())
    lines = {row["bench"]: row for row in rows if "bench" in row}
    models = [("V2-Lite", lambda: v2_lite(27))]
    if (layers := layers_served(lines)) is not None:
        models.append((f"Mixtral of {layers} layers", lambda: mixtral(layers)))
    for name, make in models:
        ours = {batch: lines.get(f"{name}, 1A1E, batch {batch}, prompt {PROMPT}, answer {ANSWER}", {})
                for batch in (64, 1, 256)}
        wanted = [batch for batch, line in ours.items() if "tpot_ms" in line]
        if not wanted:
            continue
        with torch.device("cuda"):
            model = make().eval()
        for batch in wanted:
            took = tpot_ms(model, batch, ANSWER)
            row = {"bench": f"{name}, transformers, batch {batch}", "tpot_ms": round(took, 4),
                   "ours_over": round(ours[batch]["tpot_ms"] / took, 4),
                   "transformers": transformers.__version__, "torch": torch.__version__}
            with path.open("a") as out:
                out.write(json.dumps(row) + "\n")
        del model
        torch.cuda.empty_cache()


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
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    if not args.tries:
        compare(args.results)
        return
    for make in (v2_lite, mixtral):
        model = make(2, 8).eval()
        print(type(model).__name__, f"{tpot_ms(model, 3, WARM_UP + 2):.1f} ms")


if __name__ == "__main__":
    main()
