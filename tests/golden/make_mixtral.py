"""Writes tests/golden/mixtral: a random Mixtral checkpoint and what transformers makes of it.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_mixtral.py               # writes the folder anew
    $V/bin/python tests/golden/make_mixtral.py --check       # says whether the files reproduce
    $V/bin/python tests/golden/make_mixtral.py --search      # looks for prompts without near-ties

README.md beside this file explains the files. Everything is float32 on one thread, from seeds.
"""

import argparse
import copy
import json
import pathlib
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent / "mixtral"

# The largest difference from these logits that an fp32 implementation may show, in units of the
# logits' range, and how far every mutation of sensitivity.json must move them.
TOLERANCE = 2e-4
MOVES = 100 * TOLERANCE
# The least gap between the two best logits over all greedy steps, in units of the range.
LEAST_MARGIN = 5e-3
# The least gap between the last expert chosen and the first one not, in router logits.
LEAST_ROUTER_GAP = 2e-4

KEPT_POSITIONS = 4
GREEDY_TOKENS = 64
FIRST_PROMPT_TOKEN = 8  # ids below are for special tokens
WEIGHT_SEED = 1
# Case -> (config, prompt length, seed of the prompt as found by --search, greedy tokens wanted).
CASES = {
    "prompt1": ("config.json", 1, 1008, True),
    "prompt17": ("config.json", 17, 65, True),
    "prompt300": ("config.json", 300, 644, True),
    "sliding300": ("config.sliding.json", 300, 630, True),
    "tied17": ("config.tied.json", 17, 65, False),
}

# head_dim * heads is not hidden_size, so q, o and the residual stream cannot be mixed up; the
# epsilon is of the size of the embeddings' mean square, so that where it stands matters.
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

GENERATION_CONFIG = {"bos_token_id": 1, "do_sample": False, "eos_token_id": [2, 3]}


def with_values(config: dict, values: dict) -> dict:
    """A copy of the config with values set at JSON pointers."""
    out = copy.deepcopy(config)
    for pointer, value in values.items():
        *path, last = pointer.strip("/").split("/")
        at = out
        for key in path:
            at = at[key]
        at[last] = value
    return out


def published(config: dict) -> dict:
    """The same model as hub checkpoints before transformers 5 spell it."""
    out = {k: v for k, v in config.items() if k not in ("rope_parameters", "dtype")}
    out["rope_theta"] = config["rope_parameters"]["rope_theta"]
    out["torch_dtype"] = config["dtype"]
    out["transformers_version"] = "4.36.0"
    return dict(sorted(out.items()))


CONFIGS = {
    "config.json": CONFIG,
    "config.published.json": published(CONFIG),
    "config.sliding.json": with_values(CONFIG, {"/sliding_window": 40}),
    "config.tied.json": with_values(CONFIG, {"/tie_word_embeddings": True}),
}


def make_weights() -> dict[str, torch.Tensor]:
    """Random weights under the hub's names, scaled so that each of them shows in the logits."""
    rng = np.random.Generator(np.random.PCG64(WEIGHT_SEED))
    c = CONFIG
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]

    def matrix(rows, columns, gain):
        return rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)

    def norm():
        return rng.uniform(0.5, 1.5, hidden)

    out = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], hidden)) * 0.1}
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        out[layer + "input_layernorm.weight"] = norm()
        out[layer + "self_attn.q_proj.weight"] = matrix(q, hidden, 1.5)
        out[layer + "self_attn.k_proj.weight"] = matrix(kv, hidden, 1.5)
        out[layer + "self_attn.v_proj.weight"] = matrix(kv, hidden, 1.0)
        out[layer + "self_attn.o_proj.weight"] = matrix(hidden, q, 1.0)
        out[layer + "post_attention_layernorm.weight"] = norm()
        out[layer + "block_sparse_moe.gate.weight"] = matrix(c["num_local_experts"], hidden, 1.5)
        for e in range(c["num_local_experts"]):
            expert = layer + f"block_sparse_moe.experts.{e}."
            out[expert + "w1.weight"] = matrix(inner, hidden, 1.5)
            out[expert + "w2.weight"] = matrix(hidden, inner, 1.5)
            out[expert + "w3.weight"] = matrix(inner, hidden, 1.0)
    out["model.norm.weight"] = norm()
    # Rows of unequal length: the larger ones stand out, which keeps greedy steps off near-ties.
    head = matrix(c["vocab_size"], hidden, 1.0)
    out["lm_head.weight"] = head * np.exp(rng.standard_normal((c["vocab_size"], 1)) * 0.5)
    return {name: torch.from_numpy(w.astype(np.float32)) for name, w in out.items()}


def make_model(config: dict, weights: dict[str, torch.Tensor]):
    """A transformers model of this config with these weights, without those it has no place for."""
    surplus = [f"model.layers.{i}." for i in range(config["num_hidden_layers"], 99)]
    if config["tie_word_embeddings"]:
        surplus.append("lm_head.")
    weights = {k: v for k, v in weights.items() if not k.startswith(tuple(surplus))}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        safetensors.torch.save_file(weights, f"{folder}/model.safetensors", {"format": "pt"})
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
    if any(report.values()):
        raise SystemExit(f"transformers did not load the checkpoint as it is: {report}")
    return model.eval()


