from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.sinks.receiver import DROP, Answered, Receiver
from watchdog.posting import MOST_WORDS, Address, Answer


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with contextlib.closing(Receiver()) as receiver:
        yield receiver


def soon() -> float:
    return time.monotonic() + 5


@pytest.mark.parametrize("path", ["", "/", "/a", "/a/", "/a/?b=c", "/a?b=c/", "?b=c"])
def test_an_address_is_asked_as_it_is_written(receiver, path):
    assert Address(receiver.url + path).get(soon()).ok
    assert receiver.asked[0].path == (path if path.startswith("/") else f"/{path}")


def test_a_post_carries_its_body_and_headers(receiver):
    Address(receiver.url).post(b"x", soon(), "text/plain", {"Idempotency-Key": "k"})
    (asked,) = receiver.asked
    assert (asked.method, asked.body, asked.key) == ("POST", b"x", "k")
    assert asked.headers["Content-Type"] == "text/plain"


@pytest.mark.parametrize(
    ("location", "status", "ok"),
    [("/b/", 307, True), ("/b/", 302, False), ("http://x/", 307, False)],
)
def test_a_post_is_redirected_only_whole_and_within_its_server(receiver, location, status, ok):
    receiver.answers = [Answered(status, headers=(("Location", location),)), Answered()]
    answer = Address(f"{receiver.url}/a").post(b"x", soon())
    assert answer.ok == ok
    assert [(a.path, a.body) for a in receiver.asked] == [("/a", b"x"), ("/b/", b"x")][: 1 + ok]


def test_no_answer_is_an_answer_too(receiver):
    receiver.answers = [DROP]
    answer = Address(f"{receiver.url}/secret-path").post(b"x", soon())
    assert answer == Answer(0, f"{receiver.url}/...: the connection was closed without an answer")


def test_a_deadline_that_is_over_is_no_crash(receiver):
    answer = Address(receiver.url).post(b"x", time.monotonic() - 1)
    assert answer.status == 0
    assert "did not answer in full before the deadline" in answer.words
    assert receiver.asked == []


def test_a_name_that_no_host_can_have_is_no_crash():
    answer = Address(f"http://{'a' * 64}.example/secret-path").get(soon())
    assert answer == Answer(0, f"http://{'a' * 64}.example/...: no name that a host can have")


@pytest.mark.parametrize(
    "path",
    [
        "/hidden-path/x",
        "/x?token=hidden-path",
        "/x?a=b&hidden-path",
        "/hidden%2Dpath",
        "/x/hidden-path/",
        "/hidden/hidden-path",
    ],
)
def test_what_the_answer_repeats_of_the_address_is_hidden(receiver, path):
    receiver.answers = [lambda asked: Answered(404, f"no {asked.path} hidden-path".encode())]
    answer = Address(receiver.url + path).get(soon())
    assert "hidden" not in answer.words
    assert "path" not in answer.words
    assert answer.words.startswith("answered 404 no /")


def test_words_are_one_bounded_printable_line(receiver):
    receiver.answers = [Answered(500, b"\xff\x00a\r\nb" + b"c" * 100_000)]
    words = Address(receiver.url).get(soon()).words
    assert words.startswith("answered 500 \ufffd a  bccc")
    assert words.isprintable()
    assert len(words) == len("answered 500 ") + MOST_WORDS


@pytest.mark.parametrize("body", [b"x" * 50, b"x" * 1_000_000], ids=["slow", "huge"])
def test_a_status_is_an_answer_however_its_body_comes(receiver, body):
    receiver.answers = [Answered(201, body, drip=0.2 if len(body) < 100 else 0)]
    began = time.monotonic()
    assert Address(receiver.url).post(b"x", began + 10).status == 201
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(429, "", "7"), 7.0),
        (Answer(503, "", " 7 "), 7.0),
        (Answer(500, "", "7"), 0.0),
        (Answer(429, ""), 0.0),
        (Answer(429, "", "9" * 5000), 999_999_999.0),
        (Answer(429, "", "٣"), 0.0),  # a digit, and no number to HTTP
        (Answer(429, "", "Thu, 01 Jan 1970 00:18:20 GMT"), 100.0),
        (Answer(429, "", "Thu, 01 Jan 1970 00:18:20 -0000"), 100.0),
        (Answer(429, "", "Thu, 01 Jan 1970 00:00:00 GMT"), 0.0),
        (Answer(429, "", "Thu, 99 Jan 99999 00:00:00 GMT"), 0.0),
    ],
)
def test_how_long_a_server_wants_to_rest(answer, seconds):
    assert answer.wait(wall=1000.0) == seconds
