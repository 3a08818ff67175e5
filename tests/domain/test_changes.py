"""What changed around a target: noted once, with the time between the old and the new."""

from __future__ import annotations

import timeit
from collections.abc import Sequence
from typing import Any

import pytest

from watchdog.domain import changes as c
from watchdog.domain import series as s
from watchdog.domain.changes import Changes, noted
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.fingerprint import fingerprint_of
from watchdog.domain.history import History, Window
from watchdog.domain.sample import Reading, Sample, labels


class Target:
    """A page that is read each minute, and what is noted of it."""

    def __init__(self, engines: int = 1, depth: int = 7) -> None:
        self.names = [str(i) for i in range(engines)]
        self.depths = dict.fromkeys(self.names, depth)
        self.drafts = dict.fromkeys(self.names, 0.0)
        self.model = "m"
        self.start: float | None = 1.0
        self.facts: dict[str, object] = {"version": "0.27.1", "format": "text"}
        self.links: Sequence[Finding] = ()
        self.now = 1_000_000.0
        self.history = History("t", gap_after=150.0)
        self.state = Changes()
        self.window = Window((), 0.0)
        self.round()

    def round(self, seconds: float = 60.0) -> list[str]:
        """Read the page once more; return what changed, in words."""
        self.now += seconds
        samples = []
        for name in self.names:
            self.drafts[name] += 10
            about = labels(target="t", engine=name, model_name=self.model)
            series = [s.UPDATES, *([s.DRAFTS] if self.depths[name] else [])]
            samples += [Sample(about, x, self.drafts[name]) for x in series]
            samples += [Sample(about, x, 0.0) for x in s.POSITIONS[: self.depths[name]]]
        if self.start is not None:
            samples.append(Sample(labels(target="t"), s.PROCESS_START, self.start))
        return self._take(Reading("vllm_metrics", "t", tuple(samples), self.facts))

    def fail(self, seconds: float = 60.0) -> list[str]:
        """A round in which the page cannot be read."""
        self.now += seconds
        return self._take(Reading("vllm_metrics", "t", error="refused", answered=False))

    def _take(self, reading: Reading) -> list[str]:
        before, known = self.history.read_at, self.state.events
        self.window = self.history.add([reading], self.now)
        self.state = noted(self.state, self.window, self.links, before, 150.0)
        return [event.text for event in self.state.events if event not in known]

    @property
    def last(self) -> c.Event:
        return self.state.events[-1]


def link(verdict: Verdict, alertname: str = "GpuLinkDegraded", *, conclusive: bool = True) -> Any:
    said = Argument("said")
    return [Finding(alertname, labels(slot="05"), verdict, lambda: said, conclusive)]


def test_what_is_seen_first_is_no_change() -> None:
    assert Target().state.events == ()


def test_a_quiet_round_leaves_the_state_as_it_is_and_costs_next_to_nothing() -> None:
    target = Target()
    state = target.state
    assert target.round() == []
    assert target.state is state
    window = target.window
    seconds = min(timeit.repeat(lambda: noted(state, window, (), None), number=1000, repeat=20))
    assert seconds / 1000 < 20e-6  # about 0.7 us where nothing else runs


@pytest.mark.parametrize("known", [True, False])
def test_links_that_are_as_before_leave_the_state_as_it_is_for_next_to_nothing(
    known: bool,
) -> None:
    target = Target()
    if known:
        target.links = link(Verdict.OK)
        target.round()
    for verdicts in ([Verdict.OK], [Verdict.UNKNOWN], [], [Verdict.OK, Verdict.UNKNOWN]):
        for conclusive in (False, True):
            target.links = [f for v in verdicts for f in link(v, conclusive=conclusive)] * 20
            target.round()
            state, window, links = target.state, target.window, target.links
            target.round()
            assert target.state is state
            seconds = min(
                timeit.repeat(lambda: noted(state, window, links, None), number=100, repeat=20)  # noqa: B023
            )
            assert seconds / 100 < 60e-6  # about 10 us for forty; each noted anew costs 300


def test_a_process_that_starts_anew_is_one_restart_and_not_one_an_engine() -> None:
    target = Target(engines=3)
    target.start, target.drafts = 2.0, dict.fromkeys(target.names, 0.0)
    assert target.round() == ["restarted"]
    assert (target.last.at - target.last.after, target.last.engine) == (60.0, "")


def test_counters_that_fall_are_a_restart_where_the_page_tells_no_start() -> None:
    target = Target(engines=2)
    target.start = None
    target.round()
    target.drafts = dict.fromkeys(target.names, -10.0)
    assert target.round() == ["restarted (all counters began anew)"]


