"""
Was the last start cold? The daemon's word on it, with a log laid over that somebody gives. Pure.

What each witness says, and that the log beats the files and these the time, is `domain/coldness`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from watchdog.caches_answer import Row, SignRow, Start
from watchdog.domain.coldness import (
    ARTIFACTS,
    COLD,
    LOG,
    TIME,
    UNCLEAR,
    UNKNOWN,
    WARM,
    Sign,
    joint,
    of_log,
)
from watchdog.domain.report import seconds_of
from watchdog.domain.starts import near

__all__ = ["COLD", "UNKNOWN", "WARM", "Confirmed", "Log", "confirmed"]

MISSING: Final = {
    LOG: "no log was read",
    ARTIFACTS: "nothing is known of its files",
    TIME: "how long it took was not seen",
}
"""What a witness that was not heard says, the strongest first."""


class Log(NamedTuple):
    """The facts of a log (see domain/start_lines); `older`: why it is not of this start."""

    facts: Mapping[str, Any]
    older: str = ""


class Confirmed(NamedTuple):
    """`why`: in words why nothing can be said at all; empty where the signs speak."""

    verdict: str
    start: Start | None
    signs: tuple[SignRow, ...] = ()
    why: str = ""

    def words(self) -> str:
        """Say it in one sentence."""
        if self.why:
            return f"unknown: {self.why}"
        if self.verdict == COLD:
            return "the last start was cold: it compiled for itself"
        if self.verdict == WARM:
            return "the last start was not cold: it loaded what had been compiled before"
        return "unknown: nothing shows whether the last start was cold"


def confirmed(row: Row, log: Log | None = None) -> Confirmed:
    """Judge the last start that the daemon saw, with a log if one is given."""
    start = row.last
    if start is None:
        return Confirmed(UNKNOWN, None, (), row.unknown or "no start of it is known yet")
    why = _not_the_last(row, start)
    if why:
        return Confirmed(UNKNOWN, start, (), why)
    if log is None and not start.signs and not row.unknown:
        return Confirmed(UNKNOWN, start, (), "this start was not looked at yet")
    told = {sign.name: sign for sign in start.signs}
    if log is not None:
        told[LOG] = _of(log)
    signs = [told.get(name, _silent(name)) for name in MISSING]
    more = [sign for name, sign in told.items() if name not in MISSING]
    if log is None:
        return Confirmed(start.verdict, start, (*signs, *more))
    both = joint(*(Sign(sign.name, sign.says, sign.text) for sign in signs))
    return Confirmed(both.verdict, start, (*signs, *more))


def seconds(text: str | None) -> float | None:
    """Return Unix seconds of an RFC 3339 time; None where it is none."""
    try:
        return seconds_of(text or "")
    except ValueError:
        return None


def _of(log: Log) -> SignRow:
    if log.older:
        return SignRow(name=LOG, says=UNCLEAR, text=f"{log.older}: it is not this start's")
    said = of_log(log.facts)
    return SignRow(name=said.name, says=said.says, text=said.text)  # type: ignore[arg-type]


def _silent(name: str) -> SignRow:
    return SignRow(name=name, says=UNCLEAR, text=MISSING[name])


def _not_the_last(row: Row, start: Start) -> str:
    """Say why the start that is known may not be the last one; empty where it is."""
    if not row.answers:
        return f"it does not answer now and may be starting; the start known last is {start.start}"
    runs, known = seconds(row.running_since), seconds(start.start)
    if runs is not None and known is not None and not near(runs, known):
        return f"it runs since {row.running_since}, and this start was not looked at yet"
    return ""
