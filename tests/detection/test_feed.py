"""A life as readings: what History makes of them is what was made up."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from bench.detection.faults import Fault
from bench.detection.feed import TARGET, Feed, subject_of
from bench.detection.interruptions import of_day
from bench.detection.life import Day, Life, Setting
from bench.detection.streams import Streams
from watchdog.build import assessor_of
from watchdog.domain import series as s
from watchdog.domain.history import History, Window
from watchdog.domain.sample import Sample
from watchdog.probes.vllm_series import WIRES
from watchdog.settings import Settings

HOUR = 240  # windows


@lru_cache
def day_of(profile: str, seed: int = 3, number: int = 0, engines: int = 1) -> Day:
    return Life(Setting(profile, engines=engines), seed, number + 1).day(number)


def windows(days: list[Day], engines: int = 1) -> list[Window]:
    """Every round's window of the target."""
    feed, history = Feed(Setting(engines=engines)), History(TARGET)
    return [history.add(readings, now) for day in days for now, readings in feed.readings(day)]


def seed_where(wanted) -> int:
    """Return the first seed whose day 0 has such interruptions."""
    return next(seed for seed in range(1000) if wanted(of_day(Streams(seed), 0, 15.0)))


@pytest.mark.parametrize("profile", ["idle", "medium", "busy"])
def test_each_window_decodes_to_what_was_made_up(profile):
    day = day_of(profile, seed_where(lambda cuts: not cuts.downs and cuts.read[:2].all()))
    since = dict.fromkeys(("drafts", "generated", "first_tokens", "updates", "iterations"), 0.0)
    accepted_at, seconds, compared = np.zeros(7), 0.0, 0
    for i, whole in enumerate(windows([day])):
        for column in since:
            since[column] += getattr(day, column)[0, i]
        accepted_at += day.accepted_at[0, i]
        seconds += day.update_seconds[0, i]
        if not day.read[i]:
            continue
        if i:
            [engine] = whole.parts
            assert engine.subject == subject_of(0)
            for column, value in since.items():
                assert getattr(engine.decode, column) == value, column
            assert engine.decode.draft_tokens == 7 * since["drafts"]
            assert engine.decode.accepted == accepted_at.sum()
            assert engine.decode.accepted_at == (tuple(accepted_at) if since["drafts"] else ())
            assert engine.decode.update_seconds == pytest.approx(seconds, abs=1e-6)
            assert engine.decode.padded == 0
            assert engine.levels[s.RUNNING] == day.running[0, i]
            compared += 1
        since = dict.fromkeys(since, 0.0)
        accepted_at, seconds = np.zeros(7), 0.0
    assert compared > 5600


def test_the_readings_end_with_their_windows():
    times = [now for now, _ in Feed(Setting(), 1000.0).readings(day_of("idle", number=2))]
    assert times[0] == 1000.0 + 2 * 86_400 + 15
    assert times[-1] == 1000.0 + 3 * 86_400
    assert len(times) == 5760
    slow = Setting(interval=60.0)
    times = [now for now, _ in Feed(slow).readings(Life(slow, 3, 1).day(0))]
    assert (times[0], times[-1], len(times)) == (60.0, 86_400.0, 1440)


def test_an_idle_window_hands_out_the_very_samples_of_the_one_before():
    day = day_of("idle")
    feed, history, last = Feed(Setting()), History(TARGET), ()
    still, moving = 0, 0
    for i, (now, [reading]) in enumerate(feed.readings(day)):
        whole = history.add([reading], now)
        if i and day.read[i - 1 : i + 1].all() and not day.restarted[0, i]:
            if day.updates[0, i] or day.first_tokens[0, i]:
                moving += 1
                assert reading.samples is not last
                assert whole.parts[0].moved
            else:
                still += 1
                assert reading.samples is last
                assert not whole.parts[0].moved
        last = reading.samples
    assert still > 4500
    assert moving > 300


def test_an_idle_midnight_is_an_idle_window_too():
    life, feed = Life(Setting(), 3, 2), Feed(Setting())
    evening, morning = life.day(0), life.day(1)
    assert evening.updates[0, -1] == morning.updates[0, 0] == 0
    assert evening.read[-1]
    assert morning.read[0]
    *_, (_, [last]) = feed.readings(evening)
    _, [first] = next(iter(feed.readings(morning)))
    assert first.samples is last.samples


