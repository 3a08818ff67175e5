"""
Public field reports as stories, with their numbers (engine-metrics study, section C).

A report gives totals; here they are spread evenly over windows of 15 s and over requests of
about 100 to 400 drafts, which is what its text or its traffic suggests.
"""

from __future__ import annotations

import pytest

from tests.telling_stories import Engine, Story, shares
from watchdog.domain.profile import Profile

DEAD, LOW, CLIFF = "SpecDecodeCollapsed", "SpecDecodeDegraded", "SpecDecodeCliff"
LEARNED = Profile(speculation=True, method="dflash")


def told(
    drafts: float,
    positions: list[float],
    *,
    depth: int,
    tokens: float | None = None,
    windows: int = 10,
    requests: float = 20.0,
    profile: Profile | None = None,
    warm_up: float = 0.0,
) -> Story:
    """Tell totals over some windows; `warm_up` healthy drafts a window come before."""
    engine = Engine(depth=depth)
    story = Story([engine], profile or Profile())
    for _ in range(10 if warm_up else 0):
        engine.draft(warm_up, shares(warm_up, *(0.8 * 0.75**i for i in range(depth))))
        story.round()
    for _ in range(windows):
        engine.draft(
            drafts / windows,
            [count / windows for count in positions],
            requests=requests / windows,
            tokens=None if tokens is None else tokens / windows,
        )
        story.round()
    return story


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(lambda: told(20312, [8] + [0] * 7, depth=8), id="1-head-not-shared"),
        pytest.param(lambda: told(346, [0, 0], depth=2, requests=12), id="2-quantized-mtp"),
        pytest.param(
            lambda: told(40 * 12, [0], depth=1, requests=12, windows=12), id="4-one-block-table"
        ),
        pytest.param(
            lambda: told(3000, shares(3000, 0.012, 0.005, 0.002, 0.001, 0, 0, 0), depth=7),
            id="10-prefix-cache",
        ),
        pytest.param(
            lambda: told(1116, [60, 14, 5, 2, 1], depth=5, requests=6, warm_up=300),
            id="11-healthy-then-collapsed",
        ),
        pytest.param(
            lambda: told(494 * 3, [18 * 3, 5 * 3, 2 * 3, 3, 0], depth=5, requests=9),
            id="13-prefill-decode",
        ),
    ],
)
def test_a_dead_drafter_is_called_dead(story: object) -> None:
    ended: Story = story()  # type: ignore[operator]

    assert ended.verdict(DEAD) == "CRITICAL"
    assert DEAD in ended.fired()


def test_the_seed_incident_alerts() -> None:
    """Length 1.079, 2.70 % of the draft tokens, 2.96 tokens per draft, position 0 at 6.70 %."""
    drafts = 2000.0
    positions = shares(drafts, 0.067, 0.009, 0.002, 0.001, 0, 0, 0)

    story = told(drafts, positions, depth=7, tokens=2.96 * drafts, profile=LEARNED, requests=8)

    found = story.finding(DEAD)
    assert found is not None
    assert story.verdict(DEAD) == "CRITICAL"
    assert found.value == pytest.approx(1.079)
    assert found.argument.evidence["draft_acceptance"] == pytest.approx(0.027, abs=0.0005)


def test_the_incidents_week_before_does_not_alert() -> None:
    """Length 3.766, 39.82 % of the draft tokens, 6.946 tokens per draft."""
    drafts = 2000.0
    positions = shares(drafts, 0.78, 0.57, 0.44, 0.34, 0.26, 0.21, 0.166)

    story = told(drafts, positions, depth=7, tokens=6.946 * drafts, profile=LEARNED, requests=8)

    found = story.finding(DEAD)
    assert found is not None
    assert found.value == pytest.approx(3.766)
    assert found.argument.evidence["draft_acceptance"] == pytest.approx(0.3982, abs=0.0005)
    assert story.verdict(DEAD) == "OK"
    assert story.bad() == set()


