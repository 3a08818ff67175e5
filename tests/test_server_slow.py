"""Clients of the port that are slow, silent, many or greedy, and what others notice of them."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import statistics
import struct
import threading
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.asking import (
    HEALTHY,
    JSON,
    REPORT,
    Watched,
    ask,
    clients_of,
    connected,
    get,
    is_open,
    raw,
    read_all,
    report,
    serving,
    status_of,
    until,
)
from tests.flood import flooded
from watchdog.connections import LOOK_EVERY, MOST_BODY, MOST_HEADERS, MOST_IGNORED, MOST_WEBHOOK
from watchdog.server import THREADS, Bounds

LATE = LOOK_EVERY + 1.0  # seconds after a deadline at which it was seen by the port, and by us
LONG = 3_000_000  # bytes of an answer that no kernel takes whole from us
POST = b"POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def watched() -> Watched:
    return Watched()


def dribble(client: socket.socket, first: bytes, each: bytes, seconds: float) -> float:
    """Send `first` and then bit by bit, for so long or until it is refused; return how long."""
    began = time.monotonic()
    with contextlib.suppress(ConnectionError):
        client.sendall(first)
        while time.monotonic() - began < seconds and is_open(client):
            client.sendall(each)
            time.sleep(0.02)
    return time.monotonic() - began


def sending(server) -> bool:
    """Whether the last answer is made, and waits for its one client to take it."""
    return all(each.close_when_flushed for each in server._server.active_channels.values())


# Deadlines


@pytest.mark.parametrize(
    ("first", "each"),
    [
        (b"", b""),
        (b"GET /metrics HTTP/1.1\r\n", b"X-A: b\r\n"),
        (b"GET /", b"a"),
        (b"", b"\r\n\r\n"),
        (POST + b"Content-Length: 60000\r\n\r\n", b"{"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n"),
        (POST + b"Expect: 100-continue\r\nContent-Length: 60000\r\n\r\n", b""),
    ],
)  # fmt: skip
def test_a_request_is_complete_in_time_or_never(watched, first, each):
    with serving(watched.board, request_within=1.0) as server, connected(server) as client:
        if b"100-continue" in first:
            client.sendall(first)
            assert client.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            first = b""
        took = dribble(client, first, each, 10)
        assert 0.9 < took < 1.0 + LATE
        until(lambda: clients_of(server) == 0, 2)


def test_a_request_that_dribbles_but_is_complete_in_time_is_answered(watched):
    with serving(watched.board, request_within=5.0) as server, connected(server) as client:
        for byte in HEALTHY:
            client.sendall(bytes([byte]))
            time.sleep(0.005)
        assert status_of(client) == 200


def test_the_deadline_begins_anew_with_every_answer(watched):
    with serving(watched.board, request_within=2.0) as server, connected(server) as client:
        began = time.monotonic()
        while time.monotonic() - began < 3.5:
            client.sendall(HEALTHY)
            assert status_of(client) == 200
            time.sleep(0.25)
        began = time.monotonic()  # idle from here on
        assert client.recv(1) == b""
        assert 1.5 < time.monotonic() - began < 2.0 + LATE


def test_the_next_deadline_begins_with_the_answer_and_not_with_its_request(watched):
    watched.board.healthy = lambda: time.sleep(1.5) or True
    with serving(watched.board, request_within=1.0) as server, connected(server) as client:
        client.sendall(HEALTHY)
        assert status_of(client) == 200
        began = time.monotonic()
        assert client.recv(1) == b""
        assert 0.5 < time.monotonic() - began < 1.0 + LATE


@pytest.mark.parametrize("reads", [0, 100])
def test_an_answer_is_taken_in_time_or_never(watched, reads):
    """A client that reads nothing, and one that reads a little for ever."""
    watched.board.report = report(padding=LONG)
    bounds = {"answer_within": 1.0, "request_within": 60.0}
    with serving(watched.board, **bounds) as server, connected(server, receive=4096) as client:
        began = time.monotonic()
        client.sendall(REPORT)
        until(lambda: clients_of(server) == 1)
        came = 0
        while clients_of(server) == 1:
            assert time.monotonic() - began < 10
            came += len(client.recv(reads)) if reads else 0
            time.sleep(0.02)
        assert 0.9 < time.monotonic() - began < 1.0 + LATE
        assert came + len(read_all(client)) < LONG


def test_a_long_answer_that_is_taken_in_time_is_whole(watched):
    watched.board.report = report(padding=LONG)
    with serving(watched.board, answer_within=10.0) as server, connected(server, 65536) as client:
        client.sendall(REPORT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        came = b""
        while part := client.recv(100_000):
            came += part
            time.sleep(0.01)
        head, _, body = came.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert len(body) > LONG


def test_a_view_that_hangs_costs_its_client_the_connection_and_others_nothing(watched):
    hang = threading.Event()
    watched.board.healthy = lambda: hang.wait(20) or True
    with serving(watched.board, answer_within=1.0) as server, connected(server) as client:
        client.sendall(HEALTHY)
        assert get(server, "/metrics")[0] == 200
        began = time.monotonic()
        assert client.recv(1) == b""
        assert time.monotonic() - began < 1.0 + LATE
        hang.set()
        assert get(server, "/-/healthy")[0] == 200


def test_who_was_told_that_we_close_and_stays_is_closed(watched):
    with serving(watched.board, leave_within=1.0) as server, connected(server) as client:
        client.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        assert read_all(client).endswith(b"healthy.\n")
        began = time.monotonic()
        assert clients_of(server) == 1  # it may still be sending
        until(lambda: clients_of(server) == 0, 1.0 + LATE)
        assert time.monotonic() - began > 0.5


def test_a_client_that_ends_its_side_first_is_answered(watched):
    with serving(watched.board) as server, connected(server) as client:
        client.sendall(HEALTHY)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).endswith(b"healthy.\n")
        until(lambda: clients_of(server) == 0, 2)


def test_a_client_that_breaks_off_while_it_is_answered_is_no_error(watched):
    watched.board.report = report(padding=LONG)
    with capture_logs() as logs, serving(watched.board) as server:
        client = connected(server, receive=4096)
        client.sendall(REPORT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert client.recv(1) == b"H"
        until(lambda: sending(server))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()
        until(lambda: clients_of(server) == 0)
        assert get(server, "/-/healthy")[0] == 200
    assert logs == []


# Many


def test_silent_clients_without_end_do_not_keep_others_waiting(watched):
    """500 at a time, and new ones as fast as another process can open them."""
    most, took = 0, []
    with serving(watched.board) as server, flooded(server.port):
        until(lambda: clients_of(server) == Bounds.connections)
        for _ in range(50):
            began = time.monotonic()
            assert get(server, "/-/healthy")[0] == 200
            took.append(time.monotonic() - began)
            most = max(most, clients_of(server))
    assert statistics.median(took) < 1
    assert max(took) < 5  # on a machine that does much else
    assert most <= Bounds.connections + 1


@pytest.mark.parametrize("silent", [3, 4, 6])
def test_only_where_there_are_too_many_the_oldest_give_way(watched, silent):
    with serving(watched.board, connections=4) as server, contextlib.ExitStack() as stack:
        clients = []
        for i in range(silent):
            clients.append(stack.enter_context(connected(server)))
            until(lambda i=i: clients_of(server) == min(4, i + 1))
        assert get(server, "/-/healthy")[0] == 200
        gone = silent + 1 - 4
        until(lambda: [is_open(c) for c in clients] == [False] * gone + [True] * (silent - gone))


def test_who_has_asked_lately_is_younger_than_who_never_asked(watched):
    with serving(watched.board, connections=2) as server:
        with connected(server) as first, connected(server) as silent:
            until(lambda: clients_of(server) == 2)
            first.sendall(HEALTHY)
            assert status_of(first) == 200
            assert get(server, "/-/healthy")[0] == 200
            assert is_open(first)
            assert not is_open(silent)


def test_who_is_being_answered_never_gives_way(watched):
    """All places taken by requests under way: a newcomer waits for the first that is done."""
    go_on, under_way = threading.Event(), []
    watched.board.healthy = lambda: under_way.append(1) or go_on.wait(20)
    once = HEALTHY.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with (
        serving(watched.board, connections=2, grace=0.1) as server,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(connected(server)) for _ in range(2)]
        for client in clients:
            client.sendall(once)
        until(lambda: len(under_way) == 2)
        clients += [stack.enter_context(connected(server)) for _ in range(3)]
        for client in clients[2:]:
            client.sendall(once)
        spent = time.process_time()
        time.sleep(LOOK_EVERY + 0.5)
        assert time.process_time() - spent < 0.3  # the loop does not spin meanwhile
        assert clients_of(server) == 2
        go_on.set()
        for client in clients:
            assert read_all(client).endswith(b"healthy.\n")


def test_a_flood_does_not_close_who_has_sent_his_request(watched):
    """Even with a single place: a request that is there is heard before the next is let in."""
    with serving(watched.board, connections=1) as server, flooded(server.port):
        until(lambda: clients_of(server) == 1)
        once = HEALTHY[:-2] + b"Connection: close\r\n\r\n"
        answered = sum(raw(server, once).endswith(b"healthy.\n") for _ in range(50))
    assert answered > 25  # the others were closed between their connect() and their send()


def test_who_does_not_take_his_answer_gives_way_after_a_moment(watched):
    watched.board.report = report(padding=LONG)
    with serving(watched.board, connections=3, grace=1.0) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                client = stack.enter_context(connected(server, receive=4096))
                client.sendall(REPORT)
            until(lambda: clients_of(server) == 3)
            began = time.monotonic()
            assert get(server, "/-/healthy")[0] == 200
            assert time.monotonic() - began < 1.0 + LATE


def test_hundreds_that_never_read_do_not_hold_up_a_thread(watched):
    watched.board.report = report(padding=LONG)
    with serving(watched.board) as server, contextlib.ExitStack() as stack:
        for _ in range(3 * THREADS):
            client = stack.enter_context(connected(server, receive=4096))
            client.sendall(REPORT * 200)
        began = time.monotonic()
        for _ in range(5):
            assert get(server, "/-/healthy")[0] == 200
        assert time.monotonic() - began < 2


def test_closing_clients_early_is_told_once_a_minute(watched):
    with capture_logs() as logs, serving(watched.board, connections=2) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(connected(server))
            assert get(server, "/-/healthy")[0] == 200
    told = [line for line in logs if "make room" in line["event"]]
    assert len(told) == 1
    assert (told[0]["log_level"], told[0]["last"]) == ("warning", "127.0.0.1")


# Much


@pytest.mark.parametrize(
    ("path", "method", "size", "status"),
    [
        ("/api/v1/pause", "POST", MOST_BODY, 400),  # read, and no JSON
        ("/api/v1/pause", "POST", MOST_BODY + 1, 413),
        ("/webhook/alertmanager", "PUT", MOST_BODY + 1, 413),
        ("/webhook/alertmanager/x", "POST", MOST_BODY + 1, 413),
        ("/webhook/alertmanager", "POST", MOST_WEBHOOK + 1, 413),
        ("/metrics", "GET", MOST_BODY + 1, 413),
        ("/metrics", "GET", MOST_BODY, 200),
    ],
)
def test_a_body_is_taken_up_to_the_limit_of_its_path(watched, path, method, size, status):
    with serving(watched.board) as server:
        answer, headers, body = ask(server, method, path, b" " * size, JSON)
    assert answer == status
    if status == 413:
        assert b"65536 bytes" in body
        assert b"1048576" in body
        assert headers["Content-Type"] == "application/json"


def test_the_webhook_may_send_a_mebibyte(watched):
    with serving(watched.board) as server:
        body = b'{"version": "4", "padding": "' + b" " * (MOST_WEBHOOK - 31) + b'"}'
        assert len(body) == MOST_WEBHOOK
        assert ask(server, "POST", "/webhook/alertmanager", body, JSON)[0] != 413


@pytest.mark.parametrize(("pieces", "status"), [(15, b"400"), (17, b"413")])
def test_a_body_in_pieces_has_the_same_limit(watched, pieces, status):
    piece = b"1000\r\n" + b" " * 4096 + b"\r\n"
    chunked = POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with serving(watched.board) as server:
        came = raw(server, chunked, piece * pieces, b"0\r\n\r\n")
    assert came.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("size", "status"), [(MOST_HEADERS, b"200"), (MOST_HEADERS + 1, b"431")])
def test_headers_are_taken_up_to_their_limit(watched, size, status):
    head = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-A: %s\r\n\r\n"
    head %= b"a" * (size - len(head) + 2)
    assert len(head) == size
    with serving(watched.board) as server:
        came = raw(server, head)
    assert came.split(b" ", 2)[1] == status


def test_a_header_without_end_is_refused_while_it_comes(watched):
    with serving(watched.board) as server, connected(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX-A: " + b"a" * MOST_HEADERS)
        assert b" 431 " in read_all(client)


def test_who_sends_too_much_reads_why_and_not_connection_reset(watched):
    """The answer comes while the body is still on its way."""
    with serving(watched.board) as server:
        for _ in range(10):
            came = raw(server, POST + b"Content-Length: 3000000\r\n\r\n", b" " * 3_000_000)
            assert b"413 Request Entity Too Large" in came


def test_who_goes_on_sending_is_cut_off(watched):
    sent = 0
    with serving(watched.board, leave_within=60.0) as server, connected(server) as client:
        client.sendall(POST + b"Content-Length: 1000000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while sent < 20 * MOST_IGNORED:
                sent += client.send(b" " * 65536)
    assert MOST_IGNORED <= sent < 20 * MOST_IGNORED  # what is on its way counts, too


@pytest.mark.parametrize(("clients", "gone"), [(3, 0), (4, 1)])
def test_what_all_hold_in_memory_together_is_bounded(watched, clients, gone):
    head = POST + b"Content-Length: 60000\r\n\r\n"
    bound = 3 * (len(head) + 59_000) + 5000  # and what one who asks for health needs
    with serving(watched.board, held=bound) as server, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(server)) for _ in range(clients)]
        for client in opened:
            client.sendall(head + b" " * 59_000)
        until(lambda: [is_open(c) for c in opened].count(False) == gone)
        assert get(server, "/-/healthy")[0] == 200
        assert [is_open(c) for c in opened].count(False) == gone


def test_a_request_that_was_sent_ahead_is_not_answered(watched):
    """One answer, which says so; the client asks again if it wants more."""
    with serving(watched.board) as server:
        came = raw(server, HEALTHY * 300)
    assert came.count(b"HTTP/1.1 200 OK") == 1
    assert b"Connection: close" in came


# Afterwards


def test_a_bug_in_the_loop_does_not_end_the_port(watched):
    with capture_logs() as logs, serving(watched.board) as server:
        server._server._map["no file"] = object()  # the loop stumbles over it once
        until(lambda: logs)
        del server._server._map["no file"]
        assert get(server, "/-/healthy")[0] == 200
        assert server.alive()
    assert {line["event"] for line in logs} == {"the port failed, and goes on"}
    assert not server.alive()


def descriptors() -> list[int]:
    return [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]


def test_threads_and_descriptors_are_as_before(watched):
    watched.board.report = report(padding=LONG)
    threads, files = threading.active_count(), len(descriptors())
    with serving(watched.board, request_within=1.0, answer_within=1.0) as server:
        serving_files = len(descriptors())
        with contextlib.ExitStack() as stack:
            for i in range(150):
                client = stack.enter_context(connected(server, receive=4096))
                client.sendall((b"", REPORT, POST + b"Content-Length: 9\r\n\r\n")[i % 3])
            assert threading.active_count() <= threads + THREADS + 1
        until(lambda: clients_of(server) == 0)
        until(lambda: len(descriptors()) == serving_files)
    until(lambda: threading.active_count() == threads)
    assert len(descriptors()) == files


def test_without_descriptors_the_port_waits_and_does_not_spin(watched):
    """What has no descriptor left for a client is served once there is one again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(watched.board) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(5)]
        for client in clients:
            client.settimeout(15)
        highest = max(descriptors())
        fillers = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(fillers) + 1, hard))
        try:
            for client in clients:
                client.connect(("127.0.0.1", server.port))
                client.sendall(HEALTHY)
            spent = time.process_time()
            time.sleep(1)
            assert time.process_time() - spent < 0.3
            assert clients_of(server) == 0
        finally:
            for filler in fillers:
                os.close(filler)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for client in clients:
            assert status_of(client) == 200
