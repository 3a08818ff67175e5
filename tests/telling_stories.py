"""Tells stories of engines: counters that move window by window, through the real assessor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.deciding import every_cause_decides
from watchdog.checks import ABOUT_HOST, CHECKS
from watchdog.domain import series as s
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.finding import Finding
from watchdog.domain.history import History
from watchdog.domain.profile import Profile
from watchdog.domain.report import Report
from watchdog.domain.sample import Labels, Reading, Sample, labels

TARGET = "qwen"


@dataclass
class Engine:
    """One engine's totals. `depth` 0: speculation is off and its series do not exist."""

    depth: int = 7
    name: str = "0"
    running: float = 1.0
    waiting: float = 0.0
    kv: float = 0.1
    awake: float = 1.0
    totals: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    @property
    def subject(self) -> Labels:
        return labels(target=TARGET, engine=self.name, model_name="m")

    def restart(self) -> None:
        """Begin anew: every counter at 0."""
        names = [s.GENERATED_TOKENS, s.PROMPT_TOKENS, s.FIRST_TOKENS, s.UPDATES, s.UPDATE_SECONDS,
                 s.ITERATIONS, s.FINISHED, s.ABORTED]  # fmt: skip
        if self.depth:
            names += [s.DRAFTS, s.DRAFT_TOKENS, s.ACCEPTED_TOKENS, *s.POSITIONS[: self.depth]]
        self.totals = dict.fromkeys(names, 0.0)

    def add(self, **grown: float) -> None:
        """Let counters grow, by their words in `domain/series.py`."""
        for name, by in grown.items():
            self.totals[name] += by

    def draft(
        self,
        drafts: float,
        positions: Sequence[float],
        *,
        requests: float = 1.0,
        tokens: float | None = None,
        updates: float | None = None,
        step: float = 0.03,
        batch: float = 1.0,
    ) -> None:
        """
        Decode with drafts: `positions` are accepted counts at each position, from 0.

        `tokens` are draft tokens (default: full depth), `updates` decode updates (default: one
        a draft), `step` seconds each.
        """
        updates = drafts if updates is None else updates
        accepted = sum(positions)
        for name, count in zip(s.POSITIONS, positions, strict=False):
            self.totals[name] += count
        self.add(
            drafts=drafts,
            draft_tokens=drafts * self.depth if tokens is None else tokens,
            accepted_tokens=accepted,
        )
        self.decode(updates, requests=requests, extra=accepted, step=step, batch=batch)

    def decode(
        self,
        updates: float,
        *,
        requests: float = 1.0,
        extra: float = 0.0,
        step: float = 0.03,
        batch: float = 1.0,
    ) -> None:
        """Decode: `extra` tokens beyond one an update."""
        self.add(
            updates=updates,
            generated_tokens=updates + extra + requests,
            first_tokens=requests,
            prompt_tokens=100 * requests,
            update_seconds=updates * step,
            iterations=updates / batch,
            finished=requests,
        )

    def samples(self) -> list[Sample]:
        """What a page would say now."""
        levels = {s.RUNNING: self.running, s.WAITING: self.waiting, s.KV_USAGE: self.kv,
                  s.AWAKE: self.awake}  # fmt: skip
        return [Sample(self.subject, k, v) for k, v in {**self.totals, **levels}.items()]


@dataclass
class Story:
    """Engines of one target, watched by the real checks; `limits` go to checks by name."""

    engines: Sequence[Engine]
    profile: Profile = field(default_factory=Profile)
    interval: float = 15.0
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: str = "text"
    start: float | None = 1.0  # process start time on the page
    now: float = 1_000_000.0
    causes: set[str] = field(default_factory=set)  # alerts whose causes were looked at

    def __post_init__(self) -> None:
        kinds = {name: kind for name, kind in CHECKS.items() if kind.about not in ABOUT_HOST}
        checks = {name: kind(**self.limits.get(name, {})) for name, kind in kinds.items()}
        history = History(TARGET, self.profile, 2.5 * self.interval)
        self.assessor = Assessor("host", "0", {TARGET: Watch(history, checks)})
        self.report: Report = self.round()

    def round(self, seconds: float | None = None) -> Report:
        """Read every engine once, an interval later."""
        self.now += self.interval if seconds is None else seconds
        samples = [x for engine in self.engines for x in engine.samples()]
        if self.start is not None:
            samples.append(Sample(labels(target=TARGET), s.PROCESS_START, self.start))
        reading = Reading("vllm_metrics", TARGET, tuple(samples), {"format": self.format})
        self.report = self.assessor.assess([reading], self.now)
        every_cause_decides(self.report.findings, self.causes)
        return self.report

    def fail(self, error: str = "refused", *, answered: bool = False, **facts: object) -> Report:
        """One round in which the page could not be read."""
        self.now += self.interval
        readings = [
            Reading("vllm_metrics", TARGET, error=error, answered=answered),
            Reading("launch", TARGET, facts=facts),
        ]
        self.report = self.assessor.assess(readings, self.now)
        return self.report

    def finding(self, alertname: str, engine: str | None = None) -> Finding | None:
        """The finding of the last round, None where there is none."""
        for found in self.report.findings:
            if found.alertname == alertname and engine in (None, dict(found.subject).get("engine")):
                return found
        return None

    def verdict(self, alertname: str, engine: str | None = None) -> str:
        """`OK`, `WARNING`, `CRITICAL`, `UNKNOWN`, `thin` (inconclusive OK) or `silent`."""
        found = self.finding(alertname, engine)
        if found is None:
            return "silent"
        return found.verdict.name if found.conclusive or found.verdict else "thin"

    def fired(self) -> set[str]:
        """Alertnames that fire now."""
        return {a.finding.alertname for a in self.report.alerts if a.state.value == "firing"}

    def bad(self) -> set[str]:
        """Alertnames with a bad verdict in this round, pending ones too."""
        return {f.alertname for f in self.report.findings if f.verdict.name in BAD}


BAD = ("WARNING", "CRITICAL")


def shares(drafts: float, *ratios: float) -> list[float]:
    """Accepted counts at each position, from shares of the drafts."""
    return [drafts * ratio for ratio in ratios]
