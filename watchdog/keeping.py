"""Ties the store to the rounds: it is told of each before anybody else, and asked at a start."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import structlog

from watchdog.clock import Clock
from watchdog.domain.alert import Alert, Change, Signal, State
from watchdog.domain.assess import Assessor
from watchdog.domain.memory import moment, recall, rows_of
from watchdog.domain.notice import notices
from watchdog.domain.report import Report
from watchdog.domain.sample import HOST, Labels
from watchdog.domain.trace import Point, Traces, thinned
from watchdog.store import Store
from watchdog.store_file import NAME

log = structlog.get_logger("watchdog.keeping")

CLOCK: Final = "clock"
"""The row that says when the others were kept."""

DAY: Final = 86400.0
MOST_ENGINES: Final = 50
MOST_POINTS: Final = 240
"""Bounds of what the status page draws."""


@dataclass
class Keeper:
    """
    Keeps each round of one state directory, and hands it to the next process.

    Making one takes the directory. Raises CommandError where another process has it, or its
    file is a newer program's.
    """

    directory: Path
    clock: Clock
    store: Store = field(init=False)
    _rows: dict[str, Any] = field(init=False)
    _saved_at: float = field(default=0.0, init=False)
    _traces: Traces = field(default_factory=Traces, init=False)
    _drawn: int = field(default=0, init=False)  # rounds in which stretches ended
    _curves: tuple[int, dict[Labels, list[Point]]] = field(default=(-1, {}), init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.directory / NAME)
        self._rows = self.store.open()
        mark = self._rows.pop(CLOCK, None)
        if mark is None:
            self._rows = {}
            return
        try:
            self._saved_at = moment(float(mark["now"]))
            away = self.clock.resume(mark)
            moment(self.clock.now())
        except (KeyError, TypeError, ValueError) as error:
            log.error("what was kept has no time and is not used", why=repr(error))  # noqa: TRY400
            self._rows = {}
        else:
            log.info("going on from what was kept", seconds_away=round(away, 1))

    def recall(self, assessor: Assessor) -> None:
        """Let the first assessor go on where the former process was."""
        rows, self._rows = self._rows, {}
        if not rows:
            return
        try:
            faults = recall(rows, assessor, self.clock.now(), self._saved_at)
        except Exception:  # a daemon that knows nothing watches; one that does not start is blind
            log.exception("what was kept could not be used; please report it")
            return
        for fault in faults:
            log.error("a part of what was kept is not used", what=fault)

    def keep(self, assessor: Assessor, report: Report, destinations: Sequence[str]) -> None:
        """Keep a round: what is remembered, and what each destination has to be told."""
        ended: list[tuple[Labels, Point]] = []
        for target, watch in assessor.watches.items():
            if target != HOST and watch.newest is not None:
                ended += self._traces.add(watch.newest.parts)
        engines = (watch.history.past for watch in assessor.watches.values())
        self._traces.keep(ChainMap(*engines))
        told = notices(report)
        if self.store.lost_notices:  # what waited is lost: its keys are the same when made anew
            fires = tuple(_as_begun(a) for a in report.alerts if a.state is State.FIRING)
            told = notices(replace(report, changes=(*fires, *report.changes)))
            self.store.lost_notices = False
        self.store.save(self._rows_of(assessor), told, destinations, ended, report.now)
        self._drawn += bool(ended)

    def keep_between(self, assessor: Assessor) -> None:
        """Keep what was changed between two rounds, such as a pause."""
        self.store.save(self._rows_of(assessor))

    def _rows_of(self, assessor: Assessor) -> list[tuple[str, Any]]:
        return [(CLOCK, self.clock.mark()), *rows_of(assessor)]

    def curves(self) -> dict[Labels, list[Point]]:
        """Return the last 24 hours of each engine; made when somebody looks, once a minute."""
        drawn = self._drawn
        made, curves = self._curves
        if made != drawn:
            since = self.clock.now() - DAY
            engines = self.store.engines(since, MOST_ENGINES)
            curves = {e: thinned(self.store.stretches(e, since), MOST_POINTS) for e in engines}
            self._curves = (drawn, curves)
        return curves

    def close(self) -> None:
        """Let go of the directory."""
        self.store.close()


def _as_begun(alert: Alert) -> Change:
    return Change(alert, State.PENDING, Signal.BAD_FOR_LONG)
