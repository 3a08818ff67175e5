"""
Sockets that know their deadline, and the place where requests and urllib3 take them from.

Before each read and write a socket takes what is left until the deadline as its timeout, so
that dripped headers end in time too. `Line.shut` works at any moment, TLS handshake included:
it holds a duplicate of the descriptor, and a shutdown ends the connection, not the descriptor.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import ssl
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from watchdog.errors import NoAnswer, NotUnderstood, ProbeError


class Line:
    """
    The way to the server while one request lasts, redirects included.

    `deadline` in monotonic seconds; `most` bytes may come, whatever they are (headers without
    end are read by http.client, which counts none); `path` is a Unix socket's, None for TCP.
    """

    def __init__(self, deadline: float, most: int, path: str | None) -> None:
        self.deadline, self.most, self.path = deadline, most, path
        self._came = 0
        self.given = self.left()
        self.shut_down = False
        self._lock = threading.Lock()
        self._twin: socket.socket | None = None

    def left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline - time.monotonic()

    def arm(self, sock: socket.socket) -> None:
        """Give a socket what is left as its timeout; TimeoutError where nothing is."""
        left = self.left()
        if self.shut_down or left <= 0:
            raise TimeoutError("the deadline is over")
        sock.settimeout(left)

    def count(self, size: int) -> int:
        """Note that so many bytes came; NotUnderstood where it is too much in all."""
        self._came += size
        if self._came > self.most:
            raise NotUnderstood(f"sent more than {self.most} bytes, headers included")
        return size

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to the first address that lets us, all of them before the deadline."""
        if self.path is not None:
            return self._open(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.path)
        failed: OSError = OSError("the name has no address")
        for family, kind, proto, _, address in socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM
        ):
            try:
                return self._open(family, kind, proto, address)
            except OSError as error:  # noqa: PERF203  there are one or two addresses
                failed = error
        raise failed

    def _open(self, family: int, kind: int, proto: int, address: Any) -> socket.socket:
        sock = _PlainSocket(family, kind, proto)
        try:
            sock.line = self
            self.end()
            with self._lock:
                self._twin = sock.dup()
            self.arm(sock)
            sock.connect(address)
            self.arm(sock)
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return sock

    def shut(self) -> None:
        """Break whatever blocks on this line. For any thread."""
        with self._lock:
            self.shut_down = True
            if self._twin is not None:
                with contextlib.suppress(OSError):
                    self._twin.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Let go of the descriptor."""
        with self._lock:
            twin, self._twin = self._twin, None
            if twin is not None:
                twin.close()


class _PlainSocket(socket.socket):
    """TCP or Unix."""

    line: Line | None = None

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        if self.line is None:
            return super().recv_into(*args, **kwargs)
        self.line.arm(self)
        return self.line.count(super().recv_into(*args, **kwargs))

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        if self.line is not None:
            self.line.arm(self)  # the timeout of sendall is for all of it
        super().sendall(*args, **kwargs)


class _TlsSocket(ssl.SSLSocket):
    """
    TLS over TCP; made by the context, with the timeout of the socket that it takes over.

    The handshake comes before there is a line, and its timeout is for all of it.
    """

    line: Line | None = None

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        if self.line is None:
            return super().recv_into(*args, **kwargs)
        self.line.arm(self)
        return self.line.count(super().recv_into(*args, **kwargs))

    def send(self, *args: Any, **kwargs: Any) -> int:
        if self.line is not None:
            self.line.arm(self)  # sendall comes here for each piece
        return super().send(*args, **kwargs)


def tls_context(
    ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> ssl.SSLContext:
    """Trust `ca_file`, else what the system trusts; show `cert_file`. Raises OSError."""
    context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    context.sslsocket_class = _TlsSocket
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file)
    return context


class LineAdapter(HTTPAdapter):
    """Lets requests use the sockets of `line`, which is set anew for each request."""

    line: Line
    connection: HTTPConnection | None = None  # the one that was opened last

    def __init__(self, context: ssl.SSLContext | None, server_name: str | None) -> None:
        self.context, self.server_name = context, server_name
        self.verify = context is None or context.verify_mode is ssl.CERT_REQUIRED
        self._pool: Any = None
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *args: Any, **kw: Any) -> None:
        """Make the pools, which are here only the way to our own connections."""
        if self.context is not None:
            kw["ssl_context"] = self.context
            if self.server_name is not None:
                kw["server_hostname"] = self.server_name
        del args  # one connection at a time, never kept
        self.poolmanager = _Pools(self, num_pools=1, **kw)

    def get_connection_with_tls_context(self, *args: Any, **kw: Any) -> Any:
        """Return the one pool: an adapter is for one server, and looking it up is not for free."""
        if self._pool is None:
            self._pool = super().get_connection_with_tls_context(*args, **kw)
        return self._pool

    def hang_up(self) -> None:
        """Close the connection: urllib3 keeps one that the server did not say it will close."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Leave certificates to the context; requests would load its own bundle each time."""
        del url, cert
        conn.cert_reqs = "CERT_REQUIRED" if verify else "CERT_NONE"


