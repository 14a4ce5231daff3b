"""Writes tests/golden/deepseek_v2 and deepseek_v2_lite: random checkpoints of DeepSeek-V2's two forms
and what transformers makes of them.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_deepseek_v2.py           # writes the folders anew
    $V/bin/python tests/golden/make_deepseek_v2.py --check   # says whether the files reproduce
    $V/bin/python tests/golden/make_deepseek_v2.py --search  # looks for prompts without near-ties

golden_family.py beside it does what all families share.
"""

import functools
from collections.abc import Callable

import transformers
from golden_family import (
    Family,
    Weights,
    config_mutation,
    head_matrix,
    main,
    matrices,
    tensor_mutation,
    to_torch,
    with_values,
)

WEIGHT_SEED = 2

# No two sizes are equal: mixing them up fails. YaRN's ramp begins and ends between the first and the last of the 8
# pairs. Its two scales differ, so that both the rotation and the softmax show them. The epsilon is far from 1e-6, which
# the norms of the latent vectors always have.
V2 = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "first_k_dense_replace": 1,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 48,
    "initializer_range": 0.02,
    "intermediate_size": 72,
    "kv_lora_rank": 32,
    "max_position_embeddings": 512,
    "mlp_bias": False,
    "model_type": "deepseek_v2",
    "moe_intermediate_size": 24,
    "n_group": 4,
    "n_routed_experts": 12,
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "num_attention_heads": 4,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "output_router_logits": False,
    "pad_token_id": None,
    "q_lora_rank": 40,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 16,
    "rms_norm_eps": 0.01,
    "rope_parameters": {
        "beta_fast": 4,
        "beta_slow": 1,
        "factor": 4.0,
        "mscale": 1.5,
        "mscale_all_dim": 0.8,
        "original_max_position_embeddings": 128,
        "rope_theta": 100.0,
        "rope_type": "yarn",
    },
    "routed_scaling_factor": 2.5,
    "tie_word_embeddings": False,
    "topk_group": 2,
    "topk_method": "group_limited_greedy",
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "v_head_dim": 20,
    "vocab_size": 384,
}

# V2-Lite projects its queries directly and chooses from all experts.
LITE = {
    **V2,
    "n_group": 1,
    "q_lora_rank": None,
    "routed_scaling_factor": 1.0,
    "topk_group": 1,
    "topk_method": "greedy",
}


def published(config: dict) -> dict:
    """The same model, as the published checkpoints write it."""
    out = {k: v for k, v in config.items() if k not in ("rope_parameters", "dtype", "head_dim")}
    rope = dict(config["rope_parameters"])
    out["rope_theta"] = rope.pop("rope_theta")
    out["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}
    out |= {
        "aux_loss_alpha": 0.001,
        "ep_size": 1,
        "moe_layer_freq": 1,
        "pretraining_tp": 1,
        "scoring_func": "softmax",
        "seq_aux": True,
        "torch_dtype": config["dtype"],
        "transformers_version": "4.39.3",
    }
    return dict(sorted(out.items()))


def make_weights(c: dict) -> Weights:
    """Random weights under the hub's names, scaled so that each of them affects the logits."""
    rng, matrix, norm = matrices(WEIGHT_SEED)
    hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    nope, rope, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]

    out = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], hidden)) * 0.1}

    def ffn(prefix, inner):
        out[prefix + "gate_proj.weight"] = matrix(inner, hidden, 1.5)
        out[prefix + "up_proj.weight"] = matrix(inner, hidden, 1.0)
        out[prefix + "down_proj.weight"] = matrix(hidden, inner, 1.2)

    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        attention = layer + "self_attn."
        out[layer + "input_layernorm.weight"] = norm(hidden)
        if c["q_lora_rank"] is None:
            out[attention + "q_proj.weight"] = matrix(heads * (nope + rope), hidden, 1.5)
        else:
            out[attention + "q_a_proj.weight"] = matrix(c["q_lora_rank"], hidden, 1.0)
            out[attention + "q_a_layernorm.weight"] = norm(c["q_lora_rank"])
            out[attention + "q_b_proj.weight"] = matrix(
                heads * (nope + rope), c["q_lora_rank"], 1.5
            )
        out[attention + "kv_a_proj_with_mqa.weight"] = matrix(rank + rope, hidden, 1.5)
        out[attention + "kv_a_layernorm.weight"] = norm(rank)
        out[attention + "kv_b_proj.weight"] = matrix(heads * (nope + value), rank, 1.5)
        out[attention + "o_proj.weight"] = matrix(hidden, heads * value, 1.0)
        out[layer + "post_attention_layernorm.weight"] = norm(hidden)
        if i < c["first_k_dense_replace"]:
            ffn(layer + "mlp.", c["intermediate_size"])
            continue
        out[layer + "mlp.gate.weight"] = matrix(c["n_routed_experts"], hidden, 1.5)
        for e in range(c["n_routed_experts"]):
            ffn(f"{layer}mlp.experts.{e}.", c["moe_intermediate_size"])
        ffn(layer + "mlp.shared_experts.", c["n_shared_experts"] * c["moe_intermediate_size"])
    out["model.norm.weight"] = norm(hidden)
    out["lm_head.weight"] = head_matrix(rng, matrix, c["vocab_size"], hidden)
    return to_torch(out)


