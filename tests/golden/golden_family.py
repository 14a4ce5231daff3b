"""Shared by every make_<family>.py: from a family's random checkpoint to its golden files.

README.md beside this file explains the files. Everything is float32 on one thread, from seeds.
"""

import argparse
import copy
import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Callable

import numpy as np
import safetensors.torch
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError

# The largest difference from these logits allowed to an fp32 implementation, in units of the logits' range; and how far
# every mutation of sensitivity.json must move them.
TOLERANCE = 2e-4
MOVES = 100 * TOLERANCE
# The least gap between the two best logits over all greedy steps, in units of the range.
LEAST_MARGIN = 5e-3
# The least gap between the last chosen expert and the first one not chosen, in the scores that decide.
LEAST_ROUTER_GAP = 2e-4

LEAST_DISTINCT = 8
KEPT_POSITIONS = 4
GREEDY_TOKENS = 64
FIRST_PROMPT_TOKEN = 8  # ids below are for special tokens
GENERATION_CONFIG = {"bos_token_id": 1, "do_sample": False, "eos_token_id": [2, 3]}

Weights = dict[str, torch.Tensor]


@dataclasses.dataclass
class Family:
    """The part of a family: its configs and weights, the cases that run, and the mutations."""

    folder: str
    configs: dict[str, dict]  # file -> config; config.json and config.published.json are one model
    # Case -> (config, prompt length, seed of the prompt (found by --search), whether greedy tokens are needed).
    cases: dict[str, tuple[str, int, int, bool]]
    make_weights: Callable[[], Weights]
    # The rows of sensitivity.json. The argument has, per MoE layer, an expert that affects the kept logits.
    mutations: Callable[[list[int]], list[dict]]

    @property
    def config(self) -> dict:
        return self.configs["config.json"]

    @property
    def path(self) -> pathlib.Path:
        return pathlib.Path(__file__).resolve().parent / self.folder

    def vocab(self) -> int:
        return self.config["vocab_size"]


def matrices(seed: int):
    """(matrix, norm): functions for random tensors, scaled so that each of them affects the logits."""
    rng = np.random.Generator(np.random.PCG64(seed))

    def matrix(rows, columns, gain):
        return rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)

    def norm(size):
        return rng.uniform(0.5, 1.5, size)

    return rng, matrix, norm


def head_matrix(rng, matrix, vocab: int, hidden: int, spread: float = 0.5):
    """Rows of unequal length. The larger ones stand out, so that greedy steps avoid near-ties."""
    return matrix(vocab, hidden, 1.0) * np.exp(rng.standard_normal((vocab, 1)) * spread)


def to_torch(arrays: dict) -> Weights:
    return {name: torch.from_numpy(w.astype(np.float32)) for name, w in arrays.items()}


def with_values(config: dict, values: dict) -> dict:
    """A copy of the config, with values set at JSON pointers."""
    out = copy.deepcopy(config)
    for pointer, value in values.items():
        *path, last = pointer.strip("/").split("/")
        at = out
        for key in path:
            at = at[key]
        at[last] = value
    return out


def as_published(config: dict, version: str, without: tuple[str, ...] = (), **more) -> dict:
    """The same model, as this version of transformers, before 5, wrote it: without these fields, with more."""
    out = {k: v for k, v in config.items() if k not in ("rope_parameters", "dtype", *without)}
    out |= {
        "rope_theta": config["rope_parameters"]["rope_theta"],
        "torch_dtype": config["dtype"],
        "transformers_version": version,
        **more,
    }
    return dict(sorted(out.items()))


def next_token_layer(config: dict, matrix, norm) -> Weights:
    """Parts of the layer that predicts a second token, which must not be loaded."""
    hidden, layer = config["hidden_size"], f"model.layers.{config['num_hidden_layers']}."
    return to_torch(
        {
            layer + "enorm.weight": norm(hidden),
            layer + "hnorm.weight": norm(hidden),
            layer + "eh_proj.weight": matrix(hidden, 2 * hidden, 1.0),
        }
    )


