"""
Takes out of a recording what is nobody else's business: hosts, passwords, tokens.

A name becomes the same word everywhere, so that a recording still replays. In pages and JSON
only quoted values are touched: a host may be called `vllm`, and then its name is in every line.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

OWN_HOST: Final = "this-host"
HIDDEN: Final = "redacted"

_QUOTED: Final = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"(?!\s*:)')  # no keys of JSON
_USERINFO: Final = re.compile(r"(?<=://)[^\s/@\"']+@")
_TOKEN: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}|\b(sk|hf)[-_]\w{8,}")


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
        text = _QUOTED.sub(lambda found: self.text(found[0]), text)
        return text.encode("utf-8", "surrogateescape")


def redactor_of(own: Iterable[str], urls: Iterable[str], secrets: Iterable[str]) -> Redactor:
    """
    Make a Redactor that hides own host names, the hosts of `urls`, and secrets.

    Loopback addresses stay: they tell nothing. Targets are numbered in the order given.
    """
    names: dict[str, str] = {}
    for url in urls:
        host = urlsplit(url).hostname
        if host and not _is_loopback(host) and host not in names:
            names[host] = f"target-{len(names) + 1}"
    for name in own:
        for part in (name, name.partition(".")[0]):
            if part and not _is_loopback(part):
                names.setdefault(part, OWN_HOST)
    names.update((secret, HIDDEN) for secret in secrets if secret)
    return Redactor(names)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")
