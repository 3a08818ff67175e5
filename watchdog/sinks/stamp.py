"""
The stamp sink: notes in a cache directory which launch was seen to fill it.

The store knows the same, but stays on this host; a stamp goes where the directory goes, and
`cache verify` reads it without a daemon. Only what was seen is written: a launch that compiled for
itself. What launchers noted stays (see cache_stamping).

A stamp that may not be written is no failure of a notification: it is told once in the log, and by
`cache show`. A directory may lie on a network share that hangs, so writing has its own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from watchdog.cache_stamping import Fill, Fills, stamped
from watchdog.domain.finding import Finding
from watchdog.domain.fingerprint import Fingerprint
from watchdog.domain.report import Delivery, Report
from watchdog.domain.starts import NEAR, near

log = structlog.get_logger("watchdog.sinks.stamp")

NAME: Final = "stamp"
CHECK: Final = "compile_cache"
ALERT: Final = "CompileCacheStale"
"""The check that says who filled a place, its finding that does, and the probe of that name."""

LAUNCH: Final = "launch"

AGAIN: Final = 3600.0
"""Seconds after which a stamp is looked at again: it may be written to by now, or be gone."""

UNDER_WAY: Final = "is being written"


@dataclass
class StampSink:
    """`told`: what became of the stamp of each place, in words, by target and path."""

    name: str = field(default=NAME, init=False)
    told: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    _seen: dict[str, tuple[Any, ...]] = field(default_factory=dict, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def send(self, report: Report, deadline: float) -> list[Delivery]:  # noqa: ARG002
        """Begin to write what is new; nobody is told of anything, so nothing is delivered."""
        if self._thread is not None and self._thread.is_alive():
            return []
        due: list[Fills] = []
        for finding in report.findings:
            if (finding.check, finding.alertname) == (CHECK, ALERT) and self._is_new(
                finding, report
            ):
                due += self._due(fills_of(finding, report))
        if due:
            self._thread = threading.Thread(target=self._write, args=(due,), name=NAME, daemon=True)
            self._thread.start()
        return []

    def _due(self, found: Iterable[Fills]) -> Iterator[Fills]:
        """Leave out where nobody was seen; what was told of a directory there before is over."""
        for fills in found:
            if fills.seen:
                yield fills
            else:
                self.told.pop((fills.target, fills.path), None)

    def wait(self, seconds: float) -> None:
        """Wait for the writing that is under way."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """Let what is being written come to its end, but not for long."""
        self.wait(1.0)

    def _is_new(self, finding: Finding, report: Report) -> bool:
        """Whether its files were looked at since the last time, or an hour is over."""
        target = dict(finding.subject).get("target", "")
        this = (_cache(report, target).get("asked"), report.now // AGAIN)
        if self._seen.get(target) == this:
            return False
        self._seen[target] = this
        return True

    def _write(self, due: list[Fills]) -> None:
        for fills in due:
            about = (fills.target, fills.path)
            before = self.told.get(about, "")
            self.told[about] = UNDER_WAY
            try:
                words, written = stamped(fills)
            except Exception as bug:
                log.exception("stamping crashed; please report it")
                words, written = f"our own fault: {type(bug).__name__}: {bug}", False
            self.told[about] = words
            if words != before:
                done = "a cache is stamped" if written else "a cache is not stamped anew"
                log.info(done, target=fills.target, directory=fills.path, stamp=words)


def fills_of(finding: Finding, report: Report) -> Iterator[Fills]:
    """Find what the running launch did in each place, with what the newest look at it says."""
    target = dict(finding.subject).get("target", "")
    facts = _facts(report, LAUNCH, target)
    launch, found = facts.get("launch"), _fingerprint(facts.get("launch_fingerprint"))
    if not isinstance(launch, Mapping) or found is None:
        return
    places = {str(one.get("path")): one for one in _rows(_cache(report, target).get("places"))}
    for row in _rows(finding.argument.evidence.get("ledger")):
        place, start = places.get(str(row.get("path")), {}), row.get("start")
        if not isinstance(row.get("id"), str) or row["id"] != place.get("id"):
            continue
        if not isinstance(start, (int, float)) or not near(launch.get("started_at"), start, NEAR):
            continue  # what is known of the launch is of another process than the check's
        fill = Fill(found, report.wall(report.now), float(start))
        seen = (fill,) if row.get("compiled") is True else ()
        yield Fills(
            target, str(row["path"]), str(place.get("kind")), str(place.get("here") or ""),
            row["id"], bool(launch.get("container")), _pid(launch), seen,
        )  # fmt: skip


# --- what the report has -------------------------------------------------------------------------


def _facts(report: Report, probe: str, target: str) -> Mapping[str, Any]:
    for reading in report.readings:
        if reading.probe == probe and reading.target == target:
            return reading.facts
    return {}


def _fingerprint(data: Any) -> Fingerprint | None:
    try:
        return None if data is None else Fingerprint.from_dict(data)
    except ValueError:
        return None


def _pid(launch: Mapping[str, Any]) -> int:
    """Return the server's process; 0, which is none, where it is not told."""
    pid = launch.get("pid")
    return pid if isinstance(pid, int) and pid > 0 else 0


def _cache(report: Report, target: str) -> Mapping[str, Any]:
    cache = _facts(report, CHECK, target).get("cache")
    return cache if isinstance(cache, Mapping) else {}


def _rows(rows: Any) -> list[Mapping[str, Any]]:
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
