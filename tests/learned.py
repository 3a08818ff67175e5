"""Baselines in a test: a check that learns nothing of itself, and an assessor that has it."""

from __future__ import annotations

from typing import Any, NamedTuple

from watchdog.baselines import CHECK
from watchdog.domain.alert import AlertBook
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.history import History
from watchdog.domain.sample import HOST, Labels, labels

NOW = 1_796_040_000.0  # 2026-11-30T12:00:00Z
HOUR = 3600.0


class Known(NamedTuple):
    """What is known of one engine; `lately` is its length of the last day, None for no traffic."""

    days: int = 28
    length: float | None = 3.77
    lately: float | None = 2.9
    raised: str = ""
    why: str = ""
    accepted_at: float | None = None


class Learner:
    """Keeps what a test says; takes three requests a day for enough."""

    about = "engine"

    def step(self, state: Known, _window: Any, _now: float) -> tuple[Known, list[Any]]:
        return state, []

    def outline(self, state: Known, now: float) -> dict[str, Any]:
        return {
            "days": state.days, "days_needed": 7, "length": state.length,
            "length_24h": state.lately, "requests_24h": 1234.0 if state.lately else 0.0,
            "length_72h": state.lately, "raised": state.raised,
            "raised_at": now - 2 * HOUR if state.raised else None,
            "accepted_at": state.accepted_at, "learning": not state.why,
            "why_not_learning": state.why, "daily": [[now - HOUR, 3.7]],
        }  # fmt: skip

    def accept(self, state: Known, now: float) -> Known:
        if state.lately is None:
            raise ValueError("0 requests in 72 h are too few")
        return Known(7, state.lately, state.lately, accepted_at=now)

    def reset(self, state: Known, _now: float) -> Known:
        return Known(0, None, state.lately)


def engine(number: str = "0", target: str = "qwen") -> Labels:
    return labels(target=target, engine=number, model_name="qwen3")


def assessor(known: dict[Labels, Known]) -> Assessor:
    """An assessor that watches this host, `qwen`, and what else is known of."""
    targets = dict.fromkeys(["qwen", *(dict(subject)["target"] for subject in known)])
    watches = {HOST: Watch(History(HOST), {})}
    for target in targets:
        states = {
            subject: {CHECK: state, "serving": None}
            for subject, state in known.items()
            if ("target", target) in subject
        }
        states[labels(target=target)] = {"serving": None}
        watches[target] = Watch(History(target), {CHECK: Learner()}, states)
    return Assessor("gpu-1", "1.0", watches, AlertBook())
