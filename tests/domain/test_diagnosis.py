"""What one finding says about another: words only, and one cause told once."""

from __future__ import annotations

import json

import pytest

from watchdog.domain.changes import DEPTH, RESTART, Changes, Event
from watchdog.domain.diagnosis import BEHIND, diagnose
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.profile import PREFIX_AWARE
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


@pytest.mark.parametrize(("healthy", "said"), [(3, False), (4, True)])
def test_a_few_engines_that_are_not_low_rule_no_traffic_out(healthy: int, said: bool) -> None:
    """All may have the same odd traffic, and only some of them be judged by now."""
    low = [finding("SpecDecodeDegraded", Verdict.WARNING, engine=str(i)) for i in range(4)]
    others = [finding("SpecDecodeDegraded", engine=str(4 + i)) for i in range(healthy)]
    told = " ".join(diagnose([*low, *others])[0].argument.ruled_out)
    assert ("the traffic and the launch" in told) is said


def test_where_the_router_chooses_by_prompt_other_engines_rule_no_traffic_out() -> None:
    low = finding("SpecDecodeDegraded", Verdict.WARNING)
    other = finding("SpecDecodeDegraded", engine="1")
    told = diagnose([low, other], routing=PREFIX_AWARE)[0].argument.ruled_out
    assert told == ("own", "the launch: 1 other engine(s) have 3.5 to 3.5 tokens")


def test_slow_steps_are_told_that_the_drafter_is_fine() -> None:
    slow = finding("ServingStepsSlow", Verdict.WARNING, check="step_time")
    drafter = finding("SpecDecodeCollapsed", check="acceptance_length")
    said = diagnose([slow, drafter])[0].argument
    assert "the drafter: says SpecDecodeCollapsed 0" in said.ruled_out


def test_a_low_length_is_not_told_that_the_drafter_is_alive() -> None:
    low = finding("SpecDecodeDegraded", Verdict.WARNING, check="declared_length")
    drafter = finding("SpecDecodeCollapsed", check="acceptance_length")
    assert diagnose([low, drafter])[0].argument.ruled_out == ("own",)


def slot(
    verdict: Verdict, alertname: str = "GpuLinkDegraded", at: str = "05", *,
    conclusive: bool = True, **evidence: object,
) -> Finding:  # fmt: skip
    """A finding about the link of one GPU."""
    said = Argument(f"says {alertname} {at}", evidence=evidence)
    return Finding(alertname, labels(slot=at), verdict, lambda: said, conclusive)


def stamped(verdict: Verdict, *links: Finding) -> Argument:
    """What a figure says that was measured on these links."""
    measured = finding("SpecDecodeDegraded", verdict, check="declared_length")
    return diagnose([measured], links)[0].argument


WELL = (slot(Verdict.OK), slot(Verdict.OK, "GpuLinkErrors", window={}))
BAD_LINK = slot(Verdict.WARNING, at="06")


def test_a_bad_figure_on_a_bad_link_has_the_link_for_its_first_suspect() -> None:
    said = stamped(Verdict.WARNING, *WELL, BAD_LINK)
    assert said.suspects[0] == (
        "GpuLinkDegraded stands too: says GpuLinkDegraded 06; predicts slower steps, and drafts "
        "accepted as before; decided by the acceptance length after it is mended"
    )
    assert "measured on a degraded link: 06" in said.summary
    assert said.ruled_out == ("own",)
    well = stamped(Verdict.OK, *WELL, BAD_LINK)
    assert (well.suspects, well.ruled_out) == ((), ("own",))
    assert "measured on a degraded link: 06" in well.summary


def test_what_a_bad_link_predicts_depends_on_the_figure() -> None:
    slow = finding("ServingStepsSlow", Verdict.WARNING, check="step_time")
    said = diagnose([slow], [*WELL, BAD_LINK])[0].argument
    assert said.suspects[0].endswith(
        "; predicts the usual step time once that is mended; decided by the step time after it is "
        "mended"
    )
    said = diagnose([DEAD, slow])[0].argument
    assert said.suspects[0].endswith(
        "; predicts one cause of both; decided by whether both heal at the same start or change"
    )


def test_links_as_declared_are_ruled_out_of_a_bad_figure_alone() -> None:
    said = stamped(Verdict.WARNING, *WELL)
    line = "GPU links: measured on 1 GPU link(s) as declared; no link errors counted in this window"
    assert said.ruled_out == ("own", line)
    assert stamped(Verdict.OK, *WELL).ruled_out == ("own",)
    assert stamped(Verdict.OK, *WELL).evidence["links"] == line.removeprefix("GPU links: ")


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ((slot(Verdict.CRITICAL, "GpuMissing"),), "measured with a GPU missing: 05"),
        ((slot(Verdict.CRITICAL, "GpuMissing"), BAD_LINK), "measured on a degraded link: 05, 06"),
        ((*WELL, slot(Verdict.OK, conclusive=False)), "measured on GPU links that are not judged"),
        ((*WELL, slot(Verdict.UNKNOWN)), "measured on GPU links that are not judged"),
        ((*WELL, slot(Verdict.OK, "GpuLinkErrors")), "link errors are not counted by all"),
        ((*WELL, slot(Verdict.OK, "GpuMissing")), "no link errors counted"),
    ],
)
def test_what_a_figure_is_stamped_with(links: tuple[Finding, ...], said: str) -> None:
    assert said in str(stamped(Verdict.OK, *links).evidence["links"])


