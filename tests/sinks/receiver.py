"""A web hook's receiver that answers as it is told, misbehaviour included."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

HANG, DROP, DRIP = "hang", "drop", "drip"
"""Instead of an answer: silence, a closed connection, a header a tenth of a second for ever."""


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


class Answered(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    drip: float = 0.0  # seconds between the bytes of the body


class Receiver:
    """`answers` are used up one by one, the last one stays; each may look at what was asked."""

    def __init__(self, *answers: Answered | str | Callable[[Asked], Answered | str]) -> None:
        self.answers = list(answers) or [Answered()]
        self.asked: list[Asked] = []
        self.ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                headers = dict(self.headers.items())
                body = self.rfile.read(length)
                asked = Asked(self.command, self.path, headers, body, time.monotonic())
                outer.asked.append(asked)
                outer.answer(self, asked)

            do_GET = do_POST  # noqa: N815  the library's word

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def keys(self) -> list[str]:
        return [asked.key for asked in self.asked]

    def answer(self, to: BaseHTTPRequestHandler, asked: Asked) -> None:
        what = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        what = what(asked) if callable(what) else what
        if what == DROP:
            to.close_connection = True
        elif what == HANG:
            self.ended.wait(30)
        elif what == DRIP:
            self._drip(to)
        elif isinstance(what, Answered):
            to.send_response(what.status)
            for name, value in what.headers:
                to.send_header(name, value)
            to.send_header("Content-Length", str(len(what.body)))
            to.end_headers()
            if not what.drip:
                to.wfile.write(what.body)
            for i in range(len(what.body) if what.drip else 0):
                to.wfile.write(what.body[i : i + 1])
                self.ended.wait(what.drip)

    def _drip(self, to: BaseHTTPRequestHandler) -> None:
        to.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for i in range(300):
            if self.ended.wait(0.1):
                return
            to.wfile.write(b"X-%d: a\r\n" % i)

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
