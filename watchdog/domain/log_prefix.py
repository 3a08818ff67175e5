"""
What stands in front of a server's own words in its log, and when a line was written.

Journals, containers and collectors put something before each line or wrap it in JSON, and vLLM
itself names its process, a level and a date without year and zone. Nothing here judges a message.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

MOST_LINE: Final = 65_536
"""Characters of a line that are looked at; vLLM's longest has about 8000."""

DAY: Final = 86_400.0
YEAR: Final = 366 * DAY
"""Seconds of a year that has a 29 February: dates in the log tell no year."""

_COLOURS: Final = re.compile(r"(?:\x1b|#033)\[[0-9;]*m")  # the second: as rsyslog writes it
_TEXTS: Final = ("log", "MESSAGE", "message", "msg")
_TIMES: Final = ("time", "timestamp", "ts", "@timestamp")
_ABSOLUTE: Final = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z|[+-]\d\d:?\d\d)(?=\s|$)"
)
_LEVEL: Final = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+"
_DATED: Final = re.compile(rf"\b{_LEVEL}(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
_FRONT: Final = re.compile(
    rf"\s*(?:{_LEVEL}\d\d-\d\d [\d:]{{8}} \[?[\w./]+:\d+\]"  # vLLM's own
    r"|\([\w. =-]{1,60}\)"  # its process: (EngineCore_DP0 pid=27)
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S{1,120} [^\s:]{1,120}:"  # a journal
    r"|\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?(?: std(?:out|err) [FP](?= ))?"
    r"|[\w.-]{1,60} +\|(?= ))(?=\s|$)"  # several containers in one log
)


class Line(NamedTuple):
    """`text`: without wrapping and colours; `at`: Unix seconds, where the wrapping tells."""

    text: str
    at: float | None = None


def unwrapped(line: str) -> Line:
    """Take a line out of what a container's or a journal's JSON put around it."""
    line = line[:MOST_LINE].rstrip("\r\n")
    text, at = line, None
    if line.lstrip()[:1] == "{":
        whole = _object(line)
        told = next((whole[key] for key in _TEXTS if key in whole), line)
        text = told if isinstance(told, str) else line
        at = _moment(next((whole[key] for key in _TIMES if key in whole), None))
        micro = whole.get("__REALTIME_TIMESTAMP")
        if at is None and isinstance(micro, str) and micro.isdecimal():
            at = int(micro[:20]) / 1e6
    text = _COLOURS.sub("", text).rstrip("\r\n")
    return Line(text, _moment(text) if at is None else at)


def message(text: str) -> str:
    """Return a line without what stands in front of its message."""
    end = 0
    while (found := _FRONT.match(text, end)) is not None and found.end() > end:
        end = found.end()
    return text[end:].strip()


def dated(text: str) -> float | None:
    """Return vLLM's own date as seconds since a year began; it tells neither year nor zone."""
    found = _DATED.search(text)
    if found is None:
        return None
    month, day, hour, minute, second = map(int, found.groups())
    try:
        since = datetime(2000, month, day, hour, minute, second) - datetime(2000, 1, 1)  # noqa: DTZ001
    except ValueError:
        return None
    return since.total_seconds()


def apart(first: float, last: float) -> float:
    """Return the seconds from one such date to a later one; a year may have ended between them."""
    return last - first if last >= first else last - first + YEAR


def _object(line: str) -> dict[str, Any]:
    try:
        whole = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return whole if isinstance(whole, dict) else {}


def _moment(text: Any) -> float | None:
    """Return the Unix time that a text begins with, where it tells its zone."""
    found = _ABSOLUTE.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    date, clock, zone = found.groups()
    zone = "+00:00" if zone == "Z" else f"{zone[:3]}:{zone[-2:]}"
    try:
        return datetime.fromisoformat(f"{date}T{clock}{zone}").astimezone(timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
