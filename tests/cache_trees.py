"""Compile caches as a real vLLM 0.32 left them: made from listings of their files."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

FIXTURES = Path(__file__).parent / "probes/fixtures/compile_cache"
FACTORS = FIXTURES / "cache_key_factors.json"
KERNEL = "A" * 50 + "Q7"  # 52 characters of base 32


def soon(seconds: float = 30.0) -> float:
    """A deadline that no test reaches."""
    return time.monotonic() + seconds


def from_listing(root: Path, name: str, at: float = 1_700_000_000.0) -> Path:
    """Make the files of a listing; each is a second younger than the one before."""
    for i, (path, size) in enumerate(listed(name)):
        made = file(root / path, size)
        os.utime(made, (at + i, at + i))
    return root


def listed(name: str) -> list[tuple[str, int]]:
    """Paths and sizes in bytes."""
    rows = re.findall(r"^\./(\S+) (\d+)", (FIXTURES / name).read_text(), flags=re.MULTILINE)
    return [(path, int(size)) for path, size in rows]


def file(path: Path, size: int = 10) -> Path:
    """Make a sparse file, and the directories that it needs; factors are the real ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name == FACTORS.name:
        path.write_bytes(FACTORS.read_bytes())
        return path
    path.touch()
    os.truncate(path, size)
    return path
