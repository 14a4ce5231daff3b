"""Writes the folders tests/golden/tokenizer*: tokenizers, and what transformers or tiktoken do with them.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_tokenizer.py              # writes all folders anew
    $V/bin/python tests/golden/make_tokenizer.py --check      # says whether the files reproduce

There are four kinds, because published checkpoints have them: byte-level BPE (as in GPT-2: every byte is a letter of the
alphabet); BPE over characters with one token per byte for unknown characters (as in Llama and Mixtral: a word's leading
blank is written as U+2581); byte-level BPE over the words of o200k's regular expression (as in gpt-oss); and tiktoken's
format with Kimi-K2's words, for which the reference is tiktoken. They are trained on text by Austen; see
examples/demo-model/prepare.py.
"""

import argparse
import base64
import json
import pathlib
import random
import sys
import tempfile

import tiktoken
import tokenizers
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "examples" / "demo-model"))
import prepare  # noqa: E402

VOCABULARY = 512  # the same as in the golden models
# <s> is 1 and </s> is 2, as in the golden models' config.json.
SPECIAL = ["<unk>", "<s>", "</s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<pad>"]

# Indented over several lines on purpose: it renders correctly only if blocks trim the line feed
# after them and the blanks before them, as transformers configures Jinja.
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'].strip() %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set system = '' %}
    {%- set turns = messages %}
{%- endif %}
{%- if system %}
    {{- '<|system|>' + system + '<|end|>' }}
{%- endif %}
{% for message in turns %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('roles must alternate between user and assistant') }}
    {% endif %}
    {% if message.role == 'user' %}
<|user|>{{ message.content | trim }}<|end|>
    {% elif message.role == 'assistant' %}
<|assistant|>{{ message.content.split('</thought>')[-1].lstrip() }}<|end|>
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{%- endif %}
"""

TEXTS = [
    "",
    " ",
    "a",
    "It is a truth universally acknowledged",
    " leading and trailing blanks ",
    "two  blanks,   three, \t a tab\n\nand two line feeds\r\n",
    "Don't they'll WE'VE 12345 3.14 #!?...",
    "naïve café, Straße, Ελλάδα, Привет",
    "e\u0301 is not \u00e9",
    "日本語と中文와 한국어",
    "🙂 👩‍👩‍👧 🏳️‍🌈 \U0001f9ff",
    "CamelCaseWords HTTPServer isn't IT'LL 1234567 http://a.b/c//d\n\n  \n end   ",
    "\u200bzero width\u00a0no break\ufeff",
    "control \x00\x01\x7f characters",
    "<s>specials</s> in<|user|>the text<|end|>",
    "<|end|><|end|> <|end |>",
    "▁ is a letter too",
    "x" * 40,
    "\\ \" ' ` { } %} {{",
]

CHATS = [
    [{"role": "user", "content": "Good morning."}],
    [{"role": "user", "content": "  blanks around\n"}],
    [
        {"role": "system", "content": " Be brief. "},
        {"role": "user", "content": "Who is Emma?"},
    ],
    [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "<thought>hm</thought> Two."},
        {"role": "user", "content": "三 🙂 <|end|>"},
    ],
    [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "Two, unfinished"},
    ],
    [{"role": "assistant", "content": "I speak first."}],
    [{"role": "user", "content": "One."}, {"role": "user", "content": "Two."}],
]


def corpus() -> list[str]:
    """The first chapters of each novel: enough for 512 tokens."""
    return ["\n".join(c) for novel in prepare.novels() for c in novel.chapters[:6]]


def byte_level() -> tokenizers.Tokenizer:
    out = tokenizers.Tokenizer(tokenizers.models.BPE())
    out.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    train(out, SPECIAL, alphabet)
    return out


# Words as o200k splits them: by case, with English contractions; up to three digits; runs of other characters with the
# line ends or slashes behind them; blanks without the last one before a word.
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def o200k() -> tokenizers.Tokenizer:
    pre = tokenizers.pre_tokenizers
    out = tokenizers.Tokenizer(tokenizers.models.BPE())
    out.pre_tokenizer = pre.Sequence(
        [
            pre.Split(tokenizers.Regex(O200K), behavior="isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    out.decoder = tokenizers.decoders.ByteLevel()
    train(out, SPECIAL, sorted(pre.ByteLevel.alphabet()))
    return out


def byte_fallback() -> tokenizers.Tokenizer:
    out = tokenizers.Tokenizer(
        tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    out.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    # Only the training needs separate words: without this, merges would run across them.
    out.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="never")
    train(out, SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)], [])
    out.pre_tokenizer = None
    decoders = tokenizers.decoders
    out.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    # The byte tokens were special only for the training; special tokens would match in text.
    data = json.loads(out.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in SPECIAL]
    return tokenizers.Tokenizer.from_str(json.dumps(data))


def train(out: tokenizers.Tokenizer, special: list[str], alphabet: list[str]) -> None:
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    out.train_from_iterator(corpus(), trainer)
    out.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )


def tokenizer_config() -> dict:
    return {
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": "<s>",
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "</s>",
        "model_max_length": 1024,
        "pad_token": "<pad>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
    }


def cases(folder: pathlib.Path) -> dict:
    """The results of transformers for TEXTS and CHATS with the tokenizer in this folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encode, decode, chat = [], [], []
    for text in TEXTS:
        for special in (True, False):
            ids = tokenizer.encode(text, add_special_tokens=special)
            encode.append({"text": text, "add_special_tokens": special, "ids": ids})

    def add_decode(ids):
        for skip in (True, False):
            text = tokenizer.decode(ids, skip_special_tokens=skip)
            decode.append({"ids": ids, "skip_special_tokens": skip, "text": text})

    for text in TEXTS:
        add_decode(tokenizer.encode(text))
    # Characters of several tokens, cut at the end or by another token.
    emoji = tokenizer.encode("🙂", add_special_tokens=False)
    for cut in range(1, len(emoji)):
        add_decode(emoji[:cut])
    add_decode(emoji[:-1] + tokenizer.encode("a", add_special_tokens=False))
    add_decode(emoji[1:])
    add_decode(list(range(VOCABULARY)))

    for messages in CHATS:
        for add in (True, False):
            case = {"messages": messages, "add_generation_prompt": add}
            try:
                case["text"] = tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=add
                )
            except Exception as error:
                if "must alternate" not in str(error):
                    raise
                case["error"] = str(error)
            else:
                case["ids"] = tokenizer.encode(case["text"], add_special_tokens=False)
            chat.append(case)
    made_by = {p.__name__: p.__version__ for p in (tokenizers, transformers)}
    return {"made_by": made_by, "encode": encode, "decode": decode, "chat": chat}


