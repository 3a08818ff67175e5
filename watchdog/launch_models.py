"""Where the models of a launch lie on this host, and what these folders hold."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.domain.command_line import masked
from watchdog.model_files import identity
from watchdog.regular_files import content, shown, why
from watchdog.rights import Rights
from watchdog.rooted import again, demand_path, inside

_HUB_ID: Final = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?")
_REVISION: Final = re.compile(r"[\w.-]{1,128}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")

MOST_REFERENCE: Final = 64  # bytes of a file that names a commit


class Seen(NamedTuple):
    """
    What a server sees: its `/` and its working directory, None where that is not known.

    `environ` says where the hub's files lie; None where it could not be read. `rights`: what it
    may read, None of one's own.
    """

    environ: Mapping[str, str] | None
    root: Path = Path("/")
    cwd: Path | None = Path()
    rights: Rights | None = None


def models_of(
    given: Mapping[str, str], seen: Seen, deadline: float, unread: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """
    Identify the files of `model` and `drafter`, as plain data by these two words.

    `given`: the options of the launch; `deadline` in monotonic seconds. What could not be looked
    at goes into `unread`, by its part.
    """
    told = {}
    drafter, of_drafter = _drafter(given)
    asked = (
        ("model", given.get("model"), given.get("revision")),
        ("drafter", drafter, of_drafter),
    )
    for part, name, revision in asked:
        if not name:
            continue
        try:
            folder = _folder(name, revision, seen)
        except OSError as error:
            unread[f"{part} files"] = f"{shown(masked([name])[0])} {why(error)}"
            continue
        if folder is None:
            unread[f"{part} files"] = f"{masked([name])[0]}: no local folder of it was found"
        else:
            find = partial(_found, seen)
            told[part] = identity(folder, deadline, find).as_dict()
    return told


def _drafter(given: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the drafter's name and revision."""
    try:
        asked = json.loads(given.get("speculative-config", "{}"))
    except (ValueError, RecursionError):
        asked = None
    asked = asked if isinstance(asked, dict) else {}
    name, revision = asked.get("model", given.get("speculative-model")), asked.get("revision")
    return (name if isinstance(name, str) else None), (
        revision if isinstance(revision, str) else None
    )


def _folder(name: str, revision: str | None, seen: Seen) -> Path | None:
    """
    Return where a model lies; None of one that the hub has and this host has not, yet.

    Raises OSError.
    """
    if name.startswith("/"):
        return _below(name, seen)
    own = _at_cwd(name, seen)
    if own is not None and os.path.exists(own):  # noqa: PTH110  (never raises)
        return own
    return _downloaded(name, revision or "main", seen) if _HUB_ID.fullmatch(name) else None


def _at_cwd(name: str, seen: Seen) -> Path | None:
    """Return where a relative path leads; its links are the server's own, too."""
    if seen.cwd is None:
        return None
    if seen.rights is None and seen.root == Path("/"):
        return seen.cwd / name
    try:
        here = os.readlink(seen.cwd)  # noqa: PTH115  (its text, as the server sees it)
    except OSError:
        return None
    return _below(f"{here}/{name}", seen) if here.startswith("/") else None


def _below(path: str, seen: Seen) -> Path:
    """Return where an absolute path of the server leads: its links are its own. Raises OSError."""
    if seen.rights is None and seen.root == Path("/"):
        demand_path(path)
        return Path(path)
    return inside(seen.root, path, seen.rights)


def _found(seen: Seen, path: Path) -> Path:
    """Return where what lies in a model's folder leads. Raises OSError."""
    if seen.rights is None and seen.root == Path("/"):
        return path
    return again(seen.root, path, seen.rights)


def _downloaded(name: str, revision: str, seen: Seen) -> Path | None:
    """Return the snapshot of a model in the hub's cache. Raises OSError."""
    if seen.environ is None or not _REVISION.fullmatch(revision) or not revision.strip("."):
        return None
    get = seen.environ.get
    home = get("HF_HOME") or f"{get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    hub = get("HF_HUB_CACHE") or f"{home}/hub"
    if hub.startswith("~/"):
        hub = f"{get('HOME') or '/nonexistent'}{hub[1:]}"
    model = f"{hub}/models--{name.replace('/', '--')}"
    try:
        told = content(_below(f"{model}/refs/{revision}", seen), MOST_REFERENCE)
        revision = told.decode("ascii", "replace").strip()
    except OSError:
        pass  # a commit has no reference of its own
    if not _COMMIT.fullmatch(revision):
        return None
    snapshot = _below(f"{model}/snapshots/{revision}", seen)
    return snapshot if os.path.isdir(snapshot) else None  # noqa: PTH112  (never raises)
