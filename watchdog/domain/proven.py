"""
Under which launches a target's drafter was seen healthy, by what acceptance length, and when.

A stream beside the checks that judges nothing, as `changes` is. It is what rules out, months later,
that a drafter does not fit its model: the same pair drafted well before. It keeps little, and
changes at most once an hour of a launch, since every change is written to the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.changes import LAUNCH
from watchdog.domain.finding import OK, Finding
from watchdog.domain.fingerprint import Comparison, Factor, Fingerprint, compare
from watchdog.domain.history import Window

COLLAPSED: Final = "SpecDecodeCollapsed"
"""The alert whose conclusive OK says that a drafter works."""

DRAFTS: Final = "SpecDecode"
"""How all alerts about drafts begin: an engine that has one of them is no example of health."""

MOST: Final = 8
"""Launches of one target; beyond them the one that was seen longest ago is forgotten."""

MOST_FACTORS: Final = 64
EVERY: Final = 3600.0
"""Seconds after which the last sight of the same launch is noted anew."""

LEAST: Final = 1.15
"""Acceptance length below which nothing is called proven: no drafter is for that."""

_PAIR: Final = frozenset({"model", "drafter", "quantization", "dtype", "revision", "hf-overrides"})
"""First words of the factors that say which model and which drafter it is."""

_METHOD: Final = "speculative-config method"
_WIDE: Final = frozenset({"argv", "models", "model", "drafter", "factors", "others"})
"""First words of what could not be read, where it leaves the pair in doubt."""


class Healthy(NamedTuple):
    """
    One launch whose drafter worked: `at` on the timeline, `length` in tokens.

    `step` is the seconds of a decode step then, `start` the Unix time of the process, where told.
    `digest` is that of its fingerprint, "" where none was known; of its factors those of model and
    drafter are kept, and in `unread` which parts of these could not be read.
    """

    at: float
    length: float
    step: float | None = None
    start: float | None = None
    digest: str = ""
    factors: tuple[Factor, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


class Proven(NamedTuple):
    """The launches that were seen healthy, the latest last."""

    seen: tuple[Healthy, ...] = ()


NOTHING_PROVEN: Final = Proven()


class Match(NamedTuple):
    """A healthy launch beside that of now: what of the pair is another, or was not read."""

    healthy: Healthy
    compared: Comparison
    same_process: bool = False

    @property
    def same(self) -> bool:
        """Whether it is known to be the same pair."""
        return self.same_process or self.compared.same


def proved(state: Proven, window: Window, findings: Sequence[Finding]) -> Proven:
    """Note the launch of this round where its drafter is found healthy."""
    if not window.parts:
        return state
    digest, start = _digest(window.facts), window.levels.get(s.PROCESS_START)
    last = state.seen[-1] if state.seen else None
    known = last is not None and (last.digest, last.start) == (digest, start)
    if last is not None and known and window.ended - last.at < EVERY:
        return state
    bad = {f.subject for f in findings if f.verdict is not OK and f.alertname.startswith(DRAFTS)}
    told = [
        f for f in findings
        if f.alertname == COLLAPSED and f.verdict is OK and f.conclusive and f.subject not in bad
    ]  # fmt: skip
    lengths = [f.value for f in told if f.value is not None and f.value >= LEAST]
    if not lengths or any(f.argument.evidence.get("score") for f in told):
        return state  # "score": some of its drafts begin to look dead
    steps = [x for f in told if isinstance(x := f.argument.evidence.get("step_seconds"), float)]
    found = pair_of(fingerprint_in(window.facts))
    new = Healthy(
        window.ended, sum(lengths) / len(lengths), sum(steps) / len(steps) if steps else None,
        start, digest, found.factors, found.unread,
    )  # fmt: skip
    others = [h for h in state.seen if not _same_launch(h, new)]
    return Proven((*others, new)[-MOST:])


def matched(state: Proven, facts: Mapping[str, Any], start: float | None) -> Match | None:
    """Return the healthy launch that is most like that of now; None where nothing compares."""
    pair = pair_of(fingerprint_in(facts))
    found: list[Match] = []
    for healthy in reversed(state.seen):
        if start is not None and healthy.start == start:
            return Match(healthy, Comparison(), same_process=True)
        was = Fingerprint(healthy.factors, healthy.unread)
        if _names_model(was) and _names_model(pair):
            found.append(Match(healthy, compare(was, pair)))
    # The latest of the same pair, else the latest whose known factors are the same, else the last.
    return min(found, key=_unlike, default=None)


def fingerprint_in(facts: Mapping[str, Any]) -> Fingerprint:
    """Return the fingerprint among a target's facts; an empty one where there is none of ours."""
    try:
        return Fingerprint.from_dict(facts.get(LAUNCH))
    except ValueError:
        return Fingerprint(unread=(("argv", "not told"),))


def pair_of(whole: Fingerprint) -> Fingerprint:
    """Return what of a fingerprint says which model and which drafter it is."""
    factors = [x for x in whole.factors if x.name == _METHOD or x.name.split(" ")[0] in _PAIR]
    unread = [row for row in whole.unread if row[0].split(" ")[0] in _WIDE]
    return Fingerprint(tuple(factors[:MOST_FACTORS]), tuple(unread))


def bounded(state: Proven) -> Proven:
    """Return what was kept as it is. ValueError where it cannot have been ours."""
    if len(state.seen) > MOST or any(len(h.factors) > MOST_FACTORS for h in state.seen):
        raise ValueError("more launches, or factors of one, than are kept")
    return state


def _unlike(match: Match) -> tuple[bool, bool]:
    return not match.same, bool(match.compared.changed)


def _same_launch(a: Healthy, b: Healthy) -> bool:
    """Whether both are of one launch: by its fingerprint, else by its process."""
    return (a.digest, a.factors) == (b.digest, b.factors) if b.digest else a.start == b.start


def _digest(facts: Mapping[str, Any]) -> str:
    told = facts.get(LAUNCH)
    digest = told.get("digest") if isinstance(told, Mapping) else None
    return digest if isinstance(digest, str) else ""


def _names_model(pair: Fingerprint) -> bool:
    return _names(pair.factors, "model")


def _names(factors: Sequence[Factor], name: str) -> bool:
    return any(factor.name == name for factor in factors)
