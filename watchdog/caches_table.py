"""Compile caches to text that a tired person reads at a glance: ledger, starts, verdicts."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from watchdog.caches_answer import Answer, Fill, FloorsRow, Made, Now, Place, Row, Start
from watchdog.caches_confirm import Confirmed
from watchdog.caches_steps import PROCESS, Given, after_show, given_of
from watchdog.domain import wording as w
from watchdog.domain.cache_words import NOTHING_HERE
from watchdog.domain.ledger import SEEN, STAMP, TRACES
from watchdog.domain.starts import REPLACED

NOTHING: Final = "-"
NARROW, WIDE = 80, 120
"""Columns of a text, at least and at most; a path or a command is never broken."""

DEEP: Final = "    "

MOST_FACTORS: Final = 24
"""Factors that are printed; `--json` has all."""

SHORT: Final = 8
"""Characters of a digest in a table."""

_COMMAND: Final = re.compile(r"`[^`]*`")
_SPACE: Final = "\x00"
"""Stands for a space at which a line may not end; no text that is printed has one."""

_HOW: Final = {True: "compiled", False: "loaded", None: "not known"}
_ORIGIN: Final = {SEEN: "seen", STAMP: "its stamp", TRACES: "times of files"}


def shown(answer: Answer, given: Mapping[str, Given], width: int = WIDE) -> str:
    """Return all targets as text of at most `width` columns, but for paths and commands."""
    verdicts = [row.verdict for row in answer.caches]
    counts = [f"{verdicts.count(word)} {word}" for word in ("stale", "unknown", "safe")]
    told = ", ".join(words for words in counts if not words.startswith("0 ")) or "no target"
    lines = [f"serving-watchdog: compile caches at {answer.at}: {told}"]
    for row in answer.caches:
        lines += ["", *_row(row, given_of(given, row.target), width)]
    return "\n".join(line.rstrip() for line in lines)


def confirmation(row: Row, found: Confirmed, step: str, width: int = WIDE) -> str:
    """Return whether the last start was cold, with each sign, as text."""
    lines = wrapped(f"serving-watchdog: {row.target}: {found.words()}", width, "")
    if found.start is not None and not found.why:
        lines += wrapped(_start_words(found.start), width)
    if found.signs:
        cells = [(sign.name, sign.says, sign.text) for sign in found.signs]
        lines += _drawn(("sign", "says", "why"), cells, width)
    lines += wrapped(f"next: {step}", width)
    return "\n".join(line.rstrip() for line in lines)


# --- one target ----------------------------------------------------------------------------------


def _row(row: Row, given: Given, width: int) -> Iterator[str]:
    yield f"{row.target}: {row.verdict}"
    if row.unknown:
        yield from wrapped(f"not known: {row.unknown}", width)
    if row.starts and not row.answers:
        yield "  it does not answer now: this is of its last process"
    if row.places and not row.looked:
        yield from wrapped(f"not known: {_as_of(row)}", width)
    if row.note:
        yield from wrapped(f"note: {row.note}", width)
    if row.now is not None:
        yield from _now(row.now, row, width)
    for place in row.places:
        yield from _place(place, row, width)
    yield from _starts(row.starts, width)
    if row.floors.by:
        yield from wrapped(_floors(row.floors), width)
    if row.asked is not None and row.looked:
        yield f"  its files were looked at {at(row.asked)}"
    yield from wrapped(f"next: {after_show(row, given)}", width)


def _as_of(row: Row) -> str:
    """Say of when the verdicts are, where nobody looks at the files now."""
    last = "" if row.asked is None else f", {at(row.asked)}"
    why = "" if row.answers else " while it does not answer"
    return f"what lies in its places{why or ' now'}: each verdict is as of the last look{last}"


def _now(now: Now, row: Row, width: int) -> Iterator[str]:
    part = ", partial: it can show a change and prove no sameness" if now.partial else ""
    which = "running" if row.answers else "last"
    yield from wrapped(f"{which} launch: {now.digest}{part}", width)
    told = [f"{factor.name} {factor.shown}".rstrip() for factor in now.factors[:MOST_FACTORS]]
    if len(now.factors) > MOST_FACTORS:
        told.append(f"{len(now.factors) - MOST_FACTORS} more (--json has all)")
    if told:
        yield from wrapped(f"factors: {'; '.join(told)}", width)
    for gap in now.unread:
        yield from wrapped(f"could not be read: {gap.part}: {gap.reason}", width)


def _place(place: Place, row: Row, width: int) -> Iterator[str]:
    notes = [place.kind, f"from {place.by}" if place.by else ""]
    if place.chosen:
        notes = [f"{', '.join(filter(None, notes))}: bypasses vLLM's key"]
    if place.here.startswith(PROCESS) and not row.answers:
        notes.append("as its process saw it")  # the way to it was that process
    elif place.here and place.here != place.path:
        notes.append(f"on this host {place.here}")
    elif row.container:
        notes.append("as its container sees it")
    when = "" if row.looked else " at the last look"
    yield f"  {place.path} ({', '.join(filter(None, notes))}): {place.verdict}{when}"
    told = [place.words] if place.words else []
    told.append(_holds(place))
    for line in told:
        yield from wrapped(line, width, DEEP)
    yield from _fills(place, width)
    for line in map(_made, place.made):
        yield from wrapped(line, width, DEEP)
    told = [f"set aside {at(copy.at)}: {copy.name}" for copy in place.aside]
    told += [f"stamp: {place.stamp}"] if place.stamp and place.looked else []
    told += [f"not all of it was seen: {place.cut}"] if place.cut else []
    told += [f"could not be read: {': '.join(unread)}" for unread in place.unread]
    for line in told:
        yield from wrapped(line, width, DEEP)


def _fills(place: Place, width: int) -> Iterator[str]:
    """Print the ledger, and how each launch differs from the running one."""
    if not place.fills:
        return
    cells = [
        (short(fill.digest), at(fill.first), at(fill.last), _HOW[fill.compiled],
         _known_from(fill))
        for fill in place.fills
    ]  # fmt: skip
    titles = ("used by", "first start", "last start", "how", "known from")
    yield from _drawn(titles, cells, width, DEEP)
    for fill in place.fills:
        if fill.changed:
            by = "by" if fill.changed == NOTHING_HERE else "by:"
            yield from wrapped(f"{short(fill.digest)} differs {by} {fill.changed}", width, DEEP)


def _known_from(fill: Fill) -> str:
    """Say who tells of a launch; a stamp has one start of it, a later one was seen."""
    told = _ORIGIN.get(fill.origin, fill.origin or NOTHING)
    later = fill.first is not None and fill.last is not None and fill.first < fill.last
    return f"{told}, and seen since" if fill.origin == STAMP and later else told


def _made(made: Made) -> str:
    """Say what vLLM itself noted of one of its key directories."""
    told = f"{made.path}: {at(made.oldest)} to {at(made.newest)}"
    told += f", {', '.join(made.parts)}" if made.parts else ""
    return f"{told}; for {made.config}" if made.config else told


def _holds(place: Place) -> str:
    if not place.looked:
        return "not looked at now"
    if place.missing:
        return "there is no such directory"
    if not place.files:
        return "no files in it" if not (place.cut or place.unread) else "no files were seen in it"
    told = f"{w.count(place.files)} file{'' if place.files == 1 else 's'}, {w.size(place.bytes)}"
    if place.oldest is None or place.newest is None:
        return told
    return f"{told}, compiled {at(place.oldest)} to {at(place.newest)}"


def _starts(starts: Sequence[Start], width: int) -> Iterator[str]:
    if not starts:
        return
    cells = [
        (at(one.start), NOTHING if one.up_seconds is None else w.span(one.up_seconds),
         one.verdict, short(one.digest), one.after_aside or NOTHING)
        for one in starts
    ]  # fmt: skip
    yield from _drawn(("start", "to answer", "was", "launch", "after set-aside"), cells, width)
    for one in starts:
        if one.changed:
            yield from wrapped(f"{at(one.start)} changed: {one.changed}", width)


def _start_words(start: Start) -> str:
    """Say when and how long; the floors that it was held against are those of its sign."""
    told = f"started {at(start.start)}"
    if start.up_seconds is not None:
        told += f", answered after {start.up_seconds:.0f} s"
    if start.after_aside == REPLACED:
        return f"{told}, after its directory was replaced by another one"
    return f"{told}, after {start.after_aside} was set aside" if start.after_aside else told


def _floors(floors: FloorsRow) -> str:
    def seconds(value: float | None) -> str:
        return "not known" if value is None else f"{value:.0f} s"

    return f"{floors.by}: cold floor {seconds(floors.cold)}, warm floor {seconds(floors.warm)}"


# --- words ---------------------------------------------------------------------------------------


def at(text: str | None) -> str:
    """Return `2026-11-30 03:12Z` of an RFC 3339 time."""
    return NOTHING if text is None else f"{text[:10]} {text[11:16]}Z"


def short(digest: str) -> str:
    return digest[:SHORT] or NOTHING


def wrapped(text: str, width: int, indent: str = "  ") -> list[str]:
    """Break a text at spaces, but not in a `command`; later lines are further to the right."""
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _SPACE), text)
    lines = textwrap.wrap(
        whole, width, initial_indent=indent, subsequent_indent=f"{indent}  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_SPACE, " ") for line in lines]


def _drawn(
    titles: Iterable[str], rows: Iterable[Sequence[str]], width: int, indent: str = "  "
) -> list[str]:
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for title in titles:
        drawn.add_column(title, overflow="fold")
    for cells in rows:
        drawn.add_row(*map(Text, cells))  # Text: no markup
    console = Console(file=(page := io.StringIO()), width=width - len(indent), color_system=None)
    console.print(drawn)
    return [indent + line.rstrip() for line in page.getvalue().rstrip("\n").split("\n")]
