"""
Is each version that is claimed of a server the one that runs?

Component by component, and only where both sides are known. An environment variable, a label or
the configuration is a claim; the running artifact counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from watchdog.domain.causes import cause
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, target_of
from watchdog.domain.sample import Facts
from watchdog.domain.texts import one_line
from watchdog.domain.version_claims import LOG, PAGE, Version, agree, best, from_rows

NAME = "VersionClaimMismatch"
CONFIGURED = "configuration expect.version"
MOST_TEXT = 64
MOST_TOLD = 8


class State(NamedTuple):
    """Claims that were contradicted when both sides were known last, and rounds in a row of it."""

    rounds: int = 0
    bad: tuple[tuple[str, str], ...] = ()  # component, and who claims
    told: bool = False


class Pair(NamedTuple):
    """A claim and the report that decides it, None where nothing reports; `same` as `agree`."""

    claim: Version
    report: Version | None
    same: bool | None

    @property
    def key(self) -> tuple[str, str]:
        """What it is about: the claim may change its version."""
        return self.claim.component, self.claim.by


@dataclass(frozen=True)
class Versions:
    """Fields are limits: rounds in a row."""

    about: ClassVar[str] = "target"

    rounds: int = 2

    def step(
        self,
        state: State | None,
        window: Window,
        now: float,  # noqa: ARG002  (rounds are counted)
    ) -> tuple[State | None, list[Finding]]:
        """Judge one round of one target; silent where nothing was ever claimed."""
        state = state or State()
        pairs, seen = _pairs(window)
        if not pairs and not state.told:
            return None, []
        wrong = [pair for pair in pairs if pair.same is False]
        decided = {pair.key for pair in pairs if pair.same is not None}
        claimed = {pair.key for pair in pairs}
        gone = {key for key in state.bad if seen and key not in claimed}
        open_ = tuple(key for key in state.bad if key not in decided | gone)
        rounds = state.rounds + 1 if wrong else state.rounds if open_ else 0
        bad = bool(wrong) and rounds >= self.rounds
        sure = bad or (not wrong and not open_ and (bool(decided) or (seen and not pairs)))
        verdict = Verdict.WARNING if bad else OK

        def argue() -> Argument:
            return _argue(window, pairs, bad=bad)

        after = State(rounds, (*open_, *(pair.key for pair in wrong)), told=True)
        return after, [Finding(NAME, window.subject, verdict, argue, sure)]


def _pairs(window: Window) -> tuple[list[Pair], bool]:
    """Return each claim with what decides it, and whether all claims of the launch are known."""
    launch = _of_this_launch(window.facts)
    claims = list(from_rows(launch.get("claims"))) if launch is not None else []
    if window.profile.version is not None:
        claims.insert(0, Version("vllm", window.profile.version, CONFIGURED))
    reports = _reports(window.facts, launch or {})
    seen = launch is not None and not launch.get("partial")
    return [_pair(claim, reports) for claim in claims], seen


def _pair(claim: Version, reports: Sequence[Version]) -> Pair:
    report = best(one for one in reports if one.component == claim.component)
    same = None if report is None else agree(claim.version, report.version)
    return Pair(claim, report, same)


def _of_this_launch(facts: Facts) -> Mapping[str, Any] | None:
    """Return what was found of the launch that answers now, and not of the one before it."""
    told = facts.get("versions")
    if not isinstance(told, Mapping) or facts.get("gpus_start") != facts.get("process_start"):
        return None
    return told


def _reports(facts: Facts, launch: Mapping[str, Any]) -> list[Version]:
    """Gather who reports: the page of this round, the log, and what is installed."""
    reports = [one for one in from_rows(launch.get("reports")) if one.by != PAGE]
    page, log = facts.get("version"), facts.get("log")
    if isinstance(page, str) and page:
        reports.append(Version("vllm", page, PAGE))
    if isinstance(log, Mapping):
        parts = log.get("components")
        told = dict(parts) if isinstance(parts, Mapping) else {}
        told = {"vllm": log.get("version"), **told}
        reports += [Version(str(k), v, LOG) for k, v in told.items() if isinstance(v, str) and v]
    return reports


def _argue(window: Window, pairs: Sequence[Pair], *, bad: bool) -> Argument:
    who = target_of(window)
    wrong = [pair for pair in pairs if pair.same is False]
    right = [pair for pair in pairs if pair.same]
    dark = [pair for pair in pairs if pair.same is None]
    proof: dict[str, object] = {"versions": [_row(pair) for pair in pairs[:MOST_TOLD]]}
    if not pairs:
        return Argument(f"{who}: no version is claimed, as far as is known in this round")
    if not wrong:
        told = [_right(pair) for pair in right[:MOST_TOLD]] + [_dark(p) for p in dark[:MOST_TOLD]]
        return Argument(f"{who}: {'; '.join(told)}", evidence=proof)
    said = f"{who}: " + "; ".join(_wrong(pair) for pair in wrong[:MOST_TOLD])
    if not bad:
        return Argument(f"{said}; another such round decides", evidence=proof)
    first = wrong[0]
    return Argument(
        f"{said}. A claim is not a measurement: the running artifact counts",
        "each claimed version is the one that runs, as far as the claim goes",
        proof,
        ruled_out=(
            "a claim that only says less: 0.27 claims any 0.27.x, and one without a local part "
            "any build",
            *(_right(pair) for pair in right[:MOST_TOLD]),
        ),
        suspects=(
            cause(
                "a claim that an older image or launch left behind",
                f"that the last deployment names {_report(first)}",
                "the version that the last deployment names",
            ),
            cause(
                "another image, or another environment, than the one that was meant",
                f"that the last deployment names {one_line(first.claim.version, MOST_TEXT)}",
                "the digest of the image that runs, against that of the last deployment",
            ),
        ),
        next_step=f"correct the claim ({first.claim.by}) if {_report(first)} is what you mean to "
        f"run; else deploy the image that was meant",
    )


def _wrong(pair: Pair) -> str:
    return f"{_claim(pair)}, and {_report(pair)} is what runs"


def _right(pair: Pair) -> str:
    return f"{_claim(pair)}, and {_report(pair)} runs"


def _dark(pair: Pair) -> str:
    if pair.report is None:
        return f"{_claim(pair)}, and nothing that runs tells its version"
    return f"{_claim(pair)}, which cannot be compared with {_report(pair)}"


def _claim(pair: Pair) -> str:
    claim = pair.claim
    return (
        f"{one_line(claim.component, MOST_TEXT)} {one_line(claim.version, MOST_TEXT)} is claimed "
        f"by {one_line(claim.by, 2 * MOST_TEXT)}"
    )


def _report(pair: Pair) -> str:
    report = pair.report
    if report is None:
        return "nothing"
    return f"{one_line(report.version, MOST_TEXT)} ({one_line(report.by, 2 * MOST_TEXT)})"


def _row(pair: Pair) -> dict[str, object]:
    report = pair.report
    return {
        "component": pair.claim.component,
        "claimed": pair.claim.version,
        "claimed_by": pair.claim.by,
        "reported": report.version if report else None,
        "reported_by": report.by if report else None,
    }
