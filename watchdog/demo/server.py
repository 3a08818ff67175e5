"""The simulated server's port: /metrics, /version, /v1/models and /health over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from watchdog.clock import Clock
from watchdog.demo.page import MODEL, render
from watchdog.demo.simulation import Life

VERSION: Final = "0.32.0"
TEXT: Final = "text/plain; version=1.0.0; charset=utf-8"


class SimulatedServer:
    """
    One server on one loopback port, over several lives.

    Between two lives the port refuses connections, as that of a real server does, and stays
    ours: it is bound by a socket that never listens.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]
        self._http: _Http | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def serve(self, life: Life) -> None:
        """Open the port with this life behind it."""
        self._http = _Http(_bound(self.port), life, self._clock)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="simulated-vllm", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close the port; nothing happens if it is closed."""
        http, thread = self._http, self._thread
        self._http = self._thread = None
        if http is not None and thread is not None:
            http.shutdown()
            thread.join()
            http.server_close()

    def close(self) -> None:
        """Close the port for good."""
        self.stop()
        self._reserved.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, bound: socket.socket, life: Life, clock: Clock) -> None:
        super().__init__(bound.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.socket.listen()
        self._life, self._clock = life, clock

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        if path == "/metrics":
            return 200, TEXT, render([self._life.counters(self._clock.now())]).encode()
        if path == "/health":
            return 200, TEXT, b""
        if path in {"/version", "/v1/models"}:
            data: Any = {"version": VERSION} if path == "/version" else _models()
            return 200, "application/json", json.dumps(data).encode()
        return 404, "application/json", b'{"detail":"Not Found"}'


class _Handler(BaseHTTPRequestHandler):
    server: _Http

    def do_GET(self) -> None:
        status, content_type, body = self.server.answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the narrator speaks."""


def _models() -> dict[str, Any]:
    model = {"id": MODEL, "object": "model", "owned_by": "vllm", "root": "/models/demo"}
    return {"object": "list", "data": [model]}


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    return bound
