"""
A life of an endpoint: what its counters grow by, window by window, from a seed.

Not draft by draft: a request decodes from its start to its end, each window has the part of its
drafts that falls into it, and what is accepted of those is a chain of binomials, position by
position. So drafts of one request are alike, as those of real text are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.detection import faults as f
from bench.detection import interruptions, traffic
from bench.detection.acceptance import DEPTH, sigmoid
from bench.detection.faults import Drafter, Fault
from bench.detection.interruptions import DAY
from bench.detection.mix import Mix
from bench.detection.streams import Bools, Floats, Ints, Purpose, Streams

PROFILES: Final = ("idle", "medium", "busy")
STEP_NOISE: Final = 0.03
"""By how much the step time of a window differs from the next one's, as a share."""


@dataclass(frozen=True)
class Setting:
    """
    What kind of life. `sd` of requests of one category, in logits; `jitter` of the engines'
    mixes, in logits; `interval` between scrapes in seconds. Traffic is that of each engine.
    """

    profile: str = "idle"
    sd: float = 0.45
    odd_per_year: float = 6.0
    engines: int = 1
    jitter: float = 0.0
    interval: float = 15.0

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise ValueError(f'no profile "{self.profile}": one of {", ".join(PROFILES)}')
        if DAY % self.interval:
            raise ValueError(f"a day is no whole number of {self.interval:g} s")

    @property
    def windows(self) -> int:
        """Windows of a day."""
        return round(DAY / self.interval)


class Day(NamedTuple):
    """
    One day: growth by engine and window, before any is lost to a failed scrape.

    `number` is the day's in the life, from 0.
    `accepted_at` has the position as a third axis. `running` and `waiting` are levels at the
    window's end. `read[w]` is False where the scrape at the end of window w fails, `down` where
    that is because the server is down. Where `restarted`, counters begin at 0 in this window.
    """

    number: int
    drafts: Floats
    accepted_at: Floats
    updates: Floats
    update_seconds: Floats
    iterations: Floats
    first_tokens: Floats
    finished: Floats
    prompt_tokens: Floats
    generated: Floats
    prefix_queries: Floats
    prefix_hits: Floats
    running: Floats
    waiting: Floats
    read: Bools
    down: Bools
    restarted: Bools

    @property
    def accepted(self) -> Floats:
        """Accepted tokens by engine and window."""
        total: Floats = self.accepted_at.sum(axis=2)
        return total


class Cells(NamedTuple):
    """
    Parts of requests that lie in one window and on one side of a fault's begin and end.

    `owner` is the request, `window` the window, `at` seconds of the day, `steps` decode updates.
    """

    owner: Ints
    window: Ints
    at: Floats
    steps: Ints


