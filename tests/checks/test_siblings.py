"""One engine against the others: whom it is compared with, on how much, and what ends it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.checks.windows import window
from watchdog.checks.siblings import MOST_ENGINES, Siblings, State
from watchdog.domain import series as s
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.memory import state_of
from watchdog.domain.plain import plain, restored
from watchdog.domain.profile import Profile
from watchdog.domain.sample import labels

HOUR = 3600.0
MTP = Profile(method="mtp")
PREFIX_AWARE = Profile(method="mtp", routing="prefix-aware")
MANY = 100_000.0
WHOLE = Siblings(icc=0.0)
"""Every draft counts whole: limits can be met to the draft."""

Lengths = Mapping[str, float]


def part(
    name: str, length: float, drafts: float, profile: Profile, model: str = "m", **more: Any
) -> Window:
    """One engine's hour: this acceptance length, all seven positions alike."""
    share = (length - 1) / 7
    seen = window(
        drafts, [drafts * share] * 7 if drafts else (), requests=10.0 if drafts else 0.0,
        seconds=more.pop("seconds", HOUR), profile=profile, **more,
    )  # fmt: skip
    seen.subject = labels(target="t", engine=name, model_name=model)
    return seen


class Fleet:
    """Engines of one target that go on hour by hour; each has its length and its drafts."""

    def __init__(self, profile: Profile = MTP, check: Siblings = WHOLE) -> None:
        self.profile, self.check = profile, check
        self.state: State | None = None
        self.found: dict[str, Finding] = {}
        self.now = 10 * HOUR

    def round(self, *parts: Window) -> dict[str, Finding]:
        """One page, an hour later."""
        self.now += HOUR
        return self.again(*parts)

    def again(self, *parts: Window) -> dict[str, Finding]:
        """One page in the same hour."""
        whole = Window(labels(target="t"), self.now, HOUR, profile=self.profile, parts=parts)
        self.state, findings = self.check.step(self.state, whole, self.now)
        self.found = {dict(f.subject)["engine"]: f for f in findings}
        return self.found

    def hours(
        self, lengths: Lengths, hours: int = 2, drafts: float | Lengths = MANY
    ) -> dict[str, Finding]:
        """So many hours of this; what the last hour did is judged in the one after it."""
        for _ in range(hours):
            each = drafts if isinstance(drafts, Mapping) else dict.fromkeys(lengths, drafts)
            self.round(*(part(name, at, each[name], self.profile) for name, at in lengths.items()))
        return self.found

    @property
    def low(self) -> list[str]:
        """Names of the engines that are warned of."""
        return [name for name, found in self.found.items() if found.verdict is Verdict.WARNING]

    @property
    def thin(self) -> list[str]:
        """Names of those of which nothing is known."""
        return [name for name, found in self.found.items() if not found.conclusive]


def eight(**lengths: float) -> Lengths:
    """Eight engines of length 3, but for some: `e0=2.0`."""
    return {f"e{i}": lengths.get(f"e{i}", 3.0) for i in range(8)}


@pytest.mark.parametrize("engines", [0, 1])
def test_a_single_engine_has_no_finding_and_no_state(engines: int) -> None:
    fleet = Fleet()
    fleet.hours(dict(list(eight().items())[:engines]), hours=30)
    assert (fleet.found, fleet.state) == ({}, None)


@pytest.mark.parametrize(("ratio", "low"), [(0.84, ["e3"]), (0.86, [])])
def test_less_than_0_85_of_the_others_is_low(ratio: float, low: list[str]) -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=3 * ratio))
    assert fleet.low == low
    assert fleet.thin == []
    assert fleet.found["e3"].value == pytest.approx(3 * ratio)
    assert fleet.found["e3"].argument.evidence["ratio"] == pytest.approx(ratio)


def test_far_above_the_others_is_no_fault() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=6.0))
    assert fleet.low == []


@pytest.mark.parametrize(("ratio", "low"), [(0.77, ["e3"]), (0.79, [])])
def test_where_the_router_chooses_by_prompt_it_is_less_than_0_78(
    ratio: float, low: list[str]
) -> None:
    fleet = Fleet(PREFIX_AWARE)
    fleet.hours(eight(e3=3 * ratio))
    assert fleet.low == low


