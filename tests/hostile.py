"""An HTTP server that behaves as badly as a test asks: one function says all that it sends."""

from __future__ import annotations

import contextlib
import functools
import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Behaviour = Callable[["Visit"], None]
"""What is done with one connection; it is closed afterwards."""


class Visit:
    """One connection: the request that came, and the way to answer."""

    def __init__(self, sock: socket.socket, request: bytes, server: HostileServer) -> None:
        self.sock, self.request, self.server = sock, request, server
        self.path = request.split(b" ", 2)[1].decode("latin-1") if request.count(b" ") > 1 else ""

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def drip(self, data: bytes, pause: float = 0.02) -> None:
        """Send a byte at a time, until the other side has had enough."""
        for i in range(len(data)):
            self.send(data[i : i + 1])
            if self.server.stopping.wait(pause):
                return

    def header(self, name: str) -> str | None:
        for line in self.request.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None


class HostileServer:
    """
    Listens on loopback or on a Unix socket; each connection has a thread while it lasts.

    `visits` counts connections, `sent_away` those that the other side ended.
    """

    def __init__(
        self, behaviour: Behaviour, path: Path | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.behaviour, self.tls = behaviour, tls
        self.visits: list[Visit] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.port = self._listener.getsockname()[1]
            scheme = "http" if tls is None else "https"
            self.url = f"{scheme}://127.0.0.1:{self.port}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen()
            self.url = f"unix://{path}"
        self._start(self._accept)

    def __enter__(self) -> HostileServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(10)
        self._listener.close()

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, name="hostile", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.add(sock)
        try:
            with contextlib.suppress(OSError):
                if self.tls is not None:
                    with self._lock:
                        self._open.discard(sock)
                    sock = self.tls.wrap_socket(sock, server_side=True)
                    with self._lock:
                        self._open.add(sock)
                visit = Visit(sock, _request(sock), self)
                self.visits.append(visit)
                self.behaviour(visit)
        finally:
            with self._lock:
                self._open.discard(sock)
                sock.close()


def _request(sock: socket.socket) -> bytes:
    """Read headers and as much of a body as was announced."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    announced = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
    size = int(announced[0].split(b":")[1]) if announced else 0
    while len(body) < size:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(
    body: bytes,
    status: str = "200 OK",
    content_type: str = "text/plain; version=1.0.0; charset=utf-8",
    length: int | None = None,
    **more: str,
) -> bytes:
    """One whole answer; `length` is announced instead of the true one."""
    headers = {"Content-Type": content_type, "Content-Length": str(length or len(body)), **more}
    head = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def says(body: bytes, **kwargs: object) -> Behaviour:
    """Well-behaved in all but what it says."""
    return lambda visit: visit.send(answer(body, **kwargs))  # type: ignore[arg-type]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def drips_bytes(visit: Visit) -> None:
    visit.send(HEAD + b"Content-Length: 100000\r\n\r\n")
    visit.drip(b"x" * 100_000)


def drips_headers(visit: Visit) -> None:
    visit.drip(HEAD + b"X-Long: " + b"x" * 100_000)


def drips_continues(visit: Visit) -> None:
    visit.drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)


def floods_continues(visit: Visit) -> None:
    while not visit.server.stopping.is_set():
        visit.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def never_ends(visit: Visit) -> None:
    """Chunked for ever, at full speed."""
    visit.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    while not visit.server.stopping.is_set():
        visit.send(chunk)


def never_ends_slowly(visit: Visit) -> None:
    visit.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    visit.drip(b"1\r\nx\r\n" * 100_000)


def trailers_for_ever(visit: Visit) -> None:
    visit.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
    while not visit.server.stopping.is_set():
        visit.send(b"X-Trailer: x\r\n" * 1000)


def a_gigabyte(visit: Visit) -> None:
    """Announced by nothing but its end."""
    visit.send(HEAD + b"Connection: close\r\n\r\n")
    piece = b"vllm:x 1\n" * 10_000
    for _ in range(2**30 // len(piece)):
        visit.send(piece)


def announces_a_gigabyte(visit: Visit) -> None:
    visit.send(HEAD + b"Content-Length: 1073741824\r\n\r\n")
    visit.drip(b"x" * 100_000)


def says_nothing(visit: Visit) -> None:
    visit.server.stopping.wait(60)


def hangs_up(visit: Visit) -> None:
    """Close without a word."""


@functools.cache
def bomb() -> bytes:
    """50 MB in 50 kB."""
    return gzip.compress(b"\0" * 50_000_000)


def gzip_bomb(visit: Visit) -> None:
    visit.send(answer(bomb(), Content_Encoding="gzip"))


def redirects_for_ever(visit: Visit) -> None:
    visit.send(answer(b"", "307 Temporary Redirect", Location=visit.path + "/"))


def others_than(name: str) -> Iterator[threading.Thread]:
    return (thread for thread in threading.enumerate() if not thread.name.startswith(name))


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll; False where it did not come true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.005)
    return true()