def test_17_a_half_broken_mtp_needs_a_declared_length() -> None:
    """D=6774, length 1.21, positions 14.90 / 5.67 %; healthy it is 1.99."""
    engine = Engine(depth=2)
    story = Story([engine], Profile(True, "mtp", 2, 1.99), interval=60.0)
    blind = Story([Engine(depth=2)], interval=60.0)
    for told_story in (story, blind):
        for _ in range(26 * 60):
            told_story.engines[0].draft(6774 / 60, shares(6774 / 60, 0.149, 0.0567), requests=1)
            told_story.round()

    assert LOW in story.fired()
    assert story.verdict(DEAD) == "OK"
    assert blind.bad() == set()


def test_17_mended_is_quiet() -> None:
    """D=4113, length 1.99, positions 70.02 / 28.74 %."""
    profile = Profile(True, "mtp", 2, 1.99)

    story = told(4113, shares(4113, 0.7002, 0.2874), depth=2, profile=profile)

    assert story.bad() == set()


def test_20_a_cliff_at_position_5_needs_accumulated_windows() -> None:
    """k=15, D=65 a window: .600 .385 .215 .108 .062, then exactly 0."""
    engine = Engine(depth=15)
    story = Story([engine], LEARNED)
    positions = shares(65, 0.6, 0.385, 0.215, 0.108, 0.062, *[0.0] * 10)
    engine.draft(65, positions)
    story.round()
    after_one = story.bad()
    for _ in range(60):
        engine.draft(65, positions)
        story.round()

    assert after_one == set()
    found = story.finding(CLIFF)
    assert found is not None
    assert (found.verdict.name, found.value) == ("WARNING", 5.0)
    assert story.verdict(DEAD) == "OK"


def test_22_one_healthy_run_whose_content_changes_is_quiet() -> None:
    """Length 5.09, 3.55, 2.29 in three windows: content only."""
    engine = Engine(depth=5)
    story = Story([engine], Profile(True, "dspark", 5, 3.6), interval=10.0)
    for ratios in (
        (0.968, 0.9, 0.83, 0.76, 0.632),
        (0.812, 0.6, 0.48, 0.353, 0.305),
        (0.68, 0.36, 0.14, 0.063, 0.047),
    ) * 4:
        engine.draft(125, shares(125, *ratios))
        story.round()
        assert story.bad() == set()


@pytest.mark.parametrize(
    "ratios",
    [
        (0.7296, 0.5208, 0.3545),
        (0.6541, 0.3993, 0.2020),
        (0.7165, 0.5120, 0.3337),
        (0.29, 0.062, 0.0115),
    ],
    ids=["llama", "qwen3-8b", "gpt-oss", "qwen3-vl-of-length-1.35"],
)
def test_23_vllms_own_baselines_are_healthy(ratios: tuple[float, ...]) -> None:
    story = told(20000, shares(20000, *ratios), depth=3, requests=60, windows=60)

    assert story.verdict(DEAD) == "OK"
    assert story.bad() == set()


def test_24_padded_first_steps_are_no_evidence() -> None:
    """99 requests on a decode node, one padded draft of 5 tokens each, nothing accepted."""
    engine = Engine(depth=5)
    story = Story([engine], LEARNED)
    for _ in range(9):
        engine.draft(11, [0] * 5, requests=11, updates=0)
        story.round()

    found = story.finding(DEAD)
    assert found is not None
    assert story.verdict(DEAD) == "thin"
    assert found.argument.evidence["drafts"] == 0


def test_25_synthetic_acceptance_is_quiet() -> None:
    story = told(5000, shares(5000, 0.95, 0.9, 0.75, 0.6, 0.5), depth=5)

    assert story.bad() == set()


def test_15_a_slow_drift_of_a_tenth_is_beyond_passive_counters() -> None:
    """Length 3.07 falls to 2.8 over hours."""
    engine = Engine(depth=4)
    story = Story([engine], Profile(True, "eagle", 4, 3.07), interval=60.0)
    for minute in range(300):
        lost = 1 - 0.13 * minute / 300
        engine.draft(600, shares(600, *(lost * q for q in (0.8, 0.58, 0.4, 0.29))), requests=5)
        story.round()
        assert story.bad() == set()


