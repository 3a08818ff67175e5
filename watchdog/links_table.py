"""Links to two tables that a tired person reads at a glance, and one sentence for each GPU."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from watchdog.domain.finding import Verdict
from watchdog.links_rows import ERRORS, LINK, WITNESSES, Row, counted, link_now, rows, word
from watchdog.telling import ORDER, alerts_of

Data = Mapping[str, Any]

INSIDE: Final = "inside the card"
WIDTH: Final = 120
NOTHING: Final = "-"


def table(report: Data) -> str:
    """Return the report as text of at most WIDTH columns, but for sentences; no colours."""
    found = rows(report)
    title = (
        f"serving-watchdog {report['version']} on {report['host']}: {report['verdict']} "
        f"at {report['at']}"
    )
    general = [f for f in report["findings"] if "slot" not in f["subject"]]
    if not found:
        said = [f["summary"] for f in general if _is_bad(f) or f["alertname"] == "GpuMissing"]
        return f"{title}: {'; '.join(said) or 'no GPU in this report'}"
    lines = [f"{title}: {_cards(found)}{_source(report)}", ""]
    lines += [_drawn(_judged(found, report))]
    if any(row.link for row in found):
        lines += ["", _drawn(_witnesses(found))]
    if any(row.link.get("inside") for row in found):
        lines.append(f"{INSIDE}: what lspci shows of the GPU's function; no word of the slot")
    lines.append("")
    for finding in filter(_is_bad, general):
        lines += _argued(finding, finding["verdict"])
    for row in found:
        lines += _why(row)
    lines += alerts_of(report)
    if any(row.undeclared for row in found):
        lines += ["", "undeclared: `watchdog links --propose` prints a section to review and paste"]
    return "\n".join(lines)


def _cards(found: list[Row]) -> str:
    there = sum(row.there for row in found)
    unknown = sum(not row.there and row.verdict is Verdict.UNKNOWN for row in found)
    missing = len(found) - there - unknown
    said = f"{there} GPU{'' if there == 1 else 's'}"
    said += f", {missing} missing" if missing else ""
    return said + (f", {unknown} not known" if unknown else "")


def _source(report: Data) -> str:
    if report.get("source") == "daemon":
        return " (said by the running daemon)"
    seconds = report.get("rounds_seconds")
    return "" if seconds is None else f" (looked at for {seconds:.0f} s)"


# --- the tables ----------------------------------------------------------------------------------


def _judged(found: list[Row], report: Data) -> Table:
    seconds = report.get("rounds_seconds")
    since = "errors since start" if seconds is None else f"errors in {seconds:.0f} s"
    titles = ("slot", "card", "NUMA", "expected", "actual", "load", "errors since boot", since)
    drawn = _table(*titles, "verdict")
    for row in found:
        name, numa = row.link.get("card") or "", row.link.get("numa")
        card = row.link.get("gpu") or row.presence.get("gpu") or NOTHING
        errors = row.errors or {}
        _add(
            drawn,
            row.slot,
            f"{card} {name}".strip(),
            NOTHING if numa is None else str(numa),
            str(row.declared.link) if row.declared is not None else "undeclared",
            link_now(row),
            row.link.get("state") or NOTHING,
            counted(errors.get("since_boot")),
            counted(errors.get("since_start")),
            word(row),
        )
    return drawn


def _witnesses(found: list[Row]) -> Table:
    """Draw what each witness says; a column that no card has is left out."""
    said = [row.link.get("witnesses") or {} for row in found]
    kinds = [who for who in WITNESSES if any(who in each for each in said)]
    inside = any(row.link.get("inside") for row in found)
    titles = ["slot", *(WITNESSES[who] for who in kinds)]
    drawn = _table(*titles, *([INSIDE] if inside else []))
    for row, each in zip(found, said, strict=True):
        # A long reason is cut to its head here: "not asked: a row is starred".
        cells = [str(each.get(who, NOTHING)).partition(":")[0] for who in kinds]
        within = [str(row.link.get("inside") or NOTHING)] if inside else []
        _add(drawn, row.slot, *cells, *within)
    return drawn


def _table(*titles: str) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for title in titles:
        drawn.add_column(title, overflow="fold", no_wrap=title == "slot")
    return drawn


def _add(drawn: Table, *cells: str) -> None:
    drawn.add_row(*(Text(cell) for cell in cells))  # Text: a cell is no markup


def _drawn(what: Table) -> str:
    console = Console(file=(page := io.StringIO()), width=WIDTH, color_system=None)
    console.print(what)
    return "\n".join(line.rstrip() for line in page.getvalue().rstrip("\n").split("\n"))


# --- why -----------------------------------------------------------------------------------------


def _why(row: Row) -> Iterator[str]:
    """Say what is wrong with its next step, or why it is well; and what was counted before."""
    bad = sorted(filter(_is_bad, row.findings), key=lambda f: ORDER.index(f["verdict"]))
    for finding in bad:
        yield from _argued(finding, finding["verdict"])
    names = {f["alertname"] for f in bad}
    for finding in row.findings:
        if finding["alertname"] == LINK and not bad:
            yield f"{word(row):<12} {finding['summary']}"
        elif finding["alertname"] == ERRORS and ERRORS not in names and _any(row):
            yield f"{'errors':<12} {finding['summary']}"


def _any(row: Row) -> bool:
    return row.errors is not None and bool(row.errors.get("since_boot"))


def _argued(finding: Data, verdict: str) -> Iterator[str]:
    yield f"{verdict:<12} {finding['alertname']}: {finding['summary']}"
    if finding["next_step"]:
        yield f"  next       {finding['next_step']}"


def _is_bad(finding: Data) -> bool:
    return bool(finding["verdict"] != "OK")