@pytest.mark.parametrize(
    ("profile", "drafts", "low"),
    [(MTP, 490, []), (MTP, 530, ["b"]), (PREFIX_AWARE, 720, []), (PREFIX_AWARE, 750, ["b"])],
    ids=["z 4.9", "z 5.1", "prefix-aware, z 5.95", "prefix-aware, z 6.07"],
)
def test_a_difference_within_5_standard_deviations_may_be_chance(
    profile: Profile, drafts: float, low: list[str]
) -> None:
    """6 where the router chooses. Variances 10 and 6.49 a draft, difference 0.9 tokens."""
    fleet = Fleet(profile, Siblings(icc=0.0, min_effective=100.0))
    fleet.hours({"a": 3.0, "b": 2.1}, drafts=drafts)
    assert fleet.low == low
    expected = -0.9 / ((10 + 6.4929) / drafts) ** 0.5
    assert fleet.found["b"].argument.evidence["z"] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("engine", "rest", "enough"), [(1001, MANY, True), (999, MANY, False), (MANY, 142.8, False)]
)
def test_each_side_needs_1000_effective_drafts(engine: float, rest: float, enough: bool) -> None:
    """Seven others of 142.8 have 999.6 together; here nobody has more in 24 hours."""
    fleet = Fleet()
    drafts = {name: engine if name == "e3" else rest for name in eight()}
    fleet.hours(eight(e3=1.1), drafts=drafts)
    assert (fleet.low == ["e3"]) == enough
    assert ("e3" in fleet.thin) != enough


@pytest.mark.parametrize("icc", [0.0, 0.05, 0.1])
def test_drafts_of_one_request_count_for_less(icc: float) -> None:
    """
    100 drafts for each of 10 requests in an hour: 1000 / (1 + 99 * 0.25) = 39 effective.

    Whatever the correlation is that the other checks use.
    """
    fleet = Fleet(Profile(method="mtp", icc=icc), Siblings())
    fleet.hours(eight(), drafts=1000.0)
    evidence = fleet.found["e3"].argument.evidence
    assert evidence["effective_drafts"] == pytest.approx(38.8, abs=0.1)
    assert "e3" in fleet.thin


def test_padded_first_steps_are_no_drafts() -> None:
    """Ten requests, and ten drafts beyond the decode updates."""
    fleet = Fleet()
    for _ in range(2):
        fleet.round(*(part(name, 3.0, 1020.0, MTP, updates=1010.0) for name in "ab"))
    evidence = fleet.found["a"].argument.evidence
    assert evidence["effective_drafts"] == pytest.approx(1010)
    assert evidence["acceptance_length"] == pytest.approx(1 + 2 * 1020 / 1010)


def test_prefix_hits_are_told_of_both_sides() -> None:
    fleet = Fleet()
    for _ in range(2):
        parts = [part("a", 2.0, MANY, MTP), part("b", 3.0, MANY, MTP)]
        for seen, hits in zip(parts, (10.0, 90.0), strict=True):
            seen.grown = {**seen.grown, s.PREFIX_QUERIES: 100.0, s.PREFIX_HITS: hits}
        fleet.round(*parts)
    assert fleet.found["a"].argument.evidence["traffic"]["prefix_hit_ratio"] == [0.9, 0.1]  # type: ignore[index]


def test_it_looks_back_only_as_far_as_both_sides_need() -> None:
    """Good hours before do not hide the last three; 350 drafts an hour need three."""
    fleet = Fleet()
    fleet.hours(eight(), hours=10, drafts=350.0)
    fleet.hours(eight(e3=1.1), hours=4, drafts=350.0)
    assert fleet.low == ["e3"]
    assert fleet.found["e3"].argument.evidence["span_hours"] in (2, 3)
    assert fleet.state is not None
    assert all(len(engine.hours) <= 3 for engine in fleet.state.engines)


@pytest.mark.parametrize(("drafts", "thin"), [(41.0, True), (42.0, False)])
def test_it_never_looks_back_more_than_24_hours(drafts: float, thin: bool) -> None:
    """24 x 41 = 984."""
    fleet = Fleet()
    fleet.hours({"a": 3.0, "b": 3.0}, hours=40, drafts=drafts)
    assert ("a" in fleet.thin) == thin
    assert fleet.state is not None
    assert max(len(engine.hours) for engine in fleet.state.engines) == 24


def test_it_is_judged_once_an_hour() -> None:
    fleet = Fleet()
    fleet.hours(eight(), hours=3)
    for _ in range(5):
        fleet.again(*(part(name, 1.1, MANY, MTP) for name in eight()))
        assert fleet.low == []
    fleet.round(*(part(name, 3.0, MANY, MTP) for name in eight()))
    assert fleet.found["e0"].argument.evidence["acceptance_length"] == pytest.approx(
        1.416, abs=0.01
    )


