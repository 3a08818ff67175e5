"""
Connections of the port, each with a deadline: waitress, made safe from clients that take for ever.

waitress has threads, buffers and a parser that we trust. It lacks a deadline that activity does
not move, room for the next client when silent ones hold every place, and a last look at a client
that is still sending when it gets its refusal. All of that happens in the loop's one thread.
"""

from __future__ import annotations

import copy
import errno
import json
import socket
from dataclasses import dataclass
from math import inf
from time import monotonic, sleep
from typing import Any, Final

import structlog
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask

from watchdog.answers import HEADERS
from watchdog.webhook_in import MOST_BODY as MOST_WEBHOOK
from watchdog.webhook_in import PATH as WEBHOOK

log = structlog.get_logger("watchdog.server")

MOST_BODY: Final = 64 * 1024  # bytes
MOST_HEADERS: Final = 16 * 1024  # bytes of request line and headers
MOST_IN_KERNEL: Final = 256 * 1024  # bytes of an answer; else the kernel takes 4 MB each
MOST_IGNORED: Final = 4 * 1024 * 1024  # bytes that a refused client may go on sending
AT_ONCE: Final = 16  # connections taken up in a turn of the loop
LOOK_EVERY: Final = 1  # seconds between looks at the deadlines, at most
TIDY_EVERY: Final = 0.1  # and at least: many clients make many turns of the loop
TELL_EVERY: Final = 60.0  # seconds between two log lines about pressure
SHORT_OF: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

REFUSALS: Final = {
    400: "this is no HTTP request that we understand",
    413: f"the body may have {MOST_BODY} bytes, that of a POST to {WEBHOOK} {MOST_WEBHOOK}",
    431: f"request line and headers together may have {MOST_HEADERS} bytes",
    501: "no transfer encoding but chunked is understood",
}


@dataclass(frozen=True)
class Bounds:
    """
    How many connections there may be, and how long each may take, in seconds.

    A request is complete `request_within` of the connection's opening or of the answer before;
    12 is between the usual scrape intervals of 10 and 15, so that an idle connection is not
    closed just when the next scrape comes. An answer is taken `answer_within` of its being asked
    for or ready, whichever is later. A client that was told that we close goes `leave_within`.
    One that does not take its answer may be closed after `grace` if others need the place.
    `held` bytes of requests and answers may be in memory, of all clients together.
    """

    connections: int = 64
    request_within: float = 12.0
    answer_within: float = 30.0
    leave_within: float = 2.0
    grace: float = 1.0
    held: int = 16 * 1024 * 1024


class Request(HTTPRequestParser):  # type: ignore[misc]  # waitress has no types
    """A request as it comes in; only the webhook may send much."""

    adj: Any

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ValueError:  # such as a length of 5,000 digits, or half an IPv6 address
            raise ParsingError("a number or an address is none") from None
        if b"\r\ntransfer-encoding:" in header_plus.lower() and (
            "CONTENT_LENGTH" in self.headers or self.version != "1.1"
        ):  # a proxy before us may have seen another end of the body than we do
            raise ParsingError("two lengths")
        if self.command == "POST" and self.path == WEBHOOK:
            self.adj = copy.copy(self.adj)
            self.adj.max_request_body_size = MOST_WEBHOOK + 1  # waitress refuses from here on


