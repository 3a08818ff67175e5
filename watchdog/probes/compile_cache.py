"""
What lies in the compile caches of a target's server: how old, whose, and what was set aside.

Where they are is told by the server's own process (the fact `launch` of the last round), or by the
configuration where that may not be read: what is declared is a claim, and counts only where
nothing better is known. The files are reached as the server sees them, through its own `/`.

A look at many files costs time, so it is made when the server's process is another one, once more
a minute later, since some kernels are compiled at the first requests, and then seldom; and never
for more than a fiftieth of the time. In between it is carried over.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from watchdog import processes as p
from watchdog.cache_look import Seat, identity_of, look
from watchdog.domain.sample import Facts, Reading
from watchdog.domain.starts import start_in
from watchdog.rights import rights_of

EVERY: Final = 300.0
"""Seconds between two looks at the files of one process."""

AGAIN: Final = 60.0
"""Seconds from the first look at those of a new process to the second."""

SHARE: Final = 0.02
"""Of the time, at most, that is spent on looking."""

MOST: Final = 8
"""Places that are looked at."""

CARRIED: Final = ("cache", "cache_looked")
_OWN_PLACE: Final = frozenset({"triton", "aiter", "inductor"})


@dataclass(frozen=True)
class CompileCache:
    """`directory` is declared, a path of this host; for targets of this host only."""

    target: str
    directory: Path | None = None
    proc: Path = Path("/proc")
    name: str = "compile_cache"
    slot: str = ""

    def at_once(self, known: Facts) -> Reading | None:
        """Return what needs no look at files: nothing, or what was found not long ago."""
        if not known.get("answered", True) or not self._is_told(known):
            return Reading(self.name, self.target)
        carried = {key: known[key] for key in CARRIED if key in known}
        if len(carried) < len(CARRIED):
            return None if _of_now(known) else Reading(self.name, self.target)
        looked: Any = known["cache_looked"]
        now = time.monotonic()
        if not _of_now(known) or now < looked["free"]:
            return Reading(self.name, self.target, facts=carried)
        if looked["basis"] == _basis(known) and now < looked["due"]:
            return Reading(self.name, self.target, facts=carried)
        return None

    def read(self, known: Facts, deadline: float) -> Reading:
        """
        Return the fact `cache`: what lies in each place of the server, see `cache_look`.

        `asked` and `start` (of the process) in Unix seconds, `unknown` the reason where no place
        is known, `note` what speaks against the configuration. `deadline` in monotonic seconds.
        """
        reading = self.at_once(known)
        if reading is not None:
            return reading
        began = time.monotonic()
        cache = self._looked(known, deadline)
        now, basis = time.monotonic(), _basis(known)
        before: Any = known.get("cache_looked")
        first = before is None or before["basis"] != basis
        looked = {
            "basis": basis,
            "due": now + (AGAIN if first else EVERY),
            "free": now + (now - began) / SHARE,
        }
        return Reading(self.name, self.target, facts={"cache": cache, "cache_looked": looked})

    def close(self) -> None:
        """Nothing that can be broken: who hangs on a disk is not asked again until it is back."""

    def _is_told(self, known: Facts) -> bool:
        """Whether the launch was asked for, or what was found before can be carried over."""
        return "launch" in known or "launch_unknown" in known or "cache" in known

    def _looked(self, known: Facts, deadline: float) -> dict[str, Any]:
        launch: Any = known.get("launch") or {}
        seat = _seat(launch, self.proc)
        named = list(launch.get("caches") or ())[:MOST]
        places, ended = _places(named, seat, deadline), ""
        if seat.pid is not None and not _is_same(launch, self.proc):
            # These were nobody's files, or those of another process with its number.
            places, ended = [], f"process {seat.pid} ended meanwhile"
        places = [one for one in places if not _is_unused(one)]
        claimed, note = self._claimed(places, deadline)
        told = {"asked": time.time(), "start": start_in(known), "unknown": "", "note": note}
        places = [*claimed, *places]
        if not places:
            told["unknown"] = ended or _why_unknown(known, launch)
        return {**told, "places": places}

    def _claimed(
        self, places: Sequence[Mapping[str, Any]], deadline: float
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the declared place where no better is known; else what speaks against it."""
        if self.directory is None:
            return [], ""
        path = str(self.directory)
        known = next((one for one in places if one["kind"] == "vllm"), None)
        if known is None:
            claim = {"kind": "vllm", "path": path, "by": "configuration"}
            return [look(claim, Seat(proc=self.proc), deadline)], ""
        same = known["id"] is not None and known["id"] == identity_of(self.directory)
        if same or path in (known["path"], known["here"]):
            return [], ""
        return [], (
            f"cache.directory is {path} in the configuration, and the server uses "
            f"{known['path']} ({known['by']}): that one counts"
        )


def _places(
    named: Sequence[Mapping[str, str]], seat: Seat, deadline: float
) -> list[dict[str, Any]]:
    """Look at each; vLLM's own is the first and may take half of the time, the next half of it."""
    found = []
    for i, one in enumerate(named):
        left = deadline - time.monotonic()
        last = i == len(named) - 1
        found.append(look(one, seat, deadline if last else deadline - left / 2))
    return found


def _basis(known: Facts) -> list[Any]:
    """Return what a look was made for: another start, process or list of places is another."""
    launch: Any = known.get("launch") or {}
    paths = [one["path"] for one in launch.get("caches") or ()]
    return [start_in(known), launch.get("pid"), *paths[:MOST]]


def _of_now(known: Facts) -> bool:
    """Whether the launch that is known is that of the process which the page tells of now."""
    told = "launch" in known or "launch_unknown" in known
    return told and known.get("process_start") == known.get("gpus_start")


def _seat(launch: Mapping[str, Any], proc: Path) -> Seat:
    root, pid = launch.get("root"), launch.get("pid")
    rights = rights_of(proc, pid) if isinstance(pid, int) else None
    if root and isinstance(pid, int):
        return Seat(Path(root), pid, proc, rights)
    return Seat(proc=proc, rights=rights)


def _is_same(launch: Mapping[str, Any], proc: Path) -> bool:
    """Whether the process is still the one that the launch was read of; numbers are used again."""
    at = launch.get("started_at")
    with contextlib.suppress(OSError, ValueError):
        began = p.started(proc, launch["pid"])
        return at is None or abs(began - at) < 1.0
    return False


def _is_unused(one: Mapping[str, Any]) -> bool:
    """Whether it is a place that a library would use by default, and this server does not."""
    by_default = one["by"] == "default" and one["kind"] in _OWN_PLACE
    return by_default and one["missing"] and not one["aside"] and not one["unread"]


def _why_unknown(known: Facts, launch: Mapping[str, Any]) -> str:
    unread = launch.get("unread") or {}
    reasons = (known.get("launch_unknown"), unread.get("caches"), unread.get("argv"))
    return next((str(reason) for reason in reasons if reason), "no place of a cache was told")
