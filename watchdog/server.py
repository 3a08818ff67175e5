"""The daemon's HTTP port: bound once, served by few threads, closed on request."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final

from waitress.adjustments import Adjustments
from waitress.task import ThreadedTaskDispatcher

from watchdog.board import Board
from watchdog.connections import MOST_BODY, MOST_HEADERS, Bounds, Port
from watchdog.errors import CommandError
from watchdog.fields import split_listen
from watchdog.views import make_app

__all__ = ["Board", "Bounds", "Server"]

THREADS: Final = 4
IN_MEMORY: Final = 64 * 1024 * 1024
"""Bytes of one request or answer from which waitress would write a file or hold up a thread: more
than there can be, since it closes the connection before."""


class Server:
    """The port. `listen` is host:port; port 0 is any free one, see `port` after `start`."""

    def __init__(self, listen: str, board: Board, bounds: Bounds | None = None) -> None:
        self.listen = listen
        self.port = 0
        self._app = make_app(board, split_listen(listen)[0])
        self._bounds = bounds or Bounds()
        self._server: Port | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind and serve in a thread of its own. CommandError if the address cannot be had."""
        bound = bind(self.listen)
        self.port = bound.getsockname()[1]
        workers = ThreadedTaskDispatcher()
        workers.set_thread_count(THREADS)
        self._server = Port(
            self._app, bound, self._bounds, map={}, dispatcher=workers, adj=_adjustments()
        )
        self._thread = threading.Thread(target=self._server.run, name="server", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """Whether the port is open and its loop runs."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Close the port and every connection; nothing happens if it is closed already."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        # The loop may be so quick that the pipe which wakes it is closed before our write to it
        # has returned.
        with contextlib.suppress(OSError):
            server.end()
        self._thread.join(5.0)
        server.task_dispatcher.shutdown(timeout=1)


def _adjustments() -> Adjustments:
    """Return what waitress is told; its own limits begin one byte after ours end."""
    return Adjustments(
        max_request_body_size=MOST_BODY + 1,
        max_request_header_size=MOST_HEADERS + 1,
        inbuf_overflow=IN_MEMORY,
        outbuf_overflow=IN_MEMORY,
        outbuf_high_watermark=IN_MEMORY,
        clear_untrusted_proxy_headers=False,  # they are trusted in nothing, see callers.py
        log_socket_errors=False,  # clients that go away are no event
        ident=None,
    )


def bind(listen: str) -> socket.socket:
    """Bind host:port. CommandError names the address and the reason."""
    host, port = split_listen(listen)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CommandError(f"cannot listen on {listen}: {error.strerror or error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen()
    except OSError as error:
        bound.close()
        raise CommandError(
            f"cannot listen on {listen}: {error.strerror}; choose another address with "
            f"server.listen, or stop what uses this one"
        ) from None
    return bound
