"""Writes tests/golden/llama4: a random Llama-4 checkpoint and what transformers makes of its text model.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_llama4.py                # writes the folder anew
    $V/bin/python tests/golden/make_llama4.py --check        # says whether the files reproduce
    $V/bin/python tests/golden/make_llama4.py --search       # looks for prompts without near-ties

golden_family.py and golden_grouped.py beside it do what families share.
"""

import dataclasses

import torch
import transformers
from golden_family import Weights, as_published, config_mutation, main, tensor_mutation, with_values
from golden_grouped import Grouped, family

SEED = 23
LAYERS = 4
PREFIX = "language_model."
CHUNKED, FULL = "chunked_attention", "full_attention"

# Layers with and without rope, chunks and experts in each combination that the published models have: the first two
# turn, the third does not; the second and fourth have experts. Chunks begin within pages and blocks. Of the eight
# pairs, rope keeps two, bends two and stretches four.
CONFIG = {
    "architectures": ["Llama4ForCausalLM"],
    "attention_bias": False,
    "attention_chunk_size": 21,
    "attention_dropout": 0.0,
    "attn_scale": 0.6,
    "attn_temperature_tuning": True,
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "floor_scale": 9,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 96,
    "initializer_range": 0.02,
    "interleave_moe_layer_step": 2,
    "intermediate_size": 32,
    "intermediate_size_mlp": 48,
    "max_position_embeddings": 512,
    "model_type": "llama4_text",
    "no_rope_layer_interval": 3,
    "num_attention_heads": 8,
    "num_experts_per_tok": 1,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 0.01,
    "rope_parameters": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 200.0,
        "rope_type": "llama3",
    },
    "router_aux_loss_coef": 0.001,
    "router_jitter_noise": 0.0,
    "tie_word_embeddings": False,
    "transformers_version": transformers.__version__,
    "use_cache": True,
    "use_qk_norm": True,
    "vocab_size": 192,
}

VISION = {
    "hidden_size": 16,
    "image_size": 28,
    "intermediate_size": 16,
    "model_type": "llama4_vision_model",
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "patch_size": 14,
    "projector_input_dim": 16,
    "projector_output_dim": 16,
    "vision_output_dim": 16,
}


def published() -> dict:
    """The whole model, of which the text is one part, as transformers 4 wrote it."""
    text = as_published(
        CONFIG,
        "4.51.0.dev0",
        without=("architectures", "tie_word_embeddings", "transformers_version", "no_rope_layer_interval"),
        moe_layers=[1, 3],
        no_rope_layers=[1, 1, 0, 1],
        rope_scaling={k: v for k, v in CONFIG["rope_parameters"].items() if k != "rope_theta"},
    )
    del text["transformers_version"]
    return {
        "architectures": ["Llama4ForConditionalGeneration"],
        "boi_token_index": 4,
        "eoi_token_index": 5,
        "image_token_index": 6,
        "model_type": "llama4",
        "text_config": text,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "transformers_version": "4.51.0.dev0",
        "vision_config": VISION,
    }


class Llama4(Grouped):
    """Names of its own under a prefix. All experts of a layer in two tensors, with their inputs first."""

    def weights(self) -> Weights:
        out = super().weights()
        for i in range(LAYERS):
            experts = f"model.layers.{i}.mlp.experts."
            if f"{experts}0.up_proj.weight" not in out:
                continue

            def all_experts(part):
                names = [f"{experts}{e}.{part}.weight" for e in range(self.experts)]
                return torch.stack([out.pop(name).T for name in names])

            gate, up = all_experts("gate_proj"), all_experts("up_proj")
            out[experts + "gate_up_proj"] = torch.cat((gate, up), dim=-1).contiguous()
            out[experts + "down_proj"] = all_experts("down_proj").contiguous()
        out = {PREFIX + k.replace(".mlp.", ".feed_forward."): v for k, v in out.items()}
        # Of the vision model and between both, which must not be read.
        return out | {
            "multi_modal_projector.linear_1.weight": torch.ones(4, 4),
            "vision_model.class_embedding": torch.ones(4),
        }

    def tensor_mutations(self, expert_of):
        out = super().tensor_mutations(expert_of)
        return [{**m, "name": PREFIX + m["name"].replace(".mlp.", ".feed_forward.")} for m in out]

    def config_mutations(self):
        # One expert is chosen. The other number of heads is no change.
        others = ("num_attention_heads", "num_experts_per_tok down", "num_experts_per_tok up", "rope_theta, published")
        return [m for m in super().config_mutations() if m["name"] not in others]

    def _ffn(self, layer, index, moe):
        if self.is_dense(index):
            return super()._ffn(layer, index, moe)
        next(moe)
        shared = [f"{layer}mlp.{self.shared}.{part}_proj.weight" for part in ("gate", "up", "down")]
        experts = [f"{layer}mlp.experts.{part}_proj" for part in ("gate_up", "down")]
        return [f"{layer}{self.gate}.weight", *experts, *shared]


