"""
What is kept of a target's cache from round to round, and which start is the present one.

Most rounds are like the one before: then the state is the same object.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.history import Window
from watchdog.domain.ledger import Place
from watchdog.domain.ledger_verdict import Judged
from watchdog.domain.prints import Prints
from watchdog.domain.starts import MOST, REPLACED, Owed, Start, near

SILENT_EVERY: Final = 20.0
"""Seconds between two notes that the server is still silent: each is a write to the store."""


class State(NamedTuple):
    """
    What is known of one target; the newest start is the last one.

    `judged` and `said` are about the newest start, with the facts of which `key` is made; none
    yet while it is being looked at. `silent_at`: when it was last noted that nothing answers.
    `here`: whether a probe of this host ever told of its cache.
    """

    starts: tuple[Start, ...] = ()
    silent_at: float | None = None
    places: tuple[Place, ...] = ()
    prints: Prints = Prints()
    judged: tuple[Judged, ...] = ()
    owed: tuple[Owed, ...] = ()
    asked: float | None = None
    key: str = ""
    blind: str = ""  # why the newest start is not judged
    here: bool = False

    @property
    def now(self) -> Start | None:
        """The newest start."""
        return self.starts[-1] if self.starts else None

    @property
    def before(self) -> Start | None:
        """The start before the newest one, where it is known."""
        return self.starts[-2] if len(self.starts) > 1 else None

    def with_now(self, start: Start) -> State:
        """Know more of the newest start."""
        return self._replace(starts=(*self.starts[:-1], start))


def is_read(window: Window) -> bool:
    """Whether the page was read in this round."""
    return bool(window.parts) or any(reading.samples for reading in window.readings)


def start_of(window: Window) -> float | None:
    """Return the start of the process that the page is of, in Unix seconds."""
    if not is_read(window):
        return None
    told = window.levels.get(s.PROCESS_START)
    if told is not None:
        return told
    launch = window.facts.get("launch")
    started = launch.get("started_at") if isinstance(launch, dict) else None
    return float(started) if isinstance(started, (int, float)) else None


def followed(state: State, window: Window, now: float) -> State:
    """Note silence, and a new process."""
    if not is_read(window):
        if not window.readings:  # a recorded folder may lack a source in one snapshot
            return state
        quiet = state.silent_at is not None and now - state.silent_at < SILENT_EVERY
        return state if quiet else state._replace(silent_at=now)
    start = start_of(window)
    # Two processes that answer in turn behind one address are not one that starts again and again.
    if start is None or any(near(one.start, start) for one in state.starts):
        return state if state.silent_at is None else state._replace(silent_at=None)
    least = most = None
    if state.starts or state.silent_at is not None:
        most = max(0.0, now - start)
        least = 0.0 if state.silent_at is None else min(most, max(0.0, state.silent_at - start))
    fresh = Start(start, now, least, most)
    owed = tuple(o for o in state.owed if o.verdict == "warm" and o.name != REPLACED)
    return state._replace(
        starts=(*state.starts, fresh)[-MOST:], silent_at=None, judged=(), owed=owed, asked=None,
        key="", blind="",
    )  # fmt: skip
