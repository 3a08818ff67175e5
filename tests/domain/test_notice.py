from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sinks.lab import alert, report
from watchdog.domain.alert import Change, Signal, State
from watchdog.domain.finding import Argument
from watchdog.domain.notice import is_test, notices
from watchdog.domain.payload import MOST_LABEL, MOST_SUMMARY, MOST_TEXT
from watchdog.domain.report import RUNBOOK
from watchdog.sinks import test_report as report_of_a_test


def fired(*args, **kw) -> Change:
    return Change(alert(*args, **kw), State.INACTIVE, Signal.BAD_FOR_LONG)


def told(*changes: Change, now: float = 1020.0, host: str = "gpu-1", **kw):
    return notices(replace(report(now, **kw), changes=changes, host=host))


def test_a_firing_alert_is_told_with_all_that_alertmanager_gets():
    ((key, body),) = told(fired(1000.0), site="home")
    assert list(body) == [
        "version",
        "key",
        "incident",
        "product",
        "host",
        "at",
        "change",
        "why",
        "alert",
    ]
    assert body["alert"].pop("annotations")["summary"] == "qwen: the drafter is dead"
    assert body.pop("incident") != key
    assert body == {
        "version": "1",
        "key": key,
        "product": "serving-watchdog",
        "host": "gpu-1",
        "at": "1970-01-01T00:17:00Z",
        "change": "firing",
        "why": "bad for long",
        "alert": {
            "labels": {
                "alertname": "SpecDecodeCollapsed",
                "engine": "0",
                "host": "gpu-1",
                "severity": "critical",
                "site": "home",
                "target": "qwen",
            },
            "startsAt": "1970-01-01T00:16:40Z",
            "endsAt": None,
        },
    }


def test_a_resolved_alert_says_when_and_why_it_ended():
    ended = Change(alert(1000.0, 1010.0), State.FIRING, Signal.PAUSED)
    ((_, body),) = told(ended)
    assert (body["change"], body["why"]) == ("resolved", "paused")
    assert body["alert"]["startsAt"] == "1970-01-01T00:16:40Z"
    assert body["alert"]["endsAt"] == "1970-01-01T00:16:50Z"


def test_an_alert_never_ends_before_it_began():
    ((_, body),) = told(Change(alert(1000.0, 900.0), State.FIRING, Signal.GONE))
    assert body["alert"]["endsAt"] == body["alert"]["startsAt"]


def test_times_are_those_of_the_stepped_wall_clock():
    ((_, body),) = told(fired(1000.0), skew=7200.0)
    assert (body["at"], body["alert"]["startsAt"]) == (
        "1970-01-01T02:17:00Z",
        "1970-01-01T02:16:40Z",
    )


@pytest.mark.parametrize("state", [State.PENDING, State.INACTIVE])
def test_a_step_that_nobody_waits_for_is_not_told(state):
    step = Change(replace(alert(), state=state), State.INACTIVE, Signal.BAD)
    assert told(step) == []
    assert [n.body["change"] for n in told(step, fired(), step)] == ["firing"]


# Keys


def test_a_key_is_the_same_in_every_version_of_this_program():
    """A receiver that was told before an update must know the change after it."""
    ((key, _),) = told(fired(1000.0))
    assert key == "2fba85636d935733093c3c0be017a17b"


def test_the_same_change_has_the_same_key_whatever_else_changed():
    ((first, _),) = told(fired(1000.0))
    said = Argument("other words", evidence={"drafts": 5})
    again = [
        told(fired(1000.0, said=said), now=5000.0, site="moved"),
        told(fired(1000.0), skew=-3600.0),
        told(fired(1000.0000001)),
        told(replace(fired(1000.0), was=State.PENDING, why=Signal.BAD)),
        told(fired(1000.0, engine="0", target="qwen")),
    ]
    assert {key for ((key, _),) in again} == {first}


def test_two_changes_never_share_a_key():
    changes = [
        fired(1000.0),
        fired(1000.001),
        fired(2000.0),
        Change(alert(1000.0, 1100.0), State.FIRING, Signal.GOOD_FOR_LONG),
        Change(alert(2000.0, 2100.0), State.FIRING, Signal.GOOD_FOR_LONG),
        fired(1000.0, name="SpecDecodeDegraded"),
        fired(1000.0, target="qwen", engine="1"),
        fired(1000.0, target="qwen"),
        fired(1000.0, target='qwen"], ["engine", "0'),
        fired(1000.0, targetqwen="", engine="0"),
    ]
    keys = [key for key, _ in told(*changes)] + [key for key, _ in told(*changes, host="gpu-2")]
    assert len(set(keys)) == 2 * len(changes)
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys)


ANY = st.text(st.characters(exclude_categories=()))  # halves of surrogate pairs too


@given(
    st.dictionaries(ANY, ANY, min_size=1, max_size=3),
    st.dictionaries(ANY, ANY, min_size=1, max_size=3),
    ANY,
)
def test_any_texts_give_a_body_that_can_be_sent_and_a_key_of_their_own(one, other, host):
    (first, second) = (told(fired(1.0, **texts), host=host)[0] for texts in (one, other))
    assert (first.key == second.key) == (one == other)
    assert json.loads(json.dumps(first.body).encode()) == first.body
    json.dumps(first.body, ensure_ascii=False).encode()


def test_every_text_is_bounded():
    long = "x" * 100_000
    said = Argument(long, long, {"a": long}, (long,), (long,), long)
    ((_, body),) = told(fired(1000.0, said=said, model_name=long), host=long)
    assert len(body["host"]) == MOST_LABEL
    assert len(body["alert"]["labels"]["model_name"]) == MOST_LABEL
    most = 2 * MOST_SUMMARY + MOST_TEXT + len(RUNBOOK) + 4 * MOST_LABEL + 500
    assert len(json.dumps(body)) < most


def test_a_test_is_known_and_says_when_it_ends():
    test = report_of_a_test("gpu-1", "1.0", 1000.0, ())
    assert is_test(test)
    assert not is_test(replace(report(1020.0), changes=(fired(),)))
    ((_, body),) = notices(test)
    assert body["alert"]["labels"]["alertname"] == "ServingWatchdogTest"
    assert body["alert"]["endsAt"] == "1970-01-01T00:21:40Z"


def shape(of: object) -> object:
    return {name: shape(value) for name, value in of.items()} if isinstance(of, dict) else None


def test_the_page_for_operators_shows_a_body_as_it_is_made():
    page = Path(__file__).parents[2].joinpath("docs", "webhooks.md").read_text()
    (shown,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    ((_, body),) = told(fired(1000.0, target="q", engine="0", model_name="m"), site="home")
    shown = json.loads(shown)
    assert shape(shown) == shape(body)
    assert {shown[name] for name in ("version", "product", "change", "why")} == {
        body[name] for name in ("version", "product", "change", "why")
    }
    assert f"Idempotency-Key: {shown['key']}\n" in page
    assert set(re.findall(r"^\| `(version|key|at|change|why)` \|", page, re.MULTILINE)) < set(body)


def test_the_beginning_and_the_end_of_one_incident_are_joined_and_those_of_two_are_not():
    (began,) = told(fired(1000.0))
    (ended,) = told(Change(alert(1000.0, 1060.0), State.FIRING, Signal.GOOD_FOR_LONG))
    (anew,) = told(fired(2000.0))
    assert began.body["incident"] == ended.body["incident"] != anew.body["incident"]
    assert began.key != ended.key
