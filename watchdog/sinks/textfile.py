"""
The textfile sink: our metrics as a file that node_exporter's textfile collector reads.

For hosts where nobody may scrape our port. The file is exchanged whole: a reader sees the last
round or the one before, never a part.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from watchdog.domain.notice import is_test
from watchdog.domain.report import Delivery, Report

NAME: Final = "textfile"
MODE: Final = 0o644
"""node_exporter runs as a user of its own."""


@dataclass
class Textfile:
    """`path` ends in .prom, or the collector does not read it; `expose` makes its text."""

    path: Path
    expose: Callable[[Report], bytes]
    name: str = field(default=NAME, init=False)

    def send(self, report: Report, deadline: float) -> list[Delivery]:  # noqa: ARG002
        """Write the file, at every round: its time of change says that we are alive."""
        try:
            if is_test(report):
                self._try()
                detail = "can be written"
            else:
                self._exchange(self.expose(report))
                detail = "written"
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            detail = f"cannot write {self.path}: {reason}"
            return [Delivery(NAME, str(self.path), ok=False, detail=detail, count=1)]
        return [Delivery(NAME, str(self.path), ok=True, detail=detail, count=1)]

    def _exchange(self, text: bytes) -> None:
        beside = self._beside("new")
        try:
            _write(beside, text)
            # No fsync: what a power cut loses, the next round writes again.
            beside.replace(self.path)
        except OSError:
            _remove(beside)
            raise

    def _try(self) -> None:
        """Write beside the file and leave it alone: it is the daemon's, and a test has no data."""
        beside = self._beside("test")
        try:
            _write(beside, b"")
        finally:
            _remove(beside)

    def _beside(self, what: str) -> Path:
        """
        One name for ever, so that what a killed run left is overwritten by the next.

        In the same folder, because only within a file system a file can be exchanged whole.
        """
        return self.path.with_name(f".{self.path.name}.{what}")


def _write(path: Path, text: bytes) -> None:
    path.unlink(missing_ok=True)
    # Made anew and exclusively: in a folder that others can write to, it may be their link.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, MODE), "wb") as file:  # noqa: PTH123  flags need os.open
        os.fchmod(file.fileno(), MODE)  # whatever the umask is
        file.write(text)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
