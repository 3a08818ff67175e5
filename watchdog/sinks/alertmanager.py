"""
The Alertmanager sink: tells every instance of a cluster what fires, again and again.

Alertmanager forgets an alert whose `endsAt` passes, keeps alerts in memory only, and does not
gossip them. So each instance hears of every change at once, of all alerts each minute, and of
everything anew after it did not answer. Each has its own thread: one that is slow or down costs
the others nothing. Alerts are sent in batches; if one batch is refused, each of its alerts goes
alone, because one that is refused must not mute the rest.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog

from watchdog.domain.alert import Alert
from watchdog.domain.payload import RESEND, lately, payload
from watchdog.domain.report import RUNBOOK, Delivery, Report
from watchdog.errors import NoAnswer, ProbeError
from watchdog.fetch import Access, Fetcher

log = structlog.get_logger("watchdog.sinks.alertmanager")

NAME: Final = "alertmanager"
BATCH: Final = 64
PATH: Final = "/api/v2/alerts"
MOST_ANSWER: Final = 64 * 1024  # bytes
MOST_WORDS: Final = 200  # characters of an answer that are repeated

ABOUT_US: Final = frozenset({401, 404, 405, 407, 408, 410, 415, 429})
"""Answers about the sender or the place, whatever the body: sent alone, alerts get the same."""

GRACE: Final = 0.5
"""Seconds that a send has after its deadline, to fail by itself with a better sentence."""


class Told(NamedTuple):
    """One alert as Alertmanager reads it; `state` changes with what must be told at once."""

    state: str
    body: dict[str, Any]


class Last(NamedTuple):
    """The state told last, "" if it must be told anew, and when, on the report's timeline."""

    state: str
    at: float


NEVER: Final = Last("", 0.0)


@dataclass(frozen=True)
class Answer:
    """What a POST came to; status 0: no answer, and the alerts may have arrived or not."""

    status: int
    words: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Refused for what the body says."""
        return 400 <= self.status < 500 and self.status not in ABOUT_US


@dataclass
class Tally:
    """What came of one send to one instance; `trouble` is the first answer that was not good."""

    due: int = 0
    taken: int = 0
    trouble: str = ""

    def deliveries(self, instance: str) -> list[Delivery]:
        """Say what was taken, and what was not and why."""
        told, failed = [], self.due - self.taken
        if self.taken:
            told.append(Delivery(NAME, instance, ok=True, detail="taken", count=self.taken))
        if failed:
            detail = self.trouble or "no answer in time"
            told.append(Delivery(NAME, instance, ok=False, detail=detail, count=failed))
        return told


class Alertmanager:
    """One instance. `timeout`: seconds that everything sent in one round may take."""

    def __init__(self, url: str, access: Access | None = None, timeout: float = 10.0) -> None:
        self.url = url
        self.timeout = timeout
        self._fetcher = Fetcher(url, access or Access())
        self._thread: threading.Thread | None = None
        self._tally = Tally()
        self._last: dict[str, Last] = {}  # by identity; touched by one thread at a time

    @property
    def busy(self) -> bool:
        """Whether a send is still on its way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, alerts: Sequence[Told], now: float, resend: float, deadline: float) -> bool:
        """Begin to send what is due; False if nothing is, or the last send still hangs."""
        if self.busy:
            return False
        known = {_identity(told): told for told in alerts}
        self._last = {key: last for key, last in self._last.items() if key in known}
        due = {key: told for key, told in known.items() if self._is_due(key, told, now, resend)}
        if not due:
            return False
        self._tally = Tally(len(due))
        deadline = min(deadline, time.monotonic() + self.timeout)
        self._thread = threading.Thread(
            target=self._send, args=(due, now, deadline), name=f"send-{self.url}", daemon=True
        )
        self._thread.start()
        return True

    def deliveries(self, deadline: float) -> list[Delivery]:
        """Wait for the send that was started, and say what came of it."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()) + GRACE)
        if self.busy:
            self.close()
        return self._tally.deliveries(self._fetcher.shown)

    def close(self) -> None:
        """Break what blocks."""
        self._fetcher.close()

    def _is_due(self, key: str, told: Told, now: float, resend: float) -> bool:
        last = self._last.get(key, NEVER)
        return last.state != told.state or not 0 <= now - last.at < resend

    def _send(self, due: dict[str, Told], now: float, deadline: float) -> None:
        """Send in batches, what was told longest ago first: a short deadline starves nobody."""
        keys = sorted(due, key=lambda key: self._last.get(key, NEVER).at)
        try:
            for i in range(0, len(keys), BATCH):
                if not self._send_batch({k: due[k] for k in keys[i : i + BATCH]}, now, deadline):
                    return
        except Exception as bug:
            log.exception("sending crashed", to=self.url)
            trouble = f"our own fault, please report it: {type(bug).__name__}: {bug}"
            self._tally.trouble = self._tally.trouble or trouble

    def _send_batch(self, batch: dict[str, Told], now: float, deadline: float) -> bool:
        """Send; False where the rest need not be tried in this round."""
        answer = self._post(list(batch.values()), deadline)
        if answer.refused and len(batch) > 1:
            return all(self._send_batch({key: told}, now, deadline) for key, told in batch.items())
        if answer.ok or answer.refused:
            # What was refused is remembered too: unchanged, it comes again at the next resend only.
            self._last |= {key: Last(told.state, now) for key, told in batch.items()}
        if answer.ok:
            self._tally.taken += len(batch)
            return True
        which = [told.body["labels"]["alertname"] + ": " for told in batch.values()]
        self._tally.trouble = self._tally.trouble or which[0] * answer.refused + answer.words
        return answer.refused or answer.status >= 500

    def _post(self, alerts: Sequence[Told], deadline: float) -> Answer:
        body = json.dumps([told.body for told in alerts]).encode()
        try:
            page = self._fetcher.post(PATH, body, deadline, MOST_ANSWER)
        except NoAnswer as error:
            # It may come back with an empty memory: tell it everything anew.
            self._last = {key: last._replace(state="") for key, last in self._last.items()}
            return Answer(0, str(error))
        except ProbeError as error:
            return Answer(0, str(error))
        return Answer(page.status, f"answered {page.status} {_words(page.body)}".rstrip())


@dataclass
class AlertmanagerSink:
    """
    All instances of the cluster. `resend` and `interval` in seconds.

    Delivered means that one instance at least took it; each instance's answer is told.
    """

    instances: tuple[Alertmanager, ...]
    resend: float = RESEND
    interval: float = 15.0
    runbook: str = RUNBOOK
    generator: str = ""
    name: str = field(default=NAME, init=False)

    def send(self, report: Report, deadline: float) -> list[Delivery]:
        """Send to all instances side by side, until the deadline at the latest."""
        bodies = payload(report, self.interval, self.runbook, self.generator)
        alerts = [Told(_state(a), body) for a, body in zip(lately(report), bodies, strict=True)]
        waited = [
            instance
            for instance in self.instances
            if instance.start(alerts, report.now, self.resend, deadline) or instance.busy
        ]
        return [d for instance in waited for d in instance.deliveries(deadline)]

    def close(self) -> None:
        """Break every send; for the end of the process."""
        for instance in self.instances:
            instance.close()


def _identity(told: Told) -> str:
    """Labels alone make an alert the same to Alertmanager."""
    return json.dumps(told.body["labels"], sort_keys=True)


def _state(alert: Alert) -> str:
    return f"{alert.state.value} {alert.fired_at} {alert.resolved_at}"


def _words(body: bytes) -> str:
    text = body.decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() else " " for c in text)[:MOST_WORDS]