class _Pools(urllib3.PoolManager):
    def __init__(self, owner: LineAdapter, **kw: Any) -> None:
        super().__init__(**kw)
        self._owner = owner

    def _new_pool(self, scheme: str, *args: Any, **kw: Any) -> Any:
        pool: Any = super()._new_pool(scheme, *args, **kw)
        kind = _HttpsConnection if scheme == "https" else _HttpConnection
        # urllib3 keeps each pool's queue until the process ends, and what it refers to with it.
        pool.ConnectionCls = functools.partial(kind, owner=weakref.proxy(self._owner))
        return pool


class _HttpConnection(HTTPConnection):
    def __init__(self, *args: Any, owner: LineAdapter, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._owner = owner

    def _new_conn(self) -> socket.socket:
        self._owner.connection = self
        return self._owner.line.connect(self._dns_host, self.port)


class _HttpsConnection(HTTPSConnection):
    def __init__(self, *args: Any, owner: LineAdapter, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._owner = owner

    def _new_conn(self) -> socket.socket:
        self._owner.connection = self
        return self._owner.line.connect(self._dns_host, self.port)

    def connect(self) -> None:
        super().connect()
        if isinstance(self.sock, _TlsSocket):
            self.sock.line = self._owner.line


def told(error: Exception, shown: str) -> ProbeError:
    """Say what went wrong below requests, as an error of ours; `shown` is the address."""
    root = _root(error)
    if isinstance(root, http.client.RemoteDisconnected):
        return NoAnswer(f"{shown}: the connection was closed without an answer")
    if isinstance(root, http.client.IncompleteRead):
        return NotUnderstood(f"{shown} was cut: the connection ended before the body did")
    if isinstance(root, socket.gaierror):
        return NoAnswer(f"{shown}: the host's name cannot be resolved: {reason_of(root)}")
    if isinstance(root, ssl.SSLError):
        return NoAnswer(f"{shown}: TLS failed: {reason_of(root)}")
    if isinstance(root, OSError) and not isinstance(root, requests.RequestException):
        return NoAnswer(f"{shown}: {reason_of(root)}")
    return NotUnderstood(f"{shown} does not answer in HTTP ({type(root).__name__})")


def reason_of(error: OSError) -> str:
    """Return the system's words for an error, without its number."""
    verify = getattr(error, "verify_message", None)
    reason = getattr(error, "reason", None)
    return str(verify or reason or error.strerror or error)[:200].lower()


def _root(error: BaseException) -> BaseException:
    """Unwrap what requests and urllib3 wrap around the error that came first."""
    for _ in range(10):
        inside = [getattr(error, "reason", None), *error.args, error.__cause__]
        found = next((part for part in inside if isinstance(part, BaseException)), None)
        if found is None:
            break
        error = found
    return error
