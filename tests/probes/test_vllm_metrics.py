"""The probe against a server: what it asks for, and what each answer means."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.hostile import HostileServer, answer, says
from watchdog.domain.sample import labels
from watchdog.errors import NoAnswer, NotUnderstood, ProbeError
from watchdog.fetch import Access
from watchdog.probes import PROBES
from watchdog.probes.vllm_metrics import VllmMetrics, details_of

FIXTURES = Path(__file__).parent / "fixtures" / "vllm_metrics"
BODY = (FIXTURES / "g_draft_same_healthy_1_after_greedy.prom").read_bytes()
MODELS = {"object": "list", "data": [{"id": "tiny", "root": "/models/tiny", "max_model_len": 1024}]}


class Vllm:
    """A server's endpoints as data, which a test may change."""

    def __init__(self):
        self.bodies = {
            "/metrics": BODY,
            "/version": b'{"version":"0.32.0"}',
            "/v1/models": json.dumps(MODELS).encode(),
        }
        self.asked = []

    def __call__(self, visit):
        self.asked.append(visit.path)
        body = self.bodies.get(visit.path)
        visit.send(answer(b"", "404 Not Found") if body is None else answer(body))


@pytest.fixture
def vllm():
    return Vllm()


@pytest.fixture
def server(vllm):
    with HostileServer(vllm) as server:
        yield server


def read(probe, known=None):
    return probe.read(known or {}, time.monotonic() + 5)


def test_a_reading_has_samples_and_facts(server):
    reading = read(VllmMetrics("qwen", server.url))
    assert (reading.probe, reading.target, reading.error) == ("vllm_metrics", "qwen", None)
    engine = labels(target="qwen", engine="0", model_name="tiny")
    assert (engine, "generated_tokens", 6440.0) in reading.samples
    assert reading.facts == {
        "format": "text",
        "process_start": 1796007846.76,
        "version": "0.32.0",
        "url": server.url,
        "models": [{"id": "tiny", "root": "/models/tiny"}],
    }


def test_details_are_asked_once_and_then_known(server, vllm):
    probe = VllmMetrics("t", server.url)
    known = {}
    for _ in range(3):
        known = read(probe, known).facts
        assert known["version"] == "0.32.0"
        assert known["models"]
    assert vllm.asked == ["/metrics", "/version", "/v1/models", "/metrics", "/metrics"]


def test_details_are_asked_again_when_the_process_is_another(server, vllm):
    probe = VllmMetrics("t", server.url)
    known = read(probe).facts
    vllm.bodies["/metrics"] = BODY.replace(b"1.79600784676e+09", b"1.79600999999e+09")
    vllm.bodies["/version"] = b'{"version":"0.33.0"}'
    assert read(probe, known).facts["version"] == "0.33.0"


def test_a_detail_that_is_gone_after_a_restart_is_not_taken_over(server, vllm):
    probe = VllmMetrics("t", server.url)
    known = read(probe).facts
    vllm.bodies["/metrics"] = BODY.replace(b"1.79600784676e+09", b"1.79600999999e+09")
    del vllm.bodies["/version"]
    assert "version" not in read(probe, known).facts


def test_details_are_asked_again_after_an_outage(server, vllm):
    """A page of several API servers has no process start that would tell."""
    vllm.bodies["/metrics"] = page = (FIXTURES / "h_api2_ngram_1.prom").read_bytes()
    probe = VllmMetrics("t", server.url)
    known = read(probe).facts
    vllm.bodies["/metrics"] = None
    with pytest.raises(NotUnderstood):
        read(probe, known)
    vllm.bodies.update({"/metrics": page, "/version": b'{"version":"0.33.0"}'})
    assert read(probe, known).facts["version"] == "0.33.0"


def test_absent_details_are_not_asked_for_at_each_round(server, vllm):
    vllm.bodies = {"/metrics": BODY}
    probe = VllmMetrics("t", server.url)
    known = {}
    for _ in range(4):
        known = read(probe, known).facts
    assert vllm.asked.count("/metrics") == 4
    assert vllm.asked.count("/version") == 1


