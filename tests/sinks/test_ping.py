from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
import requests
from structlog.testing import capture_logs

from tests.sinks.lab import free_port, report, until
from tests.sinks.receiver import DRIP, HANG, Answered, Receiver
from watchdog.sinks import test_report as report_of_a_test
from watchdog.sinks.ping import Ping

UUID = "9c5f3f2e-8f7a-4a9b-b2d1-0c1f6f0a1e55"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with contextlib.closing(Receiver(Answered(200, b"OK"))) as receiver:
        yield receiver


class Lab:
    """One ping and its switch; a round is over when what it started is."""

    def __init__(self, url: str, **given) -> None:
        self.said = ""
        self.ping = Ping(url, trouble=lambda: self.said, **given)
        self.told = []

    def at(self, now: float, said: str | None = None) -> None:
        self.said = self.said if said is None else said
        self.told += self.ping.send(report(now), time.monotonic() + 5)
        until(lambda: self.ping._thread is None or not self.ping._thread.is_alive())


def paths(receiver: Receiver) -> list[str]:
    return [asked.path.removeprefix(f"/{UUID}") for asked in receiver.asked]


def test_the_first_round_says_start_and_the_next_one_success(receiver):
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0)
    lab.at(1015.0)
    assert paths(receiver) == ["/start", ""]
    lab.at(1030.0)
    assert [(d.sink, d.ok, d.detail, d.count) for d in lab.told] == [
        ("ping", True, "start: taken", 1),
        ("ping", True, "success: taken", 1),
    ]


@pytest.mark.parametrize(
    ("after", "sent"), [(15.0, 0), (59.4, 0), (59.6, 1), (600.0, 1), (-900.0, 1)], ids=str
)
def test_success_is_said_at_most_once_a_minute(receiver, after, sent):
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0)
    lab.at(1015.0)
    lab.at(1015.0 + after)
    assert paths(receiver) == ["/start", "", *[""] * sent]


def test_an_hour_of_rounds_is_sixty_pings(receiver):
    lab = Lab(f"{receiver.url}/{UUID}")
    for i in range(241):
        lab.at(1000.0 + 15 * i + 0.3 * (i % 2))
    assert len(receiver.asked) == 61


def test_trouble_is_said_at_once_with_its_words_and_then_once_a_minute(receiver):
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0)
    lab.at(1015.0)
    lab.at(1030.0, "no Alertmanager can be reached: é")
    lab.at(1045.0)
    lab.at(1075.0)
    lab.at(1090.0)
    assert paths(receiver) == ["/start", "", "/fail", "/fail"]
    failed = receiver.asked[2]
    assert (failed.method, failed.body.decode()) == ("POST", "no Alertmanager can be reached: é")
    assert [asked.method for asked in receiver.asked[:2]] == ["GET", "GET"]


def test_the_end_of_trouble_is_said_within_the_minute_and_no_flapping_sooner(receiver):
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0)
    lab.at(1015.0, "nobody listens")
    lab.at(1030.0, "")
    lab.at(1045.0, "nobody listens")
    assert paths(receiver) == ["/start", "/fail"]
    lab.at(1075.0, "")
    assert paths(receiver) == ["/start", "/fail", ""]
    lab.at(1090.0, "nobody listens")
    assert paths(receiver) == ["/start", "/fail", "", "/fail"]


def test_what_is_said_of_trouble_is_bounded_and_any_text(receiver):
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0, "\ud800" + "x" * 100_000)
    lab.at(1015.0)
    assert len(receiver.asked[1].body) == 1000
    assert receiver.asked[0].body == b""  # a start is a start


def test_a_start_that_fails_keeps_no_success_back(receiver):
    receiver.answers = [Answered(404, b"not found"), Answered(200, b"OK")]
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0)
    lab.at(1001.0)
    lab.at(1002.0)
    assert paths(receiver) == ["/start", ""]
    assert [(d.ok, d.detail) for d in lab.told] == [
        (False, "start: answered 404 not found"),
        (True, "success: taken"),
    ]


@pytest.mark.parametrize(("after", "sent"), [(1.0, 0), (14.0, 0), (15.0, 1)])
def test_a_ping_that_failed_is_tried_again_before_the_minute_is_over(receiver, after, sent):
    receiver.answers = [Answered(), Answered(503), Answered()]
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0)
    lab.at(1015.0)
    lab.at(1015.0 + after)
    assert paths(receiver) == ["/start", "", *[""] * sent]


