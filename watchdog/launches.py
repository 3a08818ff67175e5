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
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from watchdog import processes as p
from watchdog.cache_places import caches_of
from watchdog.domain.command_line import masked, options
from watchdog.domain.launch_factors import public_environ
from watchdog.domain.version_claims import PAGE, Version, as_rows, claims_of, packages_of
from watchdog.launch_gpus import gpu_facts
from watchdog.launch_models import Seen, models_of
from watchdog.launch_pythons import Server
from watchdog.launch_versions import versions_told
from watchdog.rights import rights_of
from watchdog.servers import is_server
from watchdog.tree import Tree, errno_name

MOST_WORDS: Final = 1024
MOST_WORD: Final = 4096
"""Words of a command line that are kept, and characters of each word and value."""

_CONTAINER: Final = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=/|$)")
"""The group of a container: `docker-ID.scope`, `/docker/ID`, `/kubepods/burstable/podUID/ID`."""


def launch_of(
    pids: Collection[int],
    proc: Path,
    tree: Tree,
    deadline: float,
    version: str | None = None,
    more: Sequence[str] = (),
) -> dict[str, Any]:
    """
    Return what is known of the launch of a server that is made of these processes.

    `version` is what the server reports, `more` are configured names of factors. Keys as in the
    launch facts of `domain/fingerprint.py`: `argv`, `environ`, `versions`, `gpu`, `models`,
    `started_at` (Unix seconds), `container`, and `unread`, the reason by the part; beside them
    `pid`, `root` (where its files are reached, empty where ours are the same), `caches` (see
    `cache_places`) and `version_claims`, what is claimed and reported of versions. `deadline` in
    monotonic seconds.
    """
    unread: dict[str, str] = {}
    told: dict[str, Any] = {"unread": unread}
    if version is not None:
        told["versions"] = {"vllm": version}
    if cards := gpu_facts(tree, proc, unread):
        told["gpu"] = cards
    head = _head(pids, proc)
    if head is None:
        unread["argv"] = "no single process of it has the command line of a vLLM server"
        return told
    began = _began(proc, head)
    words = p.argv(proc, head)
    if sum(len(word.encode()) + 1 for word in words) >= p.MOST_TEXT:  # no more of it is read
        unread["argv"] = f"{p.MOST_TEXT} characters or more"
        return told
    if len(words) > MOST_WORDS or any(len(word) > MOST_WORD for word in words):
        unread["argv"] = f"more than {MOST_WORDS} words, or one of more than {MOST_WORD} characters"
        return told
    told["argv"] = masked(words)
    whole = _environment(proc, head, told, unread, more)
    if isinstance(began, float):
        told["started_at"] = began
    else:
        unread["started_at"] = began
    found = _CONTAINER.search(p.group(proc, head))
    if found is not None:
        told["container"] = found[1][:12]
        unread["image"] = f"the image of container {found[1][:12]} is not asked for"
    told |= {"pid": head, "root": _root(proc, head, contained=found is not None)}
    rights = rights_of(proc, head)
    server = Server(words, whole, Path(told["root"] or "/"), rights=rights)
    _versions(proc, head, server, told)
    told["caches"] = caches_of(options(words), whole, (proc, head, told["root"]), unread)
    root = Path("/") if found is None else proc / str(head) / "root"
    seen = Seen(whole, root, proc / str(head) / "cwd", rights)
    told["models"] = models_of(options(words), seen, deadline, unread)
    if not is_server(words) or _began(proc, head) != began:  # its number may be another's by now
        return {"unread": {"argv": f"process {head} ended meanwhile"}}
    return told


def _began(proc: Path, pid: int) -> float | str:
    """Return when a process began, in Unix seconds, or why that is not known."""
    try:
        return p.started(proc, pid)
    except (OSError, ValueError) as error:
        return str(error)


def _root(proc: Path, pid: int, *, contained: bool) -> str:
    """
    Return where the files of a process are reached; empty where it sees the same as we do.

    A service may have a /tmp of its own without being in a container, and so may we.
    """
    theirs, ours = p.mount_namespace(proc, pid), p.mount_namespace(proc, "self")
    if contained or (theirs is not None and theirs != ours):
        return str(proc / str(pid) / "root")
    return ""


def _head(pids: Collection[int], proc: Path) -> int | None:
    """
    Return the process that the others descend from, of those with a server's command line.

    One that stays to start another by other words (`uv run vllm serve`, a script with the words
    of the launch behind its own) is none: it may set variables for that one.
    """
    words = {pid: argv for pid in pids if is_server(argv := p.argv(proc, pid))}
    started: dict[int, list[int]] = {}
    for pid in words:
        with contextlib.suppress(OSError, ValueError):
            started.setdefault(p.process(proc, pid).parent, []).append(pid)
    heads = [pid for parent, some in started.items() if parent not in words for pid in some]
    for _ in words:  # so often at most: ids that are used anew may seem to go in a ring
        if len(heads) != 1:
            break
        below = [pid for pid in started.get(heads[0], ()) if words[pid] != words[heads[0]]]
        if not below:
            return heads[0]
        heads = below
    return None


def _versions(proc: Path, pid: int, server: Server, told: dict[str, Any]) -> None:
    """Tell which versions run, and `version_claims`: those that are claimed and reported."""
    exe = ""
    with contextlib.suppress(OSError):
        exe = str((proc / str(pid) / "exe").readlink())
    server = server._replace(cwd=proc / str(pid) / "cwd", exe=exe, started=told.get("started_at"))
    reported = told.get("versions", {}).get("vllm")
    told["versions"], installed = versions_told(server, reported, told["unread"])
    page = [] if reported is None else [Version("vllm", reported, PAGE)]
    told["version_claims"] = {
        "claims": as_rows(claims_of(server.environ, None)),
        "reports": as_rows([*page, *packages_of(installed)]),
    }


def _environment(
    proc: Path, pid: int, told: dict[str, Any], unread: dict[str, str], more: Sequence[str]
) -> dict[str, str] | None:
    """Keep the variables that may change graphs; return all, which nobody may keep."""
    try:
        whole = p.environ(proc, pid)
    except OSError as error:
        unread["environ"] = f"that of process {pid} may not be read ({errno_name(error)})"
        return None
    kept, why = public_environ(whole, more)
    if kept is None:
        unread["environ"] = why
    else:
        told["environ"] = kept
    return whole
