"""Writes tests/golden/mixtral: a random Mixtral checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_mixtral.py               # writes the folder anew
    $V/bin/python tests/golden/make_mixtral.py --check       # says whether the files reproduce
    $V/bin/python tests/golden/make_mixtral.py --search      # looks for prompts without near-ties

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

WEIGHT_SEED = 1
CASES = {
    "prompt1": ("config.json", 1, 1008, True),
    "prompt17": ("config.json", 17, 65, True),
    "prompt300": ("config.json", 300, 644, True),
    "sliding300": ("config.sliding.json", 300, 630, True),
    "tied17": ("config.tied.json", 17, 65, False),
}

# head_dim * heads differs from hidden_size, so that q, o and the residual stream cannot be mixed
# up. The epsilon is as large as the embeddings' mean square, so that its place matters.
CONFIG = {
    "architectures": ["MixtralForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 64,
    "initializer_range": 0.02,
    "intermediate_size": 48,
    "max_position_embeddings": 1024,
    "model_type": "mixtral",
    "num_attention_heads": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 0.01,
    "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"},
    "router_aux_loss_coef": 0.001,
    "router_jitter_noise": 0.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "vocab_size": 512,
}

CONFIGS = {
    "config.json": CONFIG,
    "config.published.json": as_published(CONFIG, "4.36.0"),
    "config.sliding.json": with_values(CONFIG, {"/sliding_window": 40}),
    "config.tied.json": with_values(CONFIG, {"/tie_word_embeddings": True}),
}


def make_weights() -> Weights:
    """Random weights under the hub's names, scaled so that each of them affects the logits."""
    rng, matrix, norm = matrices(WEIGHT_SEED)
    c = CONFIG
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]

    out = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], hidden)) * 0.1}
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        out[layer + "input_layernorm.weight"] = norm(hidden)
        out[layer + "self_attn.q_proj.weight"] = matrix(q, hidden, 1.5)
        out[layer + "self_attn.k_proj.weight"] = matrix(kv, hidden, 1.5)
        out[layer + "self_attn.v_proj.weight"] = matrix(kv, hidden, 1.0)
        out[layer + "self_attn.o_proj.weight"] = matrix(hidden, q, 1.0)
        out[layer + "post_attention_layernorm.weight"] = norm(hidden)
        out[layer + "block_sparse_moe.gate.weight"] = matrix(c["num_local_experts"], hidden, 1.5)
        for e in range(c["num_local_experts"]):
            expert = layer + f"block_sparse_moe.experts.{e}."
            out[expert + "w1.weight"] = matrix(inner, hidden, 1.5)
            out[expert + "w2.weight"] = matrix(hidden, inner, 1.5)
            out[expert + "w3.weight"] = matrix(inner, hidden, 1.0)
    out["model.norm.weight"] = norm(hidden)
    out["lm_head.weight"] = head_matrix(rng, matrix, c["vocab_size"], hidden)
    return to_torch(out)


def mutations(expert_of: list[int]) -> list[dict]:
    """The rows of sensitivity.json. expert_of[layer] is the expert whose tensors are mutated."""

    config, tensor = config_mutation, tensor_mutation

    def sliding(name, window):
        values = {"/sliding_window": window}
        return config(name, values, "moves", "sliding300", "config.sliding.json")

    linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}
    out = [
        config("rms_norm_eps", {"/rms_norm_eps": 1e-5}),
        config("rope_theta", {"/rope_parameters/rope_theta": 10000.0}),
        config("rope_theta, published", {"/rope_theta": 10000.0}, file="config.published.json"),
        config("rope_type", {"/rope_parameters": linear}, "moves or refused"),
        config("num_experts_per_tok down", {"/num_experts_per_tok": 1}),
        config("num_experts_per_tok up", {"/num_experts_per_tok": 3}),
        config("sliding_window set", {"/sliding_window": 8}),
        sliding("sliding_window longer", 41),
        sliding("sliding_window shorter", 39),
        config(
            "head split",
            {"/num_attention_heads": 4, "/num_key_value_heads": 1, "/head_dim": 32},
        ),
        config("num_hidden_layers down", {"/num_hidden_layers": 3}, "moves or refused"),
        config("tie_word_embeddings", {"/tie_word_embeddings": True}, "moves or refused"),
        config("hidden_act", {"/hidden_act": "gelu"}, "moves or refused"),
        config("num_hidden_layers up", {"/num_hidden_layers": 5}, "refused"),
        config("hidden_size", {"/hidden_size": 128}, "refused"),
        config("intermediate_size", {"/intermediate_size": 64}, "refused"),
        config("vocab_size", {"/vocab_size": 500}, "refused"),
        config("num_local_experts down", {"/num_local_experts": 6}, "refused"),
        config("num_local_experts up", {"/num_local_experts": 10}, "refused"),
        config("num_attention_heads", {"/num_attention_heads": 4}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 4}, "refused"),
        config("head_dim", {"/head_dim": 8}, "refused"),
    ]
    out.append(tensor("model.embed_tokens.weight"))
    for i, expert in enumerate(expert_of):
        layer = f"model.layers.{i}."
        out.append(tensor(layer + "input_layernorm.weight"))
        out += [tensor(f"{layer}self_attn.{p}_proj.weight") for p in "qkvo"]
        out.append(tensor(layer + "post_attention_layernorm.weight"))
        out.append(tensor(layer + "block_sparse_moe.gate.weight"))
        moe = f"{layer}block_sparse_moe.experts.{expert}."
        out += [tensor(f"{moe}{w}.weight") for w in ("w1", "w2", "w3")]
    return out + [tensor("model.norm.weight"), tensor("lm_head.weight")]


MIXTRAL = Family("mixtral", CONFIGS, CASES, make_weights, mutations)

if __name__ == "__main__":
    main(MIXTRAL)