def test_a_second_bad_thing_is_a_suspect_and_never_of_itself() -> None:
    slow = finding("ServingStepsSlow", Verdict.WARNING, check="step_time")
    restarting = finding("ServingRestarting", Verdict.WARNING)
    dead, slowed, restarts = (f.argument for f in diagnose([DEAD, slow, restarting]))
    assert [x.split(" stands")[0] for x in dead.suspects] == [
        "ServingStepsSlow", "ServingRestarting",
    ]  # fmt: skip
    assert [x.split(" stands")[0] for x in slowed.suspects] == ["ServingRestarting"]
    assert slowed.suspects[0].endswith("decided by the times of the starts against its onset")
    assert restarts.suspects == ()


NOW = 1_000_000.0
ONSET = [NOW - 7200.0, NOW - 3600.0]
CHANGES = Changes(
    since=((RESTART, NOW - 1e5), (DEPTH, NOW - 1e5)),
    events=(Event(NOW - 7000.0, NOW - 7060.0, RESTART, "restarted"),),
)


def dated(alertname: str, check: str = "x", **evidence: object) -> Finding:
    """A bad finding that knows between which times it began."""
    said = Argument("is low", evidence={"onset": ONSET, **evidence}, suspects=("own suspect",))
    subject = labels(target="t", engine="0", model_name="m")
    return Finding(alertname, subject, Verdict.WARNING, lambda: said, check=check)


def measured(verdict: Verdict = Verdict.OK, **traffic: list[float]) -> Finding:
    """What the check `baseline` knows of the engine's traffic."""
    said = Argument("says", evidence={"traffic": traffic})
    subject = labels(target="t", engine="0", model_name="m")
    return Finding("SpecDecodeDegraded", subject, verdict, lambda: said, check="baseline")


@pytest.mark.parametrize("alertname", ["SpecDecodeDegraded", "SpecDecodeCollapsed"])
def test_what_changed_near_the_onset_is_the_first_suspect(alertname: str) -> None:
    slow = finding("ServingStepsSlow", Verdict.WARNING, check="step_time")
    said = diagnose([dated(alertname), slow], (), CHANGES, NOW)[0].argument
    first, second, last = said.suspects
    assert first.startswith("changed near its onset (between 60 min and 2.0 h ago): restarted")
    assert (second.split()[0], last) == ("ServingStepsSlow", "own suspect")
    assert said.evidence["changed"] == [CHANGES.events[0]._asdict()]
    assert json.loads(json.dumps(said.evidence)) == said.evidence
    assert [line.split(":")[0] for line in said.ruled_out] == [
        "nothing else known changed between 60 min and 2.0 h ago"
    ]


def test_where_nothing_changed_that_is_ruled_out_and_no_evidence() -> None:
    quiet = CHANGES._replace(events=())
    said = diagnose([dated("SpecDecodeDegraded")], (), quiet, NOW)[0].argument
    assert said.suspects == ("own suspect",)
    assert "no restart, no other drafter depth" in said.ruled_out[-1]
    assert "changed" not in said.evidence


def test_a_finding_without_an_onset_is_told_of_no_change() -> None:
    said = diagnose([DEAD], (), CHANGES, NOW)[0].argument
    assert (said.suspects, said.ruled_out) == ((), ("own",))


def test_traffic_that_moved_is_a_suspect_and_else_ruled_out() -> None:
    for now, place in ((305.0, "suspects"), (800.0, "ruled_out")):
        both = [dated("SpecDecodeCollapsed"), measured(prompt_tokens=[812.0, now])]
        said = diagnose(both, (), CHANGES, NOW)[0].argument
        line = f"traffic, last 24 h against the days before: prompts 812 -> {now:.0f} tokens"
        assert any(text.startswith(line) for text in getattr(said, place))


@pytest.mark.parametrize("check", ["baseline", "siblings"])
def test_a_check_that_speaks_of_traffic_itself_is_not_told_of_it(check: str) -> None:
    both = [dated("SpecDecodeDegraded", check), measured(prompt_tokens=[812.0, 305.0])]
    said = diagnose(both, (), CHANGES, NOW)[0].argument
    assert not any("traffic" in line for line in (*said.suspects, *said.ruled_out))


def test_traffic_is_that_of_the_same_engine() -> None:
    other = measured(prompt_tokens=[812.0, 305.0])
    other.subject = labels(target="t", engine="1", model_name="m")
    said = diagnose([dated("SpecDecodeCollapsed"), other], (), CHANGES, NOW)[0].argument
    assert not any("traffic" in line for line in (*said.suspects, *said.ruled_out))


def test_traffic_is_told_of_a_finding_that_stands_behind_another() -> None:
    known = measured(Verdict.WARNING, prompt_tokens=[812.0, 305.0])
    said = diagnose([dated("SpecDecodeCollapsed"), known], (), CHANGES, NOW)[0].argument
    assert any(line.startswith("traffic") for line in said.suspects)


def test_a_change_before_the_watch_began_is_suspected_last() -> None:
    said = diagnose([dated("SpecDecodeDegraded")], (), Changes(), NOW)[0].argument
    assert said.suspects[0] == "own suspect"
    assert said.suspects[1].startswith("a change that was not seen")
