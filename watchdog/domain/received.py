"""
Alerts of other programs that arrived, each with what was seen here when it did.

The diagnosis is made of findings and invents no verdict: what stands may explain the alert, what
is fine is ruled out with its numbers, and what had too little evidence is said to be uncertain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from watchdog.domain.arrivals import FIRING, RESOLVED, Arrival
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.sample import HOST, Labels, Reading
from watchdog.domain.texts import one_line

INBOX: Final = "inbox"
"""The probe whose readings hold what arrived, as the fact `told`."""

MOST_KEPT: Final = 200
FORGET: Final = 25 * 3600.0
"""Seconds after the last word of an alert: a day, since that is how seldom some are repeated."""

MOST_BAD, MOST_UNKNOWN, MOST_FINE = 6, 4, 8
MOST_SENTENCE: Final = 600
"""How many sentences of each kind a diagnosis has, and how many characters each."""

TELLING: Final = (
    "ServingDown", "ServingStalled", "SpecDecodeCollapsed", "SpecDecodeNotDrafting",
    "ServingStepsSlow", "GpuMissing", "GpuLinkDegraded",
)  # fmt: skip
"""What is told of where it is fine or uncertain; the other alerts only where they stand."""

Identity = tuple[str, Labels]


class Received(NamedTuple):
    """
    One alert, and what was seen here of the target or the host that it names.

    Times are on the timeline, but `starts_at`, which is the sender's text. `target` is HOST where
    this host alone is named; `status` firing or resolved. `diagnosis` are sentences of
    `diagnosed_at`; `bad` is what they say may explain the alert, `unknown` what they leave open.
    """

    fingerprint: str
    starts_at: str
    alertname: str
    target: str
    labels: Labels
    summary: str
    received_at: float
    heard_at: float
    status: str = FIRING
    ended_at: float | None = None
    diagnosis: tuple[str, ...] = ()
    diagnosed_at: float = 0.0
    bad: tuple[Identity, ...] = ()
    unknown: tuple[Identity, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """The alert and when it began: what began again is another one."""
        return self.fingerprint, self.starts_at


class Seen(NamedTuple):
    """What this round says of one target, or of the host: what stands, what is open, is fine."""

    bad: list[Finding]
    unknown: list[Finding]
    fine: list[Finding]


def is_inbox(reading: Reading) -> bool:
    """Whether it holds what arrived, and says nothing of this host itself."""
    return reading.probe == INBOX


def arrived(readings: Iterable[Reading]) -> list[Arrival]:
    """Return the alerts that the inbox brought home."""
    boxes: list[Any] = [reading.facts.get("told", ()) for reading in readings if is_inbox(reading)]
    return [Arrival(**fields) for box in boxes for fields in box]


def step(
    kept: Sequence[Received],
    arrivals: Iterable[Arrival],
    near: Mapping[str, Sequence[Finding]],
    now: float,
) -> tuple[Received, ...]:
    """
    Take in what arrived, and look again at what fires; newest first.

    `near` are this round's findings about each target, and all of them about HOST.
    """
    known = {old.identity: old for old in kept if now - old.heard_at <= FORGET}
    new: dict[tuple[str, str], Received] = {}
    for arrival in arrivals:
        identity = arrival.fingerprint, arrival.starts_at
        old = new.get(identity) or known.get(identity)
        if old is not None:
            (new if identity in new else known)[identity] = _heard(old, arrival, now)
        elif arrival.status == FIRING:
            new[identity] = _first(arrival, now)
    told = _bounded([*reversed(new.values()), *known.values()])
    seen = {one.target: _seen(near.get(one.target)) for one in told if one.status == FIRING}
    return tuple(_diagnosed(r, seen[r.target], now) if r.status == FIRING else r for r in told)


def explained(received: Iterable[Received], finding: Finding) -> list[Received]:
    """Return the firing alerts of others that a finding of ours may explain."""
    of_host = "target" not in dict(finding.subject)
    return [
        one
        for one in received
        if one.status == FIRING
        and finding.identity in one.bad
        and one.alertname != finding.alertname
        and (one.target != HOST or of_host)  # whatever stands is told of the host: too much here
    ]


def _bounded(told: list[Received]) -> list[Received]:
    """Keep so many, in their order; what has ended goes before what fires, the oldest first."""
    if len(told) <= MOST_KEPT:
        return told
    firing_first = sorted(told, key=lambda one: one.status != FIRING)
    kept = {one.identity for one in firing_first[:MOST_KEPT]}
    return [one for one in told if one.identity in kept]


def _first(arrival: Arrival, now: float) -> Received:
    return Received(
        arrival.fingerprint, arrival.starts_at, arrival.alertname, arrival.target, arrival.labels,
        arrival.summary, received_at=now, heard_at=now,
    )  # fmt: skip


def _heard(old: Received, arrival: Arrival, now: float) -> Received:
    over = now if arrival.status == RESOLVED else None
    return old._replace(status=arrival.status, heard_at=now, ended_at=over)


def _diagnosed(one: Received, seen: Seen, now: float) -> Received:
    """
    Keep the first diagnosis until there is more to say: something stands that did not then, or,
    where nothing explained the alert, evidence came in that was missing.
    """
    bad, unknown = _identities(seen.bad), _identities(seen.unknown)
    more = bad - set(one.bad)
    settled = not one.bad and bool(set(one.unknown) - unknown)
    if one.diagnosis and not more and not settled:
        return one
    if one.diagnosis:
        bad, unknown = bad | set(one.bad), unknown & set(one.unknown)
    return one._replace(
        diagnosis=_sentences(seen, one.target),
        diagnosed_at=now,
        bad=tuple(sorted(bad)),
        unknown=tuple(sorted(unknown)),
    )


def _identities(findings: Iterable[Finding]) -> set[Identity]:
    return {finding.identity for finding in findings}


def _seen(findings: Sequence[Finding] | None) -> Seen:
    bad = [f for f in findings or () if f.verdict in (Verdict.CRITICAL, Verdict.WARNING)]
    unknown = [f for f in findings or () if _is_open(f)]
    fine = [
        f for f in findings or ()
        if f.verdict is Verdict.OK and f.conclusive and f.alertname in TELLING
    ]  # fmt: skip
    return Seen(sorted(bad, key=_loudest), unknown, fine)


def _sentences(seen: Seen, target: str) -> tuple[str, ...]:
    said = [
        *_some([_explaining(f) for f in seen.bad], MOST_BAD),
        *([] if seen.bad else [_nothing(seen, target or "this host")]),
        *_some([f"not certain yet: {f.argument.summary}" for f in seen.unknown], MOST_UNKNOWN),
        *_some([f"ruled out: {f.argument.summary}" for f in seen.fine], MOST_FINE),
    ]
    return tuple(one_line(sentence, MOST_SENTENCE) for sentence in said)


def _is_open(finding: Finding) -> bool:
    thin = finding.verdict is Verdict.OK and not finding.conclusive
    return finding.verdict is Verdict.UNKNOWN or (thin and finding.alertname in TELLING)


def _loudest(finding: Finding) -> int:
    return 0 if finding.verdict is Verdict.CRITICAL else 1


def _explaining(finding: Finding) -> str:
    argument = finding.argument
    step_ = f"; next: {argument.next_step}" if argument.next_step else ""
    return f"may explain it: {finding.verdict.name} {finding.alertname}: {argument.summary}{step_}"


def _nothing(seen: Seen, whom: str) -> str:
    if not seen.fine:
        return f"too little is known of {whom} to say whether anything here explains it"
    if seen.unknown:
        return "nothing here explains it so far, and some of it is not certain yet"
    return "nothing that is watched here explains it"


def _some(sentences: Sequence[str], most: int) -> list[str]:
    """Bound a list, and say how many more there are."""
    more = len(sentences) - most
    if more <= 0:
        return list(sentences)
    kind = sentences[0].partition(":")[0]
    return [*sentences[:most], f"{kind}: and {more} more, see the findings"]
