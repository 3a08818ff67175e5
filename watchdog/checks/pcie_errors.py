"""
Do errors on the way between CPU and GPU grow, and how fast?

The counters of every device from the root port to the GPU's function, and NVML's own. A link
that corrects its errors is a slow link; so many a minute are allowed as a healthy link of the
expected kind may have. What cannot be corrected is told at once. Counters of zero prove nothing:
where the firmware keeps the errors to itself, they stay zero on a bad link too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

from watchdog.domain import link_errors as le
from watchdog.domain import link_errors_words as say
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.gpu import Card, Sight, look
from watchdog.domain.history import Window
from watchdog.domain.link import Link
from watchdog.domain.link_errors import Counter

NAME = "GpuLinkErrors"
TYPICAL = Link(8.0, 16.0)
"""Gen3 x16: the least for a link of which nothing is declared; it may only be slow just now."""

PIECES = 30

Counts = tuple[tuple[Counter, float], ...]


class Stretch(NamedTuple):
    """Seconds of one window, and the wire's errors by device in it."""

    seconds: float
    errors: tuple[tuple[str, float], ...] = ()


class State(NamedTuple):
    """What grew since the start, the last windows, and when each device was last heard."""

    card: Card = Card()
    since_start: Counts = ()
    recent: tuple[Stretch, ...] = ()
    heard: tuple[tuple[str, float], ...] = ()
    resets: int = 0  # times that a counter fell
    last: Counts = ()  # the last counts that were not zero, and one of each file that was read


