"""A port in a test: what it shows, and clients that ask it well, badly, slowly or never."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from watchdog.board import Board
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.report import Report
from watchdog.domain.sample import Reading, labels
from watchdog.server import Bounds, Server

JSON = {"Content-Type": "application/json"}
HEALTHY = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"
REPORT = b"GET /api/v1/report HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Watched:
    """A daemon as the port sees it: two targets, of which one may be paused."""

    board: Board = field(default_factory=Board)
    pauses: dict[str, float] = field(default_factory=dict)
    young: bool = True

    def __post_init__(self) -> None:
        self.board.healthy = lambda: self.young
        self.board.known_targets = lambda: ["qwen", "llama"]
        self.board.pause = self.pauses.__setitem__
        self.board.resume = lambda target: self.pauses.pop(target, None) is not None


def report(value: float = 1.079, padding: int = 0) -> Report:
    """A report with one alert; `padding` bytes make it long."""
    evidence = {"acceptance_length": value, "list": [value, (value,)], "padding": "x" * padding}
    said = Argument("said", evidence=evidence)
    finding = Finding(
        "SpecDecodeCollapsed", labels(target="qwen"), Verdict.CRITICAL, lambda: said,
        value=value, check="acceptance_length",
    )  # fmt: skip
    readings = (Reading("vllm_metrics", "qwen", took=0.02),)
    return Report("gpu-1", "1.0", 1000.0, readings, (finding,))


@contextlib.contextmanager
def serving(board: Board, **bounds: Any) -> Iterator[Server]:
    server = Server("127.0.0.1:0", board, Bounds(**bounds))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(
    server: Server, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, bytes]:
    """Return status, headers and body of one answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, 10)) as line:
        line.request(method, path, body, headers or {})
        answer = line.getresponse()
        return answer.status, answer.headers, answer.read()


def get(server: Server, path: str) -> tuple[int, Any, bytes]:
    return ask(server, "GET", path)


def post(server: Server, path: str, asked: Any, **headers: str) -> tuple[int, Any]:
    status, _, body = ask(server, "POST", path, json.dumps(asked), {**JSON, **headers})
    return status, json.loads(body)


def connected(server: Server, receive: int = 0) -> socket.socket:
    """Connect and say nothing. `receive` bytes are what the kernel takes for the client unread."""
    client = socket.socket()
    if receive:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    client.settimeout(15)
    client.connect(("127.0.0.1", server.port))
    return client


def status_of(client: socket.socket) -> int:
    """Read one answer, whole; the connection stays."""
    answer = http.client.HTTPResponse(client)
    answer.begin()
    answer.read()
    return answer.status


def read_all(client: socket.socket) -> bytes:
    """Return what comes until the port closes the connection, in whatever way."""
    came = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            came += part
    return came


def raw(server: Server, *parts: bytes) -> bytes:
    """Send bytes as they are; return all that comes until the port closes."""
    with connected(server) as client:
        for part in parts:
            client.sendall(part)
        return read_all(client)


def is_open(client: socket.socket) -> bool:
    """Whether the port has closed its end; nothing else may have come."""
    client.setblocking(False)
    try:
        return client.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    finally:
        client.settimeout(15)


def until(holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Poll a condition until a deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.01)


def clients_of(server: Server) -> int:
    """Return how many connections the port has now."""
    return len(server._server.active_channels) if server._server else 0