# Kimi-K2's words: o200k's without the slashes, and runs of Chinese characters are words of their own.
KIMI = "|".join(
    [
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
KIMI_SPECIAL = ["[BOS]", "[EOS]", "<s>", "</s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
KIMI_TOOL = "<|tool_call_begin|>"  # a token that stays in decoded text
KIMI_RESERVED = 258


def kimi_ranks() -> list[bytes]:
    """The bytes, then what a training merges. Some letters stand in rows, so that equal neighbours compete."""
    pre = tokenizers.pre_tokenizers
    out = tokenizers.Tokenizer(tokenizers.models.BPE())
    out.pre_tokenizer = pre.Sequence(
        [pre.Split(tokenizers.Regex(O200K), behavior="isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=sorted(pre.ByteLevel.alphabet()), show_progress=False
    )
    draw = random.Random(4)
    rows = ["".join(draw.choice("ab") for _ in range(40)) for _ in range(6000)]
    out.train_from_iterator(corpus() + rows + ["".join(["你好", "世界"] * 50)], trainer)
    byte_of = {c: b for b, c in byte_alphabet().items()}
    learned = sorted(out.get_vocab().items(), key=lambda item: item[1])
    merged = [bytes(byte_of[c] for c in token) for token, _ in learned if len(token) > 1]
    return [bytes([b]) for b in range(256)] + merged


def byte_alphabet() -> dict[int, str]:
    """GPT-2's letter of each byte."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}


def kimi_texts() -> list[str]:
    draw = random.Random(5)
    rows = ["".join(draw.choice("ab") for _ in range(draw.randrange(3, 60))) for _ in range(40)]
    mixed = ["".join(draw.choice(["a", "B", "ß", "你", "界", "7", " ", "\n", "\u3007", "\u0301", "'s", "!", "\u200b", "🙂"])
                     for _ in range(draw.randrange(1, 40))) for _ in range(60)]
    return TEXTS + rows + mixed + ["I'LL don't WE'Re", "你好abc世界 ABCdef", f"x{KIMI_TOOL}y<|reserved_token_600|>z[EOS]"]


def write_tiktoken(folder: pathlib.Path, chats: list) -> None:
    """`chats`: cases with the same template, whose texts do not depend on the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = kimi_ranks()
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ranks)]
    (folder / "tiktoken.model").write_text("".join(lines))
    names = KIMI_SPECIAL + [KIMI_TOOL]
    named = {len(ranks) + i: {"content": name, "special": name != KIMI_TOOL} for i, name in enumerate(names)}
    config = {
        "added_tokens_decoder": {str(i): token for i, token in named.items()},
        "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]},
        "bos_token": "<s>",
        "chat_template": CHAT_TEMPLATE,
        "eos_token": "</s>",
        "tokenizer_class": "TikTokenTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    special = {
        named[i]["content"] if i in named else f"<|reserved_token_{i}|>": i
        for i in range(len(ranks), len(ranks) + KIMI_RESERVED)
    }
    model = tiktoken.Encoding(
        "golden", pat_str=KIMI, mergeable_ranks={t: i for i, t in enumerate(ranks)}, special_tokens=special
    )
    skipped = {i for i in special.values() if i not in named or named[i]["special"]}

    def ids_of(text):
        return model.encode(text, allowed_special="all")

    encode = [
        {"text": text, "add_special_tokens": add, "ids": ids_of(text)} for text in kimi_texts() for add in (True, False)
    ]
    decode = []
    emoji = ids_of("🙂")
    for ids in [ids_of(t) for t in kimi_texts()] + [emoji[:cut] for cut in range(1, len(emoji))] + [
        emoji[:-1] + ids_of("a"), emoji[1:], list(range(len(ranks) + 20))]:
        for skip in (True, False):
            text = model.decode([i for i in ids if not (skip and i in skipped)])
            decode.append({"ids": ids, "skip_special_tokens": skip, "text": text})
    chat = [dict(case, ids=ids_of(case["text"])) if "text" in case else case for case in chats]
    write_cases(folder, {"tiktoken": tiktoken.__version__}, {"encode": encode, "decode": decode, "chat": chat})


def write_cases(folder: pathlib.Path, made_by: dict, golden: dict) -> None:
    parts = [f'  "made_by": {json.dumps(made_by)}']
    for kind, rows in golden.items():
        lines = ",\n".join("    " + json.dumps(row, ensure_ascii=True) for row in rows)
        parts.append(f'  "{kind}": [\n{lines}\n  ]')
    (folder / "cases.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


def write(root: pathlib.Path) -> None:
    kinds = {"tokenizer": byte_level, "tokenizer_byte_fallback": byte_fallback, "tokenizer_o200k": o200k}
    for name, make in kinds.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = make()
        if tokenizer.get_vocab_size() != VOCABULARY:
            raise SystemExit(f"{name}: {tokenizer.get_vocab_size()} tokens, not {VOCABULARY}")
        tokenizer.save(str(folder / "tokenizer.json"))
        config = json.dumps(tokenizer_config(), indent=2) + "\n"
        (folder / "tokenizer_config.json").write_text(config)
        golden = cases(folder)
        write_cases(folder, golden.pop("made_by"), golden)
    write_tiktoken(root / "tokenizer_tiktoken", golden["chat"])


def check() -> None:
    """Exits with an error unless the files on disk are what this script writes."""
    with tempfile.TemporaryDirectory() as temporary:
        fresh = pathlib.Path(temporary)
        write(fresh)
        count = 0
        for new in sorted(p for p in fresh.rglob("*") if p.is_file()):
            old = HERE / new.relative_to(fresh)
            count += 1
            if not old.is_file() or old.read_bytes() != new.read_bytes():
                raise SystemExit(f"{old} is not what this script writes")
    print(f"{HERE}/tokenizer*: all {count} files reproduce")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the files with a fresh run")
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    if args.check:
        check()
    else:
        write(HERE)


if __name__ == "__main__":
    main()
