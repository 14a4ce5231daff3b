"""Writes tests/golden/deepseek_v3: a random checkpoint of DeepSeek-V3's form and what transformers makes
of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_deepseek_v3.py           # writes the folder anew
    $V/bin/python tests/golden/make_deepseek_v3.py --check   # says whether the files reproduce
    $V/bin/python tests/golden/make_deepseek_v3.py --search  # looks for prompts without near-ties

make_deepseek_v2.py beside it does what both have in common.
"""

import make_deepseek_v2 as v2
from golden_family import Weights, config_mutation, main, matrices, next_token_layer, to_torch

BIAS_SEED = 3

# No two sizes are equal: mixing them up fails. They are smaller than V2's.
V3 = {
    **v2.V2,
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 40,
    "kv_lora_rank": 24,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 12,
    "norm_topk_prob": True,
    "num_attention_heads": 3,
    "num_hidden_layers": 3,
    "num_key_value_heads": 3,
    "q_lora_rank": 28,
    "qk_nope_head_dim": 8,
    "rope_interleave": True,
    "v_head_dim": 20,
    "vocab_size": 192,
}
# V3 has a single way to choose, which transformers does not name.
del V3["topk_method"]


def published(config: dict) -> dict:
    """The same model, as the published checkpoints write it."""
    out = v2.published(config)
    del out["rope_interleave"], out["output_router_logits"]
    out |= {
        "num_nextn_predict_layers": 1,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "transformers_version": "4.33.1",
    }
    return dict(sorted(out.items()))


def make_weights(c: dict) -> Weights:
    """V2's weights, with biases that change which experts are chosen, and parts of a layer that must not be loaded."""
    out = v2.make_weights(c)
    rng, matrix, norm = matrices(BIAS_SEED)
    for i in range(c["first_k_dense_replace"], c["num_hidden_layers"]):
        bias = rng.uniform(-0.4, 0.4, c["n_routed_experts"])
        out |= to_torch({f"model.layers.{i}.mlp.gate.e_score_correction_bias": bias})
    return out | next_token_layer(c, matrix, norm)


def group_mutations(_: dict) -> list[dict]:
    config = config_mutation
    return [
        config("n_group", {"/n_group": 6}),
        config("topk_group", {"/topk_group": 1}),
        config("rope_interleave", {"/rope_interleave": False}),
    ]


if __name__ == "__main__":
    main(v2.family("deepseek_v3", V3, (440, 344, 15), published, make_weights, group_mutations))
