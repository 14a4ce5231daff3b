"""Small checkpoints that tests and benches make: random ones, and ones whose routing was measured on a real model."""

import csv
import json
import math
import pathlib
import random
import shutil
import struct

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEMO = ROOT / "examples" / "demo-model"


def bf16(values):
    """bf16 is the upper half of fp32."""
    words = struct.pack(f"<{len(values)}f", *values)
    return b"".join(words[i + 2:i + 4] for i in range(0, len(words), 4))


def small_weights(draw, count):
    """Random bf16 of both signs, with magnitudes from 2^-9 to 2^-7. Fast, for many of them."""
    signs = draw.randbytes(count)
    out = bytearray(draw.randbytes(2 * count))
    out[1::2] = signs.translate(bytes(0x3B if one < 128 else 0xBB for one in range(256)))
    return bytes(out)


def write_mixtral(folder, changes, tensors):
    """A Mixtral of `tensors` (name: (shape, bf16 bytes)), with the demo model's tokenizer and config.json, but for `changes`."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(DEMO / name, folder)
    config = json.loads((DEMO / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for name, (shape, data) in tensors.items():
        assert len(data) == 2 * math.prod(shape), name
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": (end, end + len(data))}
        end += len(data)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))
    return folder


def vocabulary():
    return json.loads((DEMO / "config.json").read_text())["vocab_size"]


def measured_routing(names, tokens):
    """For each file of data/routing that is named, `tokens` of its rows: expert ids by layer. The first rows are left out:
    there the files have the same text."""
    out = []
    for name in names:
        with open(ROOT / "data" / "routing" / f"{name}.csv", encoding="utf-8") as file:
            rows = [[[int(one) for one in cell.split()] for key, cell in row.items() if key.startswith("layer")]
                    for row in csv.DictReader(file)]
        out.append(random.Random(1).sample(rows[128:], tokens))
    return out


def write_routed(folder, groups, experts):
    """A Mixtral whose routing is `groups` of measured_routing: token t of group g, with id g x tokens + t, chooses the
    experts of its row in each layer, wherever it stands. A greedy answer stays in the group of its prompt.

    The state of a token is its own dimension and little else: attention and experts add less than a hundredth. So the
    gate's weights are the table of what each token chooses. All further ids stand for these tokens again."""
    tokens, layers = len(groups[0]), len(groups[0][0])
    rows = [row for group in groups for row in group]
    hidden, inner, draw = max(128, len(rows)), 32, random.Random(1)
    top_k = len(rows[0][0])

    def table(height, at):
        """Zeros but for {(row, column): value}."""
        out = [0.0] * (height * hidden)
        for (row, column), value in at.items():
            out[row * hidden + column] = value
        return (height, hidden), bf16(out)

    words, ones = vocabulary(), ((hidden,), bf16([1.0] * hidden))
    after = {}  # each token is followed by another one of its group
    for group in range(len(groups)):
        order = draw.sample(range(tokens), tokens)
        after |= {group * tokens + a: group * tokens + b for a, b in zip(order, order[1:] + order[:1])}
    tensors = {"model.embed_tokens.weight": table(words, {(word, word % len(rows)): 4.0 for word in range(words)}),
               "lm_head.weight": table(words, {(after[one], one): 1.0 for one in after}),
               "model.norm.weight": ones}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        tensors |= {at + "input_layernorm.weight": ones, at + "post_attention_layernorm.weight": ones}
        tensors |= {f"{at}self_attn.{name}_proj.weight": ((hidden, hidden), small_weights(draw, hidden * hidden))
                    for name in "qkvo"}
        tensors[at + "block_sparse_moe.gate.weight"] = table(experts, {
            (expert, one): 1 - rank / 64 for one, row in enumerate(rows) for rank, expert in enumerate(row[layer])})
        for expert in range(experts):
            tensors |= {f"{at}block_sparse_moe.experts.{expert}.{name}.weight":
                        (shape, small_weights(draw, math.prod(shape)))
                        for name, shape in (("w1", (inner, hidden)), ("w2", (hidden, inner)), ("w3", (inner, hidden)))}
    write_mixtral(folder, {
        "hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": 2, "num_key_value_heads": 2,
        "head_dim": hidden // 2, "num_hidden_layers": layers, "num_local_experts": experts, "num_experts_per_tok": top_k,
        "tie_word_embeddings": False}, tensors)
