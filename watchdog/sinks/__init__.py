"""
Sinks carry a report to one kind of place; they judge nothing.

A sink has a `name` and one verb, `send(report, deadline) -> deliveries`; `deadline` is a
`time.monotonic()` value. It sends what it is handed and says what was answered; a failure is a
Delivery, not an exception. To add one, write the file and its test, and name it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from watchdog.domain.alert import TEST_ALERT, Alert, Change, Signal, State
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.report import Delivery, Report
from watchdog.domain.sample import Labels, labels
from watchdog.sinks.alertmanager import AlertmanagerSink
from watchdog.sinks.log import Log
from watchdog.sinks.ping import Ping
from watchdog.sinks.stamp import StampSink
from watchdog.sinks.textfile import Textfile
from watchdog.sinks.webhook import WebhookSink


class Sink(Protocol):
    """Carries reports to one kind of place."""

    @property
    def name(self) -> str:
        """Name of the kind of place."""
        ...

    def send(self, report: Report, deadline: float) -> list[Delivery]:
        """Send; return what each instance answered, nothing where nothing was due."""
        ...


SINKS: Mapping[str, Callable[..., Any]] = {
    "log": Log,
    "alertmanager": AlertmanagerSink,
    "webhook": WebhookSink,
    "textfile": Textfile,
    "ping": Ping,
    "stamp": StampSink,
}


def test_report(host: str, version: str, now: float, configured: Labels) -> Report:
    """
    Make the report of `watchdog alert test`: one marked alert that fires.

    It goes through every sink as any other report does, so that what is tested is the real way.
    """
    said = Argument(
        f"a test from {host}: nothing is wrong; alerts of serving-watchdog arrive here",
        evidence={"sent_by": "watchdog alert test"},
        next_step="nothing to do: this alert ends by itself after 5 minutes",
    )
    finding = Finding(TEST_ALERT, labels(test="true"), Verdict.WARNING, lambda: said, check="test")
    alert = Alert(finding, State.FIRING, bad_since=now, fired_at=now, seen_at=now)
    change = Change(alert, State.INACTIVE, Signal.BAD_FOR_LONG)
    return Report(
        host, version, now, findings=(finding,), alerts=(alert,), changes=(change,),
        labels=configured,
    )  # fmt: skip


EACH: Final = frozenset({"webhook"})
"""Sinks whose every place must be told; of the others one instance that took it is enough."""


def untold(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Return those that failed where nothing else got through in their place."""
    told = list(deliveries)
    enough = {delivery.sink for delivery in told if delivery.ok} - EACH
    return [delivery for delivery in told if not delivery.ok and delivery.sink not in enough]


def undelivered(deliveries: Iterable[Delivery]) -> list[str]:
    """Name the sinks that could not tell everybody who must be told."""
    return list(dict.fromkeys(delivery.sink for delivery in untold(deliveries)))