def make_model(config: dict, weights: dict[str, torch.Tensor]):
    """A transformers model with this config and these weights; weights for which it has no place are left out."""
    text = config.get("text_config", config)
    surplus = [f"model.layers.{i}." for i in range(text["num_hidden_layers"], 99)]
    surplus += ["vision_model.", "multi_modal_projector."]
    if text.get("tie_word_embeddings"):
        surplus.append("lm_head.")

    def is_read(name):
        return not name.removeprefix("language_model.").startswith(tuple(surplus))

    weights = {k: v for k, v in weights.items() if is_read(k)}
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


def make_prompt(family: Family, length: int, seed: int) -> list[int]:
    rng = np.random.Generator(np.random.PCG64([length, seed]))
    return rng.integers(FIRST_PROMPT_TOKEN, family.vocab(), length).tolist()


def open_scores(model, output) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """For each MoE layer, the scores that choose experts, and the gap between kept and dropped groups.

    Experts of dropped groups have -inf. Scores are the logits, and a group's best logit. If the gate corrects its scores
    by a bias, they are the corrected scores, and the sum of a group's two best.
    """
    config = model.config
    biases = [m.e_score_correction_bias for m in model.modules() if is_corrected(m)]
    groups = getattr(config, "n_group", None) or 1
    if not biases and getattr(config, "topk_method", None) != "group_limited_greedy":
        groups = 1
    scores, gaps = list(output.router_logits), []
    for i, logits in enumerate(scores):
        if biases:
            scores[i] = logits.sigmoid() + biases[i]
        if groups == 1:
            continue
        by_group = scores[i].unflatten(1, (groups, -1))
        of_group = by_group.topk(2).values.sum(2) if biases else by_group.amax(2)
        best = of_group.topk(config.topk_group + 1, dim=-1)
        gaps.append(best.values[:, -2] - best.values[:, -1])
        kept = torch.zeros(by_group.shape[:2], dtype=torch.bool)
        kept.scatter_(1, best.indices[:, :-1], True)
        scores[i] = by_group.masked_fill(~kept[:, :, None], -torch.inf).flatten(1)
    return scores, gaps


def is_corrected(module) -> bool:
    return hasattr(module, "e_score_correction_bias")


def least_router_gap(model, output) -> float:
    """The least gap between the last chosen expert and the first one not chosen, over all tokens.

    If experts are chosen only from the best groups, also the gap between groups.
    """
    scores, gaps = open_scores(model, output)
    k = model.config.num_experts_per_tok
    for of_layer in scores:
        best = of_layer.topk(k + 1, dim=-1).values
        gaps.append(best[:, k - 1] - best[:, k])
    return min(gap.min().item() for gap in gaps)


@torch.no_grad()
def prompt_logits(model, prompt: list[int]) -> torch.Tensor:
    """Logits [kept, vocabulary] of the prompt's last positions."""
    return model(input_ids=torch.tensor([prompt])).logits[0, -KEPT_POSITIONS:].contiguous()


@torch.no_grad()
def router_gap(model, ids: list[int]) -> float:
    return least_router_gap(model, model(input_ids=torch.tensor([ids]), output_router_logits=True))


@torch.no_grad()
def chosen_experts(model, ids: list[int]) -> torch.Tensor:
    """The experts [positions, layers, k] that the router chooses, best first; 255 in layers without."""
    output = model(input_ids=torch.tensor([ids]), output_router_logits=True)
    k = model.config.num_experts_per_tok
    chosen = iter(scores.topk(k).indices for scores in open_scores(model, output)[0])
    dense = torch.full((len(ids), k), 255)
    layers = [next(chosen) if has_experts(layer) else dense for layer in model.model.layers]
    return torch.stack(layers, 1).to(torch.uint8).contiguous()


def has_experts(layer) -> bool:
    return any(name.endswith(".experts") for name, _ in layer.named_modules())


def range_of(logits: torch.Tensor) -> float:
    return (logits.max() - logits.min()).item()


