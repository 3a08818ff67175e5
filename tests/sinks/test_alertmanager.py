from __future__ import annotations

import random
import re
import socket
import time
from pathlib import Path

import pytest

from tests.sinks.lab import Hook, alert, free_port, report, until
from watchdog.domain.alert import Alert, State
from watchdog.domain.report import rfc3339
from watchdog.fetch import Access
from watchdog.sinks import test_report as report_of_a_test
from watchdog.sinks import undelivered
from watchdog.sinks.alertmanager import Alertmanager, AlertmanagerSink
from watchdog.sinks.alertmanager_instance import ABOUT_US, BATCH

FAILING = (200, 200, 401, 429, 500, 503)


def sink(*urls: str, **settings) -> AlertmanagerSink:
    return AlertmanagerSink(tuple(Alertmanager(url) for url in urls), **settings)


def send(to: AlertmanagerSink, what, seconds: float = 5.0):
    return to.send(what, time.monotonic() + seconds)


def names(body) -> list[str]:
    return [told["labels"]["target"] for told in body]


def many(count: int):
    return [alert(target=f"t{i:03}") for i in range(count)]


# When what is sent


@pytest.mark.parametrize(("after", "sent"), [(15.0, 0), (59.0, 0), (60.0, 1), (-5.0, 1)], ids=str)
def test_a_firing_alert_is_sent_again_each_minute(hook, after, sent):
    to = sink(hook.url)
    send(to, report(1000.0, alert()))
    send(to, report(1000.0 + after, alert()))
    assert len(hook.bodies) == 1 + sent


def test_a_change_is_sent_at_once_and_alone(hook):
    to = sink(hook.url)
    firing = alert(1000.0, target="a")
    send(to, report(1000.0, firing))
    send(to, report(1015.0, firing, alert(1015.0, target="b")))
    send(to, report(1030.0, alert(1000.0, 1030.0, target="a"), alert(1015.0, target="b")))
    send(to, report(1045.0, alert(1045.0, target="a"), alert(1015.0, target="b")))
    assert [names(body) for body in hook.bodies] == [["a"], ["b"], ["a"], ["a"]]


def test_nothing_is_sent_and_nothing_told_where_nothing_is_due(hook):
    to = sink(hook.url)
    send(to, report(1000.0, alert()))
    assert send(to, report(1015.0, alert())) == []
    assert len(hook.bodies) == 1


def test_with_nothing_to_tell_each_instance_is_asked_once_a_minute_whether_it_is_there(hook):
    """Else that nobody can be told is learnt from the first alert."""
    to = sink(hook.url, f"http://127.0.0.1:{free_port()}")
    there, gone = send(to, report(1000.0))
    assert (there.ok, there.count, there.detail) == (True, 0, "is there")
    assert (gone.ok, gone.count) == (False, 0)
    assert "refused" in gone.detail
    assert send(to, report(1015.0)) == []
    assert send(to, report(1059.0)) == []
    assert [d.ok for d in send(to, report(1060.0))] == [True, False]
    assert (hook.bodies, hook.asked) == ([], 2)


def test_after_a_failure_the_next_round_tries_again(hook):
    hook.answer = lambda _: (503, b"starting")
    to = sink(hook.url)
    (failed,) = send(to, report(1000.0, alert()))
    assert (failed.ok, failed.count, failed.detail) == (False, 1, "answered 503 starting")
    hook.answer = lambda _: (200, b"")
    (taken,) = send(to, report(1015.0, alert()))
    assert (taken.ok, taken.count) == (True, 1)


def test_an_instance_that_was_down_hears_everything_anew():
    port = free_port()
    to = sink(f"http://127.0.0.1:{port}")
    first = Hook(port=port)
    send(to, report(1000.0, alert(target="a")))
    first.close()
    (failed,) = send(to, report(1015.0, alert(target="a"), alert(1015.0, target="b")))
    assert not failed.ok
    second = Hook(port=port)
    send(to, report(1030.0, alert(target="a"), alert(1015.0, target="b")))
    second.close()
    assert [sorted(names(body)) for body in second.bodies] == [["a", "b"]]


# The heartbeat


