from __future__ import annotations

import contextlib
import http.client
import json
import math
import socket
import subprocess
import threading

import pytest
from flask import Flask

from tests.asking import (
    HEALTHY,
    JSON,
    Watched,
    ask,
    connected,
    get,
    post,
    raw,
    report,
    serving,
    status_of,
    until,
)
from tests.binaries import find
from watchdog.answers import strict
from watchdog.board import Board
from watchdog.callers import no_web_pages
from watchdog.domain.report import Delivery
from watchdog.errors import CommandError, TryLater
from watchdog.server import Server
from watchdog.settings import Settings
from watchdog.views import make_app


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def server(watched):
    with serving(watched.board) as server:
        yield server


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
        Delivery("alertmanager", "http://am-2:9093", ok=False, detail="refused", count=1),
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
        ("GET", "/nothing", 404),
        ("GET", "/api//v1/report", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/static/x", 404),
        ("POST", "/metrics", 405),
        ("GET", "/api/v1/pause", 405),
    ):
        answer, headers, body = ask(server, method, path)
        assert (answer, headers["Content-Type"]) == (status, "application/json"), path
        assert json.loads(body)["status"] == status
    assert headers["Allow"] == "OPTIONS, POST"


NONE = "default-src 'none'; frame-ancestors 'none'"


def kept_off(headers, policy=NONE):
    """Check what keeps browsers off."""
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"] == policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "Server" not in headers
    assert "Access-Control-Allow-Origin" not in headers


def test_every_answer_tells_browsers_to_keep_off_and_does_not_name_its_server(server, watched):
    watched.board.report = report()
    for method, path in (
        ("GET", "/metrics"),
        ("HEAD", "/metrics"),
        ("OPTIONS", "/metrics"),
        ("GET", "/-/healthy"),
        ("GET", "/api/v1/report"),
        ("GET", "/absent"),
        ("DELETE", "/metrics"),
    ):
        kept_off(ask(server, method, path)[1])


def test_what_never_reaches_a_view_is_answered_like_all_else(server):
    came = raw(server, b"no HTTP\r\n\r\n")
    head, _, body = came.partition(b"\r\n\r\n")
    status, _, fields = head.decode().partition("\r\n")
    assert status == "HTTP/1.0 400 Bad Request"
    kept_off(dict(line.split(": ", 1) for line in fields.splitlines()))
    assert "Content-Type: application/json" in fields
    assert json.loads(body) == {
        "error": "this is no HTTP request that we understand", "status": 400,
    }  # fmt: skip


def test_a_view_may_bring_a_policy_of_its_own(watched):
    app = make_app(watched.board)

    @app.get("/own")
    def own():
        return "x", {"Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'"}

    kept_off(app.test_client().get("/own").headers, "default-src 'self'; frame-ancestors 'none'")


