"""What the trial plans, keeps and writes down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.detection import run
from bench.detection.cases import Case
from bench.detection.interruptions import of_day
from bench.detection.life import Setting
from bench.detection.plan import LifeUnit, PromqlLifeUnit, PromqlSpliceUnit, SpliceUnit, everything
from bench.detection.run import results
from bench.detection.streams import Streams

LIVES = [unit for unit in everything() if isinstance(unit, LifeUnit)]


def test_every_unit_has_a_name_of_its_own_as_a_file_too():
    for part in (1.0, run.QUICK):
        keys = [run._plain(unit.key) for unit in everything(part)]
        assert len(keys) == len(set(keys))


def test_thirty_years_of_normal_life_are_held_out_and_ten_where_requests_differ_more():
    held_out = [u for u in LIVES if u.name == "normal" and u.role == "held out"]
    assert sum(u.days for u in held_out) >= 30 * 365
    assert sum(u.days for u in LIVES if u.name == "sd .9") >= 10 * 365


def test_no_life_is_both_held_out_and_used_for_choosing():
    seeds = {role: {u.seed for u in LIVES if u.role == role} for role in ("held out", "choosing")}
    assert not seeds["held out"] & seeds["choosing"]


@dataclass
class Done:
    """A unit of work that counts how often it is done."""

    key: str
    times: list[int]

    def work(self) -> Any:
        self.times.append(1)
        return {"of": self.key}


def test_a_unit_that_is_done_is_not_done_again(tmp_path: Path):
    unit = Done("a b", [])
    file = tmp_path / "a_b.json"
    run._one(unit, file)
    assert json.loads(file.read_text()) == {"of": "a b"}
    assert not list(tmp_path.glob("*.part"))
    assert [u for u, path in ((unit, file),) if not path.exists()] == []


def told(delay: float, **more: Any) -> dict[str, Any]:
    return {"begins": 0.0, "found": True, "rule": "A", "raised": ["A"], "resolve_s": 75.0,
            "delay_s": delay, "delay_drafts": 1.0, "delay_updates": 2.0, "delay_requests": 3.0,
            **more}  # fmt: skip


MISSED = {"found": False, "rule": "", "raised": [], "resolve_s": None}


def test_units_of_one_kind_are_one_row_and_rules_in_promql_are_beside_it():
    first, second = (SpliceUnit("x", Setting("idle"), Case("zero"), n, n + 1) for n in (0, 1))
    done = [
        (first, {"x": [told(15.0)]}),
        (second, {"x": [told(30.0, raised=["A", "B"]), MISSED]}),
        (PromqlSpliceUnit(first), {"x": [{"1 + rate": told(600.0, rule="1 + rate")}]}),
    ]
    ours, theirs = results(done)["faults"]
    assert (ours["n"], ours["found"], ours["delays_s"]) == (3, 2, [15.0, 30.0])
    assert (ours["alerts"], ours["raised"]) == ([1, 2, 0], {"A": 2, "B": 1})
    assert (ours["detector"], ours["rule"]) == ("shipped checks", "A")
    assert (theirs["detector"], theirs["delays_s"]) == ("1 + rate", [600.0])


def test_the_seconds_of_a_delay_in_which_no_page_could_be_read_are_told_beside_it():
    unit = SpliceUnit("x", Setting("idle"), Case("zero"), 0, 1, seed=4)
    streams = Streams(unit.seed)
    day = next(i for i in range(365) if (~of_day(streams, i, 15.0).read).sum() > 100)
    unread = np.flatnonzero(~of_day(streams, day, 15.0).read)
    gap = int(unread[np.flatnonzero(np.diff(unread, n=50) == 0)[0]]) + 5
    after = (day * 86_400.0 + 15 * gap, 600.0)
    whole = (day * 86_400.0, 2 * 86_400.0)
    [row] = results([(unit, {"x": [
        told(seconds, begins=begins) for begins, seconds in (after, whole)
    ] + [MISSED]})])["faults"]  # fmt: skip
    tomorrow = (~of_day(streams, day + 1, 15.0).read).sum()
    assert row["blind_s"] == [600.0, 15.0 * (unread.size + tomorrow)]


def test_lives_of_one_kind_are_one_row_with_the_alarms_of_all_detectors():
    lives = [LifeUnit("normal", "held out", Setting("idle"), seed) for seed in (71, 72)]
    one = {"episodes": 1, "seconds": 60.0}
    done = [
        (lives[0], {"years": 1.0, "seconds": 90.0, "alarms": {"A": one}}),
        (lives[1], {"years": 1.0, "seconds": 80.0, "alarms": {"A": one, "B": one}}),
        (PromqlLifeUnit(lives[0]), {"seconds": 5.0, "alarms": {"1 + rate": one}}),
    ]
    [row] = results(done)["lives"]
    assert (row["years"], row["seconds"], row["seeds"]) == (2.0, 170.0, [71, 72])
    assert row["alarms"] == {
        "1 + rate": one,
        "A": {"episodes": 2, "seconds": 120.0},
        "B": one,
    }


def test_results_are_json_with_a_row_a_line():
    told = {"commit": "a", "lives": [{"seeds": [1, 2]}, {"years": 1.5}], "faults": [],
            "units": {"done": 1}}  # fmt: skip
    text = run._text(told)
    assert json.loads(text) == told
    assert '{"seeds": [1, 2]},\n{"years": 1.5}\n' in text
