"""
Whether a launch may use a cache directory, by the stamp in it alone: needs no daemon, no store.

Safe is a directory without files, or one that nothing but the same fingerprint filled. What
cannot be told is no "safe": then the answer is `unknown`, with what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from watchdog import cache_stamp
from watchdog.cache_stamp import NAME, Filled, Stamp
from watchdog.domain.cache_commands import set_aside
from watchdog.domain.fingerprint import Comparison, Fingerprint, as_blind, compare
from watchdog.errors import CommandError

SAFE: Final = 0
STALE: Final = 2
UNKNOWN: Final = 3

_IGNORED: Final = {
    "model": "model *", "drafter": "drafter *", "versions": "version *", "gpu": "gpu *",
}  # fmt: skip
"""What not to count where a part of the launch cannot be read before it starts, by first word."""

SAME: Final = "none but this launch filled it"


class Answer(NamedTuple):
    """`code` as the command exits, what is so in words, and what to do (empty where nothing)."""

    code: int
    words: str
    next_step: str = ""


def judged(directory: Path, now: Fingerprint) -> Answer:
    """Say whether this launch may use a directory. Raises CommandError where it is unreadable."""
    if not holds_files(directory):
        return Answer(SAFE, f"{directory} holds nothing yet")
    stamp = _stamp(directory)
    if stamp is None or not stamp.entries:
        return Answer(
            UNKNOWN, f"{directory} has files, and no stamp says which launch made them",
            f"{set_aside_line(directory)}; or, if this launch did, `watchdog cache stamp`",
        )  # fmt: skip
    changed, unknown = [], []
    for entry in reversed(stamp.entries):  # the newest first
        was = _fingerprint(directory, entry)
        difference = told_alike(was, now)
        if difference.changed:
            changed.append(f"filled {entry.at} by another launch: {difference.words()}")
        elif difference.unknown:
            unknown.append(difference.words())
    if changed:
        more = f" (and {len(changed) - 1} more)" if changed[1:] else ""
        return Answer(STALE, f"{directory} was {changed[0]}{more}", set_aside_line(directory))
    if unknown:
        return Answer(UNKNOWN, f"{directory}: {unknown[0]}", _after_unknown(directory, now))
    return Answer(SAFE, f"{directory} was filled by this launch alone, {now.digest}")


def _after_unknown(directory: Path, now: Fingerprint) -> str:
    """Say what would decide: of a launch that is not whole itself no stamp would say more."""
    if not now.partial:
        return f"{set_aside_line(directory)}; or, if {SAME}, `watchdog cache stamp --same`"
    parts = [part for part, _ in now.unread]
    if parts == ["versions"]:
        return (
            "name the Python that it starts in the launch's words; or let no version count, with "
            "--ignore 'version *' for `stamp` and `verify` alike"
        )
    names = dict.fromkeys(_IGNORED.get(part.partition(" ")[0], "") for part in parts)
    if "" in names:
        return f"{set_aside_line(directory)}; this host cannot tell more of the launch by its words"
    ignored = " ".join(f"--ignore '{name}'" for name in names)
    return (
        f"name what it starts by paths that this host can read; or let it not count, with "
        f"{ignored} for `stamp` and `verify` alike"
    )


def stamped(directory: Path, found: Fingerprint, now: datetime, *, same: bool = False) -> str:
    """
    Note that this fingerprint fills a directory from now on, and make it where it is missing.

    `same`: somebody knows that entries of which no difference is known are of this launch too;
    they were made when less was read, or counted. Return what to know about it, empty where
    nothing. Raises CommandError.
    """
    had_files = holds_files(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)  # `cache key` names one in a folder to come
    except OSError as error:
        raise CommandError(f"{directory} cannot be made: {_reason(error)}") from None
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    with cache_stamp.turn(directory):
        # Before the first file, what an earlier launch announced did not happen.
        before = _stamp(directory) if had_files else None
        old = before or Stamp()
        if same:
            old = replace(old, entries=tuple(
                entry for entry in old.entries
                if told_alike(_fingerprint(directory, entry), found).changed
            ))  # fmt: skip
        stamp = old.added(Filled(found.as_dict(), at, now.timestamp()))
        cache_stamp.write(directory, stamp)
    if had_files and before is None:
        return "it had files before; that this launch made them is taken for granted"
    filled = [_fingerprint(directory, entry) for entry in stamp.entries]
    others = {was.digest for was in filled if not compare(was, found).same} - {found.digest}
    if others:
        return f"{len(others)} other launch(es) filled it before; {set_aside_line(directory)}"
    return ""


def holds_files(directory: Path) -> bool:
    """Whether a directory is there and has more than a stamp. Raises CommandError."""
    try:
        with os.scandir(directory) as entries:
            return any(not entry.name.startswith(NAME) for entry in entries)
    except FileNotFoundError:
        if directory.is_symlink():
            raise CommandError(f"{directory} is a link that leads nowhere") from None
        return False
    except OSError as error:
        raise CommandError(
            f"{directory} cannot be looked into: {_reason(error)}; name the cache directory, "
            f"as a user who may read it"
        ) from None


def told_alike(was: Fingerprint, now: Fingerprint) -> Comparison:
    """Compare two launches; what only one of both could tell of itself is unknown, no change."""
    return compare(as_blind(now, was), as_blind(was, now))


def set_aside_line(directory: Path) -> str:
    """Return the command that makes the next start a cold one."""
    return set_aside(str(directory))


def unread_words(parts: Sequence[tuple[str, str]]) -> str:
    """Say what a fingerprint lacks."""
    return "; ".join(f"{part}: {why}" for part, why in parts)


def _stamp(directory: Path) -> Stamp | None:
    try:
        return cache_stamp.read(directory)
    except CommandError as error:
        raise CommandError(f"{error}; {set_aside_line(directory)}") from None


def _fingerprint(directory: Path, entry: Filled) -> Fingerprint:
    try:
        return Fingerprint.from_dict(entry.fingerprint)
    except ValueError as error:
        raise CommandError(
            f"the stamp in {directory} has a fingerprint that cannot be read: {error}; "
            f"{set_aside_line(directory)}"
        ) from None


def _reason(error: OSError) -> str:
    return (error.strerror or "?").lower()
