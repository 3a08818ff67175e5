"""What is said of an alert that arrives: through the real checks and the assessor."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.domain.test_arrivals import HERE, alert, payload
from tests.telling_stories import TARGET, Engine, Story, shares
from watchdog.domain.arrivals import sort
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.history import History, Window
from watchdog.domain.payload import payload as pushed
from watchdog.domain.plain import plain, restored
from watchdog.domain.profile import Profile
from watchdog.domain.received import FORGET, MOST_KEPT, Received, explained, step
from watchdog.domain.report import Report, as_json
from watchdog.domain.sample import HOST, Reading, labels
from watchdog.telling import for_people

HEALTHY = shares(500, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
DEAD = shares(500, 0.05)


def mail(*alerts: dict[str, Any]) -> Reading:
    arrivals = sort(payload(*alerts), HERE).arrivals
    return Reading("inbox", HOST, facts={"told": tuple(each._asdict() for each in arrivals)})


class Served(Story):
    """A story whose host is told of alerts by others."""

    def __init__(self) -> None:
        self.engine = Engine()
        super().__init__([self.engine])
        self.posted: list[Reading] = []
        assess = self.assessor.assess

        def with_mail(readings: list[Reading], now: float) -> Report:
            mail, self.posted = self.posted, []
            return assess([*readings, *mail], now)

        self.assessor.assess = with_mail  # type: ignore[method-assign,assignment]

    def hears(self, *alerts: dict[str, Any]) -> tuple[Received, ...]:
        """Read a page and what arrived."""
        self.posted.append(mail(*alerts))
        return self.round().received

    def decodes(self, positions: list[float], rounds: int = 8) -> None:
        for _ in range(rounds):
            self.engine.draft(500, positions, requests=2)
            self.round()


@pytest.fixture
def story() -> Served:
    return Served()


# The diagnosis


def test_what_stands_is_what_may_explain_it(story):
    story.decodes(DEAD)
    (told,) = story.hears(alert())
    assert (told.alertname, told.target, told.status) == ("HighLatencyP99", TARGET, "firing")
    assert told.received_at == told.diagnosed_at == story.now
    first = told.diagnosis[0]
    assert first.startswith("may explain it: CRITICAL SpecDecodeCollapsed: qwen engine 0: ")
    assert "; next: " in first
    assert "ruled out: qwen: answers; 1 engine(s), 1 requests running, 0 waiting" in told.diagnosis


def test_where_nothing_stands_it_says_what_was_ruled_out_with_the_numbers(story):
    story.decodes(HEALTHY, 120)
    story.posted.append(mail(alert()))
    story.decodes(HEALTHY, 1)
    (told,) = story.report.received
    assert told.diagnosis[0] == "nothing that is watched here explains it"
    text = "\n".join(told.diagnosis)
    assert "ruled out: qwen engine 0: acceptance length 3.90 over " in text
    assert "ruled out: qwen engine 0: a decode step takes 30.0 ms" in text
    assert "0 waiting" in text
    assert "not certain" not in text
    assert "may explain" not in text


def test_thin_evidence_is_said_to_be_thin_and_replaced_when_there_is_more(story):
    (told,) = story.hears(alert())
    assert told.diagnosis[0] == "nothing here explains it so far, and some of it is not certain yet"
    assert any(s.startswith("not certain yet: qwen engine 0: too little") for s in told.diagnosis)
    first = told.diagnosed_at
    story.decodes(HEALTHY)
    (told,) = story.report.received
    assert told.diagnosed_at > first
    assert any("acceptance length 3.90" in sentence for sentence in told.diagnosis)
    again = told.diagnosed_at
    story.decodes(HEALTHY)
    assert story.report.received[0].diagnosed_at == again


def test_a_server_that_is_down_may_explain_it(story):
    story.decodes(HEALTHY)
    for _ in range(6):
        story.fail()
    story.posted.append(mail(alert()))
    (told,) = story.fail().received
    assert told.diagnosis[0].startswith("may explain it: CRITICAL ServingDown: ")


def test_a_target_that_is_not_watched_any_more_is_too_little_known():
    assessor = Assessor("gpu-1", "0", {})
    (told,) = assessor.assess([mail(alert())], 1000.0).received
    assert told.diagnosis == (
        "too little is known of qwen to say whether anything here explains it",
    )


class Says:
    """A check that always says the same."""

    def __init__(self, about: str, *findings: Finding) -> None:
        self.about, self.findings = about, list(findings)

    def step(self, _state: Any, _window: Window, _now: float) -> tuple[Any, list[Finding]]:
        return None, self.findings


def with_a_bad_link(*, here: bool) -> Report:
    """A host with a link that trained down, and a target that may use it; an alert about each."""
    bad = Finding("GpuLinkDegraded", labels(slot="05"), Verdict.WARNING, lambda: Argument("x1"))
    up = Finding("ServingDown", labels(target=TARGET), Verdict.OK, lambda: Argument("answers"))
    watches = {
        HOST: Watch(History(HOST, Profile(), 40.0), {"link": Says("host", bad)}, here=True),
        TARGET: Watch(History(TARGET, Profile(), 40.0), {"up": Says("target", up)}, here=here),
    }
    readings = [Reading("gpus", HOST), Reading("vllm_metrics", TARGET)]
    posted = mail(alert(), alert(fingerprint="f2", alertname="NodeLoadHigh", host="gpu-1"))
    return Assessor("gpu-1", "0", watches).assess([*readings, posted], 1000.0)


def test_the_links_of_this_host_may_explain_an_alert_about_a_target_that_uses_them():
    of_host, of_target = with_a_bad_link(here=True).received
    link = "may explain it: WARNING GpuLinkDegraded: x1"
    assert of_target.diagnosis == (link, "ruled out: answers")
    assert of_host.diagnosis[:2] == (link, "ruled out: answers")
    _, of_far = with_a_bad_link(here=False).received
    assert of_far.diagnosis == ("nothing that is watched here explains it", "ruled out: answers")


def test_the_inbox_is_no_source_that_could_be_blind():
    report = with_a_bad_link(here=True)
    assert [reading.probe for reading in report.readings] == ["gpus", "vllm_metrics", "inbox"]
    sources = {dict(f.subject).get("probe") for f in report.findings}
    assert sources == {None, "gpus", "vllm_metrics"}


def test_the_first_diagnosis_stays_until_something_else_stands(story):
    story.decodes(HEALTHY, 120)
    story.posted.append(mail(alert()))
    story.decodes(HEALTHY, 1)
    (first,) = story.report.received
    story.decodes(HEALTHY)
    assert story.report.received[0] == first
    story.decodes(DEAD, 20)
    (later,) = story.report.received
    assert later.received_at == first.received_at < later.diagnosed_at
    assert "SpecDecodeCollapsed" in later.diagnosis[0]
    story.decodes(DEAD)
    assert story.report.received[0] == later


def test_findings_that_come_and_go_do_not_replace_it_each_time():
    one, other = finding(Verdict.CRITICAL, 1), finding(Verdict.CRITICAL, 2)
    kept = step((), arrivals(alert()), {TARGET: [one]}, 1.0)
    times = []
    for now, near in enumerate([[other], [one], [other], [one, other], []], 2):
        kept = step(kept, (), {TARGET: near}, float(now))
        times.append(kept[0].diagnosed_at)
    assert times == [2.0] * 5


def test_a_resolved_alert_is_kept_with_its_diagnosis_and_looked_at_no_more(story):
    story.decodes(HEALTHY)
    (first,) = story.hears(alert())
    (ended,) = story.hears(alert("resolved"))
    assert (ended.status, ended.ended_at, ended.diagnosis) == (
        "resolved", story.now, first.diagnosis,
    )  # fmt: skip
    story.decodes(DEAD, 20)
    assert story.report.received == (ended,)


def test_a_reload_keeps_what_arrived(story):
    story.hears(alert())
    new = Served()
    new.assessor.take_over(story.assessor)
    assert new.assessor.received == story.report.received


# What is kept


def arrivals(*alerts: dict[str, Any]):
    return sort(payload(*alerts), HERE).arrivals


def test_the_end_of_what_was_never_heard_is_no_news():
    assert step((), arrivals(alert("resolved")), {}, 1000.0) == ()


def test_an_alert_that_began_anew_is_another_one():
    first = step((), arrivals(alert()), {}, 1000.0)
    both = step(first, arrivals({**alert(), "startsAt": "2026-11-30T04:00:00Z"}), {}, 2000.0)
    assert [one.received_at for one in both] == [2000.0, 1000.0]


def test_an_alert_that_fires_again_as_it_began_is_the_same():
    kept = step((), arrivals(alert()), {}, 1000.0)
    kept = step(kept, arrivals(alert("resolved")), {}, 1100.0)
    (one,) = step(kept, arrivals(alert()), {}, 1200.0)
    assert (one.status, one.ended_at, one.received_at, one.heard_at) == (
        "firing", None, 1000.0, 1200.0,
    )  # fmt: skip


def test_one_round_may_hear_the_beginning_and_the_end():
    (one,) = step((), arrivals(alert(), alert("resolved")), {}, 1000.0)
    assert (one.status, one.ended_at) == ("resolved", 1000.0)


def test_the_newest_are_kept_newest_first():
    kept: tuple[Received, ...] = ()
    for at in range(3):
        told = arrivals(*(alert(fingerprint=f"f{at}-{i}") for i in range(100)))
        kept = step(kept, told, {}, float(at))
    assert len(kept) == MOST_KEPT
    assert [one.fingerprint for one in kept[:2]] == ["f2-99", "f2-98"]
    assert kept[-1].fingerprint == "f1-0"


def test_what_has_ended_makes_room_for_what_fires() -> None:
    kept = step((), arrivals(alert(fingerprint="fires")), {}, 0.0)
    ended = [
        alert(status, fingerprint=f"f{i}")
        for i in range(MOST_KEPT + 50)
        for status in ("firing", "resolved")
    ]
    for one in ended:
        kept = step(kept, arrivals(one), {}, 1.0)
    assert len(kept) == MOST_KEPT
    assert [one.fingerprint for one in kept if one.status == "firing"] == ["fires"]


@pytest.mark.parametrize("status", ["firing", "resolved"])
def test_what_nobody_speaks_of_is_forgotten_after_a_day(status):
    kept = step(step((), arrivals(alert()), {}, 0.0), arrivals(alert(status)), {}, 1000.0)
    assert len(step(kept, (), {}, 1000.0 + FORGET)) == 1
    assert step(kept, (), {}, 1001.0 + FORGET) == ()


def test_a_reminder_keeps_a_firing_alert():
    kept = step((), arrivals(alert()), {}, 0.0)
    kept = step(kept, arrivals(alert()), {}, FORGET - 1)
    assert len(step(kept, (), {}, FORGET + 1)) == 1


def test_what_is_kept_can_be_stored_and_read_back(story):
    story.decodes(DEAD)
    story.hears(alert())
    kept = story.hears(alert("resolved"), alert(fingerprint="f2"))
    data = json.loads(json.dumps(plain(kept)))
    assert restored(tuple[Received, ...], data) == kept
    assert all(one.bad for one in kept)


def finding(verdict: Verdict, number: int, name: str = "SpecDecodeCollapsed", **more: Any):
    said = Argument(f"engine {number} \x1b[31m" + "x" * 5000, next_step="do")
    subject = labels(target=TARGET, engine=str(number))
    return Finding(name, subject, verdict, lambda: said, **more)


def test_a_diagnosis_is_bounded_printable_and_says_what_it_leaves_out():
    near = [finding(Verdict.OK, i) for i in range(100)]
    near += [finding(Verdict.OK, i, conclusive=False) for i in range(100)]
    near += [finding(Verdict.UNKNOWN, i, "WatchdogBlind") for i in range(100)]
    near += [finding(Verdict.WARNING, i, "Warned") for i in range(50)]
    near += [finding(Verdict.CRITICAL, i, "Critical") for i in range(50)]
    (one,) = step((), arrivals(alert()), {TARGET: near}, 0.0)
    assert len(one.diagnosis) == 7 + 5 + 9
    assert all(s.isprintable() and len(s) <= 600 for s in one.diagnosis)
    assert one.diagnosis[0].startswith("may explain it: CRITICAL Critical: engine 0 [31mx")
    assert "may explain it: and 94 more, see the findings" in one.diagnosis
    assert "not certain yet: and 196 more, see the findings" in one.diagnosis
    assert "ruled out: and 92 more, see the findings" in one.diagnosis


# Shown


def test_the_report_has_it_as_data(story):
    story.decodes(DEAD)
    story.hears(alert())
    (told,) = as_json(story.report)["received"]
    assert set(told) == {
        "alertname", "status", "target", "labels", "summary", "fingerprint", "starts_at",
        "received_at", "ended_at", "diagnosed_at", "diagnosis",
    }  # fmt: skip
    assert told["received_at"] == story.report.wall(story.now)
    assert told["ended_at"] is None
    assert told["labels"] == {"instance": "gpu-1:8000"}
    assert as_json(Report("h", "0", 0.0))["received"] == []


def test_people_are_shown_what_arrived_and_what_is_seen(story):
    story.decodes(DEAD)
    story.hears(alert(), alert(fingerprint="f2", alertname="Gone", host="gpu-1"))
    story.hears(alert("resolved", fingerprint="f2", alertname="Gone", host="gpu-1"))
    text = for_people(as_json(story.report))
    assert "\nalerts received from Alertmanager, and what is seen here\n" in text
    shown = text.partition("seen here\n")[2].splitlines()
    assert shown[0].startswith("  resolved  ended 1970-")
    assert shown[0].endswith("  Gone  host: p99 is 41 s")
    assert shown[1].endswith("  HighLatencyP99  qwen: p99 is 41 s")
    assert shown[2].startswith("    seen at 1970-")
    assert shown[3].startswith("      may explain it: CRITICAL SpecDecodeCollapsed: ")
    assert "alerts received" not in for_people(as_json(Served().report))


def test_people_are_shown_one_printable_line_each_whatever_a_daemon_says(story):
    story.hears(*(alert(fingerprint=f"f{i}") for i in range(12)))
    data = as_json(story.report)
    data["received"][0]["alertname"] = "x\n\x1b[2Jy"
    lines = for_people(data).splitlines()
    assert all(line.isprintable() for line in lines)
    assert any("  x  [2Jy  qwen" in line for line in lines)
    assert lines[-1] == "  and 2 more, see `watchdog status --json`"


# Pushed


def annotations(report: Report) -> dict[str, dict[str, str]]:
    told = [each.body for each in pushed(report)]
    return {body["labels"]["alertname"]: body["annotations"] for body in told}


def test_our_alert_says_which_one_it_may_explain_and_is_told_again_at_once(story):
    story.decodes(DEAD)
    (before,) = pushed(story.report)
    assert "explains" not in before.body["annotations"]
    story.hears(alert())
    (after,) = pushed(story.report)
    at = story.report.wall(story.now)
    assert after.body["annotations"]["explains"] == (
        f"HighLatencyP99 (received {at} from Alertmanager)"
    )
    assert after.body["labels"] == before.body["labels"]
    assert after.state != before.state
    story.hears(alert("resolved"))
    (over,) = pushed(story.report)
    assert (over.state, "explains" in over.body["annotations"]) == (before.state, False)


def test_few_of_many_alerts_are_named(story):
    story.decodes(DEAD)
    story.hears(*(alert(fingerprint=f"f{i}") for i in range(40)))
    explains = annotations(story.report)["SpecDecodeCollapsed"]["explains"]
    assert explains.count("HighLatencyP99") == 3
    assert explains.endswith(", 37 more")


def received(target: str, name: str, *bad: Finding) -> Received:
    identities = tuple(f.identity for f in bad)
    return Received("f", "t", name, target, (), "", 0.0, 0.0, bad=identities)


def test_only_what_stood_in_its_diagnosis_explains_an_alert():
    dead = finding(Verdict.CRITICAL, 0)
    link = Finding("GpuLinkDegraded", labels(slot="05"), Verdict.WARNING, lambda: Argument("x1"))
    theirs = received(TARGET, "HighLatencyP99", dead, link)
    assert explained([theirs], dead) == explained([theirs], link) == [theirs]
    assert explained([theirs._replace(status="resolved")], dead) == []
    assert explained([received("llama", "HighLatencyP99")], dead) == []
    assert explained([received(TARGET, "SpecDecodeCollapsed", dead)], dead) == []
    of_host = received(HOST, "NodeLoadHigh", dead, link)
    assert explained([of_host], dead) == []
    assert explained([of_host], link) == [of_host]


def test_a_resolved_alert_of_ours_explains_nothing(story):
    story.decodes(DEAD)
    story.hears(alert())
    (firing,) = story.report.alerts
    over = replace(firing, state=type(firing.state)("resolved"), resolved_at=story.now)
    (told,) = pushed(replace(story.report, alerts=(over,)))
    assert "explains" not in told.body["annotations"]
