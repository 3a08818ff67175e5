"""The report as data: DESIGN's keys, the wall clock's times, and always valid JSON."""

from __future__ import annotations

import json
import random

import pytest

from tests.telling_stories import Engine, Story, shares
from watchdog.domain.finding import Argument, Finding, Verdict, worst
from watchdog.domain.report import Report, as_json, finding_as_json, rfc3339
from watchdog.domain.sample import labels


def dead_engine() -> Story:
    """A story in which an alert fires."""
    engine = Engine()
    story = Story([engine])
    for _ in range(8):
        engine.draft(500, shares(500, 0.05), requests=2)
        story.round()
    return story


def test_the_report_has_every_promised_key() -> None:
    report = as_json(dead_engine().report)
    assert set(report) >= {
        "product", "version", "host", "at", "verdict", "readings", "findings", "alerts", "paused",
    }  # fmt: skip
    assert report["product"] == "serving-watchdog"
    assert report["verdict"] == "CRITICAL"
    assert set(report["readings"][0]) >= {"probe", "target", "ok", "took_seconds", "error"}
    [dead] = [f for f in report["findings"] if f["alertname"] == "SpecDecodeCollapsed"]
    assert set(dead) >= {
        "check", "alertname", "verdict", "conclusive", "subject", "value", "unit", "expected",
        "summary", "evidence", "ruled_out", "suspects", "next_step", "runbook_url",
    }  # fmt: skip
    assert dead["check"] == "acceptance_length"
    assert dead["subject"] == {"target": "qwen", "engine": "0", "model_name": "m"}
    assert dead["runbook_url"].endswith("docs/alerts/SpecDecodeCollapsed.md")
    assert {"window_seconds", "drafts", "draft_tokens", "accepted_tokens"} <= set(dead["evidence"])
    assert dead["evidence"]["accepted_tokens"] == 0.05 * dead["evidence"]["drafts"]


def test_it_is_json_without_nan_at_every_stage() -> None:
    """Idle, learning, leaning, dead, blind, restarted: each must be a document others can read."""
    rng, engine = random.Random(3), Engine()
    story = Story([engine])
    for i in range(120):
        if rng.random() < 0.7:
            engine.draft(400, shares(400, *(0.05,) if i > 60 else (0.8, 0.5)))
        if rng.random() < 0.05:
            engine.restart()
        report = story.fail() if rng.random() < 0.1 else story.round()
        text = json.dumps(as_json(report), allow_nan=False)
        assert json.loads(text)["verdict"] in {v.name for v in Verdict}


def test_times_are_the_wall_clocks() -> None:
    report = Report("h", "0", 1000.0, skew=0.5, paused={"t": 1060.0})
    assert as_json(report)["at"] == "1970-01-01T00:16:40.500Z"
    assert as_json(report)["paused"] == {"t": "1970-01-01T00:17:40.500Z"}


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (1796008336.0, "2026-11-30T03:12:16Z"),
        (1796008336.25, "2026-11-30T03:12:16.250Z"),
        (0.9999, "1970-01-01T00:00:01Z"),
    ],
)
def test_seconds_become_rfc_3339(at: float, text: str) -> None:
    assert rfc3339(at) == text


def test_the_worst_verdict_orders_unknown_below_warning() -> None:
    assert worst([]) is Verdict.OK
    assert worst([Verdict.OK, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert worst([Verdict.UNKNOWN, Verdict.WARNING]) is Verdict.WARNING
    assert worst([Verdict.WARNING, Verdict.CRITICAL, Verdict.UNKNOWN]) is Verdict.CRITICAL


def test_findings_of_a_target_are_those_that_name_it() -> None:
    own = Finding("A", labels(target="a", engine="0"), Verdict.OK, lambda: Argument("a"))
    other = Finding("A", labels(target="b", engine="0"), Verdict.OK, lambda: Argument("b"))
    assert Report("h", "0", 0.0, findings=(own, other)).of_target("a") == [own]


def test_the_text_is_made_once_and_only_when_read() -> None:
    made = []

    def argue() -> Argument:
        made.append(1)
        return Argument("said")

    found = Finding("A", labels(target="t"), Verdict.OK, argue)
    assert made == []
    assert finding_as_json(found)["summary"] == finding_as_json(found)["summary"] == "said"
    assert made == [1]