class Refusal(ErrorTask):  # type: ignore[misc]
    """The answer to what never reaches a view: JSON and HEADERS as from all others."""

    def execute(self) -> None:
        error = self.request.error
        sentence = REFUSALS.get(error.code, "our own fault; the log has the details")
        body = json.dumps({"error": sentence, "status": error.code}).encode() + b"\n"
        self.status = f"{error.code} {error.reason}"
        self.response_headers.extend([*HEADERS.items(), ("Content-Type", "application/json")])
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Connection(HTTPChannel):  # type: ignore[misc]
    """One client. It waits for a request, is answered, or leaves, and each has its time."""

    parser_class = Request
    error_task_class = Refusal
    will_close: bool

    def __init__(self, server: Port, sock: Any, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        super().__init__(server, sock, addr, adj, map=map)
        self.bounds = server.bounds
        self.opened = self.since = monotonic()
        self.leaving = False
        self._ignored = 0  # bytes

    @property
    def answering(self) -> bool:
        """Whether there is a whole request, or something of an answer that was not sent yet."""
        return bool(
            self.requests or self.total_outbufs_len or self.close_when_flushed or self.will_close
        )

    @property
    def held(self) -> int:
        """Bytes that this client keeps in our memory."""
        requests = [*self.requests, self.request]
        came: int = sum(
            each.header_bytes_received + each.body_bytes_received for each in requests if each
        )
        return came + int(self.total_outbufs_len)

    def overdue(self, now: float) -> bool:
        """Whether this client has done what it does for too long."""
        bounds = self.bounds
        if self.leaving:
            return now >= self.since + bounds.leave_within
        return now >= self.since + (
            bounds.answer_within if self.answering else bounds.request_within
        )

    def dispensable(self, now: float) -> bool:
        """Whether this client may be closed when others need the place."""
        if self.leaving or not self.answering:
            return True
        return not self.requests and now >= self.since + self.bounds.grace

    def service(self) -> None:
        """
        Answer, in a worker thread; a request that was sent ahead is not answered after this one.

        Else a client could have us make hundreds of answers that it never takes. It is told
        `Connection: close`, and repeats what got no answer; no client of today sends ahead.
        """
        if len(self.requests) > 1:
            self.requests[0].headers["CONNECTION"] = "close"
        super().service()
        self.since = monotonic()

    def received(self, data: bytes) -> bool:
        if self.leaving:
            self._ignored += len(data)
            if self._ignored > MOST_IGNORED:
                self.drop()
            return False
        under_way = bool(self.requests)
        taken = bool(super().received(data))
        if self.requests and not under_way:
            self.since = monotonic()
        return taken

    def handle_write(self) -> None:
        unsent = self.total_outbufs_len
        super().handle_write()
        if unsent and not self.total_outbufs_len:
            self.since = monotonic()

    def handle_close(self) -> None:
        """
        Close. Where we do so of our own accord, say it first and let the client read our answer.

        To close a socket with unread bytes is a reset, which can overtake the answer: a client
        that still sends its body would learn "connection reset" in place of "too long".
        """
        if self.will_close and not self.leaving and self._said_goodbye():
            self.will_close, self.leaving, self.since = False, True, monotonic()
        else:
            self.drop()

    def _said_goodbye(self) -> bool:
        if not self.connected:  # waitress may call twice
            return False
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        return True

    def drop(self) -> None:
        """Close now, whatever is under way."""
        super().handle_close()


class Port(TcpWSGIServer):  # type: ignore[misc]
    """The listening socket and its loop. `run` ends soon after `end`."""

    channel_class = Connection

    def __init__(self, application: Any, bound: socket.socket, bounds: Bounds, **more: Any) -> None:
        self.bounds = bounds
        self.ending = self._knocked = False
        self._closed_early = 0
        self._began = monotonic()  # this turn of the loop
        self._tidy_at = self._tell_at = self._rest_until = self._began
        address = bound.getsockname()
        super().__init__(
            application,
            _sock=bound,  # as create_server() does, which knows no other class than its own
            sockinfo=(bound.family, bound.type, bound.proto, address),
            bind_socket=False,
            **more,
        )

    def run(self) -> None:
        while not self.ending:
            self._turn()
        for connection in list(self.active_channels.values()):
            connection.drop()
        self.close()

    def _turn(self) -> None:
        try:
            self._began = monotonic()
            if self._began >= self._tidy_at:
                self._tidy_at = self._began + TIDY_EVERY
                self.tidy(self._began)
            wasyncore.loop(LOOK_EVERY, use_poll=True, map=self._map, count=1)
            self._let_in()
        except Exception:  # else one bug, of whomever, would end the port for good
            log.exception("the port failed, and goes on")
            sleep(LOOK_EVERY)

    def end(self) -> None:
        """End the loop; called from another thread."""
        self.ending = True
        self.pull_trigger()

    def tidy(self, now: float) -> None:
        """Close what is over its time or holds too much. All clients are few: no need to hurry."""
        for connection in list(self.active_channels.values()):
            if connection.overdue(now):
                connection.drop()
        held = {connection: connection.held for connection in self.active_channels.values()}
        while sum(held.values()) > self.bounds.held:
            greediest = max(held, key=held.__getitem__)
            del held[greediest]
            self._close_early(greediest)

    def readable(self) -> bool:
        """Whether a new connection may come: there is a place for it, or there can be."""
        if not self.accepting or self._began < self._rest_until:
            return False
        return self._has_room() or self._most_dispensable() is not None

    def handle_accept(self) -> None:
        self._knocked = True  # the loop lets it in after it has heard all others

    def _let_in(self) -> None:
        """
        Take some connections up, each in place of the oldest that may be closed if there are many.

        Only one that was heard since it was opened is closed: so whoever has sent a request is
        answered, however fast silent ones follow each other.
        """
        for _ in range(AT_ONCE):
            oldest = None if self._has_room() else self._most_dispensable(opened_before=self._began)
            if not self._knocked or not (oldest or self._has_room()):
                break
            super().handle_accept()
            if oldest and self._knocked:  # somebody did come
                self._close_early(oldest)
        self._knocked = False

    def accept(self) -> Any:
        """Accept one that knocks; note if nobody does any more, or if we cannot."""
        try:
            came = super().accept()
        except OSError as error:
            self._knocked = False
            if error.errno in SHORT_OF:  # it will not be better at once, and poll() says "ready"
                self._rest_until = monotonic() + LOOK_EVERY
            raise
        self._knocked = came is not None
        return came

    def set_socket_options(self, conn: socket.socket) -> None:
        super().set_socket_options(conn)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_IN_KERNEL)

    def _has_room(self) -> bool:
        return len(self.active_channels) < self.bounds.connections

    def _most_dispensable(self, opened_before: float = inf) -> Connection | None:
        may = [
            each
            for each in self.active_channels.values()
            if each.opened < opened_before and each.dispensable(self._began)
        ]
        return min(may, key=lambda each: each.since, default=None)

    def _close_early(self, connection: Connection) -> None:
        connection.drop()
        self._closed_early += 1
        if self._began >= self._tell_at:
            self._tell_at = self._began + TELL_EVERY
            log.warning("clients were closed to make room", since_start=self._closed_early,
                        last=connection.addr[0], connections=self.bounds.connections)  # fmt: skip
