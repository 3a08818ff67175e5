"""Claimed and running versions: the incident's, both sides of each rule, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deciding import every_cause_decides
from watchdog.checks.versions import State, Versions
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile
from watchdog.domain.sample import labels

SUBJECT = labels(target="qwen")
CLAIM = {"component": "radiance", "version": "0.6.2", "by": "environment RADIANCE_VERSION"}
TORCH = {"component": "torch", "version": "2.11.0", "by": "environment TORCH_VERSION"}
INSTALLED = {"component": "torch", "version": "2.11.0+rocm7.14", "by": "installed package"}


def facts(
    claims: Any = (), reports: Any = (), version: str | None = "0.27.1", **more: Any
) -> dict[str, Any]:
    """One round in which the launch was found."""
    told = {"versions": {"claims": list(claims), "reports": list(reports)}, **more}
    return told if version is None else {"version": version, **told}


BANNER = {"version": "0.27.1", "components": {"radiance": "0.9.3"}}
INCIDENT = facts([CLAIM], log=BANNER)


def judge(
    *rounds: dict[str, Any], declared: str | None = None, state: State | None = None
) -> Finding | None:
    check, found = Versions(), []
    for told in rounds:
        window = Window(SUBJECT, 0.0, facts=told, profile=Profile(version=declared))
        state, found = check.step(state, window, 0.0)
    every_cause_decides(found, set())
    return found[0] if found else None


def verdict(*rounds: dict[str, Any], declared: str | None = None) -> str:
    found = judge(*rounds, declared=declared)
    if found is None:
        return "silent"
    return found.verdict.name if found.conclusive else "thin"


def words(*rounds: dict[str, Any], declared: str | None = None) -> str:
    found = judge(*rounds, declared=declared)
    assert found is not None
    return found.argument.summary


def test_the_incident_a_variable_says_one_version_and_the_banner_another() -> None:
    found = judge(INCIDENT, INCIDENT)
    assert found is not None
    assert (found.alertname, found.verdict) == ("VersionClaimMismatch", Verdict.WARNING)
    assert found.argument.summary == (
        "qwen: radiance 0.6.2 is claimed by environment RADIANCE_VERSION, and 0.9.3 (the log's "
        "start) is what runs. A claim is not a measurement: the running artifact counts"
    )
    assert found.argument.next_step == (
        "correct the claim (environment RADIANCE_VERSION) if 0.9.3 (the log's start) is what you "
        "mean to run; else deploy the image that was meant"
    )
    assert found.argument.evidence["versions"] == [
        {
            "component": "radiance",
            "claimed": "0.6.2",
            "claimed_by": "environment RADIANCE_VERSION",
            "reported": "0.9.3",
            "reported_by": "the log's start",
        }
    ]


def test_it_takes_two_rounds() -> None:
    assert verdict(INCIDENT) == "thin"
    assert "another such round decides" in words(INCIDENT)
    assert verdict(INCIDENT, INCIDENT) == "WARNING"
    assert verdict(INCIDENT, facts([{**CLAIM, "version": "0.9.3"}], log=BANNER), INCIDENT) == "thin"


@pytest.mark.parametrize(
    ("declared", "version", "expected"),
    [
        ("0.27.1", "0.27.1", "OK"),
        ("0.27", "0.27.1+rocm714", "OK"),
        ("0.27.1", "0.27.2", "WARNING"),
        ("0.27.1", None, "thin"),
        ("0.27.1", "dev", "thin"),
        (None, "0.27.1", "silent"),
    ],
)
def test_what_the_configuration_expects_needs_no_launch(
    declared: str | None, version: str | None, expected: str
) -> None:
    """A remote target has a page alone."""
    told = {} if version is None else {"version": version}
    assert verdict(told, told, declared=declared) == expected


def test_the_configured_claim_is_named_by_its_key() -> None:
    told = {"version": "0.27.2"}
    assert "0.27.1 is claimed by configuration expect.version, and 0.27.2 (/version)" in words(
        told, told, declared="0.27.1"
    )


def test_where_nothing_reports_a_component_nothing_is_said_of_it() -> None:
    told = facts([CLAIM])
    assert verdict(told, told) == "thin"
    assert words(told) == (
        "qwen: radiance 0.6.2 is claimed by environment RADIANCE_VERSION, and nothing that runs "
        "tells its version"
    )


def test_a_claim_that_nothing_decides_hides_no_other() -> None:
    right = facts([CLAIM, TORCH], [INSTALLED])
    assert verdict(right, right) == "OK"
    assert "nothing that runs tells" in words(right, right)
    wrong = facts([CLAIM, {**TORCH, "version": "2.10.0"}], [INSTALLED])
    assert verdict(wrong, wrong) == "WARNING"


def test_the_page_beats_the_log_and_the_log_what_is_installed() -> None:
    claim = {"component": "vllm", "version": "0.27.1", "by": "environment VLLM_VERSION"}
    package = {"component": "vllm", "version": "0.26.0", "by": "installed package"}
    log = {"version": "0.26.0", "components": {}}
    assert verdict(*[facts([claim], [package], log=log)] * 2) == "OK"
    assert verdict(*[facts([claim], [package], "0.26.1", log=log)] * 2) == "WARNING"
    assert "0.26.0 (the log's start)" in words(*[facts([claim], [package], None, log=log)] * 2)
    assert "0.26.0 (installed package)" in words(*[facts([claim], [package], None)] * 2)


def test_the_page_of_this_round_counts_and_not_what_was_read_with_the_launch() -> None:
    claim = {"component": "vllm", "version": "0.27.1", "by": "environment VLLM_VERSION"}
    old = {"component": "vllm", "version": "0.26.0", "by": "/version"}
    assert verdict(*[facts([claim], [old], "0.27.1")] * 2) == "OK"
    assert verdict(*[facts([claim], [old], None)] * 2) == "thin"


def test_claims_of_the_launch_before_are_not_held_against_the_new_server() -> None:
    """In the round after a restart the launch is still the old one's."""
    claim = {"component": "vllm", "version": "0.27.1", "by": "environment VLLM_VERSION"}
    stale = facts([claim], version="0.28.0", process_start=2.0, gpus_start=1.0)
    fresh = facts([claim], version="0.28.0", process_start=2.0, gpus_start=2.0)
    assert verdict(stale, stale) == "silent"
    assert verdict(fresh, fresh) == "WARNING"


