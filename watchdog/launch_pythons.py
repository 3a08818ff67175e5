"""
Which Python runs a server, and the folders where it looks for packages; nothing is started.

From the command line alone, so that a launch that is still to come has the same answer as the
process that it becomes. Paths are those that the server sees: below its own root, and a link in
there leads to nowhere else. What a `.pth` file or the program itself adds is not seen.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from watchdog.domain.masking import masked_text
from watchdog.domain.texts import one_line
from watchdog.regular_files import opened, up_to, why
from watchdog.rights import Refused, Rights
from watchdog.rooted import inside

MOST_CONFIG: Final = 4096  # bytes of a pyvenv.cfg
MOST_PATHS: Final = 64  # entries of a PATH or a PYTHONPATH
MOST_WORDS: Final = 64

WRAPPERS: Final = frozenset(
    {
        *("env", "numactl", "taskset", "nice", "ionice", "chrt", "stdbuf", "nohup", "setsid"),
        *("exec", "prlimit", "timeout"),
    }
)
"""Programs that run the next one in the same environment."""

_PYTHON: Final = re.compile(r"python(?:3(?:\.(\d{1,3}))?t?)?")
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_VERSION: Final = re.compile(r"3\.(\d{1,3})(?:\.|$)")
_LIBRARY: Final = re.compile(r"python3\.(\d{1,3})")


class Unclear(Exception):
    """Which Python it is cannot be told; the message says why."""


class Server(NamedTuple):
    """
    A launch as far as its packages hang on it.

    `environ` is None where it could not be read, `cwd` where it is not known; `exe` is what the
    kernel says that the process runs, empty of a launch that is still to come. `started` in Unix
    seconds. `rights`: what it may read, None of one's own.
    """

    words: Sequence[str]
    environ: Mapping[str, str] | None
    root: Path = Path("/")
    cwd: Path | None = Path()
    exe: str = ""
    started: float | None = None
    rights: Rights | None = None

    def at(self, path: str) -> Path:
        """Return where an absolute path of it leads. Raises OSError."""
        return inside(self.root, path, self.rights)


class _Python(NamedTuple):
    """An interpreter: its folder's parent, and the 11 of 3.11 where it is told."""

    prefix: PurePosixPath
    minor: str | None
    venv: bool = False
    shared: bool = False  # a virtual environment that sees the packages outside too
    base: PurePosixPath | None = None  # what it was made of


def folders(server: Server) -> list[Path]:
    """
    Return where the server's Python looks for packages, the first first, as paths of this host.

    Raises Unclear, OSError.
    """
    python = _python(server)
    minor = python.minor or _only_minor(server, python.prefix)
    outside = not python.venv or python.shared
    wanted = [*_given(server)]
    if outside:
        wanted += _of_user(server, minor)
    wanted += _libraries(python.prefix, minor)
    if python.venv and python.shared and python.base is not None:
        wanted += _libraries(python.base, minor)
    places: dict[Path, None] = {}
    for path in wanted:
        with contextlib.suppress(Refused):  # Python itself passes it over
            places[server.at(str(path))] = None  # lib64 is lib
    found = [place for place in places if place.is_dir()]
    if not found:
        raise Unclear(f"{python.prefix} has no folder of packages")
    return found


def _given(server: Server) -> Iterator[PurePosixPath]:
    """Yield what PYTHONPATH names."""
    text = (server.environ or {}).get("PYTHONPATH", "")
    for entry in text.split(":")[:MOST_PATHS]:
        if entry.startswith("/"):
            yield PurePosixPath(entry)


def _of_user(server: Server, minor: str) -> Iterator[PurePosixPath]:
    environ = server.environ or {}
    if environ.get("PYTHONNOUSERSITE"):
        return
    home = environ.get("HOME", "")
    base = environ.get("PYTHONUSERBASE") or (f"{home}/.local" if home else "")
    if base.startswith("/"):
        yield PurePosixPath(base) / f"lib/python3.{minor}/site-packages"


def _libraries(prefix: PurePosixPath, minor: str) -> Iterator[PurePosixPath]:
    """Yield the folders of one installation; Debian has names and an order of its own."""
    if prefix == PurePosixPath("/usr"):
        yield from _libraries(PurePosixPath("/usr/local"), minor)
    for lib in ("lib", "lib64"):
        for name in ("site-packages", "dist-packages"):
            yield prefix / lib / f"python3.{minor}" / name
    yield prefix / "lib/python3/dist-packages"