@pytest.mark.parametrize(
    ("suffix", "metrics", "version"),
    [
        ("", "/metrics", "/version"),
        ("/", "/metrics", "/version"),
        ("/metrics", "/metrics", "/version"),
        ("/v1/metrics", "/v1/metrics", "/version"),
        ("/qwen", "/qwen/metrics", "/qwen/version"),
        ("/qwen/metrics", "/qwen/metrics", "/qwen/version"),
    ],
)
def test_the_address_may_be_the_servers_or_its_pages(suffix, metrics, version):
    vllm = Vllm()
    vllm.bodies[metrics] = BODY
    with HostileServer(vllm) as server:
        read(VllmMetrics("t", server.url + suffix))
    assert vllm.asked[:2] == [metrics, version]
    assert vllm.asked[2].endswith("/v1/models")


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        ("502 Bad Gateway", NoAnswer, "answered 502"),
        ("503 Service Unavailable", NoAnswer, "answered 503.*proxy"),
        ("504 Gateway Timeout", NoAnswer, "answered 504"),
        ("401 Unauthorized", NotUnderstood, "bearer_token_file"),
        ("403 Forbidden", NotUnderstood, "bearer_token_file"),
        ("404 Not Found", NotUnderstood, "is this a vLLM server"),
        ("500 Internal Server Error", NotUnderstood, "answered 500, not 200"),
        ("204 No Content", NotUnderstood, "answered 204, not 200"),
    ],
)
def test_what_each_status_means(status, kind, sentence):
    with HostileServer(says(b"", status=status)) as server:
        with pytest.raises(kind, match=f"{server.url}/metrics.*{sentence}"):
            read(VllmMetrics("t", server.url))


def test_a_page_that_is_none_is_told_with_its_address():
    with HostileServer(says(b"<html>")) as server:
        with pytest.raises(NotUnderstood, match=f"{server.url}/metrics is an HTML page"):
            read(VllmMetrics("t", server.url))


def test_a_page_that_is_not_utf_8_is_told():
    with HostileServer(says(b'vllm:x{a="\xff"} 1\n')) as server:
        with pytest.raises(NotUnderstood, match="not UTF-8 text at byte 10"):
            read(VllmMetrics("t", server.url))


def test_openmetrics_is_recognised_by_its_content_type():
    kind = "application/openmetrics-text; version=1.0.0"
    with HostileServer(says(b"vllm:prompt_tokens_total 1\n", content_type=kind)) as server:
        with pytest.raises(NotUnderstood, match="does not end with # EOF"):
            read(VllmMetrics("t", server.url))


def test_every_endpoint_gets_the_token(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    read(VllmMetrics("t", server.url, Access(bearer_token_file=token)))
    assert {v.header("Authorization") for v in server.visits} == {"Bearer s3cret"}


def test_an_unreadable_token_is_neither_silence_nor_a_page(server, tmp_path):
    with pytest.raises(ProbeError, match="bearer_token_file") as caught:
        read(VllmMetrics("t", server.url, Access(bearer_token_file=tmp_path / "none")))
    assert not isinstance(caught.value, NoAnswer)


def test_a_scrape_is_the_bodies_as_received(server, vllm):
    bodies = VllmMetrics("t", server.url).scrape(time.monotonic() + 5)
    assert bodies == {
        "metrics.prom": BODY,
        "version.json": vllm.bodies["/version"],
        "models.json": vllm.bodies["/v1/models"],
    }


def test_at_most_16_models_are_facts():
    data = [{"id": f"m{i}", "root": None} for i in range(100)]
    models = details_of({"models.json": json.dumps({"data": data}).encode()})["models"]
    assert models == [{"id": f"m{i}", "root": None} for i in range(16)]


def test_the_probe_is_in_the_map_under_its_name():
    assert PROBES[VllmMetrics.name] is VllmMetrics
