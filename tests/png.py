"""Makes a PNG smaller: few colours, each a byte. A page is text, and text needs few."""

from __future__ import annotations

import struct
import zlib
from collections import Counter

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BYTES = {2: 3, 6: 4}
"""Bytes of a pixel, by the colour type of what Chromium writes: RGB and RGBA."""

MOST_COLOURS = 256


def shrunk(png: bytes) -> bytes:
    """Return the picture with its 256 most frequent colours, and the nearest of them for others."""
    width, height, rows = decoded(png)
    counted = Counter(row[i : i + 3] for row in rows for i in range(0, 3 * width, 3))
    palette = [colour for colour, _ in counted.most_common(MOST_COLOURS)]
    index = {colour: i for i, colour in enumerate(palette)}
    for colour in counted:
        if colour not in index:
            index[colour] = min(range(len(palette)), key=lambda i: _apart(colour, palette[i]))
    lines = (bytes(index[row[i : i + 3]] for i in range(0, 3 * width, 3)) for row in rows)
    packed = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", packed), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def decoded(png: bytes) -> tuple[int, int, list[bytes]]:
    """Return width, height and the rows as RGB, of a PNG with 8 bits a colour."""
    if not png.startswith(SIGNATURE):
        raise ValueError("no PNG")
    at, packed = len(SIGNATURE), b""
    width = height = size = 0
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", data[:10])
            size = BYTES[colour]
        elif kind == b"IDAT":
            packed += data
        at += 12 + length
    return width, height, _rows(zlib.decompress(packed), width, size)


def _rows(raw: bytes, width: int, size: int) -> list[bytes]:
    """Undo the filters of each row; leave the transparency away."""
    rows: list[bytes] = []
    above = bytes(width * size)
    for start in range(0, len(raw), width * size + 1):
        row = _row(raw[start], raw[start + 1 : start + 1 + width * size], above, size)
        rows.append(row if size == 3 else b"".join(row[i : i + 3] for i in range(0, len(row), 4)))
        above = row
    return rows


def _row(kind: int, filtered: bytes, above: bytes, size: int) -> bytes:
    row = bytearray(filtered)
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(row, above, strict=True))
    if kind == 0:
        return bytes(row)
    for i, value in enumerate(filtered):
        left = row[i - size] if i >= size else 0
        corner = above[i - size] if i >= size else 0
        guess = (left, 0, (left + above[i]) // 2, _paeth(left, above[i], corner))[kind - 1]
        row[i] = (value + guess) & 255
    return bytes(row)


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda near: abs(guess - near))


def _apart(a: bytes, b: bytes) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
