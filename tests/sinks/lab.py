"""A stub that takes posts, and reports as literals."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from watchdog.domain.alert import Alert, State
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.report import Report
from watchdog.domain.sample import labels

SAID = Argument(
    "qwen: the drafter is dead",
    "position 0 accepted on more than 20 % of the drafts",
    {"drafts": 1700.0, "positions": [0.067, 0.0099], "queue": None, "acceptance_length": 1.079},
    ("queueing: 0 requests waiting",),
    ("a compile cache of an older launch", "other weights"),
    "restart the server with its compile cache moved aside",
)


def alert(
    fired_at: float = 1000.0,
    resolved_at: float | None = None,
    name: str = "SpecDecodeCollapsed",
    said: Argument = SAID,
    **subject: str,
) -> Alert:
    """Make an alert that fires, or that is resolved if it says when."""
    subject = subject or {"target": "qwen", "engine": "0"}
    finding = Finding(name, labels(**subject), Verdict.CRITICAL, lambda: said)
    state = State.FIRING if resolved_at is None else State.RESOLVED
    return Alert(finding, state, fired_at=fired_at, resolved_at=resolved_at)


def report(now: float, *alerts: Alert, skew: float = 0.0, **configured: str) -> Report:
    return Report("gpu-1", "1.0", now, alerts=alerts, labels=labels(**configured), skew=skew)


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait for it to be true, and return what it then was."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still not true after {seconds} s"
        time.sleep(0.02)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Hook:
    """
    A web hook's receiver, and all bodies that were posted to it.

    `asked` counts the empty lists, which are no news: they ask an Alertmanager what time it is.
    `clock` is what the answers are dated by, Unix seconds; None: they have no date. `drip` is the
    pause between any two bytes of an answer's body, in seconds.
    """

    answer: Callable[[list[Any]], tuple[int, bytes]] = lambda _: (200, b"")
    bodies: list[Any] = field(default_factory=list)
    port: int = 0
    asked: int = 0
    authorizations: list[str | None] = field(default_factory=list)
    clock: Callable[[], float] | None = None
    drip: float = 0.0
    server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.authorizations.append(self.headers["Authorization"])
                if body == []:
                    hook.asked += 1
                else:
                    hook.bodies.append(body)
                status, words = hook.answer(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                with contextlib.suppress(OSError):  # who posts need not wait for the end
                    for piece in (words,) if not hook.drip else map(bytes, zip(words)):
                        time.sleep(hook.drip)
                        self.wfile.write(piece)

            def send_header(self, keyword: str, value: str) -> None:
                if keyword == "Date":
                    if hook.clock is None:
                        return
                    value = self.date_time_string(hook.clock())
                super().send_header(keyword, value)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as page:
            return page.status == 200
    except OSError:
        return False
