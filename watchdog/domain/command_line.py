"""
vLLM's command line as options, whichever way and in whichever order they were written.

Read as vLLM's own parser reads it (`FlexibleArgumentParser`, 0.8 to 0.33). What is kept or shown
of a command line goes through `masked` first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from watchdog.domain.command_line_words import LONG, MANY, SHORT, is_flag
from watchdog.domain.factors import known
from watchdog.domain.masking import DEEPEST, MASKED, is_secret, masked_data, masked_text

__all__ = ["is_secret", "masked", "options"]

REST: Final = "arguments"
"""Words that belong to no option, beyond the model."""

_NUMBER: Final = re.compile(r"-\d+(?:\.\d*)?|-\.\d+")
_GIVEN: Final = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_SAID: Final = ("true", "false")
_OBJECT: Final = "compilation-config"
_SINGLE: Final = "hf-token"
"""The one secret option of vLLM that takes one word: the model may follow it."""


def options(argv: Sequence[str]) -> dict[str, str]:
    """
    Return long names and canonical values: flags are `true` or `false`, lists and objects JSON.

    `--no-x` is `x` false, `--a.b v` goes into the object of `a`, and the model is `model`,
    wherever it stands. Of an option that is given twice the last one counts, as in vLLM.
    """
    found: dict[str, str] = {}
    inside: dict[str, dict[str, Any]] = {}
    loose: list[str] = []
    for name, path, values in _read(_arguments(argv)):
        if not name:
            loose += values
        elif path:
            _put(inside.setdefault(name, {}), path, values)
        else:
            found[name] = values[0] if len(values) == 1 else _dumped(values)
    for name, parts in inside.items():
        whole = _parsed(found.get(name, "{}"))
        if not isinstance(whole, dict):
            whole = {"": whole}
        found[name] = _dumped(_merged(whole, parts))
    if loose and "model" not in found:
        found["model"] = loose.pop(0)
    if loose:
        found[REST] = _dumped(sorted(loose))
    return {name: _canonical(value) for name, value in sorted(found.items())}


def masked(argv: Sequence[str]) -> list[str]:
    """
    Return the same words with `...` for each secret.

    All words behind a secret option are its values, up to the next option; and the first one is
    in any case, unless it is an option that is known.
    """
    shown: list[str] = []
    hiding, fresh = "", False  # the option whose values may come; whether none has come yet
    for word in argv:
        if hiding and (not _is_known(word) if fresh else not _is_option(word)):
            shown.append(MASKED)
            hiding, fresh = "" if hiding == _SINGLE else hiding, False
            continue
        shown.append(_masked_word(word))
        name = _bare(word)
        hiding = name if _is_option(word) and "=" not in word and is_secret(name) else ""
        hiding = "" if is_flag(name) else hiding
        fresh = bool(hiding)
    return shown


def _bare(word: str) -> str:
    return word.partition("=")[0].lstrip("-").replace("_", "-")


def _is_known(word: str) -> bool:
    """Whether a word is an option, and no value that begins with a dash by chance."""
    name = _bare(word)
    return word.startswith("--") and (is_flag(name) or name in MANY or name in LONG or known(name))


def _masked_word(word: str) -> str:
    given = _GIVEN.fullmatch(word)
    if given is None:
        return _masked_value(word)
    name, value = given.groups()
    return f"{name}={MASKED if is_secret(name) else _masked_value(value)}"


def _masked_value(value: str) -> str:
    """Mask secrets in a value; an object of JSON is walked, so that no spelling hides a key."""
    whole = _parsed(value) if value.lstrip()[:1] in ("{", "[") else value
    if isinstance(whole, str):
        return masked_text(value)
    clean = masked_data(whole)
    return value if clean == whole else _dumped(clean)


# --- reading -------------------------------------------------------------------------------------


def _arguments(argv: Sequence[str]) -> list[str]:
    """Drop the program: `vllm serve`, `python -m vllm...`, or whatever comes first."""
    start = _start(argv)
    rest = list(argv[start:])
    return rest[1:] if rest[:1] == ["serve"] else rest


def _start(argv: Sequence[str]) -> int:
    for i, word in enumerate(argv):
        if word.rpartition("/")[2] == "vllm" and argv[i + 1 : i + 2] == ["serve"]:
            return i + 1
        if word == "-m" and "".join(argv[i + 1 : i + 2]).startswith("vllm."):
            return i + 2
        if "vllm/entrypoints/" in word and word.endswith(".py"):
            return i + 1
    if not argv or argv[0].startswith("-"):
        return 0
    scripts = (i for i, word in enumerate(argv[:8]) if word.endswith(".py"))
    return next(scripts, 0) + 1


def _read(words: Sequence[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each option's long name, the keys behind its dots, and its values."""
    i = 0
    while i < len(words):
        word, i = words[i], i + 1
        if not _is_option(word):
            yield "", [], [] if word == "--" else [word]
            continue
        written, value = _split(word)
        name, path = _long(written)
        if value is None and not path and name.startswith("no-"):
            yield name.removeprefix("no-"), [], ["false"]
            continue
        if value is None:
            end = _end(words, i, "" if path else name)
            values, i = list(words[i:end]) or ["true"], end
        else:
            values = [value]
        if is_flag(name):
            values = [v.lower() if v.lower() in _SAID else v for v in values]
        if written == "-O" and values[0].lstrip().startswith("{"):
            name = _OBJECT
        yield name, path, values