@pytest.mark.parametrize("words", ["OK (not found)", "OK (rate limited)"])
def test_an_ok_that_is_none_is_a_failure(receiver, words):
    """As Healthchecks answers, for the sake of clients of long ago."""
    receiver.answers = [Answered(200, words.encode())]
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.at(1000.0)
    lab.at(1015.0)
    assert [(d.ok, d.detail) for d in lab.told] == [(False, f"start: answered 200 {words}")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["/push/key/start?a=b", "/push/key?a=b", "/push/key/fail?a=b"]),
        ({"start_url": "", "fail_url": ""}, ["/push/key?a=b"]),
        ({"start_url": "{}/s", "fail_url": "{}/f/"}, ["/s", "/push/key?a=b", "/f/"]),
    ],
    ids=["follow", "none", "given"],
)
def test_the_addresses_of_start_and_failure_follow_or_are_given(receiver, given, expected):
    given = {name: url.format(receiver.url) for name, url in given.items()}
    lab = Lab(f"{receiver.url}/push/key?a=b", **given)
    lab.at(1000.0)
    lab.at(1015.0)
    lab.at(1030.0, "nobody listens")
    lab.at(1100.0)
    asked = [asked.path for asked in receiver.asked]
    assert list(dict.fromkeys(asked)) == expected


def test_without_an_address_for_failure_trouble_is_silence(receiver):
    lab = Lab(f"{receiver.url}/{UUID}", fail_url="", start_url="")
    lab.at(1000.0)
    lab.at(1100.0, "nobody listens")
    lab.at(1200.0)
    assert paths(receiver) == [""]


# Secrets, and a switch that is slow or away


def secrets(lab: Lab, lines: list) -> list[str]:
    return [str(part) for part in (*lab.told, *lines) if UUID in str(part)]


@pytest.mark.parametrize("answer", [Answered(404, f"no check {UUID}".encode()), "down"], ids=str)
def test_nothing_that_is_told_holds_the_address(receiver, answer):
    place = f"http://127.0.0.1:{free_port()}" if answer == "down" else receiver.url
    receiver.answers = [answer]
    lab = Lab(f"{place}/{UUID}")
    with capture_logs() as lines:
        lab.at(1000.0)
        lab.at(1015.0, "nobody listens")
        lab.at(1030.0)
    assert [d.ok for d in lab.told] == [False, False]
    assert {d.instance for d in lab.told} == {f"{place}/..."}
    assert secrets(lab, lines) == []


def test_a_fault_of_our_own_is_told_without_the_address(receiver, monkeypatch):
    def crash(request: requests.Request) -> None:
        raise RuntimeError(f"odd: {request.url}")

    monkeypatch.setattr(requests.Request, "prepare", crash)
    lab = Lab(f"{receiver.url}/{UUID}")
    with capture_logs() as lines:
        lab.at(1000.0)
        lab.at(1015.0)
    assert {line["event"] for line in lines} == {"pinging crashed"}
    assert "our own fault" in lab.told[0].detail
    assert secrets(lab, lines) == []


@pytest.mark.parametrize("how", [HANG, DRIP])
def test_a_slow_switch_costs_a_round_nothing_and_ends_at_its_own_deadline(receiver, how):
    receiver.answers = [how]
    ping = Ping(f"{receiver.url}/{UUID}", timeout=0.5)
    began = time.monotonic()
    assert ping.send(report(1000.0), began + 5) == []
    assert ping.send(report(1015.0), began + 5) == []  # one at a time
    assert time.monotonic() - began < 0.3
    (told,) = until(lambda: ping.send(report(1015.0), 0.0))
    assert not told.ok
    assert "did not answer in full before the deadline of 0.5 s" in told.detail
    ping.close()


def test_closing_ends_what_is_under_way(receiver):
    receiver.answers = [HANG]
    ping = Ping(f"{receiver.url}/{UUID}")
    ping.send(report(1000.0), 0.0)
    until(lambda: receiver.asked)
    ping.close()
    until(lambda: not ping._thread.is_alive(), 2)


# A test alert


def test_a_test_pings_nobody_because_no_daemon_need_be_alive_and_says_so(receiver):
    """Else whoever tests each night keeps the switch of a dead daemon quiet."""
    lab = Lab(f"{receiver.url}/{UUID}")
    lab.told += lab.ping.send(report_of_a_test("gpu-1", "1.0", 1000.0, ()), time.monotonic() + 5)
    assert [(d.ok, d.instance, d.count) for d in lab.told] == [(True, f"{receiver.url}/...", 0)]
    assert lab.told[0].detail == "not pinged: a test must not pass for a daemon that is alive"
    assert lab.ping._thread is None
    lab.at(1000.0)  # and it is no round: the daemon's first one still says start
    assert paths(receiver) == ["/start"]
