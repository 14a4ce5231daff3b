"""Writes tests/golden/glm4_moe: a random GLM-4.5 checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_glm4_moe.py              # writes the folder anew
    $V/bin/python tests/golden/make_glm4_moe.py --check      # says whether the files reproduce
    $V/bin/python tests/golden/make_glm4_moe.py --search     # looks for prompts without near-ties

golden_family.py and golden_grouped.py beside it do what families share.
"""

import transformers
from golden_family import (
    Weights,
    as_published,
    config_mutation,
    main,
    matrices,
    next_token_layer,
)
from golden_grouped import Grouped, family

SEED = 11
DENSE_LAYERS = 1

CONFIG = {
    "architectures": ["Glm4MoeForCausalLM"],
    "attention_bias": True,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "first_k_dense_replace": DENSE_LAYERS,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 48,
    "initializer_range": 0.02,
    "intermediate_size": 72,
    "max_position_embeddings": 512,
    "model_type": "glm4_moe",
    "moe_intermediate_size": 24,
    "n_group": 4,
    "n_routed_experts": 12,
    "n_shared_experts": 2,
    "norm_topk_prob": True,
    "num_attention_heads": 6,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "num_nextn_predict_layers": 1,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 0.01,
    "rope_parameters": {
        "partial_rotary_factor": 0.5,
        "rope_theta": 200.0,
        "rope_type": "default",
    },
    "routed_scaling_factor": 1.5,
    "tie_word_embeddings": False,
    "topk_group": 2,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "use_qk_norm": True,
    "vocab_size": 192,
}

PUBLISHED = as_published(
    CONFIG,
    "4.54.0",
    partial_rotary_factor=CONFIG["rope_parameters"]["partial_rotary_factor"],
    rope_scaling=None,
)

GROUPED = Grouped(
    CONFIG,
    seed=SEED,
    experts=CONFIG["n_routed_experts"],
    expert_width=CONFIG["moe_intermediate_size"],
    is_dense=lambda layer: layer < DENSE_LAYERS,
    has_bias=True,
    norms=(CONFIG["head_dim"], CONFIG["head_dim"]),
    cancels=True,
    gate_bias="mlp.gate.e_score_correction_bias",
    shared="shared_experts",
    shared_width=CONFIG["n_shared_experts"] * CONFIG["moe_intermediate_size"],
)


def make_weights() -> Weights:
    _, matrix, norm = matrices(GROUPED.seed + 1)
    return GROUPED.weights() | next_token_layer(CONFIG, matrix, norm)


def mutations(expert_of: list[int]) -> list[dict]:
    config = config_mutation
    return [
        *GROUPED.config_mutations(),
        config("partial_rotary_factor", {"/rope_parameters/partial_rotary_factor": 1.0}),
        config(
            "partial_rotary_factor, published",
            {"/partial_rotary_factor": 0.25},
            file="config.published.json",
        ),
        config("attention_bias", {"/attention_bias": False}, "moves or refused"),
        config("use_qk_norm", {"/use_qk_norm": False}, "moves or refused"),
        config("norm_topk_prob", {"/norm_topk_prob": False}),
        config("routed_scaling_factor", {"/routed_scaling_factor": 1.0}),
        config("n_group", {"/n_group": 6}),
        config("topk_group", {"/topk_group": 1}),
        config("first_k_dense_replace", {"/first_k_dense_replace": 2}, "refused"),
        config("num_hidden_layers down", {"/num_hidden_layers": 3}, "moves or refused"),
        config("intermediate_size", {"/intermediate_size": 64}, "refused"),
        config("moe_intermediate_size", {"/moe_intermediate_size": 32}, "refused"),
        config("n_shared_experts", {"/n_shared_experts": 1}, "refused"),
        config("n_routed_experts", {"/n_routed_experts": 16}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 3}, "refused"),
        config("head_dim", {"/head_dim": 8}, "refused"),
        *GROUPED.tensor_mutations(expert_of),
    ]


if __name__ == "__main__":
    main(family("glm4_moe", CONFIG, PUBLISHED, (122, 19, 23), make_weights, mutations))