GROUPED = Llama4(
    {**CONFIG, "intermediate_size": CONFIG["intermediate_size_mlp"]},
    seed=SEED,
    experts=CONFIG["num_local_experts"],
    expert_width=CONFIG["intermediate_size"],
    is_dense=lambda layer: layer % 2 == 0,
    cancels=True,
    gate="mlp.router",
    shared="shared_expert",
    shared_width=CONFIG["intermediate_size"],
)


def mutations(expert_of: list[int]) -> list[dict]:
    def config(name, values, expect="moves", case="prompt17", **more):
        return config_mutation(name, values, expect, case, **more)

    def published_form(field, value, expect="moves", name=""):
        values = {f"/text_config/{field}": value}
        name = name or f"{field}, published"
        return config(name, values, expect, "prompt300", file="config.published.json")

    def rope(field, value):
        return config(field, {f"/rope_parameters/{field}": value}, case="prompt300")

    return [
        *GROUPED.config_mutations(),
        rope("factor", 2.0),
        rope("high_freq_factor", 2.0),
        rope("low_freq_factor", 2.0),
        rope("original_max_position_embeddings", 256),
        config("rope_type", {"/rope_parameters": {"rope_theta": 200.0, "rope_type": "default"}}),
        config("rope absent", {"/rope_parameters": None}),
        published_form("rope_theta", 2000.0),
        published_form("rope_scaling", None),
        published_form("no_rope_layers", [1, 0, 1, 1]),
        published_form("no_rope_layers", [], name="no_rope_layers, published, empty"),
        published_form("moe_layers", [1], "moves or refused"),
        published_form("attention_chunk_size", 40),
        config("num_experts_per_tok up", {"/num_experts_per_tok": 2}),
        config("attention_chunk_size longer", {"/attention_chunk_size": 22}, case="prompt300"),
        config("attention_chunk_size shorter", {"/attention_chunk_size": 20}, case="prompt300"),
        config("layer_types, all full", {"/layer_types": [FULL] * LAYERS}, case="prompt300"),
        config("layer_types, all chunked", {"/layer_types": [CHUNKED] * LAYERS}, case="prompt300"),
        config("layer_types, unknown", {"/layer_types": ["linear"] * LAYERS}, "refused"),
        config("no_rope_layers", {"/no_rope_layers": [1, 1, 1, 0]}, case="prompt300"),
        config("no_rope_layer_interval", {"/no_rope_layer_interval": 4}, case="prompt300"),
        config("attn_temperature_tuning", {"/attn_temperature_tuning": False}, case="prompt300"),
        config("attn_scale", {"/attn_scale": 0.1}, case="prompt300"),
        config("floor_scale", {"/floor_scale": 64}, case="prompt300"),
        config("use_qk_norm", {"/use_qk_norm": False}),
        config("attention_bias", {"/attention_bias": True}, "refused"),
        config("interleave_moe_layer_step", {"/interleave_moe_layer_step": 1}, "refused"),
        config("moe_layers", {"/moe_layers": [0, 1]}, "refused"),
        config("num_hidden_layers down", {"/num_hidden_layers": 3}, "moves or refused"),
        config("intermediate_size", {"/intermediate_size": 64}, "refused"),
        config("intermediate_size_mlp", {"/intermediate_size_mlp": 64}, "refused"),
        config("num_local_experts", {"/num_local_experts": 16}, "refused"),
        config("num_attention_heads fewer", {"/num_attention_heads": 4}, "refused"),
        config("num_key_value_heads", {"/num_key_value_heads": 4}, "refused"),
        config("head_dim", {"/head_dim": 8}, "refused"),
        *GROUPED.tensor_mutations(expert_of),
    ]


def make_family():
    out = family("llama4", CONFIG, published(), (360, 164, 194), GROUPED.weights, mutations)
    out.configs["config.two.json"] = with_values(CONFIG, {"/num_experts_per_tok": 2})
    more = {
        "whole300": ("config.published.json", 300, 194, False),
        "two300": ("config.two.json", 300, 194, False),
    }
    return dataclasses.replace(out, cases=out.cases | more)


if __name__ == "__main__":
    main(make_family())