def make_prompt(length: int, seed: int) -> list[int]:
    rng = np.random.Generator(np.random.PCG64([length, seed]))
    return rng.integers(FIRST_PROMPT_TOKEN, CONFIG["vocab_size"], length).tolist()


def least_router_gap(model, output) -> float:
    """The least gap between the last expert chosen and the first one left, over all tokens."""
    k = model.config.num_experts_per_tok
    best = torch.cat(output.router_logits).topk(k + 1, dim=-1).values
    return (best[:, k - 1] - best[:, k]).min().item()


@torch.no_grad()
def prompt_logits(model, prompt: list[int]) -> torch.Tensor:
    """Logits [kept, vocabulary] of the prompt's last positions."""
    return model(input_ids=torch.tensor([prompt])).logits[0, -KEPT_POSITIONS:].contiguous()


def range_of(logits: torch.Tensor) -> float:
    return (logits.max() - logits.min()).item()


@torch.no_grad()
def greedy(model, prompt: list[int]) -> tuple[list[int], list[float], float]:
    """(ids, margin of each, least router gap): every step computed from nothing, without a cache.

    Decoding goes on past end tokens; the cases have none.
    """
    ids, margins = list(prompt), []
    for _ in range(GREEDY_TOKENS):
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        best = logits.topk(2)
        margins.append((best.values[0] - best.values[1]).item())
        ids.append(best.indices[0].item())
    gap = least_router_gap(model, model(input_ids=torch.tensor([ids]), output_router_logits=True))
    return ids[len(prompt) :], margins, gap


