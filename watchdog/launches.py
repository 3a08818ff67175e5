"""
How a target's server was launched: command line, environment, start, models, GPUs.

Read of the process that serves, and not of what started it: a unit file or a launcher's script is
a claim. Anyone may read a command line; the environment, and files inside a container, only the
server's own user or one with CAP_SYS_PTRACE. What could not be read is told with its reason,
since a fingerprint without it proves no sameness. Secrets are taken out here, before anybody
keeps or shows anything.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from watchdog import processes as p
from watchdog.domain.command_line import masked, options
from watchdog.domain.launch_factors import public_environ
from watchdog.kfd import kfd_archs
from watchdog.launch_models import Seen, models_of
from watchdog.pci import gpus
from watchdog.servers import is_server
from watchdog.tree import Tree, errno_name

MOST_WORDS: Final = 1024
MOST_WORD: Final = 4096
"""Words of a command line that are kept, and characters of each word and value."""

_CONTAINER: Final = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=/|$)")
"""The group of a container: `docker-ID.scope`, `/docker/ID`, `/kubepods/burstable/podUID/ID`."""


def launch_of(
    pids: Collection[int], proc: Path, tree: Tree, deadline: float, version: str | None = None
) -> dict[str, Any]:
    """
    Return what is known of the launch of a server that is made of these processes.

    `version` is what the server reports. Keys as in the launch facts of `domain/fingerprint.py`:
    `argv`, `environ`, `versions`, `gpu`, `models`, `started_at` (Unix seconds), `container`, and
    `unread`, the reason by the part. `deadline` in monotonic seconds.
    """
    unread: dict[str, str] = {}
    told: dict[str, Any] = {"unread": unread}
    if version is not None:
        told["versions"] = {"vllm": version}
    _archs(tree, told, unread)
    head = _head(pids, proc)
    if head is None:
        unread["argv"] = "no single process of it has the command line of a vLLM server"
        return told
    words = p.argv(proc, head)
    if sum(len(word.encode()) + 1 for word in words) >= p.MOST_TEXT:  # no more of it is read
        unread["argv"] = f"{p.MOST_TEXT} characters or more"
        return told
    if len(words) > MOST_WORDS or any(len(word) > MOST_WORD for word in words):
        unread["argv"] = f"more than {MOST_WORDS} words, or one of more than {MOST_WORD} characters"
        return told
    told["argv"] = masked(words)
    whole = _environment(proc, head, told, unread)
    _start(proc, head, told, unread)
    found = _CONTAINER.search(p.group(proc, head))
    if found is not None:
        told["container"] = found[1][:12]
        unread["image"] = f"the image of container {found[1][:12]} is not asked for"
    root = Path("/") if found is None else proc / str(head) / "root"
    seen = Seen(whole, root, proc / str(head) / "cwd")
    told["models"] = models_of(options(words), seen, deadline, unread)
    return told


def _head(pids: Collection[int], proc: Path) -> int | None:
    """Return the process that the others descend from, of those with a server's command line."""
    servers = {pid for pid in pids if is_server(p.argv(proc, pid))}
    heads = []
    for pid in servers:
        try:
            parent = p.process(proc, pid).parent
        except (OSError, ValueError):
            continue
        if parent not in servers:
            heads.append(pid)
    return heads[0] if len(heads) == 1 else None


def _archs(tree: Tree, told: dict[str, Any], unread: dict[str, str]) -> None:
    """Tell the architecture of AMD's GPUs; that of others is not asked for, and missing."""
    with contextlib.suppress(OSError):  # without a PCI bus there are none
        if any(gpu.vendor == "nvidia" for gpu in gpus(tree)):
            unread["gpu"] = "the architecture of an NVIDIA GPU is not asked for"
    try:
        archs = kfd_archs(tree)
    except FileNotFoundError:
        return  # no AMD compute driver: nothing that is missing
    except (OSError, ValueError) as error:
        unread["gpu"] = errno_name(error) if isinstance(error, OSError) else str(error)
        return
    if archs:
        told["gpu"] = {"arch": ", ".join(sorted(set(archs)))}


def _environment(
    proc: Path, pid: int, told: dict[str, Any], unread: dict[str, str]
) -> dict[str, str] | None:
    """Keep the variables that may change graphs; return all, which nobody may keep."""
    try:
        whole = p.environ(proc, pid)
    except OSError as error:
        unread["environ"] = f"that of process {pid} may not be read ({errno_name(error)})"
        return None
    kept, why = public_environ(whole)
    if kept is None:
        unread["environ"] = why
    else:
        told["environ"] = kept
    return whole


def _start(proc: Path, pid: int, told: dict[str, Any], unread: dict[str, str]) -> None:
    try:
        told["started_at"] = p.started(proc, pid)
    except (OSError, ValueError) as error:
        unread["started_at"] = str(error)
