"""A life as the readings that the probe of vLLM's page would bring home."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final

import numpy as np

from bench.detection.acceptance import DEPTH
from bench.detection.interruptions import DAY
from bench.detection.life import Day, Setting
from bench.detection.streams import Floats
from watchdog.domain import series as s
from watchdog.domain.sample import Labels, Reading, Sample, labels

TARGET: Final = "sim"
MODEL: Final = "m"
PAGE: Final = "http://sim:8000/metrics"
TIMED_OUT: Final = f"{PAGE} did not answer in full before the deadline of 13.5 s"
REFUSED: Final = f"{PAGE}: Connection refused"
OLD: Final = float(DAY)
"""Seconds that the server has run when the life begins."""

_PLAIN: Final = {
    s.GENERATED_TOKENS: "generated",
    s.PROMPT_TOKENS: "prompt_tokens",
    s.FIRST_TOKENS: "first_tokens",
    s.UPDATES: "updates",
    s.UPDATE_SECONDS: "update_seconds",
    s.ITERATIONS: "iterations",
    s.FINISHED: "finished",
    s.PREFIX_QUERIES: "prefix_queries",
    s.PREFIX_HITS: "prefix_hits",
    s.DRAFTS: "drafts",
}
"""Our word of a counter, and the day's column of it."""
_POSITIONS: Final = s.POSITIONS[:DEPTH]
_ALWAYS_0: Final = (s.ABORTED, s.PREEMPTIONS)
_COUNTERS: Final = (*_PLAIN, s.DRAFT_TOKENS, s.ACCEPTED_TOKENS, *_POSITIONS, *_ALWAYS_0)
_LEVELS: Final = (s.RUNNING, s.WAITING, s.KV_USAGE, s.AWAKE)
_WORDS: Final = (*_COUNTERS, *_LEVELS)
_KV_OF_A_REQUEST: Final = 0.05

_OWN: Final = labels(target=TARGET)

_sample = partial(tuple.__new__, Sample)  # a third of the time of Sample(...)


class Feed:
    """
    Turns a life's days, in their order, into readings. `start` is added to all its seconds.

    Every draft holds DEPTH tokens. A window in which nothing moved hands out the very reading
    of the one before: nothing is built for it, and History sees at once that all is the same.
    """

    def __init__(self, setting: Setting, start: float = 0.0) -> None:
        self.setting, self.start = setting, start
        self._totals: Floats = np.zeros((setting.engines, len(_COUNTERS)))
        self._process_start = start - OLD
        self._row: Floats | None = None
        self._reading = Reading("vllm_metrics", TARGET)
        self._subjects = [(subject_of(engine),) * len(_WORDS) for engine in range(setting.engines)]
        self._values: list[list[float]] = [[] for _ in self._subjects]
        self._samples: list[tuple[Sample, ...]] = [() for _ in self._subjects]

    def readings(self, day: Day) -> Iterator[tuple[float, list[Reading]]]:
        """Give `now`, the end of a window, and what is read then, for each window of the day."""
        began, interval = self.start + day.number * DAY, self.setting.interval
        rows = self._rows(day, began)
        moved = self._moved(rows, day)
        fresh = iter(rows[moved].tolist())
        read, moves, down = day.read.tolist(), moved.tolist(), day.down.tolist()
        timed_out = Reading("vllm_metrics", TARGET, error=TIMED_OUT, answered=False)
        refused = Reading("vllm_metrics", TARGET, error=REFUSED, answered=False)
        for window in range(self.setting.windows):
            now = began + (window + 1) * interval
            if not read[window]:
                yield now, [refused if down[window] else timed_out]
                continue
            if moves[window]:
                self._reading = self._read(next(fresh))
            yield now, [self._reading]

    def _read(self, row: list[float]) -> Reading:
        """Make the page of a row; an engine that did not move keeps its samples."""
        for engine, subjects in enumerate(self._subjects):
            values = row[engine * len(_WORDS) : (engine + 1) * len(_WORDS)]
            if values != self._values[engine]:
                made = map(_sample, zip(subjects, _WORDS, values, strict=True))
                self._values[engine], self._samples[engine] = values, tuple(made)
        own = Sample(_OWN, s.PROCESS_START, row[-1])
        samples = (*chain.from_iterable(self._samples), own)
        facts = {"format": "text", "process_start": row[-1], "url": PAGE}
        return Reading("vllm_metrics", TARGET, samples, facts)

    def _rows(self, day: Day, began: float) -> Floats:
        """Every window's page as numbers, and the totals carried to the next day."""
        windows, interval = self.setting.windows, self.setting.interval
        totals = self._totals[:, None, :] + np.cumsum(_growth(day), axis=1)
        process_start = np.full((windows, 1), self._process_start)
        for window in np.flatnonzero(day.restarted[0]).tolist():
            totals[:, window:] -= totals[:, window - 1, None] if window else self._totals[:, None]
            self._process_start = began + window * interval
            process_start[window:] = self._process_start
        self._totals = totals[:, -1].copy()
        pages = np.concatenate((totals, _levels(day)), axis=2)
        flat = pages.transpose(1, 0, 2).reshape(windows, -1)
        return np.concatenate((flat, process_start), axis=1)

    def _moved(self, rows: Floats, day: Day) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which windows end with a page that differs from the last one that was read."""
        seen = np.flatnonzero(day.read)
        moved = np.zeros(len(rows), bool)
        if len(seen):
            pages = rows[seen]
            moved[seen[1:]] = (pages[1:] != pages[:-1]).any(axis=1)
            moved[seen[0]] = self._row is None or bool((pages[0] != self._row).any())
            self._row = pages[-1]
        return moved


def subject_of(engine: int) -> Labels:
    """Return the labels of an engine."""
    return labels(target=TARGET, engine=str(engine), model_name=MODEL)


def _growth(day: Day) -> Floats:
    """Growth of _COUNTERS: engine, window, counter."""
    plain = np.stack([getattr(day, column) for column in _PLAIN.values()], axis=2)
    tokens = np.stack((DEPTH * day.drafts, day.accepted), axis=2)
    never = np.zeros((*day.drafts.shape, len(_ALWAYS_0)))
    return np.concatenate((plain, tokens, day.accepted_at, never), axis=2)


def _levels(day: Day) -> Floats:
    usage, awake = _KV_OF_A_REQUEST * day.running, np.ones_like(day.running)
    return np.stack((day.running, day.waiting, usage, awake), axis=2)