def _only_minor(server: Server, prefix: PurePosixPath) -> str:
    found = set()
    for entry in server.at(str(prefix / "lib")).iterdir():
        match = _LIBRARY.fullmatch(entry.name)
        if match is not None:
            found.add(match[1])
    if len(found) != 1:
        raise Unclear(f"{prefix}/lib is of {len(found) or 'no'} versions of Python")
    return found.pop()


def _python(server: Server) -> _Python:
    """Find the interpreter, and the virtual environment that it belongs to."""
    program = _program(server.words)
    at = _where(program, server) if program else None
    if at is None and server.exe.startswith("/") and server.environ is not None:
        at = PurePosixPath(server.exe)  # a bare name, and no PATH: then it is no environment's
    if at is None:
        raise Unclear(
            f"{one_line(program, 80)} is not found"
            if program
            else "the command line does not say which Python runs it"
        )
    if not _PYTHON.fullmatch(at.name):  # a script: vllm
        at = _interpreter_of(at, server)
    venv = _environment_of(at, server)
    if venv is not None:
        return venv
    real = _real(at, server)
    match = _PYTHON.fullmatch(real.name)
    return _Python(real.parent.parent, match[1] if match else None)


def _program(words: Sequence[str]) -> str:
    """Return the word that is the interpreter or vLLM's script; empty where none is told."""
    wrapped = False
    for word in words[:MOST_WORDS]:
        name = PurePosixPath(word).name
        if name == "vllm" or _PYTHON.fullmatch(name):
            return word
        if name in WRAPPERS:
            wrapped = True
        elif not wrapped and not _ASSIGNED.fullmatch(word):
            break  # `uv run`, `docker run`: whose packages it has is not told here
    return ""


def _where(program: str, server: Server) -> PurePosixPath | None:
    """Return where a program lies, as the server sees it."""
    if program.startswith("/"):
        there = server.at(program)
        return PurePosixPath(program) if there.exists() else None
    if "/" in program:
        if server.cwd is None or server.root != Path("/"):
            return None
        there = (server.cwd / program).parent.resolve() / PurePosixPath(program).name
        return PurePosixPath(there) if there.exists() else None
    for folder in (server.environ or {}).get("PATH", "").split(":")[:MOST_PATHS]:
        with contextlib.suppress(Refused):
            if folder.startswith("/") and server.at(f"{folder}/{program}").is_file():
                return PurePosixPath(folder) / program
    return None


def _interpreter_of(script: PurePosixPath, server: Server) -> PurePosixPath:
    """Return what the first line of a script names, else the Python beside it."""
    real = _real(script, server)
    line = _beginning(server.at(str(real))).partition("\n")[0]
    words = line.removeprefix("#!").split() if line.startswith("#!") else []
    if words and PurePosixPath(words[0]).name == "env" and words[1:2]:
        found = _where(words[1], server)
        if found is not None and _PYTHON.fullmatch(found.name):
            return found
    if words and _PYTHON.fullmatch(PurePosixPath(words[0]).name):
        return PurePosixPath(words[0])
    return real.parent / "python"


def _environment_of(python: PurePosixPath, server: Server) -> _Python | None:
    """Return the virtual environment of an interpreter; its own link to Python is not followed."""
    for folder in (python.parent, python.parent.parent):
        try:
            text = _beginning(server.at(str(folder / "pyvenv.cfg")))
        except FileNotFoundError:
            continue
        pairs = (line.partition("=") for line in text.splitlines())
        told = {key.strip().lower(): value.strip() for key, _, value in pairs}
        match = _VERSION.match(told.get("version") or told.get("version_info") or "")
        shared = told.get("include-system-site-packages", "").lower() == "true"
        home = told.get("home", "")
        base = PurePosixPath(home).parent if home.startswith("/") else None
        return _Python(folder, match[1] if match else None, venv=True, shared=shared, base=base)
    return None


def _real(path: PurePosixPath, server: Server) -> PurePosixPath:
    """Return where a path leads, as the server sees it."""
    found = server.at(str(path))
    return PurePosixPath("/") / found.relative_to(server.root)


def _beginning(path: Path) -> str:
    with opened(path) as (descriptor, _):
        return up_to(descriptor, MOST_CONFIG).decode("utf-8", "replace")


def unclear_words(error: Unclear | OSError) -> str:
    """Say why the packages are not known."""
    if isinstance(error, Unclear):
        return masked_text(str(error))
    return f"{masked_text(str(error.filename or 'a folder of packages'))} {why(error)}"
