"""Writes tests/golden/gpt_oss: a random gpt-oss checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_gpt_oss.py               # writes the folder anew
    $V/bin/python tests/golden/make_gpt_oss.py --check       # says whether the files reproduce
    $V/bin/python tests/golden/make_gpt_oss.py --search      # looks for prompts without near-ties

golden_family.py and golden_grouped.py beside it do what families share.
"""

import numpy as np
import torch
import transformers
from golden_family import Weights, as_published, config_mutation, main, tensor_mutation
from golden_grouped import BIAS, Grouped, family

SEED = 11
LAYERS = 3
SLIDING, FULL = "sliding_attention", "full_attention"

# Sizes are multiples of 32, as mxfp4 asks. YaRN's ramp begins and ends between whole pairs. A third of the experts'
# gates and ups are beyond the limit.
CONFIG = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 96,
    "initializer_range": 0.02,
    "intermediate_size": 32,
    "layer_types": [SLIDING, FULL, SLIDING],
    "max_position_embeddings": 512,
    "model_type": "gpt_oss",
    "num_attention_heads": 8,
    "num_experts_per_tok": 3,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 0.01,
    "rope_parameters": {
        "beta_fast": 4.0,
        "beta_slow": 0.5,
        "factor": 8.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 200.0,
        "rope_type": "yarn",
        "truncate": False,
    },
    "router_aux_loss_coef": 0.9,
    "sliding_window": 12,
    "swiglu_alpha": 1.702,
    "swiglu_limit": 1.5,
    "tie_word_embeddings": False,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "vocab_size": 192,
}

PUBLISHED = as_published(
    CONFIG,
    "4.55.0.dev0",
    without=("swiglu_alpha",),
    experts_per_token=CONFIG["num_experts_per_tok"],
    initial_context_length=64,
    rope_scaling={k: v for k, v in CONFIG["rope_parameters"].items() if k != "rope_theta"},
)


class Together(Grouped):
    """All experts of a layer in two tensors, with their inputs first, and gates and ups in turns."""

    def weights(self) -> Weights:
        out = super().weights()
        rng = np.random.Generator(np.random.PCG64([self.seed, 1]))
        c = self.config

        def bias(*shape):
            return torch.from_numpy(rng.uniform(-BIAS, BIAS, shape).astype(np.float32))

        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            experts = f"{layer}{self.expert_names}."

            def all_experts(part):
                names = [f"{experts}{e}.{part}.weight" for e in range(self.experts)]
                return torch.stack([out.pop(name).T for name in names])

            gate, up = all_experts("gate_proj"), all_experts("up_proj")
            out[experts + "gate_up_proj"] = torch.stack((gate, up), dim=-1).flatten(-2).contiguous()
            out[experts + "gate_up_proj_bias"] = bias(self.experts, 2 * self.expert_width)
            out[experts + "down_proj"] = all_experts("down_proj").contiguous()
            out[experts + "down_proj_bias"] = bias(self.experts, c["hidden_size"])
            out[layer + "self_attn.o_proj.bias"] = bias(c["hidden_size"])
            out[layer + "self_attn.sinks"] = 4 * bias(c["num_attention_heads"])
        return out

    def config_mutations(self):
        # transformers reads no hidden_act here; the other one is no change.
        others = ("hidden_act", "num_attention_heads")
        return [m for m in super().config_mutations() if m["name"] not in others]

    def _ffn(self, layer, index, moe):
        next(moe)
        experts = f"{layer}{self.expert_names}."
        return [
            f"{layer}{self.gate}.weight",
            *(f"{experts}{part}_proj{kind}" for part in ("gate_up", "down") for kind in ("", "_bias")),
        ]


GROUPED = Together(
    CONFIG,
    seed=SEED,
    experts=CONFIG["num_local_experts"],
    expert_width=CONFIG["intermediate_size"],
    has_bias=True,
    gate="mlp.router",
    gate_bias="mlp.router.bias",
)


def mutations(expert_of: list[int]) -> list[dict]:
    def config(name, values, expect="moves", case="prompt17", **more):
        return config_mutation(name, values, expect, case, **more)

    def yarn(field, value):
        return config(field, {f"/rope_parameters/{field}": value}, case="prompt300")

    out = [
        *GROUPED.config_mutations(),
        yarn("beta_fast", 16.0),
        yarn("beta_slow", 0.1),
        yarn("factor", 2.0),
        yarn("original_max_position_embeddings", 256),
        yarn("truncate", True),
        config("rope_type", {"/rope_parameters": {"rope_theta": 200.0, "rope_type": "default"}}),
        config("rope absent", {"/rope_parameters": None}),
        config(
            "truncate, published",
            {"/rope_scaling/truncate": True},
            case="prompt300",
            file="config.published.json",
        ),
        config("sliding_window longer", {"/sliding_window": 13}, case="prompt300"),
        config("sliding_window shorter", {"/sliding_window": 11}, case="prompt300"),
        config("layer_types, all full", {"/layer_types": [FULL] * LAYERS}, case="prompt300"),
        config("layer_types, exchanged", {"/layer_types": [FULL, SLIDING, FULL]}, case="prompt300"),
        config("layer_types, unknown", {"/layer_types": ["linear"] * LAYERS}, "refused"),
        config("swiglu_limit", {"/swiglu_limit": 3.0}),
        config("swiglu_alpha", {"/swiglu_alpha": 1.0}),
        config("attention_bias", {"/attention_bias": False}, "moves or refused"),
        config("num_hidden_layers down", {"/num_hidden_layers": 2}, "moves or refused"),
        config("intermediate_size", {"/intermediate_size": 64}, "refused"),
        config("num_local_experts", {"/num_local_experts": 16}, "refused"),
        config("num_attention_heads", {"/num_attention_heads": 4}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 4}, "refused"),
        config("head_dim", {"/head_dim": 8}, "refused"),
        *GROUPED.tensor_mutations(expert_of),
    ]
    for i in range(LAYERS):
        attention = f"model.layers.{i}.self_attn."
        out += [
            tensor_mutation(attention + "o_proj.bias", -4.0),
            tensor_mutation(attention + "sinks", -2.0),
            tensor_mutation(f"model.layers.{i}.mlp.router.bias", -4.0),
        ]
    return out


if __name__ == "__main__":
    main(family("gpt_oss", CONFIG, PUBLISHED, (331, 192, 76), GROUPED.weights, mutations))
