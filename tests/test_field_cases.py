"""
The published field reports, as stories: which must alert, which must not, which cannot be told.

Numbers are the reports' own. A report gives totals or the rates of one log line; how they fall
into 15 s windows and requests is ours, as plausible as we can make it, and so is the split of
accepted tokens over the positions where a report gives none (all at position 0: the split that
is hardest to call dead). Reports by the gauges of another engine cannot be told in these
counters.
"""

from __future__ import annotations

import pytest

from tests.story import DEAD, HEALTHY, Engine, Story, spread
from watchdog.domain import series as s
from watchdog.domain.finding import Verdict
from watchdog.domain.profile import Profile

COLLAPSED = "SpecDecodeCollapsed"


def told(depth: int, rounds: list[tuple[int, list[int], float]], **more: object) -> Story:
    """Tell one window a round: drafts, counts accepted at each position, requests."""
    engine = Engine(depth)
    story = Story(engine, **more)  # type: ignore[arg-type]
    for drafts, accepted_at, requests in rounds:
        engine.levels[s.RUNNING] = 1.0
        engine.count(drafts, accepted_at, requests)
        story.round()
    return story


def assert_dead(story: Story) -> None:
    """The drafter is called dead, and one critical alert fires."""
    assert story.finding(COLLAPSED).verdict is Verdict.CRITICAL
    assert story.fired.count(COLLAPSED) == 1
    assert COLLAPSED in story.firing()


def assert_not_critical(story: Story) -> None:
    """No round had a critical verdict or called the drafter dead."""
    assert all(Verdict.CRITICAL not in seen for seen in story.verdicts.values())
    assert COLLAPSED not in story.fired


# ---- must alert: dead from the start


def test_case_1_a_head_that_was_not_shared_accepts_8_of_162496() -> None:
    """A benchmark of 40 windows, three requests in each."""
    drafts, accepted = spread(20312, 40), spread(8, 40)
    story = told(8, [(d, [a], 3) for d, a in zip(drafts, accepted, strict=True)])
    assert_dead(story)
    assert story.engines[0].counters[s.DRAFT_TOKENS] == 162496


def test_case_2_unusable_quantized_weights_accept_0_of_692_in_each_10_s() -> None:
    """The log line repeats every 10 s; answers of about 350 drafts."""
    story = told(2, [(346, [0, 0], 1)] * 6, interval=10.0)
    assert_dead(story)


def test_case_4_forty_drafts_a_request_are_accumulated() -> None:
    """One request a window, k = 1: alone too little, several decide."""
    story = told(1, [(40, [0], 1)])
    assert story.finding(COLLAPSED).verdict is Verdict.UNKNOWN
    story = told(1, [(40, [0], 1)] * 10)
    assert_dead(story)


def test_case_9_a_repetitive_text_with_position_0_at_2_4_percent() -> None:
    """500 drafts a window, one request begun in each."""
    assert_dead(told(7, [(500, [12], 1)] * 6))


def test_case_10_a_prefix_cache_that_corrupts_the_draft_state() -> None:
    """Mean accepted length 1.02, 500 drafts and two requests a window; k = 7."""
    story = told(7, [(500, [10], 2)] * 8)
    assert_dead(story)
    assert story.finding(COLLAPSED).value == pytest.approx(1.02)


def test_case_10_masked_is_healthy() -> None:
    """Acceptance length 3.41 with the restored tokens masked."""
    rates = (0.835, 0.572, 0.389, 0.278, 0.168, 0.111, 0.060)
    story = told(7, [(500, [round(500 * q) for q in rates], 2)] * 40)
    assert story.was_quiet()
    assert story.finding(COLLAPSED).value == pytest.approx(3.41, abs=0.01)


# ---- must alert: healthy, then collapsed


def test_case_11_a_drafter_that_collapses_after_nine_minutes_and_is_healed_by_a_restart() -> None:
    """k = 5; D = 1116 in the minute of the collapse, the same rate before and after."""
    engine = Engine(5)
    story = Story(engine)
    engine.levels[s.RUNNING] = 1.0

    def minutes(n: int, rates: tuple[float, ...], accepted: int | None = None) -> None:
        parts = spread(accepted, 4) if accepted is not None else [None] * 4
        for part in parts * n:
            engine.count(279, [round(279 * q) for q in rates] if part is None else [part], 2)
            story.round()

    minutes(4, (0.75, 0.55, 0.42, 0.31, 0.22))
    minutes(5, (0.60, 0.42, 0.30, 0.20, 0.13))
    assert story.was_quiet()
    minutes(1, (), 82)
    minutes(2, (0.05, 0.02, 0.01, 0.0, 0.0))
    assert_dead(story)
    engine.restart()
    story.round()
    assert COLLAPSED in story.firing()  # a restart alone is no evidence
    minutes(6, (0.85, 0.68, 0.52, 0.40, 0.30))
    assert story.resolved == [COLLAPSED]
    assert story.fired == [COLLAPSED]