# Whom it is compared with


def test_a_dead_neighbour_makes_nobody_look_outstanding_and_hides_nobody() -> None:
    """It makes three drafts where the others make one: of the plain sum 5 would be 0.85 low."""
    fleet = Fleet()
    drafts = {name: 3 * MANY if name == "e0" else MANY for name in eight()}
    fleet.hours(eight(e0=1.06, e5=2.4), drafts=drafts)
    assert fleet.low == ["e0", "e5"]
    evidence = fleet.found["e5"].argument.evidence
    assert (evidence["others_length"], evidence["others"]) == (pytest.approx(3.0), 6)
    assert evidence["others_left_out"] == 1
    assert "1 more engine" in fleet.found["e5"].argument.summary


def test_where_the_router_chooses_nobody_is_left_out_above_0_78_of_the_middle() -> None:
    """Their traffic differs: one of 0.8 is one of them."""
    fleet = Fleet(PREFIX_AWARE)
    fleet.hours(eight(e0=2.4, e3=2.0))
    assert fleet.found["e3"].argument.evidence["others"] == 7


@pytest.mark.parametrize(
    ("broken", "found"), [(1, 1), (3, 3), (4, 4), (5, 0)], ids=["1", "3", "4", "5 of 8"]
)
def test_broken_engines_are_found_up_to_half_of_them(broken: int, found: int) -> None:
    """From five of eight on nobody can say which half is right. Of one traffic, more drafts."""
    fleet = Fleet()
    lengths = eight(**dict.fromkeys([f"e{i}" for i in range(broken)], 2.4))
    fleet.hours(lengths, drafts={name: MANY / at for name, at in lengths.items()})
    assert len(fleet.low) == found


def test_of_two_engines_the_worse_one_is_named() -> None:
    fleet = Fleet()
    fleet.hours({"a": 2.0, "b": 3.0})
    assert fleet.low == ["a"]
    assert "the other engine" in fleet.found["a"].argument.summary


def test_of_three_engines_one_good_one_does_not_condemn_two() -> None:
    fleet = Fleet()
    lengths = {"a": 2.4, "b": 2.4, "c": 3.0}
    fleet.hours(lengths, drafts={name: MANY / at for name, at in lengths.items()})
    assert fleet.low == []


def test_engines_of_another_model_are_not_compared() -> None:
    fleet = Fleet()
    for _ in range(3):
        other = part("z", 1.1, MANY, MTP, model="other")
        fleet.round(part("a", 3.0, MANY, MTP), other, part("b", 3.0, MANY, MTP))
    assert set(fleet.found) == {"a", "b"}
    assert fleet.low == []


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_drafters_on_a_match_are_not_compared(method: str) -> None:
    fleet = Fleet(Profile(method=method))
    fleet.hours(eight(e3=1.1), hours=3)
    assert len(fleet.thin) == 8
    assert fleet.found["e3"].argument.summary == (
        f"t engine e3: not compared: {method} drafts on a match, by its own traffic"
    )


@pytest.mark.parametrize(
    ("profile", "updates", "low"),
    [(Profile(), 2.1, []), (Profile(), 1.9, ["b"]), (MTP, 2.1, ["b"])],
    ids=["undeclared, drafts on 48 %", "undeclared, on 53 %", "declared"],
)
def test_an_undeclared_method_that_drafts_on_few_steps_is_not_compared(
    profile: Profile, updates: float, low: list[str]
) -> None:
    fleet = Fleet(profile)
    for _ in range(2):
        lengths = {"a": 3.0, "b": 2.0, "c": 3.0}
        fleet.round(
            *(part(n, at, MANY, profile, updates=updates * MANY) for n, at in lengths.items())
        )
    assert fleet.low == low
    if not low:
        assert fleet.thin == ["a", "b", "c"]
        assert "as an n-gram drafter does" in fleet.found["b"].argument.summary


def test_an_engine_that_does_not_draft_is_not_judged_and_hides_nobody() -> None:
    fleet = Fleet()
    for _ in range(2):
        off = part("off", 1.0, 0.0, MTP, depth=0, updates=MANY)
        silent = part("silent", 1.0, 0.0, MTP, updates=MANY)
        fleet.round(off, silent, *(part(n, at, MANY, MTP) for n, at in eight(e3=2.0).items()))
    assert fleet.low == ["e3"]
    assert fleet.thin == ["off", "silent"]
    assert fleet.found["off"].argument.summary.startswith(
        "t engine off: speculative decoding is off"
    )
    assert "made no draft" in fleet.found["silent"].argument.summary


