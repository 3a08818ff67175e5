"""
Learned baselines as rows of plain data, and an operator's word on them: accept, reset.

Pure: what the daemon does between two rounds. Times are of the timeline, in Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, cast

from watchdog.domain import series as s
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.baseline import WARNED
from watchdog.domain.history import engine_of
from watchdog.domain.report import rfc3339
from watchdog.domain.sample import Labels
from watchdog.errors import PayloadError

CHECK: Final = "baseline"
"""The name of the check that learns, by which a watch keeps what it learned."""

ACCEPT: Final = "accept"
RESET: Final = "reset"

TIMES: Final = ("raised_at", "accepted_at")
"""Keys of an outline that are times of the timeline, or None."""


class Learner(Protocol):
    """The check, as far as an operator's word goes."""

    def outline(self, state: Any, now: float) -> dict[str, Any]:
        """Return what is known of one engine, as plain data."""

    def accept(self, state: Any, now: float) -> Any:
        """Take the present length for the new normal. Raises ValueError with a sentence."""

    def reset(self, state: Any, now: float) -> Any:
        """Forget all and learn anew."""


def rows(assessor: Assessor, now: float, skew: float = 0.0) -> list[dict[str, Any]]:
    """Return what is known of every engine; `skew` seconds lead from the timeline to the wall."""
    found = []
    for target, watch in assessor.watches.items():
        for subject, states, learner in _learned(assessor, target):
            row = _on_the_wall(learner.outline(states[CHECK], now), skew)
            why = row["why_not_learning"] or (WARNED if row["raised"] else "")
            row["why_not_learning"] = _never(watch, subject) or why
            found.append({"subject": dict(subject), **row})
    return found


def changed(
    assessor: Assessor, how: str, target: str, engine: str | None, now: float
) -> dict[str, Any]:
    """
    Accept or reset the baselines of a target's engines: of all, or of those of this name.

    Says of each engine what its length was and is (`changed`), or why it was left as it is
    (`refused`). An alert that stands on what was changed ends with the next round: nothing would
    speak of it while the check learns anew. Raises PayloadError naming the engines there are.
    """
    told: dict[str, Any] = {"target": target, "changed": [], "refused": []}
    for subject, states, learner in _chosen(assessor, target, engine):
        old = states[CHECK]
        before = learner.outline(old, now)
        try:
            new = learner.accept(old, now) if how == ACCEPT else learner.reset(old, now)
        except ValueError as error:
            told["refused"].append({"subject": dict(subject), "why": str(error)})
            continue
        states[CHECK] = new
        _end_alerts(assessor, subject)
        after = learner.outline(new, now)
        told["changed"].append(
            {
                "subject": dict(subject),
                "days": before["days"],
                "before": before["length"],
                "after": after["length"],
            }
        )
    return told


def refusals(told: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each engine that was left as it is."""
    return [f"{engine_of(one['subject'].items())}: {one['why']}" for one in told["refused"]]


_Found = tuple[Labels, dict[str, Any], Learner]


def _chosen(assessor: Assessor, target: str, engine: str | None) -> list[_Found]:
    found = list(_learned(assessor, target))
    if not found:
        raise PayloadError(f"no engine of {target} was read yet")
    chosen = [part for part in found if engine in (None, dict(part[0]).get("engine"))]
    if not chosen:
        known = dict.fromkeys(dict(subject).get("engine", "?") for subject, _, _ in found)
        raise PayloadError(f"{target} has no engine {engine}; known: {', '.join(known)}")
    return chosen


def _learned(assessor: Assessor, target: str) -> Iterator[_Found]:
    """Find the engines of a target of which the check knows something."""
    watch: Watch | None = assessor.watches.get(target)
    if watch is None or CHECK not in watch.checks:
        return
    learner = cast(Learner, watch.checks[CHECK])
    for subject, states in sorted(watch.states.items(), key=lambda kept: _natural(kept[0])):
        if states.get(CHECK) is not None:
            yield subject, states, learner


def _never(watch: Watch, subject: Labels) -> str:
    """Say why there is nothing to learn of an engine, however long one waits; empty if there is."""
    if watch.history.profile.drafts_sometimes:
        return "its method drafts only where the text repeats itself, and has no usual length"
    past = watch.history.past.get(subject)
    if past is not None and s.DRAFTS not in past.levels:
        return "its page has no speculative decoding"
    return ""


def _natural(subject: Labels) -> tuple[int, Labels]:
    """Sort engine 10 after engine 9."""
    engine = dict(subject).get("engine", "")
    is_number = engine.isascii() and engine.isdigit() and len(engine) < 9
    return int(engine) if is_number else 0, subject


def _end_alerts(assessor: Assessor, subject: Labels) -> None:
    book = assessor.book
    for alert in (*book.alerts(), *book.pending()):
        if alert.finding.check == CHECK and alert.finding.subject == subject:
            book.end(alert.finding.identity, CHECK)


def _on_the_wall(outline: Mapping[str, Any], skew: float) -> dict[str, Any]:
    def wall(at: float | None) -> str | None:
        return None if at is None else rfc3339(at + skew)

    daily = [[wall(at), length] for at, length in outline["daily"]]
    return {**outline, **{key: wall(outline[key]) for key in TIMES}, "daily": daily}