def test_one_engine_that_begins_anew_is_named() -> None:
    target = Target(engines=2)
    target.drafts["1"] = -10.0
    assert target.round() == ["engine 1 restarted (its counters began anew)"]
    assert target.last.engine == "1"


def test_a_restart_while_the_page_was_not_read_lies_between_the_two_readings() -> None:
    target = Target()
    read = target.now
    target.fail()
    target.fail()
    target.start = 2.0
    target.round()
    assert (target.last.after, target.last.at) == (read, target.now)


def test_another_version_after_a_restart_is_as_old_as_the_restart() -> None:
    target = Target()
    for _ in range(120):
        target.round()
    target.start, target.facts = 2.0, {**target.facts, "version": "0.28.0"}
    assert target.round() == ["restarted", "version 0.27.1 -> 0.28.0"]
    assert target.last.after == target.now - 60


def test_a_version_that_a_probe_may_have_handed_on_is_up_to_an_hour_older() -> None:
    target = Target()
    for _ in range(120):
        target.round()
    target.facts = {**target.facts, "version": "0.28.0"}
    target.round()
    assert target.last.after == target.now - 60 - c.ASKED_EVERY


def test_a_version_that_is_not_told_for_a_while_is_no_change_and_known_as_unread() -> None:
    target = Target()
    facts = target.facts
    target.facts = {"format": "text"}
    assert target.round() == []
    assert dict(target.state.lost) == {"version": target.now - 60}
    state = target.state
    target.round()
    assert target.state is state
    target.facts = facts
    assert target.round() == []
    assert target.state.lost == ()
    target.facts = {"format": "text"}
    target.round()
    target.facts = {**facts, "version": "0.28.0"}
    assert target.round() == ["version 0.27.1 -> 0.28.0"]


def test_a_version_that_changed_while_it_was_not_told_is_as_old_as_what_was_told_last() -> None:
    """Nobody knows that it was the old one meanwhile."""
    target = Target()
    for _ in range(100):
        target.round()
    told = target.now
    target.facts = {"format": "text"}
    for _ in range(10):
        target.round()
    target.facts = {"format": "text", "version": "0.28.0"}
    assert target.round() == ["version 0.27.1 -> 0.28.0"]
    assert target.last.after == told - c.ASKED_EVERY


def test_another_checkpoint_under_the_same_name_is_another_model() -> None:
    target = Target()
    target.facts = {**target.facts, "models": [{"id": "m", "root": "/models/a"}]}
    assert target.round() == []
    target.facts = {**target.facts, "models": [{"id": "m", "root": "/models/b"}]}
    assert target.round() == ["model m (/models/a) -> m (/models/b)"]


def test_a_server_that_lists_no_models_is_known_by_the_name_on_its_page() -> None:
    target = Target()
    target.model = "other"
    assert target.round() == ["model m -> other"]


def launch(
    depth: str,
    unread: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    **configured: list[str],
) -> dict[str, Any]:
    """The fingerprint of a launch, as the probe tells it."""
    asked = f'{{"method":"eagle3","num_speculative_tokens":{depth}}}'
    argv = ["vllm", "serve", "--model=m", "--speculative-config", asked]
    facts = {
        "argv": argv, "environ": environ or {}, "versions": {"vllm": "1"}, "unread": unread or {},
        "models": {"model": dict.fromkeys(("config", "tensors", "quantization", "files"), "a")},
    }  # fmt: skip
    return fingerprint_of(facts, **configured).as_dict()


def test_another_launch_is_told_factor_by_factor() -> None:
    target = Target()
    target.facts = {**target.facts, "launch_fingerprint": launch("7")}
    assert target.round() == []
    target.facts = {**target.facts, "launch_fingerprint": launch("3")}
    assert target.round() == ["launch speculative-config num_speculative_tokens 7 -> 3"]


def test_what_could_not_be_read_of_a_launch_is_no_change_and_no_sameness() -> None:
    target = Target()
    target.facts = {**target.facts, "launch_fingerprint": launch("7")}
    target.round()
    assert "launch" in dict(target.state.since)
    target.facts = {**target.facts, "launch_fingerprint": launch("7", {"environ": "EACCES"})}
    assert target.round() == []
    assert "launch" in dict(target.state.lost)
    target.facts = {**target.facts, "launch_fingerprint": launch("3", {"environ": "EACCES"})}
    assert target.round() == ["launch speculative-config num_speculative_tokens 7 -> 3"]


