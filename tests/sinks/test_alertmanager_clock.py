"""What is stamped by whose clock, against a stub that dates its answers as the test wants."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import datetime

import pytest
from structlog.testing import capture_logs

from tests.sinks.lab import alert, report
from watchdog.domain.alert import State
from watchdog.domain.payload import payload
from watchdog.sinks.alertmanager import Alertmanager, AlertmanagerSink
from watchdog.sinks.alertmanager_instance import Moment

HOUR, DAY, YEAR = 3600.0, 86400.0, 365 * 86400.0


def sink(*urls: str) -> AlertmanagerSink:
    return AlertmanagerSink(tuple(Alertmanager(url) for url in urls))


def send(to: AlertmanagerSink, what):
    with capture_logs() as lines:
        told = to.send(what, time.monotonic() + 10)
    return told, [line["event"] for line in lines]


def unix(rfc3339: str) -> float:
    return datetime.fromisoformat(rfc3339.replace("Z", "+00:00")).timestamp()


def stamps(body) -> list[tuple[float, float]]:
    return [(unix(told["startsAt"]), unix(told["endsAt"])) for told in body]


def shows(at: float):
    """A clock that shows this now, and runs."""
    began = time.monotonic()
    return lambda: at + time.monotonic() - began


def test_a_clock_like_ours_changes_nothing_and_is_not_spoken_of(hook):
    hook.clock = shows(1000.5)
    told, lines = send(sink(hook.url), report(1000.5, alert(900.0)))
    assert [(d.ok, d.count) for d in told] == [(True, 1)]
    assert [stamps(body) for body in hook.bodies] == [[(900.0, 1240.5)]]
    assert lines == []


@pytest.mark.parametrize("off", [-YEAR, -DAY, -HOUR, -3.0, 6.5, HOUR, DAY, YEAR])
def test_alerts_are_stamped_by_the_clock_that_reads_them_from_the_first_one_on(hook, off):
    """Our wall clock is right by its own word, and `off` behind the other one."""
    hook.clock = shows(2e9 + off)
    told, _ = send(sink(hook.url), report(2e9, alert(2e9 - 100)))
    assert [(d.ok, d.count) for d in told] == [(True, 1)]
    assert (hook.asked, len(hook.bodies)) == (1, 1)
    ((starts, ends),) = stamps(hook.bodies[0])
    assert 2e9 + off - 102 < starts <= 2e9 + off - 100
    assert 2e9 + off + 238 < ends <= 2e9 + off + 240


def test_what_ended_never_ends_in_the_future_of_who_reads_it(hook):
    """Else Alertmanager would go on with it until the next resend."""
    for off in (0.0, -0.5, -1.5, -2.5, -4.5, -HOUR):
        hook.clock = shows(2e9 + off)
        send(sink(hook.url), report(2e9, alert(2e9 - 100, 2e9)))
        ((_, ends),) = stamps(hook.bodies[-1])
        assert ends <= 2e9 + max(off, -1.0) + 1.0, off


def test_each_instance_is_told_by_its_own_clock(hooks):
    right, wrong, silent = hooks(), hooks(), hooks()
    right.clock, wrong.clock = shows(2e9), shows(2e9 + HOUR)
    send(sink(right.url, wrong.url, silent.url), report(2e9, alert(2e9)))
    ends = [stamps(hook.bodies[0])[0][1] - 2e9 for hook in (right, wrong, silent)]
    assert ends == [240, pytest.approx(HOUR + 240, abs=2), 240]


def test_it_is_asked_once_and_again_after_a_silence_or_a_step_of_our_clock(hook):
    began = time.time()
    hook.clock = shows(began)
    to = sink(hook.url)
    for at, skew, asked in (
        (0.0, 0.0, 1),
        (60.0, 0.0, 1),
        (120.0, 0.0, 1),
        (300.0, 0.0, 2),
        (301.0, HOUR, 2),
        (360.0, HOUR, 3),
        (420.0, HOUR, 3),
    ):
        hook.clock = shows(began + at)
        send(to, report(began + at, alert(began), skew=skew))
        assert hook.asked == asked, at


def test_a_step_of_their_clock_is_found_by_the_next_answer_and_mended_at_once(hook):
    to = sink(hook.url)
    hook.clock = shows(2e9)
    send(to, report(2e9, alert(2e9)))
    hook.clock = shows(2e9 + 60 + HOUR)
    told, lines = send(to, report(2e9 + 60, alert(2e9)))
    assert [(d.ok, d.count) for d in told] == [(True, 1)]
    ends = [stamps(body)[0][1] - 2e9 for body in hook.bodies]
    assert ends == [240, 300, pytest.approx(HOUR + 300, abs=2)]
    assert len(lines) == 1
    hook.clock = shows(2e9 + 120 + HOUR)
    _, lines = send(to, report(2e9 + 120, alert(2e9)))
    assert (len(hook.bodies), lines) == (4, [])


def test_a_clock_that_is_mad_makes_it_send_twice_at_most(hook):
    chance = random.Random(4)
    hook.clock = lambda: chance.uniform(0, 4e9)
    to = sink(hook.url)
    for i in range(10):
        told, _ = send(to, report(2e9 + 60 * i, alert(2e9)))
        assert [(d.ok, d.count) for d in told] == [(True, 1)]
    assert hook.asked == 1
    assert 10 < len(hook.bodies) <= 20


def test_a_refusal_is_not_repeated_for_the_sake_of_a_clock(hook):
    hook.clock = shows(2e9)
    to = sink(hook.url)
    send(to, report(2e9, alert(2e9)))
    hook.answer = lambda _: (400, b"no")
    hook.clock = shows(2e9 + HOUR)
    send(to, report(2e9 + 60, alert(2e9)))
    assert len(hook.bodies) == 2


def test_the_operator_hears_of_it_once_and_when_it_is_mended(hook):
    hook.clock = shows(2e9)
    to = sink(hook.url)
    heard = []
    for at, skew in ((0, HOUR), (60, HOUR), (120, HOUR + 2), (180, -DAY), (240, 0.0), (300, 0.0)):
        hook.clock = shows(2e9 + at)
        _, lines = send(to, report(2e9 + at, alert(2e9), skew=float(skew)))
        heard.append([line.replace(hook.url, "URL") for line in lines])
    mend = "alerts are stamped in its time; mend the clock that is wrong: timedatectl"
    assert [len(lines) for lines in heard] == [1, 0, 0, 1, 1, 0]
    assert heard[0][0] in {
        f"this host's clock is {s} s ahead of Alertmanager at URL: {mend}"
        for s in ("3,599", "3,600", "3,601")
    }
    assert " behind Alertmanager at URL" in heard[3][0]
    assert heard[4][0] == "this host's clock agrees again with the one of Alertmanager at URL"


def test_a_slow_answer_is_not_taken_for_a_clock_that_is_wrong(hook):
    hook.clock = shows(2e9)
    hook.answer = lambda _: (200, b"12345678")
    hook.drip = 0.1
    _, lines = send(sink(hook.url), report(2e9, alert(2e9)))
    assert (lines, len(hook.bodies)) == ([], 1)
    assert stamps(hook.bodies[0]) == [(2e9, 2e9 + 240)]


def test_a_post_that_is_late_in_its_round_blames_no_clock(hook):
    hook.clock = shows(2e9 + 60)
    instance = Alertmanager(hook.url)
    late = Moment(2e9, 0.0, time.monotonic() - 60)
    with capture_logs() as lines:
        assert instance.start(payload(report(2e9, alert(2e9))), late, 60.0)
        assert [d.ok for d in instance.deliveries(time.monotonic() + 10)] == [True]
    assert (lines, len(hook.bodies)) == ([], 1)


def test_nothing_ends_before_it_began_whatever_the_clocks_do(hook):
    chance = random.Random(7)
    to = sink(hook.url)
    for _ in range(60):
        now = 2e9 + chance.uniform(0, YEAR)
        hook.clock = shows(2e9 + chance.choice([-YEAR, -HOUR, 0, 3, HOUR, YEAR]))
        firing = alert(now + chance.uniform(-HOUR, HOUR))
        resolved = replace(firing, state=State.RESOLVED, resolved_at=now - chance.uniform(-9, 899))
        told = chance.choice([firing, resolved])
        send(to, report(now, told, skew=chance.choice([0.0, -HOUR, YEAR])))
    assert len(hook.bodies) >= 60
    assert all(starts <= ends for body in hook.bodies for starts, ends in stamps(body))
