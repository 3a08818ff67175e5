from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.sinks.lab import alert, free_port, report, until
from tests.sinks.outbox import MemoryOutbox
from tests.sinks.receiver import DRIP, DROP, HANG, Answered, Receiver
from watchdog import __version__
from watchdog.clock import Clock
from watchdog.domain.alert import Change, Signal, State
from watchdog.domain.notice import Notice, notices
from watchdog.fetch import NO_ACCESS, Access
from watchdog.sinks import test_report as report_of_a_test
from watchdog.sinks import undelivered
from watchdog.sinks.webhook import Webhook, WebhookSink
from watchdog.sinks.webhook_worker import MOST_AGE, MOST_BACKOFF, REFUSED

DAY = 86400.0


def some(count: int, fired_at: float = 1000.0) -> list[Notice]:
    changes = [
        Change(alert(fired_at, target=f"t{i}"), State.INACTIVE, Signal.BAD_FOR_LONG)
        for i in range(count)
    ]
    return notices(replace(report(fired_at), changes=tuple(changes)))


class Lab:
    """One webhook, its receiver and outbox; time runs 30 times faster for its back-off."""

    def __init__(self, speed: float = 30.0) -> None:
        self.stack = contextlib.ExitStack()
        self.outbox, self.clock = MemoryOutbox(), Clock(speed=speed)
        self.hooks: list[Webhook] = []
        self.told = []

    def receiver(self, *answers) -> Receiver:
        return self.stack.enter_context(contextlib.closing(Receiver(*answers)))

    def hook(self, url: str, name: str = "pager", access: Access = NO_ACCESS) -> Webhook:
        hook = Webhook(name, url, access, self.outbox, self.clock, random.Random(1))
        self.hooks.append(hook)
        return hook

    def put(self, notices: list[Notice], age: float = 0.0, name: str = "pager", **given) -> None:
        for notice in notices:
            self.outbox.put(name, notice, self.clock.now() - age, **given)

    def empty(self, name: str = "pager") -> None:
        """Wait until nothing waits, and until rounds have heard of all that was done."""
        until(lambda: self.round() and not self.outbox.waiting(name))
        until(
            lambda: self.round() and self.heard() >= sum(w == "done" for w, *_ in self.outbox.log)
        )

    def heard(self) -> int:
        return sum(d.count for d in self.told if d.ok or d.detail.startswith("dropped"))

    def round(self) -> bool:
        for hook in self.hooks:
            self.told += hook.send()
        return True

    def results(self) -> list[tuple[bool, int]]:
        self.round()
        return [(d.ok, d.count) for d in self.told]

    def close(self) -> None:
        WebhookSink(tuple(self.hooks)).close()
        self.stack.close()


@pytest.fixture
def lab() -> Iterator[Lab]:
    with contextlib.closing(Lab()) as lab:
        yield lab


# What is sent


def test_a_notice_is_posted_as_it_was_stored_and_forgotten_once_taken(lab):
    receiver = lab.receiver()
    lab.hook(f"{receiver.url}/hooks/pager/?team=gpu")
    (notice,) = some(1)
    lab.put([notice], body='{"as": "stored", "é": 1}')
    lab.empty()
    (asked,) = receiver.asked
    assert asked.body == '{"as": "stored", "é": 1}'.encode()
    assert (asked.method, asked.path) == ("POST", "/hooks/pager/?team=gpu")
    assert asked.key == notice.key
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["User-Agent"] == f"serving-watchdog/{__version__}"
    assert lab.results() == [(True, 1)]
    assert (lab.told[0].sink, lab.told[0].instance) == ("webhook", "pager")


def test_notices_are_told_oldest_first_and_one_at_a_time(lab):
    busy, most = [0], [0]

    def slow(_) -> Answered:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        time.sleep(0.01)
        busy[0] -= 1
        return Answered()

    receiver = lab.receiver(slow)
    lab.hook(receiver.url)
    made = some(20)
    lab.put(made[:10])
    lab.round()
    lab.put(made[10:])
    lab.empty()
    assert receiver.keys == [notice.key for notice in made]
    assert most == [1]
    assert (
        sum(d.count for d in lab.told if d.ok) + sum(c for _, c in lab.results()[len(lab.told) :])
        == 20
    )


