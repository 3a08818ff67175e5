"""The port's paths of baselines: who may ask, what they answer, what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.asking import Watched, get, post, serving
from tests.learned import NOW, Known, assessor, engine
from watchdog import baselines
from watchdog.errors import TryLater
from watchdog.views import make_app

CHANGES = ["/api/v1/baseline/accept", "/api/v1/baseline/reset"]
ALL = {"target": "qwen", "engine": None}


@pytest.fixture
def watched() -> Watched:
    """Two engines of `qwen`, of which the second has no traffic; none of `llama`."""
    port = Watched()
    known = assessor({engine(): Known(), engine("1"): Known(lately=None)})
    port.board.baselines = lambda: {
        "at": "2026-11-30T12:00:00Z", "baselines": baselines.rows(known, NOW)
    }  # fmt: skip
    port.board.change_baseline = lambda how, target, name: baselines.changed(
        known, how, target, name, NOW
    )
    return port


@pytest.fixture
def server(watched: Watched) -> Any:
    with serving(watched.board) as server:
        yield server


def lengths(server: Any) -> list[float | None]:
    return [row["length"] for row in json.loads(get(server, "/api/v1/baseline")[2])["baselines"]]


def test_what_is_known_is_shown_with_the_targets_there_are(server: Any) -> None:
    status, headers, body = get(server, "/api/v1/baseline")
    told = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert (told["product"], told["targets"]) == ("serving-watchdog", ["qwen", "llama"])
    assert told["at"] == "2026-11-30T12:00:00Z"
    assert [row["subject"]["engine"] for row in told["baselines"]] == ["0", "1"]


def test_one_engine_is_accepted(server: Any) -> None:
    status, told = post(server, CHANGES[0], {"target": "qwen", "engine": "0"})
    assert (status, told["refused"]) == (200, [])
    assert [(one["before"], one["after"]) for one in told["changed"]] == [(3.77, 2.9)]
    assert lengths(server) == [2.9, 3.77]


def test_of_all_engines_those_with_evidence_are_accepted_and_the_others_named(server: Any) -> None:
    status, told = post(server, CHANGES[0], ALL)
    assert status == 200
    assert [one["subject"]["engine"] for one in told["changed"]] == ["0"]
    assert [one["why"] for one in told["refused"]] == ["0 requests in 72 h are too few"]


def test_where_nothing_could_be_accepted_the_answer_says_why(server: Any) -> None:
    status, told = post(server, CHANGES[0], {"target": "qwen", "engine": "1"})
    assert (status, told["error"]) == (409, "qwen engine 1: 0 requests in 72 h are too few")


def test_all_engines_are_reset(server: Any) -> None:
    status, told = post(server, CHANGES[1], ALL)
    assert (status, len(told["changed"])) == (200, 2)
    assert lengths(server) == [None, None]


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"target": "qwem", "engine": None}, 404, "unknown target; known: qwen, llama"),
        ({"target": "qwen", "engine": "7"}, 404, "qwen has no engine 7; known: 0, 1"),
        ({"target": "llama", "engine": None}, 404, "no engine of llama was read yet"),
        ({"target": "qwen", "engine": 0}, 400, "engine must be the name"),
        ({"target": "qwen"}, 400, "with: target, engine"),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    server: Any, path: str, asked: dict[str, Any], status: int, said: str
) -> None:
    answer, told = post(server, path, asked)
    assert answer == status
    assert said in told["error"]
    assert lengths(server) == [3.77, 3.77]


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("10.0.0.9", {}, 403),
        ("127.0.0.1", {"X-Forwarded-For": "10.0.0.9"}, 403),
    ],
)
def test_only_programs_of_this_host_may_ask(
    watched: Watched, peer: str, headers: dict[str, str], status: int
) -> None:
    client = make_app(watched.board).test_client()
    ours: dict[str, Any] = {"environ_base": {"REMOTE_ADDR": peer}, "headers": headers}
    assert client.get("/api/v1/baseline", **ours).status_code == status
    for path in CHANGES:
        assert client.post(path, json=ALL, **ours).status_code == status


def test_a_long_round_may_be_waited_for_again(watched: Watched, server: Any) -> None:
    def busy(*_: object) -> Any:
        raise TryLater("a round takes long")

    watched.board.baselines = watched.board.change_baseline = busy
    assert get(server, "/api/v1/baseline")[0] == 503
    assert post(server, CHANGES[0], ALL) == (503, {"error": "a round takes long", "status": 503})


def test_a_board_that_nobody_filled_knows_of_no_engine() -> None:
    board = Watched().board
    client = make_app(board).test_client()
    assert client.get("/api/v1/baseline").json["baselines"] == []  # type: ignore[index]
    assert client.post(CHANGES[0], json=ALL).status_code == 404
