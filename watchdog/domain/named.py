"""Whom the labels of another program's alert name: this host, one of its targets, or neither."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from watchdog.domain.sample import HOST

HOST_WORDS: Final = ("host", "hostname", "node", "nodename")
"""Labels that say which host is meant; a value that is not ours says that it is another."""

PLACE_WORDS: Final = ("instance",)
"""Labels that hold an address: what Prometheus read."""

TARGET_WORDS: Final = ("target", "job", "service")
"""Labels that may hold the name of a target; elsewhere the same name may be another server."""

RENAMED: Final = "exported_"
"""What Prometheus puts before a label that it has one of its own for."""

ANY_HOST: Final = frozenset({"", "::1", "localhost", "host.docker.internal"})
"""Names that mean this host to whoever is on it, and so do not say which host is meant."""

_ADDRESS: Final = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?:[^/@]*@)?"
    r"(?:\[(?P<v6>[^\]/]*)\]|(?P<host>[^/:?#\[\]]*))(?::(?P<port>\d{1,5}))?(?:[/?#].*)?",
    re.DOTALL,
)
_PORTS: Final = {"http": 80, "https": 443}

MOST_VALUE: Final = 300
"""Characters from which on a value is no name and no address."""

Place = tuple[str, int | None]
"""A host as it is written, in small letters, and a port."""


class Server(NamedTuple):
    """A target: its name, and where it listens; `host` is "" where it is on this host."""

    name: str
    host: str
    port: int | None


class Here(NamedTuple):
    """
    Who we are: the host's names and addresses in small letters, and the targets.

    `short` are the names that are told without a domain, `first` the first parts of the others.
    """

    names: frozenset[str]
    short: frozenset[str]
    first: frozenset[str]
    servers: tuple[Server, ...] = ()

    @classmethod
    def of(cls, host: str, others: Iterable[str], urls: Mapping[str, str]) -> Here:
        """`others` are more names and addresses of this host; `urls` the targets' by name."""
        names = frozenset(name.casefold() for name in (host, *others) if name)
        words = {name for name in names if not _is_address(name)}
        short = frozenset(name for name in words if "." not in name)
        here = cls(names, short, frozenset(name.partition(".")[0] for name in words - short))
        return here._replace(servers=tuple(here._server(*item) for item in urls.items()))

    def _server(self, name: str, url: str) -> Server:
        if url.startswith("unix:"):
            return Server(name, "", None)
        at, port = place(url)
        return Server(name, "" if _vague(at) or self.is_host(at) else at, port)

    def is_host(self, name: str) -> bool:
        """Whether a name or address is ours; a domain counts only where both have it."""
        if name in self.names:
            return True
        first, dot, _ = name.partition(".")
        if not dot:
            return first in self.first
        return first in self.short and not _is_address(name)


def named(labels: Mapping[str, str], here: Here) -> str | None:
    """
    Return the target that labels name, HOST where they name this host alone, or None.

    An address is worth more than a name, since `qwen` may run on every host of a fleet: a name
    counts only while no label says that another host is meant.
    """
    hosts = [place(value)[0] for value in _values(labels, HOST_WORDS)]
    places = [place(value) for value in _values(labels, PLACE_WORDS)]
    texts = {value.casefold() for value in _values(labels, (*TARGET_WORDS, *PLACE_WORDS))}
    for server in here.servers:
        if any(_is_at(at, server, here) for at in places) and _may_be(hosts, server, here):
            return server.name
    said = hosts or [host for host, _ in places]
    for server in here.servers:
        if server.name.casefold() in texts and _may_be(said, server, here):
            return server.name
    return HOST if any(here.is_host(host) for host in said) else None


def place(text: str) -> Place:
    """Split `host`, `host:port` or a URL; ("", None) of what is neither."""
    found = _ADDRESS.fullmatch(text.strip().casefold())
    if found is None:
        return "", None
    port = int(found["port"]) if found["port"] else _PORTS.get(found["scheme"] or "")
    return (found["v6"] or found["host"] or "").rstrip("."), port


def _values(labels: Mapping[str, str], words: tuple[str, ...]) -> list[str]:
    return [
        value
        for name, value in labels.items()
        if name.removeprefix(RENAMED) in words and 0 < len(value) <= MOST_VALUE
    ]


def _is_at(at: Place, server: Server, here: Here) -> bool:
    host, port = at
    if port is None or port != server.port:
        return False
    if server.host:
        return _same(host, server.host)
    return _vague(host) or here.is_host(host)


def _may_be(hosts: list[str], server: Server, here: Here) -> bool:
    """Whether none of these hosts is told, or one of them is where the server runs."""
    known = [host for host in hosts if not _vague(host)]
    return not known or any(
        here.is_host(host) or bool(server.host and _same(host, server.host)) for host in known
    )


def _same(one: str, other: str) -> bool:
    """Whether two names of hosts are one: a domain counts only where both have it."""
    if one == other:
        return True
    if ("." in one) == ("." in other) or one.partition(".")[0] != other.partition(".")[0]:
        return False
    return not _is_address(one) and not _is_address(other)


def _vague(host: str) -> bool:
    """Whether it is no name at all, or one that means this host on every host."""
    return host in ANY_HOST or (host.startswith("127.") and _is_address(host))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