class Life:
    """`days` days of a life. Any of them can be asked for, in any order and again."""

    def __init__(self, setting: Setting, seed: int, days: int) -> None:
        self.setting, self.days = setting, days
        self._streams = Streams(seed)
        self._mix = Mix(self._streams, days, setting.odd_per_year, setting.engines, setting.jitter)

    def day(self, index: int, faults: Sequence[Fault] = ()) -> Day:
        """
        Make one day. Faults change what is accepted, and what follows from it, and nothing else.

        Requests are cut at midnight: no day depends on another one.
        """
        if not 0 <= index < self.days:
            raise IndexError(f"day {index} of a life of {self.days}")
        setting = self.setting
        cuts = interruptions.of_day(self._streams, index, setting.interval)
        engines = [self._engine(index, e, faults, cuts.downs) for e in range(setting.engines)]
        restarted = np.zeros((setting.engines, setting.windows), bool)
        down = np.zeros(setting.windows, bool)
        for first, up in cuts.downs:
            restarted[:, up] = True
            down[first:up] = True
        columns = {name: _side_by_side([e[name] for e in engines]) for name in engines[0]}
        return Day(number=index, read=cuts.read, down=down, restarted=restarted, **columns)

    def _engine(
        self, index: int, engine: int, faults: Sequence[Fault], downs: Sequence[tuple[int, int]]
    ) -> dict[str, Floats]:
        """Grow one engine's counters."""
        setting, began = self.setting, float(index * DAY)
        drafter = Drafter(setting.sd, f.of_engine(faults, engine), began)
        edges = f.edges(drafter.faults, began, DAY)
        shares = self._mix.of_day(index, engine)
        place = traffic.Place(self._streams, index, engine)
        if setting.profile == "busy":
            requests = traffic.closed_loop(place, shares, drafter, len(edges))
        else:
            rate = traffic.PER_HOUR[setting.profile]
            requests = traffic.open_loop(place, rate, shares, drafter)
        spans = [(a * setting.interval, b * setting.interval) for a, b in downs]
        requests = traffic.cut(requests, spans)
        cells = _cells(requests, setting, edges)
        grown = self._counted(requests, cells)
        noise = self._streams.of(Purpose.STEPS, index, engine).standard_normal(setting.windows)
        grown["update_seconds"] *= np.maximum(0.5, 1 + STEP_NOISE * noise)
        drafts, accepted_at = self._accepted(index, engine, drafter, requests, cells)
        grown["drafts"], grown["accepted_at"] = drafts, accepted_at
        grown["generated"] = grown["first_tokens"] + grown["updates"] + accepted_at.sum(axis=1)
        return grown

    def _counted(self, requests: traffic.Requests, cells: Cells) -> dict[str, Floats]:
        """All that does not depend on what is accepted."""
        windows, interval = self.setting.windows, self.setting.interval

        def by(window: Ints, values: npt.ArrayLike | None = None) -> Floats:
            return np.bincount(window, values, windows).astype(np.float64)

        first = (requests.starts / interval).astype(np.int64)
        last = np.minimum(requests.ends / interval, windows - 1).astype(np.int64)
        began, ended = by(first), by(last)
        running = np.cumsum(began - ended)
        engine_steps = by(cells.window, cells.steps / requests.batch[cells.owner])
        return {
            "updates": by(cells.window, cells.steps),
            "update_seconds": by(cells.window, cells.steps * requests.step[cells.owner]),
            "iterations": np.ceil(engine_steps),
            "first_tokens": began,
            "finished": by(last, requests.whole),
            "prompt_tokens": by(first, requests.prompt),
            "prefix_queries": by(first, requests.prompt),
            "prefix_hits": by(first, requests.hits),
            "running": np.minimum(running, traffic.CLIENTS),
            "waiting": np.maximum(running - traffic.CLIENTS, 0.0),
        }

    def _accepted(
        self, index: int, engine: int, drafter: Drafter, requests: traffic.Requests, cells: Cells
    ) -> tuple[Floats, Floats]:
        """Drafts by window, and those of them that had each position accepted."""
        windows = self.setting.windows
        category, shift = requests.category[cells.owner], requests.shift[cells.owner]
        first, deep, stopped = drafter.logits(cells.at, category, drafter.sd * shift)
        left = np.where(stopped, 0, cells.steps)
        drafts = np.bincount(cells.window, left, windows).astype(np.float64)
        accepted_at = np.empty((windows, DEPTH))
        kept = sigmoid(first)
        for position in range(DEPTH):
            # A stream for each, so that one which takes more numbers leaves the others alone.
            stream = self._streams.of(Purpose.ACCEPTED, index, engine, position)
            left = stream.binomial(left, kept)
            accepted_at[:, position] = np.bincount(cells.window, left, windows)
            if position == 0:
                kept = sigmoid(deep)
        return drafts, accepted_at


def _side_by_side(engines: list[Floats]) -> Floats:
    """Put the engines into the first axis; one alone is not copied."""
    return engines[0][None] if len(engines) == 1 else np.stack(engines)


def _cells(requests: traffic.Requests, setting: Setting, edges: Sequence[float]) -> Cells:
    """Split requests at the windows' ends and where faults change, in the order of time."""
    times = np.arange(setting.windows + 1) * setting.interval
    if edges:
        times = np.unique(np.concatenate((times, edges)))
    first = np.searchsorted(times, requests.starts, "right") - 1
    last = np.maximum(first, np.searchsorted(times, requests.ends, "left") - 1)
    counts = last - first + 1
    owner = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    slot = first[owner] + nth
    passed = (times[slot + 1] - requests.starts[owner]) / requests.step[owner]
    done = np.minimum(passed.astype(np.int64), requests.steps[owner])
    done = np.where(nth == counts[owner] - 1, requests.steps[owner], done)
    steps = np.diff(done, prepend=0)
    steps[nth == 0] = done[nth == 0]
    # Small whole numbers sort by radix; without a fault's edge a slot is a window.
    order = np.argsort(slot.astype(np.uint16 if len(times) < 65_536 else np.int64), kind="stable")
    slot, owner = slot[order], owner[order]
    window = (times[slot] / setting.interval).astype(np.int64)
    at = np.maximum(times[slot], requests.starts[owner])
    return Cells(owner, window, at, steps[order])
