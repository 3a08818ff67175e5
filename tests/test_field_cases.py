"""
More of the public field reports, as stories: what heals, what is told apart, what must stay quiet.

The main ones are in `test_field_reports.py`. A report gives totals or the rates of one log line;
how they fall into windows and requests is ours, and so is the split over the positions where a
report gives none (all at position 0: the split that is hardest to call dead).
"""

from __future__ import annotations

import pytest

from tests.telling_stories import Engine, Story, shares
from watchdog.domain import series as s
from watchdog.domain.profile import Profile

DEAD = "SpecDecodeCollapsed"
HEALTHY = (0.85, 0.70, 0.55, 0.45, 0.36, 0.30, 0.25)


def quiet(depth: int, *ratios: float, windows: int, profile: Profile | None = None) -> Story:
    """Tell windows of 500 drafts; none of them may be bad, and nothing may fire."""
    engine = Engine(depth=depth)
    story = Story([engine], profile or Profile())
    for _ in range(windows):
        engine.draft(500, shares(500, *ratios), requests=2)
        story.round()
        assert not story.bad()
        assert not story.fired()
    return story


def test_4_forty_drafts_of_one_request_are_too_few_and_several_requests_decide() -> None:
    engine = Engine(depth=1)
    story = Story([engine])
    verdicts = []
    for _ in range(8):
        engine.draft(40, [0])
        story.round()
        verdicts.append(story.verdict(DEAD))
    assert verdicts[0] == "UNKNOWN"
    assert "OK" not in verdicts
    assert verdicts[-1] == "CRITICAL"


def test_9_repetitive_text_at_2_4_percent_is_dead_and_random_data_at_18_is_not() -> None:
    """Its random-data figure, 15 to 21 % at position 0, belongs to baselines."""
    for first, verdict in ((0.024, "CRITICAL"), (0.18, "OK")):
        engine = Engine()
        story = Story([engine])
        for _ in range(40):
            engine.draft(500, shares(500, first))
            story.round()
        assert story.verdict(DEAD) == verdict


def test_10_with_the_restored_tokens_masked_is_healthy() -> None:
    """83.5 / 57.2 / 38.9 / 27.8 / 16.8 / 11.1 / 6.0 %: length 3.41."""
    story = quiet(7, 0.835, 0.572, 0.389, 0.278, 0.168, 0.111, 0.060, windows=60)
    found = story.finding(DEAD)
    assert found is not None
    assert found.value == pytest.approx(3.41, abs=0.01)
    assert story.verdict(DEAD) == "OK"


def test_11_one_alert_for_the_whole_collapse_and_only_healthy_drafts_resolve_it() -> None:
    """k=5: 4 min at .41-.49, 5 min at .33, 82 of 5,580, pinned at .01-.035, then a restart."""
    engine = Engine(depth=5)
    story = Story([engine])
    fired: list[str] = []

    def minutes(n: int, *ratios: float) -> None:
        for _ in range(4 * n):
            engine.draft(279, shares(279, *ratios), requests=2)
            fired.extend(c.alert.state.value for c in story.round().changes)

    minutes(4, 0.75, 0.55, 0.42, 0.31, 0.22)
    minutes(5, 0.60, 0.42, 0.30, 0.20, 0.13)
    assert fired == []
    minutes(1, 82 / 1116)
    minutes(12, 0.05, 0.02, 0.01)
    assert fired == ["firing"]
    engine.restart()
    story.round()
    assert DEAD in story.fired()
    assert "began anew" in story.report.alerts[0].finding.argument.summary
    minutes(8, 0.85, 0.68, 0.52, 0.40, 0.30)
    assert fired == ["firing", "resolved"]


def test_13_padded_first_steps_beside_a_dead_drafter_do_not_hide_it() -> None:
    """494 drafts a line of 10 s, 26 accepted; two of them are padding, and it falls to nothing."""
    engine = Engine(depth=5, running=2)
    story = Story([engine], interval=10.0)
    for accepted in (26, 26, 26, 20, 10, 5, 0, 0):
        engine.draft(494, [accepted], updates=492, requests=2)
        story.round()
    found = story.finding(DEAD)
    assert found is not None
    assert story.verdict(DEAD) == "CRITICAL"
    assert found.argument.evidence["padded_drafts"]


