"""What the page says, and that nothing of it is more than text."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.page.boards import (
    HOSTILE,
    NOW,
    board,
    dead,
    engine,
    finding,
    fired,
    hostile,
    incident,
    over,
    trace,
)  # fmt: skip
from watchdog.board import Board
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.received import INBOX, Received
from watchdog.domain.sample import HOST, Reading, labels
from watchdog.domain.trace import UNREAD
from watchdog.page.content import MOST_ALERTS
from watchdog.page.engines import MOST_DRAWN
from watchdog.views import make_app

VOID = {"meta", "link", "br", "img", "input", "hr"}
OURS = {
    "html", "head", "meta", "title", "link", "noscript", "style", "body", "div", "strong", "span",
    "code", "p", "main", "header", "h1", "h2", "h3", "section", "article", "ul", "ol", "li", "dl",
    "dt", "dd", "b", "i", "bdi", "a", "details", "summary", "figure", "figcaption", "svg", "desc",
    "text", "line", "rect", "path", "small", "table", "thead", "tbody", "tr", "th", "td", "footer",
    "script",
}  # fmt: skip
LINKS = ("https://github.com/serving-watchdog/", "metrics", "api/v1/report", "data:,")


class Page(HTMLParser):
    """A page as it was parsed: elements, attributes, and the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []  # everything that was opened is closed, in its order

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    @property
    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.elements if "id" in attrs]

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def html(shown: Board) -> str:
    answer = make_app(shown).test_client().get("/")
    assert answer.status_code == 200
    assert answer.content_type == "text/html; charset=utf-8"
    return answer.text


