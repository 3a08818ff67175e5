"""
Which vLLM servers listen on this host, and a first configuration that names them.

Every listening TCP port is asked for /metrics, a few at a time and each within a small deadline.
What is written as a claim was measured; what only might be true is written as a comment.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.sample import NO_FACTS, Reading
from watchdog.errors import WatchdogError
from watchdog.fields import name_of
from watchdog.probes.vllm_metrics import VllmMetrics
from watchdog.settings import Server, Target

SIDE_BY_SIDE: Final = 8
EACH: Final = 1.5
"""Seconds for one port: a page of metrics on loopback takes a few hundredths."""

OWN_PORT: Final = Server().address[1]
NOT_HTTP: Final = frozenset({3306, 5432, 6379, 11211, 27017})
"""Databases that would log a complaint about what we send."""

_ANY: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  (compared, not bound)


@dataclass(frozen=True)
class Found:
    """
    A vLLM server that answered with its page.

    `speculation`: its page has the series; `depth` is the number of draft positions in them, None
    without. `acceptance_length` is the mean since its process started, None before any draft.
    """

    url: str
    models: tuple[str, ...] = ()
    version: str | None = None
    engines: int = 1
    speculation: bool = False
    depth: int | None = None
    acceptance_length: float | None = None


class Search(NamedTuple):
    """What was found, and the addresses for which there was no time: these are no "no"."""

    found: tuple[Found, ...]
    untried: tuple[str, ...] = ()


def find_servers(timeout: float) -> list[Found]:
    """Return the vLLM servers on this host's ports; `timeout` in seconds for all of them."""
    return list(search(timeout).found)


def search(timeout: float, urls: Iterable[str] | None = None) -> Search:
    """As `find_servers`, and say what was not tried. `urls` default to this host's open ports."""
    deadline = time.monotonic() + timeout
    asked = listening() if urls is None else list(urls)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        answers = list(pool.map(lambda url: _ask(url, deadline), asked))
    found = tuple(answer for answer in answers if isinstance(answer, Found))
    return Search(found, tuple(answer for answer in answers if isinstance(answer, str)))


def listening(skip: frozenset[int] = frozenset({OWN_PORT})) -> list[str]:
    """URLs of the TCP ports on which this host listens, lowest first; no privilege is needed."""
    import psutil  # noqa: PLC0415  (a megabyte that the daemon never needs)

    places = set()
    for connection in psutil.net_connections("tcp"):
        if connection.status != psutil.CONN_LISTEN or not connection.laddr:
            continue
        host, port = connection.laddr.ip, connection.laddr.port
        # below 1024 only the usual ones of HTTP: others are services that log what they refuse
        if port not in skip | NOT_HTTP and (port >= 1024 or port == 80):
            places.add((port, "127.0.0.1" if host in _ANY else host.removeprefix("::ffff:")))
    return [
        f"http://{f'[{host}]' if ':' in host else host}:{port}" for port, host in sorted(places)
    ]


def _ask(url: str, deadline: float) -> Found | str | None:
    """What is at `url`: a vLLM server, nothing of ours (None), or not tried (the url)."""
    now = time.monotonic()
    if now >= deadline:
        return url
    probe = VllmMetrics(name_of(url), url)
    try:
        return _found(url, probe.read(NO_FACTS, min(deadline, now + EACH)))
    except WatchdogError:
        return url if time.monotonic() >= deadline else None
    finally:
        probe.close()


def _found(url: str, reading: Reading) -> Found:
    subjects = {sample.subject: dict(sample.subject) for sample in reading.samples}
    engines = [subject for subject in subjects.values() if "engine" in subject]
    total: dict[str, float] = {}
    for sample in reading.samples:
        total[sample.series] = total.get(sample.series, 0.0) + sample.value
    drafts = total.get(s.DRAFTS, 0.0)
    version = reading.facts.get("version")
    return Found(
        url,
        tuple(sorted({subject["model_name"] for subject in engines})),
        version if isinstance(version, str) else None,
        len(engines),
        s.DRAFTS in total,
        sum(name in total for name in s.POSITIONS) or None,
        1 + total.get(s.ACCEPTED_TOKENS, 0.0) / drafts if drafts else None,
    )


def first_config(found: Sequence[Found], untried: Sequence[str] = ()) -> str:
    """Return the text of a configuration that names what was found, for a person to review."""
    lines = [
        "# serving-watchdog: a first configuration, written by `watchdog config init`.",
        "# Every other key and its default: `watchdog config show`, or the example watchdog.yaml.",
    ]
    if untried:
        lines.append(f"# Not looked at, for want of time: {', '.join(untried)}")
    lines += ["", "targets:"]
    for i, server in enumerate(found):
        lines += ([""] if i else []) + _target(server)
    if not found:
        lines += [
            "  # no vLLM server answered on this host; write where yours is:",
            "  - url: http://127.0.0.1:8000",
        ]
    lines += [
        "",
        "# The GPUs of this host are watched. What each slot should run is known only where it is",
        "# declared: look through what `watchdog links --propose` prints, and paste it here.",
        "",
        "alerting:",
        "  alertmanagers: []                   # alerts go to the log alone until one is named:",
        "  # - url: http://alertmanager:9093",
        "",
    ]
    return "\n".join(lines)


def _target(server: Found) -> list[str]:
    """One target of the list; what a page said stands in comments, quoted."""
    version = f"vLLM {_quoted(server.version)}" if server.version else "vLLM, version not told"
    models = ", ".join(_quoted(model) for model in server.models)
    count = f", {server.engines} engines" if server.engines > 1 else ""
    lines = [
        f"  # seen: {version}, model {models}{count}",
        f"  - url: {server.url}",
        f"    # name: {_suggested(server)}  # default: {name_of(server.url)}",
    ]
    return lines + _expectation(server)


def _expectation(server: Found) -> list[str]:
    """Claims only of what was seen to happen; series that stand at zero are no proof of it."""
    if not server.speculation:
        return [
            "    # seen: no series of speculative decoding; if it should speculate, say so:",
            "    # expect: {speculation: true}",
        ]
    depth = f", depth: {server.depth}" if server.depth and server.depth <= s.MOST_POSITIONS else ""
    if server.acceptance_length is None:
        return [
            "    # seen: series of speculative decoding, and no draft yet; if it should speculate:",
            f"    # expect: {{speculation: true{depth}}}",
        ]
    return [
        "    # seen: drafts, so they are expected to go on",
        "    expect:",
        "      speculation: true",
        *([f"     {depth[1:]}"] if depth else []),
        "      # method: eagle3  # cannot be seen; see --speculative-config of its launch",
        f"      # acceptance_length: {server.acceptance_length:.2f}  # mean since its start;",
        "      # declare what you measured when it was well",
    ]


def _suggested(server: Found) -> str:
    """A name after the model, where it makes one; else the default."""
    model = server.models[0].rpartition("/")[2] if server.models else ""
    try:
        return Target(url=server.url, name=model).name
    except ValueError:
        return name_of(server.url)


def _quoted(text: Any) -> str:
    """A stranger's text for a comment: one line, bounded."""
    shown = str(text)
    return shown[:80] if shown.isprintable() else ascii(shown)[:80]
