"""A virtual environment with vLLM's script and the names of its packages, and nothing in them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.proc_tree import link, write

SITE = "lib/python3.12/site-packages"


def made(place: Path, version: str = "0.32.0") -> Path:
    """Make one; return its script."""
    link(place / "bin/python", sys.executable)
    write(place / "bin/vllm", f"#!{place}/bin/python\nimport sys\n")
    (place / "bin/vllm").chmod(0o755)
    write(place / "pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n")
    write(place / SITE / f"vllm-{version}.dist-info/METADATA", "")
    return place / "bin/vllm"


@pytest.fixture
def vllm_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first `vllm` on PATH; its packages are known, as those of a server's are."""
    script = made(tmp_path / "venv")
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return script
