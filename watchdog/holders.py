"""
Which processes hold memory of which GPU, and where that cannot be known, why.

Three sources. KFD lists every ROCm process with its bytes on each GPU, for all to read. The DRM
tells it of every open file of a GPU, readable for one's own processes or with CAP_SYS_PTRACE.
NVIDIA's driver has only the open file itself, which whoever asks NVML has of every GPU: so
several open GPUs say nothing, one or none does. A search that could not look everywhere may
name holders, and never says that there are none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from watchdog import processes as p
from watchdog.kfd import Memory, kfd_gpus, kfd_memory
from watchdog.tree import Tree, errno_name

LEAST: Final = 64 * 2**20
"""Bytes below which a server does not use a GPU: a runtime keeps a few on each that it sees."""

_CLIENT: Final = re.compile(r"/dev/dri/(?:card|renderD)\d+")
_NVIDIA: Final = re.compile(r"/dev/nvidia(\d+)")
_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_DEVICE: Final = re.compile(r"^drm-pdev:\s*(\S+)", re.MULTILINE)
_MEMORY: Final = re.compile(
    r"^drm-(?:memory|resident|total)-vram\d*:\s*(\d+)(?: (KiB|MiB))?\s*$", re.MULTILINE
)
_UNITS: Final = {"": 1, "KiB": 2**10, "MiB": 2**20}
_NOBODY: Final[frozenset[int]] = frozenset()


class Held(NamedTuple):
    """
    Who holds a GPU: `pids`, or None and `why` it cannot be known.

    `gone`: processes that are still booked there and exist no more, so nobody's memory.
    """

    pids: frozenset[int] | None
    why: str = ""
    gone: frozenset[int] = _NOBODY


class Own(NamedTuple):
    """Which GPUs some processes hold: `gpus` by address, or None and `why` it is not known."""

    gpus: Mapping[str, frozenset[int]] | None
    why: str = ""


def holders_of(
    address: str, tree: Tree, proc: Path, deadline: float, *, search: bool = True
) -> Held:
    """
    Say who holds memory of an AMD GPU; `deadline` in monotonic seconds.

    `search` False: ask KFD alone, and leave the open files of all processes unread.
    """
    booked: dict[int, Memory] = {}
    try:
        booked = kfd_memory(tree)
        silent = "" if address in kfd_gpus(tree).values() else "KFD does not know this GPU"
    except OSError as error:
        silent = f"KFD's list of processes is not readable ({errno_name(error)})"
    on_it = frozenset(pid for pid, memory in booked.items() if memory.get(address, 0) != 0)
    unseen = p.hidden(proc)
    gone = _NOBODY if unseen else frozenset(pid for pid in on_it if not _lives(proc, pid))
    if on_it - gone:
        return Held(on_it - gone, gone=gone)
    if not search:
        return Held(None, silent or "the open files of all processes were not searched", gone)
    clients, unread = drm_clients(address, proc, deadline)
    why = silent or unseen or unread
    return Held(frozenset(clients) if clients or not why else None, "" if clients else why, gone)


def held_by(
    pids: Collection[int], vendors: Mapping[str, str], tree: Tree, proc: Path, deadline: float
) -> Own:
    """
    Say which GPUs these processes hold together; `vendors` are those of the host's, by address.

    `deadline` in monotonic seconds. Raises nothing: what cannot be read is the reason.
    """
    reason = p.hidden(proc)
    if reason:  # the driver's numbers of processes would not be ours, or workers be missing
        return Own(None, reason)
    answers = []
    if "amd" in vendors.values():
        answers.append(_of_amd(pids, tree, proc, deadline))
    if "nvidia" in vendors.values():
        answers.append(_of_nvidia(pids, proc, deadline))
    found = {
        address: holders
        for own, _ in answers
        for address, holders in sorted((own or {}).items())
        if address in vendors
    }
    reasons = [why for own, why in answers if own is None]
    if reasons and not found:  # no server computes on cards of two vendors
        return Own(None, "; ".join(reasons))
    return Own(found)


def drm_clients(address: str, proc: Path, deadline: float) -> tuple[set[int], str]:
    """Return the processes whose open files hold memory of a GPU, and why some may lack."""
    found: set[int] = set()
    unread = 0
    for pid, one in p.processes(proc).items():
        if time.monotonic() >= deadline:
            return found, "there was no time to look at all processes"
        if one.kernel or one.ended:
            continue
        try:
            if open_memory(proc, pid).get(address, 0) != 0:
                found.add(pid)
        except p.GONE:  # it ended meanwhile
            continue
        except OSError:
            unread += 1
    why = f"the open files of {unread} process(es) may not be read (CAP_SYS_PTRACE)"
    return found, why if unread else ""


def open_memory(proc: Path, pid: int) -> Memory:
    """
    Return what a process's open DRM files hold, by GPU. Raises OSError.

    0: it has the GPU open and nothing in it. None: this kernel does not tell how much.
    """
    found: Memory = {}
    for number, name in p.files(proc, pid):
        text = p.file_info(proc, pid, number) if _CLIENT.fullmatch(name) else ""
        device = _DEVICE.search(text)
        if device is None:
            continue
        told = [int(value) * _UNITS[unit] for value, unit in _MEMORY.findall(text)]
        before = found.get(device[1], 0)  # several files may be one client: never add them up
        found[device[1]] = None if before is None or not told else max(before, *told)
    return found


def nvidia_gpus(proc: Path) -> dict[int, str]:
    """Return the addresses of NVIDIA's GPUs by the number of their device file."""
    found = {}
    for place in sorted(proc.glob("driver/nvidia/gpus/*/information")):
        minor = _MINOR.search(place.read_text(encoding="utf-8", errors="replace"))
        if minor:
            found[int(minor[1])] = place.parent.name.lower()
    return found


