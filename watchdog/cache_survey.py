"""What was seen of a compile cache, as plain values; `cache_tree` looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watchdog.cache_layouts import COMPILED, KEYED
from watchdog.regular_files import shown


@dataclass(frozen=True)
class Entry:
    """
    One cache: `kind` is one of `cache_layouts`, times are in Unix seconds, None without files.

    `factors`: `config_hash`, `code_hash`, `compiler_hash`, `env` (a digest), `versions`, by `parts`
    (such as `rank_0_0/backbone`), and `mixed` if these were not compiled for one configuration;
    `models` of modelinfos. `env`: vLLM's variables, without those that may hold a secret.
    """

    kind: str
    path: Path
    files: int = 0
    bytes: int = 0
    oldest: float | None = None
    newest: float | None = None
    factors: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def keyed(self) -> bool:
        """Whether an Inductor directory has vLLM's own key for a name."""
        return KEYED.fullmatch(self.path.name) is not None

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, without the variables."""
        return {
            "kind": self.kind,
            "path": shown(self.path, 400),
            "keyed": self.keyed,
            "files": self.files,
            "bytes": self.bytes,
            "oldest": self.oldest,
            "newest": self.newest,
            "factors": dict(self.factors),
        }


@dataclass(frozen=True)
class Survey:
    """
    All that lies below a root. `cut` says why the search stopped early; empty if it did not.

    `unread` are paths relative to the root, with reasons; `aside` copies that were set aside.
    """

    root: Path
    layouts: tuple[Entry, ...] = ()
    cut: str = ""
    unread: tuple[tuple[str, str], ...] = ()
    aside: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all was seen: only then is what was not found not there."""
        return not self.cut and not self.unread

    @property
    def compiled(self) -> tuple[Entry, ...]:
        """Return the caches of compiled code that hold something."""
        return tuple(entry for entry in self.layouts if entry.kind in COMPILED and entry.files)

    @property
    def files(self) -> int:
        return sum(entry.files for entry in self.layouts)

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.layouts)

    @property
    def oldest(self) -> float | None:
        """
        Return the time of the oldest compiled file, in Unix seconds; None where there is no file.

        Where no cache of compiled code is known, all files count: there may be one all the same.
        """
        return min((e.oldest for e in self._telling() if e.oldest is not None), default=None)

    @property
    def newest(self) -> float | None:
        """As `oldest`, of the newest one."""
        return max((e.newest for e in self._telling() if e.newest is not None), default=None)

    def _telling(self) -> tuple[Entry, ...]:
        return self.compiled or self.layouts

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "root": shown(self.root, 400),
            "layouts": [entry.as_dict() for entry in self.layouts],
            "files": self.files,
            "bytes": self.bytes,
            "oldest": self.oldest,
            "newest": self.newest,
            "cut": self.cut,
            "unread": [list(row) for row in self.unread],
            "aside": list(self.aside),
        }
