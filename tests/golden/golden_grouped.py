"""Shared by the make_<family>.py of families with grouped-query attention: weights and usual mutations."""

import dataclasses
from collections.abc import Callable, Iterator

from golden_family import (
    Family,
    Weights,
    config_mutation,
    head_matrix,
    matrices,
    tensor_mutation,
    to_torch,
    with_values,
)


# Of the weights: the more the last token decides, the fewer answers repeat themselves.
EMBEDDING = 0.7
BIAS = 0.5
SPREAD = 0.8

PARTS = ("gate_proj", "up_proj", "down_proj")


def family(
    folder: str,
    config: dict,
    published: dict,
    seeds: tuple[int, int, int],
    make_weights: Callable[[], Weights],
    mutations: Callable[[list[int]], list[dict]],
) -> Family:
    """With the usual cases. `seeds`: of the prompts of 1, 17 and 300 tokens."""
    configs = {
        "config.json": config,
        "config.published.json": published,
        "config.tied.json": with_values(config, {"/tie_word_embeddings": True}),
    }
    one, some, many = seeds
    cases = {
        "prompt1": ("config.json", 1, one, True),
        "prompt17": ("config.json", 17, some, True),
        "prompt300": ("config.json", 300, many, True),
        "tied17": ("config.tied.json", 17, some, False),
    }
    return Family(folder, configs, cases, make_weights, mutations)


@dataclasses.dataclass
class Grouped:
    """What differs between these families."""

    config: dict
    seed: int
    experts: int
    expert_width: int
    is_dense: Callable[[int], bool] = lambda layer: False
    has_bias: bool = False
    # Sizes of the norms of queries and of keys; None: no norms.
    norms: tuple[int, int] | None = None
    # Whether the norms cancel a factor of the projections (with biases, most of it).
    cancels: bool = False
    gate: str = "mlp.gate"
    gate_bias: str = ""  # in full
    expert_names: str = "mlp.experts"
    expert_parts: tuple[str, str, str] = PARTS
    shared: str = ""  # the name of the shared experts
    shared_width: int = 0
    shared_gate: str = ""

    @property
    def head(self) -> int:
        c = self.config
        return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]

    def weights(self) -> Weights:
        """Random weights under the hub's names, scaled so that each of them affects the logits."""
        rng, matrix, norm = matrices(self.seed)
        c = self.config
        hidden = c["hidden_size"]
        q, kv = c["num_attention_heads"] * self.head, c["num_key_value_heads"] * self.head
        out = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], hidden)) * EMBEDDING}

        def ffn(prefix, inner, parts=PARTS):
            gate, up, down = parts
            out[f"{prefix}{gate}.weight"] = matrix(inner, hidden, 1.5)
            out[f"{prefix}{up}.weight"] = matrix(inner, hidden, 1.0)
            out[f"{prefix}{down}.weight"] = matrix(hidden, inner, 1.5)

        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            attention = layer + "self_attn."
            out[layer + "input_layernorm.weight"] = norm(hidden)
            for part, size in (("q", q), ("k", kv), ("v", kv)):
                out[f"{attention}{part}_proj.weight"] = matrix(size, hidden, 1.0)
                if self.has_bias:
                    out[f"{attention}{part}_proj.bias"] = rng.uniform(-BIAS, BIAS, size)
            out[attention + "o_proj.weight"] = matrix(hidden, q, 1.0)
            if self.norms is not None:
                out[attention + "q_norm.weight"] = norm(self.norms[0])
                out[attention + "k_norm.weight"] = norm(self.norms[1])
            out[layer + "post_attention_layernorm.weight"] = norm(hidden)
            if self.is_dense(i):
                ffn(layer + "mlp.", c["intermediate_size"])
                continue
            out[f"{layer}{self.gate}.weight"] = matrix(self.experts, hidden, 1.5)
            if self.gate_bias:
                out[layer + self.gate_bias] = rng.uniform(-0.4, 0.4, self.experts)
            for e in range(self.experts):
                ffn(f"{layer}{self.expert_names}.{e}.", self.expert_width, self.expert_parts)
            if self.shared:
                ffn(f"{layer}mlp.{self.shared}.", self.shared_width)
            if self.shared_gate:
                out[f"{layer}mlp.{self.shared_gate}.weight"] = matrix(1, hidden, 1.5)
        out["model.norm.weight"] = norm(hidden)
        out["lm_head.weight"] = head_matrix(rng, matrix, c["vocab_size"], hidden, SPREAD)
        return to_torch(out)

    def config_mutations(self) -> list[dict]:
        config = config_mutation
        return [
            config("rms_norm_eps", {"/rms_norm_eps": 0.1}),
            config("rope_theta", {"/rope_parameters/rope_theta": 2000.0}),
            config("rope_theta, published", {"/rope_theta": 2000.0}, file="config.published.json"),
            config("num_experts_per_tok down", {"/num_experts_per_tok": 2}),
            config("num_experts_per_tok up", {"/num_experts_per_tok": 4}),
            config("tie_word_embeddings", {"/tie_word_embeddings": True}, "moves or refused"),
            config("hidden_act", {"/hidden_act": "gelu"}, "moves or refused"),
            config("num_hidden_layers up", {"/num_hidden_layers": 5}, "refused"),
            config("hidden_size", {"/hidden_size": 112}, "refused"),
            config("vocab_size", {"/vocab_size": 188}, "refused"),
            config("num_attention_heads", {"/num_attention_heads": 8}, "refused"),
        ]

    def tensor_mutations(self, expert_of: list[int]) -> list[dict]:
        tensor = tensor_mutation
        out = [tensor("model.embed_tokens.weight")]
        moe = iter(expert_of)
        for i in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            attention = layer + "self_attn."
            out.append(tensor(layer + "input_layernorm.weight"))
            # A norm that follows them cancels any factor except its sign.
            factor = -1.0 if self.cancels else 1.5
            out += [tensor(f"{attention}{p}_proj.weight", factor) for p in "qk"]
            out += [tensor(f"{attention}{p}_proj.weight") for p in "vo"]
            if self.has_bias:
                out += [tensor(f"{attention}{p}_proj.bias", -4.0) for p in "qkv"]
            if self.norms is not None:
                out += [tensor(f"{attention}{p}_norm.weight", 0.3) for p in "qk"]
            out.append(tensor(layer + "post_attention_layernorm.weight"))
            out += [
                tensor(name, -4.0 if name.endswith("_bias") else 1.5)
                for name in self._ffn(layer, i, moe)
            ]
        return out + [tensor("model.norm.weight"), tensor("lm_head.weight")]

    def _ffn(self, layer: str, index: int, moe: Iterator[int]) -> list[str]:
        def projections(prefix, parts=PARTS):
            return [f"{layer}{prefix}.{part}.weight" for part in parts]

        if self.is_dense(index):
            return projections("mlp")
        expert = f"{self.expert_names}.{next(moe)}"
        out = [f"{layer}{self.gate}.weight", *projections(expert, self.expert_parts)]
        if self.gate_bias:
            out.append(layer + self.gate_bias)
        if self.shared:
            out += projections(f"mlp.{self.shared}")
        if self.shared_gate:
            out.append(f"{layer}mlp.{self.shared_gate}.weight")
        return out
