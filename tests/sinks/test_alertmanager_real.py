"""Against real Alertmanagers: 0.25, and the newer ones of Debian where they could be fetched."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from tests.sinks.alertmanagers import (
    PEER_TIMEOUT,
    SUITES,
    RealAlertmanager,
    black_hole,
    pair,
    program,
)
from tests.sinks.lab import Hook, alert, free_port, report, until
from watchdog.domain.alert import HEARTBEAT, Alert, State
from watchdog.domain.payload import FACTOR, RESEND
from watchdog.sinks import test_report as report_of_a_test
from watchdog.sinks import undelivered
from watchdog.sinks.alertmanager import Alertmanager, AlertmanagerSink
from watchdog.sinks.alertmanager_instance import BATCH

TWO_SUITES = pytest.mark.parametrize("command", SUITES[:2], indirect=True, scope="module")
"""For what takes long; what the newest one does new is seen in the rest."""

HOUR, DAY, YEAR = 3600.0, 86400.0, 365 * 86400.0


@pytest.fixture(scope="module", params=SUITES)
def command(request) -> str:
    return program(request.param)


@pytest.fixture(scope="module")
def real(command, tmp_path_factory) -> Iterator[RealAlertmanager]:
    """One for many tests, each of which has targets of its own."""
    with contextlib.closing(Hook()) as hook:
        with RealAlertmanager(command, tmp_path_factory.mktemp("am"), hook) as real:
            yield real


def sink(*urls: str, timeout: float = 10.0, **settings) -> AlertmanagerSink:
    return AlertmanagerSink(tuple(Alertmanager(url, timeout=timeout) for url in urls), **settings)


def send(to: AlertmanagerSink, what, seconds: float = 5.0):
    return to.send(what, time.monotonic() + seconds)


def ended(firing: Alert, at: float) -> Alert:
    return replace(firing, state=State.RESOLVED, resolved_at=at)


def test_it_receives_what_fires_and_hears_that_it_is_resolved(real):
    now = time.time()
    to = sink(real.url)
    firing = alert(now - 30, target="plain", engine="0")
    assert [(d.ok, d.count) for d in send(to, report(now, firing, site="home"))] == [(True, 1)]

    (seen,) = real.active("plain")
    assert seen["labels"] == {
        "alertname": "SpecDecodeCollapsed", "severity": "critical", "host": "gpu-1",
        "target": "plain", "engine": "0", "site": "home",
    }  # fmt: skip
    assert seen["status"]["state"] == "active"
    assert "suspects, likeliest first" in seen["annotations"]["description"]
    until(lambda: real.told("plain") == ["firing"])

    now = time.time()
    (taken,) = send(to, report(now, ended(firing, now), site="home"))
    assert (taken.ok, taken.count) == (True, 1)
    until(lambda: not real.active("plain"))
    until(lambda: real.told("plain") == ["firing", "resolved"])


def test_it_keeps_what_is_sent_again_and_ends_what_is_not_and_so_the_heartbeat(real):
    """Resends of 0.4 s: what is told no more ends 4 of them later."""
    to = sink(real.url, resend=0.4, interval=0.4, heartbeat=True)
    began = time.time()
    kept, dropped = alert(began, target="kept"), alert(began, target="dropped")
    send(to, report(began, kept, dropped, site="beating"))
    assert len(real.active("kept") + real.active("dropped")) == 2
    while (now := time.time()) < began + 2.2:
        send(to, report(now, kept, site="beating"))
        time.sleep(0.1)
    assert real.active("dropped") == []
    beating = "?filter=site%3Dbeating&filter=severity%3Dnone"
    (seen,) = real.alerts(beating)
    assert seen["labels"]["alertname"] == HEARTBEAT
    assert unix(seen["startsAt"]) == pytest.approx(began, abs=1)

    send(to, report(now, ended(kept, now), site="beating"))
    until(lambda: real.told("kept") == ["firing", "resolved"], 1)
    assert real.alerts(beating)
    until(lambda: not real.alerts(beating), 4)
    assert time.time() - now > 2 * 0.4


def test_it_takes_odd_texts_and_a_test_alert(real):
    now = time.time()
    odd = alert(now, **{"target": "odd", "model_name": 'a"b\\c\nd\x00é\ud800', "bad-label": "x"})
    (taken,) = send(sink(real.url), report(now, odd))
    assert taken.ok, taken.detail
    (taken,) = send(sink(real.url), report_of_a_test("gpu-1", "1.0", now, ()))
    assert taken.ok, taken.detail
    (seen,) = real.alerts("?filter=alertname%3DServingWatchdogTest")
    assert seen["labels"]["severity"] == "info"


def test_it_takes_more_alerts_than_one_batch_holds(real):
    now = time.time()
    many = [alert(now, target=f"many-{i}", of="many") for i in range(3 * BATCH + 1)]
    (taken,) = send(sink(real.url), report(now, *many))
    assert (taken.ok, taken.count) == (True, 3 * BATCH + 1)
    assert len(real.alerts("?filter=of%3Dmany")) == 3 * BATCH + 1


# Clocks: `skew` is how far this host's wall clock is off, and the real one's is right


CLOCKS = {
    "an hour behind": (-HOUR, -HOUR),
    "a day ahead": (DAY, DAY),
    "a year ahead": (YEAR, YEAR),
    "3 s ahead": (3.0, 3.0),
    "3 s behind": (-3.0, -3.0),
    "stepped an hour back": (0.0, -HOUR),
    "stepped a day forward": (0.0, DAY),
    "stepped a year forward": (0.0, YEAR),
    "mended after a year": (YEAR, 0.0),
}
"""How far off it is when an alert begins, and afterwards: hosts that one Alertmanager hears."""


def test_a_clock_of_ours_that_is_wrong_loses_nothing_and_leaves_nothing(real):
    began = time.time()
    hosts = {words: sink(real.url, resend=0, interval=RESEND) for words in CLOCKS}
    firing = {words: alert(began - 2, target=words) for words in CLOCKS}
    for step in (0, 1):
        for words, to in hosts.items():
            now = time.time()
            (taken,) = send(to, report(now, firing[words], skew=CLOCKS[words][step]))
            assert (taken.ok, taken.count) == (True, 1), words
            (seen,) = real.active(words)
            assert seen["status"]["state"] == "active", words
            # Had we died now, it would end 4 resends after it was sent, by Alertmanager's clock.
            left = unix(seen["endsAt"]) - now
            assert FACTOR * RESEND - 5 <= left <= FACTOR * RESEND + 5, words
    for words, to in hosts.items():
        now = time.time()
        send(to, report(now, ended(firing[words], now), skew=CLOCKS[words][1]))
    until(lambda: not any(real.active(words) for words in CLOCKS), 5)
    until(lambda: all("resolved" in real.told(words) for words in CLOCKS))
    assert {w: t for w in CLOCKS if (t := real.told(w)) != ["firing", "resolved"]} == {}


def unix(rfc3339: str) -> float:
    return datetime.fromisoformat(rfc3339.replace("Z", "+00:00")).timestamp()


# One of two that does not do its work, in every way


@pytest.fixture
def bad(request, hooks) -> Iterator[str]:
    """Yield the address of one that fails in the way that the test names."""
    if request.param == "black hole":
        with black_hole() as url:
            yield url
    elif request.param == "down":
        yield f"http://127.0.0.1:{free_port()}"
    elif request.param == "drips":
        yield drips(hooks).url
    else:
        yield hooks(lambda _: (request.param, b"not now")).url


def drips(hooks) -> Hook:
    hook = hooks(lambda _: (200, b"x" * 1000))
    hook.drip = 0.05
    return hook


@TWO_SUITES
@pytest.mark.parametrize(
    "bad", ["down", "black hole", "drips", 400, 401, 429, 500], indirect=True, ids=str
)
def test_one_that_fails_costs_the_other_neither_an_alert_nor_a_resolve(real, bad, request):
    target = request.node.callspec.id
    to = AlertmanagerSink((Alertmanager(bad, timeout=0.3), Alertmanager(real.url)), resend=0)
    began = time.time()
    firing = alert(began, target=target)
    for _ in range(2):
        failed, taken = send(to, report(time.time(), firing))
        assert (failed.ok, failed.instance) == (False, bad)
        assert (taken.ok, taken.count) == (True, 1)
        assert undelivered([failed, taken]) == []
    assert len(real.active(target)) == 1
    now = time.time()
    for _ in range(2):
        send(to, report(time.time(), ended(firing, now)))
    until(lambda: not real.active(target))
    until(lambda: "resolved" in real.told(target))
    assert real.told(target) == ["firing", "resolved"]


@pytest.mark.parametrize("bad", ["down", "black hole", "drips", 500], indirect=True, ids=str)
def test_if_all_fail_that_is_told(bad):
    deliveries = send(sink(bad, bad, timeout=0.3), report(time.time(), alert()))
    assert [d.ok for d in deliveries] == [False, False]
    assert undelivered(deliveries) == ["alertmanager"]


@TWO_SUITES
def test_a_pair_notifies_once_while_one_of_them_dies_and_comes_back_empty(command, hook, tmp_path):
    with pair(command, tmp_path, hook) as (first, second):
        to = sink(first.url, second.url, resend=0, interval=RESEND)
        before, during = alert(time.time(), target="before"), alert(time.time(), target="during")

        assert [d.ok for d in send(to, report(time.time(), before))] == [True, True]
        until(lambda: first.told("before") == ["firing"])
        until(lambda: first.considered() and second.considered())

        first.kill()
        assert [d.ok for d in send(to, report(time.time(), before, during))] == [False, True]
        until(lambda: second.told("during") == ["firing"])
        over = time.time()
        assert [d.ok for d in send(to, report(over, ended(before, over), during))] == [False, True]
        until(lambda: "resolved" in second.told("before"))

        first.start()
        until(lambda: first.peers() >= 2)
        assert first.alerts() == []
        deliveries = send(to, report(time.time(), ended(before, over), during))
        assert [d.count for d in deliveries if d.instance == first.url and d.ok] == [2]
        assert [a["labels"]["target"] for a in first.alerts()] == ["during"]
        assert [a["labels"]["target"] for a in second.alerts()] == ["during"]
        # Alertmanager itself notifies twice of what ends while one waits for the other.
        was = first.considered()
        until(lambda: first.considered() > was)

        over_too = time.time()
        send(to, report(over_too, ended(before, over), ended(during, over_too)))
        until(lambda: not first.alerts() and not second.alerts())
        until(lambda: "resolved" in second.told("during"))
        over_too = time.time()
        until(lambda: time.time() > over_too + 1.5 + PEER_TIMEOUT)  # the other one would have, too
        assert first.told("before") == ["firing", "resolved"]
        assert first.told("during") == ["firing", "resolved"]