def test_27_steps_twice_as_long_with_a_steady_drafter_are_slow_steps() -> None:
    """Cycle cost 122 to 225 ms, acceptance steady at 85 %."""
    engine = Engine(depth=3)
    story = Story([engine], LEARNED)
    for step in (0.122,) * 60 + (0.225,) * 60:
        engine.draft(100, shares(100, 0.9, 0.85, 0.8), step=step)
        story.round()

    found = story.finding("ServingStepsSlow")
    assert story.bad() == {"ServingStepsSlow"}
    assert found is not None
    assert "the drafter: qwen engine 0: acceptance length" in " ".join(found.argument.ruled_out)


def test_31_a_drafter_that_was_dead_from_the_first_day_is_found() -> None:
    """1.04 was once recorded as the expected length of a k=1 MTP head."""
    story = told(4000, shares(4000, 0.04), depth=1, requests=12)

    assert story.verdict(DEAD) == "CRITICAL"


def test_one_dead_engine_of_eight_is_named_although_the_sum_looks_fine() -> None:
    engines = [Engine(name=str(i)) for i in range(8)]
    story = Story(engines, LEARNED)
    for _ in range(12):
        for engine in engines:
            dead = engine.name == "5"
            ratios = (0.05, 0.01) if dead else (0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
            engine.draft(400, shares(400, *ratios))
        story.round()

    drafts = sum(e.totals["drafts"] for e in engines)
    whole = 1 + sum(e.totals["accepted_tokens"] for e in engines) / drafts
    assert whole > 3
    assert [story.verdict(DEAD, str(i)) for i in range(8)] == ["OK"] * 5 + ["CRITICAL"] + ["OK"] * 2
    found = story.finding(DEAD, "5")
    assert found is not None
    assert "qwen engine 5" in found.argument.summary
    assert any("7 other engine(s)" in line for line in found.argument.ruled_out)


@pytest.mark.parametrize("method", ["ngram", None])
def test_an_ngram_drafter_on_text_that_never_loops_is_not_called_dead(method: str | None) -> None:
    """39 drafts in 3,200 tokens, none accepted."""
    engine = Engine(depth=4)
    story = Story([engine], Profile(method=method))
    for _ in range(39):
        engine.draft(1, [0] * 4, updates=82, requests=0.4)
        story.round()
        assert story.bad() == set()
    for _ in range(400):  # and for as long again as would prove a learned drafter dead
        engine.draft(20, [0] * 4, updates=82, requests=0.4)
        story.round()
    assert story.bad() == set()


def test_an_idle_engine_is_inconclusive_and_lacks_a_stated_amount() -> None:
    engine = Engine()
    engine.running = 0
    story = Story([engine])
    for _ in range(8):
        story.round()

    found = story.finding(DEAD)
    assert found is not None
    assert story.verdict(DEAD) == "thin"
    assert "0 of 30 effective drafts" in found.argument.summary
    assert story.report.verdict.name == "OK"


@pytest.mark.parametrize("method", ["dflash", None])
def test_the_incident_on_one_slow_stream_is_never_ok_and_critical_within_a_check(
    method: str | None,
) -> None:
    """34 tokens a second in answers of 400: 31.5 drafts a second, a request each 11.8 s."""
    engine = Engine()
    story = Story([engine], Profile(method=method))
    seen = []
    for _ in range(8):
        drafts = 34 / 1.079 * 15
        ratios = (0.067, 0.009, 0.002, 0.001)
        engine.draft(drafts, shares(drafts, *ratios), tokens=2.96 * drafts, requests=15 / 11.8)
        story.round()
        seen.append(story.verdict(DEAD))

    assert "OK" not in seen
    assert seen[0] == "UNKNOWN"
    assert seen[-1] == "CRITICAL"
