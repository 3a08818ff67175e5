"""The queue between the port and the round: bounded, once each, and whole under many threads."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.domain.test_arrivals import HERE, alert, payload, recorded
from watchdog.domain.sample import HOST
from watchdog.errors import PayloadError, TryLater
from watchdog.probes.inbox import MOST_REMEMBERED, MOST_WAITING, REMINDER, Inbox, here_of
from watchdog.reader import Readers


class Ticking:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 5000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def inbox(clock) -> Inbox:
    return Inbox(lambda: HERE, clock)


def told(inbox: Inbox) -> list[tuple[str, str]]:
    [reading] = Readers([inbox]).read_all(1.0)
    assert (reading.probe, reading.target, reading.error) == ("inbox", HOST, None)
    return [(each["fingerprint"], each["status"]) for each in reading.facts["told"]]


def test_what_was_taken_is_told_to_one_round(inbox):
    assert inbox.take(recorded("alertmanager-0.25/firing.json")) == (2, 1, 0, 1, 2, 0)
    assert told(inbox) == [("dd860e92d0121d6f", "firing"), ("df90475cb0edb753", "firing")]
    assert told(inbox) == []


def test_the_other_one_of_a_pair_says_nothing_new(inbox):
    inbox.take(recorded("alertmanager-0.33/firing.json"))
    again = inbox.take(recorded("alertmanager-0.33/firing.json"))
    assert (again.accepted, again.duplicates, again.firing) == (0, 2, 0)
    ended = inbox.take(recorded("alertmanager-0.33/one-resolved.json"))
    assert (ended.accepted, ended.duplicates, ended.firing) == (1, 1, 0)
    assert len(told(inbox)) == 3
    assert inbox.take(recorded("alertmanager-0.33/one-resolved.json")).accepted == 0


def test_an_alert_that_ended_for_want_of_news_may_fire_again_as_it_began(inbox):
    for status, accepted in (("firing", 1), ("resolved", 1), ("firing", 1), ("firing", 0)):
        assert inbox.take(payload(alert(status))).accepted == accepted


def test_the_same_word_after_a_while_is_a_reminder(inbox, clock):
    inbox.take(payload(alert()))
    clock.now += REMINDER - 1
    assert inbox.take(payload(alert())).accepted == 0
    clock.now += 1
    assert inbox.take(payload(alert())).accepted == 1


def test_a_full_queue_takes_the_rest_when_it_comes_again(inbox):
    whole = payload(*(alert(fingerprint=f"f{i}") for i in range(MOST_WAITING + 10)))
    first = inbox.take(whole)
    assert (first.accepted, first.firing, first.refused) == (MOST_WAITING, MOST_WAITING, 10)
    second = inbox.take(whole)
    assert (second.accepted, second.duplicates, second.refused) == (0, MOST_WAITING, 10)
    assert len(told(inbox)) == MOST_WAITING
    third = inbox.take(whole)
    assert (third.accepted, third.duplicates, third.refused) == (10, MOST_WAITING, 0)
    assert [fingerprint for fingerprint, _ in told(inbox)] == [f"f{256 + i}" for i in range(10)]


def test_what_is_remembered_is_bounded(inbox):
    for start in range(0, 2 * MOST_REMEMBERED, MOST_WAITING):
        inbox.take(payload(*(alert(fingerprint=f"f{start + i}") for i in range(MOST_WAITING))))
        told(inbox)
    assert len(inbox._said) == MOST_REMEMBERED
    assert inbox.take(payload(alert(fingerprint="f0"))).accepted == 1  # forgotten, so new


def test_a_faulty_alert_keeps_the_whole_payload_out(inbox):
    with pytest.raises(PayloadError):
        inbox.take(payload(alert(), {"status": "firing"}))
    assert told(inbox) == []
    assert inbox.take(payload(alert())).accepted == 1


def test_it_outlasts_its_readers_and_takes_nothing_once_stopped(inbox):
    readers = Readers([inbox])
    inbox.take(payload(alert()))
    readers.close()
    assert told(inbox) == [("f1", "firing")]
    inbox.stop()
    with pytest.raises(TryLater, match="stopping"):
        inbox.take(payload(alert(fingerprint="f2")))


def test_many_at_once_lose_and_double_nothing(inbox):
    heard = []
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(inbox.take, payload(alert(fingerprint=f"f{i % 200}"))) for i in range(1000)
        ]
        while not all(job.done() for job in jobs):
            heard += told(inbox)
    heard += told(inbox)
    assert sorted(f for f, _ in heard) == sorted(f"f{i}" for i in range(200))
    assert sum(job.result().accepted for job in jobs) == 200


def test_this_host_knows_its_names_and_addresses_and_not_loopback():
    here = here_of("configured", {"tiny": "http://127.0.0.1:8000"})
    assert {"configured", socket.gethostname().casefold()} <= here.names
    assert not {"127.0.0.1", "::1"} & here.names
    assert [server.host for server in here.servers] == [""]
