"""Writes tests/golden/qwen3_moe: a random Qwen3-MoE checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_qwen3_moe.py             # writes the folder anew
    $V/bin/python tests/golden/make_qwen3_moe.py --check     # says whether the files reproduce
    $V/bin/python tests/golden/make_qwen3_moe.py --search    # looks for prompts without near-ties

golden_family.py beside it does what all families share.
"""

import transformers
from golden_family import (
    Family,
    Weights,
    as_published,
    config_mutation,
    head_matrix,
    main,
    matrices,
    tensor_mutation,
    to_torch,
    with_values,
)

WEIGHT_SEED = 3
DENSE_LAYER = 1

YARN = {
    "beta_fast": 4,
    "beta_slow": 1,
    "factor": 4.0,
    "original_max_position_embeddings": 128,
    "rope_theta": 200.0,
    "rope_type": "yarn",
}

CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "decoder_sparse_step": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 48,
    "initializer_range": 0.02,
    "intermediate_size": 72,
    "max_position_embeddings": 512,
    "mlp_only_layers": [DENSE_LAYER],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
    "num_attention_heads": 6,
    "num_experts": 12,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 0.01,
    "rope_parameters": {"rope_theta": 200.0, "rope_type": "default"},
    "router_aux_loss_coef": 0.001,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 384,
}


CONFIGS = {
    "config.json": CONFIG,
    "config.published.json": as_published(CONFIG, "4.51.0", max_window_layers=4, rope_scaling=None),
    "config.tied.json": with_values(CONFIG, {"/tie_word_embeddings": True}),
    "config.yarn.json": with_values(CONFIG, {"/rope_parameters": YARN}),
}

CASES = {
    "prompt1": ("config.json", 1, 505, True),
    "prompt17": ("config.json", 17, 198, True),
    "prompt300": ("config.json", 300, 123, True),
    "yarn300": ("config.yarn.json", 300, 131, True),
    "tied17": ("config.tied.json", 17, 198, False),
}


def make_weights() -> Weights:
    """Random weights under the hub's names, scaled so that each of them affects the logits."""
    rng, matrix, norm = matrices(WEIGHT_SEED)
    c = CONFIG
    hidden, head = c["hidden_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head

    out = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], hidden)) * 0.1}

    def ffn(prefix, inner):
        out[prefix + "gate_proj.weight"] = matrix(inner, hidden, 1.5)
        out[prefix + "up_proj.weight"] = matrix(inner, hidden, 1.0)
        out[prefix + "down_proj.weight"] = matrix(hidden, inner, 1.5)

    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        attention = layer + "self_attn."
        out[layer + "input_layernorm.weight"] = norm(hidden)
        out[attention + "q_proj.weight"] = matrix(q, hidden, 1.0)
        out[attention + "k_proj.weight"] = matrix(kv, hidden, 1.0)
        out[attention + "v_proj.weight"] = matrix(kv, hidden, 1.0)
        out[attention + "o_proj.weight"] = matrix(hidden, q, 1.0)
        out[attention + "q_norm.weight"] = norm(head)
        out[attention + "k_norm.weight"] = norm(head)
        out[layer + "post_attention_layernorm.weight"] = norm(hidden)
        if i == DENSE_LAYER:
            ffn(layer + "mlp.", c["intermediate_size"])
            continue
        out[layer + "mlp.gate.weight"] = matrix(c["num_experts"], hidden, 1.5)
        for e in range(c["num_experts"]):
            ffn(f"{layer}mlp.experts.{e}.", c["moe_intermediate_size"])
    out["model.norm.weight"] = norm(hidden)
    out["lm_head.weight"] = head_matrix(rng, matrix, c["vocab_size"], hidden)
    return to_torch(out)


def mutations(expert_of: list[int]) -> list[dict]:
    config, tensor = config_mutation, tensor_mutation

    def yarn(name, value):
        values = {f"/rope_parameters/{name}": value}
        return config(f"yarn {name}", values, case="yarn300", file="config.yarn.json")

    out = [
        config("rms_norm_eps", {"/rms_norm_eps": 1e-6}),
        config("rope_theta", {"/rope_parameters/rope_theta": 2000.0}),
        config("rope_theta, published", {"/rope_theta": 2000.0}, file="config.published.json"),
        config("rope_type", {"/rope_parameters": YARN}),
        yarn("factor", 8.0),
        yarn("beta_fast", 32),
        yarn("beta_slow", 0.25),
        yarn("attention_factor", 1.0),
        yarn("original_max_position_embeddings", 64),
        config("num_experts_per_tok down", {"/num_experts_per_tok": 2}),
        config("num_experts_per_tok up", {"/num_experts_per_tok": 4}),
        config("norm_topk_prob", {"/norm_topk_prob": False}),
        config("tie_word_embeddings", {"/tie_word_embeddings": True}, "moves or refused"),
        config(
            "use_sliding_window",
            {"/use_sliding_window": True, "/sliding_window": 8},
            "moves or refused",
        ),
        config("hidden_act", {"/hidden_act": "gelu"}, "moves or refused"),
        config("num_hidden_layers down", {"/num_hidden_layers": 3}, "moves or refused"),
        config("num_hidden_layers up", {"/num_hidden_layers": 5}, "refused"),
        config("hidden_size", {"/hidden_size": 96}, "refused"),
        config("intermediate_size", {"/intermediate_size": 64}, "refused"),
        config("moe_intermediate_size", {"/moe_intermediate_size": 32}, "refused"),
        config("vocab_size", {"/vocab_size": 380}, "refused"),
        config("num_experts", {"/num_experts": 16}, "refused"),
        config("mlp_only_layers", {"/mlp_only_layers": []}, "refused"),
        config("decoder_sparse_step", {"/decoder_sparse_step": 2}, "refused"),
        config("num_attention_heads", {"/num_attention_heads": 4}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 3}, "refused"),
        config("head_dim", {"/head_dim": 8}, "refused"),
    ]
    out.append(tensor("model.embed_tokens.weight"))
    moe = iter(expert_of)
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        out.append(tensor(layer + "input_layernorm.weight"))
        # A norm follows queries and keys, which cancels any factor except its sign.
        out += [tensor(f"{layer}self_attn.{p}_proj.weight", -1.0) for p in "qk"]
        parts = ["v_proj", "o_proj", "q_norm", "k_norm"]
        out += [tensor(f"{layer}self_attn.{part}.weight") for part in parts]
        out.append(tensor(layer + "post_attention_layernorm.weight"))
        ffn = layer + "mlp."
        if i != DENSE_LAYER:
            out.append(tensor(layer + "mlp.gate.weight"))
            ffn += f"experts.{next(moe)}."
        out += [tensor(f"{ffn}{p}_proj.weight") for p in ("gate", "up", "down")]
    return out + [tensor("model.norm.weight"), tensor("lm_head.weight")]


if __name__ == "__main__":
    main(Family("qwen3_moe", CONFIGS, CASES, make_weights, mutations))