def test_another_configuration_of_what_counts_is_no_change_of_the_launch() -> None:
    target = Target()
    environ = {"VLLM_A": "1", "MY_KERNELS": "1"}
    for configured, events in (
        ({}, []),
        ({"more": ["MY_KERNELS"]}, []),
        ({"less": ["VLLM_A"]}, []),
        ({}, []),
        ({"more": ["MY_KERNELS"], "less": ["VLLM_A"]}, []),
    ):
        told = launch("7", environ=environ, **configured)
        target.facts = {**target.facts, "launch_fingerprint": told}
        assert target.round() == events, configured
    told = launch("7", environ={"VLLM_A": "2", "MY_KERNELS": "2"}, **configured)
    target.facts = {**target.facts, "launch_fingerprint": told}
    assert target.round() == ["launch env MY_KERNELS 1 -> 2"]


def test_a_launch_that_is_none_of_ours_is_no_change() -> None:
    target = Target()
    target.facts = {**target.facts, "launch_fingerprint": launch("7")}
    target.round()
    target.facts = {**target.facts, "launch_fingerprint": {"digest": "a"}}
    assert target.round() == []


def test_a_launch_that_was_read_by_half_is_forgotten_once_more_of_it_is_known() -> None:
    """Else what was added to the part that was dark would never be a change."""
    target = Target()
    for unread, value, events in (
        ({"environ": "EACCES"}, "", []),
        ({}, "1", []),
        ({"environ": "EACCES"}, "", []),
        ({}, "2", ["launch env VLLM_A 1 -> 2"]),
    ):
        environ = {"VLLM_A": value} if value else None
        target.facts = {**target.facts, "launch_fingerprint": launch("7", unread, environ)}
        assert target.round() == events


def test_what_was_dark_when_another_part_changed_is_compared_with_what_was_known_before() -> None:
    target = Target()
    dark = {"environ": "EACCES"}
    for depth, unread, environ, events in (
        ("7", {}, {}, []),
        ("3", dark, None, ["launch speculative-config num_speculative_tokens 7 -> 3"]),
        ("3", {}, {"VLLM_A": "1"}, ["launch env VLLM_A (absent) -> 1"]),
    ):
        target.facts = {**target.facts, "launch_fingerprint": launch(depth, unread, environ)}
        assert target.round() == events


def test_what_was_kept_of_a_launch_and_cannot_be_read_is_replaced() -> None:
    target = Target()
    target.facts = {**target.facts, "launch_fingerprint": {"digest": "of another version"}}
    target.round()
    for depth, events in (
        ("7", []),
        ("3", ["launch speculative-config num_speculative_tokens 7 -> 3"]),
    ):
        target.facts = {**target.facts, "launch_fingerprint": launch(depth)}
        assert target.round() == events


def test_another_depth_of_all_engines_is_one_event_and_of_one_engine_names_it() -> None:
    target = Target(engines=2)
    target.start, target.depths = 2.0, {"0": 3, "1": 3}
    assert target.round() == ["restarted", "drafter depth 7 -> 3"]
    target.drafts["1"], target.depths["1"] = -10.0, 5
    assert target.round()[1:] == ["drafter depth 3 -> 5 of engine 1"]
    assert target.last.engine == "1"


def test_a_drafter_that_is_switched_off_or_on_is_another_depth() -> None:
    target = Target()
    target.start, target.depths = 2.0, {"0": 0}
    assert target.round() == ["restarted", "drafter depth 7 -> none"]
    target.start, target.depths = 3.0, {"0": 7}
    assert target.round() == ["restarted", "drafter depth none -> 7"]


def test_a_frontend_that_makes_its_series_later_has_not_changed_its_depth() -> None:
    target = Target()
    target.facts = {**target.facts, "format": "openmetrics"}
    target.start, target.depths = 2.0, {"0": 0}
    assert target.round() == ["restarted"]
    target.depths = {"0": 7}
    assert target.round() == []
    target.start, target.depths = 3.0, {"0": 0}
    target.round()
    target.depths = {"0": 3}
    assert target.round() == ["drafter depth 7 -> 3"]
    target.depths = {"0": 5}
    assert target.round() == ["drafter depth 3 -> 5"]


def test_a_link_that_turns_bad_and_good_again_is_noted_and_one_that_is_not_judged_is_not() -> None:
    target = Target()
    target.links = link(Verdict.OK)
    assert target.round() == []
    target.links = link(Verdict.OK, conclusive=False)
    assert target.round() == []
    target.links = link(Verdict.WARNING)
    assert target.round() == ["GpuLinkDegraded of slot 05 began"]
    assert target.round() == []
    target.links = link(Verdict.OK, conclusive=False)
    assert target.round() == []
    target.links = link(Verdict.UNKNOWN)
    assert target.round() == []
    assert "link" in dict(target.state.lost)
    target.links = link(Verdict.OK)
    assert target.round() == ["GpuLinkDegraded of slot 05 ended"]
    assert "link" not in dict(target.state.lost)


