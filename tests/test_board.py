"""The board: what the daemon puts up for the port."""

from __future__ import annotations

import pytest

from watchdog.board import RECENT, Board
from watchdog.domain.report import Delivery, Report
from watchdog.domain.sample import Reading


def delivery(sink: str, instance: str, *, ok: bool) -> Delivery:
    return Delivery(sink, instance, ok=ok, detail="taken" if ok else "refused", count=1)


def board_after(*deliveries: Delivery) -> Board:
    board = Board()
    for one in deliveries:
        board.count(one)
    return board


def test_one_alertmanager_that_took_it_is_enough() -> None:
    one, other = (delivery("alertmanager", name, ok=name == "a") for name in "ab")
    assert board_after(one, other).unreached() == []
    assert board_after(other).unreached() == ["nothing reaches alertmanager b: refused"]


def test_every_webhook_must_be_told() -> None:
    one, other = (delivery("webhook", name, ok=name == "a") for name in "ab")
    assert board_after(one, other).unreached() == ["nothing reaches webhook b: refused"]


def test_the_last_word_of_a_place_counts() -> None:
    bad, good = (delivery("webhook", "a", ok=ok) for ok in (False, True))
    assert board_after(good, bad).unreached() != []
    assert board_after(bad, good).unreached() == []


def test_a_ping_or_a_file_that_fails_does_not_mean_that_nobody_is_told() -> None:
    assert board_after(delivery("ping", "x", ok=False)).unreached() == []


def test_a_failure_is_forgotten_when_nothing_has_been_due_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("watchdog.board.time.monotonic", lambda: now)
    board = board_after(delivery("webhook", "a", ok=False))
    now += RECENT - 1
    assert board.unreached() != []
    now += 2
    assert board.unreached() == []


def read(at: float, error: str | None = None) -> Report:
    return Report("gpu-1", "0", at, (Reading("vllm_metrics", "qwen", error=error),))


def test_when_a_probe_last_succeeded_outlasts_its_failures() -> None:
    board, key = Board(), ("vllm_metrics", "qwen", "")
    board.show(read(100.0, "refused"))
    assert board.succeeded == {}
    board.show(read(115.0))
    board.show(read(130.0, "refused"))
    assert board.succeeded == {key: 115.0}
    assert board.rounds == 3


def test_a_probe_that_is_gone_is_forgotten() -> None:
    board = Board()
    board.show(read(100.0))
    board.show(Report("gpu-1", "0", 115.0))
    assert board.succeeded == {}


def test_every_place_is_counted_from_0_on_and_one_that_is_gone_no_more() -> None:
    board = Board()
    board.configured([("webhook", "a"), ("webhook", "b")])
    board.count(delivery("webhook", "a", ok=True))
    assert board.totals().notifications == {
        ("webhook", "a", "ok"): 1, ("webhook", "a", "failed"): 0,
        ("webhook", "b", "ok"): 0, ("webhook", "b", "failed"): 0,
    }  # fmt: skip
    board.configured([("webhook", "a")])
    assert board.totals().notifications == {
        ("webhook", "a", "ok"): 1, ("webhook", "a", "failed"): 0,
    }  # fmt: skip


def test_a_reload_forgets_who_cannot_be_reached_only_where_it_is_told_no_more() -> None:
    board = board_after(delivery("webhook", "a", ok=False))
    board.configured([("webhook", "a")])
    assert board.unreached() != []
    board.configured([("webhook", "b")])
    assert board.unreached() == []