def _lives(proc: Path, pid: int) -> bool:
    try:
        return not p.process(proc, pid).ended
    except p.GONE:
        return False
    except (OSError, ValueError):
        return True


Answer = tuple[dict[str, frozenset[int]] | None, str]
"""As `Own`, of one vendor."""


def _of_amd(pids: Collection[int], tree: Tree, proc: Path, deadline: float) -> Answer:
    """Ask KFD; where that cannot be read, the processes' own open files."""
    try:
        booked = kfd_memory(tree)
    except OSError:
        try:
            booked = {pid: _in_time(proc, pid, deadline) for pid in pids}
        except OSError as error:
            return None, f"neither KFD nor their open files can be read ({_reason(error)})"
    found: dict[str, frozenset[int]] = {}
    for pid in sorted(booked.keys() & set(pids)):
        for address, amount in booked[pid].items():
            if amount is None:
                return None, f"how much process {pid} holds of {address} is not told"
            if amount >= LEAST:
                found[address] = found.get(address, _NOBODY) | {pid}
    return found, ""


def _of_nvidia(pids: Collection[int], proc: Path, deadline: float) -> Answer:
    """Look which GPU's device file is open: one is held, of several any may be."""
    found: dict[str, frozenset[int]] = {}
    try:
        gpus = nvidia_gpus(proc)
        for pid in sorted(pids):
            for address in _open_nvidia(proc, pid, gpus, deadline):
                found[address] = found.get(address, _NOBODY) | {pid}
    except OSError as error:
        return None, f"their open files cannot be read ({_reason(error)})"
    if not gpus:
        return None, "NVIDIA's driver does not list its GPUs"
    if len(found) > 1:
        return None, f"they have {len(found)} NVIDIA GPUs open, and so has who only asks NVML"
    return found, ""


def _open_nvidia(proc: Path, pid: int, gpus: Mapping[int, str], deadline: float) -> set[str]:
    if time.monotonic() >= deadline:
        raise TimeoutError("no time left")
    try:
        found = [_NVIDIA.fullmatch(name) for _, name in p.files(proc, pid)]
    except p.GONE:  # it ended meanwhile
        return set()
    return {gpus[int(one[1])] for one in found if one and int(one[1]) in gpus}


def _in_time(proc: Path, pid: int, deadline: float) -> Memory:
    if time.monotonic() >= deadline:
        raise TimeoutError("no time left")
    try:
        return open_memory(proc, pid)
    except p.GONE:  # it ended meanwhile
        return {}


def _reason(error: OSError) -> str:
    return errno_name(error) if error.errno else str(error)
