"""
Takes out of a text what is nobody else's business: hosts, passwords, tokens.

A name becomes the same word everywhere, so that a recording still replays. In pages and JSON
only quoted values are touched: a host may be called `vllm`, and then its name is in every line.
"""

from __future__ import annotations

import html
import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

OWN_HOST: Final = "this-host"
HIDDEN: Final = "redacted"
MASKED: Final = "..."
LONGEST_SPELLING: Final = 6
"""Characters that a character of a secret may have become: `&quot;`."""

_QUOTED: Final = re.compile(r'("[^"\\\n]*(?:\\.[^"\\\n]*)*")(\s*:)?')  # the colon: a key of JSON
_USERINFO: Final = re.compile(r"(?<=://)[^\s/@\"']+@")
_TOKEN: Final = re.compile(  # `--hf-overrides` is none, however it is written
    r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}|(?<!--)\b(sk(?=[-_])|hf(?=_))[-_]\w{8,}"
)


@dataclass(frozen=True)
class Redactor:
    """`names` maps what is hidden (hosts, secrets) to the word that stands for it."""

    names: Mapping[str, str]

    def text(self, text: str) -> str:
        """Redact a whole text: a sentence, a target's name, a quoted value."""
        text = _USERINFO.sub("", text)
        text = _TOKEN.sub(lambda found: f"{found[1] or found[2]} {HIDDEN}", text)
        # Longest first: gpu-1.lan before gpu-1.
        for name in sorted(self.names, key=len, reverse=True):
            edge = r"[\w-]"
            pattern = rf"(?<!{edge})(?<!\w\.){re.escape(name)}(?!{edge})"
            text = re.sub(pattern, self.names[name], text, flags=re.IGNORECASE)
        return text

    def body(self, body: bytes) -> bytes:
        """Redact the quoted values of a page or a JSON document; bytes that are no text stay."""
        text = body.decode("utf-8", "surrogateescape")
        text = _QUOTED.sub(lambda found: found[0] if found[2] else self.text(found[1]), text)
        return text.encode("utf-8", "surrogateescape")


def redactor_of(own: Iterable[str], urls: Iterable[str], secrets: Iterable[str]) -> Redactor:
    """
    Make a Redactor that hides own host names, the hosts of `urls`, and secrets.

    Loopback addresses stay: they tell nothing. Targets are numbered in the order given.
    """
    hosts = dict.fromkeys(urlsplit(url).hostname or "" for url in urls)
    words = [(host, f"target-{i}") for i, host in enumerate(filter(_tells, hosts), 1)]
    names: dict[str, str] = {}
    for host, word in [*words, *((host, OWN_HOST) for host in own)]:
        for name in (host, host.partition(".")[0]):
            # A host called 0 would take every engine 0 with it.
            if _tells(name) and not name.isdecimal():
                names.setdefault(name, word)
    names.update((secret, HIDDEN) for secret in secrets if secret)
    return Redactor(names)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Hide secrets wherever they are, in any case and however a page or an address spells them."""
    spellings = {spelling for secret in secrets for spelling in _spellings(secret) if spelling}
    if not spellings:
        return text
    longest_first = sorted(spellings, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), MASKED, text, flags=re.IGNORECASE)


def _spellings(secret: str) -> tuple[str, ...]:
    """A secret as it is, in JSON, HTML and addresses; a key may have lost its padding."""
    return (
        secret,
        json.dumps(secret)[1:-1],
        html.escape(secret),
        quote(secret),
        quote(secret, safe=""),
        unquote(secret),
        secret.rstrip("="),
    )


def _tells(host: str) -> bool:
    """Whether the name says anything; loopback does not."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() not in ("", "localhost") and not host.lower().endswith(".localhost")