@torch.no_grad()
def cached_margins(model, prompts: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, least margin in units of the range) per prompt, decoded as one batch with a cache."""
    step, cache = torch.tensor(prompts), transformers.DynamicCache(config=model.config)
    ids, margins, width = [], [], None
    for _ in range(GREEDY_TOKENS):
        logits = model(input_ids=step, past_key_values=cache, use_cache=True).logits
        if width is None:
            kept = logits[:, -KEPT_POSITIONS:]
            width = kept.amax((1, 2)) - kept.amin((1, 2))
        best = logits[:, -1].topk(2)
        margins.append((best.values[:, 0] - best.values[:, 1]) / width)
        step = best.indices[:, :1]
        ids.append(step)
    return torch.cat(ids, 1), torch.stack(margins).amin(0)


def search(seeds: int = 1024, batch: int = 64) -> None:
    """Prints, per case, the seeds with the largest least margins."""
    weights = make_weights()
    models = {name: make_model(CONFIGS[name], weights) for name in CONFIGS}
    for case, (config, length, _, wanted) in CASES.items():
        if not wanted:
            continue
        found = []
        for first in range(0, seeds, batch):
            prompts = [make_prompt(length, s) for s in range(first, first + batch)]
            ids, least = cached_margins(models[config], prompts)
            ended = torch.isin(ids, torch.tensor(GENERATION_CONFIG["eos_token_id"])).any(1)
            distinct = [len(set(row)) for row in ids.tolist()]
            found += [
                (least[i].item(), first + i, distinct[i]) for i in range(batch) if not ended[i]
            ]
        best = sorted(found, reverse=True)[:6]
        lines = (f"  seed {s}: {m:.4f} ({d} distinct ids)" for m, s, d in best)
        print(case, *lines, sep="\n", flush=True)


def mutations(expert_of: list[int]) -> list[dict]:
    """What sensitivity.json lists; expert_of[layer] is the expert whose tensors are mutated."""

    def config(name, values, expect="moves", case="prompt17", file="config.json"):
        return {
            "name": name,
            "kind": "config",
            "config": file,
            "how": {"set": values},
            "expect": expect,
            "case": case,
        }

    def sliding(name, window):
        values = {"/sliding_window": window}
        return config(name, values, "moves", "sliding300", "config.sliding.json")

    def tensor(name):
        return {
            "name": name,
            "kind": "tensor",
            "config": "config.json",
            "how": {"scale": 1.5},
            "expect": "moves",
            "case": "prompt17",
        }

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
        config("tie_word_embeddings", {"/tie_word_embeddings": True}),
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


@torch.no_grad()
def sensitivity(weights, logits: dict[str, torch.Tensor], prompts: dict[str, list[int]]):
    """The mutations, each with how far it moves the golden logits in units of their range."""
    model = make_model(CONFIG, weights)
    routers = model(
        input_ids=torch.tensor([prompts["prompt17"]]), output_router_logits=True
    ).router_logits
    # The expert that the prompt's last token prefers: its tensors show in the kept logits.
    out = mutations([r[-1].argmax().item() for r in routers])
    for entry in out:
        config, changed = CONFIGS[entry["config"]], weights
        if entry["kind"] == "config":
            config = with_values(config, entry["how"]["set"])
        else:
            scaled = weights[entry["name"]] * entry["how"]["scale"]
            changed = {**weights, entry["name"]: scaled}
        try:
            mutant = make_model(config, changed)
        except (SystemExit, RuntimeError, ValueError):
            if entry["expect"] == "moves":
                raise
            entry["moved"] = None
            continue
        if entry["expect"] == "refused":
            raise SystemExit(f"{entry['name']}: transformers loads what was to be refused")
        golden = logits[entry["case"]]
        difference = prompt_logits(mutant, prompts[entry["case"]]) - golden
        entry["moved"] = round(difference.abs().max().item() / range_of(golden), 4)
        print(f"  {entry['name']}: {entry['moved']}")
        if entry["moved"] < MOVES:
            raise SystemExit(f"{entry['name']} moves the logits by less than {MOVES} of the range")
    return out


def write_json(path: pathlib.Path, value, rows: str | None = None) -> None:
    """JSON with an indent; the list under `rows` gets one line per element."""
    if rows is None:
        text = json.dumps(value, indent=2)
    else:
        lines = ",\n".join("    " + json.dumps(row) for row in value[rows])
        text = json.dumps({**value, rows: []}, indent=2).replace(
            f'"{rows}": []', f'"{rows}": [\n{lines}\n  ]'
        )
    path.write_text(text + "\n")


def write(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = make_weights()
    for name, config in CONFIGS.items():
        write_json(folder / name, config)
    write_json(folder / "generation_config.json", GENERATION_CONFIG)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})

    models = {name: make_model(config, weights) for name, config in CONFIGS.items()}
    logits, prompts, cases = {}, {}, []
    for case, (config, length, seed, wanted) in CASES.items():
        model, prompt = models[config], make_prompt(length, seed)
        logits[case], prompts[case] = prompt_logits(model, prompt), prompt
        width = range_of(logits[case])
        entry = {
            "name": case,
            "config": config,
            "logits": f"{case}.logits",
            "first_position": length - logits[case].shape[0],
            "range": width,
            "prompt": prompt,
        }
        if wanted:
            ids, margins, gap = greedy(model, prompt)
            least = min(margins) / width
            print(f"{case}: least margin {least:.4f} of the range, least router gap {gap:.2g}")
            if least < LEAST_MARGIN or gap < LEAST_ROUTER_GAP:
                raise SystemExit(f"{case} has a near-tie: choose another seed with --search")
            if set(ids) & set(GENERATION_CONFIG["eos_token_id"]):
                raise SystemExit(f"{case} decodes an end token: choose another seed with --search")
            entry |= {"greedy_ids": ids, "greedy_margins": [round(m, 6) for m in margins]}
        cases.append(entry)
    if not torch.equal(
        prompt_logits(models["config.published.json"], prompts["prompt17"]), logits["prompt17"]
    ):
        raise SystemExit("transformers reads the published notation as another model")
    safetensors.torch.save_file(
        {f"{case}.logits": values for case, values in logits.items()},
        folder / "golden_logits.safetensors",
    )
    made_by = {p.__name__: p.__version__ for p in (torch, transformers)}
    write_json(
        folder / "golden.json",
        {
            "made_by": made_by,
            "tolerance": TOLERANCE,
            "least_margin": LEAST_MARGIN,
            "cases": cases,
        },
        rows="cases",
    )
    write_json(
        folder / "sensitivity.json",
        {"least_move": MOVES, "mutations": sensitivity(weights, logits, prompts)},
        rows="mutations",
    )


def same(old, new) -> bool:
    """Equal JSON, numbers that are not whole to 1e-4: rounding may differ between processors."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(same(old[k], new[k]) for k in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(same, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return abs(old - new) <= 1e-4 * max(1.0, abs(old))
    return type(old) is type(new) and old == new


def check() -> None:
    """Ends with an error unless the files on disk are what this script writes."""
    with tempfile.TemporaryDirectory() as temporary:
        fresh = pathlib.Path(temporary)
        write(fresh)
        names = sorted(p.name for p in fresh.iterdir())
        if names != sorted(p.name for p in FOLDER.iterdir()):
            raise SystemExit(f"{FOLDER} should hold exactly: {', '.join(names)}")
        for name in names:
            old, new = FOLDER / name, fresh / name
            if name.endswith(".json"):
                equal = same(json.loads(old.read_text()), json.loads(new.read_text()))
            elif name == "model.safetensors":
                equal = old.read_bytes() == new.read_bytes()
            else:
                a, b = safetensors.torch.load_file(old), safetensors.torch.load_file(new)
                equal = a.keys() == b.keys() and all(
                    a[k].shape == b[k].shape
                    and (a[k] - b[k]).abs().max() <= TOLERANCE / 20 * range_of(b[k])
                    for k in a
                )
            if not equal:
                raise SystemExit(f"{old} is not what this script writes")
    size = sum(p.stat().st_size for p in FOLDER.iterdir())
    print(f"{FOLDER}: all {len(names)} files reproduce, {size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the files with a fresh run")
    parser.add_argument("--search", action="store_true", help="print seeds without near-ties")
    args = parser.parse_args()
    # One thread: sums are then added in one order on every machine.
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if args.search:
        search()
    elif args.check:
        check()
    else:
        write(FOLDER)


if __name__ == "__main__":
    main()