def test_an_engine_without_speculation_keeps_nobody_from_being_compared() -> None:
    fleet = Fleet()
    for _ in range(3):
        off = part("off", 1.0, 0.0, MTP, depth=0, updates=MANY)
        fleet.round(off, part("a", 3.0, MANY, MTP), part("b", 3.0, MANY, MTP))
    assert fleet.thin == ["off"]


def test_a_target_without_speculation_is_not_spoken_of() -> None:
    fleet = Fleet()
    for _ in range(2):
        fleet.round(*(part(name, 1.0, 0.0, MTP, depth=0, updates=MANY) for name in eight()))
    assert (fleet.found, fleet.state) == ({}, None)


def test_an_engine_that_does_not_draft_does_not_make_the_others_n_gram_like() -> None:
    fleet = Fleet(Profile())
    for _ in range(2):
        silent = part("silent", 1.0, 0.0, Profile(), updates=3 * MANY)
        lengths = {"a": 3.0, "b": 2.0}
        fleet.round(silent, *(part(n, at, MANY, Profile()) for n, at in lengths.items()))
    assert fleet.low == ["b"]


def test_what_is_not_compared_is_kept_for_a_day_as_well() -> None:
    fleet = Fleet(Profile(method="ngram"))
    fleet.hours(eight(), hours=40)
    assert fleet.state is not None
    assert max(len(engine.hours) for engine in fleet.state.engines) == 24


# What ends it


@pytest.mark.parametrize(("ratio", "low"), [(0.92, ["e3"]), (0.93, [])])
def test_it_resolves_more_than_half_way_back(ratio: float, low: list[str]) -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=2.0))
    fleet.hours(eight(e3=3 * ratio), hours=3)
    assert fleet.low == low


@pytest.mark.parametrize(("drafts", "low"), [(900.0, ["e3"]), (1100.0, [])])
def test_it_resolves_on_as_much_evidence_as_it_takes_to_raise(
    drafts: float, low: list[str]
) -> None:
    """All of it from after the raise: the good hours before it do not count."""
    fleet = Fleet()
    fleet.hours(eight(), hours=3)
    fleet.hours(eight(e3=1.1), hours=1)
    each = {name: drafts if name == "e3" else MANY for name in eight()}
    fleet.hours(eight(), hours=1, drafts=each)
    assert fleet.low == ["e3"]
    fleet.hours(eight(), hours=1, drafts=0.0)
    assert fleet.low == low


def test_hours_of_before_the_warning_are_no_evidence_that_it_is_over() -> None:
    """950 good drafts after it; with the last bad hour they would be 1250, and 0.95 good."""
    fleet = Fleet()
    each = {name: 300.0 if name == "e3" else MANY for name in eight()}
    fleet.hours(eight(e3=1.1), hours=4, drafts=each)
    fleet.hours(eight(e3=1.1), hours=1, drafts=0.0)
    assert fleet.low == ["e3"]
    fleet.hours(eight(e3=3.4), hours=1, drafts={**each, "e3": 950.0})
    fleet.hours(eight(e3=3.4), hours=1, drafts=0.0)
    assert fleet.low == ["e3"]


def test_silence_does_not_resolve_it() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=2.0))
    fleet.hours(eight(), hours=60, drafts=0.0)
    assert fleet.low == ["e3"]
    assert fleet.found["e3"].argument.evidence["ratio"] == pytest.approx(2 / 3)
    assert "e0" in fleet.thin


def test_a_restart_keeps_the_warning_and_begins_its_sums_anew() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=2.0))
    quiet = [part(name, 3.0, 0.0, MTP) for name in eight() if name != "e3"]
    fleet.round(*quiet, part("e3", 3.0, 0.0, MTP, seconds=None))
    assert fleet.low == ["e3"]
    assert "its counters began anew since" in fleet.found["e3"].argument.summary
    assert fleet.state is not None
    assert [e.hours for e in fleet.state.engines if dict(e.subject)["engine"] == "e3"] == [()]
    fleet.hours(eight())
    assert fleet.low == []