@dataclass(frozen=True)
class PcieErrors:
    """Fields are limits: a share of the errors that the rule allows, and seconds."""

    about: ClassVar[str] = "gpu"

    share: float = 1.0
    over: float = field(default=60.0, metadata={"unit": "seconds"})

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one round of one GPU."""
        state = state or State()
        seen = look(window, state.card)
        state = state._replace(card=seen.card)
        boot = le.counters(seen.levels)
        if not boot:
            untold = partial(say.untold, seen)
            return state, [Finding(NAME, window.subject, Verdict.OK, untold, conclusive=False)]
        grown = {} if window.seconds is None else _grown(window, boot)
        if window.reset:
            grown = _hard_after_reset(dict(state.last), boot)
        state = self._took(state, window, grown, now)
        heard = {**dict(state.heard), **dict.fromkeys((counter.by for counter in boot), now)}
        state = state._replace(heard=tuple(heard.items()), last=_last(state.last, boot))
        return state, [self._judge(state, seen, window, boot, grown)]

    def _took(
        self, state: State, window: Window, grown: Mapping[Counter, float], now: float
    ) -> State:
        since = dict(state.since_start)
        for counter, n in grown.items():
            since[counter] = since.get(counter, 0.0) + n
        if window.seconds is None:
            resets = state.resets + window.reset
            return state._replace(recent=(), resets=resets, since_start=tuple(since.items()))
        lately = max(window.seconds, self.over)
        errors = _lately(le.on_wire(grown.items()), dict(state.heard), lately, now)
        recent = self._slid(state.recent, Stretch(window.seconds, tuple(errors.items())))
        return state._replace(since_start=tuple(since.items()), recent=recent)

    def _slid(self, recent: tuple[Stretch, ...], new: Stretch) -> tuple[Stretch, ...]:
        """Keep what covers the last `over` seconds, in some 30 pieces however short the rounds."""
        if recent and recent[-1].seconds < self.over / PIECES:
            new, recent = _joined(recent[-1], new), recent[:-1]
        recent = (*recent, new)
        while len(recent) > 1 and sum(piece.seconds for piece in recent[1:]) >= self.over:
            recent = recent[1:]
        return recent

    def _judge(
        self,
        state: State,
        seen: Sight,
        window: Window,
        boot: Mapping[Counter, float],
        grown: Mapping[Counter, float],
    ) -> Finding:
        link, source = _expected(seen)
        seconds = sum(stretch.seconds for stretch in state.recent)
        a_minute = le.allowed_a_minute(link) * self.share
        allowed = a_minute * max(seconds, self.over) / 60.0
        device, worst = _worst(state.recent)
        hard = {c: n for c, n in grown.items() if c.kind != le.CORRECTABLE and n > 0}
        bad = bool(hard) or worst > allowed
        sums = say.Sums(
            boot=le.by_device(boot.items()),
            start=le.by_device(state.since_start),
            window=le.by_device(grown.items()),
            hard=le.by_device(hard.items()),
            device=device,
            worst=worst,
            allowed=allowed,
            seconds=max(seconds, self.over),
            a_minute=a_minute,
            link=f"{link}, {source}",
            resets=state.resets,
            declared=seen.declared is not None,
        )
        argue = partial(say.grew, seen, sums)
        if not bad:
            argue = partial(say.quiet, seen, sums, first=window.seconds is None, fell=window.reset)
        # That something was counted once proves that errors are counted here, whatever fell since.
        covered = any(boot.values()) or bool(state.since_start) or state.resets > 0
        conclusive = bad or (window.seconds is not None and covered)
        verdict = Verdict.WARNING if bad else Verdict.OK
        return Finding(NAME, window.subject, verdict, argue, conclusive, worst, "errors")


def _grown(window: Window, boot: Mapping[Counter, float]) -> dict[Counter, float]:
    """
    Return the growth of counters whose file was read before.

    A file that is readable at last brings its counts since boot; those did not grow now. A name
    that is new in a file that was read before began at zero: the kernel names some bits late.
    """
    before = le.counters(window.before)
    files = {(counter.kind, counter.by) for counter in before}
    found = {}
    for counter, value in boot.items():
        late = counter.by != le.NVML and (counter.kind, counter.by) in files
        if counter in before or late:
            n = value - before.get(counter, 0.0)
            if n > 0:
                found[counter] = n
    return found


def _last(before: Counts, boot: Mapping[Counter, float]) -> Counts:
    """Keep what a later fall is measured by; a file that was not read keeps its last counts."""
    read = {(counter.kind, counter.by) for counter in boot}
    kept = {c: n for c, n in before if (c.kind, c.by) not in read}
    kept |= {counter: n for counter, n in boot.items() if n}
    seen = {(counter.kind, counter.by) for counter in kept}
    for counter, n in boot.items():
        if (counter.kind, counter.by) not in seen:
            seen.add((counter.kind, counter.by))
            kept[counter] = n
    return tuple(kept.items())


def _hard_after_reset(
    before: Mapping[Counter, float], boot: Mapping[Counter, float]
) -> dict[Counter, float]:
    """
    Return what could not be corrected in a round in which a counter fell.

    A device that was listed anew counts from zero, so all that it has is new; the others went
    on. A link that breaks does both at once: the port counts a fatal error, the card comes back.
    """
    anew = {counter.by for counter, n in before.items() if boot.get(counter, n) < n}
    files = {(counter.kind, counter.by) for counter in before}
    found = {}
    for counter, value in boot.items():
        if (counter.kind, counter.by) not in files:
            continue  # read for the first time: what it counted may be old
        n = value if counter.by in anew else value - before.get(counter, 0.0)
        if counter.kind != le.CORRECTABLE and n > 0:
            found[counter] = n
    return found


def _lately(
    errors: Mapping[str, float], heard: Mapping[str, float], lately: float, now: float
) -> dict[str, float]:
    """
    Return the errors of the last `lately` seconds.

    What grew while a device could not be read, though others could, is spread over that time.
    """
    return {by: n * lately / max(now - heard.get(by, now), lately) for by, n in errors.items()}


def _joined(a: Stretch, b: Stretch) -> Stretch:
    errors = dict(a.errors)
    for by, n in b.errors:
        errors[by] = errors.get(by, 0.0) + n
    return Stretch(a.seconds + b.seconds, tuple(errors.items()))


def _worst(recent: tuple[Stretch, ...]) -> tuple[str, float]:
    """Return the device with most errors; both ends of a link count one fault, so no sum of all."""
    sums: dict[str, float] = {}
    for stretch in recent:
        for by, n in stretch.errors:
            sums[by] = sums.get(by, 0.0) + n
    return max(sums.items(), key=lambda item: item[1], default=("", 0.0))


def _expected(seen: Sight) -> tuple[Link, str]:
    """Return the link whose errors are allowed: a link that is slow now would allow too few."""
    if seen.declared is not None:
        return seen.declared.link, "as declared"
    runs = seen.actual.link
    if runs.whole and le.allowed_a_minute(runs) > le.allowed_a_minute(TYPICAL):
        return runs, "as it runs now, since nothing is declared"
    return TYPICAL, "taken as the least, since nothing is declared"
