"""`doctor` says of each part what it is and what to do, and nothing makes it hang."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from watchdog import config, doctor
from watchdog.board import Board
from watchdog.doctor import examine, run
from watchdog.domain.finding import Verdict
from watchdog.installation import Line
from watchdog.server import Server

PAGES = Path(__file__).parent / "probes" / "fixtures" / "vllm_metrics"
HEALTHY = (PAGES / "g_draft_same_healthy_1_after_greedy.prom").read_text()


@pytest.fixture
def silent():
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def settings(tmp_path, *, targets=(), managers=(), listen=None):
    path = tmp_path / "config.yaml"
    path.write_text(
        f"targets: [{', '.join(f'{{url: {url}}}' for url in targets)}]\n"
        f"alerting: {{alertmanagers: [{', '.join(f'{{url: {url}}}' for url in managers)}]}}\n"
        f"server: {{listen: 127.0.0.1:{listen or free_port()}}}\n"
    )
    return config.load(path)


def told(lines, what):
    return [line for line in lines if line.what.startswith(what)]


def base(server):
    return server.url_for("").rstrip("/").replace("localhost", "127.0.0.1")


def test_a_target_is_said_with_what_its_page_shows(httpserver, tmp_path):
    httpserver.expect_request("/metrics").respond_with_data(HEALTHY, content_type="text/plain")
    httpserver.expect_request("/version").respond_with_json({"version": "0.32.0"})

    first, second = told(examine(settings(tmp_path, targets=[base(httpserver)]), None), "target")

    assert first.verdict is Verdict.OK
    assert first.detail == (
        "vLLM 0.32.0, 1 engine, model tiny, series of speculative decoding with 4 positions"
    )
    assert second.verdict is Verdict.OK
    assert "/v1/models was not readable" in second.detail
    assert "bearer_token_file" in second.next_step


def test_a_target_that_is_not_there_and_one_that_is_something_else(httpserver, tmp_path):
    httpserver.expect_request("/metrics").respond_with_data("<html></html>")
    urls = [base(httpserver), f"http://127.0.0.1:{free_port()}"]

    other, closed = told(examine(settings(tmp_path, targets=urls), None), "target")

    assert other.verdict is Verdict.UNKNOWN
    assert "HTML" in other.detail
    assert closed.verdict is Verdict.CRITICAL
    assert "refused" in closed.detail


def test_a_model_name_cannot_speak_to_the_terminal(httpserver, tmp_path):
    page = HEALTHY.replace('model_name="tiny"', 'model_name="\x1b[2Jtiny"')
    httpserver.expect_request("/metrics").respond_with_data(page, content_type="text/plain")

    lines = told(examine(settings(tmp_path, targets=[base(httpserver)]), None), "target")

    assert all(line.detail.isprintable() for line in lines)
    assert any("tiny" in line.detail for line in lines)


def test_an_alertmanager_is_asked_whether_it_is_ready(httpserver, tmp_path):
    httpserver.expect_request("/am/-/ready").respond_with_data("OK")
    httpserver.expect_request("/closed/-/ready").respond_with_data("no", status=401)
    root = base(httpserver)
    managers = [f"{root}/am", f"{root}/closed", f"{root}/other", f"http://127.0.0.1:{free_port()}"]

    lines = told(examine(settings(tmp_path, managers=managers), None), "alertmanager")

    assert [line.verdict for line in lines] == [Verdict.OK, *[Verdict.CRITICAL] * 3]
    assert "wants a token" in lines[1].detail
    assert "path prefix" in lines[2].next_step
    assert "refused" in lines[3].detail


def test_servers_that_never_answer_cost_one_deadline_together(silent, tmp_path):
    chosen = settings(tmp_path, targets=[silent], managers=[silent])
    began = time.monotonic()

    lines = examine(chosen, None, patience=1.5)

    assert time.monotonic() - began < 4
    assert told(lines, "target")[0].verdict is Verdict.CRITICAL
    assert told(lines, "alertmanager")[0].verdict is Verdict.CRITICAL
    assert told(lines, "promtool")


def test_a_step_that_hangs_or_crashes_is_one_line_and_the_others_are_taken():
    never = threading.Event()
    steps = [
        ("hangs", lambda: [never.wait()]),
        ("crashes", lambda: 1 // 0),
        ("works", lambda: [Line(Verdict.OK, "works", "well")]),
    ]

    lines = list(run(steps, 0.3))
    never.set()

    assert lines == [
        Line(Verdict.UNKNOWN, "hangs", "did not end within 0.3 s"),
        Line(
            Verdict.UNKNOWN,
            "crashes",
            "could not be examined: ZeroDivisionError: integer division or modulo by zero",
        ),
        Line(Verdict.OK, "works", "well"),
    ]


def test_a_free_port_is_free(tmp_path):
    (line,) = told(examine(settings(tmp_path), None), "port")

    assert line.verdict is Verdict.OK
    assert "is free" in line.detail


def test_a_port_of_another_program_is_told_from_our_daemons(httpserver, tmp_path):
    httpserver.expect_request("/metrics").respond_with_data("up 1\n")
    (line,) = told(examine(settings(tmp_path, listen=httpserver.port), None), "port")
    assert line.verdict is Verdict.WARNING
    assert "another program" in line.detail

    server = Server("127.0.0.1:0", Board())
    server.start()
    try:
        (line,) = told(examine(settings(tmp_path, listen=server.port), None), "port")
    finally:
        server.stop()
    assert line.verdict is Verdict.OK
    assert "our daemon" in line.detail


def test_an_address_of_another_host_cannot_be_listened_on():
    chosen = config.default()
    server = chosen.server.model_copy(update={"listen": "192.0.2.1:19590"})

    (line,) = doctor.port(chosen.model_copy(update={"server": server}), 1.0)

    assert line.verdict is Verdict.WARNING
    assert "cannot be used" in line.detail


def test_without_a_file_the_defaults_count_and_a_bad_one_is_not_used(tmp_path):
    (line,) = doctor.configuration(config.default(), None)
    assert line.verdict is Verdict.OK
    assert "config init" in line.next_step

    bad = tmp_path / "bad.yaml"
    bad.write_text("a: 1\nb: 2\n")
    (line,) = doctor.configuration(config.default(), bad)
    assert line.verdict is Verdict.UNKNOWN
    assert "has 2 faults" in line.detail
    assert line.next_step == f"watchdog config check --config {bad}"


def test_a_slip_in_the_configuration_is_a_warning(tmp_path):
    chosen = settings(tmp_path)

    lines = list(doctor.configuration(chosen, tmp_path / "config.yaml"))

    assert [line.verdict for line in lines] == [Verdict.OK, Verdict.WARNING]
    assert "only the GPUs of this host" in lines[1].detail


def test_processes_of_others_that_are_hidden_are_said(tmp_path):
    for pid in ("1", "77"):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(b"init\0")
    (line,) = doctor.processes(tmp_path)
    assert (line.verdict, line.detail[:45]) == (
        Verdict.OK,
        "the command lines of 2 of 2 processes can be read"[:45],
    )

    (tmp_path / "1").rename(tmp_path / "one")
    (line,) = doctor.processes(tmp_path)
    assert line.verdict is Verdict.UNKNOWN
    assert "hidepid" in line.detail


def test_every_part_has_its_line(tmp_path):
    lines = examine(settings(tmp_path), None)

    assert [line.what.partition(" ")[0] for line in lines if line.verdict is Verdict.OK][:3] == [
        "version",
        "package",
        "libraries",
    ]
    for what in ("PyPI's watchdog", "config", "port", "processes", "promtool"):
        assert told(lines, what)
