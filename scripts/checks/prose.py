#!/usr/bin/env python3
"""Counts what makes pages and comments hard to read: scripts/checks/prose.py [PLACE...] | lower

Without arguments it compares the counts with the bounds of .ci/prose.toml and fails if one is exceeded (`scripts/lint prose`).
With files or folders it lists every hit there. `lower` writes bounds that have become too high down to today's counts.
"""

import collections
import dataclasses
import io
import pathlib
import re
import subprocess
import sys
import tokenize
import tomllib

import tree
from process import ROOT

CONFIG = ".ci/prose.toml"
SENTENCE_WORDS = 40
CELL_CHARACTERS = 300
SHOWN = 20

# In comments and pages a machine is "it" or "which".
PEOPLE = re.compile(r"\b(who|whom|whoever|whomever|nobody|somebody|anybody|everybody)\b", re.I)

C_LIKE = {".cc", ".h", ".cu", ".cuh", ".rs", ".go"}
# Strings come first, so that a "//" in one of them starts no comment.
C_TOKENS = re.compile(r"""
    R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"  | "(?:\\.|[^"\\\n])*"  | `[^`]*`  | '(?:\\.|[^'\\\n])'
    | (?P<comment>//[^\n]*|/\*.*?\*/)""", re.X | re.S)
ITEM = re.compile(r"\s*([-*]|\d+\.) ")
SHELL_COMMENT = re.compile(r"(?:^|\s)#(?!!)(.*)")


@dataclasses.dataclass(frozen=True)
class Hit:
    kind: str
    file: str
    line: int
    text: str


def idiom_pattern(idioms):
    return re.compile(r"\b(" + "|".join(re.escape(one).replace(r"\ ", r"\s+") for one in idioms) + r")\b", re.I)


def comments(name, text):
    """(line number, text) of every comment; Python's docstrings are comments too."""
    suffix = pathlib.PurePath(name).suffix
    if suffix in C_LIKE:
        for found in C_TOKENS.finditer(text):
            if found["comment"]:
                first = text.count("\n", 0, found.start()) + 1
                for offset, line in enumerate(found["comment"].split("\n")):
                    yield first + offset, line.strip(" /*")
    elif suffix == ".py":
        statement_begins = True
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and statement_begins):
                for offset, line in enumerate(token.string.split("\n")):
                    yield token.start[0] + offset, line.strip(' #"')
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                statement_begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if found := SHELL_COMMENT.search(line):
                yield number, found[1].strip()


def visible_lines(text):
    """(line number, line) of a page, without code blocks, quotations, inline code and targets of links."""
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith(">"):
            yield number, re.sub(r"`[^`]*`", "x", re.sub(r"\]\([^)]*\)", "]", line))


def sentences(text):
    """(line number, sentence): a blank line, a heading, a table or a list item also ends a sentence."""
    first, words = 0, []
    for number, line in [*visible_lines(text), (0, "")]:
        is_prose = line.strip() and not line.startswith(("|", "#"))
        item = ITEM.match(line)
        if not is_prose or item:
            if words:
                yield first, " ".join(words)
            first, words = number, []
        if not is_prose:
            continue
        for word in line[item.end() if item else 0:].split():
            first = first if words else number
            words.append(word)
            if re.search(r"[.:;!?][\"')*_\]]*$", word):
                yield first, " ".join(words)
                words = []


def page_hits(name, text, idioms):
    for number, sentence in sentences(text):
        if len(sentence.split()) > SENTENCE_WORDS:
            yield Hit("long_sentences", name, number, f"{len(sentence.split())} words: {sentence[:80]}")
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("|"):
            for cell in map(str.strip, re.split(r"(?<!\\)\|", line)):
                if len(cell) > CELL_CHARACTERS:
                    yield Hit("long_cells", name, number, f"{len(cell)} characters: {cell[:80]}")
    yield from word_hits("pages", name, visible_lines(text), idioms)


