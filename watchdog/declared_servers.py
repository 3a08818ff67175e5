"""
Which processes are a server that is declared: by its systemd unit, container or pid file.

What is declared beats every search. Where it cannot be found, that is said with the key, and
nothing else is taken for the server.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from watchdog import processes as p
from watchdog.container_images import SOCKETS, NotTold, container
from watchdog.regular_files import content, opened, why
from watchdog.servers import LAUNCHERS, PROXIES, Search, Unclear, port_of, program

MOST_PID_FILE: Final = 64  # bytes

CLOCK: Final = 2.0
"""Seconds by which a process may seem to have begun after it wrote its own pid file."""

_ID: Final = re.compile(r"[0-9a-f]{12,64}")
_PID: Final = re.compile(rb"\s*([0-9]{1,10})\s*")


class Declared(NamedTuple):
    """What names the processes of a target; at most one of them is given."""

    systemd_unit: str | None = None
    container: str | None = None
    pid_file: Path | None = None

    @property
    def given(self) -> bool:
        """Whether anything is declared."""
        return any(self)


NOTHING: Final = Declared()


def declared_pids(
    declared: Declared, search: Search, sockets: Sequence[Path] = SOCKETS
) -> set[int]:
    """
    Return the processes of a declared server that runs. Raises Unclear, which names the key.

    `search` is for the port of the target: of several servers in one unit it is the one with it.
    """
    if declared.systemd_unit is not None:
        said = f"launch.systemd_unit {declared.systemd_unit}"
        return _server_of(_of_unit(declared.systemd_unit, search, said), search, said)
    if declared.container is not None:
        said = f"launch.container {declared.container}"
        return _server_of(_of_container(declared.container, search, sockets, said), search, said)
    if declared.pid_file is None:
        raise Unclear("nothing is declared")
    said = f"launch.pid_file {declared.pid_file}"
    own = p.family([_of_file(declared.pid_file, search, said)], search.seen)
    return _server_of(own, search, said)


def started_at(pids: Collection[int], search: Search) -> float | None:
    """Return when a server began, in Unix seconds: the youngest vLLM in it, else what was first."""
    servers = search.servers.intersection(pids)
    times = []
    for pid in _heads(servers, search) or pids:
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            times.append(p.started(search.proc, pid))
    if not times:
        return None
    return max(times) if servers else min(times)


# --- who is meant --------------------------------------------------------------------------------


def _of_unit(unit: str, search: Search, said: str) -> set[int]:
    """Return what runs in a unit, of the system or of a user; two of one name are none."""
    found: dict[str, set[int]] = {}
    for pid, group in _groups(search).items():
        parts = group.split("/")
        if unit in parts:
            place = "/".join(parts[: parts.index(unit) + 1])
            found.setdefault(place, set()).add(pid)
    if not found:
        raise Unclear(f"{said}: no process of this host is in it")
    if len(found) > 1:
        raise Unclear(
            f"{said}: there are {len(found)} of this name: {', '.join(sorted(found)[:3])}"
        )
    return found.popitem()[1]


def _of_container(name: str, search: Search, sockets: Sequence[Path], said: str) -> set[int]:
    """Return what runs in a container; the engine alone knows what a name stands for."""
    if _ID.fullmatch(name) and (own := _in_container(name, search)):
        return own
    try:
        told = container(name, search.deadline, sockets)
    except NotTold as reason:
        hint = "" if _ID.fullmatch(name) else "; its ID would be found without"
        raise Unclear(f"{said}: not found: {reason}{hint}") from None
    own = _in_container(told.id, search)
    if told.pid in search.seen:  # also where the groups of containers have other names
        own |= p.family([told.pid], search.seen)
    if not own:
        raise Unclear(f"{said}: no process of this host is in it; it may not run")
    return own


def _in_container(identity: str, search: Search) -> set[int]:
    rest = 64 - len(identity)
    # Podman's monitor has a group with the ID in its name too, and is not in the container.
    pattern = re.compile(rf"(?:^|[/:]|(?<!conmon)-){identity}[0-9a-f]{{{rest}}}(?:\.scope)?(?:/|$)")
    return {pid for pid, group in _groups(search).items() if pattern.search(group)}


def _of_file(path: Path, search: Search, said: str) -> int:
    """Return the process that a pid file names, unless the file is older than the process."""
    try:
        with opened(path) as (_, known):
            written = known.st_mtime
        match = _PID.fullmatch(content(path, MOST_PID_FILE))
    except OSError as error:
        raise Unclear(f"{said} {why(error)}") from None
    if match is None:
        raise Unclear(f"{said} holds no number of a process")
    pid = int(match[1])
    if pid not in search.seen:
        raise Unclear(f"{said}: process {pid} does not run: the file is stale")
    try:
        began = p.started(search.proc, pid)
    except (OSError, ValueError):
        raise Unclear(f"{said}: when process {pid} began cannot be told") from None
    if began > written + CLOCK and pid not in search.servers:
        raise Unclear(
            f"{said} is stale: process {pid} began after it was written, and is no vLLM server"
        )
    return pid


# --- which of them are the server ----------------------------------------------------------------


def _server_of(pids: set[int], search: Search, said: str) -> set[int]:
    """Return the server among these: all of them, unless there are several servers."""
    heads = _heads(search.servers & pids, search)
    if len(heads) > 1:
        on_port = {pid for pid in heads if port_of(search.words[pid]) == search.port}
        if len(on_port) != 1:
            raise Unclear(
                f"{said}: {len(heads)} vLLM servers run in it, {len(on_port) or 'none'} of them "
                f"with port {search.port}"
            )
        return p.family(on_port, search.seen) & pids
    if not heads and all(program(search.words[pid]) in LAUNCHERS | PROXIES for pid in pids):
        raise Unclear(f"{said}: what runs in it only starts or serves others, such as a container")
    return pids


def _heads(servers: Iterable[int], search: Search) -> set[int]:
    """Return the servers that no other of them has started."""
    own = set(servers)
    return {pid for pid in own if search.seen[pid].parent not in own}


def _groups(search: Search) -> dict[int, str]:
    found = {}
    for pid in search.seen:
        if time.monotonic() >= search.deadline:
            raise Unclear("there was no time to look at every process")
        found[pid] = p.group(search.proc, pid)
    return found
