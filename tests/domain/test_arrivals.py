"""The webhook's payload: recorded from real Alertmanagers, and what no Alertmanager would send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from watchdog.domain.arrivals import MOST_LABELS, sort
from watchdog.domain.named import Here
from watchdog.errors import PayloadError

RECORDED = Path(__file__).parents[1] / "probes/fixtures/inbox"
HERE = Here.of("gpu-1", [], {"qwen": "http://127.0.0.1:8000"})


def recorded(name: str) -> dict[str, Any]:
    return json.loads((RECORDED / name).read_text())


def payload(*alerts: Any, **more: Any) -> dict[str, Any]:
    return {"version": "4", "groupKey": "{}:{}", "status": "firing", "alerts": list(alerts), **more}


def alert(status: str = "firing", fingerprint: str = "f1", **labels: str) -> dict[str, Any]:
    labels = labels or {"alertname": "HighLatencyP99", "instance": "gpu-1:8000"}
    return {
        "status": status, "labels": labels, "annotations": {"summary": "p99 is 41 s"},
        "startsAt": "2026-11-30T03:12:00Z", "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": fingerprint,
    }  # fmt: skip


@pytest.mark.parametrize("version", ["0.25", "0.33"])
def test_what_real_alertmanagers_sent_is_sorted(version):
    found = sort(recorded(f"alertmanager-{version}/firing.json"), HERE)
    assert [(a.alertname, a.status, a.target) for a in found.arrivals] == [
        ("NodeLoadHigh", "firing", ""),
        ("HighLatencyP99", "firing", "qwen"),
    ]
    assert (found.ours, found.not_for_us) == (1, 1)
    late = found.arrivals[1]
    assert late.summary == "p99 of gpu-1:8000 is 41 s"
    assert late.labels == (("instance", "gpu-1:8000"), ("job", "vllm"), ("severity", "page"))
    assert late.fingerprint == "df90475cb0edb753"

    ended = sort(recorded(f"alertmanager-{version}/one-resolved.json"), HERE).arrivals
    assert [(a.alertname, a.status) for a in ended] == [
        ("NodeLoadHigh", "firing"),
        ("HighLatencyP99", "resolved"),
    ]
    assert ended[1].key == late.key  # the same alert


def test_a_payload_of_the_operators_own_is_refused_with_the_way_to_mend_it():
    with pytest.raises(PayloadError, match=r'version must be "4".*take `payload` out'):
        sort(recorded("alertmanager-0.33/custom-payload.json"), HERE)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (None, "JSON object"),
        ([], "JSON object"),
        ({}, "version"),
        ({"version": 4, "alerts": []}, "version"),
        ({"version": "5", "alerts": []}, "version"),
        ({"version": "4"}, "alerts must be a list"),
        ({"version": "4", "alerts": {}}, "alerts must be a list"),
        (payload(None), r"alerts\[0\].labels"),
        (payload(alert(), {"status": "firing"}), r"alerts\[1\].labels"),
        (payload({**alert(), "labels": {}}), r"alerts\[0\].labels"),
        (payload({**alert(), "labels": {"host": 1}}), r"alerts\[0\].labels must have texts"),
        (payload({**alert(), "status": None}), r"alerts\[0\].status"),
        (payload({**alert(), "status": ["firing"]}), r"alerts\[0\].status"),
    ],
    ids=str,
)
def test_what_can_never_be_taken_names_the_key(body, key):
    with pytest.raises(PayloadError, match=key):
        sort(body, HERE)


def test_unknown_keys_are_ignored_and_missing_ones_missed_by_nobody():
    more = {**alert(), "annotations": None, "startsAt": 5, "fingerprint": [], "later": {"x": 1}}
    found = sort(payload(more, routeLabels={}, groupKey=7), HERE)
    (one,) = found.arrivals
    assert (one.summary, one.starts_at) == ("", "")
    assert len(one.fingerprint) == 32  # made of the labels
    assert sort(payload(), HERE).arrivals == ()


def test_our_own_alert_that_a_route_brings_back_is_ours():
    ours = alert(alertname="SpecDecodeCollapsed", host="gpu-1", target="qwen")
    beat = alert(alertname="ServingWatchdogHeartbeat", host="GPU-1")
    theirs = alert(alertname="SpecDecodeCollapsed", host="gpu-2", target="qwen")
    found = sort(payload(ours, beat, theirs), HERE)
    assert (found.arrivals, found.ours, found.not_for_us) == ((), 2, 1)


def test_the_key_is_that_of_group_alert_and_beginning():
    first = sort(payload(alert()), HERE).arrivals[0].key
    for other in (payload(alert("resolved")), payload(alert(), status="resolved")):
        assert sort(other, HERE).arrivals[0].key == first
    for other in (
        payload(alert(), groupKey="other"),
        payload(alert(fingerprint="f2")),
        payload({**alert(), "startsAt": "2026-11-30T03:13:00Z"}),
    ):
        assert sort(other, HERE).arrivals[0].key != first


def test_every_text_is_one_printable_line_and_bounded():
    odd = "a\x1b[31m\r\n\u202eb\ud800\x00" + "c" * 100_000
    labels = {"alertname": odd, "host": "gpu-1", **{f"l{i}{odd}": odd for i in range(100)}}
    huge = {**alert(**labels), "annotations": {"summary": odd}, "startsAt": odd, "fingerprint": odd}
    (one,) = sort(payload(huge, groupKey=odd), HERE).arrivals
    texts = [text for text in one if isinstance(text, str)]
    texts += [text for pair in one.labels for text in pair]
    assert all(text.isprintable() and len(text) <= 300 for text in texts)
    assert all(text.encode() is not None for text in texts)
    assert len(one.labels) == MOST_LABELS
    assert one.alertname.startswith("a [31m b? ccc")
