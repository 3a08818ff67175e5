"""What is installed here as `watchdog`, and whether it is ours and whole: lines for `doctor`."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    distributions,
)
from pathlib import Path
from typing import Final, NamedTuple

from watchdog import __product__, __version__
from watchdog.domain.finding import Verdict

DEBIANS: Final = Path("/usr/sbin/watchdog")
"""Debian's hardware watchdog, in secure_path and so what `sudo watchdog` may run."""

OWN_VENV: Final = (
    "install serving-watchdog into a virtual environment of its own, /opt/serving-watchdog"
)
REINSTALL: Final = "pip install --force-reinstall --no-deps serving-watchdog"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Line(NamedTuple):
    """One thing that was examined: its verdict, what it is, what was seen, what to do."""

    verdict: Verdict
    what: str
    detail: str
    next_step: str = ""


def version() -> Iterator[Line]:
    """Which program and which Python this is."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    detail = f"{__product__} {__version__}, Python {python} at {sys.executable}"
    yield Line(Verdict.OK, "version", detail)


def installed() -> Distribution | None:
    """Our own distribution; None where we run from a folder that pip does not know."""
    try:
        return distribution(__product__)
    except PackageNotFoundError:
        return None


def integrity(dist: Distribution | None) -> Iterator[Line]:
    """Every file of ours against the hash that pip recorded when it installed it."""
    what = "package"
    recorded = _recorded(dist) if dist is not None else {}
    if dist is None or not recorded:
        yield Line(Verdict.OK, what, "runs from a source folder; there are no hashes to compare")
    elif _editable(dist):
        yield Line(Verdict.OK, what, "an editable install; there are no hashes to compare")
    else:
        hashed = {file: value for file, value in recorded.items() if value}
        bad = [str(file) for file, value in hashed.items() if not _is_as_recorded(file, value)]
        strange = _strangers(dist, recorded)
        if bad:
            detail = f"{len(bad)} of {len(hashed)} files are not as installed: {_some(bad)}"
            yield Line(Verdict.CRITICAL, what, detail, REINSTALL)
        elif strange:
            detail = f"files that are not ours in our folder: {_some(strange)}"
            yield Line(Verdict.WARNING, what, detail, OWN_VENV)
        else:
            yield Line(Verdict.OK, what, f"{len(hashed)} files are as installed")


def clashes(ours: Distribution | None) -> Iterator[Line]:
    """PyPI's `watchdog` (file events), which owns the same folder, in this environment."""
    found = next(iter(distributions(name="watchdog")), None)
    if found is None:
        yield Line(Verdict.OK, "PyPI's watchdog", "not in this environment")
        return
    folder = Path(str(found.locate_file("")))
    here = Path(__file__).resolve().parent.parent
    mixed = folder.resolve() in {here, Path(str(ours.locate_file(""))).resolve() if ours else here}
    detail = f"{found.version} is in {folder}; it has the same folder name as ours"
    detail += " and has mixed its files with ours" if mixed else ""
    yield Line(Verdict.CRITICAL if mixed else Verdict.WARNING, "PyPI's watchdog", detail, OWN_VENV)


def dependencies(dist: Distribution | None) -> Iterator[Line]:
    """The libraries we need: present, and in which version."""
    wanted = [text for text in (dist.requires or [] if dist else []) if "extra ==" not in text]
    have: list[str] = []
    missing: list[str] = []
    for text in wanted:
        match = _NAME.match(text)
        name = match[0] if match else text
        found = next(iter(distributions(name=name)), None)
        (missing if found is None else have).append(name if found is None else _shown(name, found))
    if missing:
        detail = f"missing: {', '.join(missing)}"
        yield Line(Verdict.CRITICAL, "libraries", detail, "pip install serving-watchdog")
    else:
        yield Line(Verdict.OK, "libraries", ", ".join(have) or "not recorded by pip")


def commands(path: str | None = None, debians: Path = DEBIANS) -> Iterator[Line]:
    """Every `watchdog` that a shell or sudo would find, in the order in which it looks."""
    folders = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    found = [Path(folder, "watchdog") for folder in dict.fromkeys(folders) if folder]
    found = [file for file in found if file.is_file() and os.access(file, os.X_OK)]
    first_ours = next((i for i, file in enumerate(found) if is_ours(file)), len(found))
    for i, file in enumerate(found):
        if is_ours(file):
            yield Line(Verdict.OK, str(file), "ours" if i == 0 else "ours, not first on PATH")
        else:
            yield _foreign(file, shadows=i < first_ours, on_path=True)
    if debians.is_file() and not any(file.samefile(debians) for file in found):
        yield _foreign(debians, shadows=False, on_path=False)
    if not found and not debians.is_file():
        detail = "no `watchdog` on PATH"
        yield Line(Verdict.OK, "commands", detail, f"call {Path(sys.executable).parent}/watchdog")


def is_ours(file: Path) -> bool:
    """Whether this program starts us: our entry point's module is named in its script."""
    try:
        with file.open("rb") as script:
            head = script.read(4096)
    except OSError:
        return False
    return head.startswith(b"#!") and b"serving_watchdog_boot" in head


def _foreign(file: Path, *, shadows: bool, on_path: bool) -> Line:
    """What another program of this name would do if it was called for us."""
    if file.parent.name == "sbin" and not _is_script(file):
        detail = (
            "Debian's hardware watchdog: called as `watchdog check` it ignores the word, stays "
            "behind as a daemon that may reboot this host, and exits 0"
        )
    else:
        detail = "another program of this name"
    where = "" if on_path else "; not on this PATH, but on that of sudo and root"
    verdict = Verdict.WARNING if shadows else Verdict.OK
    step = "call `serving-watchdog`, in jobs with its full path" if shadows or not on_path else ""
    return Line(verdict, str(file), detail + where, step)


def _is_script(file: Path) -> bool:
    try:
        with file.open("rb") as program:
            return program.read(2) == b"#!"
    except OSError:
        return False


def _editable(dist: Distribution) -> bool:
    try:
        told = json.loads(dist.read_text("direct_url.json") or "{}")
        return bool(told["dir_info"]["editable"])
    except (ValueError, KeyError, TypeError):
        return False


def _recorded(dist: Distribution) -> dict[Path, str]:
    """File -> its hash in RECORD, "" for none. Not `dist.files`: that leaves out what is lost."""
    rows = csv.reader((dist.read_text("RECORD") or "").splitlines())
    return {Path(str(dist.locate_file(row[0]))): row[1] for row in rows if len(row) > 1}


def _is_as_recorded(file: Path, recorded: str) -> bool:
    """Compare with `sha256=...`, base 64 without padding."""
    kind, _, value = recorded.partition("=")
    if kind not in hashlib.algorithms_guaranteed:
        return False
    try:
        digest = hashlib.new(kind, file.read_bytes()).digest()
    except OSError:
        return False
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == value


def _strangers(dist: Distribution, recorded: Iterable[Path]) -> list[str]:
    """Files in our folder that pip did not put there."""
    folder = Path(str(dist.locate_file("watchdog")))
    known = {file.resolve() for file in recorded}
    there = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return sorted(str(file) for file in there if file.resolve() not in known)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _shown(name: str, found: Distribution) -> str:
    return f"{name} {found.version}"
