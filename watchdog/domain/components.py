"""
Versions of the parts of a server's stack that a banner in its log shows.

`radiance 0.9.3 / vllm 0.27.1 / torch 2.11.0+rocm7.14` is a banner, in one line or one part a line.
A line that says more about a version, such as that it is too old, is none: what it names need not
be what runs.
"""

from __future__ import annotations

import re
from typing import Final

from watchdog.domain.log_prefix import message

MOST: Final = 400
"""Characters of a message that can be a banner."""

NAMES: Final = (
    "radiance",
    "aiter",
    "vllm",
    "torch",
    "triton",
    "transformers",
    "rocm",
    "flashinfer",
)

_PAIR: Final = re.compile(
    rf"\[?({'|'.join(NAMES)})\]?(?: version|:|=+|/|@)? *"
    r"v?(\d{1,5}(?:\.\d{1,8})+[\w.+-]{0,40})",
    re.IGNORECASE,
)
_BETWEEN: Final = re.compile(r"[\s,/|;\u00b7]+(?:and |with )?")
_BEFORE: Final = re.compile(
    r"(?:using |loaded |(?:component |version )?(?:banner|components|versions|stack)\b:? *)",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    r"[\s.!]*(?:\([^()]{0,80}\))?(?: (?:loaded|ready|enabled|initialized|starting|started))?[\s.!]*"
)
_FRAME: Final = " \t=*-#|_~\u2550\u2500\u2551\u2502\u2503\u00b7\u2022"


def may_show(line: str) -> bool:
    """Whether a component and a version are in a line at all."""
    return _PAIR.search(line, 0, 4 * MOST) is not None


def components_of(text: str) -> dict[str, str]:
    """Return versions by the component's name in small letters; none where it is no banner."""
    if len(text) > 2 * MOST or not may_show(text):
        return {}
    line = message(text).strip(_FRAME)[:MOST]
    before = _BEFORE.match(line)
    at = 0 if before is None else before.end()
    told: dict[str, str] = {}
    while (pair := _PAIR.match(line, at)) is not None:
        told[pair[1].lower()] = pair[2].rstrip(".-")
        at = pair.end()
        between = _BETWEEN.match(line, at)
        if between is None or _PAIR.match(line, between.end()) is None:
            break
        at = between.end()
    return told if told and _BEHIND.fullmatch(line, at) else {}
