"""Results become tables: rates with exact limits, goals that are computed, pages refreshed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench.detection import goals as g
from bench.detection import plots as p
from bench.detection import tables as t
from bench.detection.tally import (
    SHIPPED,
    Rate,
    found_within,
    median,
    p99,
    poisson_cdf,
    poisson_upper,
    rate,
)

L12 = "1 + rate(A[5m]) / rate(D[5m]) < 1.2 for 5m"
L2 = "1 + rate(A[5m]) / rate(D[5m]) < 2 for 5m"
GUARDED = "1 + rate(A[5m]) / rate(D[5m]) < 1.12 and increase(D[5m]) >= 200 for 5m"
SHARE = "rate(A[5m]) / rate(T[5m]) < 0.05 for 10m"


def life(name="normal", profile="idle", role="held out", years=30.0, engines=1, **alarms: int):
    return {
        "name": name, "profile": profile, "sd": 0.45, "odd": 6, "engines": engines, "jitter": 0.0,
        "seeds": [71, 72, 73], "role": role, "years": years, "seconds": 50 * years,
        "alarms": {n.replace("_", "/"): {"episodes": e} for n, e in alarms.items()},
    }  # fmt: skip


def fault(name="incident", profile="idle", detector=SHIPPED, n=100, missed=0, **told):
    found = n - missed
    return {
        "name": name, "profile": profile, "role": "fault", "n": n, "found": found,
        "delays_s": [15.0] * found, "delays_drafts": [1500.0] * found,
        "delays_requests": [4.0] * found, "delays_updates": [300.0] * found, "alerts": [1] * n,
        "resolve_s": [60.0] * found, "detector": detector, "rule": "SpecDecodeCollapsed", **told,
    }  # fmt: skip


# Rates


@pytest.mark.parametrize(
    ("events", "upper"), [(0, 2.9957), (1, 4.7439), (2, 6.2958), (5, 10.5130), (10, 16.9622)]
)
def test_the_upper_limit_is_that_of_the_chi_square_tables(events, upper):
    assert poisson_upper(events) == pytest.approx(upper, abs=5e-5)


def test_the_upper_limit_at_another_level():
    assert poisson_upper(0, 0.99) == pytest.approx(-math.log(0.01))


def test_the_limit_of_many_events_is_found_too():
    assert poisson_upper(1000) == pytest.approx(1000 + 1.645 * math.sqrt(1000), rel=0.003)


def test_at_the_limit_so_few_events_have_a_chance_of_one_in_twenty():
    assert poisson_cdf(3, poisson_upper(3)) == pytest.approx(0.05)
    assert poisson_cdf(0, 0.0) == 1


def test_none_in_thirty_years_is_a_tenth_a_year():
    assert Rate(0, 30).upper == pytest.approx(0.09986, abs=1e-4)
    assert t.alarms(Rate(0, 30)) == "0: 0 (< 0.10)"
    assert t.alarms(Rate(3, 2)) == "3: 1.50 (< 3.88)"
    assert t.alarms(Rate(0, 0)) == "-"


def test_a_rate_counts_each_detector_over_all_lives():
    lives = [life(years=2.0, A=1, B=2), life(years=1.0, A=3)]
    assert rate(lives, "A") == (4, 3.0)
    assert rate(lives, ["A", "B"]) == (6, 3.0)
    assert rate(lives, "C") == (0, 3.0)


# Quantiles


@pytest.mark.parametrize(
    ("values", "middle", "highest"),
    [([], None, None), ([3], 3, 3), ([1, 2], 1.5, 2), (list(range(1, 101)), 50.5, 99),
     (list(range(1, 202)), 101, 199)],
)  # fmt: skip
def test_the_p99_is_what_99_of_100_do_not_exceed(values, middle, highest):
    assert median(values) == middle
    assert p99(values) == highest


def test_a_share_found_by_a_time_counts_the_missed():
    row = fault(n=4, missed=1, delays_s=[10.0, 20.0, 30.0])
    assert found_within(row, 20.0) == 0.5
    assert found_within(row, 1e9) == 0.75


# Goals


def seen(goals, words: str):
    (goal,) = [goal for goal in goals if words in goal.what]
    return goal.met


CRITICAL = "critical false alarms, normal"


def reached(faults=(), lives=()) -> list[g.Goal]:
    return g.goals({"lives": list(lives), "faults": list(faults)})


def test_what_was_not_measured_is_neither_met_nor_missed():
    assert {goal.met for goal in reached()} == {None}


@pytest.mark.parametrize(
    ("key", "words", "limit"),
    [
        ("delays_drafts", "dead drafter: drafts, median", 2000),
        ("delays_drafts", "dead drafter: drafts, p99", 4000),
        ("delays_requests", "dead drafter: requests, p99", 10),
    ],
)
def test_delays_of_a_dead_drafter_on_both_sides_of_their_limit(key, words, limit):
    assert seen(reached([fault(**{key: [limit] * 100})]), words) is True
    assert seen(reached([fault(**{key: [limit + 1] * 100})]), words) is False


def test_the_kinds_are_judged_together_on_the_slowest_profile():
    slow = fault("zero acceptance", n=9, delays_drafts=[2500.0] * 9)
    assert seen(reached([fault(), slow]), "dead drafter: drafts, median") is True
    assert seen(reached([fault(), slow | {"profile": "medium"}]), "drafter: drafts, med") is False


def test_a_fault_inside_a_gap_is_late_through_no_fault_of_the_checks():
    late = fault(n=3, delays_drafts=[9000.0, 100.0, 100.0], blind_s=[60.0, 0, 0])
    assert seen(reached([late]), "dead drafter: drafts, p99") is True
    assert seen(reached([late | {"blind_s": [59.0, 0, 0]}]), "dead drafter: drafts, p99") is False


def saturated(*seconds: float, each: float = 117.0, **told):
    many = {"delays_updates": [each * s for s in seconds], "delays_s": list(seconds)}
    return fault(profile="busy", n=len(seconds), **many, **told)


@pytest.mark.parametrize(("seconds", "met"), [(45.0, True), (60.0, False)])
def test_a_saturated_endpoint_has_three_scrapes(seconds, met):
    row = saturated(15.0, seconds)
    assert seen(reached([row]), "dead drafter: saturated") is met
    assert seen(reached([row | {"profile": "idle"}]), "dead drafter: saturated") is None


def test_a_night_of_a_busy_endpoint_is_not_saturated_and_a_gap_has_no_scrapes():
    night = saturated(60.0, 90.0, each=99.0)
    assert seen(reached([night]), "dead drafter: saturated") is None
    for unread, met in ((555.0, True), (540.0, False)):
        row = saturated(600.0, blind_s=[unread])
        assert seen(reached([row]), "dead drafter: saturated") is met


def test_one_missed_fault_is_too_many():
    assert seen(reached([fault(missed=0)]), "dead drafter: missed") is True
    assert seen(reached([fault(missed=1)]), "dead drafter: missed") is False


def test_a_dead_drafter_that_only_a_warning_told_is_missed():
    row = fault(n=10, rules={"SpecDecodeCollapsed": 9, "SpecDecodeCliff": 1})
    assert seen(reached([row]), "dead drafter: missed") is False
    stopped = fault("drafting stops", rules={"SpecDecodeNotDrafting": 100})
    assert seen(reached([stopped]), "drafting stops: missed") is True


def test_one_second_alert_is_too_many():
    assert seen(reached([fault()]), "dead drafter: alerts") is True
    assert seen(reached([fault(alerts=[1, 2, 1])]), "dead drafter: alerts") is False


@pytest.mark.parametrize("name", ["incident, left alone", "incident of a day, baseline known"])
def test_so_it_is_where_the_fault_is_left_alone(name):
    assert seen(reached([fault(name)]), "dead and left alone: alerts") is True
    assert seen(reached([fault(name, alerts=[1, 2])]), "dead and left alone: alerts") is False


@pytest.mark.parametrize(("seconds", "met"), [(60.0, True), (59.0, False)])
def test_an_alert_that_went_before_the_repair_was_not_resolved_on_evidence(seconds, met):
    for name in ("incident", "incident, left alone"):
        row = fault(name, resolve_s=[900.0, seconds])
        assert seen(reached([row]), "resolved without a repair") is met


def test_what_was_never_found_is_in_the_p99():
    rows = [fault(missed=2)]
    assert seen(reached(rows), "dead drafter: drafts, p99") is False
    assert seen(reached(rows), "dead drafter: drafts, median") is True
    assert seen(reached([fault(missed=1)]), "dead drafter: drafts, p99") is True


def test_one_alert_that_stays_after_the_repair_is_too_many():
    assert seen(reached([fault()]), "dead drafter: repaired") is True
    assert seen(reached([fault(resolve_s=[60.0, None])]), "dead drafter: repaired") is False


def test_other_faults_and_rules_in_promql_are_no_dead_drafter_of_ours():
    late = {"delays_drafts": [9000.0] * 100}
    rows = [fault(), fault("mild", **late), fault(detector=L12, **late)]
    assert seen(reached(rows), "dead drafter: drafts, median") is True


@pytest.mark.parametrize(("share", "met"), [(95, True), (94, False)])
def test_a_30_percent_degrade_is_found_by_95_of_100(share, met):
    delays = [6.9 * g.DAY] * share + [7.1 * g.DAY] * (100 - share)
    row = fault("degrade 30 %", delays_s=delays)
    assert seen(reached([row]), "degrade 30 %: found") is met


@pytest.mark.parametrize(
    ("name", "hours", "met"),
    [
        ("deep 30 %", 24.0, True),
        ("deep 30 %", 24.01, False),
        ("degrade 30 % at a restart", 25.0, True),
        ("degrade 30 % at a restart", 25.01, False),
        ("one engine of 8: degrade 30 %", 168.0, True),
        ("one engine of 8: degrade 30 %", 168.01, False),
    ],
)
def test_a_degrade_has_to_be_found_by_its_time(name, hours, met):
    row = fault(name, delays_s=[3600 * hours] * 100)
    words = "one engine of 8, worse" if "engine" in name else f"{name}: found"
    assert seen(reached([row]), words) is met


def test_each_profile_has_to_find_enough():
    rows = [fault("degrade 20 % at a restart", profile, delays_s=[10.0] * n)
            for profile, n in (("idle", 74), ("medium", 100))]  # fmt: skip
    assert seen(reached(rows[1:]), "degrade 20 % at a restart") is True
    assert seen(reached(rows), "degrade 20 % at a restart") is False


@pytest.mark.parametrize(
    ("years", "alarms", "met"),
    [(30.0, 0, True), (30.0, 1, False), (29.9, 0, None), (10.0, 1, False)],
)
def test_no_critical_false_alarm_needs_thirty_years_to_be_shown(years, alarms, met):
    row = life(years=years, SpecDecodeCollapsed=alarms)
    assert seen(reached(lives=[row]), CRITICAL) is met


def test_lives_that_were_used_for_choosing_prove_nothing():
    chosen = life(role="choosing", SpecDecodeCollapsed=1)
    assert seen(reached(lives=[chosen]), CRITICAL) is None


@pytest.mark.parametrize(("alarms", "met"), [(7, True), (8, False)])
def test_where_requests_differ_more_one_a_year_is_allowed(alarms, met):
    row = life("sd .9", role="stress", years=7.0, SpecDecodeNotDrafting=alarms)
    assert seen(reached(lives=[row]), "differ twice") is met


@pytest.mark.parametrize(("alarms", "met"), [(3, True), (4, False)])
def test_a_warning_may_come_once_a_year_on_each_profile(alarms, met):
    rows = [life(years=20.0), life(profile="busy", years=3.0, SpecDecodeDegraded_silent=alarms)]
    assert seen(reached(lives=rows), "SpecDecodeDegraded/silent") is met


def test_where_requests_differ_more_no_profile_hides_another():
    rows = [life("sd .9", years=9.0), life("sd .9", "medium", years=1.0, SpecDecodeCollapsed=2)]
    assert seen(reached(lives=rows[:1]), "differ twice") is True
    assert seen(reached(lives=rows), "differ twice") is False


@pytest.mark.parametrize(
    ("engine_years", "alarms", "met"), [(8, 1, True), (8, 2, False), (2, 1, None), (2, 2, False)]
)
def test_warnings_among_siblings_are_counted_by_the_pool_and_need_a_year(engine_years, alarms, met):
    pool = life("8 engines", years=engine_years, engines=8, SpecDecodeDegraded_siblings=alarms)
    assert seen(reached(lives=[pool]), "siblings") is met
    assert seen(reached(lives=[pool | {"jitter": 0.4}]), "siblings") is None


def test_gaps_and_restarts_that_are_told_are_no_false_alarms():
    goals = reached(lives=[life(ServingDown=500, WatchdogBlind=500, ServingRestarting=5)])
    assert not any(goal.met is False for goal in goals)


@pytest.mark.parametrize(("seconds", "met"), [(120.0, True), (121.0, False)])
def test_a_year_has_to_be_judged_in_two_minutes(seconds, met):
    assert seen(reached(lives=[life(years=2.0) | {"seconds": 2 * seconds}]), "judging") is met


@pytest.mark.parametrize(("updates", "met"), [(800.0, True), (801.0, False)])
def test_no_drafts_are_told_within_800_updates(updates, met):
    row = fault("drafting stops", n=3, delays_updates=[updates] * 3)
    assert seen(reached([row]), "drafting stops: idle") is met


def test_a_saturated_endpoint_has_one_scrape_to_tell_that_nothing_is_drafted():
    rows = [saturated(*s, name="drafting stops") for s in ((15.0, 15.0), (15.0, 30.0))]
    assert [seen(reached([row]), "stops: saturated") for row in rows] == [True, False]


# Tables


def columns(table: str) -> list[list[str]]:
    rows = [[c.strip() for c in line.strip("|").split(" | ")] for line in table.splitlines()]
    assert len({len(row) for row in rows}) == 1, table
    return rows


FULL = {
    "commit": "abc",
    "lives": [
        life(SpecDecodeCliff=3, **{L2: 900, L12: 8, SHARE: 2, GUARDED: 0}),
        life("sd .9", role="stress", years=7.0, SpecDecodeCollapsed=5, **{L12: 99}),
        life("8 engines, jitter 0.15", role="stress", years=2.0, engines=8),
    ],
    "faults": [
        fault(), fault("degrade 20 %", n=10, missed=3, rules={"SpecDecodeDegraded/silent": 7}),
        fault(detector=L12, missed=40, alerts=[167] * 100, resolve_s=[]),
        fault("one engine of 8: degrade 30 %", rules={"SpecDecodeDegraded/siblings": 100}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", t.TABLES)
def test_every_table_has_as_many_cells_in_every_row(name):
    assert len(columns(t.TABLES[name](FULL))) > 2


def test_a_false_alarm_has_its_rate_and_its_limit_beside_its_life():
    head, _, *rows = columns(t.false_alarms(FULL))
    assert head[1:3] == ["normal, held out: 30.0 y", "sd .9, stress: 7.0 y"]
    told = {row[0]: row[1:] for row in rows}
    assert told["`SpecDecodeCollapsed`"][:2] == ["0: 0 (< 0.10)", "5: 0.71 (< 1.50)"]
    assert told["`SpecDecodeCliff`"][0] == "3: 0.10 (< 0.26)"
    assert not any("rate(" in name for name in told)


def test_rules_in_promql_stand_by_form_and_limit_with_ours_beneath():
    _, _, *rows = columns(t.promql_alarms(FULL))
    assert [row[0].strip("`") for row in rows] == [L12, L2, GUARDED, SHARE, "SpecDecodeCollapsed"]
    assert rows[1][1].startswith("900: 30 (<")


def test_lives_that_were_used_for_choosing_are_not_held_against_rules_in_promql():
    chosen = life(role="choosing", years=5.0, SpecDecodeCollapsed=7, **{L12: 70})
    more = {**FULL, "lives": [*FULL["lives"], chosen]}
    assert t.promql_alarms(more) == t.promql_alarms(FULL)
    assert p.points(more, "idle") == p.points(FULL, "idle") != []


def test_a_fault_is_told_with_its_delays_and_what_was_missed():
    (row,) = [r for r in columns(t.found(FULL)) if r[0] == "incident"]
    assert row == ["incident", "idle", "100", "0 %", "15 / 15", "1,500 / 1,500", "300 / 300",
                   "4 / 4", "1.00", "60 / 60", "SpecDecodeCollapsed 100"]  # fmt: skip


def test_a_fault_that_was_never_found_has_an_endless_delay():
    rows = [fault(n=5, missed=1), fault("mild", n=4, missed=3),
            fault("degrade 10 %", n=10, missed=6)]  # fmt: skip
    told = {r[0]: r for r in columns(t.found({**FULL, "faults": rows}))}
    assert told["incident"][3:5] == ["20 %", "15 / never"]
    assert told["mild"][3:5] == ["75 %", "never / never"]
    (row,) = columns(t.degraded({**FULL, "faults": rows}))[2:]
    assert row[-2] == "never / never"
    _, _, ours = columns(
        t.promql_found({**FULL, "faults": [*rows[1:2], rows[1] | {"detector": L12}]})
    )[:3]
    assert ours[2] == "never; never; 1.00 (75 % missed)"


def test_what_is_missed_is_told_with_what_is_known_of_it():
    late = fault(n=4, delays_drafts=[9000.0, 100.0, 8000.0, 8500.0], blind_s=[600.0, 0, 0, 15.0])
    head, _, *rows = columns(t.missed({"lives": [], "faults": [late]}))
    assert head == ["not met", "seen", "why"]
    told = {row[0]: row[1:] for row in rows}
    assert told["dead drafter: drafts, p99"] == [
        "idle 8,500",
        "incident, idle: 3 of 4 faults took more than 4,000, "
        "1 fell into a gap of the scrapes, where nobody could know",
    ]
    assert columns(t.missed({"lives": [], "faults": [fault()]}))[2:] == [["none", "-", "-"]]


def test_a_page_tells_of_what_it_is_and_whether_that_is_all():
    row = {"commit": "abc1234", "units": {"done": 12, "planned": 186}}
    assert columns(t.run(row))[2:] == [["abc1234", "12 of 186"]]
    assert columns(t.run({"commit": ""}))[2:] == [["-", "-"]]


def test_a_pool_of_engines_is_one_endpoint():
    pool = life("8 engines, jitter 0.15", role="stress", years=2.0, engines=8, A=1)
    assert rate([pool], "A") == (1, 0.25)
    [row] = columns(t.lives({"lives": [pool], "faults": []}))[2:]
    assert row[-2:] == ["0.25", "400"]
    head, *_ = columns(t.false_alarms({"lives": [pool], "faults": []}))
    assert head[1] == "8 engines, jitter 0.15, stress: 0.25 y"


def test_alerts_of_one_fault_by_a_rule_in_promql_stand_beside_ours():
    _, _, ours, theirs = columns(t.promql_found(FULL))
    assert ours == ["incident", "shipped checks", "15; 1,500; 1.00"]
    assert theirs == ["incident", f"`{L12}`", "15; 1,500; 167 (40 % missed)"]


def test_a_degrade_is_told_with_the_rule_that_found_it():
    _, _, alone, engine = columns(t.degraded(FULL))
    assert alone[:6] == ["degrade 20 %", "idle", "10", "70 %", "70 %", "70 %"]
    assert (alone[-1], engine[-1]) == ("silent 7", "siblings 100")


def test_repairs_that_did_not_resolve_are_counted_beside_those_that_did():
    row = fault(resolve_s=[60.0, None, 90.0, None])
    (told,) = [r for r in columns(t.found({**FULL, "faults": [row]})) if r[0] == "incident"]
    assert told[-2] == "75 / 90, 2 not"


# Pictures


def test_a_detector_is_drawn_by_its_median_delay_where_the_missed_are_endless():
    rows = [fault(missed=40, delays_drafts=[float(i) for i in range(60)]),
            fault(detector=L12, missed=50), fault(detector=GUARDED, missed=49)]  # fmt: skip
    told = p.points({**FULL, "faults": rows}, "idle")
    assert [(x.form, x.limit) for x in told] == [("the same, with 200 drafts", "1.12"), ("", "")]
    assert told[1].drafts == 49.5
    assert told[1].alarms == rate(FULL["lives"][:1], "SpecDecodeCollapsed")


@pytest.mark.parametrize(("rule", "form"), [(L12, 0), (GUARDED, 1), (SHARE, 2)])
def test_each_form_of_a_rule_has_its_own_mark(rule, form):
    assert p.form_of(rule) == list(p.FORMS)[form]


def test_a_share_rises_with_each_fault_found_and_never_to_one_if_one_is_missed():
    assert p.shares([3.0, 1.0], of=4) == ([0.0, 1.0, 3.0], [0.0, 0.25, 0.5])


def test_the_page_in_the_docs_has_every_table_once():
    page = (Path(__file__).parents[2] / "docs/detection.md").read_text(encoding="utf-8")
    assert sorted(m["name"] for m in t.MARKED.finditer(page)) == sorted(t.TABLES)
    assert page.count("<!-- table") == len(t.TABLES)


def test_a_page_is_refreshed_between_its_markers_and_nowhere_else():
    page = (
        "before\n<!-- table goals -->\nold\n<!-- end -->\n"
        "between\n<!-- table lives -->\n<!-- end -->\n"
    )
    new = t.refreshed(page, FULL)
    assert new.startswith("before\n<!-- table goals -->\n| goal |")
    assert "old" not in new
    assert "|\n<!-- end -->\nbetween\n<!-- table lives -->\n| life |" in new
    assert t.refreshed(new, FULL) == new


def test_a_marker_of_an_unknown_table_is_a_mistake():
    with pytest.raises(KeyError):
        t.refreshed("<!-- table nonsense -->\n<!-- end -->", FULL)
