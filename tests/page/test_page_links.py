"""The link table of the page: the rows of `watchdog links`, out of a report's findings."""

from __future__ import annotations

from dataclasses import replace

from tests.page.boards import board, engine, finding
from watchdog.domain.finding import Argument, Verdict
from watchdog.domain.report import Report
from watchdog.domain.sample import labels
from watchdog.page.links import links_of

SLOT = "0000:00:02.0"
SEEN = {
    "gpu": "0000:05:00.0", "card": "AMD 1002:7551", "numa": 0, "state": "busy", "note": "",
    "expected_generation": 3, "expected_width": 16, "speed": 2.5, "width": 16.0, "busy": True,
    "witnesses": {"port": "Gen1 x16", "card": "Gen1 x16", "starred": "no row is starred"},
}  # fmt: skip


def report(*, alertname: str = "GpuLinkDegraded", **evidence: object) -> Report:
    said = Argument("runs Gen1, declared Gen3", evidence={**SEEN, **evidence})
    found = finding(
        labels(slot=SLOT), Verdict.WARNING, alertname=alertname, check="pcie_link", said=said
    )
    made = board(finding(engine()), found).report
    assert made is not None
    return made


def test_a_slot_says_what_was_declared_and_what_is():
    [link] = links_of(report())
    assert (link.slot, link.word, link.expected) == (SLOT, "WARNING", "Gen3 x16")
    assert (link.actual, link.load) == ("Gen1 x16", "busy")
    assert link.card == "0000:05:00.0 AMD 1002:7551, NUMA node 0"


def test_witnesses_that_agree_are_named_and_others_quoted():
    apart = {"port": "Gen1 x16", "card": "Gen3 x16"}
    assert links_of(report())[0].witnesses == "slot's port, card's end agree"
    assert links_of(report(witnesses=apart))[0].witnesses == (
        "slot's port Gen1 x16, card's end Gen3 x16"
    )
    assert links_of(report(witnesses={"port": "Gen1 x16"}))[0].witnesses == "slot's port Gen1 x16"
    assert links_of(report(witnesses={}))[0].witnesses == "-"


def test_counters_that_were_not_read_are_no_zero():
    assert links_of(report())[0].since_boot == "not read"
    counted = {"since_boot": {"0000:00:02.0": {"BadTLP": 6655.0}}, "since_start": {}}
    link = links_of(report(alertname="GpuLinkErrors", **counted))[0]
    assert (link.since_boot, link.since_start) == ("6,655 BadTLP", "0")


def test_a_host_without_gpus_has_no_rows():
    made = report()
    assert links_of(replace(made, findings=made.findings[:1])) == []
