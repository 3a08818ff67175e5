"""
Paths as another root sees them, such as that of a container: /proc/PID/root.

The kernel follows an absolute link from our own root, wherever the link lies. So links are
followed here, and none leads out. Who changes the tree meanwhile may still mislead us: what is
read of such a file must be judged, and never shown as it is.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

MOST_LINKS: Final = 40
MOST_PARTS: Final = 256


def inside(root: Path, path: str) -> Path:
    """
    Return where an absolute path leads below `root`, links followed; it need not be there.

    Raises OSError of a circle, and of more than MOST_PARTS parts.
    """
    left = _parts(path)
    found: list[str] = []
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            del found[-1:]
            continue
        try:
            target = os.readlink(root.joinpath(*found, part))  # noqa: PTH115  (no Path is wanted)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise
            found.append(part)  # no link, or not there
            continue
        links += 1
        if target.startswith("/"):
            found = []
        left += _parts(target)
        if links > MOST_LINKS or len(left) > MOST_PARTS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return root.joinpath(*found)


def _parts(path: str) -> list[str]:
    """Return the parts of a path, the last first."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if len(parts) > MOST_PARTS:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:MOST_PARTS])
    return parts[::-1]
