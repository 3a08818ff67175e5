"""vLLM servers on this host are found by asking its ports, and what was seen becomes a file."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
import yaml

from watchdog import config
from watchdog.discover import EACH, Found, find_servers, first_config, listening, search

PAGES = Path(__file__).parent / "probes" / "fixtures" / "vllm_metrics"
HEALTHY = (PAGES / "g_draft_same_healthy_1_after_greedy.prom").read_text()
SPEC_OFF = (PAGES / "a0_spec_off_idle.prom").read_text()


def serve(server, page, version="0.32.0"):
    server.expect_request("/metrics").respond_with_data(page, content_type="text/plain")
    if version:
        server.expect_request("/version").respond_with_json({"version": version})
    return server.url_for("").rstrip("/").replace("localhost", "127.0.0.1")


def drafting(models, *, depth=7, acceptance_length=2.0, **more):
    claims = {"speculation": True, "depth": depth, "acceptance_length": acceptance_length}
    return Found("http://127.0.0.1:1", models, **claims, **more)


def loaded(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return config.load(path)


def test_a_server_on_some_port_of_this_host_is_found_with_what_its_page_says(httpserver):
    url = serve(httpserver, HEALTHY)

    assert url in listening()
    (found,) = [server for server in find_servers(20.0) if server.url == url]

    assert found.models == ("tiny",)
    assert found.version == "0.32.0"
    assert (found.engines, found.speculation, found.depth) == (1, True, 4)
    assert found.acceptance_length == pytest.approx(5.0, abs=0.2)


def test_a_server_without_speculation_has_no_depth(httpserver):
    ((found,), untried) = search(10.0, [serve(httpserver, SPEC_OFF, version=None)])

    assert (found.speculation, found.depth, found.acceptance_length) == (False, None, None)
    assert found.version is None
    assert untried == ()


def test_what_answers_otherwise_is_no_server(httpserver):
    httpserver.expect_request("/metrics").respond_with_data("<html></html>")
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()

    urls = [httpserver.url_for("").rstrip("/"), f"http://127.0.0.1:{port}"]

    assert search(10.0, urls) == ((), ())


def test_ports_that_never_answer_cost_little_and_what_was_not_tried_is_said():
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(20)]
    urls = [f"http://127.0.0.1:{server.getsockname()[1]}" for server in silent]
    began = time.monotonic()
    try:
        found, untried = search(EACH + 0.5, urls)
    finally:
        for server in silent:
            server.close()

    assert time.monotonic() - began < EACH + 2.5
    assert found == ()
    assert urls[-1] in untried
    assert urls[0] not in untried
    assert urls[-1] in first_config(found, untried)


def test_our_own_port_is_not_asked():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert f"http://127.0.0.1:{port}" in listening()
        assert f"http://127.0.0.1:{port}" not in listening(frozenset({port}))


def test_a_port_on_every_address_is_asked_on_loopback():
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert f"http://127.0.0.1:{server.getsockname()[1]}" in listening()


def test_what_was_measured_is_claimed_and_the_rest_is_a_comment(tmp_path):
    text = first_config(
        [
            drafting(("Qwen/Qwen3-8B",), version="0.32.0", engines=2, acceptance_length=3.766),
            Found("http://127.0.0.1:8219", ("tiny",)),
        ]
    )

    first, second = loaded(tmp_path, text).targets
    assert (first.expect.speculation, first.expect.depth) == (True, 7)
    assert (first.expect.method, first.expect.acceptance_length) == (None, None)
    assert second.expect.speculation is None
    assert "# acceptance_length: 3.77" in text
    assert "# seen: vLLM 0.32.0, model Qwen/Qwen3-8B, 2 engines" in text


def test_its_suggestions_can_be_taken_by_removing_the_hash(tmp_path):
    text = first_config([drafting(("org/Qwen3-8B",), acceptance_length=3.7)])
    for key in ("name", "method", "acceptance_length"):
        text = text.replace(f"# {key}:", f"{key}:")

    (target,) = loaded(tmp_path, text).targets

    assert target.name == "Qwen3-8B"
    assert (target.expect.method, target.expect.acceptance_length) == ("eagle3", 3.7)


def test_a_first_configuration_is_good_where_nothing_was_found(tmp_path):
    assert loaded(tmp_path, first_config([])).targets == config.default().targets


def test_the_text_of_a_page_cannot_write_configuration(tmp_path):
    hostile = 'x\n  - url: http://evil:1\n"'
    text = first_config([drafting((hostile,), version=hostile)])

    assert [target["url"] for target in yaml.safe_load(text)["targets"]] == ["http://127.0.0.1:1"]
    assert loaded(tmp_path, text).targets[0].name == "127.0.0.1:1"


def test_series_without_a_draft_are_no_proof_of_speculation(httpserver, tmp_path):
    fresh = (PAGES / "b_ngram_fresh.prom").read_text()

    text = first_config(search(10.0, [serve(httpserver, fresh)]).found)

    assert loaded(tmp_path, text).targets[0].expect.speculation is None
    assert "no draft yet" in text
    uncommented = text.replace("# expect:", "expect:")
    assert loaded(tmp_path, uncommented).targets[0].expect.speculation is True


def test_a_depth_beyond_what_the_configuration_takes_is_left_out(tmp_path):
    text = first_config([drafting(("m",), depth=65)])

    assert loaded(tmp_path, text).targets[0].expect.depth is None