def word_hits(where, name, lines, idioms):
    for number, line in lines:
        for kind, pattern in (("people", PEOPLE), ("idioms", idioms)):
            for found in pattern.finditer(line):
                yield Hit(f"{kind}_in_{where}", name, number, f"'{found[0]}': {line[:100]}")


def survey(texts, idioms, exempt=()):
    """Every hit, and the words of all pages. `texts`: file name -> text."""
    pattern, hits, words = idiom_pattern(idioms), [], 0
    for name, text in texts.items():
        if name in exempt:
            continue
        if name.endswith(".md"):
            words += len(text.split())
            hits += page_hits(name, text, pattern)
        else:
            hits += word_hits("comments", name, comments(name, text), pattern)
    return hits, words


def counts_of(hits, words, bounds):
    found = collections.Counter(hit.kind for hit in hits)
    return {kind: words if kind == "words_in_pages" else found[kind] for kind in bounds}


def complaints(hits, words, bounds, changed=()):
    """Lines that say which bound is exceeded, and where. Hits of `changed` files come first."""
    for kind, count in counts_of(hits, words, bounds).items():
        if count <= bounds[kind]:
            continue
        yield f"{kind}: {count}, and {CONFIG} allows {bounds[kind]}"
        places = [hit for hit in hits if hit.kind == kind]
        places = [hit for hit in places if hit.file in changed] or places
        yield from (f"  {hit.file}:{hit.line}: {hit.text}" for hit in places[:SHOWN])
        if len(places) > SHOWN:
            yield f"  and {len(places) - SHOWN} more; scripts/checks/prose.py PLACE lists those of a file or folder"


def lowered(config, counts):
    """The configuration with every bound lowered to its count if it is higher. The bound on words is a budget and stays."""
    for kind, count in counts.items():
        if kind == "words_in_pages":
            continue
        config = re.sub(rf"^{kind} = (\d+)$", lambda m, n=count: m[0].replace(m[1], str(min(int(m[1]), n))), config, flags=re.M)
    return config


def changed_files():
    """Files that differ from the last commit, including new ones."""
    done = subprocess.run("git diff --name-only HEAD; git ls-files -o --exclude-standard", shell=True, cwd=ROOT,
                          capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def is_read(name):
    path = pathlib.PurePath(name)
    return path.suffix in C_LIKE | {".md", ".py", ".sh"} or (path.parts[0] == "scripts" and not path.suffix)


def tree_texts():
    return {name: (ROOT / name).read_text(errors="replace") for name in tree.files()
            if is_read(name) and (ROOT / name).is_file()}


def main(arguments):
    config = (ROOT / CONFIG).read_text()
    settings = tomllib.loads(config)
    texts = tree_texts()
    if missing := [page for page in settings["waiting"] if page not in texts]:
        print(f"{CONFIG}: there is no {', '.join(missing)}", file=sys.stderr)
        return 1
    bounds, lower = settings["bounds"], arguments == ["lower"]
    if arguments and not lower:
        chosen = {n: t for n, t in texts.items() if any(n == a.rstrip("/") or n.startswith(a.rstrip("/") + "/") for a in arguments)}
        hits, words = survey(chosen, settings["idioms"])
        for hit in hits:
            print(f"{hit.file}:{hit.line}: {hit.kind}: {hit.text}")
        print(", ".join(f"{kind} {count}" for kind, count in counts_of(hits, words, bounds).items()))
        return 0
    hits, words = survey(texts, settings["idioms"], settings["waiting"])
    lower_config = lowered(config, counts_of(hits, words, bounds))
    if lower:
        (ROOT / CONFIG).write_text(lower_config)
        return 0
    if found := list(complaints(hits, words, bounds, changed_files())):
        print("\n".join(found), file=sys.stderr)
        print("CONTRIBUTING.md, Writing, has examples", file=sys.stderr)
        return 1
    if lower_config != config:
        print(f"prose: better than {CONFIG} asks; scripts/checks/prose.py lower keeps it so")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
