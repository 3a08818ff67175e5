"""
One place of a compile cache as plain facts: what lies there, its stamp, what was set aside of it.

Only looked at, never changed. What may not be read is listed with its reason, and a place that is
not there is said to be missing; an error is no "missing".
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog import cache_stamp
from watchdog.cache_beside import Aside, beside, newest
from watchdog.cache_stamp import Filled
from watchdog.cache_survey import Entry, Survey
from watchdog.cache_tree import survey
from watchdog.cache_users import mounts, place
from watchdog.domain.fingerprint import Fingerprint
from watchdog.errors import CommandError
from watchdog.regular_files import shown, why
from watchdog.rights import READ, Rights
from watchdog.rooted import inside

MOST_ENTRIES: Final = 32
MOST_UNREAD: Final = 8
MOST_ASIDE: Final = 16
MOST_STAMPED: Final = 8
"""Different launches of a stamp that are told, the newest; the rest by number."""

MOST_STAMP: Final = 128 << 10
"""Characters of all these fingerprints together; a real one has about 15,000."""

MOST_HERE: Final = 8
"""Mounts of this host that are tried for a directory of a container."""

COMPILED: Final = "torch_compile_cache"
"""All that vLLM compiles, within its root: somebody may set only that aside."""

_NOTHING: Final[Mapping[str, Any]] = {
    "id": None, "here": "", "missing": False, "files": 0, "bytes": 0, "oldest": None,
    "newest": None, "entries": [], "more": 0, "cut": "", "unread": [], "stamp": None,
    "stamp_more": 0, "stamp_fault": "", "aside": [],
}  # fmt: skip


class Seat(NamedTuple):
    """
    Whose files are looked at: a process's `/` as this host reaches it, or ours, pid None.

    `rights`: what it may read; None where that is no matter, as of what is declared.
    """

    root: Path = Path("/")
    pid: int | None = None
    proc: Path = Path("/proc")
    rights: Rights | None = None


def look(where: Mapping[str, str], seat: Seat, deadline: float) -> dict[str, Any]:
    """
    Return the facts of a place: its `kind`, `path` and `by` with what was found there.

    `id` is device and number of the directory, None where it is missing; `here` its path on this
    host, empty where that is not known; times in Unix seconds. `deadline`: of `time.monotonic()`.
    """
    told: dict[str, Any] = {**where, **_NOTHING}
    real = seat.root
    try:
        real = inside(seat.root, where["path"], seat.rights)
        known = os.stat(real, follow_symlinks=False)  # noqa: PTH116  (links are resolved already)
    except (FileNotFoundError, NotADirectoryError):
        told["missing"] = True
        found, cut = _beside(real, seat, deadline)
        told["unread"] = [["..", cut]] if cut else []
        return {**told, "aside": _rows(found)}
    except OSError as error:
        return {**told, "unread": [[".", why(error)]]}
    told["id"] = _identity(known)
    if not stat.S_ISDIR(known.st_mode):
        return {**told, "unread": [[".", "is no directory"]]}
    here = _here(real, seat, known)
    told["here"] = shown(here, 400) if here is not None else ""
    seen = survey(real, deadline, follow=False, seat=(seat.root, seat.rights))
    told |= _of_survey(seen, real)
    told |= _of_stamp(real)
    found, cut = _asides(real, here, seen, seat, deadline)
    faults = [*seen.unread, *([("..", cut)] if cut else [])]
    return {**told, "aside": _rows(found), "unread": _listed(faults)}


def identity_of(directory: Path) -> str | None:
    """Return which directory of this host a path leads to; None where it cannot be told."""
    try:
        return _identity(directory.stat())
    except OSError:
        return None


def _identity(known: os.stat_result) -> str:
    return f"{known.st_dev}:{known.st_ino}"


def _listed(faults: list[tuple[str, str]]) -> list[list[str]]:
    rows = [list(row) for row in faults[:MOST_UNREAD]]
    if len(faults) > MOST_UNREAD:
        rows[-1] = ["...", f"{len(faults) - MOST_UNREAD + 1} more could not be looked at"]
    return rows


def _rows(found: list[Aside]) -> list[dict[str, Any]]:
    return [one.as_dict() for one in found]


# --- what lies there -----------------------------------------------------------------------------


def _of_survey(seen: Survey, root: Path) -> dict[str, Any]:
    entries = sorted(seen.layouts, key=lambda e: (e.newest is None, -(e.newest or 0.0)))
    return {
        "files": seen.files,
        "bytes": seen.bytes,
        "oldest": seen.oldest,
        "newest": seen.newest,
        "entries": [_entry(entry, root) for entry in entries[:MOST_ENTRIES]],
        "more": max(0, len(entries) - MOST_ENTRIES),
        "cut": seen.cut,
    }


def _entry(entry: Entry, root: Path) -> dict[str, Any]:
    """Return one cache as plain data; the hashes of each part stay out, they are many."""
    told = entry.as_dict()
    factors = dict(told["factors"])
    parts = sorted(factors.pop("parts", {}))
    return {
        **told,
        "path": shown(os.path.relpath(entry.path, root), 400),
        "parts": parts,
        "factors": factors,
    }


# --- the stamp -----------------------------------------------------------------------------------


def _of_stamp(root: Path) -> dict[str, Any]:
    try:
        stamp = cache_stamp.read(root)
        if stamp is None:
            return {}
        rows = _different(stamp.entries)
    except CommandError as error:
        return {"stamp_fault": str(error).removeprefix(f"{root}/")}
    except ValueError as error:
        return {"stamp_fault": f"{cache_stamp.NAME} has a fingerprint that is none: {error}"}
    kept, left = [], MOST_STAMP
    for row in reversed(rows[-MOST_STAMPED:]):
        left -= len(json.dumps(row))
        if left < 0:
            break
        kept.append(row)
    told = {"stamp": kept[::-1], "stamp_more": len(rows) - len(kept)}
    return told if kept or not rows else {"stamp_fault": "its newest fingerprint is too long"}


def _different(entries: tuple[Filled, ...]) -> list[dict[str, Any]]:
    """
    Return the entries, of each fingerprint the newest one, oldest first.

    Raises ValueError of a fingerprint that cannot be read.
    """
    newest_of: dict[str, dict[str, Any]] = {}
    for entry in entries:
        found = Fingerprint.from_dict(entry.fingerprint)
        newest_of.pop(found.digest, None)
        row = {"fingerprint": found.as_dict(), "at": entry.at, "start": entry.start}
        newest_of[found.digest] = row
    return list(newest_of.values())


# --- what was set aside --------------------------------------------------------------------------


def _asides(
    real: Path, here: Path | None, seen: Survey, seat: Seat, deadline: float
) -> tuple[list[Aside], str]:
    """
    Return copies beside the directory, also those that only this host sees.

    A container has the directory mounted and nothing beside it. In vLLM's root one of all that was
    compiled counts, too.
    """
    found, cut = _beside(real, seat, deadline)
    if here is not None and here != real:
        more, fault = _beside(here, seat, deadline)
        found, cut = [*found, *more], cut or fault
    inner = newest(seen.aside, COMPILED)
    every = sorted({*found, *inner}, key=lambda one: (-one.at, one.name))
    return every[:MOST_ASIDE], cut


def _beside(directory: Path, seat: Seat, deadline: float) -> tuple[list[Aside], str]:
    """Look beside a directory, where its user could."""
    if seat.rights is not None:
        try:
            seat.rights.demand(directory.parent, READ)
        except FileNotFoundError:
            pass  # then nothing is beside it
        except OSError as error:
            return [], f"the directory above {why(error)}"
    return beside(directory, deadline)


def _here(real: Path, seat: Seat, known: os.stat_result) -> Path | None:
    """
    Return a directory's path on this host; None where nothing here is the same directory.

    Of several the one that the server has, too, and before a mount point one that is none: only
    that can be renamed.
    """
    if seat.pid is None:
        return real
    name = f"/{real.relative_to(seat.root)}"
    device, inside = place(name, mounts(seat.proc, seat.pid))
    own, found = mounts(seat.proc, "self"), []
    for mount in own:
        top = mount.root.rstrip("/")
        if mount.device == device and (inside == mount.root or inside.startswith(f"{top}/")):
            found.append(Path(f"{mount.point.rstrip('/')}{inside[len(top) :]}" or "/"))
    points = {mount.point for mount in own}
    found.sort(key=lambda path: (str(path) != name, str(path) in points, len(str(path))))
    return next((path for path in found[:MOST_HERE] if _is_directory(path, known)), None)


def _is_directory(path: Path, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), known)
    except OSError:
        return False
