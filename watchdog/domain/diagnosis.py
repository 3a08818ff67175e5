"""
What one finding says about another: text only, never a verdict.

Runs after all checks and before the alert book. A bad finding is told what its neighbours
measured: the step time beside a dead drafter, the drafter beside a slow step, the other
engines beside one. One that knows its onset is told what changed near it, and how traffic moved.
Its causes are ranked by all that is known (see `suspects`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from watchdog.domain.causes import cause, other_traffic
from watchdog.domain.changes import LINKS, UNWATCHED, Changes, key_of
from watchdog.domain.changes_words import told, traffic_line, traffic_moved
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.link_errors import spelled
from watchdog.domain.profile import ANY_ROUTING, PREFIX_AWARE
from watchdog.domain.proven import NOTHING_PROVEN, Proven
from watchdog.domain.series import PROCESS_START
from watchdog.domain.suspect import SLOW, Around, Case
from watchdog.domain.suspects import STANDS, ranked

BEHIND: Final[Mapping[str, tuple[str, ...]]] = {
    "SpecDecodeDegraded": ("SpecDecodeCollapsed", "SpecDecodeNotDrafting"),
    "SpecDecodeShallowDrafts": ("SpecDecodeCollapsed", "SpecDecodeNotDrafting"),
    "SpecDecodeCliff": ("SpecDecodeCollapsed", "SpecDecodeNotDrafting"),
}
"""Which alerts stand behind which: the same cause is told once. Judged again when it is gone."""


MEASURED: Final = frozenset({"acceptance_length", "declared_length", "draft_shape", "step_time"})
"""Checks whose figures a degraded link may bend: each says on which links it was measured."""

BASELINE: Final = "baseline"
"""The check that compares traffic with that of the days before."""

SIBLINGS: Final = "siblings"
"""The check that compares engines itself."""

OWN_TRAFFIC: Final = frozenset({BASELINE, SIBLINGS})
"""Checks that speak of traffic themselves."""


class Seen(NamedTuple):
    """The target's window of this round, and under which launches its drafter was healthy."""

    window: Window
    proven: Proven = NOTHING_PROVEN


UNSEEN: Final = Seen(Window((), 0.0))


def diagnose(
    findings: Sequence[Finding],
    links: Sequence[Finding] = (),
    changes: Changes = UNWATCHED,
    now: float = 0.0,
    routing: str = ANY_ROUTING,
    seen: Seen = UNSEEN,
) -> list[Finding]:
    """
    Put findings that stand behind another aside, and tell the bad ones of their neighbours.

    `links` are the findings about the GPUs that the target uses, or may use; `changes` is what
    changed around the target up to `now`, `routing` how requests come to its engines, `seen` what
    was seen of it in this round and before.
    """
    links = [f for f in links if f.alertname in LINKS]
    shown = list(findings)
    if links:
        shown = [_stamped(f, links) if f.check in MEASURED else f for f in shown]
    if all(f.verdict is OK for f in shown):
        return shown
    bad = {f.identity for f in shown if f.verdict is not Verdict.OK}
    shown = [_behind(f, bad) for f in shown]
    around = Around(changes, now, seen.window.facts, proven=seen.proven,
                    start=seen.window.levels.get(PROCESS_START))  # fmt: skip
    return [_told(f, shown, _near(around, f, seen), routing) if _is_bad(f) else f for f in shown]


def _near(around: Around, finding: Finding, seen: Seen) -> Around:
    """Add what the page shows of the engine that a finding is about."""
    for part in seen.window.parts:
        if part.subject == finding.subject:
            return around._replace(levels=part.levels)
    return around


def _stamped(finding: Finding, links: Sequence[Finding]) -> Finding:
    """Say of a figure on which links it was measured, and what these counted meanwhile."""
    told = [f for f in links if _is_bad(f)]

    def argue() -> Argument:
        own, stamp = finding.argument, _stamp(links, told)
        suspects, ruled_out, summary = own.suspects, own.ruled_out, own.summary
        if told:
            summary = f"{summary}; {stamp}"
        if _is_bad(finding) and told:
            stands = tuple(_stands(finding, f) for f in told)
            suspects = stands + suspects
        elif _is_bad(finding) and _as_declared(links):
            ruled_out = (*ruled_out, f"GPU links: {stamp}")
        evidence = {**own.evidence, "links": stamp}
        return replace(
            own, summary=summary, evidence=evidence, suspects=suspects, ruled_out=ruled_out
        )

    return replace(finding, argue=argue)


def _stamp(links: Sequence[Finding], told: Sequence[Finding]) -> str:
    if told:
        slots = sorted({dict(f.subject).get("slot", "?") for f in told})
        missing = all(f.alertname == "GpuMissing" for f in told)
        what = "with a GPU missing" if missing else "on a degraded link"
        state = f"measured {what}: {', '.join(slots)}"
    elif _as_declared(links):
        count = sum(f.alertname == LINKS[0] for f in links)
        state = f"measured on {count} GPU link(s) as declared"
    else:
        state = "measured on GPU links that are not judged"
    grown: dict[str, dict[str, float]] = {}
    unread = False
    for finding in links:
        window = finding.argument.evidence.get("window")
        grown |= window if isinstance(window, dict) else {}
        unread = unread or (finding.alertname == LINKS[1] and window is None)
    none = "link errors are not counted by all" if unread else "no link errors counted"
    return f"{state}; {spelled(grown) if grown else none} in this window"


def _as_declared(links: Sequence[Finding]) -> bool:
    judged = [f for f in links if f.alertname == LINKS[0]]
    return all(f.verdict is Verdict.OK and f.conclusive for f in judged)


