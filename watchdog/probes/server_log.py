"""
What the target's server said of its compile cache at its start, where its log is given.

The log is a file of this host: of a container, the file that its log is written to. It is read
when a process is new, once more a minute later, since lines may come late, and then seldom and
only where it changed. A start that is older than the process is not laid to it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from watchdog import start_log
from watchdog.domain.sample import Facts, Reading
from watchdog.domain.starts import start_in
from watchdog.regular_files import shown, why

AGAIN: Final = 60.0
EVERY: Final = 300.0
"""Seconds after which a log is read once more, and then looked at."""

MOST_SHOWN: Final = 240
CARRIED: Final = ("log", "log_unknown", "log_asked", "log_start", "log_seen", "log_reads")


@dataclass(frozen=True)
class ServerLog:
    """`path` is the log of the target's server."""

    target: str
    path: Path
    name: str = "server_log"
    slot: str = ""

    def at_once(self, known: Facts) -> Reading | None:
        """Return what needs no look at the file: nothing, or what was read not long ago."""
        if not known or not known.get("answered", True):  # before it answers, its start goes on
            return Reading(self.name, self.target)
        asked, reads = known.get("log_asked"), known.get("log_reads")
        if known.get("log_start") != start_in(known) or not isinstance(asked, float):
            return None
        age = time.monotonic() - asked
        return self._carried(known) if 0 <= age < (AGAIN if reads == 1 else EVERY) else None

    def read(self, known: Facts, deadline: float) -> Reading:
        """
        Return what the log says; `deadline` in monotonic seconds.

        `log`: what its last start says (see `start_log`), or `log_unknown`, the reason.
        """
        reading = self.at_once(known)
        if reading is not None:
            return reading
        start = start_in(known)
        same = "log_asked" in known and known.get("log_start") == start
        if same and known.get("log_reads") != 1 and known.get("log_seen") == self._seen():
            return self._carried({**known, "log_asked": time.monotonic()})
        told = self._told(start, deadline)
        if same and _began(known) and not _began(told):  # rotated away, or grown beyond the bound
            told = {"log": known["log"], "log_seen": told["log_seen"]}
        asked = {"log_asked": time.monotonic(), "log_start": start, "log_reads": 2 if same else 1}
        return Reading(self.name, self.target, facts={**told, **asked})

    def close(self) -> None:
        """Nothing blocks for long: a file is read in blocks, and each looks at the clock."""

    def _told(self, start: float | None, deadline: float) -> dict[str, object]:
        place = shown(self.path, MOST_SHOWN)
        seen = self._seen()
        try:
            found = start_log.read(self.path, deadline)
        except OSError as error:
            return {"log_unknown": f"{place} {why(error)}", "log_seen": seen}
        old = "" if start is None else found.older_than(start)
        if old:
            return {"log_unknown": f"{place}: {old}", "log_seen": seen}
        return {"log": found.facts, "log_seen": list(found.seen)}

    def _seen(self) -> list[int] | None:
        """Return the file's inode and size, by which a change shows."""
        try:
            known = self.path.stat()
        except OSError:
            return None
        return [known.st_ino, known.st_size]

    def _carried(self, known: Facts) -> Reading:
        facts = {key: known[key] for key in CARRIED if key in known}
        return Reading(self.name, self.target, facts=facts)


def _began(facts: Facts) -> bool:
    log: Any = facts.get("log")
    return bool(log and log.get("began"))
