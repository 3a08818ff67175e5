"""Finds the real programs that tests run against."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ALL = bool(os.environ.get("SERVING_WATCHDOG_ALL"))
"""Where CI has installed everything: nothing that only an administrator can install is skipped."""


def find(name: str) -> str:
    """Return the program's path; a missing one fails the test: a skipped one proves nothing."""
    folder = os.environ.get("SERVING_WATCHDOG_BINARIES")
    for place in (folder, folder and str(Path(folder, "usr", "bin")), None):
        found = shutil.which(name, path=place)
        if found:
            return found
    raise AssertionError(f"{name} is not installed: run `make test`, which fetches it")


def installed(*names: str, package: str) -> str:
    """Return a big program that only an administrator installs; without it the test is skipped."""
    places = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    found = next(filter(None, (shutil.which(name, path=places) for name in names)), None)
    if found is None and not ALL:
        pytest.skip(f"needs Debian's package {package}")
    assert found, f"Debian's package {package} is not installed"
    return found
