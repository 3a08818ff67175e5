"""The stand-in for Prometheus raises the alerts that `promtool test rules` raises, when it does."""

from __future__ import annotations

import json
import re
import subprocess
from typing import NamedTuple

import numpy as np
import pytest

from bench.detection.faults import Fault
from bench.detection.life import Life, Setting
from bench.detection.promql import (
    SERIES,
    WRITTEN,
    Counters,
    Dialect,
    Rule,
    alerts,
    counters,
    firing,
    holds,
)
from tests.binaries import find

PACE = 15.0
HEALTHY = (0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35)
WEAK = (0.3, 0.12, 0.05, 0.02, 0.01, 0.0, 0.0)
DEAD = (0.051, 0.005, 0.001, 0.0005, 0.0, 0.0, 0.0)


class Day(NamedTuple):
    """As much of a generated day as the stand-in reads; of any length."""

    drafts: np.ndarray
    accepted_at: np.ndarray
    restarted: np.ndarray
    read: np.ndarray


def eventful(seed: int, busy: float) -> Day:
    """Five hours: health, a weak stretch, a restart in it, silence, a collapse and its end."""
    chance = np.random.RandomState(seed)
    count = 5 * 240
    at = np.arange(count)
    drafts = chance.poisson(40 * busy, count) * (chance.rand(count) < busy)
    drafts[(at >= 600) & (at < 640)] = 0
    drafts[(at >= 760) & (at < 790)] = 0
    accepted = np.array([
        chance.binomial(drafts, np.where(at < 200, h, np.where(at < 420, w, np.where(
            (at >= 560) & (at < 1000), d, h))))
        for h, w, d in zip(HEALTHY, WEAK, DEAD, strict=True)
    ]).T  # fmt: skip
    restarted = np.isin(at, (310, 500, 1003))
    read = chance.rand(count) > 0.08
    read[500:503] = read[900:935] = read[1050:1062] = False
    return Day(drafts[None], accepted[None], restarted[None], read)


def generated(profile: str, seed: int) -> Day:
    """
    Five hours of a life around a restart, at 15 minutes to 2.5 hours after it a dead drafter.

    More scrapes are missed than there: one in twenty, so that few hours see all there is to see.
    """
    life = Life(Setting(profile), seed, 120)
    number = next(i for i in range(120) if life.day(i).restarted[0, 2000:4000].any())
    born = 2000 + int(np.flatnonzero(life.day(number).restarted[0, 2000:])[0])
    begins, ends = (86400.0 * number + PACE * (born + after) for after in (60, 600))
    day = life.day(number, (Fault("incident", begins, ends),))
    hours = slice(born - 400, born + 800)
    read = day.read[hours] & (np.random.RandomState(seed).rand(1200) > 0.05)
    drafts, accepted = day.drafts[:, hours], day.accepted_at[:, hours]
    return Day(drafts, accepted, day.restarted[:, hours], read)


def version() -> str:
    run = subprocess.run(
        [find("promtool"), "--version"], capture_output=True, text=True, check=True
    )
    found = re.search(r"version ([\d.]+)", run.stdout + run.stderr)
    assert found, run
    return found[1]


def told(day: Day, engine: str) -> list[dict[str, str]]:
    """The series of a day as promtool takes them: each scrape's value, `stale` for a missed one."""
    everything = counters([day._replace(read=np.ones_like(day.read))])
    return [
        {
            "series": f'{name}{{engine="{engine}"}}',
            "values": " ".join(
                ["_"]
                + [
                    f"{value:.0f}" if there else "stale"
                    for value, there in zip(getattr(everything, key), day.read, strict=True)
                ]
            ),
        }
        for key, name in SERIES.items()
    ]


