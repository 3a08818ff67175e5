"""The report's GPUs to the rows of the link table, as `watchdog links` has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from watchdog.domain.report import Report, as_json
from watchdog.domain.sample import HOST
from watchdog.links_rows import WITNESSES, Row, counted, link_now, rows, word

NOTHING: Final = "-"
UNDECLARED: Final = "undeclared"


class Link(NamedTuple):
    """One slot; `witnesses` says what each of them tells."""

    slot: str
    card: str
    expected: str
    actual: str
    load: str
    witnesses: str
    since_boot: str
    since_start: str
    word: str


def links_of(report: Report) -> list[Link]:
    """Return a row for each slot that has a card or should have one."""
    host = replace(
        report,
        findings=tuple(f for f in report.findings if "target" not in dict(f.subject)),
        readings=tuple(r for r in report.readings if r.target == HOST),
        alerts=(),
    )
    return [_link(row) for row in rows(as_json(host))]


def _link(row: Row) -> Link:
    card = row.link.get("gpu") or row.presence.get("gpu") or NOTHING
    numa = row.link.get("numa")
    name = " ".join(filter(None, (str(card), row.link.get("card"))))
    errors = row.errors or {}
    return Link(
        row.slot,
        name if numa is None else f"{name}, NUMA node {numa}",
        str(row.declared.link) if row.declared is not None else UNDECLARED,
        link_now(row),
        str(row.link.get("state") or NOTHING),
        _witnessed(row.told_by()),
        counted(errors.get("since_boot")),
        counted(errors.get("since_start")),
        word(row),
    )


def _witnessed(told: dict[str, str]) -> str:
    """Return who tells what, in short where all tell the same."""
    names = {who: WITNESSES.get(who, who) for who in told}
    if len(told) > 1 and len(set(told.values())) == 1:
        return f"{', '.join(names.values())} agree"
    return ", ".join(f"{names[who]} {link}" for who, link in told.items()) or NOTHING
