"""
Is one engine worse than the other engines of its target?

They have the same model, the same launch and, unless a router chooses by prompt, the same
traffic: so what a change of traffic does to one it does to all, and what sets one apart is its
own. It is looked at once an hour, over the fewest whole hours that hold evidence on both sides;
far below chance, since it is looked at for years. Only the low side is a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from watchdog.domain import siblings_words as words
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.profile import PREFIX_AWARE, Profile
from watchdog.domain.sample import Labels
from watchdog.domain.siblings import NONE, Bar, Look, Pool, Tally

NAME = "SpecDecodeDegraded"
DEAD = "SpecDecodeCollapsed"
HOUR = 3600.0
HOURS = 24
MOST_ENGINES: Final = 256


class Hour(NamedTuple):
    """One whole hour of the timeline, by its number, and what the engine did in it."""

    number: int
    did: Tally


class Raised(NamedTuple):
    """A warning that stands: in which hour it was raised, and between when the fault began."""

    hour: int
    earliest: float
    latest: float


class Engine(NamedTuple):
    """
    What is kept of one engine: its whole hours, the last look, a warning.

    `since` is when its counters began, as far as it was watched; seconds of the timeline.
    `well` is when the hours of the last look began in which it was as good as the others.
    `alone`: no other engine of its model was known for a day. `ended`: a warning was taken back,
    since there is nothing left to compare with.
    """

    subject: Labels
    since: float = 0.0
    hours: tuple[Hour, ...] = ()
    look: Look | None = None
    raised: Raised | None = None
    well: float | None = None
    alone: bool = False
    ended: bool = False


class State(NamedTuple):
    """Every engine, those of the newest page first, and what each did in the running hour."""

    hour: int = 0
    engines: tuple[Engine, ...] = ()
    running: tuple[Tally, ...] = ()


@dataclass(frozen=True)
class Siblings:
    """Fields are limits: shares, standard deviations, effective drafts, a correlation."""

    about: ClassVar[str] = "target"

    low: float = field(default=0.85, metadata={"most": 1.0})
    z: float = 5.0
    low_prefix_aware: float = field(default=0.78, metadata={"most": 1.0})
    z_prefix_aware: float = 6.0
    min_effective: float = 1000.0
    icc: float = field(default=0.25, metadata={"most": 1.0})
    least_coverage: float = field(default=0.5, metadata={"most": 1.0})

    def step(
        self, state: State | None, window: Window, now: float
    ) -> tuple[State | None, list[Finding]]:
        """Judge one round of one target; silent about one that has a single engine."""
        parts = window.parts
        if state is None and (len(parts) < 2 or not any(part.speculates for part in parts)):
            return None, []
        if not parts:
            return state, []  # an unread page
        hour = int(now // HOUR)
        parts, state = parts[:MOST_ENGINES], _met(state or State(hour), parts, now)
        if hour > state.hour:
            engines = self._looked(state, window, now)
            if not engines:
                return None, []
            state = State(hour, engines, (NONE,) * len(engines))
        state = self._grown(state, parts, now)
        engines = state.engines
        if not any(engine.alone for engine in engines):
            return state, list(map(self._found, engines, parts))
        pairs = zip(engines, parts, strict=False)
        return state, [self._found(e, p) for e, p in pairs if not e.alone or e.raised or e.ended]

    def _grown(self, state: State, parts: Sequence[Window], now: float) -> State:
        """
        Add the windows to the running hour; a new life begins anew, and warns on.

        What a dead drafter does is told of it, and by this check neither then nor later.
        """
        icc, running, engines = self.icc, list(state.running), state.engines
        for i, part in enumerate(parts):
            if part.seconds is None:
                running[i] = NONE
                anew = engines[i]._replace(since=now, hours=())
                engines = (*engines[:i], anew, *engines[i + 1 :])
            elif part.doubted and part.doubted.get(DEAD) is Verdict.CRITICAL:
                running[i] = NONE
                if engines[i].hours or engines[i].look:
                    dead = engines[i]._replace(hours=(), look=None, raised=None)
                    engines = (*engines[:i], dead, *engines[i + 1 :])
            elif part.moved:
                running[i] = running[i].grown(part, icc)
        return State(state.hour, engines, tuple(running))

    def _looked(self, state: State, window: Window, now: float) -> tuple[Engine, ...]:
        """End the running hour, forget engines gone for a day, and compare the others."""
        hour = int(now // HOUR)
        present = {part.subject for part in window.parts}
        ended = zip(state.engines, state.running, strict=True)
        closed = [_closed(e, Hour(state.hour, did), hour - HOURS) for e, did in ended]
        whole = _company([e for e in closed if e.hours or e.subject in present])
        groups: dict[str, list[Engine]] = {}
        for engine in whole:
            groups.setdefault(_model(engine), []).append(engine)
        looked = {
            engine.subject: engine
            for group in groups.values()
            for engine in self._compared(group, window, hour, now)
        }
        if not any(e.raised or e.ended for e in looked.values()) and (
            len(looked) < 2 or not any(part.speculates for part in window.parts)
        ):
            return ()
        return tuple(looked[engine.subject] for engine in whole)

    def _compared(
        self, group: Sequence[Engine], window: Window, hour: int, now: float
    ) -> list[Engine]:
        """Compare the engines of one model; hours older than any of them needs are forgotten."""
        if len(group) == 1 or window.profile.drafts_sometimes:
            return [_taken_back(engine) for engine in group]
        pools = _Pools(group, hour)
        looks = [self._look(engine, i, pools, window) for i, engine in enumerate(group)]
        needed = hour - max(look.hours for look in looks)
        bar = self.bar(window.profile)
        return [
            self._judged(engine, look, bar, now)._replace(
                hours=tuple(h for h in engine.hours if h.number >= needed)
            )
            for engine, look in zip(group, looks, strict=True)
        ]

    def _look(self, engine: Engine, at: int, pools: _Pools, window: Window) -> Look:
        """Look back only as far as both sides need; not beyond the hour of a warning."""
        most = min(HOURS, pools.hour - engine.raised.hour) if engine.raised else HOURS
        look = Look(pools.hour * HOUR, pools.hour * HOUR, 0, NONE, NONE, 0)
        for back in range(1, most + 1):
            pool = pools.over(back)
            own = pool.tallies[at]
            least = min(own.effective, pool.effective_rest(at))
            if least < self.min_effective and back < most:
                continue
            rest, others, left_out = pool.rest(at, self.bar(window.profile).low)
            enough = min(own.effective, rest.effective) >= self.min_effective
            began = max(engine.since, (pools.hour - back) * HOUR)
            look = Look(pools.hour * HOUR, began, back, own, rest, others, left_out, enough)
            if enough:
                break
        return look._replace(enough=look.enough and not self.matches_only(look, window))

    def matches_only(self, look: Look, window: Window) -> bool:
        """Whether an undeclared method drafts on so few steps that it is n-gram-like."""
        coverage = look.rest.coverage
        few = coverage is not None and coverage < self.least_coverage
        return few and window.profile.method is None

    def bar(self, profile: Profile) -> Bar:
        """Return what is no chance; where the router chooses by prompt, the traffic differs."""
        if profile.routing == PREFIX_AWARE:
            return Bar(self.low_prefix_aware, self.z_prefix_aware)
        return Bar(self.low, self.z)

    def _judged(self, engine: Engine, look: Look, bar: Bar, now: float) -> Engine:
        """Raise or resolve on evidence; without it a warning keeps what it was raised on."""
        raised, ratio = engine.raised, look.ratio
        if not look.enough or ratio is None:
            return engine._replace(look=engine.look if raised else look, ended=False)
        if raised is None and ratio < bar.low and look.z < -bar.z:
            # In the hours of the last good look it may have begun: a small part of them hides.
            since = engine.since if engine.well is None else engine.well
            raised = Raised(int(now // HOUR), min(since, look.began), now)
        elif raised is not None and ratio > bar.half_way:
            raised = None
        well = look.began if ratio > bar.half_way else engine.well
        return engine._replace(look=look, raised=raised, well=well, ended=False)

    def _found(self, engine: Engine, part: Window) -> Finding:
        look, raised = engine.look, engine.raised is not None
        bad = raised and not part.speculation_off
        enough = raised or engine.ended or (look is not None and look.enough)
        return Finding(
            NAME,
            engine.subject,
            Verdict.WARNING if bad else Verdict.OK,
            lambda: self._argue(engine, part),
            enough,
            look.own.length if look is not None else None,
            "tokens",
        )

    def _argue(self, engine: Engine, part: Window) -> Argument:
        raised = engine.raised
        case = words.Case(
            part,
            engine.look,
            engine.since,
            self.bar(part.profile),
            self.min_effective,
            (raised.earliest, raised.latest) if raised else None,
            alone=engine.alone,
        )
        return case.told()


class _Pools:
    """The engines of one model over the last hours, added up once for each number of hours."""

    def __init__(self, group: Sequence[Engine], hour: int) -> None:
        self.hour = hour
        self._group = group
        self._pools: dict[int, Pool] = {}

    def over(self, back: int) -> Pool:
        """Return what they did in the last `back` whole hours."""
        if back not in self._pools:
            first = self.hour - back
            self._pools[back] = Pool([_since(engine, first) for engine in self._group])
        return self._pools[back]


def _since(engine: Engine, first: int) -> Tally:
    did = [hour.did for hour in engine.hours if hour.number >= first]
    return Tally._make(map(sum, zip(NONE, *did, strict=True)))


def _closed(engine: Engine, ended: Hour, oldest: int) -> Engine:
    """Add the hour that ended; hours before `oldest` are forgotten."""
    did = ended.did
    if any(did):  # short numbers: they are kept, hour by hour
        ended = Hour(ended.number, did._replace(effective=round(did.effective, 1)))
    hours = (*engine.hours, ended) if any(did) else engine.hours
    return engine._replace(hours=tuple(hour for hour in hours if hour.number >= oldest))


def _met(state: State, parts: Sequence[Window], now: float) -> State:
    """Put the engines in the order of the page: new ones begin, those not on it come last."""
    engines = state.engines
    subjects = [part.subject for part in parts[:MOST_ENGINES]]
    if [engine.subject for engine in engines[: len(subjects)]] == subjects:
        return state
    known = {e.subject: (e, did) for e, did in zip(engines, state.running, strict=True)}
    first = [known.pop(about, (Engine(about, now), NONE)) for about in subjects]
    kept = [*first, *known.values()][:MOST_ENGINES]
    company = tuple(_company([engine for engine, _ in kept]))
    return State(state.hour, company, tuple(did for _, did in kept))


def _company(engines: Sequence[Engine]) -> list[Engine]:
    """Note which engines are the only ones of their model."""
    many = Counter(map(_model, engines))
    return [engine._replace(alone=many[_model(engine)] == 1) for engine in engines]


def _model(engine: Engine) -> str:
    return dict(engine.subject).get("model_name", "")


def _taken_back(engine: Engine) -> Engine:
    """End a warning that nothing can judge any more: no other engine, or no such drafter."""
    ended = engine.ended or engine.raised is not None
    return engine._replace(look=None, raised=None, ended=ended)
