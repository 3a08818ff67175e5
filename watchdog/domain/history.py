"""
Readings to windows: what grew since the last reading of the same life, and what did not.

Theory of operation. A counter means something only as a difference inside one *life* of its
process. A life ends when any counter of the subject falls, or when the page's process start or
the counters' birth time changes; the window in which that happens has no growth at all, since
no one can say how much of it belongs to which life. A missed reading makes the next window
longer and marks it as a gap; growth still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from watchdog.domain import series as s
from watchdog.domain.acceptance import NOTHING, Decode, decode_of
from watchdog.domain.finding import Verdict
from watchdog.domain.once import once
from watchdog.domain.profile import NOTHING_DECLARED, Profile
from watchdog.domain.sample import HOST, NO_FACTS, Facts, Labels, Reading, Sample, labels

GONE_AFTER: Final = 3600.0
"""Seconds that a subject may be missing from pages that were read before it is gone for good."""

MOST_SUBJECTS: Final = 2048
"""Subjects kept for one target; beyond it the one seen longest ago is forgotten."""

_NOTHING: Mapping[str, float] = MappingProxyType({})
_NO_DOUBTS: Mapping[str, Verdict] = MappingProxyType({})


@dataclass(eq=False)
class Window:
    """
    One subject between two readings of one life.

    `seconds` is None at the first reading of a life: nothing can have grown. `grown` holds the
    increase of each counter (nothing where the page is the same as before), `levels` the newest
    value of each series, `before` those at the window's start. `reset`: this subject was known,
    and began a new life here. `gap`: readings were missed inside. `still`: none was, and the page
    is the one from before, so nothing grew and no level is another. A target's window has its
    engines' windows in `parts`, the host's those of its GPUs; `readings` are this round's of a
    target, of the host or of a GPU, and `facts` theirs, merged. `doubts` are the alertnames that
    checks before this one found not OK for the subject in this round, with their verdicts;
    `doubted` are all of the last round that had the subject, for a check that is asked early.
    """

    subject: Labels
    ended: float
    seconds: float | None = None
    grown: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    levels: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    before: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    reset: bool = False
    gap: bool = False
    still: bool = False
    profile: Profile = NOTHING_DECLARED
    facts: Facts = field(default_factory=lambda: NO_FACTS)
    readings: tuple[Reading, ...] = ()
    parts: tuple[Window, ...] = ()
    doubts: Mapping[str, Verdict] = field(default_factory=lambda: _NO_DOUBTS)
    doubted: Mapping[str, Verdict] = field(default_factory=lambda: _NO_DOUBTS)

    @once
    def decode(self) -> Decode:
        """The growth of an engine's window as one value; nothing at the first reading."""
        if self.seconds is None:
            return NOTHING
        if not self.moved:
            return _idle(self.seconds)
        running = self.before.get(s.RUNNING, 0.0)
        return decode_of(self.grown, running, self.seconds, self.profile.icc)

    @once
    def moved(self) -> bool:
        """Whether any counter grew: most windows of most engines are idle."""
        return bool(self.grown) and any(self.grown.values())

    @once
    def depth(self) -> int:
        """Draft positions on the page: vLLM's num_speculative_tokens. 0 where it has none."""
        depth = 0
        while depth < s.MOST_POSITIONS and s.POSITIONS[depth] in self.levels:
            depth += 1
        return depth

    @property
    def speculates(self) -> bool:
        """Whether the page has the series of speculative decoding at all."""
        return s.DRAFTS in self.levels

    @property
    def speculation_off(self) -> bool:
        """Whether the page shows that it is off: only the Rust frontend makes its series later."""
        return not self.speculates and self.facts.get("format") != "openmetrics"


@dataclass(slots=True)
class Past:
    """The last reading of one subject: all that the next one is compared with."""

    at: float
    levels: dict[str, float]  # the last value of every series of this life
    newest: dict[str, float]  # those of the last page alone
    birth: tuple[float | None, float | None]
    missed: bool = False


Groups = dict[Labels, dict[str, float]]