def _is_bad(finding: Finding) -> bool:
    return finding.verdict in (Verdict.WARNING, Verdict.CRITICAL)


def _behind(finding: Finding, bad: set[tuple[str, tuple[tuple[str, str], ...]]]) -> Finding:
    for front in BEHIND.get(finding.alertname, ()):
        if (front, finding.subject) in bad:
            said = Argument(
                f"not judged while {front} is not OK", evidence=finding.argument.evidence
            )
            return replace(finding, verdict=Verdict.OK, conclusive=False, argue=_saying(said))
    return finding


def _saying(argument: Argument) -> Callable[[], Argument]:
    return lambda: argument


def _told(
    finding: Finding,
    all_findings: Sequence[Finding],
    around: Around,
    routing: str,
) -> Finding:
    target = dict(finding.subject).get("target")
    near = [f for f in all_findings if dict(f.subject).get("target") == target and f is not finding]

    def argue() -> Argument:
        own = finding.argument
        case = Case(finding, own, near, around)
        said = replace(
            own,
            ruled_out=own.ruled_out + _ruled_out(finding, near, routing),
            suspects=_suspects(finding, near) + own.suspects,
        )
        return _dated(said, case) if own.evidence.get("onset") else ranked(said, case)

    return replace(finding, argue=argue)


def _dated(said: Argument, case: Case) -> Argument:
    """Say what changed near the onset, before most suspects, and how traffic moved."""
    finding, (changes, now, *_) = case.finding, case.around
    onset: Any = said.evidence["onset"]
    known = told(changes, onset, key_of(finding.subject), now)
    suspects, ruled_out = list(known.suspects), list(known.ruled_out)
    traffic = {} if finding.check in OWN_TRAFFIC else _traffic(finding, case.near)
    line = traffic_line(traffic)
    if line and traffic_moved(traffic):
        suspects.append(other_traffic(line))
    elif line:
        ruled_out.append(line)
    evidence = dict(said.evidence)
    if known.changed:
        evidence["changed"] = [event._asdict() for event in known.changed]
    said = replace(said, evidence=evidence, ruled_out=(*said.ruled_out, *ruled_out))
    return ranked(said, case, tuple(suspects), known.unseen)


def _stands(finding: Finding, other: Finding) -> str:
    """Name a neighbour's alert as a cause: what it would explain of a finding, and what not."""
    return cause(f"{other.alertname}{STANDS}{other.argument.summary}", *_explains(finding, other))


def _explains(finding: Finding, other: Finding) -> tuple[str, str]:
    """Return what another alert predicts of a finding's figure, and what decides."""
    if other.alertname == "ServingRestarting":
        return "that it begins or ends with a start", "the times of the starts against its onset"
    if other.alertname == SLOW:
        return "one cause of both", "whether both heal at the same start or change"
    if finding.alertname == SLOW:
        return "the usual step time once that is mended", "the step time after it is mended"
    return (  # a link carries tensors as they are: it makes no draft worse
        "slower steps, and drafts accepted as before",
        "the acceptance length after it is mended",
    )


def _traffic(finding: Finding, near: Sequence[Finding]) -> Mapping[str, Sequence[float]]:
    """Return how the engine's traffic moved, by the check that knows."""
    for other in near:
        if other.check == BASELINE and other.subject == finding.subject:
            traffic: Any = other.argument.evidence.get("traffic")
            return traffic or {}
    return {}


def _ruled_out(finding: Finding, near: Sequence[Finding], routing: str) -> tuple[str, ...]:
    lines = []
    for other in near:
        healthy = other.verdict is Verdict.OK and other.conclusive
        if other.subject == finding.subject and healthy:
            if other.check == "step_time":
                lines.append(f"GPU, link and host: {other.argument.summary}")
            elif finding.check == "step_time" and other.check == "acceptance_length":
                lines.append(f"the drafter: {other.argument.summary}")
    lines += _siblings(finding, near, routing)
    return tuple(lines)


def _siblings(finding: Finding, near: Sequence[Finding], routing: str) -> list[str]:
    """
    Name the other engines, which have the same model, drafter and, by most routers, traffic.

    Where most of them are as bad, the few that are not, or not yet, rule nothing out; a dead
    drafter is no traffic's fault.
    """
    if finding.check == SIBLINGS:
        return []  # it compares with the others itself
    model = dict(finding.subject).get("model_name")
    same = [
        f for f in near if f.check == finding.check and f.alertname == finding.alertname
        and f.conclusive and f.value is not None and dict(f.subject).get("model_name") == model
    ]  # fmt: skip
    healthy = [f.value for f in same if f.verdict is Verdict.OK and f.value is not None]
    if not healthy or "engine" not in dict(finding.subject):
        return []
    if finding.verdict is not Verdict.CRITICAL and 2 * len(healthy) <= len(same):
        return []
    what = "the launch" if routing == PREFIX_AWARE else "the traffic and the launch"
    unit = f" {finding.unit}" if finding.unit else ""
    spread = f"{min(healthy):.3g} to {max(healthy):.3g}{unit}"
    return [f"{what}: {len(healthy)} other engine(s) have {spread}"]


def _suspects(finding: Finding, near: Sequence[Finding]) -> tuple[str, ...]:
    if finding.alertname == "ServingRestarting":
        return ()
    return tuple(
        _stands(finding, other)
        for other in near
        if _is_bad(other)
        and other.alertname in ("ServingStepsSlow", "ServingRestarting")
        and other.alertname != finding.alertname
    )
