from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.sinks.lab import alert, report
from watchdog.domain.alert import Change, Signal, State
from watchdog.sinks import SINKS
from watchdog.sinks import test_report as report_of_a_test
from watchdog.sinks.alertmanager import AlertmanagerSink
from watchdog.sinks.log import Log, level
from watchdog.sinks.ping import Ping
from watchdog.sinks.stamp import StampSink
from watchdog.sinks.textfile import Textfile
from watchdog.sinks.webhook import WebhookSink

FIRED = Change(alert(), State.INACTIVE, Signal.BAD_FOR_LONG)


def lines(*changes: Change):
    with capture_logs() as seen:
        told = Log().send(replace(report(1000.0), changes=changes), 0.0)
    return seen, told


def test_an_alert_that_fires_is_one_line_with_its_next_step():
    (line,), (told,) = lines(FIRED)
    assert line == {
        "event": "alert firing",
        "log_level": "critical",
        "alertname": "SpecDecodeCollapsed",
        "severity": "critical",
        "target": "qwen",
        "engine": "0",
        "was": "inactive",
        "state": "firing",
        "why": "bad for long",
        "summary": "qwen: the drafter is dead",
        "next_step": "restart the server with its compile cache moved aside",
    }
    assert (told.sink, told.ok, told.count) == ("log", True, 1)


def test_an_alert_that_ends_says_why_and_asks_for_nothing():
    ended = Change(alert(1000.0, 1100.0), State.FIRING, Signal.PAUSED)
    (line,), _ = lines(ended)
    assert (line["event"], line["log_level"]) == ("alert resolved", "info")
    assert (line["was"], line["why"]) == ("firing", "paused")
    assert "next_step" not in line


@pytest.mark.parametrize(
    ("name", "state", "expected"),
    [
        ("SpecDecodeCollapsed", State.FIRING, logging.CRITICAL),
        ("SpecDecodeDegraded", State.FIRING, logging.WARNING),
        ("ServingWatchdogTest", State.FIRING, logging.INFO),
        ("SpecDecodeCollapsed", State.PENDING, logging.INFO),
        ("SpecDecodeCollapsed", State.RESOLVED, logging.INFO),
    ],
)
def test_only_what_starts_to_fire_is_loud(name, state, expected):
    told = replace(alert(name=name), state=state)
    assert level(Change(told, State.INACTIVE, Signal.BAD)) == expected


def test_a_round_without_a_change_writes_nothing():
    assert lines() == ([], [])


def test_a_subject_cannot_pose_as_another_part_of_the_line():
    posing = replace(FIRED, alert=alert(event="x", level="y", summary="z", target="qwen"))
    (line,), _ = lines(posing)
    assert (line["event"], line["summary"]) == ("alert firing", "qwen: the drafter is dead")
    assert "level" not in line


def test_a_test_alert_takes_the_same_way():
    with capture_logs() as seen:
        Log().send(report_of_a_test("gpu-1", "1.0", 1000.0, ()), 0.0)
    assert [(line["alertname"], line["test"]) for line in seen] == [("ServingWatchdogTest", "true")]


def test_every_sink_is_found_by_its_own_name():
    made = {
        "log": Log(),
        "alertmanager": AlertmanagerSink(()),
        "webhook": WebhookSink(()),
        "textfile": Textfile(Path("/a.prom"), lambda _: b""),
        "ping": Ping("http://127.0.0.1:9"),
        "stamp": StampSink(),
    }
    assert {name: sink.name for name, sink in made.items()} == {name: name for name in SINKS}
