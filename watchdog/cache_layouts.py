"""
Whose a cache directory is, told by its name and by what lies in it.

The layouts are those of vLLM 0.32 (`torch_compile_cache/<10 hex>/rank_0_0/backbone/...`,
`torch_compile_cache/torch_aot_compile/<64 hex>/rank_0_0/model`), Triton (a directory for each
kernel, named by a hash in base 32), AITER (`module_*.so`) and torch's Inductor. Pure: no reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, NamedTuple

INDUCTOR: Final = "inductor"
AOT: Final = "aot"
TRITON: Final = "triton"
AITER: Final = "aiter"
SHARED: Final = "inductor shared"
MODELINFOS: Final = "modelinfos"
OTHER: Final = "other"

COMPILED: Final = frozenset({INDUCTOR, AOT, TRITON, AITER, SHARED})
"""What holds compiled code. `modelinfos` says of a model's class what it can do."""

KEYED: Final = re.compile(r"[0-9a-f]{10}")
"""What vLLM calls a directory by its own key; any other name was configured (`cache_dir`)."""

ASIDE_TIME: Final = "%Y%m%dT%H%M%SZ"
"""How the time stands in the name of a directory that was set aside: UTC."""

_COPY: Final = re.compile(r"(?P<name>.+)\.stale-(?P<time>\d{8}T\d{6}Z)", re.DOTALL)

ASIDE: Final = re.compile(r".+\.stale-\d{8}T\d{6}Z?")
"""A directory that was set aside: it is no part of the cache any more."""

_AOT: Final = re.compile(r"[0-9a-f]{64}")
_RANK: Final = re.compile(r"rank_\d+_\d+")
_KERNEL: Final = re.compile(r"[A-Z2-7]{52}")  # SHA-256 in base 32
_AITER: Final = re.compile(r"module_\w+\.so")

_NAMES: Final = {
    "modelinfos": MODELINFOS,
    ".triton": TRITON, "triton": TRITON, "triton_cache": TRITON,
    ".aiter": AITER, "aiter": AITER, "aiter_jit": AITER,
}  # fmt: skip


def set_aside_at(name: str, of: str | None = None) -> datetime | None:
    """Return when a copy of this name was set aside; None where it is none, or not `of` this."""
    match = _COPY.fullmatch(name)
    if match is None or of not in (None, match["name"]):
        return None
    with suppress(ValueError):  # the 99th of a month
        return datetime.strptime(match["time"], ASIDE_TIME).replace(tzinfo=timezone.utc)
    return None


class Layout(NamedTuple):
    """A directory that belongs to one cache, with all that lies in it."""

    kind: str
    path: Path


def layout_of(path: Path, names: Iterable[str]) -> Layout | None:
    """
    Tell whose a directory is that lies in no known layout; None for one that just holds others.

    `names`: what lies in it. The layout may begin at its parent: `rank_0_0` and a Triton kernel
    are seen only from within.
    """
    name, above = path.name, path.parent.name
    if above == "torch_aot_compile" and _AOT.fullmatch(name):
        return Layout(AOT, path)
    if above == "torch_compile_cache" and KEYED.fullmatch(name):
        return Layout(INDUCTOR, path)
    if _RANK.fullmatch(name):
        return Layout(INDUCTOR, path.parent)
    if name in _NAMES:
        return Layout(_NAMES[name], path)
    return _by_content(path, list(names))


def _by_content(path: Path, names: list[str]) -> Layout | None:
    if path.name.startswith("torchinductor_") or {"fxgraph", "aotautograd"} & set(names):
        return Layout(SHARED, path)
    if any(map(_KERNEL.fullmatch, names)):
        return Layout(TRITON, path)
    if any(name.startswith("__grp__") for name in names):  # a kernel, of a Triton before base 32
        return Layout(TRITON, path.parent)
    return Layout(AITER, path) if any(map(_AITER.fullmatch, names)) else None