def test_credentials_are_sent(lab, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    receiver = lab.receiver()
    lab.hook(receiver.url, access=Access(bearer_token_file=tmp_path / "token"))
    lab.put(some(1))
    lab.empty()
    assert receiver.asked[0].headers["Authorization"] == "Bearer s3cret"


def test_a_round_without_anything_to_tell_tells_nothing(lab):
    receiver = lab.receiver()
    lab.hook(receiver.url)
    assert lab.results() == []
    lab.put(some(1))
    lab.empty()
    assert lab.results() == [(True, 1)]
    assert len(lab.results()) == 1  # and only once


def test_two_destinations_do_not_wait_for_each_other(lab):
    well = lab.receiver()
    lab.hook(f"http://127.0.0.1:{free_port()}", "down")
    lab.hook(well.url, "well")
    made = some(5)
    lab.put(made, name="down")
    lab.put(made, name="well")
    lab.empty("well")
    assert well.keys == [notice.key for notice in made]
    assert lab.outbox.waiting("down") == 5


# What is tried again


@pytest.mark.parametrize(
    "status", [300, 401, 403, 404, 405, 407, 408, 409, 410, 425, 429, 500, 501, 502, 503, 504]
)
def test_an_answer_that_an_operator_or_time_can_mend_is_tried_again_with_the_same_key(lab, status):
    receiver = lab.receiver(Answered(status), Answered(status), Answered())
    lab.hook(receiver.url)
    made = some(2)
    lab.put(made)
    lab.empty()
    first, second = (notice.key for notice in made)
    assert receiver.keys == [first, first, first, second]
    assert len({asked.body for asked in receiver.asked[:3]}) == 1
    assert [what for what, _, _ in lab.outbox.log] == ["later", "later", "done", "done"]


def test_a_connection_that_breaks_after_the_body_was_taken_delivers_it_twice(lab):
    receiver = lab.receiver(DROP, Answered())
    lab.hook(receiver.url)
    made = some(1)
    lab.put(made)
    lab.empty()
    assert receiver.keys == [made[0].key] * 2


def test_a_redirect_is_not_followed_and_the_notice_kept(lab):
    receiver = lab.receiver(Answered(302, headers=(("Location", "/login"),)), Answered())
    lab.hook(f"{receiver.url}/hook")
    lab.put(some(1))
    lab.empty()
    assert [asked.path for asked in receiver.asked] == ["/hook", "/hook"]


def test_a_dripping_answer_ends_at_the_deadline_and_is_tried_again(lab):
    receiver = lab.receiver(DRIP, Answered())
    lab.hook(receiver.url).timeout = 0.4
    lab.put(some(1))
    lab.empty()
    first, second = receiver.asked
    assert 0.3 < second.at - first.at < 3
    (late,) = (d for d in lab.told if not d.ok)
    assert "did not answer in full before the deadline" in late.detail


def test_a_silent_receiver_is_given_up_at_the_deadline(lab):
    receiver = lab.receiver(HANG, Answered())
    lab.hook(receiver.url).timeout = 0.3
    lab.put(some(1))
    lab.empty()
    assert len(receiver.asked) == 2


@pytest.mark.parametrize(
    "odd",
    [
        Answered(200, b"x" * 1_000_000),
        Answered(200, b"not gzip", (("Content-Encoding", "gzip"),)),
        Answered(200, b"x" * 100, drip=0.1),
        Answered(204),
    ],
    ids=["huge", "compressed", "dripping", "none"],
)
def test_a_notice_that_was_taken_is_not_told_again_for_what_its_answer_says(lab, odd):
    receiver = lab.receiver(odd)
    lab.hook(receiver.url)
    made = some(2)
    lab.put(made)
    lab.empty()
    assert receiver.keys == [notice.key for notice in made]


def test_a_password_that_cannot_be_read_is_told_and_nothing_is_lost(lab, tmp_path):
    receiver = lab.receiver()
    lab.hook(receiver.url, access=Access(username="me", password_file=tmp_path / "late"))
    lab.put(some(1))
    until(lambda: lab.round() and lab.told)
    assert "late" in lab.told[0].detail
    (tmp_path / "late").write_text("here now")
    lab.empty()
    assert len(receiver.asked) == 1


def test_a_try_that_failed_is_told_with_how_much_waits(lab):
    receiver = lab.receiver(Answered(503, b"starting"), HANG)
    sink = WebhookSink((lab.hook(f"{receiver.url}/secret-path"),))
    lab.put(some(3))
    (told,) = until(lambda: sink.send(report(1000.0), 0.0))
    assert (told.ok, told.count) == (False, 1)
    assert told.detail == "answered 503 starting; 3 kept, to be tried again"


# When


def delays(lab: Lab, tries: int, seed: int) -> float:
    """Return the seconds until the next try after so many."""
    hook = Webhook("pager", "http://127.0.0.1:9", NO_ACCESS, lab.outbox, lab.clock,
                   random.Random(seed))  # fmt: skip
    return hook._backoff(tries)


@pytest.mark.parametrize(
    ("tries", "most"), [(0, 1), (1, 2), (4, 16), (8, 256), (9, 300), (20, 300), (10**6, 300)]
)
def test_the_back_off_doubles_up_to_five_minutes_with_full_jitter(lab, tries, most):
    seen = [delays(lab, tries, seed) for seed in range(300)]
    assert 0 <= min(seen) < 0.05 * most
    assert 0.95 * most < max(seen) <= most
    assert 0.4 * most < sum(seen) / len(seen) < 0.6 * most


def test_a_failing_notice_is_tried_when_its_back_off_is_over_and_no_sooner(lab):
    receiver = lab.receiver(*[Answered(500)] * 5, Answered())
    lab.hook(receiver.url)
    lab.put(some(1))
    lab.empty()
    due = [at for what, _, at in lab.outbox.log if what == "later"]
    tried = [lab.clock._wall + (asked.at - lab.clock._mono) * 30 for asked in receiver.asked]
    assert len(due) == 5
    for next_at, (before, after) in zip(due, pairwise(tried), strict=True):
        assert before < next_at <= after


def test_rounds_do_not_shorten_a_back_off(lab):
    receiver = lab.receiver()
    lab.hook(receiver.url)
    lab.put(some(1), next_at=lab.clock.now() + 30)
    for _ in range(20):
        lab.round()
        time.sleep(0.01)
    assert receiver.asked == []
    lab.empty()


def test_what_is_kept_over_a_restart_waits_for_its_time(lab):
    receiver = lab.receiver()
    due = lab.clock.now() + 20  # two thirds of a second of the test's clock
    lab.put(some(1), next_at=due, tries=3)
    lab.hook(receiver.url)
    lab.empty()
    (asked,) = receiver.asked
    assert lab.clock._wall + (asked.at - lab.clock._mono) * 30 >= due


@pytest.mark.parametrize(("ahead", "waits"), [(MOST_BACKOFF - 5, True), (MOST_BACKOFF + 60, False)])
def test_a_time_that_no_back_off_makes_does_not_hold_a_notice_up(ahead, waits):
    """The timeline may have begun anew, years before what the outbox holds."""
    with contextlib.closing(Lab(speed=1.0)) as lab:
        receiver = lab.receiver()
        lab.hook(receiver.url)
        lab.put(some(1), next_at=lab.clock.now() + ahead)
        lab.round()
        if waits:
            assert not receiver.asked
            time.sleep(0.2)
            assert not receiver.asked
        else:
            until(lambda: receiver.asked)


@pytest.mark.parametrize(
    ("status", "asked", "least", "most"),
    [
        (429, "120", 120, 121),
        (503, "120", 120, 121),
        (503, "Thu, 01 Jan 1970 00:00:00 GMT", 0, 1),
        (429, "4000000", 300, 300.5),
        (429, "0", 0, 1),
        (429, "soon", 0, 1),
        (429, "-5", 0, 1),
        (500, "120", 0, 1),
    ],
)
def test_a_server_that_says_when_to_come_again_is_listened_to_within_reason(
    lab, status, asked, least, most
):
    receiver = lab.receiver(Answered(status, headers=(("Retry-After", asked),)), HANG)
    lab.hook(receiver.url)
    before = lab.clock.now()
    lab.put(some(1))
    lab.round()
    (_, _, next_at), *_ = until(lambda: lab.outbox.log)
    after = lab.clock.now()
    assert before + least <= next_at <= after + most


def test_a_server_may_name_the_time_of_day_at_which_to_come_again(lab):
    when = datetime.fromtimestamp(int(lab.clock.now() + 200), timezone.utc)
    receiver = lab.receiver(
        Answered(429, headers=(("Retry-After", format_datetime(when, usegmt=True)),)), HANG
    )
    lab.hook(receiver.url)
    lab.put(some(1))
    lab.round()
    (_, _, next_at), *_ = until(lambda: lab.outbox.log)
    assert next_at == pytest.approx(when.timestamp() + lab.clock.skew(), abs=1)


def test_the_back_off_beats_a_server_that_wants_to_be_asked_at_once(lab):
    receiver = lab.receiver(Answered(429, headers=(("Retry-After", "0"),)), HANG)
    lab.hook(receiver.url)
    lab.put(some(1), tries=9)
    lab.round()
    (_, _, next_at), *_ = until(lambda: lab.outbox.log)
    assert next_at > lab.clock.now() + 20  # seed 1 gives 0.13 of 300 s


# What is dropped


@pytest.mark.parametrize("status", [400, 406, 413, 415, 422])
def test_a_body_that_is_refused_is_dropped_with_a_line_and_the_next_goes_on(lab, status):
    receiver = lab.receiver(Answered(status, b"no such\nfield"), Answered())
    lab.hook(receiver.url)
    made = some(2)
    lab.put(made)
    with capture_logs() as lines:
        lab.empty()
    assert receiver.keys == [notice.key for notice in made]
    assert lines == [
        {
            "event": "a notice is dropped",
            "log_level": "error",
            "webhook": "pager",
            "key": made[0].key,
            "alertname": "SpecDecodeCollapsed",
            "change": "firing",
            "why": f"answered {status} no such field",
        }
    ]
    lab.round()
    assert sorted((d.ok, d.count) for d in lab.told) == [(False, 1), (True, 1)]
    (lost,) = (d for d in lab.told if not d.ok)
    assert lost.detail == f"dropped firing of SpecDecodeCollapsed: answered {status} no such field"


def test_a_notice_that_nobody_took_for_seven_days_is_dropped_with_a_line(lab):
    receiver = lab.receiver()
    lab.hook(receiver.url)
    old, young = some(2)
    lab.put([old], age=MOST_AGE + 1, tries=2016)
    lab.put([young], age=MOST_AGE - 600)
    with capture_logs() as lines:
        lab.empty()
    assert receiver.keys == [young.key]
    assert [(line["key"], line["why"]) for line in lines] == [
        (old.key, "not taken within 7 days, in 2016 tries")
    ]
    assert sorted(set(lab.results())) == [(False, 1), (True, 1)]
    assert pytest.approx(7 * DAY) == MOST_AGE


def test_a_notice_that_was_never_tried_is_tried_once_however_old_it_is(lab):
    """This host was off for 8 days: nobody has heard of it yet."""
    receiver = lab.receiver(Answered(), Answered(503, b"later"))
    lab.hook(receiver.url)
    taken, failed = some(2)
    lab.put([taken, failed], age=8 * DAY)
    with capture_logs() as lines:
        lab.empty()
    assert receiver.keys == [taken.key, failed.key]
    assert [(line["key"], line["why"]) for line in lines] == [
        (failed.key, "not taken within 7 days, in 1 try")
    ]


def test_a_notice_is_dropped_at_seven_days_even_while_its_back_off_lasts(lab):
    lab.hook(lab.receiver().url)
    lab.put(some(1), age=MOST_AGE + 1, tries=1, next_at=lab.clock.now() + 250)
    lab.empty()
    assert lab.results() == [(False, 1)]


def test_a_stored_body_that_is_none_is_told_of_as_far_as_it_can_be(lab):
    lab.hook(lab.receiver(Answered(400)).url)
    lab.put(some(1), body="[]")
    with capture_logs() as lines:
        lab.empty()
    assert (lines[0]["alertname"], lines[0]["change"]) == ("?", "?")


def test_no_secret_of_the_address_is_told_even_if_the_answer_repeats_it(lab):
    receiver = lab.receiver(Answered(404, b"nothing at /services/T0SECRET?token=hush-hush"), HANG)
    lab.hook(f"{receiver.url}/services/T0SECRET?token=hush-hush")
    lab.put(some(1))
    until(lambda: lab.round() and lab.told)
    (told,) = lab.told
    assert told.detail.startswith("answered 404 nothing at /.../...?token=...")
    down = Webhook("x", f"http://127.0.0.1:{free_port()}/services/T0SECRET?token=hush-hush",
                   NO_ACCESS, lab.outbox, lab.clock)  # fmt: skip
    failed = down.test(some(1)[0], time.monotonic() + 2)
    assert not failed.ok
    assert "SECRET" not in failed.detail
    assert "hush" not in failed.detail


def test_a_token_that_a_receiver_repeats_is_not_told(lab, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    receiver = lab.receiver(
        lambda asked: Answered(401, f"bad {asked.headers['Authorization']}".encode())
    )
    hook = lab.hook(receiver.url, access=Access(bearer_token_file=tmp_path / "token"))
    assert hook.test(some(1)[0], time.monotonic() + 5).detail == "answered 401 bad Bearer ..."


def test_what_a_receiver_says_is_repeated_shortened_and_on_one_line(lab):
    receiver = lab.receiver(Answered(500, b"a\nb\x1b[31m" + b"c" * 10_000), HANG)
    lab.hook(receiver.url)
    lab.put(some(1))
    until(lambda: lab.round() and lab.told)
    assert lab.told[0].detail.startswith("answered 500 a b [31mccc")
    assert len(lab.told[0].detail) < 300
    assert lab.told[0].detail.isprintable()


# Faults of our own, and the end


def test_an_outbox_that_fails_ends_nothing_and_is_told_with_a_line(lab):
    receiver = lab.receiver()
    lab.hook(receiver.url)
    lab.outbox.broken = True
    with capture_logs() as lines:
        lab.put(some(1))
        lab.round()
        until(lambda: lines)
        assert lines[0]["event"] == "a webhook's worker crashed and goes on"
        lab.outbox.broken = False
        lab.empty()
    assert len(receiver.asked) == 1


def test_an_outbox_that_fails_fills_no_log_however_often_rounds_come(lab):
    lab.hook(lab.receiver().url)
    lab.outbox.broken = True
    with capture_logs() as lines:
        until(lambda: lab.round() and len(lines) > 2)
        count, began = len(lines), time.monotonic()
        while time.monotonic() - began < 1.2:  # the next pause is 3 s: seed 1 gives 0.76 of 4 s
            lab.round()
        assert len(lines) == count


def test_a_notice_that_was_taken_while_the_outbox_failed_is_not_told_twice(lab):
    def then_fails(_) -> Answered:
        lab.outbox.broken = True
        return Answered()

    receiver = lab.receiver(then_fails, Answered())
    lab.hook(receiver.url)
    made = some(2)
    lab.put(made[:1])
    lab.round()
    until(lambda: lab.outbox.broken)
    time.sleep(0.05)
    lab.outbox.broken = False
    lab.put(made[1:])
    lab.empty()
    assert receiver.keys == [notice.key for notice in made]


def test_closing_ends_a_post_that_is_under_way_and_keeps_its_notice_untried(lab):
    receiver = lab.receiver(HANG, Answered())
    first = lab.hook(receiver.url)
    lab.put(some(1))
    lab.round()
    until(lambda: receiver.asked)
    began = time.monotonic()
    WebhookSink((first,)).close()
    assert time.monotonic() - began < 1
    assert first._thread is not None
    assert not first._thread.is_alive()
    assert lab.outbox.log == []
    lab.round()  # a closed one does nothing more
    assert not first._thread.is_alive()
    lab.hook(receiver.url)
    lab.empty()
    assert len(set(receiver.keys)) == 1


@pytest.mark.parametrize("ahead", [0.0, 200.0], ids=["idle", "backing off"])
def test_closing_ends_a_sleeping_worker_at_once(lab, ahead):
    hook = lab.hook("http://127.0.0.1:9")
    if ahead:
        lab.put(some(1), next_at=lab.clock.now() + ahead)
    lab.round()
    until(lambda: hook._thread is not None and hook._thread.is_alive())
    began = time.monotonic()
    WebhookSink((hook,)).close()
    assert time.monotonic() - began < 0.5
    assert not any(t.name == "webhook-pager" for t in threading.enumerate())


@pytest.fixture
def no_names(monkeypatch) -> Iterator[None]:
    """The system's resolver hangs for all names but addresses; it cannot be interrupted."""
    real, over = socket.getaddrinfo, threading.Event()

    def hang(host: str, *args, **given):
        if not host[0].isdigit():
            over.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "no resolver")
        return real(host, *args, **given)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield
    over.set()


@pytest.mark.usefixtures("no_names")
def test_closing_many_takes_two_seconds_in_all_and_none_waits_for_another(lab):
    """Names that are being looked up cannot be interrupted; a post that is under way can."""
    receiver = lab.receiver(HANG)
    stuck = [lab.hook(f"http://stuck-{i}.example", f"stuck-{i}") for i in range(4)]
    last = lab.hook(receiver.url, "last")
    for hook in lab.hooks:
        lab.put(some(1), name=hook.name)
    lab.round()
    until(lambda: receiver.asked)
    ended = threading.Thread(target=last._thread.join)
    ended.start()
    began = time.monotonic()
    closing = threading.Thread(target=WebhookSink(tuple(lab.hooks)).close)
    closing.start()
    ended.join(1.5)
    assert not ended.is_alive()
    closing.join(10)
    assert 1.9 < time.monotonic() - began < 3
    assert all(hook._thread.is_alive() for hook in stuck)
    assert lab.outbox.log == []
    lab.hooks.clear()


def test_a_round_waits_for_nothing(lab):
    receiver = lab.receiver(HANG)
    lab.hook(receiver.url)
    lab.put(some(3))
    lab.round()
    until(lambda: receiver.asked)
    began = time.monotonic()
    for _ in range(100):
        lab.round()
    assert time.monotonic() - began < 0.5


def test_one_destination_has_one_thread_however_many_rounds_and_notices(lab):
    receiver = lab.receiver(lambda _: Answered())
    lab.hook(receiver.url)
    for i in range(30):
        lab.put(some(2, 1000.0 + i))
        lab.round()
    assert sum(t.name == "webhook-pager" for t in threading.enumerate()) == 1
    lab.empty()
    assert len(set(receiver.keys)) == len(receiver.keys) == 60


# A test alert


def test_a_test_alert_goes_directly_and_says_what_was_answered(lab):
    well, refusing = lab.receiver(), lab.receiver(Answered(401, b"who are you"))
    sink = WebhookSink((lab.hook(well.url, "well"), lab.hook(refusing.url, "refusing")))
    test = report_of_a_test("gpu-1", "1.0", 1000.0, ())
    told = sink.send(test, time.monotonic() + 5)
    assert [(d.instance, d.ok, d.detail) for d in told] == [
        ("well", True, "taken"),
        ("refusing", False, "answered 401 who are you"),
    ]
    body = json.loads(well.asked[0].body)
    assert body["alert"]["labels"]["alertname"] == "ServingWatchdogTest"
    assert well.asked[0].key == body["key"]
    assert lab.outbox.log == []
    assert undelivered(told[1:]) == ["webhook"]


def test_a_silent_receiver_does_not_use_up_the_time_of_a_test(lab):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        well = lab.receiver()
        sink = WebhookSink((lab.hook(url, "silent"), lab.hook(well.url, "well")))
        began = time.monotonic()
        told = sink.send(report_of_a_test("gpu-1", "1.0", 1000.0, ()), time.monotonic() + 0.5)
        assert time.monotonic() - began < 2
    assert [(d.instance, d.ok) for d in told] == [("silent", False), ("well", True)]
    assert "did not answer in full" in told[0].detail


def test_the_page_for_operators_tells_what_is_dropped_at_once():
    page = Path(__file__).parents[2].joinpath("docs", "webhooks.md").read_text()
    (told,) = re.findall(r"^\| ([\d, ]+) \| the body itself is refused", page, re.MULTILINE)
    assert {int(status) for status in told.split(", ")} == REFUSED