def words(shown: Board) -> str:
    """The page's text, without styles and script."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", html(shown), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


# What it says


def test_an_alert_of_which_nothing_is_seen_any_more_says_since_when():
    assert "Nothing was seen of it" not in words(incident())
    shown = incident()
    assert shown.report is not None
    [alert] = shown.report.alerts
    shown.report = replace(shown.report, alerts=(replace(alert, seen_at=NOW - 240),))
    assert "Nothing was seen of it since 11:56:00" in words(shown)


@pytest.mark.parametrize(("age", "told"), [(UNREAD, True), (UNREAD + 1, False)])
def test_how_busy_a_server_was_is_not_told_as_if_it_were_now(age, told):
    shown = incident()
    points = [point._replace(at=point.at - age) for point in shown.traces()[engine()]]
    shown.traces = lambda: {engine(): points}
    assert ("requests running" in words(shown)) == told


def test_before_the_first_round_it_says_so():
    said = words(Board())
    assert "The first round is under way" in said
    assert "No GPU" not in said


def test_an_alert_is_shown_with_its_whole_argument():
    said = words(incident())
    for part in (
        "CRITICAL", "gpu-1", "1 alert fires. Last round at 12:00:00 UTC", "SpecDecodeCollapsed",
        "since 11:55:00 UTC, for 300 s", "the drafter is dead", "Next step move the compile cache",
        "Expected position 0 accepted", "drafts 1,700", "Ruled out queueing: 0 requests waiting",
        "Suspects a compile cache of an older launch", "Runbook of SpecDecodeCollapsed",
    ):  # fmt: skip
        assert part in said, part
    assert "docs/alerts/SpecDecodeCollapsed.md" in html(incident())


def test_an_engine_has_curve_bars_and_figures():
    said = words(incident())
    for part in (
        "acceptance length 1.08 tokens", "tokens per step 1.08", "step time 95 ms",
        "tokens per draft 2.96", "generated 72 tokens/s", "requests running 8",
        "3 declared", "1.2 dead drafter", "between 1.08 and 3.80, last 1.08",
        "0: 6.7 %, 1: 0.9 %, 2: 0.3 %",
    ):  # fmt: skip
        assert part in said, part


def test_an_engines_curve_has_the_length_that_it_is_used_to_once_that_is_known():
    def learned(number, evidence):
        said = Argument("said", evidence=evidence)
        return finding(engine(number=number), alertname="SpecDecodeDegraded", check="baseline",
                       said=said)  # fmt: skip

    shown = board(learned("0", {"baseline": 3.7712}), learned("1", {"baseline_days": 3}))
    shown.traces = lambda: {engine(number=n): trace(3.8, 3.8) for n in "01"}
    said = words(shown)
    assert said.count("3.77 baseline") == 1
    assert "declared 3; dead drafter 1.2; baseline 3.77;" in said
    assert said.count("dead drafter 1.2; 1 gap") == 1


def test_resolved_and_paused_are_told_apart_from_firing():
    alert = over(fired(dead(engine())))
    said = words(board(finding(engine()), alerts=(alert,), paused={"qwen": NOW + 1800}))
    assert "No alert fires" in said
    assert "Lately resolved SpecDecodeCollapsed critical, resolved" in said
    assert "ended 11:59:00 UTC, 60 s ago" in said
    assert "qwen until 12:30:00 UTC, for 30 min more" in said


def test_a_verdict_is_as_bad_as_what_still_fires():
    assert "✕ CRITICAL" in words(board(finding(engine()), alerts=(fired(dead(engine())),)))


def test_no_evidence_is_no_ok():
    said = words(board(finding(engine(), conclusive=False)))
    assert "qwen ○ no evidence" in said
    assert "engine 0, model qwen3 ○ no evidence" in said
    assert "0 OK, 1 without enough evidence" in said
    assert "qwen ✓ OK" in words(board(finding(engine())))


def test_an_alert_of_others_is_shown_with_what_was_seen_here():
    told = Received(
        "f", "", "ThroughputLow", "qwen", labels(), "slow", NOW - 120, NOW,
        diagnosis=("ruled out: it answers",), diagnosed_at=NOW,
    )  # fmt: skip
    said = words(board(finding(engine()), received=(told,)))
    assert "ThroughputLow firing about qwen · received 11:58:00 UTC, 120 s ago slow" in said
    assert "Seen here ruled out: it answers" in said


def test_a_probe_that_fails_says_why_and_when_it_last_did_not():
    shown = board(finding(engine()))
    assert shown.report is not None
    shown.report = replace(
        shown.report,
        readings=(Reading("vllm_metrics", "qwen", error="refused"), Reading("launch", "qwen")),
    )
    shown.succeeded = {("vllm_metrics", "qwen", ""): NOW - 90}
    said = words(shown)
    assert "vllm_metrics qwen 11:58:30 UTC, 90 s ago failed: refused" in said
    assert "launch qwen never yet read" in said


def test_the_inbox_of_others_alerts_is_no_probe_of_this_host():
    shown = board(finding(engine()))
    assert shown.report is not None
    shown.report = replace(shown.report, readings=(Reading(INBOX, HOST),))
    assert "inbox" not in words(shown)


def test_of_the_host_only_what_is_wrong_or_has_no_row_has_a_line():
    def told(about: str, verdict: Verdict, alertname: str, **subject: str) -> Finding:
        return finding(
            labels(**subject), verdict, alertname=alertname, check="x", said=Argument(about)
        )

    said = words(
        board(
            told("link is slow", Verdict.WARNING, "GpuLinkDegraded", slot="0000:00:02.0"),
            told("link is whole", Verdict.OK, "GpuLinkDegraded", slot="0000:00:03.0"),
            told("census was read", Verdict.OK, "WatchdogBlind", probe="gpus"),
            told("no GPU here", Verdict.OK, "GpuMissing"),
        )
    )
    assert "link is slow" in said
    assert "no GPU here" in said
    assert "link is whole" not in said
    assert "census was read" not in said


def test_our_own_troubles_come_before_the_alerts():
    shown = incident()
    shown.notes = lambda: ["the store is read-only"]
    said = words(shown)
    assert said.index("the store is read-only") < said.index("Active alerts")


def test_the_worst_target_comes_first():
    shown = board(finding(engine("a")), dead(engine("b")))
    said = words(shown)
    assert said.index("b ✕ CRITICAL") < said.index("a ✓ OK")


def test_engine_10_comes_after_engine_9():
    said = words(board(*(finding(engine(number=str(i))) for i in (10, 9, 1))))
    assert said.index("engine 1,") < said.index("engine 9,") < said.index("engine 10,")


# How old it is


@pytest.mark.parametrize(
    ("age", "interval", "stale"),
    [(44.0, 15.0, False), (46.0, 15.0, True), (4.0, 1.0, False), (6.0, 1.0, True)],
)
def test_it_is_stale_after_three_intervals(age, interval, stale):
    shown = incident()
    shown.age, shown.interval = (lambda: age), interval
    page = html(shown)
    assert ("STALE · " in page.split("</title>")[0]) is stale
    assert ('<div id="stale" role="alert" hidden>' in page) is not stale
    if stale:
        assert f"The last round was at 12:00:00 UTC, {age:.0f} s ago" in page
    assert "systemctl status serving-watchdog" in page


def test_a_page_without_a_script_loads_itself_again():
    shown = incident()
    shown.interval = 600.0
    assert '<noscript><meta http-equiv="refresh" content="60"></noscript>' in html(shown)


def test_a_report_is_rendered_once_and_anew_for_the_next_one_or_another_note():
    shown = incident()
    asked = []
    shown.traces = lambda: asked.append(1) or {}
    client = make_app(shown).test_client()
    client.get("/")
    client.get("/")
    assert len(asked) == 1
    shown.notes = lambda: ["new"]
    assert "new" in client.get("/").text
    assert shown.report is not None
    shown.report = replace(shown.report, now=NOW + 15)
    assert "Last round at 12:00:15 UTC" in client.get("/").text
    assert len(asked) == 3


# What it allows


def test_only_our_own_style_and_script_are_allowed():
    answer = make_app(incident()).test_client().get("/")
    policy = answer.headers["Content-Security-Policy"]
    for kind in ("style", "script"):
        [inside] = re.findall(rf"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
        digest = b64encode(sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store"


def test_nothing_comes_from_elsewhere():
    page = Page(html(incident()))
    assert all("src" not in attrs and "style" not in attrs for _, attrs in page.elements)
    assert page.count("img") == page.count("iframe") == page.count("form") == 0


def test_other_paths_keep_their_stricter_policy():
    headers = make_app(incident()).test_client().get("/metrics").headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; frame-ancestors")


def harmless(page: str) -> Page:
    """Parse a page and hold that it has our elements and attributes only."""
    parsed = Page(page)
    assert {tag for tag, _ in parsed.elements} <= OURS
    assert parsed.count("script") == parsed.count("style") == parsed.count("main") == 1
    for tag, attrs in parsed.elements:
        assert not [name for name in attrs if name.startswith("on") or name == "style"], tag
        assert (attrs.get("href") or "metrics").startswith(LINKS)
    assert len(parsed.ids) == len(set(parsed.ids))
    shown = page.replace("\n", "")
    assert shown.isprintable()
    return parsed


def test_hostile_names_and_texts_stay_text():
    page = harmless(html(hostile()))
    assert page.count("article") > len(HOSTILE)
    assert any("<script>window.hacked=1" in text for text in page.texts["p"])


TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="<>\"'&/=;-!{}%#scriptSVGonload \u202e\u2028\x00", max_size=60),
    st.sampled_from(HOSTILE),
)


@settings(max_examples=150)
@given(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
def test_no_text_becomes_an_element(texts):
    harmless(html(hostile(tuple(texts))))


# How much it is


def test_of_many_engines_the_worst_are_drawn_and_the_others_told():
    subjects = [engine("qwen", str(i)) for i in range(MOST_DRAWN + 25)]
    shown = board(*map(finding, subjects[:-1]), dead(subjects[-1]))
    shown.traces = lambda: {subject: trace(3.8, 3.7) for subject in subjects}
    page = html(shown)
    assert page.count('class="curve"') == MOST_DRAWN
    assert f'<bdi>engine {MOST_DRAWN + 24}, model qwen3</bdi> <span class="word critical">' in page
    assert f"as only {MOST_DRAWN} engines of this page are" in page
    assert len(re.findall(r"<li>.*?<b>engine \d+, model qwen3</b>", page)) == 25


def test_of_many_alerts_the_worst_are_shown_and_the_others_counted():
    some = [
        finding(engine(number=str(i)), Verdict.WARNING, alertname="SpecDecodeDegraded")
        for i in range(MOST_ALERTS + 9)
    ]
    worst = dead(engine(number="worst"))
    said = words(board(*some, alerts=(*map(fired, some), fired(worst))))
    assert "and 10 more" in said
    assert f"{MOST_ALERTS + 10} alerts fire" in said
    assert said.index("engine worst") < said.index("engine 0,")


def test_a_page_is_bounded_whatever_is_watched():
    long = Argument("s" * 5000, evidence={"k" * 500: "v" * 5000})
    targets = [f"t{i}" for i in range(1000)]
    found = [finding(engine(t, "0", "m" * 9000), Verdict.CRITICAL, said=long) for t in targets]
    shown = board(*found, alerts=tuple(map(fired, found)))
    shown.traces = lambda: {f.subject: trace(*(3.8,) * 240) for f in found}
    assert len(html(shown)) < 6_000_000
