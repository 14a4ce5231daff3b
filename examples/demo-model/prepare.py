"""Reads Jane Austen's six novels out of Debian's r-cran-janeaustenr and cleans them for training.

The package (MIT) carries the novels, all in the public domain, as an R lazy-load database: a row
of objects, each a 4-byte big-endian unpacked length followed by a zlib stream. That unpacks to
R's XDR serialisation of one character vector, a string per line of the printed book. Only that one
shape is read here.

    apt-get install --no-install-recommends r-cran-janeaustenr
    python3 prepare.py            # one line of statistics per novel
"""

import dataclasses
import pathlib
import re
import struct
import zlib

DATABASE = pathlib.Path("/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")

# Type codes of R's serialisation ("R Internals", section 1.8): the low byte of an item's flags.
_CHARSXP = 9
_STRSXP = 16

# What editors added after the last chapter: a finis, a footnote, a note on the printed text.
_ADDED = re.compile(
    r"finis\b|the end\b|\(end of |\*vide|northanger abbey was written in", re.IGNORECASE
)

_HEADING = re.compile(r"(VOLUME|CHAPTER|Volume|Chapter)\s+([IVXLC]+|\d+|the \w+)\.?$")


@dataclasses.dataclass(frozen=True)
class Novel:
    """One novel: the title on its first line, and chapters of paragraphs of plain text."""

    title: str
    chapters: list[list[str]]


def _unpack(raw: bytes):
    """Yields the unpacked bytes of every object of a lazy-load database."""
    at = 0
    while at < len(raw):
        (length,) = struct.unpack_from(">I", raw, at)
        stream = zlib.decompressobj()
        data = stream.decompress(raw[at + 4 :])
        if len(data) != length:
            raise SystemExit(f"{DATABASE}: the object at byte {at} is not {length} bytes long")
        yield data
        at = len(raw) - len(stream.unused_data)


def _strings(data: bytes) -> list[str]:
    """Decodes one serialised character vector (format 3, XDR)."""
    (encoding_length,) = struct.unpack_from(">I", data, 14)
    at = 18 + encoding_length
    flags, count = struct.unpack_from(">II", data, at)
    at += 8
    if data[:2] != b"X\n" or flags & 0xFF != _STRSXP:
        raise SystemExit(f"{DATABASE}: an object is not a character vector in XDR form")
    lines = []
    for _ in range(count):
        flags, length = struct.unpack_from(">Ii", data, at)
        if flags & 0xFF != _CHARSXP or length < 0:
            raise SystemExit(f"{DATABASE}: a line of a novel is not a string")
        lines.append(data[at + 8 : at + 8 + length].decode("utf-8"))
        at += 8 + length
    return lines


def _clean(text: str) -> str:
    """Drops the underscores of italics, folds curly quotes and runs of blanks."""
    for old, new in (("_", ""), ("“", '"'), ("”", '"'), ("’", "'"), ("‘", "'"), ("—", "--")):
        text = text.replace(old, new)
    return re.sub(r"\s+", " ", text).strip()


def _chapters(lines: list[str]) -> list[list[str]]:
    """Cuts lines at headings and blank lines; what stands before the first heading is dropped."""
    chapters: list[list[str]] = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
            continue
        text = _clean(" ".join(block))
        block = []
        if _HEADING.match(text):
            chapters.append([])
        elif chapters and any(c.islower() for c in text) and not _ADDED.match(text):
            chapters[-1].append(text)
    return [c for c in chapters if c]


def novels() -> list[Novel]:
    """Returns the six novels in the database's order."""
    if not DATABASE.is_file():
        raise SystemExit(
            f"{DATABASE} is missing: apt-get install --no-install-recommends r-cran-janeaustenr"
        )
    texts = [_strings(data) for data in _unpack(DATABASE.read_bytes())]
    return [Novel(lines[0].title(), _chapters(lines)) for lines in texts]


def main() -> None:
    for novel in novels():
        paragraphs = [p for chapter in novel.chapters for p in chapter]
        size = sum(map(len, paragraphs))
        count = f"{len(novel.chapters)} chapters, {len(paragraphs)} paragraphs, {size} characters"
        print(f"{novel.title}: {count}")


if __name__ == "__main__":
    main()