def promtool(folder, days: dict[str, Day], rules, wanted: dict[tuple[int, str], np.ndarray]):
    """Ask the real one at every evaluation; what it says."""
    (folder / "rules.json").write_text(
        json.dumps(
            {
                "groups": [
                    {
                        "name": "people",
                        "rules": [
                            {"alert": f"R{i}", "expr": r.expression(), "for": f"{r.hold:g}s"}
                            for i, r in enumerate(rules)
                        ],
                    }
                ]
            }
        )
    )
    count = next(iter(days.values())).read.size
    tests = [
        {
            "alertname": f"R{i}",
            "eval_time": f"{PACE * (k + 1):g}s",
            "exp_alerts": [
                {"exp_labels": {"engine": engine}} for engine in days if wanted[i, engine][k]
            ],
        }
        for i in range(len(rules))
        for k in range(count)
    ]
    case = {
        "interval": "15s",
        "input_series": [line for engine, day in days.items() for line in told(day, engine)],
        "alert_rule_test": tests,
    }
    test = {"rule_files": ["rules.json"], "evaluation_interval": "15s", "tests": [case]}
    (folder / "test.json").write_text(json.dumps(test))
    return subprocess.run(
        [find("promtool"), "test", "rules", "test.json"],
        check=False, capture_output=True, text=True, timeout=120, cwd=folder,
    )  # fmt: skip


def stand_in(days: dict[str, Day], rules, dialect) -> dict[tuple[int, str], np.ndarray]:
    return {
        (i, engine): firing(
            rule, counters([day]), PACE * np.arange(1, day.read.size + 1), dialect
        )
        for i, rule in enumerate(rules)
        for engine, day in days.items()
    }  # fmt: skip


@pytest.fixture(scope="module")
def days() -> dict[str, Day]:
    return {"0": eventful(1, busy=1.0), "1": eventful(2, busy=0.12)}


def test_promtool_raises_the_same_alerts_at_every_evaluation(tmp_path, days):
    ours = stand_in(days, WRITTEN, Dialect.of(version()))
    fired = {rule.text: sum(ours[i, e].sum() for e in days) for i, rule in enumerate(WRITTEN)}
    assert all(0 < times < 2 * 1200 for times in fired.values()), fired
    run = promtool(tmp_path, days, WRITTEN, ours)
    assert run.returncode == 0, (run.stdout + run.stderr)[-3000:]


def test_promtool_raises_the_same_alerts_in_a_generated_life(tmp_path):
    days = {"0": generated("idle", 7), "1": generated("medium", 8)}
    for day in days.values():
        seen = counters([day])
        assert (np.diff(seen.drafts) < 0).sum() == 1, "a reset"
        assert 0.9 < day.read.mean() < 1, "missed scrapes"
    quiet = np.convolve(days["0"].drafts[0, 460:1000], np.ones(20), "valid")
    assert quiet.min() == 0, "silence in the collapse"
    ours = stand_in(days, WRITTEN, Dialect.of(version()))
    assert all(fires.any() and not fires.all() for fires in ours.values())
    run = promtool(tmp_path, days, WRITTEN, ours)
    assert run.returncode == 0, (run.stdout + run.stderr)[-3000:]


def test_promtool_would_object_to_one_evaluation_that_differs(tmp_path, days):
    """The proof above can fail: the first alert one evaluation late is refused."""
    ours = stand_in(days, WRITTEN[:1], Dialect.of(version()))
    ours[0, "0"][np.flatnonzero(ours[0, "0"])[0]] = False
    assert promtool(tmp_path, days, WRITTEN[:1], ours).returncode != 0


def test_silence_resolves_what_was_never_repaired(days):
    """What the figures of alerts per fault rest on: 0/0 is below nothing."""
    intervals = alerts(Rule("drafts", 1.2, 300.0), counters([days["0"]]))
    broken = [span for span in intervals if 560 * PACE < span[0] < 1000 * PACE]
    assert len(broken) > 1


# The arithmetic, by hand


def steady(*at: float, each: float = 1.0, start: float = 100.0) -> Counters:
    """Counters that grow with the time; every draft accepts one token."""
    times = np.array(at)
    value = start + each * times
    return Counters(times, value, 7 * value, value)


def true_at(when: float, seen: Counters, rule: Rule, dialect: str = "3.5.0") -> bool:
    return bool(holds(rule, seen, np.array([when]), Dialect.of(dialect))[0])


ENOUGH = Rule("drafts", 9.0, 0.0, least=300.0)
JUST_TOO_MUCH = ENOUGH._replace(least=300.001)


