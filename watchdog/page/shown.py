"""Values to text that may stand on a page: visible, bounded, and the same for everybody."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from itertools import islice
from typing import Final

from markupsafe import Markup

from watchdog.domain.finding import FOR_MACHINES

MOST_TEXT: Final = 2000
MOST_NAME: Final = 120
"""Characters that are shown of a sentence, and of a name."""

MOST_PARTS: Final = 64
"""Parts that are shown of a list: as many as a drafter may have positions."""

_DEEPEST: Final = 4


def shown(value: object) -> object:
    """
    Return what the template prints of any value; it escapes it afterwards.

    Applied by the template to everything it prints, so that no place can forget it. Only our own
    styles and script are Markup.
    """
    if isinstance(value, Markup):
        return value
    return "" if value is None else visible(str(value))


def name(value: object) -> str:
    """Return a name as it is shown: a server may call its model what it likes, 10 kB even."""
    return visible(str(value), MOST_NAME)


def visible(text: str, most: int = MOST_TEXT) -> str:
    r"""Cut a text, and write what cannot be seen, or turns others around, as in `\u202e`."""
    if len(text) > most:
        text = f"{text[:most]}… ({len(text):,} characters)"
    if text.isprintable():
        return text
    return "".join(_seen(c) for c in text)


def _seen(c: str) -> str:
    return c if c.isprintable() else " " if c.isspace() else repr(c)[1:-1]


def pairs(evidence: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return names and values as people read them, without what is empty."""
    told = ((key, value) for key, value in evidence.items() if key not in FOR_MACHINES)
    kept = ((key, value) for key, value in told if value not in (None, [], {}, ()))
    return [(name(key).replace("_", " "), figure(value)) for key, value in kept if value != ""]


def figure(value: object, depth: int = 0) -> str:
    """Return a number, a list or a table of such in one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, (list, tuple, Mapping)):
        return "…" if depth == _DEEPEST else _joined(value, depth + 1)
    return str(value)


def number(value: float) -> str:
    """Return `1,700`, `0.0667`, `3.77`; a measured one has four figures."""
    if isinstance(value, int) or (math.isfinite(value) and value == round(value)):
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _joined(value: Collection[object] | Mapping[str, object], depth: int) -> str:
    more = " …" if len(value) > MOST_PARTS else ""
    if isinstance(value, Mapping):
        first = islice(value.items(), MOST_PARTS)
        return ", ".join(f"{key}: {figure(part, depth)}" for key, part in first) + more
    return " ".join(figure(part, depth) for part in islice(value, MOST_PARTS)) + more


def clock(at: float, now: float) -> str:
    """Return the time of day in UTC, with the day where it is another than that of `now`."""
    try:
        moment = datetime.fromtimestamp(at, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
    same = moment.date() == datetime.fromtimestamp(now, timezone.utc).date()
    day = "" if same else f"{moment.day} {moment:%b} "
    return f"{day}{moment:%H:%M:%S} UTC"
