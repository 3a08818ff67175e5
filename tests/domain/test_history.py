"""Windows: growth inside one life only, never across a reset."""

from __future__ import annotations

import pytest

from watchdog.domain import history as module
from watchdog.domain import series as s
from watchdog.domain.history import GONE_AFTER, History, Window
from watchdog.domain.sample import Reading, Sample, labels

E0 = labels(target="t", engine="0", model_name="m")


def page(now_start: float | None = 1.0, **levels: float) -> Reading:
    samples = [Sample(E0, name, value) for name, value in levels.items()]
    if now_start is not None:
        samples.append(Sample(labels(target="t"), s.PROCESS_START, now_start))
    return Reading("vllm_metrics", "t", tuple(samples))


def told(history: History, now: float, reading: Reading) -> Window:
    """The one engine's window."""
    [part] = history.add([reading], now).parts
    return part


def test_the_first_reading_has_no_growth() -> None:
    window = told(History("t"), 10, page(drafts=5))

    assert (window.seconds, dict(window.grown), window.reset) == (None, {}, False)


def test_growth_is_the_difference_of_counters_and_levels_have_none() -> None:
    history = History("t")
    told(history, 10, page(drafts=5, running=3))

    window = told(history, 25, page(drafts=8, running=1))

    assert window.seconds == 15
    assert dict(window.grown) == {"drafts": 3}
    assert (window.levels["running"], window.before["running"]) == (1, 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (page(drafts=5, updates=7), page(drafts=4, updates=9)),
        (page(drafts=5), page(now_start=2.0, drafts=50)),
        (page(now_start=None, drafts=5, created=1.0), page(now_start=None, drafts=9, created=2.0)),
    ],
    ids=["a-counter-fell", "the-process-began-anew", "the-counters-were-made-anew"],
)
def test_a_new_life_has_no_growth_at_all(before: Reading, after: Reading) -> None:
    history = History("t")
    told(history, 10, before)

    window = told(history, 25, after)

    assert (window.seconds, dict(window.grown), window.reset) == (None, {}, True)


def test_after_a_reset_growth_counts_from_the_new_life() -> None:
    history = History("t")
    for now, drafts in ((10, 100), (25, 3)):
        told(history, now, page(drafts=drafts))

    assert dict(told(history, 40, page(drafts=5)).grown) == {"drafts": 2}


def test_a_counter_that_appears_inside_a_life_began_at_0() -> None:
    history = History("t")
    told(history, 10, page(updates=5))

    assert told(history, 25, page(updates=9, drafts=4)).grown["drafts"] == 4


def test_a_series_that_is_away_for_one_page_is_no_new_counter() -> None:
    history = History("t")
    told(history, 10, page(updates=5, drafts=100))
    told(history, 25, page(updates=6))

    assert told(history, 40, page(updates=7, drafts=103)).grown["drafts"] == 3


def test_a_missed_reading_makes_a_longer_window_and_a_gap() -> None:
    history = History("t")
    told(history, 10, page(drafts=5))
    history.add([Reading("vllm_metrics", "t", error="refused", answered=False)], 25)

    window = told(history, 40, page(drafts=9))

    assert (window.seconds, window.gap, dict(window.grown)) == (30, True, {"drafts": 4})
    assert not told(history, 55, page(drafts=9)).gap


def test_a_long_silence_of_our_own_is_a_gap_too() -> None:
    history = History("t", gap_after=37.5)
    told(history, 0, page(drafts=5))

    assert not told(history, 37, page(drafts=5)).gap
    assert told(history, 75, page(drafts=5)).gap


def test_a_subject_is_gone_only_after_an_hour_of_pages_that_were_read() -> None:
    history = History("t")
    told(history, 0, page(drafts=5))
    others = Reading("vllm_metrics", "t", (Sample(labels(target="t"), s.PROCESS_START, 1.0),))
    failed = Reading("vllm_metrics", "t", error="refused", answered=False)

    history.add([others], GONE_AFTER)
    assert history.gone(GONE_AFTER) == []
    history.add([failed], GONE_AFTER + 10)
    assert history.gone(GONE_AFTER + 10) == []
    history.add([others], GONE_AFTER + 20)
    assert E0 in history.gone(GONE_AFTER + 20)


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SUBJECTS", 4)
    history = History("t")
    for i in range(20):
        subject = labels(target="t", engine=str(i))
        history.add([Reading("vllm_metrics", "t", (Sample(subject, "drafts", 1.0),))], i)

    assert len(history) == 4


def test_facts_of_all_readings_are_merged_on_the_targets_window() -> None:
    readings = [Reading("a", "t", facts={"x": 1}), Reading("b", "t", facts={"y": 2})]

    assert History("t").add(readings, 0).facts == {"x": 1, "y": 2}
