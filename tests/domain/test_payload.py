from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.sinks.lab import alert, report
from watchdog.domain.alert import HEARTBEAT, State
from watchdog.domain.finding import Argument
from watchdog.domain.heartbeat import heartbeat
from watchdog.domain.payload import MOST_LABEL, MOST_SUMMARY, MOST_TEXT, payload
from watchdog.domain.report import RUNBOOK
from watchdog.sinks import test_report as report_of_a_test


def bodies(report, *args, **settings):
    """What is sent where the reader's clock is our wall clock."""
    return [told.stamped(report.skew) for told in payload(report, *args, **settings)]


def test_a_firing_alert_says_all_that_its_finding_argues():
    assert bodies(report(1020.0, alert(1000.0), site="home")) == [
        {
            "labels": {
                "alertname": "SpecDecodeCollapsed",
                "engine": "0",
                "host": "gpu-1",
                "severity": "critical",
                "site": "home",
                "target": "qwen",
            },
            "annotations": {
                "summary": "qwen: the drafter is dead",
                "description": (
                    "expected: position 0 accepted on more than 20 % of the drafts\n"
                    "evidence:\n"
                    "- drafts: 1,700\n"
                    "- positions: 0.067, 0.0099\n"
                    "- acceptance length: 1.079\n"
                    "ruled out:\n"
                    "- queueing: 0 requests waiting\n"
                    "suspects, likeliest first:\n"
                    "- a compile cache of an older launch\n"
                    "- other weights"
                ),
                "next_step": "restart the server with its compile cache moved aside",
                "runbook_url": "https://github.com/serving-watchdog/serving-watchdog/blob/main/"
                "docs/alerts/SpecDecodeCollapsed.md",
            },
            "startsAt": "1970-01-01T00:16:40Z",
            "endsAt": "1970-01-01T00:21:00Z",
        }
    ]


@pytest.mark.parametrize(
    ("name", "fired", "resolved", "now", "skew", "every", "starts", "ends"),
    [
        ("ServingDown", 1000, None, 1015, 0, 60, "00:16:40Z", "00:20:55Z"),  # 4 resends of 60 s
        ("ServingDown", 1000, None, 1600, 0, 600, "00:16:40Z", "01:06:40Z"),  # or of longer rounds
        ("ServingDown", 1000, 1100, 1115, 0, 60, "00:16:40Z", "00:18:20Z"),  # when it was resolved
        ("ServingDown", 1000, 900, 1115, 0, 60, "00:16:40Z", "00:16:40Z"),  # never before it began
        ("ServingDown", 9000, None, 1000, 0, 60, "02:30:00Z", "02:30:00Z"),  # nor while it fires
        ("ServingDown", 1000, None, 1015, 7200, 60, "02:16:40Z", "02:20:55Z"),  # a stepped clock
        ("ServingDown", 1000.25, None, 1015, 0, 60, "00:16:40.250Z", "00:20:55Z"),
        ("ServingWatchdogTest", 1000, None, 1290, 0, 60, "00:16:40Z", "00:21:40Z"),  # 5 minutes
    ],
)
def test_times_are_utc_and_an_alert_never_ends_before_it_began(  # noqa: PLR0917
    name, fired, resolved, now, skew, every, starts, ends
):
    (told,) = bodies(report(now, alert(fired, resolved, name), skew=skew), every)
    assert told["startsAt"] == "1970-01-01T" + starts
    assert told["endsAt"] == "1970-01-01T" + ends


def test_the_times_are_those_of_the_clock_that_reads_them():
    (told,) = payload(report(1015.0, alert(1000.0), skew=7200.0))
    assert told.stamped(-600.0)["startsAt"] == "1970-01-01T00:06:40Z"
    assert told.stamped(-600.0)["endsAt"] == "1970-01-01T00:10:55Z"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (alert(1000.0), alert(1000.0, said=Argument("other words")), False),
        (alert(1000.0), alert(1000.0, 1010.0), True),
        (alert(1000.0, 1010.0), alert(1015.0), True),
        (alert(1000.0, 1010.0), alert(1015.0, 1018.0), True),
    ],
    ids=["the same", "resolved", "fires again", "fired again meanwhile"],
)
def test_what_must_be_told_at_once_has_another_state(before, after, changed):
    (was,), (now,) = payload(report(1020.0, before)), payload(report(1020.0, after))
    assert (was.state != now.state) == changed


