"""Who can be told anything now, as the board reads it from what the sinks really say."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from tests.sinks.lab import alert, free_port, report, until
from tests.sinks.outbox import MemoryOutbox
from tests.sinks.receiver import HANG, Answered, Receiver
from watchdog.board import Board
from watchdog.clock import Clock
from watchdog.domain.alert import Change, Signal, State
from watchdog.domain.notice import notices
from watchdog.domain.report import Delivery
from watchdog.fetch import NO_ACCESS
from watchdog.sinks.alertmanager import Alertmanager, AlertmanagerSink
from watchdog.sinks.alertmanager_instance import BATCH
from watchdog.sinks.webhook import Webhook, WebhookSink

BAD, GOOD = Answered(503, b"starting"), Answered()
REFUSING = Answered(400, b"no such field")


def unreached(deliveries: Iterable[Delivery]) -> list[str]:
    board = Board()
    for delivery in deliveries:
        board.count(delivery)
    return board.unreached()


def many(count: int):
    return [alert(target=f"t{i:03}") for i in range(count)]


# Webhooks


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with contextlib.closing(Receiver()) as receiver:
        yield receiver


def told(receiver: Receiver, count: int, *answers) -> list[Delivery]:
    """
    Return what one round hears of so many notices and answers, all since the round before.

    Time runs fast, so that no back-off lasts; the last answer is a silence that ends nothing.
    """
    receiver.answers = [*answers, HANG]
    outbox, clock = MemoryOutbox(), Clock(speed=300.0)
    hook = Webhook("pager", receiver.url, NO_ACCESS, outbox, clock, random.Random(1))
    sink = WebhookSink((hook,))
    for one in many(count):
        change = Change(one, State.INACTIVE, Signal.BAD_FOR_LONG)
        (notice,) = notices(replace(report(1000.0), changes=(change,)))
        outbox.put("pager", notice, clock.now())
    sink.send(report(1000.0), 0.0)
    until(lambda: len(outbox.log) == len(answers))
    time.sleep(0.05)  # a try is counted before or after it is noted
    deliveries = sink.send(report(1015.0), 0.0)
    sink.close()
    return deliveries


def test_a_webhook_that_failed_for_a_while_and_took_it_then_is_reached(receiver):
    deliveries = told(receiver, 2, BAD, BAD, GOOD, GOOD)
    assert [(d.ok, d.count) for d in deliveries] == [(False, 2), (True, 2)]
    assert unreached(deliveries) == []


def test_a_webhook_that_took_one_and_then_fails_is_not_reached(receiver):
    deliveries = told(receiver, 2, GOOD, BAD)
    assert [(d.ok, d.count) for d in deliveries] == [(True, 1), (False, 1)]
    assert unreached(deliveries) == [
        "nothing reaches webhook pager: answered 503 starting; 1 kept, to be tried again"
    ]


@pytest.mark.parametrize("answers", [(GOOD, REFUSING), (REFUSING, GOOD)], ids=["after", "before"])
def test_a_webhook_that_refuses_one_notice_and_takes_another_is_reached(receiver, answers):
    deliveries = told(receiver, 2, *answers)
    assert [(d.ok, d.count) for d in deliveries] == [(False, 1), (True, 1)]
    assert unreached(deliveries) == []


def test_of_two_troubles_the_present_one_is_told_last(receiver):
    kept_last = told(receiver, 2, REFUSING, BAD)
    assert ["dropped" in d.detail for d in kept_last] == [True, False]
    dropped_last = told(receiver, 2, BAD, REFUSING)
    assert ["dropped" in d.detail for d in dropped_last] == [False, True]


# Alertmanager


def send(url: str, *alerts, seconds: float = 5.0) -> list[Delivery]:
    to = AlertmanagerSink((Alertmanager(url, timeout=seconds),))
    return to.send(report(1000.0, *alerts), time.monotonic() + seconds + 2)


def names(body) -> list[str]:
    return [told["labels"]["target"] for told in body]


@pytest.mark.parametrize("bad", [0, 7, 19])
def test_an_instance_that_refuses_one_alert_of_twenty_is_reached(hook, bad):
    hook.answer = lambda body: (400 if f"t{bad:03}" in names(body) else 200, b"odd")
    deliveries = send(hook.url, *many(20))
    assert [(d.ok, d.count) for d in deliveries] == [(False, 1), (True, 19)]
    assert unreached(deliveries) == []


def test_an_instance_that_fails_at_one_batch_and_takes_the_next_is_reached(hook):
    hook.answer = lambda body: (500 if "t000" in names(body) else 200, b"")
    deliveries = send(hook.url, *many(BATCH + 1))
    assert [(d.ok, d.count) for d in deliveries] == [(False, BATCH), (True, 1)]
    assert unreached(deliveries) == []


@pytest.mark.parametrize("status", [401, 403, 500])
def test_an_instance_that_takes_one_batch_and_fails_at_the_next_is_not_reached(hook, status):
    hook.answer = lambda body: (200 if "t000" in names(body) else status, b"")
    deliveries = send(hook.url, *many(BATCH + 1))
    assert [(d.ok, d.count) for d in deliveries] == [(True, BATCH), (False, 1)]
    assert unreached(deliveries) == [f"nothing reaches alertmanager {hook.url}: answered {status}"]


def test_an_instance_that_falls_silent_after_one_batch_is_not_reached(hook):
    def silent(body):
        if "t000" not in names(body) and body:
            time.sleep(1.5)
        return 200, b""

    hook.answer = silent
    deliveries = send(hook.url, *many(BATCH + 1), seconds=0.7)
    assert [(d.ok, d.count) for d in deliveries] == [(True, BATCH), (False, 1)]
    assert "did not answer in full" in unreached(deliveries)[0]


def test_an_instance_that_refuses_all_that_it_is_told_is_not_reached(hook):
    hook.answer = lambda body: (400 if body else 200, b"odd")
    assert "answered 400 odd" in unreached(send(hook.url, *many(2)))[0]


def test_a_cluster_is_reached_where_one_of_two_is(hook):
    down = f"http://127.0.0.1:{free_port()}"
    to = AlertmanagerSink((Alertmanager(hook.url), Alertmanager(down)))
    assert unreached(to.send(report(1000.0, alert()), time.monotonic() + 5)) == []
