"""
The image of a container, asked of its engine: one GET over a Unix socket, where that is permitted.

Who may connect to the socket of Docker or Podman may do anything there, so that most will not let
us; then the reason is told. Nothing but GET is sent, so a proxy that lets only that through serves
as well. The answer holds the container's environment with its secrets: what is not named here is
thrown away.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.domain.masking import MASKED, is_secret, masked_text
from watchdog.domain.texts import one_line
from watchdog.errors import CommandError, ProbeError
from watchdog.fetch import Fetcher
from watchdog.regular_files import OddFileError, parsed, why

SOCKETS: Final = (Path("/var/run/docker.sock"), Path("/run/podman/podman.sock"))
"""Where Docker and Podman listen; Podman speaks Docker's language there."""

MOST_SECONDS: Final = 2.0
MOST_BYTES: Final = 1 << 20
MOST_LABELS: Final = 32
MOST_KEY: Final = 120
MOST_VALUE: Final = 200
MOST_REASON: Final = 200

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""A container's name or ID."""

_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_ID: Final = re.compile(r"[0-9a-f]{64}")
_STANDARD: Final = "org.opencontainers.image."


class NotTold(Exception):
    """No engine told of a container; the message says why."""


class Container(NamedTuple):
    """
    What an engine tells of a container, without secrets.

    `image`: sha256:...; `name` that of the image as it was asked for; `pid`: its first process, 0
    where it does not run; `labels`: those of the image that are about versions.
    """

    id: str
    image: str
    name: str = ""
    pid: int = 0
    labels: Mapping[str, str] = {}


def container(name: str, deadline: float, sockets: Sequence[Path] = SOCKETS) -> Container:
    """
    Ask the engines of this host for a container, by name or ID.

    `deadline` in monotonic seconds. Raises NotTold.
    """
    if not NAME.fullmatch(name):
        raise NotTold("no name that a container can have")
    until = min(deadline, time.monotonic() + MOST_SECONDS)
    reasons = []
    for socket in sockets:
        try:
            if not stat.S_ISSOCK(socket.stat().st_mode):
                raise OddFileError("is no socket")
            return _asked(name, socket, until)
        except FileNotFoundError:  # noqa: PERF203  (there are two)
            continue
        except OSError as error:
            reasons.append(f"{socket} {why(error)}")
        except NotTold as error:
            reasons.append(str(error))
    if not reasons:
        reasons = [f"no engine's socket is here ({', '.join(map(str, sockets))})"]
    raise NotTold(one_line("; ".join(reasons), MOST_REASON))


def with_image(
    launch: dict[str, Any],
    before: object,
    deadline: float,
    sockets: Sequence[Path] = SOCKETS,
) -> None:
    """
    Tell `image`, `image_name` and `image_labels` of a launch in a container, or why not.

    `before` is the launch of the last look: of the same process it is not asked again.
    """
    name = launch.get("container")
    if not isinstance(name, str):
        return
    known = before if isinstance(before, Mapping) else {}
    if "image" in known and all(known.get(k) == launch.get(k) for k in ("container", "started_at")):
        told = {key: known[key] for key in ("image", "image_name", "image_labels") if key in known}
    else:
        try:
            found = container(name, deadline, sockets)
        except NotTold as reason:
            launch["unread"]["image"] = f"that of container {name}: {reason}"
            return
        if not found.id.startswith(name):  # a name may look like an ID
            launch["unread"]["image"] = f"another container is called {name}"
            return
        told = {"image": found.image, "image_name": found.name, "image_labels": found.labels}
    launch.update(told)
    launch["unread"].pop("image", None)


def _asked(name: str, socket: Path, deadline: float) -> Container:
    try:
        page = Fetcher(f"unix://{socket}").get(f"/containers/{name}/json", deadline, MOST_BYTES)
    except (ProbeError, CommandError) as error:
        raise NotTold(str(error)) from None
    if page.status == 404:
        raise NotTold(f"{socket} knows no container {name}")
    if page.status != 200:
        raise NotTold(f"{socket} answered {page.status}")
    try:
        return _told(parsed(page.body), socket)
    except OddFileError as error:
        raise NotTold(f"{socket}: its answer {error}") from None


def _told(answer: Mapping[str, Any], socket: Path) -> Container:
    """Take what is wanted of an answer. Raises NotTold of one without it."""
    config, state = _object(answer.get("Config")), _object(answer.get("State"))
    image, own = answer.get("Image"), answer.get("Id")
    digest = _DIGEST.fullmatch(image) if isinstance(image, str) else None
    if digest is None or not isinstance(own, str) or not _ID.fullmatch(own):
        raise NotTold(f"{socket}: its answer names no container with an image")
    name, pid = config.get("Image"), state.get("Pid")
    return Container(
        own,
        f"sha256:{digest[1]}",
        one_line(masked_text(name), MOST_VALUE) if isinstance(name, str) else "",
        pid if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else 0,
        _labels(_object(config.get("Labels"))),
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _labels(whole: Mapping[str, Any]) -> dict[str, str]:
    """Keep the standard labels and those about versions, bounded."""
    kept: dict[str, str] = {}
    for key, value in sorted(whole.items()):
        wanted = key.startswith(_STANDARD) or "version" in key.lower()
        if not wanted or len(key) > MOST_KEY or not isinstance(value, str):
            continue
        if len(kept) == MOST_LABELS:
            break
        shown = MASKED if is_secret(key) else masked_text(value[: 4 * MOST_VALUE])
        kept[one_line(key, MOST_KEY)] = one_line(shown, MOST_VALUE)
    return kept
