from __future__ import annotations

import contextlib
import http.client
import json
import math
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field

import pytest

from tests.binaries import find
from watchdog.board import Board
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.report import Delivery, Report
from watchdog.domain.sample import Reading, labels
from watchdog.errors import CommandError
from watchdog.server import CONNECTIONS, Server
from watchdog.views import make_app, strict

JSON = {"Content-Type": "application/json"}


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


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def server(watched):
    server = Server("127.0.0.1:0", watched.board)
    server.start()
    yield server
    server.stop()


def ask(server, method, path, body=None, headers=None):
    """Return status, headers and body of one answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, 10)) as line:
        line.request(method, path, body, headers or {})
        answer = line.getresponse()
        return answer.status, answer.headers, answer.read()


def get(server, path):
    return ask(server, "GET", path)


def post(server, path, asked, **headers):
    status, _, body = ask(server, "POST", path, json.dumps(asked), {**JSON, **headers})
    return status, json.loads(body)


def report(value: float = 1.079) -> Report:
    said = Argument("said", evidence={"acceptance_length": value, "list": [value, (value,)]})
    finding = Finding(
        "SpecDecodeCollapsed", labels(target="qwen"), Verdict.CRITICAL, lambda: said,
        value=value, check="acceptance_length",
    )  # fmt: skip
    readings = (Reading("vllm_metrics", "qwen", took=0.02),)
    return Report("gpu-1", "1.0", 1000.0, readings, (finding,))


# What is shown


def test_before_the_first_round_nothing_is_ready(server, watched):
    assert get(server, "/-/ready")[0] == 503
    status, _, body = get(server, "/api/v1/report")
    assert status == 503
    assert "first round" in json.loads(body)["error"]
    watched.board.report = report()
    assert get(server, "/-/ready")[0] == 200
    assert get(server, "/api/v1/report")[0] == 200


def test_health_follows_the_age_of_the_last_round(server, watched):
    assert get(server, "/-/healthy")[0] == 200
    watched.young = False
    assert get(server, "/-/healthy")[0] == 503


def test_a_board_that_nobody_filled_is_not_healthy():
    assert make_app(Board()).test_client().get("/-/healthy").status_code == 503


def test_the_report_is_the_last_one(server, watched):
    watched.board.report = report()
    status, headers, body = get(server, "/api/v1/report")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    told = json.loads(body)
    assert (told["product"], told["verdict"]) == ("serving-watchdog", "CRITICAL")
    assert told["findings"][0]["value"] == 1.079


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_report_is_strict_json_whatever_was_measured(server, watched, value):
    def refuse(constant):
        raise AssertionError(constant)

    watched.board.report = report(value)
    told = json.loads(get(server, "/api/v1/report")[2], parse_constant=refuse)
    assert told["findings"][0]["value"] is None
    assert told["findings"][0]["evidence"]["list"] == [None, [None]]


def test_strict_leaves_all_else_as_it_is():
    value = {"a": [1, 2.5, True, None, "x"], 7: ("y",)}
    assert strict(value) == {"a": [1, 2.5, True, None, "x"], "7": ["y"]}


def test_metrics_show_report_and_counters_and_please_promtool(server, watched):
    watched.board.report, watched.board.rounds = report(), 3
    for delivery in (
        Delivery("alertmanager", "http://am-1:9093", ok=True, detail="taken", count=2),
        Delivery("alertmanager", "http://am-1:9093", ok=True, detail="taken", count=1),
        Delivery("alertmanager", "http://am-2:9093", ok=False, detail="refused", count=0),
    ):
        watched.board.count(delivery)
    status, headers, body = get(server, "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    for line in (
        b"watchdog_rounds_total 3.0\n",
        b'{destination="http://am-1:9093",result="ok",sink="alertmanager"} 3.0\n',
        b'destination="http://am-2:9093",result="failed",sink="alertmanager"} 1.0\n',
        b"watchdog_acceptance_length{",
    ):
        assert line in body
    ran = subprocess.run([find("promtool"), "check", "metrics"], input=body, check=False)
    assert ran.returncode == 0


def test_what_is_not_there_is_told_as_json(server):
    for method, path, status in (
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/static/x", 404),
        ("POST", "/metrics", 405),
        ("GET", "/api/v1/pause", 405),
    ):
        answer, headers, body = ask(server, method, path)
        assert (answer, headers["Content-Type"]) == (status, "application/json"), path
        assert json.loads(body)["status"] == status
    assert headers["Allow"] == "OPTIONS, POST"


def test_every_answer_tells_browsers_to_keep_off_and_does_not_name_its_server(server, watched):
    watched.board.report = report()
    for path in ("/metrics", "/-/healthy", "/api/v1/report", "/absent"):
        _, headers, _ = get(server, path)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "Server" not in headers


def test_a_crash_is_told_without_its_details(server, watched):
    def crash():
        raise RuntimeError("a secret")

    watched.board.healthy = crash
    status, headers, body = get(server, "/-/healthy")
    assert (status, headers["Content-Type"]) == (500, "application/json")
    assert b"secret" not in body
    assert b"Traceback" not in body


# Pausing


def test_a_target_is_paused_and_resumed(server, watched):
    status, told = post(server, "/api/v1/pause", {"target": "qwen", "seconds": 1800})
    assert (status, told) == (200, {"target": "qwen", "paused": True, "seconds": 1800.0})
    assert watched.pauses == {"qwen": 1800.0}
    for was in (True, False):
        status, told = post(server, "/api/v1/resume", {"target": "qwen"})
        assert (status, told["was_paused"]) == (200, was)
    assert watched.pauses == {}


@pytest.mark.parametrize("path", ["/api/v1/pause", "/api/v1/resume"])
def test_an_unknown_target_is_answered_with_the_known_ones(server, watched, path):
    asked = {"target": "qwem", "seconds": 60} if "pause" in path else {"target": "qwem"}
    status, told = post(server, path, asked)
    assert (status, told["error"]) == (404, "unknown target; known: qwen, llama")
    assert watched.pauses == {}


@pytest.mark.parametrize(
    "seconds", [0, 0.5, -1, 30 * 86400 + 1, 1e308, math.nan, math.inf, True, "60", None, [60]]
)
def test_a_pause_is_from_a_second_to_30_days(server, watched, seconds):
    status, told = post(server, "/api/v1/pause", {"target": "qwen", "seconds": seconds})
    assert status == 400
    assert "2592000 (30 days)" in told["error"]
    assert watched.pauses == {}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[]", b'"qwen"', b"null", b"{}", b'{"target": "qwen"}', b"[" * 60_000,
     b'{"target": "qwen", "seconds": 60, "secs": 1}'],
)  # fmt: skip
def test_a_body_that_is_not_what_is_asked_for_is_refused(server, watched, body):
    status, _, _ = ask(server, "POST", "/api/v1/pause", body, JSON)
    assert status == 400
    assert watched.pauses == {}


@pytest.mark.parametrize("target", [None, 5, ["qwen"], {"qwen": 1}, ""])
def test_a_target_that_is_no_name_is_unknown(server, watched, target):
    assert post(server, "/api/v1/pause", {"target": target, "seconds": 60})[0] == 404
    assert watched.pauses == {}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_form_of_a_web_page_cannot_pause(server, watched, kind):
    body = json.dumps({"target": "qwen", "seconds": 60})
    headers = {"Content-Type": kind} if kind else {}
    assert ask(server, "POST", "/api/v1/pause", body, headers)[0] == 415
    assert watched.pauses == {}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Origin", "http://127.0.0.1:19590"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("Forwarded", "for=10.0.0.9"),
        ("Via", "1.1 proxy"),
    ],
)
def test_web_pages_and_who_comes_through_a_proxy_cannot_pause(server, watched, header, value):
    asked = {"target": "qwen", "seconds": 60}
    status, _ = post(server, "/api/v1/pause", asked, **{header: value})
    assert status == 403
    assert watched.pauses == {}


@pytest.mark.parametrize(
    ("peer", "status"),
    [
        ("127.0.0.1", 200),
        ("127.8.8.8", 200),
        ("::1", 200),
        ("::ffff:127.0.0.1", 200),
        ("10.0.0.9", 403),
        ("::ffff:10.0.0.9", 403),
        ("fe80::1%eth0", 403),
        ("", 403),
    ],
)
def test_only_this_host_may_pause_and_resume(watched, peer, status):
    client = make_app(watched.board).test_client()
    from_peer = {"environ_base": {"REMOTE_ADDR": peer}}
    asked = {"target": "qwen", "seconds": 60}
    assert client.post("/api/v1/pause", json=asked, **from_peer).status_code == status
    assert client.post("/api/v1/resume", json={"target": "qwen"}, **from_peer).status_code == status


def test_a_body_that_is_too_long_is_refused(server, watched):
    status, headers, _ = ask(server, "POST", "/api/v1/pause", b" " * 70_000, JSON)
    assert status == 413
    assert "Server" not in headers
    assert watched.pauses == {}


# The port itself


def test_an_address_in_use_is_named(server, watched):
    with pytest.raises(CommandError, match=rf"127\.0\.0\.1:{server.port}: Address already in use"):
        Server(f"127.0.0.1:{server.port}", watched.board).start()


@pytest.mark.parametrize("listen", ["192.0.2.1:0", "no-such-host.invalid:19590"])
def test_an_address_that_is_not_ours_is_named(watched, listen):
    with pytest.raises(CommandError, match=f"cannot listen on {listen}: "):
        Server(listen, watched.board).start()


def test_the_loopback_of_the_newer_protocol_is_served(watched):
    server = Server("[::1]:0", watched.board)
    try:
        server.start()
    except CommandError:
        pytest.skip("this machine has no IPv6")
    with contextlib.closing(http.client.HTTPConnection("::1", server.port, timeout=5)) as line:
        line.request("POST", "/api/v1/resume", '{"target": "qwen"}', JSON)
        assert line.getresponse().status == 200
    server.stop()


def test_a_stopped_port_is_free_at_once_and_leaves_no_thread(watched):
    server = Server("127.0.0.1:0", watched.board)
    before = set(threading.enumerate())
    server.start()
    assert get(server, "/-/healthy")[0] == 200
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        server.stop()
        client.settimeout(5)
        with contextlib.suppress(ConnectionResetError):  # closed before it was taken up
            assert client.recv(1) == b""
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        get(server, "/-/healthy")
    again = Server(f"127.0.0.1:{server.port}", watched.board)
    again.start()
    assert get(again, "/-/healthy")[0] == 200
    again.stop()
    deadline = time.monotonic() + 5
    while left := set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def test_50_silent_clients_do_not_keep_others_waiting(server):
    with contextlib.ExitStack() as stack:
        for i in range(50):
            client = socket.create_connection(("127.0.0.1", server.port))
            stack.enter_context(client)
            if i % 2:  # half of them stop in the middle of a request
                client.sendall(b"POST /api/v1/pause HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
        began = time.monotonic()
        assert get(server, "/metrics")[0] == 200
        assert time.monotonic() - began < 2


def test_threads_and_connections_stay_few(server):
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(3 * CONNECTIONS):
            client = socket.create_connection(("127.0.0.1", server.port))
            stack.enter_context(client)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        deadline = time.monotonic() + 5
        while len(server._server.active_channels) < CONNECTIONS // 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(server._server.active_channels) <= CONNECTIONS
        assert threading.active_count() <= before
