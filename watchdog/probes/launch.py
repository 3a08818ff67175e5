"""
Is a young vLLM process on this host, while the target does not answer?

Only asked while it is silent: a server that compiles for ten minutes behind a closed port is
starting, not down. In a container the port inside may be another one, so where no command line
names the target's port, the youngest vLLM process counts whose own port nobody listens on here:
a server that listens on another port is up, and not this one.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from watchdog.domain.sample import Facts, Reading

DEFAULT_PORT: Final = 8000  # of `vllm serve`
MARKS: Final = ("vllm serve", "vllm.entrypoints", "vllm/entrypoints")


@dataclass(frozen=True)
class Launch:
    """`url` is the target's; remote ones have no process here."""

    target: str
    url: str
    name: str = "launch"

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002  (reads /proc only)
        """Return the fact `started_at` (Unix seconds) of the process that may be starting."""
        if known.get("answered", True) or not is_here(self.url):
            return Reading(self.name, self.target)
        port = urlsplit(self.url).port or DEFAULT_PORT
        started = youngest(processes(), port, listening())
        facts = {} if started is None else {"started_at": started}
        return Reading(self.name, self.target, facts=facts)

    def close(self) -> None:
        """Nothing blocks."""


def is_here(url: str) -> bool:
    """Whether a URL points at this host: a socket, localhost or a loopback address."""
    parts = urlsplit(url)
    if parts.scheme == "unix" or parts.hostname == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    return False


def processes() -> Iterator[tuple[list[str], float]]:
    """Yield command line and start time (Unix seconds) of every process that may be seen."""
    import psutil  # noqa: PLC0415  (a megabyte that a healthy host never needs)

    for process in psutil.process_iter(["cmdline", "create_time"]):
        argv, started = process.info["cmdline"], process.info["create_time"]
        if argv and started:
            yield argv, float(started)


def listening() -> frozenset[int]:
    """Return the TCP ports that somebody listens on here; none where that may not be seen."""
    import psutil  # noqa: PLC0415  (as above)

    with contextlib.suppress(psutil.AccessDenied):
        found = psutil.net_connections(kind="tcp")
        own: list[Any] = [c.laddr for c in found if c.status == psutil.CONN_LISTEN]
        return frozenset(address.port for address in own if address)
    return frozenset()


def youngest(
    seen: Iterable[tuple[list[str], float]], port: int, taken: frozenset[int] = frozenset()
) -> float | None:
    """Return the start of the youngest server on this port, else of the youngest not yet up."""
    servers = [(argv, at) for argv, at in seen if any(m in " ".join(argv) for m in MARKS)]
    on_port = [at for argv, at in servers if port_of(argv) == port]
    other = [at for argv, at in servers if port_of(argv) not in taken]
    return max(on_port or other, default=None)


def port_of(argv: list[str]) -> int:
    """Read `--port` of a vLLM command line."""
    for i, word in enumerate(argv):
        value = word.partition("=")[2] if word.startswith("--port=") else ""
        if word == "--port" and i + 1 < len(argv):
            value = argv[i + 1]
        if value.isdigit():
            return int(value)
    return DEFAULT_PORT
