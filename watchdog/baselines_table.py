"""Baselines, as plain data, to a table that a tired person reads at a glance."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from watchdog.domain import wording as w
from watchdog.domain.history import engine_of
from watchdog.domain.texts import printable

Row = Mapping[str, Any]

NOTHING: Final = "-"
WIDTH: Final = 120


def table(found: Sequence[Row], *, now: str) -> str:
    """Return the engines as text of at most WIDTH columns, but for sentences; no colours."""
    raised = sum(bool(row["raised"]) for row in found)
    learning = sum(row["days"] < row["days_needed"] for row in found)
    said = f"{len(found)} engine{'' if len(found) == 1 else 's'}"
    said += f", {raised} below its usual length" if raised else ""
    said += f", {learning} still learning" if learning else ""
    lines = [f"serving-watchdog: baselines at {now}: {said}", "", _drawn(found)]
    reasons = list(_reasons(found))
    return "\n".join([*lines, "", *reasons] if reasons else lines)


def told(answer: Mapping[str, Any]) -> Iterator[str]:
    """Say what was changed, a line for each engine."""
    for one in answer["changed"]:
        days = _days(one["days"])
        was = "no baseline" if one["before"] is None else f"{w.length(one['before'])} ({days})"
        now = "it learns anew" if one["after"] is None else f"now {w.length(one['after'])} tokens"
        yield printable(f"{engine_of(one['subject'].items())}: was {was}, {now}")


def _days(count: int) -> str:
    return f"{count} day{'' if count == 1 else 's'}"


def _drawn(found: Sequence[Row]) -> str:
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for title in ("target", "engine", "model", "known", "baseline", "24 h", "72 h", "raised",
                  "accepted"):  # fmt: skip
        drawn.add_column(title, overflow="fold")
    for row in found:
        drawn.add_row(*(Text(printable(cell)) for cell in _cells(row)))  # Text: no markup
    console = Console(file=(page := io.StringIO()), width=WIDTH, color_system=None)
    console.print(drawn)
    return "\n".join(line.rstrip() for line in page.getvalue().rstrip("\n").split("\n"))


def _cells(row: Row) -> tuple[str, ...]:
    about = row["subject"]
    engine = about.get("engine", "?")
    days, needed = row["days"], row["days_needed"]
    lately = _length(row["length_24h"])
    return (
        about.get("target", "?"),
        f"{engine} of {about['replica']}" if "replica" in about else engine,
        about.get("model_name") or NOTHING,
        _days(days) if days >= needed else f"learning, {days} of {needed} days",
        _length(row["length"]),
        f"{lately} ({w.count(row['requests_24h'])} requests)" if row["requests_24h"] else lately,
        _length(row["length_72h"]),
        f"{row['raised']} since {_at(row['raised_at'])}" if row["raised"] else NOTHING,
        _at(row["accepted_at"]),
    )


def _reasons(found: Sequence[Row]) -> Iterator[str]:
    for row in found:
        if row["why_not_learning"]:
            said = f"{engine_of(row['subject'].items())} does not learn now: "
            yield printable(said + row["why_not_learning"])


def _length(value: float | None) -> str:
    return NOTHING if value is None else w.length(value)


def _at(text: str | None) -> str:
    """Return `2026-11-30 03:12Z` of an RFC 3339 time."""
    return NOTHING if text is None else f"{text[:10]} {text[11:16]}Z"
