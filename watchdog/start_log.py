"""
The last start that a server's log tells of, read from the end of the file.

A log may be of any size, and what matters of a start stands at its beginning. So the file is read
from further and further back until the first lines of a start are in what was read, or a bound
is reached; then that is said. Only a regular file is opened, and nothing is written.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from watchdog.domain.log_prefix import DAY, MOST_LINE, YEAR, apart, dated, unwrapped
from watchdog.domain.start_lines import StartLines, When
from watchdog.domain.start_wordings import WORDS
from watchdog.regular_files import OddFileError, opened

STEPS: Final = (1 << 20, 8 << 20, 64 << 20)
"""Bytes from the end that are read, one after the other, until a start's beginning is there."""

BLOCK: Final = 1 << 18
BEFORE: Final = 1 << 16
"""Bytes that must be read before a start's first line: a banner may stand there."""

SLACK: Final = 60.0
"""Seconds by which a line may be older than its process: clocks, and what a launcher says."""

LATE: Final = 6 * 3600.0
LONG: Final = 27 * DAY
"""Seconds between two dates: summer time may have begun, or a February had 28 days only."""

_WORDS: Final = tuple(word.encode() for word in WORDS)
_PACKED: Final = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2",
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """
    What a log says. `facts` as the fact `log` has them; `seen`: inode and size of the file.

    `written`: Unix seconds of the last write, `last`: when its last line was written as it says.
    """

    facts: dict[str, Any]
    marked: When = field(default_factory=When)
    seen: tuple[int, int] = (0, 0)
    written: float | None = None
    last: float | None = None

    def older_than(self, start: float) -> str:
        """Say why nothing in it can be of a process that began then; "" where it may be."""
        if self.written is not None and self.written < start - SLACK:
            return "nothing was written to it since the process began"
        latest = self._latest()
        if not self.facts["began"] or latest is None or latest >= start:
            return ""
        return "the last start in it is older than the process"

    def _latest(self) -> float | None:
        """
        Return the latest time, in Unix seconds, at which its last start can have begun.

        Without a zone: its last line was written no later than the file, and the start as long
        before that line as the two dates are apart.
        """
        if self.marked.at is not None:
            return self.marked.at + SLACK
        if self.marked.naive is None or self.last is None or self.written is None:
            return None
        since = apart(self.marked.naive, self.last)
        if since > YEAR - DAY:  # out of order by little: not a year
            return None
        return self.written - since + _slack(since)


def read(path: Path, deadline: float) -> Found:
    """
    Read the last start in a file. `deadline` in monotonic seconds.

    Raises OSError, with words for `regular_files.why`.
    """
    with opened(path) as (descriptor, known):
        # Of what has no size, such as the kernel's log, a read may take away what others wait for.
        _refuse_packed(os.pread(descriptor, min(8, known.st_size), 0))
        best, cut = _Pass(), ""
        for step in STEPS:
            begin = max(0, known.st_size - step)
            this = _pass(descriptor, begin, known.st_size, deadline)
            if this is None:  # what was read of it is the older part: worth nothing
                cut = "it could not be read in time"
                break
            best = this
            if begin == 0 or best.whole:
                break
        else:
            cut = f"only the last {STEPS[-1] >> 20} MiB were read"
    lines = best.lines
    return Found(
        {"path": str(path), **lines.facts(), "cut": "" if lines.began else cut},
        lines.marked,
        (known.st_ino, known.st_size),
        known.st_mtime,
        _last_date(best.tail),
    )


def of_stream(stream: IO[bytes], name: str = "-", most: int = 1 << 30) -> Found:
    """Read the last start in what comes through a pipe, at most so many bytes."""
    lines, left, cut = _Lines(StartLines()), most, ""
    while block := stream.read(min(BLOCK, left)):
        lines.add(block)
        left -= len(block)
        if left <= 0:
            cut = f"only the first {most >> 20} MiB were read"
            break
    lines.end()
    return Found({"path": name, **lines.to.facts(), "cut": cut}, lines.to.marked)


def _slack(since: float) -> float:
    if since > LONG:
        return DAY + 3600.0 + SLACK
    return 3600.0 + SLACK if since > LATE else SLACK


@dataclass
class _Lines:
    """Cuts blocks into lines, and passes on those of blocks that can matter."""

    to: StartLines
    rest: bytes = b""

    def add(self, block: bytes) -> None:
        """Take a block."""
        data = self.rest + block
        end = data.rfind(b"\n") + 1
        self.rest = data[end:][: 2 * MOST_LINE]  # the end of a line too long is of no use
        self._feed(data[:end])

    def end(self) -> None:
        """Take what is left as the last line."""
        self._feed(self.rest)
        self.rest = b""

    def _feed(self, data: bytes) -> None:
        if not any(word in data for word in _WORDS):
            return
        for line in data.split(b"\n"):
            self.to.feed(line[:MOST_LINE].decode("utf-8", "replace"))


@dataclass(frozen=True)
class _Pass:
    """What one reading gave; `whole`: the last start began in it, and something stood before."""

    lines: StartLines = field(default_factory=StartLines)
    whole: bool = False
    tail: bytes = b""


def _pass(descriptor: int, begin: int, end: int, deadline: float) -> _Pass | None:
    """
    Read from `begin` to `end`; None where there was no time for it.

    Where it begins inside a line, that line's end is passed on too: it matches nothing.
    """
    lines, tail = _Lines(StartLines()), b""
    started, at, position = 0, begin, begin
    while position < end:
        if time.monotonic() >= deadline:
            return None
        block = os.pread(descriptor, min(BLOCK, end - position), position)
        if not block:  # it was truncated meanwhile
            break
        lines.add(block)
        if lines.to.started != started:
            started, at = lines.to.started, position
        position += len(block)
        tail = (tail + block)[-BEFORE:]
    lines.end()
    return _Pass(lines.to, lines.to.headed and at - begin >= BEFORE, tail)


def _last_date(tail: bytes) -> float | None:
    """Return the date of the last line that has one."""
    for line in reversed(tail.split(b"\n")):
        found = dated(unwrapped(line[:MOST_LINE].decode("utf-8", "replace")).text)
        if found is not None:
            return found
    return None


def _refuse_packed(begin: bytes) -> None:
    for magic, kind in _PACKED.items():
        if begin.startswith(magic):
            raise OddFileError(f"is packed ({kind}); name the file that the server writes now")
