"""
Processes of this host, as /proc shows them: kin, command line, control group, open files.

Anyone may read the first three of any process; open files only of one's own, or with
CAP_SYS_PTRACE. A list may lack processes, and `hidden` says why: what is not in such a list
is no "no". The root is an argument, so that a made-up tree reads like the real one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

MOST_PROCESSES: Final = 32_768
MOST_FILES: Final = 16_384  # open files of one process
MOST_TEXT: Final = 65_536  # bytes of one file; a command line may be long
MOST_ENVIRONMENT: Final = 1 << 20  # bytes

FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""The kernel's fixed name of the process namespace that sees every process."""

GONE: Final = (FileNotFoundError, ProcessLookupError)
"""What a read raises of a process that ended meanwhile."""

_KERNEL_THREAD: Final = 0x0020_0000  # PF_KTHREAD


class Process(NamedTuple):
    """
    What one line of /proc says. `ended`: a zombie without threads, which holds nothing any more.

    `kernel`: a thread of the kernel, which has no open files.
    """

    pid: int
    parent: int
    ended: bool = False
    kernel: bool = False


def processes(proc: Path) -> dict[int, Process]:
    """Return all processes that may be seen, by id; nothing where there is no /proc."""
    found: dict[int, Process] = {}
    try:
        names = [name for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208  (names only)
    except OSError:
        return found
    for name in names[:MOST_PROCESSES]:
        # one may have ended meanwhile, or be hidden: `hidden` tells these apart
        with contextlib.suppress(OSError, ValueError):
            found[int(name)] = process(proc, int(name))
    return found


def process(proc: Path, pid: int) -> Process:
    """Read one process. Raises one of GONE where there is none, OSError, ValueError."""
    text = _read(proc / str(pid) / "stat")
    fields = text.rpartition(")")[2].split()  # its name, in brackets, may hold anything
    try:
        state, parent, flags, threads = fields[0], int(fields[1]), int(fields[6]), int(fields[17])
    except IndexError as error:
        raise ValueError(f"/proc/{pid}/stat is short") from error
    return Process(pid, parent, state in "ZX" and threads <= 1, bool(flags & _KERNEL_THREAD))


def hidden(proc: Path) -> str:
    """Say why processes may be missing from what is seen; empty where all are seen."""
    try:
        if str((proc / "self" / "ns" / "pid").readlink()) != FIRST_NAMESPACE:
            return "this runs in a process namespace of its own, a container"
        process(proc, 1)
    except (OSError, ValueError):
        return "processes of other users are hidden here (hidepid, ProtectProc)"
    if sum(name.isdecimal() for name in os.listdir(proc)) > MOST_PROCESSES:  # noqa: PTH208
        return f"there are more than {MOST_PROCESSES} processes"
    return ""


def argv(proc: Path, pid: int) -> list[str]:
    """Return a command line; nothing where the process has none or is gone."""
    try:
        words = _read(proc / str(pid) / "cmdline").split("\0")
    except OSError:
        return []
    return words[:-1] if words and not words[-1] else words


def environ(proc: Path, pid: int) -> dict[str, str]:
    """
    Return the environment that a process was started with; what it sets later is not in it.

    Raises OSError: it may be read of one's own processes, or with CAP_SYS_PTRACE.
    """
    text = _read(proc / str(pid) / "environ", MOST_ENVIRONMENT + 1)
    if len(text) > MOST_ENVIRONMENT:
        raise OSError(errno.EFBIG, f"more than {MOST_ENVIRONMENT} bytes")
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def started(proc: Path, pid: int) -> float:
    """Return when a process began, in Unix seconds. Raises one of GONE, OSError, ValueError."""
    fields = _read(proc / str(pid) / "stat").rpartition(")")[2].split()
    boot = re.search(r"^btime (\d+)$", _read(proc / "stat", 1 << 22), re.MULTILINE)
    if boot is None or len(fields) < 20:
        raise ValueError(f"{proc} does not tell when process {pid} began")
    return int(boot[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def user(proc: Path, pid: int) -> int:
    """
    Return the number of the user that a process runs as, as the process itself sees it.

    Raises one of GONE, OSError, ValueError.
    """
    told = re.search(r"^Uid:\s+(\d+)", _read(proc / str(pid) / "status"), re.MULTILINE)
    if told is None:
        raise ValueError(f"{proc} does not tell who runs process {pid}")
    number = int(told[1])
    with contextlib.suppress(FileNotFoundError):  # a kernel without user namespaces
        for line in _read(proc / str(pid) / "uid_map").splitlines():
            inside, outside, count = map(int, line.split())
            if outside <= number < outside + count:
                return inside + number - outside
    return number


def cwd(proc: Path, pid: int) -> str | None:
    """Return a process's working directory as it sees it; None where that may not be read."""
    try:
        return str((proc / str(pid) / "cwd").readlink())
    except OSError:
        return None


def mount_namespace(proc: Path, pid: int | str) -> str | None:
    """Return which tree of mounts a process sees; None where that may not be read."""
    try:
        return str((proc / str(pid) / "ns" / "mnt").readlink())
    except OSError:
        return None


def group(proc: Path, pid: int) -> str:
    """Return the control group of a process, such as `/system.slice/vllm.service`; may be empty."""
    try:
        lines = _read(proc / str(pid) / "cgroup").splitlines()
    except OSError:
        return ""
    paths = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines if line.count(":") >= 2}
    return next((paths[kind] for kind in ("", "name=systemd", "memory") if kind in paths), "")


def files(proc: Path, pid: int) -> Iterator[tuple[str, str]]:
    """Yield number and name of each open file. Raises OSError; more than MOST_FILES are one."""
    folder = proc / str(pid) / "fd"
    names = os.listdir(folder)  # noqa: PTH208  (names only)
    if len(names) > MOST_FILES:
        raise OSError(f"process {pid} has more than {MOST_FILES} open files")
    for name in names:
        with contextlib.suppress(*GONE):  # closed meanwhile
            yield name, os.readlink(folder / name)  # noqa: PTH115  (many; a Path each costs)


def file_info(proc: Path, pid: int, number: str) -> str:
    """Return what the kernel tells of an open file; nothing once it is closed. Raises OSError."""
    with contextlib.suppress(*GONE):
        return _read(proc / str(pid) / "fdinfo" / number)
    return ""


def family(roots: Iterable[int], seen: Mapping[int, Process]) -> set[int]:
    """Return these processes with all their descendants."""
    children: dict[int, list[int]] = {}
    for one in seen.values():
        children.setdefault(one.parent, []).append(one.pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in seen]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def listening(folder: Path, port: int) -> set[str]:
    """
    Return the sockets (inodes) that listen on a TCP port; `folder` is `/proc/net`, or a process's.

    Nothing where it cannot be read.
    """
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = _read(folder / table, most=1 << 22).splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
                found.add(fields[9])
    return found


def _read(path: Path, most: int = MOST_TEXT) -> str:
    with path.open("rb") as file:
        return file.read(most).decode("utf-8", "replace")