@dataclass
class History:
    """
    The last reading of every subject of one target, or of this host and its GPUs (HOST).

    `gap_after` seconds between two readings count as a gap even if none failed in between.
    """

    target: str
    profile: Profile = NOTHING_DECLARED
    gap_after: float = float("inf")
    past: dict[Labels, Past] = field(default_factory=dict)
    _read_at: float | None = None
    _batches: list[tuple[Sample, ...]] = field(default_factory=list)
    _groups: Groups = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.subject: Labels = () if self.target == HOST else labels(target=self.target)

    @property
    def read_at(self) -> float | None:
        """When the target's page was read last; None for never, or not that anybody knows."""
        if self._read_at is None:  # carries on from what was kept
            return max((past.at for past in self.past.values()), default=None)
        return self._read_at

    def add(self, readings: Sequence[Reading], now: float) -> Window:
        """Take one round's readings of the target; its engines' windows are the `parts`."""
        groups = self._grouped([reading.samples for reading in readings])
        census = self.target == HOST and any("gpus" in r.facts for r in readings)
        if groups or census:  # another probe's failure makes no page unread
            self._read_at = now
        if len(groups) < len(self.past):
            for about, past in self.past.items():
                past.missed = past.missed or about not in groups
        own = groups.get(self.subject, {})
        start = own.get(s.PROCESS_START)
        whole = self._window(self.subject, own, start, now)
        whole.readings = tuple([r for r in readings if not r.slot])
        whole.facts = _facts(whole.readings)
        parts = [
            self._window(about, levels, start, now)
            for about, levels in groups.items()
            if about != self.subject
        ]
        for part in parts:
            part.facts = whole.facts
        if len(whole.readings) < len(readings):
            parts = self._with_slots(parts, readings, whole)
        whole.parts = tuple(parts)
        self._bound()
        return whole

    def read_again(self, now: float) -> None:
        """Note that the page was read and was the same as the last one, and make no windows."""
        self._read_at = now
        for past in self.past.values():
            past.at = now

    def _grouped(self, batches: list[tuple[Sample, ...]]) -> Groups:
        """Sort samples by subject. The same samples give the same objects: nothing moved."""
        if batches == self._batches:
            return self._groups
        groups: Groups = {}
        for samples in batches:
            last, group = None, {}
            for about, name, value in samples:
                if about is not last:  # a probe hands an engine's samples side by side
                    last, group = about, groups.setdefault(about, {})
                group[name] = value
        self._batches, self._groups = batches, groups
        return groups

    def _with_slots(
        self, parts: list[Window], readings: Sequence[Reading], host: Window
    ) -> list[Window]:
        """Give each GPU its own readings and facts; one that told nothing has a window too."""
        by_subject = {part.subject: part for part in parts}
        for slot in dict.fromkeys(r.slot for r in readings if r.slot):
            subject = labels(slot=slot)
            # Unread is not the same as before: such a window has no levels.
            unread = Window(subject, host.ended, gap=True, profile=self.profile)
            part = by_subject.setdefault(subject, unread)
            part.readings = tuple(r for r in readings if r.slot == slot)
            part.facts = {**host.facts, **_facts(part.readings)}
        return list(by_subject.values())

    def gone(self, now: float) -> list[Labels]:
        """Forget and return the subjects that pages of the last hour no longer have."""
        if self._read_at != now:
            return []  # blind: an unread page is no evidence that anything has gone
        old = [about for about, past in self.past.items() if now - past.at > GONE_AFTER]
        for about in old:
            del self.past[about]
        return old

    def subjects(self) -> set[Labels]:
        """Return the subjects that are known, and the target itself."""
        return {self.subject, *self.past}

    def __len__(self) -> int:
        """Count the known subjects."""
        return len(self.past)

    def _window(
        self, subject: Labels, levels: dict[str, float], start: float | None, now: float
    ) -> Window:
        past = self.past.get(subject)
        if past is None or (not levels and not past.levels):
            if levels:
                self.past[subject] = Past(now, levels, levels, (start, levels.get(s.CREATED)))
            return Window(subject, now, levels=levels, profile=self.profile)
        if not levels:
            return Window(subject, now, levels=past.levels, profile=self.profile, gap=True)
        birth = (start, levels.get(s.CREATED))
        same = levels is past.newest
        grown = _NOTHING if same else _growth(past.levels, levels)
        if grown is None or now <= past.at or not _same_life(birth, past.birth):
            self.past[subject] = Past(now, levels, levels, birth)
            return Window(subject, now, levels=levels, profile=self.profile, reset=True)
        seconds, before = now - past.at, past.levels
        gap = past.missed or seconds > self.gap_after
        # A series that is away for one page keeps its last value: it is no new counter.
        whole = before if same else {**before, **levels}
        past.at, past.levels, past.newest, past.birth = now, whole, levels, birth
        past.missed = False
        return Window(
            subject, now, seconds, grown, levels, before,
            gap=gap, still=same and not gap, profile=self.profile,
        )  # fmt: skip

    def _bound(self) -> None:
        while len(self.past) > MOST_SUBJECTS:
            del self.past[min(self.past, key=lambda about: self.past[about].at)]


@lru_cache(maxsize=64)
def _idle(seconds: float) -> Decode:
    """A window in which nothing moved; most are, and most are equally long."""
    return NOTHING._replace(seconds=seconds)


def _facts(readings: Iterable[Reading]) -> Facts:
    facts: dict[str, object] = {}
    for reading in readings:
        facts.update(reading.facts)
    return facts


def _same_life(
    birth: tuple[float | None, float | None], before: tuple[float | None, float | None]
) -> bool:
    """Whether neither the process's start nor the counters' birth, where told, is another."""
    pairs = zip(birth, before, strict=True)
    return birth == before or all(a is None or b is None or a == b for a, b in pairs)


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float] | None:
    """
    Increase of each counter; None when one fell: a new life.

    A counter that appears inside a life began at 0 (the Rust frontend makes some at the
    first draft).
    """
    get, levels = before.get, s.LEVELS
    grown = {n: value - get(n, 0.0) for n, value in after.items() if n not in levels}
    return None if min(grown.values(), default=0.0) < 0 else grown


def target_of(window: Window) -> str:
    """Name a window's target for a sentence."""
    return dict(window.subject).get("target", "?")


def engine_of(subject: Iterable[tuple[str, str]]) -> str:
    """Name an engine for a sentence: `qwen engine 3`, or only the target where it is alone."""
    named = dict(subject)
    replica = f" of replica {named['replica']}" if "replica" in named else ""
    return f"{named.get('target', '?')} engine {named.get('engine', '?')}{replica}"