def test_a_restart_is_a_new_life_whose_counters_begin_at_0():
    seed = seed_where(
        lambda cuts: len(cuts.downs) == 1 and cuts.read[cuts.downs[0][1] :][:20].all()
    )
    day = day_of("medium", seed)
    [(first, up)] = of_day(Streams(seed), 0, 15.0).downs
    feed = Feed(Setting())
    pages = [reading for _, [reading] in feed.readings(day)]
    for i in range(first, up):
        assert pages[i].error
        assert "refused" in pages[i].error
        assert not pages[i].answered
    values = {sample.series: sample.value for sample in pages[up].samples}
    assert values[s.DRAFTS] == day.drafts[0, up]
    assert values[s.UPDATE_SECONDS] == pytest.approx(day.update_seconds[0, up])
    assert values[s.PROCESS_START] == up * 15.0
    seen = windows([day])
    assert seen[up].parts[0].reset
    assert not seen[up].parts[0].grown
    for i in range(up + 1, up + 20):
        assert seen[i].parts[0].decode.drafts == day.drafts[0, i]
        assert not seen[i].parts[0].reset


def test_a_missed_scrape_makes_the_next_window_longer_and_loses_nothing():
    def lone(cuts):
        gaps = np.flatnonzero(~cuts.read)
        return not cuts.downs and len(gaps) > 2 and np.diff(gaps).min() > 2 and gaps[0] > 2

    day = day_of("medium", seed_where(lone))
    seen = windows([day])
    readings = [reading for _, [reading] in Feed(Setting()).readings(day)]
    for i in np.flatnonzero(~day.read).tolist():
        assert "before the deadline" in readings[i].error
        assert readings[i].samples == ()
        assert not readings[i].answered
        assert not any(part.grown for part in seen[i].parts)
        if i + 1 < len(seen):
            [engine] = seen[i + 1].parts
            assert engine.gap
            assert engine.seconds == 30.0
            assert engine.decode.drafts == day.drafts[0, i : i + 2].sum()


def test_counters_go_on_over_midnight():
    life = Life(Setting("medium"), seed_where(lambda cuts: not cuts.downs), 2)
    days = [life.day(0), life.day(1)]
    seen = windows(days)
    at = 5760 + int(np.flatnonzero(days[1].read)[0])
    [engine] = seen[at].parts
    assert not engine.reset
    assert engine.levels[s.DRAFTS] > days[0].drafts.sum()
    assert engine.decode.drafts >= days[1].drafts[0, 0]


def test_each_engine_has_its_own_counters():
    day = day_of("idle", engines=3)
    last = windows([day], engines=3)
    whole = next(window for window in reversed(last) if window.parts)
    assert [part.subject for part in whole.parts] == [subject_of(i) for i in range(3)]
    since = int(np.flatnonzero(day.restarted[0])[-1]) if day.restarted.any() else 0
    end = round(whole.ended / 15)
    for i, part in enumerate(whole.parts):
        assert part.levels[s.DRAFTS] == day.drafts[i, since:end].sum()


def test_a_page_has_the_words_that_vllms_page_gives():
    [reading] = next(iter(Feed(Setting()).readings(day_of("idle"))))[1]
    assert all(type(sample) is Sample for sample in reading.samples)
    words = [sample.series for sample in reading.samples]
    assert len(set(words)) == len(words)
    known = {wire.word for wires in WIRES.values() for wire in wires} - {s.ACCEPTED_AT}
    assert set(words) - known == {*s.POSITIONS[:7], s.PROCESS_START}
    assert known - set(words) == {s.CREATED}
    assert (reading.probe, reading.target) == ("vllm_metrics", TARGET)
    assert reading.facts["format"] == "text"


def test_the_shipped_checks_are_silent_on_a_healthy_morning_and_find_the_incident():
    life = Life(Setting("busy"), seed_where(lambda cuts: not cuts.downs), 1)
    settings = Settings.model_validate({"targets": [{"url": "http://sim:8000", "name": TARGET}]})
    assessor, feed = assessor_of(settings), Feed(life.setting, 1_000_000.0)
    firing: dict[str, float] = {}
    day = life.day(0, [Fault("incident", 10 * 3600.0)])
    for now, readings in feed.readings(day):
        if now > 1_000_000.0 + 10.1 * 3600:
            break
        for alert in assessor.assess(readings, now).alerts:
            if alert.state.value == "firing":
                firing.setdefault(alert.finding.alertname, now - 1_036_000.0)
    assert set(firing) == {"SpecDecodeCollapsed"}
    assert 0 < firing["SpecDecodeCollapsed"] <= 60
