"""Writes tests/golden/olmoe: a random OLMoE checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_olmoe.py                 # writes the folder anew
    $V/bin/python tests/golden/make_olmoe.py --check         # says whether the files reproduce
    $V/bin/python tests/golden/make_olmoe.py --search        # looks for prompts without near-ties

golden_family.py and golden_grouped.py beside it do what families share.
"""

import transformers
from golden_family import as_published, config_mutation, main
from golden_grouped import Grouped, family

SEED = 11

CONFIG = {
    "architectures": ["OlmoeForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "clip_qkv": 1.25,
    "dtype": "float32",
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 64,
    "initializer_range": 0.02,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
    "model_type": "olmoe",
    "norm_topk_prob": False,
    "num_attention_heads": 4,
    "num_experts": 12,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 0.01,
    "rope_parameters": {"rope_theta": 200.0, "rope_type": "default"},
    "router_aux_loss_coef": 0.01,
    "tie_word_embeddings": False,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "vocab_size": 192,
}

PUBLISHED = as_published(CONFIG, "4.43.0.dev0", rope_scaling=None)

HEAD = CONFIG["hidden_size"] // CONFIG["num_attention_heads"]
GROUPED = Grouped(
    CONFIG,
    seed=SEED,
    experts=CONFIG["num_experts"],
    expert_width=CONFIG["intermediate_size"],
    norms=(CONFIG["hidden_size"], HEAD * CONFIG["num_key_value_heads"]),
    cancels=True,
)


def mutations(expert_of: list[int]) -> list[dict]:
    config = config_mutation
    return [
        *GROUPED.config_mutations(),
        config("clip_qkv", {"/clip_qkv": 0.5}),
        config("clip_qkv none", {"/clip_qkv": None}),
        config("norm_topk_prob", {"/norm_topk_prob": True}),
        config("attention_bias", {"/attention_bias": True}, "refused"),
        config("num_hidden_layers down", {"/num_hidden_layers": 3}, "moves or refused"),
        config("intermediate_size", {"/intermediate_size": 48}, "refused"),
        config("num_experts", {"/num_experts": 16}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 4}, "refused"),
        *GROUPED.tensor_mutations(expert_of),
    ]


if __name__ == "__main__":
    main(family("olmoe", CONFIG, PUBLISHED, (19, 26, 41), GROUPED.weights, mutations))
