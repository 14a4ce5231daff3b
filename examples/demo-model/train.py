"""Trains the demo model: a 7.9 M parameter Mixtral on Jane Austen's novels, on two CPU cores.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    OMP_WAIT_POLICY=passive $V/bin/python train.py run       # trains; run it again to go on
    $V/bin/python train.py export       # writes the checkpoint and loss.csv beside this file
    $V/bin/python train.py evaluate     # perplexity of the checkpoint on the chapters held out
    $V/bin/python train.py sample       # prints the answers the README shows

What is learnt, where it comes from and how good it is: README.md. State lives in --work, outside
the tree: the tokenizer, the newest training state (replaced every 200 steps) and the loss curve.
Every batch depends on (seed, step) alone, so a resumed run sees the batches an unbroken one would.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import random
import re
import shutil
import tempfile
import time

# OpenMP threads that spin for work make two busy cores ten times slower than threads that sleep.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

import prepare  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")

SEED = 20260
VOCABULARY = 3072
SPECIAL = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>"]
BOS, EOS, USER, ASSISTANT, END = range(len(SPECIAL))
POSITIONS = 2048  # the longest sample trained on
BATCH_TOKENS = 2048
# Sample lengths, by weight: short ones train fastest, long ones teach positions up to the limit.
LENGTHS = {256: 5, 512: 3, 1024: 1, 2048: 1}

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] not in ['user', 'assistant'] %}"
    "{{ raise_exception('this model knows the roles user and assistant, not ' + message['role']) }}"
    "{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'].strip() + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def model_config() -> transformers.MixtralConfig:
    return transformers.MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        num_local_experts=8,
        num_experts_per_tok=2,
        max_position_embeddings=POSITIONS,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        sliding_window=None,
        # The balancing loss keeps all experts in use: without it two or three take most tokens.
        output_router_logits=True,
        router_aux_loss_coef=0.01,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=None,
    )


# --- text -------------------------------------------------------------------------------------

# A sentence ends at . ! or ? (with closing quotes or brackets), before a capital; abbreviations
# and initials do not end one.
_SENTENCE_END = re.compile(
    r"""(?<=[.!?])(?<!\bMr\.)(?<!\bMrs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\b[A-Z]\.)"""
    r"""["')]*\s+(?=["'(]?[A-Z])"""
)


def sentences(paragraph: str) -> list[str]:
    parts, start = [], 0
    for match in _SENTENCE_END.finditer(paragraph):
        parts.append(paragraph[start : match.end()].rstrip())
        start = match.end()
    parts.append(paragraph[start:])
    return [p for p in parts if p]


def train_tokenizer(chapters: list[list[str]]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.train_from_iterator(
        ("\n".join(chapter) for chapter in chapters),
        tokenizers.trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=SPECIAL,
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)]
    )
    return tokenizer


def load_text(work: pathlib.Path):
    """Returns (tokenizer, training chapters, held-out chapters); a chapter is its paragraphs."""
    chapters = [chapter for novel in prepare.novels() for chapter in novel.chapters]
    # One chapter in 27 is never trained on: ten of 269, from all six novels.
    held_out = [c for i, c in enumerate(chapters) if i % 27 == 13]
    trained = [c for i, c in enumerate(chapters) if i % 27 != 13]
    path = work / "tokenizer.json"
    if path.is_file():
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    else:
        tokenizer = train_tokenizer(trained)
        tokenizer.save(str(path))

    return tokenizer, trained, held_out


def balanced(text: str) -> str:
    """The text without a quotation mark whose partner stands outside it."""
    marks = [m.start() for m in re.finditer('"', text)]
    if not marks:
        return text
    # A mark opens at the start and after a blank, a dash or a bracket; otherwise it closes.
    opens = [at == 0 or text[at - 1] in " \n-(" for at in marks]
    drop = set()
    if not opens[0]:
        drop.add(marks[0])
    if opens[-1]:
        drop.add(marks[-1])
    return "".join(c for at, c in enumerate(text) if at not in drop).strip()


