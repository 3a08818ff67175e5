"""Finds the real programs that tests run against."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find(name: str) -> str:
    """Return the program's path; a missing one fails the test: a skipped one proves nothing."""
    folder = os.environ.get("SERVING_WATCHDOG_BINARIES")
    for place in (folder, folder and str(Path(folder, "usr", "bin")), None):
        found = shutil.which(name, path=place)
        if found:
            return found
    raise AssertionError(f"{name} is not installed: run `make test`, which fetches it")
