"""The facts of a launch, one by one, by the names that they have as factors of a fingerprint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from watchdog.domain import factors as f
from watchdog.domain.command_line import masked, options
from watchdog.domain.masking import is_secret

MOST_WORDS: Final = 4096
"""Words of a command line; what is longer is not read at all, since its end may matter."""

MOST_VARIABLES: Final = 512
MOST_VALUE: Final = 4096  # characters of one variable

DRAFTER: Final = "speculative-config model"
MODEL_PARTS: Final = ("config", "tensors", "quantization", "files")
"""Parts of a model's identity that are factors; the others only help to show these."""

_ASIDE: Final = frozenset({"started_at", "container", "caches", "log"})
"""Facts of a launch that are no factors."""

_OWN: Final = frozenset({"image", "drafter", "gpu", "version", "env", "option"})
"""First words of names that are no option's."""


Fact = tuple[str, Any, str]
"""A name, a value of JSON, and how it is shown."""


def public_environ(
    whole: Mapping[str, str], more: Sequence[str] = ()
) -> tuple[dict[str, str] | None, str]:
    """
    Return the variables that may change graphs, without secrets, or None and why they are none.

    A secret is known by its variable's name, or by how it stands in a value: a password in a URL.
    `more` are configured names that count too.
    """
    kept = {n: _clean(v) for n, v in whole.items() if f.watched(n, more) and not is_secret(n)}
    if len(kept) > MOST_VARIABLES or any(len(value) > MOST_VALUE for value in kept.values()):
        return None, (
            f"more than {MOST_VARIABLES} variables, or one of more than {MOST_VALUE} characters"
        )
    return dict(sorted(kept.items())), ""


def _clean(value: str) -> str:
    return masked([f"value={value}"])[0].partition("=")[2]


def facts_of(
    launch: Mapping[str, Any], more: Sequence[str], unread: dict[str, str]
) -> Iterator[Fact]:
    """Yield every fact; what turns out not to be readable goes into `unread`."""
    yield from _argv_facts(launch, unread)
    for variable, value in sorted((launch.get("environ") or {}).items()):
        if f.watched(variable, more) and not is_secret(variable):
            yield _plain(f.ENV + variable, str(value))
    if launch.get("image"):
        yield _plain("image", str(launch["image"]))
    for part, name in (("versions", "version"), ("gpu", "gpu")):
        for key, value in sorted((launch.get(part) or {}).items()):
            if value is None:
                unread.setdefault(f"{name} {key}", "not told")
            else:
                yield _plain(f"{name} {key}", value)
    for name, facts in sorted((launch.get("models") or {}).items()):
        yield from _model_facts(name, facts or {}, unread)


def _argv_facts(launch: Mapping[str, Any], unread: dict[str, str]) -> Iterator[Fact]:
    argv = launch.get("argv") or ()
    if len(argv) > MOST_WORDS:
        unread["argv"] = f"more than {MOST_WORDS} words"
        return
    given = options(masked(argv))
    if "config" in given:
        unread.setdefault("argv", "options are in a file of their own (--config)")
    if argv and "model" not in given:
        unread.setdefault("model", "the command line names none")
    names = {"model"} if "model" in given else set()
    for option, text in given.items():
        for name, value in _parts(option, text):
            if name == DRAFTER and not str(value).startswith("["):  # "[ngram]" is no folder
                names.add("drafter")
            yield _plain("drafter" if name == DRAFTER else name, value)
    for name in sorted(names - (launch.get("models") or {}).keys()):
        unread.setdefault(f"{name} files", "nobody looked at them")


def _parts(option: str, text: str) -> Iterator[tuple[str, Any]]:
    """Split an option that is an object into its keys; its name must not look like another's."""
    name = f"option {option}" if " " in option or option in _OWN else option
    try:
        whole = json.loads(text) if text.startswith("{") and option != "model" else None
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict):
        yield from ((f"{name} {key}", value) for key, value in whole.items())
    else:
        yield name, text


def _model_facts(name: str, told: Mapping[str, Any], unread: dict[str, str]) -> Iterator[Fact]:
    """Yield the parts of an identity; a part that was read by half is not compared."""
    facts = told.get("facts", told)
    dark = told.get("unread") or {}
    for part, reason in dark.items():
        unread.setdefault(f"{name} {part}", str(reason))
    for part in MODEL_PARTS:
        if part not in facts and part not in dark:
            unread.setdefault(f"{name} {part}", "not told")
        elif part in facts and part not in dark:
            yield f"{name} {part}", facts[part], _shown_part(part, facts)


def _shown_part(part: str, facts: Mapping[str, Any]) -> str:
    value = str(facts[part])
    if part == "files" and isinstance(facts.get("bytes"), int):
        return f"{facts.get('count', '?')} files, {facts['bytes']:,} bytes ({value[:8]})"
    if part == "config" and facts.get("architecture"):
        return f"{facts['architecture']} ({value[:8]})"
    return value if part == "quantization" else value[:8]


def _plain(name: str, value: Any) -> Fact:
    text = value if isinstance(value, str) else dumped(value)
    return name, value, text or '""'


def unread_of(launch: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """
    Yield what the reader could not read.

    A server has a command line, an environment and a version: without a word on them, nobody
    looked. It need not have an image or a GPU.
    """
    told = launch.get("unread") or {}
    for part, reason in told.items():
        if part not in _ASIDE:
            yield str(part).replace(" files: ", " "), str(reason)
    for part in ("argv", "environ", "versions"):
        none = launch.get(part) is None if part == "environ" else not launch.get(part)
        if none and part not in told:
            yield part, "not told"


def dumped(value: Any) -> str:
    """Write JSON in one way."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