def group_mutations(c: dict) -> list[dict]:
    config = config_mutation
    if c["n_group"] == 1:
        groups = {"/topk_method": "group_limited_greedy", "/n_group": 4, "/topk_group": 1}
        return [config("topk_method", groups)]
    return [
        config("topk_method", {"/topk_method": "greedy"}),
        config("n_group", {"/n_group": 6}),
        config("topk_group", {"/topk_group": 1}),
    ]


def mutations(c: dict, groups: list[dict], expert_of: list[int]) -> list[dict]:
    """The mutations that V2's and V3's forms share, with those of the choice from groups."""
    config, tensor = config_mutation, tensor_mutation
    heads, nope = 2 * c["num_attention_heads"], c["qk_nope_head_dim"]

    def rope(name, value, case="prompt17"):
        return config(name, {f"/rope_parameters/{name}": value}, case=case)

    out = [
        config("rms_norm_eps", {"/rms_norm_eps": 1e-6}),
        rope("rope_theta", 1000.0),
        rope("factor", 8.0),
        rope("beta_fast", 32),
        rope("beta_slow", 0.25),
        rope("mscale", 0.8),
        rope("mscale_all_dim", 1.5),
        rope("original_max_position_embeddings", 64),
        config(
            "mscale, published", {"/rope_scaling/mscale": 0.8}, file="config.published.json"
        ),
        config(
            "mscale_all_dim, published",
            {"/rope_scaling/mscale_all_dim": 1.5},
            file="config.published.json",
        ),
        config(
            "rope_type",
            {"/rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
        ),
        config(
            "rope_type other",
            {"/rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0}},
            "moves or refused",
        ),
        config("num_experts_per_tok down", {"/num_experts_per_tok": 2}),
        config("num_experts_per_tok up", {"/num_experts_per_tok": 4}),
        config("routed_scaling_factor", {"/routed_scaling_factor": 1.7}),
        # V2's published code divides by the sum instead of scaling.
        config(
            "norm_topk_prob",
            {"/norm_topk_prob": not c["norm_topk_prob"]},
            ignored_by_transformers=c["model_type"] == "deepseek_v2",
        ),
        config("tie_word_embeddings", {"/tie_word_embeddings": True}, "moves or refused"),
        config("hidden_act", {"/hidden_act": "gelu"}, "moves or refused"),
        config("num_hidden_layers down", {"/num_hidden_layers": c["num_hidden_layers"] - 1}, "moves or refused"),
        config("num_hidden_layers up", {"/num_hidden_layers": c["num_hidden_layers"] + 1}, "refused"),
        config("hidden_size", {"/hidden_size": 2 * c["hidden_size"]}, "refused"),
        config("intermediate_size", {"/intermediate_size": c["intermediate_size"] - 8}, "refused"),
        config("moe_intermediate_size", {"/moe_intermediate_size": c["moe_intermediate_size"] + 8}, "refused"),
        config("vocab_size", {"/vocab_size": c["vocab_size"] - 4}, "refused"),
        config("n_routed_experts", {"/n_routed_experts": c["n_routed_experts"] + 4}, "refused"),
        config("n_shared_experts down", {"/n_shared_experts": 1}, "refused"),
        config("n_shared_experts up", {"/n_shared_experts": 3}, "refused"),
        config("first_k_dense_replace down", {"/first_k_dense_replace": 0}, "refused"),
        config("first_k_dense_replace up", {"/first_k_dense_replace": 2}, "refused"),
        config(
            "num_attention_heads",
            {"/num_attention_heads": heads, "/num_key_value_heads": heads},
            "refused",
        ),
        config("kv_lora_rank", {"/kv_lora_rank": c["kv_lora_rank"] - 8}, "refused"),
        config(
            "head split", {"/qk_nope_head_dim": nope + 8, "/qk_rope_head_dim": 8}, "refused"
        ),
        config("qk_nope_head_dim", {"/qk_nope_head_dim": nope + 4}, "refused"),
        config("v_head_dim", {"/v_head_dim": c["v_head_dim"] - 4}, "refused"),
    ]
    if c["q_lora_rank"] is None:
        out.append(config("q_lora_rank", {"/q_lora_rank": 40}, "refused"))
    else:
        out += [
            config("q_lora_rank", {"/q_lora_rank": c["q_lora_rank"] - 8}, "refused"),
            config("q_lora_rank absent", {"/q_lora_rank": None}, "refused"),
        ]
    out += groups
    out.append(tensor("model.embed_tokens.weight"))
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        out.append(tensor(layer + "input_layernorm.weight"))
        queries = ["q_proj"] if c["q_lora_rank"] is None else ["q_a_layernorm", "q_b_proj"]
        if c["q_lora_rank"] is not None:
            # A norm follows, which cancels any factor except its sign.
            out.append(tensor(layer + "self_attn.q_a_proj.weight", -1.0))
        parts = [*queries, "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"]
        out += [tensor(f"{layer}self_attn.{part}.weight") for part in parts]
        out.append(tensor(layer + "post_attention_layernorm.weight"))
        if i < c["first_k_dense_replace"]:
            ffns = [layer + "mlp."]
        else:
            expert = expert_of[i - c["first_k_dense_replace"]]
            out.append(tensor(layer + "mlp.gate.weight"))
            if c["model_type"] == "deepseek_v3":
                out.append(tensor(layer + "mlp.gate.e_score_correction_bias", -1.0))
            ffns = [f"{layer}mlp.experts.{expert}.", layer + "mlp.shared_experts."]
        for ffn in ffns:
            out += [tensor(f"{ffn}{p}_proj.weight") for p in ("gate", "up", "down")]
    return out + [tensor("model.norm.weight"), tensor("lm_head.weight")]


def family(
    folder: str,
    config: dict,
    seeds: tuple[int, int, int],
    published: Callable[[dict], dict] = published,
    make_weights: Callable[[dict], Weights] = make_weights,
    group_mutations: Callable[[dict], list[dict]] = group_mutations,
) -> Family:
    return Family(
        folder,
        configs={
            "config.json": config,
            "config.published.json": published(config),
            "config.tied.json": with_values(config, {"/tie_word_embeddings": True}),
        },
        cases={
            "prompt1": ("config.json", 1, seeds[0], True),
            "prompt17": ("config.json", 17, seeds[1], True),
            "prompt300": ("config.json", 300, seeds[2], True),
            "tied17": ("config.tied.json", 17, seeds[1], False),
        },
        make_weights=functools.partial(make_weights, config),
        mutations=functools.partial(mutations, config, group_mutations(config)),
    )


if __name__ == "__main__":
    main(
        family("deepseek_v2", V2, (1547, 402, 467)),
        family("deepseek_v2_lite", LITE, (790, 389, 771)),
    )
