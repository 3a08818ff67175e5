"""
What vLLM says while it starts, as data: the lines that begin a start, and those of its cache.

Wordings are those of 0.8.5 to 0.33 (`compilation/backends.py`, `decorators.py`, `monitor.py`,
`v1/engine/core.py`). Newer releases put the part that is compiled in front: `[backbone] `.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

WORDS: Final = (
    "LLM engine (v", "API server version", "non-default args", "\u2588", "torch.compile",
    "compiled graph(s)", "Compiling a graph", "Compiling model again", "Cache the graph",
    "AOT compil", "init engine", "adiance", "aiter", "AITER",
)  # fmt: skip
"""One of these is in each line that matters; a server at work writes none of them."""

HEAD, ENGINE = "head", "engine"
_NUMBER: Final = r"(\d{1,9}(?:\.\d{1,9})?)"
_TAG: Final = r"(?:\[(?P<tag>\w{1,40})\] )?"


class Row(NamedTuple):
    """A line of vLLM: `word` is in each, and finds it faster than `pattern`, which then decides."""

    kind: str
    word: str
    pattern: re.Pattern[str]


def _row(kind: str, word: str, behind: str) -> Row:
    return Row(kind, word, re.compile(_TAG + re.escape(word) + behind))


MARKS: Final = (
    _row(HEAD, "non-default args: {", ""),
    _row(HEAD, "vLLM API server version ", r"v?(?P<version>\d[\w.+!-]{0,60})"),
    _row(HEAD, "\u2588  version ", r"v?(?P<version>\d[\w.+!-]{0,60})"),
    Row(ENGINE, "LLM engine (v", re.compile(
        r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[^)\s]{1,60})\) with config")),
)  # fmt: skip

DONE: Final = (
    _row("hits", "Directly load the compiled graph(s) for ",
         rf".{{1,80}} from the cache, took {_NUMBER} s"),
    _row("aot_hits", "Directly load AOT compilation from path ", r".*/"),
    _row("compiled", "Compiling a graph for ", rf".{{1,80}} takes {_NUMBER} s"),
    _row("stored", "Cache the graph ", r"(?:of|for) .{1,80} for later use"),
    _row("stored", "saved AOT compiled function to ", r".*/"),
    _row("load_failures", "Compiling model again due to a load failure from ", r".*/"),
    _row("off", "vLLM's torch.compile cache is disabled", ""),
    _row("directory", "Using cache directory: ",
         r"(?P<path>[^/]{0,9}/.{0,999}?) for vLLM's torch\.compile"),
    _row("init", "init engine (",
         rf".{{1,80}}\) took (?P<took>{_NUMBER}) s(?:econds)?"
         rf"(?: \(compilation: (?P<compile>{_NUMBER}) s\))?"),
    _row("total", "torch.compile ",
         rf"(?:and .{{1,60}} together )?t(?:akes|ook) (?P<took>{_NUMBER}) s in total"),
)  # fmt: skip
