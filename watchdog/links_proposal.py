"""
What is seen now, as a `gpus:` section for a person to review; nothing applies it by itself.

A degraded link looks just like one that is narrow by design. So each line says what has to be
checked, and where the machine itself has doubts, no line is proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from watchdog.domain.link import Link, Slot, below, lowest
from watchdog.domain.link_errors import OF_THE_LINK, TOTAL, spelled
from watchdog.domain.texts import one_line
from watchdog.errors import CommandError
from watchdog.links_rows import APART, Row, rows

Data = Mapping[str, Any]

ENDS: Final = ("port", "card")
MOST_TEXT: Final = 200  # characters of a name

HEAD: Final = """\
# What the GPU slots of {host} ran at {at}, by `watchdog links --propose`.
# Nothing applies this by itself. A slot that is degraded looks just like one that is narrow by
# design: compare each line with the board's manual and the BIOS, then paste the section into the
# configuration (where that has a section `gpus:`, only what is below `slots:`).
"""


def proposal(report: Data, *, with_errors: bool = False) -> str:
    """Return the section as YAML text. Raises CommandError where nothing can be proposed."""
    found = rows(report)
    if not found:
        raise CommandError("no AMD or NVIDIA GPU is seen here: there is nothing to propose")
    if not any(row.there for row in found):
        raise CommandError("no GPU can be seen here now: there is nothing to propose")
    if not with_errors:
        _refuse_errors(found)
    doubts = {row.slot: doubt(row) for row in found}
    if all(doubts[row.slot] and row.declared is None for row in found):
        said = "; ".join(f"{slot}: {why}" for slot, why in doubts.items())
        raise CommandError(f"no slot can be proposed now: {said}")
    lines = [
        HEAD.format(host=_line(report["host"]), at=_line(report["at"])).rstrip("\n"),
        "gpus:",
        "  slots:",
    ]
    for row in found:
        lines += [f"    {line}" for line in _lines(row, doubts[row.slot], report)]
    return "\n".join(lines) + "\n"


def _refuse_errors(found: list[Row]) -> None:
    for row in found:
        counts = errors_of(row)
        if counts:
            raise CommandError(
                f"slot {row.slot}: {spelled(counts)} since boot; a link with errors may have "
                "trained lower than its slot is meant to run, so nothing is proposed: reseat the "
                "card and its riser or cable, boot, and ask again, or propose it all the same "
                "with --despite-errors"
            )


def errors_of(row: Row) -> dict[str, dict[str, float]]:
    """Return a chain's errors since boot that speak against its link, by device and name."""
    counts = (row.errors or {}).get("since_boot") or {}
    kept = {
        by: {name: n for name, n in names.items() if _counts(name)} for by, names in counts.items()
    }
    return {by: names for by, names in kept.items() if names}


def _counts(name: str) -> bool:
    """Non-fatal and fatal ones have their kind before the name; others are correctable."""
    return " " in name or name in OF_THE_LINK or name == TOTAL


def doubt(row: Row) -> str:
    """Say why what it runs now is no proposal; empty where it is one."""
    generation, width = row.link.get("generation"), row.link.get("width")
    said = row.told_by()
    said.pop("path", None)
    apart = any(f["alertname"] == APART and f["verdict"] != "OK" for f in row.findings)
    if not row.there:
        return "no card is seen in it"
    if row.asleep:
        return "the card is asleep: let it work, then ask again"
    if generation is None or width is None:
        return "no witness tells its link whole"
    if row.waits:
        return (
            "the card is not known to be busy, and its link slows down on purpose when idle: let "
            "it work, then ask again"
        )
    if apart or len(set(said.values())) > 1:
        return f"its witnesses disagree ({', '.join(f'{w} {x}' for w, x in said.items())})"
    return ""


def _lines(row: Row, why_not: str, report: Data) -> Iterator[str]:
    yield f"# {_card(row)}"
    if row.declared is not None:
        yield from _declared(row, row.declared, why_not)
        return
    if why_not:
        yield f"# left out: {why_not}"
        width = row.link.get("width")
        lanes = "?" if width is None else f"{width:.0f}"
        yield f'# "{row.slot}": {{generation: ?, width: {lanes}}}'
        return
    yield from (f"# {line}" for line in _to_check(row, report))
    yield f'"{row.slot}": {{generation: {row.link["generation"]}, width: {row.link["width"]:.0f}}}'


def _card(row: Row) -> str:
    """Name the card for a comment: addresses and names only, on one line."""
    if not row.there:
        return f"slot {row.slot}: no card is seen in it now"
    numa = row.link.get("numa")
    name = _line(row.link.get("card") or "")
    where = "NUMA node unknown" if numa is None else f"NUMA node {numa}"
    return f"{row.link.get('gpu') or row.presence.get('gpu')} {name}, {where}"


def _line(text: object) -> str:
    """Keep a stranger's text on its line: it stands in a comment."""
    return one_line(str(text), MOST_TEXT)


def _declared(row: Row, slot: Slot, why_not: str) -> Iterator[str]:
    now = Link(row.link.get("speed"), row.link.get("width"))
    if not row.there:
        yield "# kept as declared"
    elif why_not:
        yield f"# kept as declared; not compared: {why_not}"
    elif now != slot.link:
        yield f"# kept as declared, although it runs {now} now: see `watchdog links`"
    else:
        yield "# as declared"
    yield f'"{slot.key}": {{generation: {slot.generation}, width: {slot.width}{_note(slot)}}}'


def _note(slot: Slot) -> str:
    if not slot.note:
        return ""
    text = yaml.safe_dump(slot.note, default_style='"', width=1 << 20, allow_unicode=True)
    return f", note: {text.strip()}"


def _to_check(row: Row, report: Data) -> Iterator[str]:
    ends = report.get("could", {}).get(row.slot, {})
    could = {end: Link(ends[end]["speed"], ends[end]["width"]) for end in ENDS if end in ends}
    link, best = Link(row.link.get("speed"), row.link.get("width")), lowest(could.values())
    if could:
        said = ", ".join(f"{each} (the {end})" for end, each in could.items())
        yield f"their own word, a hint and no expectation: could do {said}"
    if row.link.get("narrow_above_the_slot"):
        yield "the narrow link is above the slot, at a switch of the board: is that by design?"
    if len(could) == len(ENDS) and (
        below(link.speed, best.speed or 0) or below(link.width, best.width or 0)
    ):
        yield f"check: it runs {link} where both ends could do {best}: degraded, or by design?"
    else:
        yield f"check: is {link} what this slot is wired and set to run?"
    if row.facts.get("stars") == 0:
        yield "no row of pp_dpm_pcie is starred: did the link change after the driver loaded?"
    counts = errors_of(row)
    if counts:
        yield f"WARNING, proposed despite {spelled(counts)} since boot: is it lower than it was?"
    elif row.errors is None:
        yield "no error counter could be read: look for PCIe errors in dmesg as well"