def test_a_warning_stays_while_one_side_is_not_known_and_ends_when_they_agree() -> None:
    check, state = Versions(), None
    steps = [
        (INCIDENT, Verdict.OK, False),
        (INCIDENT, Verdict.WARNING, True),
        ({}, Verdict.OK, False),  # silent: blind, not healthy
        (facts([CLAIM]), Verdict.OK, False),  # the log is not read
        (facts([CLAIM, TORCH], [INSTALLED]), Verdict.OK, False),  # another claim is right
        (INCIDENT, Verdict.WARNING, True),
        (facts([{**CLAIM, "version": "0.9.3"}], log=BANNER), Verdict.OK, True),
    ]
    for told, wanted, sure in steps:
        state, [found] = check.step(state, Window(SUBJECT, 0.0, facts=told), 0.0)
        assert (found.verdict, found.conclusive) == (wanted, sure), told


def test_a_claim_that_is_taken_back_ends_the_warning() -> None:
    assert verdict(INCIDENT, INCIDENT, facts([], log=BANNER)) == "OK"
    assert verdict(INCIDENT, INCIDENT, facts([TORCH], [INSTALLED], log=BANNER)) == "OK"
    assert verdict(INCIDENT, INCIDENT, {}) == "thin"  # that it is gone is not known
    unread = {"versions": {"claims": [], "reports": [], "partial": True}, "log": BANNER}
    assert verdict(INCIDENT, INCIDENT, unread) == "thin"
    gone = {"versions": {"claims": [], "reports": [], "partial": False}, "log": BANNER}
    assert verdict(INCIDENT, INCIDENT, gone) == "OK"


def test_nothing_claimed_nothing_said() -> None:
    assert verdict(facts(), facts()) == "silent"
    assert verdict({}, {}) == "silent"


@pytest.mark.parametrize(
    "odd",
    [
        {"versions": "text"},
        {"versions": {"claims": "x", "reports": 7}},
        {"versions": {"claims": [7, {"component": "vllm"}]}},
        {"versions": {"claims": [CLAIM]}, "log": "x", "version": 7},
        {"versions": {"claims": [CLAIM]}, "log": {"components": [1], "version": 7}},
        {"versions": {"claims": [CLAIM]}, "log": {"components": {"radiance": 7}}},
    ],
)
def test_odd_facts_raise_nothing(odd: dict[str, Any]) -> None:
    assert verdict(odd, odd) in ("silent", "thin")


def test_what_others_wrote_is_printed_in_one_line_and_bounded() -> None:
    claim = {"component": "radiance", "version": "0.6.2", "by": "image label x\x1b[31m\n" * 99}
    told = facts([claim], log=BANNER)
    summary = words(told, told)
    assert summary.isprintable()
    assert len(summary) < 400


def test_the_state_is_plain() -> None:
    state, _ = Versions().step(None, Window(SUBJECT, 0.0, facts=INCIDENT), 0.0)
    assert state == (1, (("radiance", "environment RADIANCE_VERSION"),), True)
