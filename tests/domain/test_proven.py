"""Under which launches a drafter was seen healthy: little, bounded, and never a dead one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.domain.suspected import argv, launched
from tests.restarting import RestartingStory, fresh, kept
from tests.telling_stories import Engine, Story, shares
from watchdog.domain import proven as p
from watchdog.domain import series as s
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.fingerprint import Factor
from watchdog.domain.history import Window
from watchdog.domain.memory import recall
from watchdog.domain.proven import Healthy, Proven, bounded, matched, proved
from watchdog.domain.sample import labels

NOW = 1_789_000_000.0
HEALTHY = (0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
DEAD = (0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def window(facts: Any = None, at: float = NOW, start: float | None = 1.0) -> Window:
    part = Window(labels(target="t", engine="0"), at)
    levels = {} if start is None else {s.PROCESS_START: start}
    return Window(labels(target="t"), at, levels=levels, facts=facts or {}, parts=(part,))


def drafts(
    length: float | None = 3.77, alertname: str = "SpecDecodeCollapsed", engine: str = "0",
    verdict: Verdict = Verdict.OK, *, conclusive: bool = True, score: float = 0.0,
) -> Finding:  # fmt: skip
    said = Argument("says", evidence={"score": score, "step_seconds": 0.047})
    about = labels(target="t", engine=engine)
    return Finding(alertname, about, verdict, lambda: said, conclusive, length)


def test_a_healthy_launch_is_noted_with_its_pair_and_its_figures() -> None:
    facts = launched(argv(), {"RADIANCE_X": "1"}, image="sha256:1")
    [seen] = proved(Proven(), window(facts), [drafts(3.5), drafts(4.5, engine="1")]).seen
    assert (seen.at, seen.length, seen.step, seen.start) == (NOW, 4.0, 0.047, 1.0)
    assert {x.name for x in seen.factors} == {
        "model", "model config", "model tensors", "model quantization", "model files", "drafter",
        "drafter config", "drafter tensors", "drafter quantization", "drafter files",
        "speculative-config method",
    }  # fmt: skip


@pytest.mark.parametrize(
    "found",
    [
        [drafts(verdict=Verdict.CRITICAL)], [drafts(verdict=Verdict.UNKNOWN)],
        [drafts(conclusive=False)], [drafts(1.149)], [drafts(None)], [drafts(score=0.1)], [],
        [drafts(), drafts(alertname="SpecDecodeDegraded", verdict=Verdict.WARNING)],
    ],
    ids=["dead", "leaning", "thin", "too short", "no length", "score", "none", "degraded"],
)  # fmt: skip
def test_nothing_else_is_called_healthy(found: list[Finding]) -> None:
    assert proved(Proven(), window(), found) is not None
    assert proved(Proven(), window(), found).seen == ()


def test_a_dead_engine_beside_a_healthy_one_does_not_make_the_pair_a_bad_one() -> None:
    both = [drafts(), drafts(1.05, engine="1", verdict=Verdict.CRITICAL)]
    [seen] = proved(Proven(), window(), both).seen
    assert seen.length == 3.77


@pytest.mark.parametrize(("later", "noted"), [(3599.0, False), (3600.0, True)])
def test_the_same_launch_is_noted_once_an_hour(later: float, noted: bool) -> None:
    first = proved(Proven(), window(launched()), [drafts()])
    second = proved(first, window(launched(), NOW + later), [drafts(3.9)])
    assert (second is not first) is noted
    assert len(second.seen) == 1


def test_another_launch_and_another_process_are_noted_at_once() -> None:
    state = proved(Proven(), window(launched()), [drafts()])
    again = proved(state, window(launched(), NOW + 15, start=2.0), [drafts()])
    assert [h.start for h in again.seen] == [2.0]  # the same launch, another process
    other = proved(again, window(launched(argv(drafter="/z")), NOW + 30, start=3.0), [drafts()])
    assert [h.start for h in other.seen] == [2.0, 3.0]
    unknown = proved(other, window(at=NOW + 45, start=4.0), [drafts()])
    assert [h.digest for h in unknown.seen][-1] == ""
    assert proved(unknown, window(at=NOW + 60, start=4.0), [drafts()]) is unknown


def test_of_too_many_launches_the_one_seen_longest_ago_is_forgotten() -> None:
    state = Proven()
    for i in range(p.MOST + 3):
        state = proved(state, window(at=NOW + i, start=float(i)), [drafts()])
    assert [h.start for h in state.seen] == [float(i) for i in range(3, p.MOST + 3)]
    assert bounded(state) is state


def test_an_unread_page_leaves_it_as_it_is() -> None:
    state = Proven()
    assert proved(state, Window(labels(target="t"), NOW), [drafts()]) is state


def test_a_pair_is_matched_by_factors_and_never_without_a_model() -> None:
    state = proved(Proven(), window(launched()), [drafts()])
    same = matched(state, launched(image="sha256:2"), 9.0)
    assert same is not None
    assert same.same
    assert matched(state, {}, 9.0) is None
    assert matched(Proven(), launched(), 9.0) is None
    assert matched(proved(Proven(), window(), [drafts()]), launched(), 9.0) is None


# --- with the real checks ------------------------------------------------------------------------


def lived(kind: type[Story]) -> Story:
    story = kind([Engine()])
    for ratios in (HEALTHY,) * 20 + (DEAD,) * 10:
        story.engines[0].draft(400, shares(400, *ratios), requests=4)
        story.round()
    return story


def seen(story: Story) -> tuple[Healthy, ...]:
    return story.assessor.watches["qwen"].proven.seen


def test_a_story_keeps_its_healthy_time_after_the_drafter_died_and_over_every_restart() -> None:
    through, cut = lived(Story), lived(RestartingStory)
    assert seen(through) == seen(cut)
    [one] = seen(through)
    assert one.length == pytest.approx(1 + sum(HEALTHY))
    found = through.finding("SpecDecodeCollapsed")
    assert found is not None
    assert found.verdict is Verdict.CRITICAL
    assert "mispaired drafter: this very process" in " ".join(found.argument.ruled_out)


def test_what_an_older_version_kept_has_none_and_loads() -> None:
    story = lived(Story)
    rows = {name: row for name, row in kept(story.assessor).items() if "proven" not in name}
    successor = fresh(story.assessor)
    assert recall(rows, successor, story.now, story.now) == []
    assert successor.watches["qwen"].proven.seen == ()


@pytest.mark.parametrize("spoil", ["time", "many", "factors", "shape"])
def test_one_that_cannot_have_been_ours_costs_itself_alone(spoil: str) -> None:
    story = lived(Story)
    watch = story.assessor.watches["qwen"]
    [one] = watch.proven.seen
    watch.proven = {
        "time": Proven((one._replace(at=-1.0),)),
        "many": Proven((one,) * (p.MOST + 1)),
        "factors": Proven((one._replace(factors=(Factor("a", "b", "c"),) * 65),)),
        "shape": Proven((one._replace(length="long"),)),  # type: ignore[arg-type]
    }[spoil]
    successor = fresh(story.assessor)
    [fault] = recall(kept(story.assessor), successor, story.now, story.now)
    assert "proven" in fault
    assert successor.watches["qwen"].proven.seen == ()
    assert successor.watches["qwen"].changes == watch.changes


def test_another_server_under_the_same_name_has_proved_nothing() -> None:
    story = lived(Story)
    for source, count in (("http://one:1", 1), ("http://two:1", 0)):
        story.assessor.watches["qwen"].source = "http://one:1"
        successor = fresh(story.assessor)
        successor.watches["qwen"].source = source
        successor.take_over(story.assessor)
        assert len(successor.watches["qwen"].proven.seen) == count
