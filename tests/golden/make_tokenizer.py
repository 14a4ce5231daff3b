"""Writes tests/golden/tokenizer, tokenizer_byte_fallback and tokenizer_o200k: tokenizers and what transformers does.

    V=${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv     # made by scripts/deps.d/golden.sh
    $V/bin/python tests/golden/make_tokenizer.py              # writes all folders anew
    $V/bin/python tests/golden/make_tokenizer.py --check      # says whether the files reproduce

There are three kinds, because published checkpoints have them: byte-level BPE (as in GPT-2: every byte is a letter of the
alphabet); BPE over characters with one token per byte for unknown characters (as in Llama and Mixtral: a word's leading
blank is written as U+2581); and byte-level BPE over the words of o200k's regular expression (as in gpt-oss). They are trained on text by Austen; see examples/demo-model/prepare.py.
"""

import argparse
import json
import pathlib
import sys
import tempfile

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
        parts = [f'  "made_by": {json.dumps(golden.pop("made_by"))}']
        for kind, rows in golden.items():
            lines = ",\n".join("    " + json.dumps(row, ensure_ascii=True) for row in rows)
            parts.append(f'  "{kind}": [\n{lines}\n  ]')
        (folder / "cases.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


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
