"""
The ping sink: tells an outside dead-man's switch, such as Healthchecks, that we are alive.

The switch calls somebody when the pings stop, which no alert of ours can. It is told at once
when nobody else can be told. Its address is a secret: only scheme and host are ever shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import structlog

from watchdog.domain.notice import is_test
from watchdog.domain.report import Delivery, Report
from watchdog.posting import Address, Answer

log = structlog.get_logger("watchdog.sinks.ping")

NAME: Final = "ping"
TIMEOUT: Final = 10.0
"""Seconds that one request may take in all."""

EVERY: Final = 59.5
"""Seconds between pings; a round may be early, and 60 s would now and then become 75."""

AGAIN: Final = 15.0
"""Seconds until a ping that failed is tried again; Healthchecks takes 5 a minute."""

MOST_TROUBLE: Final = 1000  # characters
START, SUCCESS, FAIL = "start", "success", "fail"

NOT_PINGED: Final = "not pinged: a test must not pass for a daemon that is alive"

NO_TROUBLE: Callable[[], str] = str


class Sent(NamedTuple):
    """What was sent last, when on the report's timeline, and whether it was taken."""

    what: str
    at: float
    ok: bool


@dataclass
class Ping:
    """
    `start_url` and `fail_url`: None for `url` with /start and /fail after its path, "" for none.

    `trouble` says in a sentence why nobody can be told, "" while somebody can.
    """

    url: str
    start_url: str | None = None
    fail_url: str | None = None
    trouble: Callable[[], str] = NO_TROUBLE
    timeout: float = TIMEOUT
    name: str = field(default=NAME, init=False)
    _last: Sent | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _told: list[Delivery] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        places = {
            START: _below(self.url, START) if self.start_url is None else self.start_url,
            SUCCESS: self.url,
            FAIL: _below(self.url, FAIL) if self.fail_url is None else self.fail_url,
        }
        self._places = {what: Address(url) for what, url in places.items() if url}

    def send(self, report: Report, deadline: float) -> list[Delivery]:  # noqa: ARG002
        """
        Start what is due, and say what came of the last request: a round waits for nothing.

        A test sends nothing: who tests each night would keep a dead daemon's switch quiet.
        """
        if is_test(report):
            return [
                Delivery(NAME, self._places[SUCCESS].shown, ok=True, detail=NOT_PINGED, count=0)
            ]
        if self._thread is not None and self._thread.is_alive():
            return []
        told, self._told = self._told, []
        trouble = self.trouble()
        what = self._due(report.now, FAIL if trouble else SUCCESS)
        if what in self._places:
            self._start(what, report.now, trouble if what == FAIL else "")
        return told

    def close(self) -> None:
        """Break the request that is under way."""
        for address in self._places.values():
            address.close()

    def _due(self, now: float, what: str) -> str:
        """Return what to send now, "" for nothing."""
        last = self._last
        if last is None:
            if START in self._places:
                return START
            return what
        if last.what == START or (what == FAIL and last.what != FAIL):
            return what
        waited = now - last.at
        return what if waited >= (EVERY if last.ok else AGAIN) or waited < 0 else ""

    def _start(self, what: str, now: float, trouble: str) -> None:
        self._last = Sent(what, now, ok=False)
        self._thread = threading.Thread(
            target=self._request, args=(what, now, trouble), name="ping", daemon=True
        )
        self._thread.start()

    def _request(self, what: str, now: float, trouble: str) -> None:
        address, deadline = self._places[what], time.monotonic() + self.timeout
        try:
            if trouble:
                body = trouble[:MOST_TROUBLE].encode("utf-8", "replace")
                answer = address.post(body, deadline, "text/plain; charset=utf-8")
            else:
                answer = address.get(deadline)
        except Exception as bug:  # noqa: BLE001  told without traceback: its end may hold the address
            log.error("pinging crashed", to=address.shown, error=type(bug).__name__)  # noqa: TRY400
            answer = Answer(0, f"our own fault, please report it: {type(bug).__name__}")
        ok = _taken(answer)
        self._last = Sent(what, now, ok)
        detail = f"{what}: {'taken' if ok else answer.words}"
        self._told.append(Delivery(NAME, address.shown, ok=ok, detail=detail, count=1))


def _taken(answer: Answer) -> bool:
    """Healthchecks answers 200 even to "OK (not found)" and "OK (rate limited)"."""
    return answer.ok and not answer.words.startswith("answered 200 OK (")


def _below(url: str, what: str) -> str:
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{what}").geturl()
