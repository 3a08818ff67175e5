"""
Where the compile caches of a server are, by its command line and its environment.

Kernels and graphs lie in up to five places, and only the first has a key of vLLM's own:

    vllm      VLLM_CACHE_ROOT, else XDG_CACHE_HOME/vllm, else ~/.cache/vllm (vllm/envs.py)
    chosen    `cache_dir` of --compilation-config: used as it is, without a key (backends.py)
    triton    TRITON_CACHE_DIR, else TRITON_HOME/.triton/cache, else ~/.triton/cache (triton,
              knobs.py): kernels that Inductor did not compile, such as attention. Stale ones gave
              garbled text (vllm #41871) or an old constant (triton #7322)
    aiter     AITER_JIT_DIR, before that JIT_WORKSPACE_DIR, else AITER's own package where that
              is writable (and then it goes with the image), else ~/.aiter/jit (aiter, jit/core.py)
    inductor  TORCHINDUCTOR_CACHE_DIR, else /tmp/torchinductor_USER (torch, cache_dir_utils.py):
              what torch compiles outside vLLM's own backend, which moves it into its root

`~` is HOME, else what the password file says, as in Python. It is the environment that the process
was started with: what a program sets for itself later is not seen. This module reads nothing but
the password file, and nobody may keep the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from watchdog import processes as p
from watchdog.domain.masking import masked_text
from watchdog.regular_files import content
from watchdog.rooted import inside

MOST: Final = 8
"""Places that are told."""

MOST_PATH: Final = 4096  # characters, as the kernel allows
MOST_PASSWD: Final = 4 << 20  # bytes of a password file

_USERS: Final = ("LOGNAME", "USER", "LNAME", "USERNAME")
_TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")
_NOT_IN_A_NAME: Final = str.maketrans(dict.fromkeys('\\/:*?"<>|', "_"))


_Named = tuple[str, str, str | None]
"""Kind, what names it, and the path as it is written; None where that needs an unknown home."""


class Account(NamedTuple):
    """A user, as a password file has it."""

    name: str
    home: str


class Server(NamedTuple):
    """
    What a server's process sees: its environment, working directory, and account.

    `cwd` None where it is not known. `account` is asked only where the environment is silent.
    """

    environ: Mapping[str, str]
    cwd: str | None
    account: Callable[[], Account | None]


def caches_of(
    given: Mapping[str, str],
    environ: Mapping[str, str] | None,
    at: tuple[Path, int, str],
    unread: dict[str, str],
) -> list[dict[str, str]]:
    """
    Return the places of a launch as plain data: `kind`, `path` as the server sees it, and `by`.

    `given`: its options. `at`: /proc, the process, and its `/` for us, empty where that is ours.
    Why some are not known goes into `unread`, as `caches`.
    """
    proc, pid, root = at
    reasons = []
    if "config" in given:
        reasons.append("options are in a file of their own (--config), which may name a cache_dir")
    if environ is None:
        reasons.append("the environment, which names the others, could not be read")
    whole = environ or {}
    server = Server(whole, p.cwd(proc, pid), lambda: account_of(proc, pid, Path(root or "/")))
    found, faults = places_of(given, server, by_environ=environ is not None)
    if reasons or faults:
        unread["caches"] = "; ".join([*reasons, *faults])
    return found


def places_of(
    given: Mapping[str, str], server: Server, *, by_environ: bool = True
) -> tuple[list[dict[str, str]], list[str]]:
    """
    Return the places, vLLM's first, and why others are not known. Pure, but for the account.

    One inside another that is told already is not told apart. `by_environ`: whether the
    environment is known at all; without it only the command line tells.
    """
    found: list[dict[str, str]] = []
    faults: list[str] = []
    named = (*_chosen(given), *(_of_environment(server) if by_environ else ()))
    for kind, by, path in sorted(named, key=lambda one: one[0] != "vllm"):
        if path is None:
            faults.append(f"{kind}: in whose home it lies is not known")
            continue
        try:
            whole = _absolute(path, by, server.cwd)
        except ValueError as fault:
            faults.append(str(fault))
            continue
        if len(found) < MOST and not any(_below(whole, one["path"]) for one in found):
            found.append({"kind": kind, "path": whole, "by": by})
    return found, faults


def _chosen(given: Mapping[str, str]) -> Iterator[_Named]:
    try:
        asked = json.loads(given.get("compilation-config", "{}"))
    except (ValueError, RecursionError):
        return
    path = asked.get("cache_dir") if isinstance(asked, dict) else None
    if isinstance(path, str) and path:
        yield "chosen", "cache_dir", path


def _of_environment(server: Server) -> Iterator[_Named]:
    get = server.environ.get
    cache = get("XDG_CACHE_HOME")
    own = "HOME" if "HOME" in server.environ else "default"
    by = "XDG_CACHE_HOME" if cache is not None else own
    root = get("VLLM_CACHE_ROOT")
    if root is None:
        root = os.path.join("~/.cache" if cache is None else cache, "vllm")  # noqa: PTH118  (text)
    else:
        by = "VLLM_CACHE_ROOT"
    yield "vllm", by, _expanded(root, server)
    yield from _of_triton(server)
    names = [name for name in ("AITER_JIT_DIR", "JIT_WORKSPACE_DIR") if get(name)]
    path = get(names[0]) if names else _expanded("~/.aiter/jit", server)
    yield "aiter", names[0] if names else "default", path
    inductor = get("TORCHINDUCTOR_CACHE_DIR")
    if inductor:
        yield "inductor", "TORCHINDUCTOR_CACHE_DIR", inductor
    else:
        yield from _default_inductor(server)


def _of_triton(server: Server) -> Iterator[_Named]:
    get = server.environ.get
    path, home = get("TRITON_CACHE_DIR"), get("TRITON_HOME")
    if path is not None:
        yield "triton", "TRITON_CACHE_DIR", path
    elif home is not None:
        yield "triton", "TRITON_HOME", os.path.join(home, ".triton/cache")  # noqa: PTH118  (text)
    else:
        yield "triton", "default", _expanded("~/.triton/cache", server)


def _default_inductor(server: Server) -> Iterator[_Named]:
    get = server.environ.get
    user = next((get(name) for name in _USERS if get(name)), None)
    if user is None:
        account = server.account()
        if account is None:
            return  # such a process has a number for a user, and torch then has no name for it
        user = account.name
    folder = next((get(name) for name in _TEMPORARY if get(name)), None) or "/tmp"  # noqa: S108  (read)
    yield "inductor", "default", f"{folder}/torchinductor_{user.translate(_NOT_IN_A_NAME)}"


# --- paths, as text ------------------------------------------------------------------------------


def _expanded(path: str, server: Server) -> str | None:
    """Do what Python's `expanduser` does in that process; None where the home is not known."""
    if not path.startswith("~"):
        return path
    home = server.environ.get("HOME")
    if home is None and (account := server.account()) is not None:
        home = account.home
    if home is None or path[1:2] not in ("", "/"):  # `~other/x`: nobody does that, so say so
        return None
    return (home.rstrip("/") + path[1:]) or "/"