def test_a_link_that_turned_bad_while_it_was_not_judged_may_have_done_so_since() -> None:
    target = Target()
    target.links = link(Verdict.OK)
    target.round()
    judged = target.now
    target.links = link(Verdict.UNKNOWN)
    for _ in range(10):
        target.round()
    target.links = link(Verdict.WARNING)
    assert target.round() == ["GpuLinkDegraded of slot 05 began"]
    assert target.last.after == judged


@pytest.mark.parametrize(("declared", "read"), [(True, True), (False, False)])
def test_links_are_read_where_a_declared_one_is_judged_whatever_else_is(
    declared: bool, read: bool
) -> None:
    target = Target()
    errors = link(Verdict.OK, "GpuLinkErrors")
    target.links = [*errors, *link(Verdict.OK, conclusive=declared), *errors]
    target.round()
    assert ("link" in dict(target.state.since)) is read


def test_one_link_that_is_not_known_is_not_made_known_by_another() -> None:
    target = Target()
    other = [Finding("GpuLinkDegraded", labels(slot="06"), Verdict.OK, lambda: Argument("said"))]
    target.links = [*link(Verdict.OK), *other]
    target.round()
    judged = target.now
    target.links = [*link(Verdict.UNKNOWN), *other]
    target.round()
    state = target.state
    target.round()
    assert target.state is state
    assert dict(state.lost) == {"link": judged}
    target.links = [*link(Verdict.OK), *other]
    target.round()
    assert target.state.lost == ()


def test_links_of_which_nothing_is_said_any_more_are_not_read() -> None:
    target = Target()
    target.links = link(Verdict.OK)
    target.round()
    judged = target.now
    target.links = ()
    target.round()
    state = target.state
    assert dict(state.lost) == {"link": judged}
    target.round()
    assert target.state is state


def test_a_link_that_was_bad_when_first_seen_is_no_change() -> None:
    target = Target()
    target.links = link(Verdict.WARNING)
    assert target.round() == []
    target.links = link(Verdict.CRITICAL, "GpuMissing")
    assert target.round() == []


def test_other_alerts_are_no_links() -> None:
    target = Target()
    for verdict in (Verdict.OK, Verdict.WARNING):
        target.links = link(verdict, "TensorParallelCrossSocket")
        assert target.round() == []


@pytest.mark.parametrize(("seconds", "told"), [(c.AWAY, []), (c.AWAY + 1, ["nothing was read"])])
def test_a_long_time_without_a_reading_is_noted(seconds: float, told: list[str]) -> None:
    assert Target().round(seconds) == told


def test_engines_are_still_compared_after_one_of_them_left_the_page() -> None:
    target = Target(engines=2)
    target.names = ["1"]
    assert target.round() == []
    assert target.state.depths == (("1", 7),)
    target.drafts["1"], target.depths["1"] = -10.0, 3
    assert target.round()[1:] == ["drafter depth 7 -> 3"]


def test_events_are_kept_for_35_days_and_64_at_most_of_all_kinds() -> None:
    target = Target()
    target.facts = {**target.facts, "version": "0.28.0"}
    target.round()
    for i in range(200):
        target.start = float(i + 2)
        target.round()
    assert len(target.state.events) == c.MOST
    assert target.state.events[0].kind == "version"
    target.start = 1000.0
    target.round(c.KEPT)
    assert [event.kind for event in target.state.events][-2:] == ["gap", "restart"]
    assert len(target.state.events) == 3  # these, and the restart of exactly so long ago


@pytest.mark.parametrize("depth", [-1, s.MOST_POSITIONS + 1])
def test_what_cannot_have_been_kept_is_refused(depth: int) -> None:
    with pytest.raises(ValueError, match="deeper"):
        c.whole(Changes(depths=(("0", 7), ("1", depth))))
    most = (c.Event(1.0, 0.0, "gap", "x"),) * c.MOST
    kept = Changes(depths=(("0", 0), ("1", s.MOST_POSITIONS)), events=most)
    assert c.whole(kept) is kept
    with pytest.raises(ValueError, match="more events"):
        c.whole(Changes(events=(c.Event(1.0, 0.0, "gap", "x"),) * (c.MOST + 1)))


def test_nothing_is_known_of_a_kind_before_what_was_forgotten_of_it() -> None:
    """Else a restart of which there were too many would be told as "no restart"."""
    target = Target()
    watched = dict(target.state.since)
    for at in range(c.MOST + 2):
        target.start = 2.0 + at
        target.round()
    assert dict(target.state.since) == {**watched, "restart": target.state.events[0].at - 60.0}