def test_the_page_comes_with_a_policy_that_lets_nobody_frame_it(server, watched):
    watched.board.report = report()
    status, headers, _ = get(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    kept_off(headers, headers["Content-Security-Policy"])
    assert headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/<script>alert(1)</script>", "/api//v1/<b>", "/%3Cscript%3E"])
def test_no_answer_is_a_page_with_what_was_asked_for(server, path):
    for method in ("GET", "POST", "<B>"):
        came = raw(server, f"{method} {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
        assert b"text/html" not in came
        assert b"<" not in came
        assert b"Location" not in came


def test_a_crash_is_told_without_its_details(server, watched):
    def crash():
        raise RuntimeError("a secret")

    watched.board.healthy = crash
    status, headers, body = get(server, "/-/healthy")
    assert (status, headers["Content-Type"]) == (500, "application/json")
    assert b"secret" not in body
    assert b"Traceback" not in body


# What is asked in odd ways


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /-/healthy HTTP/1.1\r\nHost: localhost", 200),
        (b"GET /-/healthy HTTP/1.1", 200),
        (b"GET /-/healthy HTTP/1.0", 200),
        (b"GET /-/healthy", 200),
        (b"GET http://localhost/-/healthy HTTP/1.1\r\nHost: localhost", 200),
        (b"HEAD /-/healthy HTTP/1.1", 200),
        (b"OPTIONS /-/healthy HTTP/1.1", 200),
        (b"OPTIONS * HTTP/1.1", 404),
        (b"TRACE /-/healthy HTTP/1.1", 405),
        (b"CONNECT 127.0.0.1:80 HTTP/1.1", 404),
        (b"BREW /-/healthy HTTP/1.1", 405),
        (b"get /-/healthy HTTP/1.1", 400),
        (b"PRI * HTTP/2.0", 404),
        (b"GET /-/healthy HTTP/1.1\r\nNo colon", 400),
        (b"GET /-/healthy HTTP/1.1\r\nSpace : x", 400),
        (b"GET /-/healthy HTTP/1.1\r\nA: b\nC: d", 400),
        (b"GET /-/healthy HTTP/1.1\r\nA: b\x00", 400),
        (b"GET  /-/healthy HTTP/1.1", 400),
        (b"GET http://[::1 HTTP/1.1", 400),
        (b"GET /%ff%00%0d%0a HTTP/1.1", 404),
        (b"\x16\x03\x01\x02\x00\x01", 400),  # somebody speaks TLS
        (b"GET /-/healthy HTTP/1.1\r\nHost: a b", 400),
        (b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nHost: localhost", 400),
        (b"GET /-/healthy HTTP/1.1\r\nHost: user@localhost", 400),
        (b"POST /api/v1/pause HTTP/1.1\r\nContent-Length: +1", 400),
        (b"POST /api/v1/pause HTTP/1.1\r\nContent-Length: " + b"9" * 5000, 400),
        (b"POST /api/v1/pause HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", 400),
        (b"POST /api/v1/pause HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", 400),
        (b"POST /api/v1/pause HTTP/1.0\r\nTransfer-Encoding: chunked", 400),
        (b"POST /api/v1/pause HTTP/1.1\r\nTransfer-Encoding: gzip", 501),
        (b"POST /api/v1/pause HTTP/1.1\r\nTransfer-Encoding: \x0bchunked", 400),
    ],
)  # fmt: skip
def test_odd_requests_are_answered_or_refused_and_never_crash(server, request_, status, caplog):
    line, _, rest = request_.partition(b"\r\n")
    came = raw(server, line + b"\r\nConnection: close\r\n" + rest + b"\r\n\r\n")
    assert came.split(b" ", 2)[1] == str(status).encode()
    assert came.count(b"HTTP/1.") == 1
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert get(server, "/-/healthy")[0] == 200


def test_what_follows_a_refused_request_is_no_request(server, watched):
    """Nothing that hides in a body or behind a refused line is obeyed."""
    hidden = b'{"target": "qwen", "seconds": 60}'
    hidden = b"POST /api/v1/pause HTTP/1.1\r\nContent-Type: application/json\r\n" + (
        b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden
    )
    for first in (
        b"POST / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"no HTTP\r\n\r\n",
        b"POST /api/v1/pause HTTP/1.1\r\nContent-Length: 70000\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ):
        assert raw(server, first + hidden).count(b"HTTP/1.") == 1
    assert watched.pauses == {}


def test_a_head_has_the_headers_of_its_get_and_no_body(server):
    with connected(server) as client:
        client.sendall(HEALTHY.replace(b"GET", b"HEAD"))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        assert b"Content-Length: 29" in head
        client.sendall(HEALTHY)
        assert status_of(client) == 200


# Who may ask


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LocalHost:19590", 200),
        ("localhost.", 200),
        ("gpu.localhost:1", 200),
        ("127.0.0.1:19590", 200),
        ("[::1]:19590", 200),
        ("192.0.2.7", 200),
        (socket.gethostname(), 200),
        ("ours.example:19590", 200),
        ("evil.example", 403),
        ("evil.example:19590", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("notlocalhost", 403),
    ],
)
def test_a_page_whose_name_points_here_reads_nothing(watched, host, status):
    """DNS rebinding: the browser of this host believes that evil.example is 127.0.0.1."""
    watched.board.report = report()
    client = make_app(watched.board, "ours.example").test_client()
    for path in ("/", "/metrics", "/api/v1/report"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == status, path
        assert (b"qwen" in answer.data) == (status == 200)


def test_a_proxy_that_keeps_the_name_says_via_which_no_page_can(watched):
    client = make_app(watched.board).test_client()
    proxied = {"Host": "gpu-1.example", "X-Forwarded-For": "10.0.0.9"}
    assert client.get("/metrics", headers=proxied).status_code == 403
    assert client.get("/metrics", headers={**proxied, "Via": "1.1 proxy"}).status_code == 200


def test_who_asks_from_elsewhere_may_use_any_name(watched):
    client = make_app(watched.board).test_client()
    answer = client.get(
        "/metrics", headers={"Host": "any.example"}, environ_base={"REMOTE_ADDR": "10.0.0.9"}
    )
    assert answer.status_code == 200


def test_the_name_that_is_listened_on_is_ours(watched):
    server = Server("ip6-localhost:0", watched.board)
    client = server._app.test_client()
    assert client.get("/-/healthy", headers={"Host": "ip6-localhost:1"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("gpu-1.example", 200), ("GPU-1", 200), ("old-name", 403), ("elsewhere.example", 403)],
)
def test_what_the_administrator_calls_the_loopback_is_ours(tmp_path, host, status):
    hosts = tmp_path / "hosts"
    hosts.write_bytes(
        b"127.0.1.1\tgpu-1.example  gpu-1 # old-name\n\n#127.0.0.1 old-name\nno-address old-name\n"
        b"10.0.0.1 elsewhere.example\n\xff\n"
    )
    app = Flask("test")
    app.before_request(no_web_pages(hosts=hosts))
    app.add_url_rule("/", view_func=lambda: "told")
    assert app.test_client().get("/", headers={"Host": host}).status_code == status


def test_without_a_file_of_hosts_the_rest_is_known(tmp_path):
    app = Flask("test")
    app.before_request(no_web_pages(hosts=tmp_path / "absent"))
    app.add_url_rule("/", view_func=lambda: "told")
    assert app.test_client().get("/", headers={"Host": "localhost"}).status_code == 200


@pytest.mark.parametrize("path", ["/webhook/alertmanager", "/api/v1/pause", "/absent"])
def test_no_page_of_any_origin_may_post(server, path):
    status, told = post(server, path, {}, Origin="http://evil.example")
    assert status == 403
    assert "web pages" in told["error"]


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
    until(lambda: not set(threading.enumerate()) - before)


@pytest.mark.parametrize(
    ("listen", "peer", "more", "status"),
    [
        ("192.0.2.2", "192.0.2.2", {}, 200),
        ("192.0.2.2", "192.0.2.3", {}, 403),
        ("192.0.2.2", "192.0.2.2", {"X-Forwarded-For": "192.0.2.9"}, 403),
        ("0.0.0.0", "192.0.2.2", {}, 403),
        ("0.0.0.0", "127.0.0.1", {}, 200),
    ],
)
def test_a_program_of_this_host_is_known_where_we_listen_on_one_address(
    watched, listen, peer, more, status
):
    client = make_app(watched.board, listen).test_client()
    answer = client.post(
        "/api/v1/pause",
        json={"target": "qwen", "seconds": 60},
        headers={"Host": listen, **more},
        environ_base={"REMOTE_ADDR": peer},
    )
    assert answer.status_code == status


def test_a_pause_that_a_long_round_keeps_waiting_may_be_tried_again(watched, server):
    def busy(*_: object) -> None:
        raise TryLater("a round takes long")

    watched.board.pause = busy
    status, said = post(server, "/api/v1/pause", {"target": "qwen", "seconds": 60})
    assert (status, said["error"]) == (503, "a round takes long")


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:19590", "http://127.0.0.1:19590"),
        ("0.0.0.0:1", "http://127.0.0.1:1"),
        ("[::]:1", "http://[::1]:1"),
        ("[2001:db8::1]:1", "http://[2001:db8::1]:1"),
        ("gpu-1:1", "http://gpu-1:1"),
    ],
)
def test_commands_reach_the_port_wherever_it_listens(listen, url):
    assert Settings.model_validate({"server": {"listen": listen}}).server.url == url