def _is_option(word: str) -> bool:
    return word.startswith("-") and word.strip("-") != "" and not _NUMBER.fullmatch(word)


def _split(word: str) -> tuple[str, str | None]:
    """Split an option from a value in the same word: `--a=b`, `-tp=2`, `-O3`, `-qawq`."""
    name, equals, value = word.partition("=")
    if word.startswith("--") or name.partition(".")[0] in SHORT:
        return name, value if equals else None
    if word[:2] in SHORT:
        return word[:2], word[2:]
    return name, value if equals else None


def _long(written: str) -> tuple[str, list[str]]:
    """Return an option's long name, and the keys behind its dots."""
    name, dot, keys = written.partition(".")
    if name == "-O" and dot and keys.count(".") < DEEPEST:
        return _OBJECT, keys.split(".")
    name = SHORT.get(name) or name.lstrip("-").replace("_", "-")
    name, _, key = LONG.get(name, name).partition(".")
    path = [part for part in (key, *keys.split(".")) if part]
    if len(path) > DEEPEST:  # no option of vLLM: so deep an object cannot be written as JSON
        return written.lstrip("-").replace("_", "-"), []
    return name, path


def _end(words: Sequence[str], start: int, name: str) -> int:
    """Return where the values of an option end that may begin at `start`."""
    free = start
    while free < len(words) and not _is_option(words[free]):
        free += 1
    if name in MANY:
        return free
    if is_flag(name) and words[start : start + 1] and words[start].lower() not in _SAID:
        return start
    return min(free, start + 1)


# --- values --------------------------------------------------------------------------------------


def _put(whole: dict[str, Any], path: list[str], values: list[str]) -> None:
    """Put the value of `--a.b.c v` where it belongs; `c+` adds to a list."""
    *above, last = path
    value: Any = _parsed(values[0])
    if last.endswith("+"):
        last, value = last[:-1], values[0].split(",")
    for key in above:
        if not isinstance(whole.get(key), dict):
            whole[key] = {}
        whole = whole[key]
    old = whole.get(last)
    whole[last] = old + value if isinstance(old, list) and isinstance(value, list) else value


def _merged(whole: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Lay parts over an object."""
    result = dict(whole)
    for key, part in parts.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(part, dict):
            part = _merged(old, part)  # noqa: PLW2901
        result[key] = part
    return result


def _canonical(value: str) -> str:
    """Write JSON in one way; what is none stays as it is."""
    if value.lstrip()[:1] not in ("{", "["):
        return value
    whole = _parsed(value)
    return value if isinstance(whole, str) else _dumped(whole)


def _dumped(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _parsed(text: str) -> Any:
    """Return what a text is as JSON, or the text; so much nested that it cannot be read is text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