def test_what_was_resolved_is_told_before_what_fires():
    told = payload(report(1020.0, alert(1000.0), alert(1000.0, 1010.0, "ServingDown")))
    assert [t.body["labels"]["alertname"] for t in told] == ["ServingDown", "SpecDecodeCollapsed"]


def test_a_resolved_alert_is_told_for_15_minutes():
    assert len(bodies(report(2000.0, alert(1000.0, 1100.0)))) == 1
    assert bodies(report(2000.1, alert(1000.0, 1100.0))) == []


def test_what_neither_fires_nor_was_resolved_is_not_told():
    pending = replace(alert(), state=State.PENDING)
    assert bodies(report(1020.0, pending, replace(pending, state=State.INACTIVE))) == []


def test_labels_of_ours_cannot_be_changed_by_a_subject_or_the_configuration():
    odd = alert(alertname="Other", severity="none", host="elsewhere", site="subject")
    (told,) = bodies(report(1020.0, odd, site="config", severity="none"))
    assert told["labels"] == {
        "alertname": "SpecDecodeCollapsed",
        "host": "gpu-1",
        "severity": "critical",
        "site": "subject",
    }


def test_odd_names_and_values_become_what_the_oldest_alertmanager_takes():
    odd = alert(**{"bad-label": 'x\n"y"', "a.b": "é", "0gpu": "a", "empty": "", "cut": "\ud800"})
    labels = bodies(report(1020.0, odd))[0]["labels"]
    assert labels["bad_label"] == 'x\n"y"'
    assert labels["a_b"] == "é"
    assert labels["_0gpu"] == "a"
    assert labels["cut"] == "?"
    assert "empty" not in labels
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) for name in labels)
    assert all(isinstance(value, str) and value for value in labels.values())


def test_long_texts_are_cut():
    long = "x" * 100_000
    said = Argument(long, long, {"a": long}, (long,), (long,), long)
    (told,) = bodies(report(1020.0, alert(said=said, model_name=long)))
    assert len(told["labels"]["model_name"]) == MOST_LABEL
    notes = told["annotations"]
    assert (len(notes["summary"]), len(notes["next_step"])) == (MOST_SUMMARY, MOST_SUMMARY)
    assert len(notes["description"]) == MOST_TEXT


def test_what_is_not_argued_is_no_annotation():
    (told,) = bodies(report(1020.0, alert(said=Argument("only this"))))
    assert told["annotations"] == {
        "summary": "only this",
        "runbook_url": RUNBOOK.format(alertname="SpecDecodeCollapsed"),
    }


def test_a_test_alert_is_marked_and_harmless():
    (told,) = bodies(report_of_a_test("gpu-1", "1.0", 1000.0, (("site", "home"),)))
    assert told["labels"] == {
        "alertname": "ServingWatchdogTest",
        "severity": "info",
        "test": "true",
        "host": "gpu-1",
        "site": "home",
    }
    assert told["annotations"]["summary"].startswith("a test from gpu-1: nothing is wrong")
    assert (told["startsAt"], told["endsAt"]) == ("1970-01-01T00:16:40Z", "1970-01-01T00:21:40Z")


def test_a_heartbeat_names_its_host_and_the_route_it_wants_and_nothing_else():
    beating = report(5000.0, site="home")
    (told,) = bodies(replace(beating, alerts=(heartbeat(beating, 1000.0),)))
    assert told["labels"] == {
        "alertname": "ServingWatchdogHeartbeat",
        "severity": "none",
        "host": "gpu-1",
        "site": "home",
    }
    assert (told["startsAt"], told["endsAt"]) == ("1970-01-01T00:16:40Z", "1970-01-01T01:27:20Z")
    assert "always fires" in told["annotations"]["summary"]
    assert f'alertname="{HEARTBEAT}"' in told["annotations"]["next_step"]
    assert told["annotations"]["runbook_url"].endswith("/ServingWatchdogHeartbeat.md")