@pytest.mark.parametrize("dialect", ["2.42.0", "3.5.0"])
def test_a_whole_range_counts_what_the_counter_grew(dialect):
    seen = steady(*range(0, 901, 15))
    assert true_at(600, seen, ENOUGH, dialect)
    assert not true_at(600, seen, JUST_TOO_MUCH, dialect)


def test_a_range_without_two_samples_has_no_result():
    rule = Rule("drafts", 9.0, 0.0)
    assert not true_at(300, steady(290.0, 700.0), rule)
    assert true_at(300, steady(280.0, 290.0, 700.0), rule)


def test_the_beginning_of_the_range_is_outside_since_3_0():
    seen, rule = steady(300.0, 330.0), Rule("drafts", 9.0, 0.0)
    assert true_at(600, seen, rule, "2.55.1")
    assert not true_at(600, seen, rule, "3.0.0")


def test_a_series_that_began_inside_is_extended_by_half_an_interval():
    seen = steady(*range(480, 601, 15), start=1e6)
    assert true_at(600, seen, ENOUGH._replace(least=127.4))
    assert not true_at(600, seen, ENOUGH._replace(least=127.6))


def test_a_counter_is_not_extended_below_zero():
    """It reads 5 at its first sample and grows by 1 a second: it began 5 s before."""
    seen = steady(*range(480, 601, 15), start=5.0 - 480.0)
    assert true_at(600, seen, ENOUGH._replace(least=124.9))
    assert not true_at(600, seen, ENOUGH._replace(least=125.1))


def test_what_zero_limits_changed_with_2_52():
    """A zero 10 s before the first sample: half an interval before, the zero itself until then."""
    seen = steady(*range(480, 601, 15), start=10.0 - 480.0)
    limit = ENOUGH._replace(least=128.0)
    assert true_at(600, seen, limit, "2.51.0")
    assert not true_at(600, seen, limit, "2.52.0")


def test_a_reset_counts_what_came_since():
    day = Day(
        np.full((1, 40), 15.0), np.zeros((1, 40, 7)), np.zeros((1, 40), bool), np.ones(40, bool)
    )
    day.restarted[0, 30] = True
    seen = counters([day])
    assert seen.drafts[30] == 15.0
    assert true_at(600, seen, ENOUGH)
    assert not true_at(600, seen, JUST_TOO_MUCH)


def of_lengths(*accepted: float) -> Counters:
    """100 drafts in every scrape, of which so many accept a token."""
    at = PACE * np.arange(1, len(accepted) + 1)
    drafts = 100.0 * np.arange(1, len(accepted) + 1)
    return Counters(at, drafts, 7 * drafts, np.cumsum(accepted))


@pytest.mark.parametrize(("low", "fires"), [(37, False), (38, False), (39, True)])
def test_an_alert_waits_until_its_hold_is_over(low, fires):
    """Until the range spans only low scrapes, and then twenty evaluations more."""
    seen = of_lengths(*[80.0] * 30, *[0.0] * low)
    assert bool(alerts(Rule("drafts", 1.001, 300.0), seen)) is fires


def test_an_alert_ends_at_the_first_evaluation_without_a_result():
    seen = of_lengths(*[80.0] * 30, *[0.0] * 60, *[80.0] * 30)
    assert alerts(Rule("drafts", 1.001, 300.0), seen) == [((30 + 39) * PACE, (30 + 61) * PACE)]


def test_an_alert_that_still_fires_has_no_end():
    seen = of_lengths(*[80.0] * 30, *[0.0] * 60)
    assert alerts(Rule("drafts", 1.001, 300.0), seen) == [((30 + 39) * PACE, np.inf)]


def test_one_evaluation_above_the_limit_begins_the_hold_anew():
    seen = of_lengths(*[0.0] * 30, 100.0, *[0.0] * 70)
    first, second = alerts(Rule("drafts", 1.001, 300.0), seen)
    assert first == ((2 + 20) * PACE, 31 * PACE)
    assert second == ((31 + 39) * PACE, np.inf)
