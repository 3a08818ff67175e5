"""
How the program logs: to standard error, readable on a terminal, JSON in the journal.

Lines are bounded, and what a server sent cannot break one or steer the terminal. Under systemd
each begins with `<N>`, the priority that the journal reads (sd-daemon(3)).
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback

LONGEST_LINE: Final = 8192
"""Bytes of a line; journald cuts at 48 kB, and nobody reads as far."""

_LONGEST_VALUE: Final = 1000  # characters kept of each value of a JSON line that is too long
_CUT: Final = " ... (cut)"

PRIORITIES: Mapping[str, int] = {
    "debug": 7, "info": 6, "warning": 4, "error": 3, "exception": 3, "critical": 2,
}  # fmt: skip
"""Level: priority of syslog."""

QUIETER: Mapping[str, int] = {
    "apscheduler": logging.WARNING,
    "urllib3": logging.WARNING,
    "waitress": logging.ERROR,  # its queue depth at every second request
    "werkzeug": logging.WARNING,
}

Event = MutableMapping[str, Any]


def configure(style: str = "auto", level: str = "info") -> None:
    """
    Send every log, ours and that of the libraries, to standard error.

    `style` is "plain", "json", or "auto": JSON if standard error is the journal, else plain.
    """
    journal = is_journal()
    plain = style == "plain" or (style == "auto" and not journal)
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_plain() if plain else _json()),
                _prioritised if journal else _unchanged,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in QUIETER.items():
        logging.getLogger(name).setLevel(least)


def is_journal() -> bool:
    """Whether standard error is the journal; systemd tells its device and inode."""
    told = os.environ.get("JOURNAL_STREAM", "")
    try:
        stream = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # no standard error, or one that is no file
        return False
    return told == f"{stream.st_dev}:{stream.st_ino}"


def _plain() -> list[Callable[..., Any]]:
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    console = ConsoleRenderer(colors=colors, exception_formatter=plain_traceback)

    def render(logger: Any, method: str, event: Event) -> tuple[str, str]:
        level = str(event.get("level", "info"))
        cleaned = {key: _harmless(value) for key, value in event.items()}
        return level, _cut(console(logger, method, cleaned), LONGEST_LINE)

    return [render]


def _json() -> list[Callable[..., Any]]:
    def render(_logger: Any, _method: str, event: Event) -> tuple[str, str]:
        level = str(event.get("level", "info"))
        line = _dumps(event)
        if len(line) > LONGEST_LINE:
            line = _dumps({key: _shorter(value) for key, value in event.items()})
        if len(line) > LONGEST_LINE:
            kept = ("timestamp", "level", "logger", "event")
            line = _dumps(
                {key: _shorter(event[key]) for key in kept if key in event} | {"cut": True}
            )
        return level, line

    return [structlog.processors.format_exc_info, render]


def _prioritised(_logger: Any, _method: str, line: Any) -> str:
    level, text = line
    prefix = f"<{PRIORITIES.get(level, 6)}>"
    return "\n".join(prefix + part for part in text.split("\n"))


def _unchanged(_logger: Any, _method: str, line: Any) -> str:
    return str(line[1])


def _dumps(event: Mapping[str, Any]) -> str:
    """ASCII only, so that characters are bytes and no odd one can break a line."""
    return json.dumps(event, default=str)


def _shorter(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + _CUT


def _harmless(value: Any) -> Any:
    """Escape what could begin a line or steer a terminal; a traceback is no string yet."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in value[:LONGEST_LINE])


def _cut(line: str, most: int) -> str:
    raw = line.encode("utf-8", "backslashreplace")
    if len(raw) <= most:
        return raw.decode("utf-8")
    return raw[: most - len(_CUT)].decode("utf-8", "ignore") + _CUT
