"""Rewrites a PNG of 8 bits per channel with a palette of 256 colours, so that it takes a fraction of the bytes."""

import collections
import struct
import zlib


def chunks(data):
    at = 8
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        yield data[at + 4:at + 8], data[at + 8:at + 8 + size]
        at += size + 12


def rows_of(raw, width, height, channels):
    """The rows without PNG's filters."""
    size = width * channels
    above = bytearray(size)
    for y in range(height):
        kind, row = raw[y * (size + 1)], bytearray(raw[y * (size + 1) + 1:(y + 1) * (size + 1)])
        for i in range(size):
            left = row[i - channels] if i >= channels else 0
            up, corner = above[i], above[i - channels] if i >= channels else 0
            if kind == 1:
                add = left
            elif kind == 2:
                add = up
            elif kind == 3:
                add = (left + up) // 2
            elif kind == 4:
                guess = left + up - corner
                add = min((left, up, corner), key=lambda v: abs(guess - v))
            else:
                break
            row[i] = (row[i] + add) & 255
        above = row
        yield bytes(row)


def distance(one, other):
    return (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2


def with_palette(data):
    found = list(chunks(data))
    width, height, depth, kind = struct.unpack_from(">IIBB", found[0][1])
    channels = {2: 3, 6: 4}[kind]
    assert depth == 8
    raw = zlib.decompress(b"".join(body for name, body in found if name == b"IDAT"))
    pixels = [[row[i:i + 3] for i in range(0, len(row), channels)] for row in rows_of(raw, width, height, channels)]
    common = [color for color, _ in collections.Counter(color for row in pixels for color in row).most_common()]
    palette, least = common, 0
    while len(palette) > 256:  # Keep the most frequent of colours that are near each other, so that rare ones have a place too.
        palette, least = [], least + 100
        for color in common:
            if all(distance(color, other) >= least for other in palette):
                palette.append(color)
    index = {color: i for i, color in enumerate(palette)}

    def nearest(color):
        if color not in index:
            index[color] = min(range(len(palette)), key=lambda i: distance(palette[i], color))
        return index[color]

    body = b"".join(b"\0" + bytes(map(nearest, row)) for row in pixels)

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    return (data[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) + chunk(b"PLTE", b"".join(palette)) +
            chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b""))
