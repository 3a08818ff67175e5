"""
The fingerprints of many launches, kept small: what is alike in them is kept once.

A row of the store is written whenever it changes, so what a target keeps is bounded: some tens
of launches that share most of their factors, and each shown value only so far as it helps people.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, NamedTuple

from watchdog.domain.fingerprint import MOST_UNREAD, Factor, Fingerprint
from watchdog.domain.texts import one_line

MOST_POOL: Final = 640
"""Different factors that are kept of all launches together: about 60 kB of JSON at most."""

SHOWN: Final = 64
"""Characters of a value that are kept for people; its digest is kept whole."""


class Print(NamedTuple):
    """
    One launch: the places of its factors in the pool, and what was not readable.

    `more` and `less` are the names that were configured to count then, or not to: two launches are
    compared in what counted for both.
    """

    digest: str
    at: tuple[int, ...]
    unread: tuple[tuple[str, str], ...] = ()
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()


class Prints(NamedTuple):
    """Launches, the one that was used last at the end, and the pool of their factors."""

    pool: tuple[tuple[str, str, str], ...] = ()
    rows: tuple[Print, ...] = ()

    def get(self, digest: str) -> Fingerprint | None:
        """Return a launch as it was kept; None where it no longer is."""
        for row in self.rows:
            if row.digest == digest and all(0 <= i < len(self.pool) for i in row.at):
                factors = tuple(Factor(*self.pool[i]) for i in row.at)
                return Fingerprint(factors, row.unread, row.more, row.less)
        return None

    def digests(self) -> tuple[str, ...]:
        """Return what is kept, the one that was used last at the end."""
        return tuple(row.digest for row in self.rows)

    def added(self, launch: Fingerprint) -> Prints:
        """Keep a launch, as the newest; of two with one digest the one that is known better."""
        digest = launch.digest
        old = self.get(digest)
        alike = old is not None and (old.more, old.less) == (launch.more, launch.less)
        if old is not None and alike and len(old.unread) <= len(launch.unread):
            launch = old
        others = [one for d in self.digests() if d != digest and (one := self.get(d))]
        return _packed([*others, launch])

    def only(self, wanted: Collection[str]) -> Prints:
        """Forget what nothing speaks of any more."""
        if all(row.digest in wanted for row in self.rows):
            return self
        return _packed([one for d in self.digests() if d in wanted and (one := self.get(d))])

    def forgotten(self, names: Collection[str]) -> tuple[Prints, dict[str, str]]:
        """Leave out factors that count no longer; return which digest has become which."""
        new: dict[str, Fingerprint] = {}
        became = {}
        for digest in self.digests():
            launch = self.get(digest)
            if launch is not None:
                kept = tuple(x for x in launch.factors if x.name not in names)
                less = replace(launch, factors=kept)
                new[less.digest], became[digest] = less, less.digest
        return _packed(list(new.values())), became

    def doubted(self, names: Collection[str], reason: str) -> Prints:
        """Note that factors that count by now were not looked at then, where they are absent."""
        launches = []
        for digest in self.digests():
            launch = self.get(digest)
            if launch is not None:
                known = {x.name for x in launch.factors} | {part for part, _ in launch.unread}
                rows = tuple((name, reason) for name in sorted(names) if name not in known)
                wanting = (*launch.unread, *rows)[:MOST_UNREAD]
                launches.append(replace(launch, unread=wanting))
        return _packed(launches)


def _packed(launches: list[Fingerprint]) -> Prints:
    """Lay factors together; where the pool is full the launches used longest ago are left out."""
    pool: dict[tuple[str, str, str], int] = {}
    rows: list[Print] = []
    for launch in reversed(launches):
        keys = [(x.name, x.digest, one_line(x.shown, SHOWN)) for x in launch.factors]
        if rows and len(pool.keys() | set(keys)) > MOST_POOL:
            continue
        at = tuple(pool.setdefault(key, len(pool)) for key in keys)
        unread = tuple((part, one_line(reason, SHOWN)) for part, reason in launch.unread)
        rows.append(Print(launch.digest, at, unread, launch.more, launch.less))
    return Prints(tuple(pool), tuple(reversed(rows)))