def spoken(paragraph: str) -> str | None:
    """What a paragraph says as one side of a talk, or None where it is not one.

    The marks around a paragraph that is speech alone are dropped, since nobody types them; a
    speech that a "said she" interrupts keeps its own.
    """
    if not paragraph.startswith('"') or len(paragraph) > 500 or paragraph.count('"') % 2:
        return None
    inside = paragraph[1:-1]
    return inside if paragraph.endswith('"') and '"' not in inside else paragraph


class Text:
    """The chapters to train on, in the three forms that samples are cut from."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, chapters: list[list[str]]):
        self.tokenizer = tokenizer
        # Running prose: per chapter and sentence its ids at the start of a sample and its ids
        # where other text precedes (after a blank, or a new paragraph's line feed).
        self.chapters: list[list[tuple[list[int], list[int]]]] = []
        # Passages: per chapter and sentence the text, with that blank or line feed before it.
        self.passages: list[list[str]] = []
        # Talks: paragraphs of speech that follow each other, two or more.
        self.talks: list[list[str]] = []
        for chapter in chapters:
            passage = [
                ("\n" if s == 0 else " ") + sentence
                for paragraph in chapter
                for s, sentence in enumerate(sentences(paragraph))
            ]
            self.passages.append(passage)
            self.chapters.append([(self.ids(p[1:]), self.ids(p)) for p in passage])
            talk: list[str] = []
            for paragraph in [*chapter, ""]:
                side = spoken(paragraph)
                if side is not None:
                    talk.append(side)
                    continue
                if len(talk) > 1:
                    self.talks.append(talk)
                talk = []
        self.chapter_weights = [sum(len(ids) for _, ids in c) for c in self.chapters]
        self.talk_weights = [len(t) - 1 for t in self.talks]

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def plain_sample(text: Text, length: int, rng: random.Random) -> list[int]:
    """Running prose from the start of a sentence; a chapter's end is followed by </s>."""
    ids: list[int] = []
    while len(ids) < length:
        chapter = rng.choices(text.chapters, text.chapter_weights)[0]
        at = rng.randrange(len(chapter))
        ids += [BOS, *chapter[at][0]]
        for _, following in chapter[at + 1 :]:
            if len(ids) >= length:
                break
            ids += following
        else:
            ids.append(EOS)
    return ids[:length]


def passage_turns(text: Text, rng: random.Random) -> list[str]:
    """The user says a sentence or more, the assistant what follows in the novel, and so on."""
    passage = rng.choices(text.passages, text.chapter_weights)[0]
    at = rng.randrange(len(passage))
    turns: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        for least in (rng.choice((1, 1, 60, 120)), rng.choice((50, 100, 150, 250, 350))):
            turn = ""
            while at < len(passage) and len(turn) < least:
                turn += passage[at]
                at += 1
            turns.append(balanced(turn.strip()))
    return turns


def talk_turns(text: Text, rng: random.Random) -> list[str]:
    """The user and the assistant are the two who talk in the novel."""
    talk = rng.choices(text.talks, text.talk_weights)[0]
    first = rng.randrange(len(talk) - 1)
    return talk[first : first + 2 * rng.choice((1, 2, 4))]


def chat_sample(text: Text, length: int, rng: random.Random) -> list[int]:
    ids: list[int] = []
    while len(ids) < length:
        turns = rng.choice((passage_turns, talk_turns))(text, rng)
        ids.append(BOS)
        for said, answer in zip(turns[::2], turns[1::2]):
            if not said or not answer:
                break
            ids += [USER, *text.ids(said), END, ASSISTANT, *text.ids(answer), END]
    return ids[:length]


