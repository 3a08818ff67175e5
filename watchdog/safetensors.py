"""
Headers of safetensors files: which tensors a file holds, without reading one.

A file begins with the length of its header (8 bytes, little-endian), then JSON: for each tensor
`dtype`, `shape` and where its bytes lie. Both are only claims.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from watchdog.regular_files import OddFileError, opened, parsed, up_to

MOST_HEADER: Final = 100_000_000
"""Bytes of a header: the limit of the format's own library."""

MOST_PARSED: Final = 2 << 20
"""Bytes of a header that is taken apart; a longer one counts as it is. `[],[],...` needs 27 times
its length in memory, and for a second nothing else runs meanwhile."""


def tensors(path: Path) -> Iterator[str]:
    """Yield a text for each tensor of a file. Raises OSError, with words for `why`."""
    with opened(path) as (descriptor, known):
        start = up_to(descriptor, 8)
        length = int.from_bytes(start, "little")
        room = known.st_size - 8
        if len(start) < 8:
            raise OddFileError("is too short for a safetensors header")
        if length > MOST_HEADER:
            raise OddFileError(f"claims a header of {length} bytes, more than {MOST_HEADER}")
        if length > room:
            raise OddFileError(f"claims a header of {length} bytes and has {max(room, 0)}")
        if length > MOST_PARSED:
            yield _digest_of(descriptor, length)
            return
        header = up_to(descriptor, length)
    if len(header) < length:
        raise OddFileError("ended within its header")
    for name, told in parsed(header).items():
        if name != "__metadata__":
            yield _row(name, told)


def _row(name: str, told: object) -> str:
    """Return a digest of a tensor's name, dtype and shape; where its bytes lie does not count."""
    dtype, shape = (told.get("dtype"), told.get("shape")) if isinstance(told, dict) else ("", "")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise OddFileError("has a header that is none of safetensors")
    if not all(type(size) is int for size in shape):
        raise OddFileError("has a header with a shape that is none")
    return digest([name, dtype, shape])  # names may be long, and there are many


def _digest_of(descriptor: int, length: int) -> str:
    """Return the digest of a header that is too long to take apart."""
    digest = hashlib.sha256()
    while length > 0:
        part = up_to(descriptor, min(length, 1 << 20))
        if not part:
            raise OddFileError("ended within its header")
        digest.update(part)
        length -= len(part)
    return digest.hexdigest()


def digest(value: object) -> str:
    """Return 16 hexadecimal digits for plain data, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
