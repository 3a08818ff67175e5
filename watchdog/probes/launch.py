"""
Which processes of this host are the target's server, and which GPUs do they hold?

While the target is silent: is a young vLLM process here? A server that compiles for ten minutes
behind a closed port is starting, not down. In a container the port inside may be another one,
so where no command line names the target's port, the youngest vLLM process counts whose own port
nobody listens on here: a server that listens on another port is up, and not this one.

While it answers, and seldom: the server is who listens on the port or, where that may not be
seen, whose command line names it, and last the only one that holds a GPU; its workers are its
descendants and what else is in its service or container. A port proxy is not the server. How it
was launched is told with it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from watchdog.container_images import SOCKETS, with_image
from watchdog.declared_servers import NOTHING, Declared, declared_pids
from watchdog.declared_servers import started_at as began
from watchdog.domain.fingerprint import fingerprint_of
from watchdog.domain.sample import Facts, Reading, number
from watchdog.domain.version_claims import as_rows, claims_of
from watchdog.holders import held_by
from watchdog.launches import launch_of
from watchdog.pci import Gpu, numa_of, of_device
from watchdog.pci import gpus as listed
from watchdog.processes import hidden
from watchdog.servers import (
    DEFAULT_PORT,
    ELSEWHERE,
    Search,
    Unclear,
    names_server,
    port_of,
    program,
)
from watchdog.tree import Tree, errno_name

EVERY: Final = 300.0
"""Seconds between two searches for the server's processes: a look at all of /proc."""

MOST_PIDS: Final = 1024
MOST_CPUS: Final = 4096
PACKAGE: Final = "topology/physical_package_id"
CARRIED: Final = (
    *("gpus", "gpus_unknown", "pids", "places", "gpus_asked", "gpus_start"),
    *("launch", "launch_unknown", "launch_fingerprint", "versions"),
)


@dataclass(frozen=True)
class Launch:
    """
    `url` is the target's; remote ones have no process here.

    `declared` names its processes, wherever its URL points; `sockets` are those of container
    engines. `more` and `less` are names that are configured to count as factors, or not to.
    """

    target: str
    url: str
    tree: Tree = field(default_factory=Tree)
    proc: Path = Path("/proc")
    name: str = "launch"
    slot: str = ""
    declared: Declared = NOTHING
    sockets: Sequence[Path] = SOCKETS
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()

    def at_once(self, known: Facts) -> Reading | None:
        """Return what needs no look at /proc: nothing, or what was found not long ago."""
        here = self.declared.given or is_here(self.url)
        if not here or not known:  # nothing known: the first round
            return Reading(self.name, self.target)
        if known.get("answered", True) and _fresh(known):
            carried = {key: known[key] for key in CARRIED if key in known}
            return Reading(self.name, self.target, facts=carried)
        return None

    def read(self, known: Facts, deadline: float) -> Reading:
        """
        Return the facts of the server's processes; `deadline` in monotonic seconds.

        While the target is silent: `started_at` (Unix seconds) of the process that may be
        starting; where one is declared, of that one alone. Else `gpus`: a list of {gpu, slot,
        socket, numa, root, pids}, or `gpus_unknown`, the reason, with the `places` of all GPUs;
        `pids`, all processes of the server, with its `launch` (see `launches`), that one's
        `launch_fingerprint` and the `versions` that are claimed and reported, where they were
        found, or `launch_unknown`, the reason.
        """
        reading = self.at_once(known)
        if reading is not None:
            return reading
        if known.get("answered", True):
            return Reading(self.name, self.target, facts=self._told(known, deadline))
        facts = self._starting(deadline)
        if known.get("process_start") is None:  # what answers next may be another process
            facts["gpus_asked"] = None
        return Reading(self.name, self.target, facts=facts)

    def close(self) -> None:
        """Nothing blocks."""

    def _starting(self, deadline: float) -> dict[str, object]:
        """Say since when a process may be starting behind the silent port."""
        port = urlsplit(self.url).port or DEFAULT_PORT
        if not self.declared.given:
            started = youngest(processes(), port, listening())
            return {} if started is None else {"started_at": started}
        if unseen := hidden(self.proc):
            return {"launch_unknown": unseen}
        search = Search(port, self.proc, deadline)
        try:
            started = began(declared_pids(self.declared, search, self.sockets), search)
        except Unclear as reason:
            return {"launch_unknown": str(reason)}
        return {} if started is None else {"started_at": started}

    def _told(self, known: Facts, deadline: float) -> dict[str, object]:
        now = time.monotonic()
        if now >= deadline:
            return {}
        about = {"gpus_asked": now, "gpus_start": known.get("process_start")}
        pids, unclear = self._server(deadline, number(known.get("process_start")))
        facts = {**about, **self._gpus(pids, unclear, deadline)}
        if pids is None:
            return {**facts, "launch_unknown": unclear}
        version = known.get("version")
        reported = version if isinstance(version, str) else None
        launch = launch_of(pids, self.proc, self.tree, deadline, reported, self.more)
        with_image(launch, known.get("launch"), deadline, self.sockets)
        own = {"pids": sorted(pids)[:MOST_PIDS], "versions": _claims(launch), "launch": launch}
        found = fingerprint_of(launch, self.more, self.less)
        return {**facts, **own, "launch_fingerprint": found.as_dict()}

    def _server(self, deadline: float, began: float | None) -> tuple[set[int] | None, str]:
        """Return the server's processes, or None and why they are not known."""
        unseen = hidden(self.proc)
        if unseen:  # workers may be missing: half of a server would look like a smaller one
            return None, unseen
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        search = Search(port, self.proc, deadline, self._holds(deadline), began)
        try:
            if self.declared.given:
                return declared_pids(self.declared, search, self.sockets), ""
            if parts.scheme == "unix":
                return None, "who listens on a Unix socket is not looked up"
            return search.find(), ""
        except Unclear as reason:
            return None, str(reason)

    def _holds(self, deadline: float) -> Callable[[set[int]], bool] | None:
        """Return what says whether processes hold a GPU; None where no GPU is seen."""
        try:
            vendors = {gpu.address: gpu.vendor for gpu in listed(self.tree)}
        except OSError:
            return None

        def holds(pids: set[int]) -> bool:
            own = held_by(pids, vendors, self.tree, self.proc, deadline)
            if own.gpus is None:
                raise Unclear(own.why)
            return bool(own.gpus)

        return holds if vendors else None

    def _gpus(self, pids: set[int] | None, unclear: str, deadline: float) -> dict[str, object]:
        try:
            cards = {gpu.address: gpu for gpu in listed(self.tree)}
        except OSError as error:
            return {"gpus_unknown": f"the PCI bus cannot be read ({errno_name(error)})"}
        if not cards:
            return {"gpus": []}
        if pids is None:
            return {"gpus_unknown": unclear}
        return self._held(pids, cards, deadline)

    def _held(self, pids: set[int], cards: Mapping[str, Gpu], deadline: float) -> dict[str, object]:
        vendors = {address: gpu.vendor for address, gpu in cards.items()}
        own = held_by(pids, vendors, self.tree, self.proc, deadline)
        if own.gpus is None:
            # Who holds them may be told by their driver: where each sits is told here.
            places = [place_of(self.tree, gpu) for gpu in cards.values()]
            return {"gpus_unknown": own.why, "places": places}
        held = own.gpus.items()
        gpus = [
            {**place_of(self.tree, cards[at]), "pids": sorted(who)[:MOST_PIDS]} for at, who in held
        ]
        return {"gpus": gpus}