def test_case_13_a_decode_node_whose_drafts_fall_to_nothing() -> None:
    """494 drafts in 10 s, 26 accepted, k = 5; one of the drafts of each request is padding."""
    engine = Engine(5)
    story = Story(engine, interval=10.0)
    engine.levels[s.RUNNING] = 2.0
    for accepted in (26, 26, 26, 20, 10, 5, 0, 0):
        engine.count(492, [accepted], 2, padded=2)
        story.round()
    assert_dead(story)


def test_case_31_a_broken_baseline_is_no_excuse() -> None:
    """1.04 recorded as the expected length, k = 1: dead all the same; 1.60 is healthy."""
    profile = Profile(acceptance_length=1.04)
    assert_dead(told(1, [(500, [20], 2)] * 8, profile=profile))
    healed = told(1, [(500, [300], 2)] * 40, profile=Profile(acceptance_length=1.60))
    assert healed.was_quiet()


# ---- the seed incident


def test_the_incident_alerts_and_its_healthy_figures_do_not() -> None:
    """1.079, 2.70 %, 2.96 tokens per draft, position 0 6.70 %; and 3.766, 39.82 %, 6.946."""
    engine = Engine(7)
    story = Story(engine)
    engine.levels[s.RUNNING] = 1.0
    healthy = (0.846, 0.650, 0.440, 0.320, 0.220, 0.160, 0.130)
    for _ in range(40):
        engine.decode(1000, healthy, 3, tokens_per_draft=6.946)
        story.round()
    seen = story.finding(COLLAPSED)
    assert story.was_quiet()
    assert seen.value == pytest.approx(3.766, abs=0.001)
    assert seen.argument.evidence["draft_acceptance"] == pytest.approx(0.3982, abs=0.0001)
    for _ in range(8):
        engine.count(1000, [67, 10, 2, 1], 3, tokens_per_draft=2.96)
        story.round()
    assert_dead(story)
    seen = story.finding(COLLAPSED)
    assert seen.value == pytest.approx(1.08, abs=0.005)
    assert seen.argument.evidence["draft_acceptance"] == pytest.approx(0.0270, abs=0.0002)
    assert seen.argument.evidence["draft_tokens_per_draft"] == pytest.approx(2.96)


def test_the_incident_on_one_slow_stream_is_never_called_ok() -> None:
    """34 tok/s at length 1.079 are 473 drafts in 15 s; answers of 400 tokens end every 11.8 s."""
    engine = Engine(7)
    story = Story(engine)
    engine.levels[s.RUNNING] = 1.0
    verdicts, begun = [], 0
    for i in range(1, 9):
        engine.decode(473, DEAD, int(i * 15 / 11.8) - begun, tokens_per_draft=2.96)
        begun = int(i * 15 / 11.8)
        story.round()
        finding = story.finding(COLLAPSED)
        assert finding.verdict is not Verdict.OK, i
        verdicts.append(finding.verdict)
    assert verdicts[0] is Verdict.UNKNOWN
    assert verdicts[-1] is Verdict.CRITICAL
    assert "about" in Story(Engine(7)).finding(COLLAPSED).argument.next_step  # says what lacks


# ---- only with a declared length, or with more windows


def test_case_17_a_half_broken_drafter_warns_only_where_a_length_is_declared() -> None:
    """Before: A/T 1393/13548, 14.90 and 5.67 %; after, 1.99: what the operator declares."""
    broken = [(6774, [1009, 384], 40)]
    rounds = broken * (25 * 240)
    story = told(2, broken * 400)
    assert_not_critical(story)
    assert not story.fired
    declared = told(2, rounds, profile=Profile(acceptance_length=1.99))
    assert_not_critical(declared)
    assert declared.fired == ["SpecDecodeDegraded"]
    assert declared.finding("SpecDecodeDegraded").value == pytest.approx(1.21, abs=0.005)


def test_case_17_repaired_is_quiet() -> None:
    """4062 of 8226: 70.02 and 28.74 %, length 1.99 as declared."""
    profile = Profile(acceptance_length=1.99)
    assert told(2, [(4113, [2880, 1182], 40)] * 400, profile=profile).was_quiet()