def batch(text: Text, step: int) -> torch.Tensor:
    """BATCH_TOKENS token ids as [rows, length]: a function of (SEED, step)."""
    rng = random.Random(f"{SEED}:{step}")
    length = rng.choices(list(LENGTHS), list(LENGTHS.values()))[0]
    rows = BATCH_TOKENS // length
    # Half of the samples are conversations; an odd row's kind is drawn.
    kinds = [plain_sample, chat_sample] * (rows // 2)
    kinds += [rng.choice((plain_sample, chat_sample))] * (rows % 2)
    return torch.tensor([kind(text, length, rng) for kind in kinds])


# --- training ---------------------------------------------------------------------------------


def learning_rate(step: int, peak: float, warmup: int, steps: int, cooldown: int) -> float:
    """Linear warm-up, a plateau, then half a cosine to zero over the last `cooldown` steps.

    The plateau lets `--steps` be chosen anew on a resumed run, when the machine turns out faster
    or slower than thought, without a jump.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    into = max(0, step - (steps - cooldown))
    return peak * 0.5 * (1 + math.cos(math.pi * into / cooldown))


@torch.no_grad()
def held_out_loss(model, tokenizer, chapters, windows: int | None = None) -> tuple[float, int]:
    """Mean nats per token of the held-out chapters in windows of 512, and the token count."""
    model.eval()
    total, count, done = 0.0, 0, 0
    for chapter in chapters:
        ids = tokenizer.encode("\n".join(chapter), add_special_tokens=False).ids
        for start in range(0, len(ids), 511):
            if windows is not None and done == windows:
                break
            window = torch.tensor([[BOS, *ids[start : start + 511]]])
            logits = model(input_ids=window, output_router_logits=False).logits[0, :-1].float()
            loss = torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum")
            total, count, done = total + loss.item(), count + window.shape[1] - 1, done + 1
    model.train()
    return total / count, count


def save_state(path: pathlib.Path, state) -> None:
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def run(args) -> None:
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer, trained, held_out = load_text(args.work)
    text = Text(tokenizer, trained)
    tokens, sides = sum(text.chapter_weights), sum(map(len, text.talks))
    print(f"text: {tokens} tokens, {sides} paragraphs of speech in {len(text.talks)} talks")

    torch.manual_seed(SEED)
    config = model_config()
    config._experts_implementation = "grouped_mm"
    model = transformers.MixtralForCausalLM(config)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"model: {parameters} parameters", flush=True)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=args.peak,
        betas=(0.9, 0.95),
        fused=True,
    )
    state_path, curve_path = args.work / "state.pt", args.work / "loss.csv"
    first, seconds = 0, 0.0
    if state_path.is_file():
        state = torch.load(state_path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, seconds = state["step"], state["seconds"]
        rows = [r for r in csv.reader(curve_path.open()) if r[0] == "step" or int(r[0]) <= first]
        curve = curve_path.open("w", newline="")
        csv.writer(curve).writerows(rows)
        print(f"going on after step {first}", flush=True)
    else:
        curve = curve_path.open("w", newline="")
        csv.writer(curve).writerow(
            ["step", "tokens", "seconds", "learning_rate", "training_loss", "held_out_loss"]
        )
    writer = csv.writer(curve)

    model.train()
    began, total, counted = time.monotonic() - seconds, 0.0, 0
    for step in range(first, args.steps):
        rate = learning_rate(step, args.peak, args.warmup, args.steps, args.cooldown)
        for group in optimizer.param_groups:
            group["lr"] = rate
        ids = batch(text, step)
        output = model(input_ids=ids)
        loss = torch.nn.functional.cross_entropy(
            output.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
        )
        # output.aux_loss is unweighted; the curve shows the language loss alone.
        (loss + config.router_aux_loss_coef * output.aux_loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total, counted = total + loss.item(), counted + 1
        done = step + 1
        if done % 200 == 0 or done == args.steps:
            seconds = time.monotonic() - began
            held, _ = held_out_loss(model, tokenizer, held_out, None if done == args.steps else 40)
            row = [done, done * BATCH_TOKENS, round(seconds), f"{rate:.2e}"]
            row += [f"{total / counted:.4f}", f"{held:.4f}"]
            writer.writerow(row)
            curve.flush()
            print(*row, flush=True)
            total, counted = 0.0, 0
            save_state(
                state_path,
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": done,
                    "seconds": time.monotonic() - began,
                },
            )


# --- the checkpoint ---------------------------------------------------------------------------


def export(args) -> None:
    """Writes the newest training state as a plain checkpoint in bfloat16."""
    state = torch.load(args.work / "state.pt", weights_only=True)
    config = model_config()
    model = transformers.MixtralForCausalLM(config)
    model.load_state_dict(state["model"])
    model.to(torch.bfloat16)
    config.output_router_logits = False  # the balancing loss is for training alone
    args.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for name in ("config.json", "model.safetensors"):
            shutil.copyfile(pathlib.Path(folder, name), args.to / name)
    shutil.copyfile(args.work / "tokenizer.json", args.to / "tokenizer.json")
    shutil.copyfile(args.work / "loss.csv", args.to / "loss.csv")
    texts = {
        # A turn ends with <|end|>, a chapter with </s>: both end an answer.
        "generation_config.json": {
            "bos_token_id": BOS,
            "do_sample": True,
            "eos_token_id": [EOS, END],
            "temperature": 0.7,
            "top_k": 40,
        },
        "tokenizer_config.json": {
            "add_bos_token": True,
            "add_eos_token": False,
            "bos_token": SPECIAL[BOS],
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "eos_token": SPECIAL[EOS],
            "model_max_length": POSITIONS,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    }
    for name, value in texts.items():
        (args.to / name).write_text(json.dumps(value, indent=2) + "\n")
    print(f"{args.to}: the model after {state['step']} steps, {state['seconds']:.0f} s of training")


def load_checkpoint(folder: pathlib.Path):
    """(model, tokenizer) as any user of transformers would load them, computing in float32."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def evaluate(args) -> None:
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer, _, held_out = load_text(args.work)
    model, _ = load_checkpoint(args.to)
    loss, tokens = held_out_loss(model, tokenizer, held_out)
    characters = sum(len("\n".join(chapter)) for chapter in held_out)
    print(f"held out: {tokens} tokens, {characters} characters in {len(held_out)} chapters")
    print(f"{loss:.4f} nats per token, perplexity {math.exp(loss):.1f} per token")
    print(f"{loss * tokens / characters / math.log(2):.3f} bits per character")


PROMPTS = [
    "Good morning! How do you do?",
    "What do you think of Mr. Darcy?",
    "Tell me about the ball at Netherfield.",
    "It was a fine evening, and the whole party walked out together into the garden.",
    "She had not heard from her sister for three weeks.",
    "Are you going to London this winter?",
    "The letter was from Captain Wentworth.",
    "Emma was not at all pleased with him.",
    "My dear Miss Woodhouse, what is the matter?",
    "A lady of good fortune should never marry in haste.",
]


@torch.no_grad()
def sample(args) -> None:
    """Ten chat answers of at most 40 tokens, sampled, and the first prompt's greedy one."""
    model, tokenizer = load_checkpoint(args.to)
    sampled = {"do_sample": True, "temperature": 0.7, "top_k": 40}
    runs = [(prompt, sampled, "") for prompt in PROMPTS]
    runs.append((PROMPTS[0], {"do_sample": False, "temperature": None, "top_k": None}, " (greedy)"))
    for number, (prompt, settings, remark) in enumerate(runs):
        torch.manual_seed(args.seed + number)
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")
        out = model.generate(**ids, **settings, max_new_tokens=args.tokens, pad_token_id=EOS)
        answer = out[0, ids["input_ids"].shape[1] :].tolist()
        ended = answer[-1] in (EOS, END)
        words = tokenizer.decode(answer, skip_special_tokens=True)
        print(f"> **{prompt}**{remark}\n>\n> {words}{'' if ended else ' ...'}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=pathlib.Path, default=CACHE / "janus" / "demo-model")
    parser.add_argument("--threads", type=int, default=2)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run", help="train, or go on training")
    command.add_argument("--steps", type=int, default=3200)
    command.add_argument("--cooldown", type=int, default=600, help="steps of the final decay")
    command.add_argument("--warmup", type=int, default=100)
    command.add_argument("--peak", type=float, default=2.5e-3, help="learning rate of the plateau")
    for name, what in (
        ("export", "write the newest state as a checkpoint"),
        ("evaluate", "print the checkpoint's held-out perplexity"),
        ("sample", "print answers of the checkpoint"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("--to", type=pathlib.Path, default=HERE, help="checkpoint folder")
        if name == "sample":
            command.add_argument("--tokens", type=int, default=40)
            command.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.utils.logging.disable_progress_bar()
    actions = {"run": run, "export": export, "evaluate": evaluate, "sample": sample}
    actions[args.command](args)


if __name__ == "__main__":
    main()
