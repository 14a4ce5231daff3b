"""Writes tests/golden/qwen2_moe: a random Qwen2-MoE checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_qwen2_moe.py             # writes the folder anew
    $V/bin/python tests/golden/make_qwen2_moe.py --check     # says whether the files reproduce
    $V/bin/python tests/golden/make_qwen2_moe.py --search    # looks for prompts without near-ties

golden_family.py and golden_grouped.py beside it do what families share.
"""

import transformers
from golden_family import as_published, config_mutation, main
from golden_grouped import Grouped, family

DENSE_LAYER = 1

CONFIG = {
    "architectures": ["Qwen2MoeForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "decoder_sparse_step": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 48,
    "initializer_range": 0.02,
    "intermediate_size": 72,
    "max_position_embeddings": 512,
    "mlp_only_layers": [DENSE_LAYER],
    "model_type": "qwen2_moe",
    "moe_intermediate_size": 24,
    "norm_topk_prob": False,
    "num_attention_heads": 4,
    "num_experts": 12,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "output_router_logits": False,
    "pad_token_id": None,
    "qkv_bias": True,
    "rms_norm_eps": 0.01,
    "rope_parameters": {"rope_theta": 200.0, "rope_type": "default"},
    "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 40,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 192,
}

PUBLISHED = as_published(CONFIG, "4.40.1", without=("qkv_bias",), max_window_layers=4, sliding_window=128)

GROUPED = Grouped(
    CONFIG,
    seed=11,
    experts=CONFIG["num_experts"],
    expert_width=CONFIG["moe_intermediate_size"],
    is_dense=lambda layer: layer == DENSE_LAYER,
    has_bias=True,
    shared="shared_expert",
    shared_width=CONFIG["shared_expert_intermediate_size"],
    shared_gate="shared_expert_gate",
)


def mutations(expert_of: list[int]) -> list[dict]:
    config = config_mutation
    return [
        *GROUPED.config_mutations(),
        config("norm_topk_prob", {"/norm_topk_prob": True}),
        config("qkv_bias", {"/qkv_bias": False}, "moves or refused"),
        config(
            "use_sliding_window",
            {"/use_sliding_window": True, "/sliding_window": 8},
            "moves or refused",
        ),
        config("num_hidden_layers down", {"/num_hidden_layers": 3}, "moves or refused"),
        config("intermediate_size", {"/intermediate_size": 64}, "refused"),
        config("moe_intermediate_size", {"/moe_intermediate_size": 32}, "refused"),
        config(
            "shared_expert_intermediate_size", {"/shared_expert_intermediate_size": 48}, "refused"
        ),
        config("num_experts", {"/num_experts": 16}, "refused"),
        config("mlp_only_layers", {"/mlp_only_layers": []}, "refused"),
        config("decoder_sparse_step", {"/decoder_sparse_step": 2}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 4}, "refused"),
        *GROUPED.tensor_mutations(expert_of),
    ]


if __name__ == "__main__":
    main(family("qwen2_moe", CONFIG, PUBLISHED, (89, 87, 1070), GROUPED.weights, mutations))
