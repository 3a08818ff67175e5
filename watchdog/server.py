"""The daemon's HTTP port: bound once, served by few threads, closed on request."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any, Final

import waitress
from waitress import wasyncore

from watchdog.board import Board
from watchdog.errors import CommandError
from watchdog.fields import split_listen
from watchdog.views import make_app

__all__ = ["Board", "Server"]

THREADS: Final = 4
CONNECTIONS: Final = 64
MOST_BODY: Final = 64 * 1024  # bytes
MOST_HEADERS: Final = 16 * 1024  # bytes
SILENT_FOR: Final = 20  # seconds after which a connection that says nothing is closed


class Server:
    """The port. `listen` is host:port; port 0 is any free one, see `port` after `start`."""

    def __init__(self, listen: str, board: Board) -> None:
        self.listen = listen
        self.port = 0
        self._app = make_app(board)
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind and serve in a thread of its own. CommandError if the address cannot be had."""
        bound = bind(self.listen)
        self.port = bound.getsockname()[1]
        self._server = waitress.create_server(
            self._app,
            sockets=[bound],
            threads=THREADS,
            connection_limit=CONNECTIONS,
            channel_timeout=SILENT_FOR,
            cleanup_interval=5,
            max_request_body_size=MOST_BODY,
            max_request_header_size=MOST_HEADERS,
            clear_untrusted_proxy_headers=False,  # they are trusted in nothing, see views.py
            asyncore_use_poll=True,  # select() ends at the 1,024th file
            ident=None,
        )
        self._thread = threading.Thread(target=self._server.run, name="server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and every connection; nothing happens if it is closed already."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        # Sockets belong to the loop's thread; it ends when it has none left. It may be so quick
        # that the pipe which wakes it is closed before our write to it has returned.
        with contextlib.suppress(OSError):
            server.trigger.pull_trigger(
                lambda: wasyncore.close_all(server._map, ignore_all=True)  # noqa: SLF001
            )
        self._thread.join(5.0)
        server.task_dispatcher.shutdown(timeout=1)


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
