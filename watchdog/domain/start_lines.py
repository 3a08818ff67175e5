"""
vLLM's start-up lines: which start is the last one in a log, and what its compile cache did.

A start begins at the server's first lines (its version, its arguments) or, where a log has none,
at the line of an engine that initializes. Several processes of one start say these: they are one
start until something of it was done, such as a graph that was loaded or compiled. A request's text
may hold the same words, so a line that quotes them is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from watchdog.domain.components import components_of, may_show
from watchdog.domain.log_prefix import MOST_LINE, Line, dated, unwrapped
from watchdog.domain.masking import masked_text
from watchdog.domain.start_wordings import DONE, HEAD, MARKS, WORDS, Row
from watchdog.domain.texts import one_line

MOST_DIRECTORIES: Final = 8
MOST_COMPONENTS: Final = 16
MOST_ENGINES: Final = 1024
MOST_PATH: Final = 200
MOST_VERSION: Final = 64
MOST_EXAMPLE: Final = 240
MOST_TAG: Final = 45  # characters of a tag, or of words, in front of a row's own
MOST_MASKED: Final = 4096  # characters of a text that is to be kept, before it is cut
MOST_FRONT: Final = 300
"""Characters in front of vLLM's words; further behind they are quoted by another line."""

_QUOTING: Final = re.compile(r"Received request|Generated response|prompt\b|['\"`]$")
_PROCESS: Final = re.compile(r"\(([A-Za-z]+(?:_\w+)?)(?: \w+=\w+){0,4} pid=\d+\)")
_WORKER: Final = re.compile(r"ApiServer_\d+")
_SPECULATIVE: Final = re.compile(r"\bspeculative_config=(None\b|SpeculativeConfig\()")
_KEYS: Final = {
    "method": re.compile(r"\bmethod='([^']{1,64})'"),
    "model": re.compile(r"\b(?:draft_)?model='([^']{1,400})'"),
    "num_spec_tokens": re.compile(r"\bnum_spec_tokens=(\d{1,4})"),
}


class When(NamedTuple):
    """
    When a line was written, as far as it tells.

    `at`: Unix seconds; `naive`: seconds of a year that it does not name, in a zone it does not.
    """

    at: float | None = None
    naive: float | None = None


NEVER: Final = When()


@dataclass
class _Start:
    """What is known of one start."""

    head: bool = False
    engines: set[str] = field(default_factory=set)
    done: bool = False
    marked: When = NEVER  # its last mark
    version: str | None = None
    speculative: dict[str, Any] | None = None
    components: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    init: float | None = None
    compiling: float | None = None
    totals: dict[str, float] = field(default_factory=dict)


