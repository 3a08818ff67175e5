"""Where the models of a launch lie on this host, and what these folders hold."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.domain.command_line import masked
from watchdog.model_files import identity
from watchdog.rooted import inside

_HUB_ID: Final = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?")
_REVISION: Final = re.compile(r"[\w.-]{1,128}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class Seen(NamedTuple):
    """
    What a server sees: its `/` and its working directory, None where that is not known.

    `environ` says where the hub's files lie; None where it could not be read.
    """

    environ: Mapping[str, str] | None
    root: Path = Path("/")
    cwd: Path | None = Path()


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
        folder = _folder(name, revision, seen)
        if folder is None:
            unread[f"{part} files"] = f"{masked([name])[0]}: no local folder of it was found"
        else:
            told[part] = identity(folder, deadline).as_dict()
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
    """Return where a model lies; None of one that the hub has and this host has not, yet."""
    if name.startswith("/"):
        return _below(seen.root, name)
    if seen.cwd is not None and os.path.exists(seen.cwd / name):  # noqa: PTH110  (never raises)
        return seen.cwd / name
    return _downloaded(name, revision or "main", seen) if _HUB_ID.fullmatch(name) else None


def _below(root: Path, path: str) -> Path:
    """Return where an absolute path of the server lies: its links are its own, not this host's."""
    if root == Path("/"):
        return Path(path)
    try:
        return inside(root, path)
    except OSError:  # a circle: whoever looks there is told so
        return root / path.lstrip("/")


def _downloaded(name: str, revision: str, seen: Seen) -> Path | None:
    """Return the snapshot of a model in the hub's cache."""
    if seen.environ is None or not _REVISION.fullmatch(revision) or not revision.strip("."):
        return None
    get = seen.environ.get
    home = get("HF_HOME") or f"{get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    hub = get("HF_HUB_CACHE") or f"{home}/hub"
    if hub.startswith("~/"):
        hub = f"{get('HOME') or '/nonexistent'}{hub[1:]}"
    model = _below(seen.root, hub) / f"models--{name.replace('/', '--')}"
    try:
        with (model / "refs" / revision).open("rb") as file:
            revision = file.read(64).decode("ascii", "replace").strip()
    except OSError:
        pass  # a commit has no reference of its own
    snapshot = model / "snapshots" / revision
    there = _COMMIT.fullmatch(revision) and os.path.isdir(snapshot)  # noqa: PTH112  (as above)
    return snapshot if there else None
