"""A folder of wheels, so that the installer needs no network in the throw-away host."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
"""The interpreter that every user may run; the one of the tests may lie in root's home."""


def why_not() -> str:
    """Say why the installer cannot run with that interpreter; empty where it can."""
    tried = subprocess.run(
        [PYTHON, "-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 10))"],
        capture_output=True,
        check=False,
    )
    return f"{PYTHON} is too old or lacks ensurepip (python3-venv)" if tried.returncode else ""


def wheels() -> Path:
    """Return the folder, filled anew where pyproject.toml asks for other packages."""
    version = subprocess.run(
        [PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    needs = (ROOT / "pyproject.toml").read_text().split("\n[tool.")[0]
    asked = hashlib.sha256(needs.encode()).hexdigest()
    folder = ROOT / ".cache" / "wheels" / version
    stamp = folder / "stamp"
    if stamp.is_file() and stamp.read_text() == asked:
        return folder
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([PYTHON, "-m", "venv", place], check=True)
        pip = [f"{place}/bin/python", "-m", "pip", "-qq", "wheel", "--wheel-dir", str(folder)]
        subprocess.run([*pip, str(ROOT), "hatchling>=1.27"], check=True)
    for ours in folder.glob("serving_watchdog-*.whl"):
        ours.unlink()
    stamp.write_text(asked)
    return folder
