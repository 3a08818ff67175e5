"""What every test gets."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state_directory(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A state directory of its own: no test may find what another one left, or this host's."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("STATE_DIRECTORY", str(folder))
    return folder
