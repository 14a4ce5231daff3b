"""Writes tests/golden/minimax_m2: a random MiniMax-M2 checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_minimax_m2.py             # writes the folder anew
    $V/bin/python tests/golden/make_minimax_m2.py --check         # says whether the files reproduce
    $V/bin/python tests/golden/make_minimax_m2.py --search        # looks for prompts without near-ties

golden_family.py and golden_grouped.py beside it do what families share.
"""

import transformers
from golden_family import as_published, config_mutation, main
from golden_grouped import Grouped, family

SEED = 11

CONFIG = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 48,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "max_position_embeddings": 512,
    "model_type": "minimax_m2",
    "num_attention_heads": 6,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 12,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 0.01,
    "rope_parameters": {
        "partial_rotary_factor": 0.5,
        "rope_theta": 200.0,
        "rope_type": "default",
    },
    "router_aux_loss_coef": 0.001,
    "router_jitter_noise": 0.0,
    "tie_word_embeddings": False,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "vocab_size": 192,
}

PUBLISHED = as_published(
    CONFIG,
    "4.46.1",
    attn_type_list=[1, 1, 1, 1],
    mtp_transformer_layers=1,
    num_mtp_modules=3,
    qk_norm_type="per_layer",
    rotary_dim=8,
    scoring_func="sigmoid",
    shared_intermediate_size=0,
    use_qk_norm=True,
    use_routing_bias=True,
)

HEAD = CONFIG["head_dim"]
GROUPED = Grouped(
    CONFIG,
    seed=SEED,
    experts=CONFIG["num_local_experts"],
    expert_width=CONFIG["intermediate_size"],
    norms=(HEAD * CONFIG["num_attention_heads"], HEAD * CONFIG["num_key_value_heads"]),
    cancels=True,
    gate="block_sparse_moe.gate",
    gate_bias="block_sparse_moe.e_score_correction_bias",
    expert_names="block_sparse_moe.experts",
    expert_parts=("w1", "w3", "w2"),
)


def mutations(expert_of: list[int]) -> list[dict]:
    config = config_mutation
    return [
        *GROUPED.config_mutations(),
        config("partial_rotary_factor", {"/rope_parameters/partial_rotary_factor": 1.0}),
        config("rotary_dim, published", {"/rotary_dim": 4}, file="config.published.json"),
        config("num_hidden_layers down", {"/num_hidden_layers": 3}, "moves or refused"),
        config("intermediate_size", {"/intermediate_size": 32}, "refused"),
        config("num_local_experts", {"/num_local_experts": 16}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 3}, "refused"),
        config("head_dim", {"/head_dim": 8}, "refused"),
        *GROUPED.tensor_mutations(expert_of),
    ]


if __name__ == "__main__":
    main(family("minimax_m2", CONFIG, PUBLISHED, (7, 17, 51), GROUPED.weights, mutations))