def _absolute(path: str, by: str, cwd: str | None) -> str:
    """Return a path that can be looked at. Raises ValueError with the reason."""
    if not path.startswith("/"):
        if cwd is None:
            raise ValueError(f"{by} is relative to a directory that is not known")
        path = f"{cwd}/{path}"
    if len(path) > MOST_PATH:
        raise ValueError(f"{by} has more than {MOST_PATH} characters")
    if "\ufffd" in path or not path.isprintable():
        raise ValueError(f"{by} is no printable UTF-8")
    if masked_text(path) != path:
        raise ValueError(f"{by} holds what looks like a secret")
    return _plain(path)


def _plain(path: str) -> str:
    """Write a path in one way; `..` stays, since what is before it may be a link."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _below(path: str, directory: str) -> bool:
    """Whether a path is a directory or lies in it, as far as the texts tell."""
    inside = path == directory or path.startswith(directory.rstrip("/") + "/")
    return inside and ".." not in path.split("/")


# --- the account ---------------------------------------------------------------------------------


def account_of(proc: Path, pid: int, root: Path) -> Account | None:
    """Return the account that a process runs under, by the password file that it sees, or None."""
    try:
        user = p.user(proc, pid)
        text = content(inside(root, "/etc/passwd"), MOST_PASSWD).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 7 and fields[2] == str(user):
            return Account(fields[0], fields[5])
    return None
