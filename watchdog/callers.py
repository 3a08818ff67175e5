"""Who may ask the port for what: programs of this host, other hosts, and no web pages."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final

from flask import current_app, request
from werkzeug.exceptions import BadRequest, Forbidden

FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
"""What a proxy adds: its client is not on this host although the connection is."""

LISTEN: Final = "LISTEN"
"""The key of the app's configuration for the address that the port listens on."""

HOSTS: Final = Path("/etc/hosts")
MOST_OF_HOSTS: Final = 64 * 1024  # bytes

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s,/@:\[\]]+)(?::[0-9]{0,5})?")


def local_only() -> None:
    """Refuse peers of other hosts, also those that come through a proxy of this one."""
    if not _peer_is_here() or any(header in request.headers for header in FORWARDED):
        raise Forbidden("only programs on this host may ask for that")


def no_web_pages(*names: str, hosts: Path = HOSTS) -> Callable[[], None]:
    """
    Return what refuses the pages that a browser of this host shows, for every path.

    Any page may send a POST to 127.0.0.1; browsers then say `Origin`. And whoever owns a name can
    let it point to 127.0.0.1 and have his page read our answers as its own; but the name is in
    `Host`. Ours are `names`, the host's name, and what the administrator calls the loopback in
    the file `hosts` (Debian: the host's full name).
    """
    ours = {name.lower() for name in (socket.gethostname(), *names, *_names_in(hosts))}

    def refuse() -> None:
        if request.method not in _READS and "Origin" in request.headers:
            raise Forbidden("web pages may not ask for that; use the command line")
        host = _asked_host()
        if _peer_is_here() and not _means_us(host, ours) and "Via" not in request.headers:
            raise Forbidden(
                "this host is not known by that name here: ask for 127.0.0.1 or localhost; a "
                "proxy sends one of them as Host, or adds Via (docs/port.md)"
            )

    return refuse


def _peer_is_here() -> bool:
    """
    Whether a program of this host asks.

    Where we listen on one address that is not loopback, such a program comes from that address.
    """
    peer = (request.remote_addr or "").partition("%")[0]
    return _is_loopback(peer) or (bool(peer) and peer == current_app.config.get(LISTEN))


def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def _names_in(hosts: Path) -> Iterator[str]:
    try:
        with hosts.open("rb") as file:
            lines = file.read(MOST_OF_HOSTS).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        address, *names = line.partition("#")[0].split() or [""]
        if _is_loopback(address):
            yield from names


def _asked_host() -> str:
    """Return the bare name or address of the Host header; empty if there is none."""
    told = request.environ.get("HTTP_HOST", "")  # not request.host, which invents one
    matched = _HOST.fullmatch(told)
    if told and not matched:
        raise BadRequest("the Host header is no host")
    return matched[1].strip("[]").rstrip(".").lower() if matched else ""


def _means_us(host: str, ours: set[str]) -> bool:
    """Programs may leave the name away, browsers never do; an address cannot be made to lie."""
    if host in ours or host in ("", "localhost", "localhost.localdomain"):
        return True
    try:
        ip_address(host)
    except ValueError:
        return host.endswith(".localhost")
    return True
