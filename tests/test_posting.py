from __future__ import annotations

import base64
import contextlib
import html
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import ANY
from urllib.parse import quote

import pytest

from tests.sinks.receiver import DROP, Answered, Asked, Receiver
from watchdog.fetch import Access
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


def test_an_api_below_a_base_is_asked_by_its_path_and_shown_by_its_base(receiver):
    address = Address(f"{receiver.url}/am/", api="/api/v2/alerts")
    assert address.post(b"[]", soon()) == Answer(200, "answered 200", date=ANY)
    assert receiver.asked[0].path == "/am/api/v2/alerts"
    assert address.shown == f"{receiver.url}/..."
    assert Address(receiver.url, api="/x").shown == receiver.url


def test_of_an_api_an_answer_that_does_not_end_is_none(receiver):
    receiver.answers = [Answered(201, b"x" * 50, drip=0.2)]
    answer = Address(receiver.url, api="/x").post(b"x", time.monotonic() + 0.5)
    assert answer.status == 0
    assert "did not answer in full before the deadline" in answer.words


@pytest.mark.parametrize(
    "path",
    [
        "/hidden-path/x",
        "/x?token=hidden-path",
        "/x?a=b&hidden-path",
        "/hidden%2Dpath",
        "/x/hidden-path/",
        "/hidden/hidden-path",
        "/HIDDEN-path",
        "/x?code=hidden-path==",
        "/x?hidden-path==&a=b",
        "/x?code==hidden-path",
    ],
)
def test_what_the_answer_repeats_of_the_address_is_hidden(receiver, path):
    receiver.answers = [lambda asked: Answered(404, f"no {asked.path} hidden-path".encode())]
    answer = Address(receiver.url + path).get(soon())
    assert "hidden" not in answer.words
    assert "path" not in answer.words
    assert answer.words.startswith("answered 404 no /")


def test_a_padded_key_is_hidden_with_its_padding(receiver):
    receiver.answers = [lambda asked: Answered(401, f"bad key {asked.path}".encode())]
    answer = Address(f"{receiver.url}/x?code=Zm9vYmFyYmF6==").get(soon())
    assert answer.words == "answered 401 bad key /x?code=..."


TOKEN, PASSWORD = "s3cr3t-T0ken/+&x==", 'pass"w<o&rd'
PAIR = base64.b64encode(f"me:{PASSWORD}".encode()).decode()


def as_sent(asked: Asked) -> str:
    return asked.headers["Authorization"]


def who(asked: Asked) -> str:
    """Say whom it let in, as a server that decodes the pair would."""
    word = as_sent(asked).split(" ")[1]
    return base64.b64decode(word).decode() if as_sent(asked).startswith("Basic") else word


def access(folder: Path, kind: str) -> Access:
    (folder / "secret").write_text((TOKEN if kind == "token" else PASSWORD) + "\n")
    if kind == "token":
        return Access(bearer_token_file=folder / "secret")
    return Access(username="me", password_file=folder / "secret")


@pytest.mark.parametrize("kind", ["token", "password"])
@pytest.mark.parametrize("echo", [as_sent, who])
@pytest.mark.parametrize(
    "spelled",
    [str, str.upper, html.escape, quote, lambda s: quote(s, safe=""), json.dumps,
     lambda s: s.rstrip("=")],
    ids=["plain", "upper", "html", "quoted", "all quoted", "json", "unpadded"],
)  # fmt: skip
def test_the_secrets_that_let_us_in_are_hidden_however_an_answer_spells_them(
    receiver, tmp_path, kind, echo: Callable[[Asked], str], spelled: Callable[[str], str]
):
    receiver.answers = [lambda asked: Answered(403, f"who is {spelled(echo(asked))} ?".encode())]
    words = Address(receiver.url, access(tmp_path, kind)).get(soon()).words
    assert words.startswith("answered 403 who is ")
    assert "..." in words
    for secret in ("s3cr3t", "T0ken", "pass", "w<o", PAIR[:8], PAIR[-8:-2]):
        assert secret.lower() not in words.lower()


def test_a_secret_is_hidden_as_it_was_when_it_was_sent(receiver, tmp_path):
    file = tmp_path / "secret"

    def rotated(asked: Asked) -> Answered:
        file.write_text("the-next-one\n")
        return Answered(401, f"no {as_sent(asked)}".encode())

    receiver.answers = [rotated]
    answer = Address(receiver.url, access(tmp_path, "token")).get(soon())
    assert answer.words == "answered 401 no Bearer ..."


@pytest.mark.parametrize("times", [1, 4, 5, 6])
def test_no_half_of_a_secret_stays_where_a_long_answer_is_cut(receiver, tmp_path, times):
    token = "".join(f"<{i:04}>" for i in range(150))  # 900 characters
    (tmp_path / "secret").write_text(token)
    receiver.answers = [lambda asked: Answered(401, who(asked).encode() * times)]
    words = Address(receiver.url, Access(bearer_token_file=tmp_path / "secret")).get(soon()).words
    assert words.startswith("answered 401")
    assert "00" not in words


def test_a_redirect_to_a_secret_is_told_without_it(receiver, tmp_path):
    receiver.answers = [
        lambda asked: Answered(307, headers=(("Location", f"http://{who(asked)}.example/"),))
    ]
    (tmp_path / "secret").write_text("s3cr3t-token")
    answer = Address(receiver.url, Access(bearer_token_file=tmp_path / "secret")).get(soon())
    assert "redirects to another server (http://....example)" in answer.words


def test_words_are_one_bounded_printable_line(receiver):
    receiver.answers = [Answered(500, b"\xff\x00a\r\nb" + b"c" * 100_000)]
    words = Address(receiver.url).get(soon()).words
    assert words.startswith("answered 500 \ufffd a bccc")
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