@torch.no_grad()
def greedy(model, prompt: list[int]) -> tuple[list[int], list[float], float]:
    """(ids, margin of each, least router gap). Every step is computed from the start, without a cache.

    Decoding continues past end tokens; the cases have none.
    """
    ids, margins = list(prompt), []
    for _ in range(GREEDY_TOKENS):
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        best = logits.topk(2)
        margins.append((best.values[0] - best.values[1]).item())
        ids.append(best.indices[0].item())
    return ids[len(prompt) :], margins, router_gap(model, ids)


@torch.no_grad()
def cached_margins(model, prompts: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, least margin in units of the range) for each prompt, decoded as one batch with a cache."""
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


def search(family: Family, seeds: int = 512, batch: int = 64) -> None:
    """Prints, for each case, the seeds with the largest least margins that avoid router ties."""
    weights = family.make_weights()
    models = {name: make_model(config, weights) for name, config in family.configs.items()}
    for case, (config, length, _, wanted) in family.cases.items():
        if not wanted:
            continue
        model, found = models[config], []
        for first in range(0, seeds, batch):
            prompts = [make_prompt(family, length, s) for s in range(first, first + batch)]
            ids, least = cached_margins(model, prompts)
            ended = torch.isin(ids, torch.tensor(GENERATION_CONFIG["eos_token_id"])).any(1)
            distinct = [len(set(row)) for row in ids.tolist()]
            # Answers that repeat a few tokens test little.
            found += [
                (least[i].item(), first + i, distinct[i], prompts[i] + ids[i].tolist())
                for i in range(batch)
                if not ended[i] and distinct[i] >= LEAST_DISTINCT and least[i] >= LEAST_MARGIN
            ]
        print(case, flush=True)
        for margin, seed, distinct, ids in sorted(found, reverse=True):
            gap = router_gap(model, ids)
            if gap >= LEAST_ROUTER_GAP:
                print(f"  seed {seed}: {margin:.4f}, gap {gap:.2g} ({distinct} distinct ids)")


def config_mutation(
    name: str,
    values: dict,
    expect: str = "moves",
    case: str = "prompt17",
    file: str = "config.json",
    ignored_by_transformers: bool = False,
) -> dict:
    out = {
        "name": name,
        "kind": "config",
        "config": file,
        "how": {"set": values},
        "expect": expect,
        "case": case,
    }
    return out | ({"ignored_by_transformers": True} if ignored_by_transformers else {})


def tensor_mutation(name: str, scale: float = 1.5) -> dict:
    return {
        "name": name,
        "kind": "tensor",
        "config": "config.json",
        "how": {"scale": scale},
        "expect": "moves",
        "case": "prompt17",
    }


@torch.no_grad()
def sensitivity(family: Family, weights: Weights, logits: Weights, prompts: dict[str, list[int]]):
    """The mutations, each with how far it moves the golden logits, in units of their range."""
    model = make_model(family.config, weights)
    output = model(input_ids=torch.tensor([prompts["prompt17"]]), output_router_logits=True)
    # The expert with the largest weight for the prompt's last token: its tensors affect the kept logits.
    k = model.config.num_experts_per_tok
    chosen = [scores[-1].topk(k).indices for scores in open_scores(model, output)[0]]
    heaviest = [of[r[-1][of].argmax()].item() for r, of in zip(output.router_logits, chosen)]
    out = family.mutations(heaviest)
    for entry in out:
        config, changed = family.configs[entry["config"]], weights
        if entry["kind"] == "config":
            config = with_values(config, entry["how"]["set"])
        else:
            scaled = weights[entry["name"]] * entry["how"]["scale"]
            changed = {**weights, entry["name"]: scaled}
        ignored = entry.get("ignored_by_transformers", False)
        try:
            mutant = make_model(config, changed)
        except (SystemExit, RuntimeError, ValueError, KeyError, StrictDataclassError):
            if entry["expect"] == "moves" or ignored:
                raise
            entry["moved"] = None
            continue
        golden = logits[entry["case"]]
        difference = prompt_logits(mutant, prompts[entry["case"]]) - golden
        moved = round(difference.abs().max().item() / range_of(golden), 4)
        print(f"  {entry['name']}: {moved}")
        if ignored:
            if moved != 0:
                raise SystemExit(f"{entry['name']}: transformers no longer ignores it")
            entry["moved"] = None
            continue
        if entry["expect"] == "refused":
            raise SystemExit(f"{entry['name']}: transformers loads what was to be refused")
        entry["moved"] = moved
        if moved < MOVES:
            raise SystemExit(f"{entry['name']} moves the logits by less than {MOVES} of the range")
    return out


def write_json(path: pathlib.Path, value, rows: str | None = None) -> None:
    """JSON with an indent. The list under `rows` gets one line per element."""
    if rows is None:
        text = json.dumps(value, indent=2)
    else:
        lines = ",\n".join("    " + json.dumps(row) for row in value[rows])
        text = json.dumps({**value, rows: []}, indent=2).replace(
            f'"{rows}": []', f'"{rows}": [\n{lines}\n  ]'
        )
    path.write_text(text + "\n")


def write(family: Family, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = family.make_weights()
    for name, config in family.configs.items():
        write_json(folder / name, config)
    write_json(folder / "generation_config.json", GENERATION_CONFIG)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})

    models = {name: make_model(config, weights) for name, config in family.configs.items()}
    logits, prompts, experts, cases = {}, {}, {}, []
    for case, (config, length, seed, wanted) in family.cases.items():
        model, prompt = models[config], make_prompt(family, length, seed)
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
            experts[f"{case}.experts"] = chosen_experts(model, prompt + ids)
        cases.append(entry)
    if not torch.equal(
        prompt_logits(models["config.published.json"], prompts["prompt17"]), logits["prompt17"]
    ):
        raise SystemExit("transformers reads the published notation as another model")
    safetensors.torch.save_file(
        {f"{case}.logits": values for case, values in logits.items()},
        folder / "golden_logits.safetensors",
    )
    safetensors.torch.save_file(experts, folder / "golden_experts.safetensors")
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
        {"least_move": MOVES, "mutations": sensitivity(family, weights, logits, prompts)},
        rows="mutations",
    )


def same(old, new) -> bool:
    """Whether two JSON values are equal; fractions only to 1e-4, as rounding may differ between processors."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(same(old[k], new[k]) for k in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(same, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return abs(old - new) <= 1e-4 * max(1.0, abs(old))
    return type(old) is type(new) and old == new