def test_what_a_dead_drafter_did_is_no_evidence_neither_then_nor_when_it_is_healed() -> None:
    """Another check tells of it: no second alert about the same hours."""
    fleet = Fleet()
    fleet.hours(eight(e3=1.1))
    assert fleet.low == ["e3"]  # it died slowly: not known to be dead yet
    for _ in range(3):
        parts = [part(name, at, MANY, MTP) for name, at in eight(e3=1.1).items()]
        parts[3].doubted = {"SpecDecodeCollapsed": Verdict.CRITICAL}
        fleet.round(*parts)
        assert (fleet.low, fleet.thin) == ([], ["e3"])
    assert fleet.found["e0"].argument.evidence["others"] == 6
    fleet.hours(eight(), hours=1)
    assert (fleet.low, fleet.thin) == ([], ["e3"])
    assert "made no draft lately that can be compared" in fleet.found["e3"].argument.summary
    fleet.hours(eight(), hours=1)
    assert (fleet.low, fleet.thin) == ([], [])


def test_a_warning_of_an_engine_that_began_anew_ends_too_where_it_is_dead() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=1.1))
    fleet.again(*(part(n, 3.0, 0.0, MTP, seconds=None if n == "e3" else HOUR) for n in eight()))
    assert fleet.low == ["e3"]
    parts = [part(name, 3.0, MANY, MTP) for name in eight()]
    parts[3].doubted = {"SpecDecodeCollapsed": Verdict.CRITICAL}
    fleet.again(*parts)
    assert fleet.low == []


def test_what_is_in_doubt_for_another_reason_is_compared() -> None:
    fleet = Fleet()
    for _ in range(2):
        parts = [part(name, at, MANY, MTP) for name, at in eight(e3=2.0).items()]
        leaning = {"SpecDecodeCollapsed": Verdict.UNKNOWN, "SpecDecodeCliff": Verdict.WARNING}
        parts[3].doubted = leaning
        fleet.round(*parts)
    assert fleet.low == ["e3"]


def test_what_a_former_life_did_is_no_evidence() -> None:
    """Two thirds of what is needed, a restart, and as much again."""
    fleet = Fleet()
    fleet.hours({"a": 1.1, "b": 3.0}, hours=1, drafts=700.0)
    fleet.again(part("a", 3.0, 0.0, MTP, seconds=None), part("b", 3.0, 0.0, MTP))
    fleet.hours({"a": 1.1, "b": 3.0}, hours=2, drafts=700.0)
    assert fleet.thin == ["a", "b"]
    fleet.hours({"a": 1.1, "b": 3.0}, hours=1, drafts=700.0)
    assert fleet.low == ["a"]


def test_speculation_that_was_turned_off_ends_it() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=2.0))
    fleet.round(*(part(name, 1.0, 0.0, MTP, depth=0, updates=MANY) for name in eight()))
    assert (fleet.low, fleet.found["e3"].conclusive) == ([], True)


def test_a_warning_of_the_last_engine_left_ends_after_a_day() -> None:
    """The others are gone for good; nobody could ever end it."""
    fleet = Fleet()
    fleet.hours({"a": 2.0, "b": 3.0})
    fleet.hours({"a": 2.0}, hours=20)
    assert fleet.low == ["a"]
    fleet.hours({"a": 2.0}, hours=10)
    assert (fleet.low, fleet.found["a"].conclusive) == ([], True)
    assert "no other engine of its model" in fleet.found["a"].argument.summary


def test_engines_come_and_go() -> None:
    fleet = Fleet()
    fleet.hours({"a": 3.0, "b": 3.0, "c": 3.0}, hours=3)
    fleet.hours({"d": 2.0, "c": 3.0, "a": 3.0}, hours=2)
    assert (fleet.low, list(fleet.found)) == (["d"], ["d", "c", "a"])
    assert fleet.found["a"].value == pytest.approx(3.0)
    fleet.hours({"c": 3.0}, hours=30)
    assert (fleet.found, fleet.state) == ({}, None)


def test_engines_come_and_go_beside_one_of_another_model() -> None:
    fleet = Fleet()
    alone = part("z", 1.1, MANY, MTP, model="other")
    named = {"a": 3.0, "b": 3.0, "c": 2.0}
    for there in ("abc", "abc", "ac", "bc", "abc"):
        fleet.round(alone, *(part(name, named[name], MANY, MTP) for name in there))
        assert set(fleet.found) == set(there)
    assert fleet.low == ["c"]


def test_a_page_that_could_not_be_read_changes_nothing() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=2.0))
    before = fleet.state
    fleet.round()
    assert (fleet.found, fleet.state) == ({}, before)