def test_case_20_a_cliff_is_found_once_windows_are_accumulated() -> None:
    """One 10-s line: D = 65, k = 15, nothing behind position 4; a request each 10 s."""
    line = (65, [39, 25, 14, 7, 4, *([0] * 10)], 1.0)
    alone = told(15, [line], interval=10.0)
    assert alone.finding("SpecDecodeCliff").verdict is Verdict.OK
    story = told(15, [line] * 200, interval=10.0)
    cliff = story.finding("SpecDecodeCliff")
    assert cliff.verdict is Verdict.WARNING
    assert cliff.value == 5
    assert story.fired == ["SpecDecodeCliff"]
    assert_not_critical(story)
    assert story.finding(COLLAPSED).value == pytest.approx(2.37, abs=0.01)


# ---- must not alert


def test_case_15_a_drift_of_nine_percent_over_hours_stays_quiet() -> None:
    """3.07 to 2.8 in four hours, k = 4; too little for counters alone."""
    engine = Engine(4)
    story = Story(engine, profile=Profile(acceptance_length=3.07))
    engine.levels[s.RUNNING] = 1.0
    for i in range(960):
        drift = 1 - 0.13 * i / 960  # of the accepted tokens: 2.07 to 1.8
        engine.decode(1000, tuple(q * drift for q in (0.78, 0.57, 0.42, 0.30)), 3)
        story.round()
    assert story.was_quiet()


def test_case_16_like_15_at_a_shallower_depth_stays_quiet() -> None:
    """No figures were published that we could read: a drift of a tenth at k = 2, and a restart."""
    engine = Engine(2)
    story = Story(engine)
    engine.levels[s.RUNNING] = 1.0
    for i in range(480):
        engine.decode(800, (0.70 - 0.07 * i / 480, 0.45 - 0.05 * i / 480), 3)
        story.round()
    engine.restart()
    story.round()
    assert story.was_quiet()


def test_case_22_content_alone_moves_a_healthy_drafter_within_30_s() -> None:
    """Lengths 5.09, 3.55, 2.29 in three 10-s windows, k = 5; inner positions are ours."""
    lines = [
        (125, (0.968, 0.900, 0.830, 0.758, 0.632)),
        (128, (0.812, 0.600, 0.470, 0.360, 0.305)),
        (128, (0.680, 0.300, 0.160, 0.102, 0.047)),
    ]
    rounds = [(d, [round(d * q) for q in rates], 1.0) for d, rates in lines]
    assert [1 + sum(a) / d for d, a, _ in rounds] == pytest.approx([5.09, 3.55, 2.29], abs=0.02)
    assert told(5, rounds * 20, interval=10.0).was_quiet()
    assert told(5, rounds[2:] * 60, interval=10.0).was_quiet()  # and if it stays there


@pytest.mark.parametrize(
    ("rates", "length"),
    [
        ((0.7296, 0.5208, 0.3545), 2.60),
        ((0.6541, 0.3993, 0.2020), 2.26),
        ((0.7165, 0.5120, 0.3337), 2.56),
        ((0.29, 0.062, 0.0115), 1.35),
    ],
    ids=["Llama-3.1-8B", "Qwen3-8B", "gpt-oss-20b", "Qwen3-VL-30B"],
)
def test_case_23_vllms_own_baselines_are_healthy(rates: tuple[float, ...], length: float) -> None:
    """The lengths of vLLM's own acceptance test, undeclared and declared."""
    rounds = [(1000, [round(1000 * q) for q in rates], 4.0)] * 300
    story = told(3, rounds)
    assert story.was_quiet()
    assert story.finding(COLLAPSED).conclusive
    assert story.finding(COLLAPSED).value == pytest.approx(length, rel=0.02)
    assert told(3, rounds, profile=Profile(acceptance_length=length)).was_quiet()


@pytest.mark.parametrize("with_updates", [True, False])
def test_case_24_padded_first_steps_are_no_evidence(*, with_updates: bool) -> None:
    """99 requests in a line, one padded draft of five tokens each, none accepted."""
    engine = Engine(5)
    if not with_updates:
        del engine.counters[s.UPDATES], engine.counters[s.UPDATE_SECONDS]
    story = Story(engine)
    for requests in (99, 3, 99, 99) * 10:
        engine.grow(drafts=requests, draft_tokens=5 * requests, first_tokens=requests)
        engine.grow(generated_tokens=requests, finished=requests, prompt_tokens=requests)
        story.round()
        assert not story.finding(COLLAPSED).conclusive
    assert story.was_quiet()