def test_a_heartbeat_fires_from_the_first_report_on_and_comes_with_each_resend(hook):
    to = sink(hook.url, heartbeat=True)
    for at in range(1000, 1121, 15):
        send(to, report(float(at), site="home"))
    assert [[told["labels"]["alertname"] for told in body] for body in hook.bodies] == [
        ["ServingWatchdogHeartbeat"]
    ] * 3
    assert {told["startsAt"] for body in hook.bodies for told in body} == {"1970-01-01T00:16:40Z"}
    assert [body[0]["endsAt"] for body in hook.bodies] == [
        "1970-01-01T00:20:40Z", "1970-01-01T00:21:40Z", "1970-01-01T00:22:40Z",
    ]  # fmt: skip


def test_a_heartbeat_is_told_beside_alerts_and_is_none_of_the_report(hook):
    to = sink(hook.url, heartbeat=True)
    what = report(1000.0, alert(target="a"))
    (taken,) = send(to, what)
    assert (taken.ok, taken.count) == (True, 2)
    assert len(what.alerts) == 1


def test_a_test_alert_brings_no_heartbeat_because_no_daemon_sent_it(hook):
    (taken,) = send(sink(hook.url, heartbeat=True), report_of_a_test("gpu-1", "1.0", 1000.0, ()))
    assert taken.count == 1
    assert [told["labels"]["alertname"] for told in hook.bodies[0]] == ["ServingWatchdogTest"]


def test_without_being_asked_for_there_is_no_heartbeat(hook):
    send(sink(hook.url), report(1000.0))
    assert hook.bodies == []


def test_long_rounds_make_alerts_live_longer(hook):
    send(sink(hook.url, interval=600.0), report(1000.0, alert(1000.0)))
    assert hook.bodies[0][0]["endsAt"] == "1970-01-01T00:56:40Z"


# One that is refused


def test_one_refused_alert_does_not_mute_the_rest(hook):
    def answer(body):
        return (400, b'"bad one"') if "t007" in names(body) else (200, b"")

    hook.answer = answer
    to = sink(hook.url)
    refused, taken = send(to, report(1000.0, *many(BATCH + 6)))
    assert (taken.ok, taken.count) == (True, BATCH + 5)
    assert (refused.ok, refused.count) == (False, 1)
    assert refused.detail == 'SpecDecodeCollapsed: answered 400 "bad one"'
    assert [len(body) for body in hook.bodies] == [BATCH, *[1] * BATCH, 6]


def test_what_is_refused_is_not_sent_again_before_the_next_minute(hook):
    hook.answer = lambda _: (400, b"no")
    to = sink(hook.url)
    (refused,) = send(to, report(1000.0, *many(3)))
    assert (refused.ok, refused.count) == (False, 3)
    assert len(hook.bodies) == 4
    assert send(to, report(1015.0, *many(3))) == []
    send(to, report(1060.0, *many(3)))
    assert len(hook.bodies) == 8


@pytest.mark.parametrize("status", [301, 401, 403, 404, 410, 415, 429])
def test_an_answer_about_the_sender_ends_the_round(hook, status):
    hook.answer = lambda _: (status, b"")
    to = sink(hook.url)
    (failed,) = send(to, report(1000.0, *many(2 * BATCH)))
    assert (failed.ok, failed.count) == (False, 2 * BATCH)
    assert failed.detail == f"answered {status}"
    assert len(hook.bodies) == 1
    send(to, report(1015.0, *many(1)))
    assert len(hook.bodies) == 2


def test_a_batch_that_fails_on_their_side_does_not_keep_the_next_one(hook):
    hook.answer = lambda body: (500, b"") if "t000" in names(body) else (200, b"")
    failed, taken = send(sink(hook.url), report(1000.0, *many(BATCH + 1)))
    assert (taken.count, failed.count) == (1, BATCH)


# Several instances


def test_an_instance_that_is_down_costs_the_others_nothing(hook):
    down = f"http://127.0.0.1:{free_port()}"
    deliveries = send(sink(down, hook.url), report(1000.0, alert()))
    assert [(d.instance, d.ok) for d in deliveries] == [(down, False), (hook.url, True)]
    assert len(hook.bodies) == 1
    assert undelivered(deliveries) == []
    assert undelivered(deliveries[:1]) == ["alertmanager"]