def test_so_many_engines_are_kept_and_no_more() -> None:
    fleet = Fleet()
    for first in (0, 500):
        fleet.hours({str(first + i): 3.0 for i in range(MOST_ENGINES + 10)}, drafts=100.0)
    assert fleet.state is not None
    assert len(fleet.state.engines) == len(fleet.state.running) == MOST_ENGINES
    assert len(fleet.found) == MOST_ENGINES


def test_what_it_keeps_is_plain_data_and_bounded() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=2.0), hours=50)
    state = restored(state_of(WHOLE), json.loads(json.dumps(plain(fleet.state))))
    assert state == fleet.state
    quiet = Fleet()
    quiet.hours(eight(), hours=50, drafts=10.0)
    assert len(json.dumps(quiet.state)) < 40_000


# What it says


def test_a_low_engine_is_argued() -> None:
    fleet = Fleet()
    fleet.hours(eight(), hours=3)
    fleet.hours(eight(e3=1.8))
    said = fleet.found["e3"].argument
    assert said.summary == (
        "t engine e3: acceptance length 1.80 is 60 % of what the other 7 engines of its model "
        "reached in the same 60 min, 3.00; answers are right and decode is slow"
    )
    assert said.evidence["onset"] == [13 * HOUR, 15 * HOUR]
    assert said.evidence["others"] == 7
    assert said.evidence["traffic"] == {
        "prompt_tokens": [100.0, 100.0],
        "output_tokens": [30001.0, 18001.0],
        "running": [1.0, 1.0],
    }
    assert said.next_step.startswith("restart this engine alone")
    assert any("GPU link" in suspect for suspect in said.suspects)


def test_the_fault_began_after_the_last_good_look_began() -> None:
    """What is low for a part of an hour may be good over the whole of it."""
    fleet = Fleet()
    fleet.hours(eight(), hours=2)  # good at 12 h, over the hour before
    fleet.hours(eight(e3=2.7), hours=5)  # neither: 0.9
    fleet.hours(eight(e3=2.0), hours=2)
    assert fleet.found["e3"].argument.evidence["onset"] == [12 * HOUR, 19 * HOUR]
    never = Fleet()
    never.hours(eight(e3=2.7), hours=5)
    never.hours(eight(e3=2.0), hours=2)
    assert never.found["e3"].argument.evidence["onset"] == [11 * HOUR, 17 * HOUR]


def test_the_traffic_is_ruled_out_unless_its_requests_are_of_another_kind() -> None:
    alike, other = Fleet(), Fleet(PREFIX_AWARE)
    for fleet in (alike, other):
        lengths = {"a": 2.0, "b": 3.0}
        for _ in range(2):
            fleet.round(*(part(n, at, MANY * 3 / at, fleet.profile) for n, at in lengths.items()))
        assert fleet.low == ["a"]
    assert alike.found["a"].argument.ruled_out[0] == (
        "the launch and the traffic mix: the other engine has the same and reaches 3.00"
    )
    assert alike.found["a"].argument.ruled_out[1].startswith("traffic of the others -> of this")
    said = other.found["a"].argument
    assert said.ruled_out[0] == "the launch: the other engine has the same and reaches 3.00"
    assert said.suspects[0].startswith("requests of another kind than the others have: traffic")
    assert "within 6 standard deviations" in said.expected


def test_more_requests_at_a_time_are_no_other_kind_of_requests() -> None:
    """A slow engine keeps each of them longer."""
    fleet = Fleet()
    for _ in range(2):
        slow = part("a", 2.0, MANY * 1.5, MTP)
        slow.grown = {**slow.grown, s.ITERATIONS: MANY * 0.5}
        fleet.round(slow, part("b", 3.0, MANY, MTP))
    said = fleet.found["a"].argument
    assert "running 1.0 -> 3.0 requests" in said.ruled_out[1]


def test_too_little_evidence_says_how_much_there_is() -> None:
    fleet = Fleet()
    fleet.hours({"a": 3.0, "b": 3.0}, hours=3, drafts=100.0)
    assert fleet.found["a"].argument.summary == (
        "t engine a: too little to compare it with the others: 200 of 1000 effective drafts in "
        "at most 24 h, 200 of the other engine"
    )


def test_before_the_first_full_hour_nothing_is_known() -> None:
    fleet = Fleet()
    fleet.hours(eight(e3=1.1), hours=1)
    assert len(fleet.thin) == 8
    assert "not compared with the other engines yet" in fleet.found["e3"].argument.summary