def _claims(launch: dict[str, Any]) -> dict[str, Any]:
    """
    Take what is claimed and reported of versions out of a launch; its image claims too.

    `partial`: there may be claims that were not read, so that a missing one is not gone.
    """
    told: dict[str, Any] = launch.pop("version_claims", {"claims": [], "reports": []})
    claims = [*told["claims"], *as_rows(claims_of(None, launch.get("image_labels")))]
    partial = not {"argv", "environ", "image"}.isdisjoint(launch["unread"])
    return {**told, "claims": claims, "partial": partial}


def _fresh(known: Facts) -> bool:
    """Whether the search is young, and of the process that the page tells of now."""
    asked = known.get("gpus_asked")
    young = isinstance(asked, float) and 0 <= time.monotonic() - asked < EVERY
    return young and known.get("process_start") == known.get("gpus_start")


def place_of(tree: Tree, gpu: Gpu) -> dict[str, object]:
    """Say where a GPU sits: its socket and NUMA node, None where not told, and its root."""
    return {
        "gpu": gpu.address,
        "slot": gpu.slot,
        "socket": socket_of(tree, gpu.address),
        "numa": numa_of(tree, gpu.address),
        "root": gpu.root,
    }


def socket_of(tree: Tree, address: str) -> int | None:
    """
    Return the processor socket that a PCI device is wired to; None where it cannot be told.

    It is the socket of all processors near the device. Where the firmware tells no NUMA node
    these are all of the host: on a board with one socket that is still an answer.
    """
    sockets = set()
    try:
        for part in of_device(tree, address, "local_cpulist").split(","):
            first, _, last = part.partition("-")
            for cpu in range(int(first), min(int(last or first), int(first) + MOST_CPUS) + 1):
                sockets.add(int(tree.text(f"devices/system/cpu/cpu{cpu}/{PACKAGE}", 64)))
    except (OSError, ValueError):  # a processor that is switched off has no such file
        return None
    return sockets.pop() if len(sockets) == 1 else None


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
    servers = [
        (argv, at) for argv, at in seen if names_server(argv) and program(argv) not in ELSEWHERE
    ]
    on_port = [at for argv, at in servers if port_of(argv) == port]
    other = [at for argv, at in servers if port_of(argv) not in taken]
    return max(on_port or other, default=None)
