"""What an argument says of changes near an onset: only what was really watched."""

from __future__ import annotations

import pytest

from watchdog.domain import changes as c
from watchdog.domain.changes import Changes, Event
from watchdog.domain.changes_words import (
    MOST_TOLD,
    NEAR,
    NOUNS,
    WORDS,
    told,
    traffic_line,
    traffic_moved,
)

HOUR = 3600.0
NOW = 1000 * HOUR
ONSET = (NOW - 15 * HOUR, NOW - 12 * HOUR)
ALL = tuple((kind, NOW - 480 * HOUR) for kind in WORDS)


def event(ago: float, kind: str = "restart", text: str = "restarted", **more: object) -> Event:
    """An event so many hours ago, seen within a minute."""
    at = NOW - ago * HOUR
    return Event(at, at - 60.0, kind, text)._replace(**more)  # type: ignore[arg-type]


def said(*events: Event, engine: str = "0", **more: object) -> tuple[str, str]:
    """The lines of the suspects and of what is ruled out, "" for none."""
    changes = Changes(events=events, **{"since": ALL, **more})  # type: ignore[arg-type]
    known = told(changes, ONSET, engine, NOW)
    return " ".join(known.suspects + known.unseen), " ".join(known.ruled_out)


def test_what_changed_near_the_onset_is_named_with_its_age() -> None:
    suspect, ruled_out = said(
        event(14.9), event(14.9, "version", "version 0.27.1 -> 0.28.0"), event(200)
    )
    assert suspect == (
        "changed near its onset (between 12.0 h and 15.0 h ago): restarted 14.9 h ago; "
        "version 0.27.1 -> 0.28.0 14.9 h ago; predicts that it is gone once that is undone; "
        "decided by undoing one of these, and nothing else"
    )
    assert ruled_out == (
        "nothing else known changed between 12.0 h and 15.0 h ago: no other launch settings, "
        "no other model, no other drafter depth, no GPU link that began or ceased to be bad "
        "(watched since 20.0 days ago)"
    )


def test_where_nothing_changed_that_is_ruled_out() -> None:
    suspect, ruled_out = said(event(200), event(3))
    assert suspect == ""
    assert ruled_out.startswith("nothing known changed between 12.0 h and 15.0 h ago: no restart, ")
    assert ruled_out.endswith("; the last change before it: restarted 8.3 days ago")


@pytest.mark.parametrize(
    ("at", "near"),
    [
        (ONSET[0] - NEAR, True),
        (ONSET[0] - NEAR - 1, False),
        (ONSET[1] + NEAR, True),
        (ONSET[1] + NEAR + 1, False),
    ],
)
def test_near_means_within_five_minutes(at: float, near: bool) -> None:
    suspect, _ = said(event(0, at=at, after=at))
    assert bool(suspect) is near


def test_a_change_in_an_absence_is_told_with_both_ends_and_the_absence_too() -> None:
    """The watch may have been away for the whole of it: the change counts wherever it was."""
    away = {"at": NOW - 2 * HOUR, "after": NOW - 20 * HOUR}
    suspect, ruled_out = said(
        event(2, **away), event(2, c.GAP, "nothing was read", **away)
    )  # fmt: skip
    assert ": restarted between 2.0 h and 20.0 h ago; predicts " in suspect
    assert ruled_out.endswith("; nothing was read between 2.0 h and 20.0 h ago")


def test_another_engines_change_is_no_suspect() -> None:
    suspect, ruled_out = said(event(14, engine="1"))
    assert suspect == ""
    assert "no restart" in ruled_out
    suspect, _ = said(event(14, engine="1"), engine="1")
    assert "restarted" in suspect


def test_a_source_that_was_never_read_is_named() -> None:
    since = tuple(pair for pair in ALL if pair[0] not in ("launch", c.LINK))
    _, ruled_out = said(event(14), since=since)
    assert "GPU link that" not in ruled_out
    assert ruled_out.endswith("; never read: launch settings in full, GPU links")