def test_each_instance_is_told_by_its_own_minute(hooks):
    first, second = hooks(), hooks()
    to = sink(first.url, second.url)
    second.answer = lambda _: (503, b"")
    send(to, report(1000.0, alert()))
    second.answer = lambda _: (200, b"")
    send(to, report(1015.0, alert()))
    send(to, report(1060.0, alert()))
    send(to, report(1075.0, alert()))
    assert (len(first.bodies), len(second.bodies)) == (2, 3)


def test_a_silent_instance_is_waited_for_by_no_round_and_told_of_when_it_is_given_up(hook):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        to = AlertmanagerSink((Alertmanager(url, timeout=1.0), Alertmanager(hook.url)))
        began = time.monotonic()
        [taken] = send(to, report(1000.0, alert()), 0.3)
        assert time.monotonic() - began < 1
        assert taken.ok
        until(lambda: not to.instances[0].busy)
        [failed, *_] = send(to, report(1015.0, alert()), 0.3)
    assert not failed.ok
    assert "did not answer in full" in failed.detail


def test_an_instance_that_is_slower_than_a_round_hears_of_the_alert_all_the_same(hook):
    """A short interval leaves a round less than a second; the instance has its own ten."""
    hook.drip = 0.1
    to = sink(hook.url)
    now, told = 1000.0, []
    while not any(d.ok and d.count for d in told):
        told += send(to, report(now, alert(1000.0)), 0.05)
        now += 2
        assert now < 1100
        time.sleep(0.05)
    assert hook.bodies


def test_a_silent_instance_has_its_own_limit_below_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        to = AlertmanagerSink((Alertmanager(url, timeout=0.3),))
        (failed,) = send(to, report(1000.0, alert()), 30)
        assert time.monotonic() - began < 5
    assert not failed.ok


def test_a_password_that_cannot_be_read_is_told_and_mutes_no_other(hook, tmp_path):
    hidden = Access(username="me", password_file=tmp_path / "absent")
    to = AlertmanagerSink((Alertmanager("http://127.0.0.1:9", hidden), Alertmanager(hook.url)))
    failed, taken = send(to, report(1000.0, alert()))
    assert (failed.ok, taken.ok) == (False, True)
    assert "absent" in failed.detail


def test_what_an_instance_says_is_repeated_shortened_and_on_one_line(hook):
    hook.answer = lambda _: (500, b"a\nb\x1b[31m" + b"c" * 10_000)
    (failed,) = send(sink(hook.url), report(1000.0, alert()))
    assert failed.detail.startswith("answered 500 a b [31mccc")
    assert len(failed.detail) < 250
    assert failed.detail.isprintable()


def test_the_page_for_operators_tells_which_answers_are_about_the_sender():
    page = Path(__file__).parents[2].joinpath("docs", "alertmanager.md").read_text()
    (told,) = re.findall(r"^\| answers about the sender \(([\d, ]+)\)", page, re.MULTILINE)
    assert {int(status) for status in told.split(", ")} == ABOUT_US


def test_memory_holds_only_what_is_still_told(hook):
    to = sink(hook.url)
    for i in range(20):
        send(to, report(1000.0 + i, alert(1000.0 + i, target=f"t{i}")))
    assert len(to.instances[0]._last) == 1


def test_whatever_failed_before_one_good_round_makes_each_instance_know_all(hooks):
    """Two instances that fail at random hear of 20 subjects that come and go."""
    chance = random.Random(11)
    know: list[dict[str, str]] = [{}, {}]
    both = [hooks(), hooks()]
    to = sink(*(hook.url for hook in both))
    alerts: dict[str, Alert] = {}
    for step in range(60):
        now = 1000.0 + 15.0 * step
        good = step == 59
        for hook, known in zip(both, know, strict=True):
            status = 200 if good else chance.choice(FAILING)

            def answer(body, known=known, status=status):
                if status == 200:
                    known.update({told["labels"]["target"]: told["endsAt"] for told in body})
                return status, b""

            hook.answer = answer
        for _ in range(0 if good else chance.randrange(3)):
            target = f"t{chance.randrange(20)}"
            old = alerts.get(target)
            fires = old is None or old.state is State.RESOLVED
            alerts[target] = alert(
                now if fires else old.fired_at, None if fires else now, target=target
            )
        send(to, report(now, *alerts.values()))
    for known in know:
        assert {target: ends > rfc3339(now) for target, ends in known.items()} == {
            target: told.state is State.FIRING for target, told in alerts.items()
        }
