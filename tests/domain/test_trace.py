"""The curves of the status page: stretches of a minute, and fewer where there is no room."""

from __future__ import annotations

import pytest

from watchdog.domain import series as s
from watchdog.domain.history import Window
from watchdog.domain.sample import labels
from watchdog.domain.trace import UNREAD, Point, Traces, thinned

ENGINE = labels(target="qwen", engine="0", model_name="m")


def window(
    ended: float, seconds: float | None, drafts: float = 0.0, *, gap: bool = False
) -> Window:
    grown = {
        s.DRAFTS: drafts, s.ACCEPTED_TOKENS: 2 * drafts, s.POSITIONS[0]: drafts,
        s.GENERATED_TOKENS: 3 * drafts, s.UPDATES: drafts, s.UPDATE_SECONDS: 0.02 * drafts,
        s.PROMPT_TOKENS: 100.0,
    }  # fmt: skip
    levels = {s.RUNNING: 2.0, s.WAITING: 1.0}
    return Window(ENGINE, ended, seconds, grown=grown, levels=levels, gap=gap)


def test_windows_are_added_up_to_a_minute() -> None:
    traces = Traces()
    ended = [traces.add([window(1000.0 + 15 * i, 15.0, drafts=10.0)]) for i in range(1, 5)]
    assert ended[:3] == [[], [], []]
    [(engine, point)] = ended[3]
    assert engine == ENGINE
    assert (point.at, point.seconds, point.drafts, point.prompt_tokens) == (1060.0, 60.0, 40.0, 400)
    assert point.acceptance_length == pytest.approx(3.0)
    assert point.step_seconds == pytest.approx(0.02)
    assert (point.running, point.waiting) == (2.0, 1.0)


def test_a_minute_in_which_nothing_moved_is_a_stretch_without_a_length() -> None:
    [(_, point)] = Traces().add([window(1000.0, 60.0)])
    assert point.acceptance_length is None


def test_a_new_life_begins_a_new_stretch() -> None:
    traces = Traces()
    traces.add([window(1000.0, 45.0, drafts=10.0)])
    [(_, before)] = traces.add([window(1015.0, None)])
    assert (before.at, before.seconds, before.drafts) == (1000.0, 45.0, 10.0)
    [(_, point)] = traces.add([window(1075.0, 60.0, drafts=1.0)])
    assert point.drafts == 1.0


def test_a_page_that_was_not_read_once_does_not_break_a_stretch() -> None:
    traces = Traces()
    traces.add([window(1015.0, 15.0, drafts=10.0)])
    assert traces.add([window(1030.0, None, gap=True)]) == []
    [(_, point)] = traces.add([window(1060.0, 45.0, drafts=30.0, gap=True)])
    assert (point.at, point.seconds, point.drafts) == (1060.0, 60.0, 40.0)


@pytest.mark.parametrize(("unread", "drawn"), [(UNREAD, [45.0 + UNREAD]), (UNREAD + 1, [45.0])])
def test_a_long_time_that_nobody_saw_is_not_drawn(unread: float, drawn: list[float]) -> None:
    traces = Traces()
    traces.add([window(1000.0, 45.0, drafts=10.0)])
    ended = traces.add([window(1000.0 + unread, unread, drafts=400.0, gap=True)])
    assert [point.seconds for _, point in ended] == drawn


def test_windows_that_are_long_by_the_interval_are_drawn() -> None:
    [(_, point)] = Traces().add([window(1000.0, 600.0, drafts=5.0)])
    assert point.seconds == 600.0


def test_an_engine_that_left_is_forgotten() -> None:
    traces = Traces()
    traces.add([window(1000.0, 45.0)])
    traces.keep(set())
    assert traces.add([window(1045.0, 45.0)]) == []


def minutes(*at: float) -> list[Point]:
    return [Point(60.0 * i, 60.0, drafts=1.0, accepted=2.0, positions=(1.0,)) for i in at]


def test_neighbours_are_added_up_until_they_fit() -> None:
    thin = thinned(minutes(*range(1, 1001)), 240)
    assert 120 < len(thin) <= 240
    assert sum(point.drafts for point in thin) == 1000
    assert sum(point.seconds for point in thin) == 60_000
    assert {point.acceptance_length for point in thin} == {3.0}
    assert thin[-1].at == 60_000.0


def test_what_fits_is_left_as_it_is() -> None:
    points = minutes(*range(1, 241))
    assert thinned(points, 240) == points
    assert len(thinned(points, 239)) < 239


def test_a_gap_stays_a_gap() -> None:
    thin = thinned(minutes(1, 2, 3, 100, 101, 102), 4)
    assert [(p.at - p.seconds, p.at) for p in thin] == [
        (0, 120), (120, 180), (5940, 6060), (6060, 6120),
    ]  # fmt: skip


def test_where_gaps_alone_are_too_many_the_oldest_points_go() -> None:
    assert [p.at for p in thinned(minutes(1, 10, 20, 30), 2)] == [1200.0, 1800.0]