def test_without_a_restart_the_launch_is_the_same_whether_read_or_not() -> None:
    since = tuple(pair for pair in ALL if pair[0] not in ("launch", c.LINK))
    _, ruled_out = said(since=since)
    assert ruled_out.endswith("; never read: GPU links")


@pytest.mark.parametrize(("since", "counts"), [(ONSET[0] - 1, True), (ONSET[0], False)])
def test_a_source_counts_only_if_it_was_read_before_the_onset(
    since: float, counts: bool
) -> None:  # fmt: skip
    both = (*((kind, at) for kind, at in ALL if kind != "version"), ("version", since))
    _, ruled_out = said(since=both)
    assert ("no other version" in ruled_out) is counts
    assert ("known only since 15.0 h ago: version" in ruled_out) is not counts


@pytest.mark.parametrize(("lost", "counts"), [(ONSET[1], True), (ONSET[1] - 1, False)])
def test_and_only_if_it_was_read_until_the_end_of_it(
    lost: float, counts: bool
) -> None:  # fmt: skip
    _, ruled_out = said(lost=(("version", lost),))
    assert ("no other version" in ruled_out) is counts
    assert ("not read since 12.0 h ago: version" in ruled_out) is not counts


def test_an_onset_before_the_watch_rules_nothing_out() -> None:
    suspect, ruled_out = said(since=tuple((kind, ONSET[0]) for kind in WORDS))
    assert ruled_out == ""
    assert suspect.startswith("a change that was not seen: it began between 12.0 h and 15.0 h ago")
    assert ", and this was watched only since 15.0 h ago; predicts " in suspect


def test_only_the_latest_changes_are_told() -> None:
    events = [event(14 - i / 100, text=f"change {i}") for i in range(MOST_TOLD + 1)]
    suspect, _ = said(*events)
    assert "change 0 " not in suspect
    assert f"change {MOST_TOLD} " in suspect


def test_two_ages_that_read_the_same_are_one() -> None:
    changes = Changes(events=(), since=ALL)
    [line] = told(changes, (NOW - 15 * HOUR, NOW - 15 * HOUR + 15), "0", NOW).ruled_out
    assert "changed about 15.0 h ago" in line


def test_every_kind_of_change_has_its_words() -> None:
    assert set(WORDS) == set(NOUNS) == {c.RESTART, c.DEPTH, c.LINK, *c.FACTS.values()}


def test_traffic_is_one_line_of_what_is_known() -> None:
    traffic = {
        "prefix_hit_ratio": (0.4, 0.05),
        "prompt_tokens": [812.4, 305.0],
        "running": [1.25, 3.0],
    }
    assert traffic_line(traffic) == (
        "traffic, last 24 h against the days before: prompts 812 -> 305 tokens, "
        "running 1.2 -> 3.0 requests, prefix-cache hits 40 % -> 5.0 %"
    )
    assert traffic_line({}) == ""
    assert traffic_line({"running": [1.0], "prompt_tokens": [float("nan"), 1.0]}) == ""


@pytest.mark.parametrize(
    ("name", "before", "now", "moved"),
    [
        ("prompt_tokens", 100.0, 120.0, True),
        ("prompt_tokens", 100.0, 119.9, False),
        ("output_tokens", 100.0, 80.0, True),
        ("output_tokens", 100.0, 80.1, False),
        ("output_tokens", 10.0, 19.9, False),  # twice as much, and still nothing
        ("output_tokens", 10.0, 20.0, True),
        ("running", 0.2, 0.6, False),
        ("running", 0.0, 0.5, True),
        ("prefix_hit_ratio", 0.01, 0.05, False),
        ("prefix_hit_ratio", 0.5, 0.625, True),
    ],
)
def test_traffic_moved_by_a_fifth_and_by_enough_to_mean_anything(
    name: str, before: float, now: float, moved: bool
) -> None:  # fmt: skip
    assert traffic_moved({"kv": (0.0, 9.0), name: (before, now)}) is (moved)


def test_one_figure_that_moved_is_enough() -> None:
    still = {"output_tokens": (200.0, 200.0), "running": (3.0, 3.0)}
    assert not traffic_moved(still)
    assert traffic_moved({**still, "prompt_tokens": (100.0, 200.0)})