def check(family: Family) -> None:
    """Exits with an error unless the files on disk are what this script writes."""
    with tempfile.TemporaryDirectory() as temporary:
        fresh = pathlib.Path(temporary)
        write(family, fresh)
        names = sorted(p.name for p in fresh.iterdir())
        if names != sorted(p.name for p in family.path.iterdir()):
            raise SystemExit(f"{family.path} should hold exactly: {', '.join(names)}")
        for name in names:
            old, new = family.path / name, fresh / name
            if name.endswith(".json"):
                equal = same(json.loads(old.read_text()), json.loads(new.read_text()))
            elif name == "model.safetensors":
                equal = old.read_bytes() == new.read_bytes()
            else:
                a, b = safetensors.torch.load_file(old), safetensors.torch.load_file(new)
                equal = a.keys() == b.keys() and all(
                    a[k].shape == b[k].shape
                    and (
                        (a[k] - b[k]).abs().max() <= TOLERANCE / 20 * range_of(b[k])
                        if a[k].is_floating_point()
                        else torch.equal(a[k], b[k])
                    )
                    for k in a
                )
            if not equal:
                raise SystemExit(f"{old} is not what this script writes")
    size = sum(p.stat().st_size for p in family.path.iterdir())
    print(f"{family.path}: all {len(names)} files reproduce, {size} bytes")


def main(*families: Family) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare the files with a fresh run")
    parser.add_argument("--search", action="store_true", help="print seeds without near-ties")
    args = parser.parse_args()
    # With one thread, sums are added in the same order on every machine.
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for family in families:
        if args.search:
            search(family)
        elif args.check:
            check(family)
        else:
            write(family, family.path)