def test_16_a_drift_at_a_shallower_depth_and_a_restart_stay_quiet() -> None:
    """No figures of it could be read: a tenth is lost at k=2 over hours, then counters reset."""
    engine = Engine(depth=2)
    story = Story([engine])
    for i in range(480):
        engine.draft(500, shares(500, 0.70 - 0.07 * i / 480, 0.45 - 0.05 * i / 480))
        story.round()
        assert not story.bad()
    engine.restart()
    story.round()
    assert not story.bad()


def test_22_content_that_stays_at_its_worst_is_still_healthy() -> None:
    """The third line for an hour: 0.680 to 0.047, length 2.29."""
    story = quiet(5, 0.680, 0.300, 0.160, 0.102, 0.047, windows=240)
    assert story.verdict(DEAD) == "OK"


@pytest.mark.parametrize("length", [2.60, 2.26, 2.56, 1.35])
def test_23_a_declared_baseline_of_vllms_own_is_kept(length: float) -> None:
    ratios = {
        2.60: (0.7296, 0.5208, 0.3545), 2.26: (0.6541, 0.3993, 0.2020),
        2.56: (0.7165, 0.5120, 0.3337), 1.35: (0.29, 0.062, 0.0115),
    }[length]  # fmt: skip
    quiet(3, *ratios, windows=120, profile=Profile(acceptance_length=length))


def test_24_padding_is_no_evidence_where_the_page_has_no_decode_updates() -> None:
    engine = Engine(depth=5)
    story = Story([engine])
    for name in (s.UPDATES, s.UPDATE_SECONDS):
        del engine.totals[name]
    for _ in range(200):
        engine.add(drafts=99, draft_tokens=495, first_tokens=99, generated_tokens=99, finished=99)
        story.round()
        assert story.verdict(DEAD) == "thin"


def test_28_a_prefix_cache_without_hits_is_no_drafters_fault() -> None:
    """Hit rate 72.7 %, then 0; length 4.80 and 4.76; a fifth fewer tokens a second."""
    engine = Engine()
    engine.totals |= {s.PREFIX_QUERIES: 0.0, s.PREFIX_HITS: 0.0}
    story = Story([engine], Profile(acceptance_length=4.8))
    for hits, length, drafts in ((0.727, 4.80, 500), (0.0, 4.76, 400)):
        for _ in range(200):
            engine.draft(drafts, shares(drafts, *[(length - 1) / 7] * 7), requests=3)
            engine.add(prompt_tokens=6000, prefix_queries=6000, prefix_hits=6000 * hits)
            story.round()
            assert not story.bad()


def test_31_a_broken_baseline_that_was_declared_is_no_excuse() -> None:
    """1.04 declared as expected, k=1: dead all the same."""
    engine = Engine(depth=1)
    story = Story([engine], Profile(acceptance_length=1.04))
    for _ in range(10):
        engine.draft(500, shares(500, 0.04), requests=2)
        story.round()
    assert story.verdict(DEAD) == "CRITICAL"
    quiet(1, 0.60, windows=60, profile=Profile(acceptance_length=1.60))


def test_an_engine_that_falls_idle_keeps_its_last_word() -> None:
    """Healthy and idle: OK for a day, then no more than inconclusive; dead and idle: dead."""
    for ratios, first, last in ((HEALTHY, "OK", "thin"), ((0.05,), "CRITICAL", "CRITICAL")):
        engine = Engine()
        story = Story([engine], interval=600.0)
        for _ in range(10):
            engine.draft(2000, shares(2000, *ratios), requests=10)
            story.round()
        engine.running = 0
        for _ in range(140):
            story.round()
        assert story.verdict(DEAD) == first
        for _ in range(10):
            story.round()
        assert story.verdict(DEAD) == last
