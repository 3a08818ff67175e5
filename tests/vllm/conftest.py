"""What the tests against a real vLLM share: its models, and one host to serve on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from .servers import Host, Lab

MAKE_MODELS: Final = Path(__file__).parents[2] / "tools" / "vllm" / "make_tiny_model.py"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Make the models once, by the Python of VLLM_VENV (see tools/vllm/install.sh)."""
    named = os.environ.get("VLLM_VENV")
    if not named:
        pytest.skip("VLLM_VENV names no environment with a real vLLM; `make test-vllm` does")
    venv = Path(named).absolute()
    assert (venv / "bin" / "vllm").exists(), f"no vLLM in {venv}: tools/vllm/install.sh makes it"
    scratch = tmp_path_factory.mktemp("vllm")
    models = scratch / "models"
    command = [str(venv / "bin" / "python"), str(MAKE_MODELS), str(models)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert made.returncode == 0, made.stderr
    return Lab(venv, models, scratch)


@pytest.fixture(scope="session")
def host(lab: Lab) -> Iterator[Host]:
    """Give the one host all tests serve on; what it still serves at the end is stopped."""
    with closing(Host(lab)) as host:
        yield host


@pytest.fixture(scope="session")
def alertmanager_binary() -> str:
    """Find Alertmanager: ALERTMANAGER in the environment, or the name Debian's package gives it."""
    found = os.environ.get("ALERTMANAGER") or shutil.which("prometheus-alertmanager")
    if not found:
        pytest.skip("no prometheus-alertmanager: Debian's package has it, or set ALERTMANAGER")
    return found