class StartLines:
    """Takes a log line by line; `facts` are those of the last start in it."""

    def __init__(self) -> None:
        self.started = 0  # how many starts began in what was taken
        self._start: _Start | None = None
        self._shown: dict[str, str] = {}  # components told since something was done last

    def feed(self, line: str) -> None:
        """Take the next line, as it stands in the log."""
        matters = any(word in line for word in WORDS)
        if not matters and not may_show(line):
            return
        read = unwrapped(line)
        told = components_of(read.text)
        if told:
            self._components(told)
        if not matters:
            return
        for row in MARKS:
            found = _said(row, read.text)
            if found is not None:
                self._mark(row.kind, found, read)
                return
        if self._start is None:  # of a start whose beginning is not here: whose, nobody knows
            return
        for row in DONE:
            found = _said(row, read.text)
            if found is not None:
                self._do(self._start, row.kind, found)
                return

    @property
    def began(self) -> bool:
        """Whether the beginning of a start was seen."""
        return self._start is not None

    @property
    def headed(self) -> bool:
        """Whether it began with the server's own first lines: nothing of it stands before."""
        return self._start is not None and self._start.head

    @property
    def marked(self) -> When:
        """When the last of the lines was written that begin the last start."""
        return NEVER if self._start is None else self._start.marked

    def facts(self) -> dict[str, Any]:
        """Return what the last start says, as plain data."""
        start = self._start or _Start()
        counts = start.counts
        whole = sum(start.totals.values()) if start.totals else None
        return {
            "began": self.began,
            "version": start.version,
            "components": dict(sorted(start.components.items())),
            **{key: counts.get(key, 0) for key in ("hits", "aot_hits", "compiled", "stored")},
            "load_failures": counts.get("load_failures", 0),
            "off": "off" in counts,
            "directories": start.directories,
            "init_seconds": start.init,
            "compile_seconds": whole if start.compiling is None else start.compiling,
            "speculative": start.speculative,
            "example_hit": start.examples.get("hits") or start.examples.get("aot_hits", ""),
            "example_compiled": start.examples.get("compiled", ""),
        }

    def _components(self, told: dict[str, str]) -> None:
        """Lay them to this start and, since a banner may precede it, to the next one."""
        parts = [self._shown]
        if self._start is not None:
            parts.append(self._start.components)
        for part in parts:
            for name, version in told.items():
                if name in part or len(part) < MOST_COMPONENTS:
                    part[name] = version

    def _mark(self, kind: str, found: re.Match[str], read: Line) -> None:
        process = _PROCESS.search(read.text, 0, found.start())
        name = "" if process is None else process[1]
        start = self._start
        if start is None or (start.done and _is_new(start, kind, name)):
            start = self._start = _Start(components=dict(self._shown))
            self._shown = {}
            self.started += 1
        start.marked = When(read.at, dated(read.text))
        version = found.groupdict().get("version")
        start.version = start.version if version is None else _clean(version, MOST_VERSION)
        if kind == HEAD:
            start.head = True
            return
        if len(start.engines) < MOST_ENGINES:
            start.engines.add(name)
        start.speculative = _speculative(read.text)

    def _do(self, start: _Start, kind: str, found: re.Match[str]) -> None:
        start.done = True
        self._shown = {}
        start.counts[kind] = start.counts.get(kind, 0) + 1
        start.examples.setdefault(kind, _clean(found[0], MOST_EXAMPLE))
        told = found.groupdict()
        if kind == "directory":
            path = _clean(told["path"], MOST_PATH)
            if path not in start.directories and len(start.directories) < MOST_DIRECTORIES:
                start.directories.append(path)
        elif kind == "init":
            start.init = _larger(start.init, told["took"])
            if told["compile"] is not None:
                start.compiling = _larger(start.compiling, told["compile"])
        elif kind == "total":  # each rank says it of each part: the slowest rank of each
            tag = told["tag"] or ""
            if tag in start.totals or len(start.totals) < MOST_COMPONENTS:
                start.totals[tag] = _larger(start.totals.get(tag), told["took"])


def _is_new(start: _Start, kind: str, name: str) -> bool:
    """
    Whether a mark begins another start, after one that has done something already.

    One of several API servers begins none. An engine begins none where the server's own lines
    begin each, nor where it is a rank that was late.
    """
    if kind == HEAD:
        return _WORKER.fullmatch(name) is None
    return not start.head and (name in start.engines or "_DP" not in name)


def _said(row: Row, text: str) -> re.Match[str] | None:
    """Return where vLLM says it; not where a line quotes it, such as one of a request."""
    at = text.find(row.word)
    if at < 0 or at > MOST_FRONT + MOST_TAG:
        return None
    found = row.pattern.search(text, max(0, at - MOST_TAG), MOST_LINE)
    if found is None or found.start() > MOST_FRONT or _QUOTING.search(text[: found.start()]):
        return None
    return found


def _speculative(text: str) -> dict[str, Any] | None:
    found = _SPECULATIVE.search(text)
    if found is None or found[1] == "None":
        return None
    inside = text[found.end() :].partition(")")[0]
    told = {key: pattern.search(inside) for key, pattern in _KEYS.items()}
    method, model, depth = (None if part is None else part[1] for part in told.values())
    return {
        "method": None if method is None else _clean(method, MOST_VERSION),
        "model": None if model is None else _clean(model, MOST_PATH),
        "num_spec_tokens": None if depth is None else int(depth),
    }


def _clean(text: str, most: int) -> str:
    return one_line(masked_text(text[:MOST_MASKED]), most)


def _larger(old: float | None, text: str) -> float:
    return max(float(text), old or 0.0)
