"""Secrets in command lines and environments: known by their names, or by what they look like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

MASKED: Final = "..."

DEEPEST: Final = 64
"""Levels of a value of JSON that are looked at; what is below is masked."""

_WORDS: Final = frozenset(
    {
        *("key", "keys", "secret", "secrets", "password", "passwords", "passwd", "pwd"),
        *("passphrase", "credential", "credentials", "creds", "auth", "authorization"),
        *("bearer", "cookie", "cookies", "signature", "sig", "jwt", "pat", "login", "dsn"),
    }
)
"""A name that has one of these as a word names a secret."""

_ENDINGS: Final = ("token", "apikey", "accesskey", "secretkey", "secret", "password", "passwd")
"""And so does one with a word that ends so: `HUGGINGFACETOKEN`."""

_COUNTED: Final = frozenset(
    {
        *("threshold", "id", "ids", "type", "limit", "count", "budget", "budgets", "size", "num"),
        *("index", "indices", "len", "length", "per", "parallel", "fraction", "ratio", "only"),
    }
)
"""Words behind `token` by which it is one of text."""

_TEXT: Final = frozenset(
    {
        *("num", "max", "min", "batched", "scheduled", "speculative", "spec", "draft", "prompt"),
        *("queued", "new", "mask", "bonus", "return", "graph", "total", "prefill", "decode"),
        *("special", "image", "video", "audio", "pad", "bos", "eos", "per"),
    }
)
"""Words by which `token` is one of text, wherever they stand."""

_ABBREVIATED: Final = {"hf-t": "hf-token", "api-k": "api-key"}
"""How short argparse lets an option be, and the whole of it."""

_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TOKEN: Final = re.compile(r"tokens?")

# A name begins where no letter stands before it, so that a long word is looked at only once.
_NAME: Final = r"(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]*)"
_GIVEN: Final = re.compile(rf"{_NAME}[\"']?\s*[=:]\s*")
_SAID: Final = re.compile(rf"{_NAME}\s+")
_VALUE: Final = re.compile(r"""(["'])(?:(?!\1)[^\\]|\\.)*(?:\1)?|[^\s;&|"'}]+""", re.DOTALL)
_USERINFO: Final = re.compile(r"(?<=://)[^\s/?#\"'@]*(?:@[^\s/?#\"'@]*)*@")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)(\s+)[\w.~+/=-]{6,}")
_SHAPES: Final = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bgh[opsur]_[A-Za-z0-9]{16,}"
    r"|(?<![\w-])(?:sk|glpat|xox[abprs]|nvapi)-(?=[\w-]*\d)[\w-]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|(?<![\w-])eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"
)
"""
What well-known services make: Hugging Face, GitHub, OpenAI, GitLab, Slack, NVIDIA, AWS, JWT.

As long as they are, so that `--hf_overrides` and `sk-large-model` are none.
"""


def is_secret(name: str) -> bool:
    """Whether an option, a variable or a key of JSON of this name holds a secret."""
    bare = name.lstrip("-").replace("_", "-")
    small = bare.lower()
    if small.startswith("aws-") or any(
        small.startswith(least) and whole.startswith(small) for least, whole in _ABBREVIATED.items()
    ):
        return True
    words = [part.lower() for part in _PARTS.findall(bare)]
    return not _WORDS.isdisjoint(words) or any(_is_access(words, i) for i in range(len(words)))


def masked_text(text: str) -> str:
    """Mask what a text gives to names of secrets, what is in URLs, and well-known tokens."""
    text = _USERINFO.sub(f"{MASKED}@", text)
    text = _BEARER.sub(rf"\1\2{MASKED}", text)
    text = _hidden(_SAID, _hidden(_GIVEN, text), "-")
    return _SHAPES.sub(MASKED, text)


def masked_data(value: Any, levels: int = DEEPEST) -> Any:
    """Mask secrets in a value of JSON."""
    if not levels and isinstance(value, (dict, list, tuple)):
        return MASKED
    if isinstance(value, dict):
        return {
            masked_text(str(key)): MASKED if is_secret(str(key)) else masked_data(part, levels - 1)
            for key, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [masked_data(part, levels - 1) for part in value]
    return masked_text(value) if isinstance(value, str) else value


def _hidden(names: re.Pattern[str], text: str, start: str = "") -> str:
    """Mask the values behind names of secrets that begin with `start`."""
    done, parts = 0, []
    for found in names.finditer(text):
        if found.start() < done or not found[1].startswith(start) or not is_secret(found[1]):
            continue
        value = _VALUE.match(text, found.end())
        if value is not None:
            quote = value[1] or ""
            parts += [text[done : found.end()], quote, MASKED, quote]
            done = value.end()
    return "".join([*parts, text[done:]])


def _is_access(words: Sequence[str], i: int) -> bool:
    """Whether this word of a name says that the whole is a token of access, not one of text."""
    if not _TOKEN.fullmatch(words[i]):
        return words[i].endswith(_ENDINGS)
    behind = words[i + 1] if i + 1 < len(words) else ""
    return behind not in _COUNTED and _TEXT.isdisjoint(words)
