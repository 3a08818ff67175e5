"""What one finding says about another: words only, and one cause told once."""

from __future__ import annotations

import pytest

from watchdog.domain.diagnosis import BEHIND, diagnose
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.sample import labels


def finding(
    alertname: str, verdict: Verdict = Verdict.OK, *, engine: str = "0", check: str = "x",
    conclusive: bool = True, value: float | None = 3.5, model: str = "m", target: str = "t",
) -> Finding:  # fmt: skip
    """One engine's finding that says its own name."""
    subject = labels(target=target, engine=engine, model_name=model)
    said = Argument(f"says {alertname} {engine}", evidence={"n": 1}, ruled_out=("own",))
    return Finding(alertname, subject, verdict, lambda: said, conclusive, value, "tokens", check)


DEAD = finding("SpecDecodeCollapsed", Verdict.CRITICAL, value=1.08)


@pytest.mark.parametrize("behind", sorted(BEHIND))
@pytest.mark.parametrize("front", ["SpecDecodeCollapsed", "SpecDecodeNotDrafting"])
@pytest.mark.parametrize("verdict", [Verdict.CRITICAL, Verdict.UNKNOWN])
def test_what_stands_behind_a_dead_drafter_is_not_judged(
    behind: str, front: str, verdict: Verdict
) -> None:
    first, second = diagnose([finding(front, verdict), finding(behind, Verdict.WARNING)])
    assert first.verdict is verdict
    assert (second.verdict, second.conclusive) == (Verdict.OK, False)
    assert front in second.argument.summary
    assert second.argument.evidence == {"n": 1}


@pytest.mark.parametrize("behind", sorted(BEHIND))
def test_it_is_judged_when_the_cause_is_gone_or_another_engines(behind: str) -> None:
    warned = finding(behind, Verdict.WARNING)
    for front in (
        finding("SpecDecodeCollapsed"),
        finding(DEAD.alertname, DEAD.verdict, engine="1"),
    ):
        _, second = diagnose([front, warned])
        assert (second.verdict, second.conclusive) == (Verdict.WARNING, True)


def test_no_verdict_is_ever_made_worse() -> None:
    """Over every pair of names and verdicts that the rules know."""
    names = [*BEHIND, "SpecDecodeCollapsed", "ServingStepsSlow", "ServingDown"]
    for a in names:
        for b in names:
            for verdict in Verdict:
                before = [finding(a, Verdict.CRITICAL), finding(b, verdict, engine="1")]
                after = diagnose(before)
                assert [f.identity for f in after] == [f.identity for f in before]
                for old, new in zip(before, after, strict=True):
                    assert new.verdict in (old.verdict, Verdict.OK)
                    assert new.conclusive <= old.conclusive


def test_a_quiet_round_is_handed_on_untouched() -> None:
    quiet = [finding("SpecDecodeCollapsed"), finding("ServingStepsSlow")]
    assert diagnose(quiet) == quiet


def test_a_dead_drafter_is_told_the_step_time_and_its_siblings() -> None:
    steps = finding("ServingStepsSlow", check="step_time")
    others = [finding("SpecDecodeCollapsed", engine=str(i), value=3.0 + i) for i in range(1, 4)]
    said = diagnose([DEAD, steps, *others])[0].argument
    assert "own" in said.ruled_out
    assert "GPU, link and host: says ServingStepsSlow 0" in said.ruled_out
    assert "the traffic and the launch: 3 other engine(s) have 4 to 6 tokens" in said.ruled_out


def test_siblings_are_engines_of_the_same_model_and_target_with_evidence() -> None:
    strangers = [
        finding("SpecDecodeCollapsed", engine="1", model="another"),
        finding("SpecDecodeCollapsed", engine="1", target="another"),
        finding("SpecDecodeCollapsed", engine="2", conclusive=False),
        finding("SpecDecodeCollapsed", Verdict.CRITICAL, engine="3"),
    ]
    said = diagnose([DEAD, *strangers])[0].argument
    assert said.ruled_out == ("own",)


def test_slow_steps_are_told_that_the_drafter_is_fine() -> None:
    slow = finding("ServingStepsSlow", Verdict.WARNING, check="step_time")
    drafter = finding("SpecDecodeCollapsed", check="acceptance_length")
    said = diagnose([slow, drafter])[0].argument
    assert "the drafter: says SpecDecodeCollapsed 0" in said.ruled_out


def test_a_second_bad_thing_is_a_suspect_and_never_of_itself() -> None:
    slow = finding("ServingStepsSlow", Verdict.WARNING, check="step_time")
    restarting = finding("ServingRestarting", Verdict.WARNING)
    dead, slowed, restarts = (f.argument for f in diagnose([DEAD, slow, restarting]))
    assert [x.split(" stands")[0] for x in dead.suspects] == [
        "ServingStepsSlow", "ServingRestarting",
    ]  # fmt: skip
    assert [x.split(" stands")[0] for x in slowed.suspects] == ["ServingRestarting"]
    assert restarts.suspects == ()