def test_case_25_synthetic_acceptance_is_quiet() -> None:
    """4.7 asked, 4.68 to 4.78 measured; nothing in the counters tells that it is made up."""
    engine = Engine(7)
    story = Story(engine)
    for i in range(100):
        q = (3.68 + 0.1 * (i % 2)) / 7
        engine.decode(1000, (q,) * 7, 3)
        story.round()
    assert story.was_quiet()


# ---- another cause, the same complaint


def test_case_27_steps_that_take_twice_as_long_are_told_apart_from_the_drafter() -> None:
    """Cycle cost 122 ms, then 219 to 234; acceptance 81.5 to 88.5 % throughout; k = 2, one user."""
    engine = Engine(2)
    story = Story(engine)
    engine.levels[s.RUNNING] = 1.0

    def minutes(n: int, cycle: float) -> None:
        for i in range(4 * n):
            q = 0.815 + 0.07 * (i % 3) / 2
            engine.decode(round(15 / cycle), (q, q), 1, step=cycle)
            story.round()

    minutes(30, 0.122)
    assert story.was_quiet()
    assert story.finding("ServingStepsSlow").conclusive
    minutes(25, 0.226)
    slow = story.finding("ServingStepsSlow")
    assert slow.verdict is Verdict.WARNING
    assert slow.value == pytest.approx(0.226, rel=0.2)
    assert any("the drafter" in line for line in slow.argument.ruled_out)
    assert story.fired == ["ServingStepsSlow"]
    drafter = {name: v for name, v in story.verdicts.items() if name.startswith("Spec")}
    assert all(v == {Verdict.OK} for v in drafter.values())


def test_case_28_a_prefix_cache_without_hits_is_no_drafters_fault() -> None:
    """Hit rate 72.7 %, then 0; acceptance length 4.80 and 4.76; 20 % fewer tokens a second."""
    engine = Engine(7)
    story = Story(engine, profile=Profile(acceptance_length=4.8))
    engine.levels[s.RUNNING] = 1.0
    for hits, length, drafts in ((0.727, 4.80, 500), (0.0, 4.76, 400)):
        for _ in range(200):
            q = (length - 1) / 7
            engine.decode(drafts, (q,) * 7, 3, prompt=2000)
            engine.grow(prefix_queries=6000, prefix_hits=6000 * hits)
            story.round()
    assert story.was_quiet()
    assert story.finding(COLLAPSED).value == pytest.approx(4.76, abs=0.01)


# ---- what the counters must also not be fooled by


def test_one_dead_engine_of_eight_is_named_although_the_sum_looks_fine() -> None:
    """Aggregate length 2.6 or more: ordinary prose."""
    engines = [Engine(7, str(i)) for i in range(8)]
    story = Story(*engines)
    for _ in range(8):
        for engine in engines:
            engine.levels[s.RUNNING] = 1.0
            engine.decode(500, DEAD if engine.name == "5" else HEALTHY, 2)
        story.round()
    drafts = sum(e.counters[s.DRAFTS] for e in engines)
    assert 1 + sum(e.counters[s.ACCEPTED_TOKENS] for e in engines) / drafts > 2.6
    for engine in engines:
        dead = engine.name == "5"
        finding = story.finding(COLLAPSED, engine.name)
        assert finding.verdict is (Verdict.CRITICAL if dead else Verdict.OK)
    said = story.finding(COLLAPSED, "5").argument
    assert "engine 5" in said.summary
    assert any("7 other engine" in line for line in said.ruled_out)
    assert story.fired == [COLLAPSED]


@pytest.mark.parametrize("method", ["ngram", "suffix", None])
def test_an_n_gram_drafter_on_text_that_never_loops_is_not_called_dead(method: str | None) -> None:
    """39 drafts in 3,200 tokens, none accepted; told ten times over."""
    engine = Engine(4)
    story = Story(engine, profile=Profile(method=method, speculation=True))
    for drafts in spread(390, 80):
        engine.count(drafts, [0, 0, 0, 0], 1, undrafted=400 - drafts)
        story.round()
    assert story.was_quiet()


def test_an_idle_engine_is_inconclusive() -> None:
    """Never OK by luck, never an alert."""
    engine = Engine(7)
    story = Story(engine, profile=Profile(speculation=True, acceptance_length=3.0))
    for _ in range(100):
        story.round()
        assert not story.finding(COLLAPSED).conclusive
        assert not story.finding("SpecDecodeNotDrafting").conclusive
    assert story.was_quiet()
    assert "too little evidence" in story.finding(COLLAPSED).argument.summary
