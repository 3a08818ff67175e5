"""Prints the story: short lines with the simulated clock, readable without colour."""

from __future__ import annotations

import logging
import shutil
import textwrap
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TextIO

from watchdog import logs
from watchdog.clock import Clock

WIDEST: Final = 100
INDENT: Final = 17
"""Columns of the clock and of who speaks."""

ALERT_LOG: Final = "watchdog.alerts"
SHOWN: Final = ("alertname", "severity", "target", "engine", "was", "state")
"""What is shown of a line that the log sink writes; the whole of it has some 1,500 characters."""


@dataclass
class Narrator:
    """Writes to `out`; for any thread. Time 0 is when it was made."""

    clock: Clock
    out: TextIO
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._began = self.clock.now()
        self._width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)

    def say(self, who: str, text: str, at: float | None = None) -> None:
        """Say one thing; `at` on the clock's timeline, now if not given."""
        passed = max(0, int((self.clock.now() if at is None else at) - self._began))
        self._wrapped(f"{passed // 60:02}:{passed % 60:02}  {who:<8}  ", text)

    def add(self, text: str, label: str = "") -> None:
        """Add to what was said last."""
        self._wrapped(" " * INDENT + (f"{label:<10} " if label else ""), text)

    def explain(self, text: str) -> None:
        """Say what the line before means."""
        self._wrapped(" " * INDENT + "-> ", text)

    def paragraphs(self, texts: Iterable[str]) -> None:
        """Write texts without a clock; an empty one is an empty line."""
        for text in texts:
            self._wrapped("", text)

    def _wrapped(self, start: str, text: str) -> None:
        lines = textwrap.wrap(
            text,
            max(self._width, len(start) + 30),
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_long_words=False,
            break_on_hyphens=False,
        )
        with self._lock:
            print("\n".join(lines), file=self.out, flush=True)


class LogLines(logging.Handler):
    """Shows what the log sink writes, shortened; the rest of the log only from warnings on."""

    def __init__(self, narrator: Narrator) -> None:
        super().__init__()
        self._narrator = narrator

    def emit(self, record: logging.LogRecord) -> None:
        """Show one line."""
        event = record.msg if isinstance(record.msg, dict) else {}
        pairs = " ".join(f"{key}={event[key]}" for key in SHOWN if key in event)
        self._narrator.say("log", f"{event.get('event', record.getMessage())}: {pairs}")


def show_alert_log(narrator: Narrator) -> None:
    """Send the program's log to standard error from warnings on, and alerts to the narrator."""
    logs.configure(style="plain", level="info")
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)
    alerts = logging.getLogger(ALERT_LOG)
    alerts.handlers[:] = [LogLines(narrator)]
    alerts.propagate = False
