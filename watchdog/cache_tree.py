"""
What lies in a compile cache: whose, how much, how old, and what it was compiled for.

Links are not followed, except by the root itself; sizes and times are those of files. What could
not be looked at is listed, and a search that stopped early says why: then what it did not find may
be there all the same. Copies that were set aside are named and not counted.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from watchdog import cache_factors
from watchdog.cache_layouts import ASIDE, MODELINFOS, OTHER, Layout, layout_of
from watchdog.cache_stamp import NAME as STAMP
from watchdog.cache_survey import Entry, Survey
from watchdog.regular_files import shown, why
from watchdog.rights import READ, SEARCH, Rights
from watchdog.rooted import again

__all__ = ["Entry", "Survey", "survey"]

MOST_ENTRIES: Final = 50_000
MOST_LAYOUTS: Final = 256
MOST_PARTS: Final = 16
"""Files of factors that are read in one layout: a rank has one for target and drafter each."""

MOST_NAMED: Final = 32
"""Classes of models, copies that were set aside, and faults that are told by name."""

OURS: Final = (Path("/"), None)
LATE: Final = "the time for it was over"
BETWEEN: Final = 256
"""Entries between two looks at the clock."""


def survey(
    root: Path,
    deadline: float,
    most: int = MOST_ENTRIES,
    *,
    follow: bool = True,
    seat: tuple[Path, Rights | None] = OURS,
) -> Survey:
    """
    Look at all that lies below a root, the nearest first.

    `deadline`: of `time.monotonic()`. `most`: entries that are looked at. `follow`: whether the
    root may be a link, or lie behind one. Not of a container: `/proc/PID/root` reads as a link
    to `/`, and what it leads to is not our `/` at all. `seat`: that `/`, and what whoever uses the
    cache may read.
    """
    if follow:
        root = Path(os.path.realpath(root))  # a layout is told by the names above it, too
    walk = _Walk(root, deadline, most, seat)
    walk.all()
    layouts = tuple(walk.entry(tally) for tally in walk.tallies.values())
    return Survey(root, layouts, walk.cut, walk.faults.rows(), tuple(walk.aside))


@dataclass
class _Tally:
    layout: Layout
    files: int = 0
    bytes: int = 0
    oldest: float | None = None
    newest: float | None = None
    factors: list[Path] = field(default_factory=list)
    models: list[str] = field(default_factory=list)

    def add(self, above: Path, name: str, known: os.stat_result) -> None:
        at = known.st_mtime
        self.files += 1
        self.bytes += known.st_size
        self.oldest = at if self.oldest is None else min(self.oldest, at)
        self.newest = at if self.newest is None else max(self.newest, at)
        if name == cache_factors.NAME:
            self.factors.append(above / name)
        elif self.layout.kind == MODELINFOS and len(self.models) < MOST_NAMED:
            self.models.append(shown(name.removesuffix(".json")))


class _Faults:
    """What could not be looked at: some by name, the rest by number."""

    def __init__(self, root: Path) -> None:
        self.root, self.told, self.more = root, list[tuple[str, str]](), 0

    def add(self, path: Path, reason: str) -> None:
        if len(self.told) < MOST_NAMED:
            self.told.append((shown(os.path.relpath(path, self.root), 400), reason))
        else:
            self.more += 1

    def rows(self) -> tuple[tuple[str, str], ...]:
        more = [("...", f"{self.more} more could not be looked at")] if self.more else []
        return (*self.told, *more)


class _Walk:
    """One look at a tree, without recursion: it may be deeper than Python's stack."""

    def __init__(
        self, root: Path, deadline: float, most: int, seat: tuple[Path, Rights | None]
    ) -> None:
        self.root, self.deadline, self.left, self.seat = root, deadline, most, seat
        self.most = most
        self.cut = ""
        self.faults = _Faults(root)
        self.aside: list[str] = []
        self.tallies: dict[Layout, _Tally] = {}
        self.waiting: deque[tuple[Path, Layout | None]] = deque([(root, None)])

    def all(self) -> None:
        while self.waiting and not self.cut:
            path, layout = self.waiting.popleft()
            if time.monotonic() > self.deadline:
                self.cut = LATE
                return
            try:
                with _listed(path, self.seat[1]) as entries:
                    self._directory(path, layout, entries)
            except OSError as error:  # also: it vanished, or became a link meanwhile
                self.faults.add(path, why(error))

    def _directory(
        self, path: Path, layout: Layout | None, entries: Iterator[os.DirEntry[str]]
    ) -> None:
        found = list(islice(entries, self.left + 1))
        if len(found) > self.left:
            self.cut = f"there are more than {self.most} files and directories"
            found.pop()
        self.left -= len(found)
        layout = layout or layout_of(path, (entry.name for entry in found))
        if layout:
            self._tally(layout)  # an empty one is told too
        for i, entry in enumerate(found):
            if i % BETWEEN == BETWEEN - 1 and time.monotonic() > self.deadline:
                self.cut = LATE
                return
            try:
                self._one(path, layout, entry)
            except OSError as error:
                self.faults.add(path / entry.name, why(error))

    def _one(self, above: Path, layout: Layout | None, entry: os.DirEntry[str]) -> None:
        known, name = entry.stat(follow_symlinks=False), entry.name
        kind = stat.S_IFMT(known.st_mode)
        if kind == stat.S_IFDIR and ASIDE.fullmatch(name):
            self._set_aside(above / name)
        elif kind == stat.S_IFDIR:
            self.waiting.append((above / name, layout))
        elif kind == stat.S_IFLNK and self._is_directory(above / name):
            self.faults.add(above / name, "is a link to a directory, and was not followed")
        elif kind not in (stat.S_IFREG, stat.S_IFLNK):
            self.faults.add(above / name, "is neither file nor directory")
        elif not name.startswith(STAMP):  # our own file says nothing of what was compiled
            self._tally(layout or Layout(OTHER, self.root)).add(above, name, known)

    def _is_directory(self, link: Path) -> bool:
        """Whether a link leads to a directory. Raises OSError where its user could not tell."""
        root, rights = self.seat
        return again(root, link, rights).is_dir()

    def _set_aside(self, path: Path) -> None:
        if len(self.aside) < MOST_NAMED:
            self.aside.append(shown(os.path.relpath(path, self.root), 400))

    def _tally(self, layout: Layout) -> _Tally:
        if layout not in self.tallies and len(self.tallies) >= MOST_LAYOUTS:
            self.cut = f"there are more than {MOST_LAYOUTS} caches"
            return _Tally(layout)
        return self.tallies.setdefault(layout, _Tally(layout))

    # --- what it was compiled for ---

    def entry(self, tally: _Tally) -> Entry:
        """Return what was counted, with what vLLM tells of it."""
        told, env = cache_factors.joined(self._factors(tally))
        if tally.models:
            told["models"] = sorted(tally.models)
        times = (tally.oldest, tally.newest)
        return Entry(*tally.layout, tally.files, tally.bytes, *times, told, env)

    def _factors(self, tally: _Tally) -> dict[str, cache_factors.Factors]:
        """Return the factors of each part that could be read."""
        read: dict[str, cache_factors.Factors] = {}
        tally.factors.sort()
        if len(tally.factors) > MOST_PARTS:
            rest = f"{len(tally.factors) - MOST_PARTS} more files of this name were not read"
            self.faults.add(tally.factors[MOST_PARTS], rest)
        for path in tally.factors[:MOST_PARTS]:
            if time.monotonic() > self.deadline:
                self.faults.add(path, LATE)
                continue
            try:
                found = cache_factors.factors(path)
            except OSError as error:
                self.faults.add(path, why(error))
                continue
            read[shown(os.path.relpath(path.parent, tally.layout.path), 200)] = found
        return read


@contextmanager
def _listed(path: Path, rights: Rights | None) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Open a directory that is no link, even if it was none a moment ago. Raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags)
    try:
        if rights is not None:
            rights.demand(descriptor, READ)
            rights.demand(descriptor, SEARCH)
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)
