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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Hand out tests by the file; those of systemd in one piece, since they share one machine."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  (only where it is used)

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            folder = "tests/systemd/"
            return folder if nodeid.startswith(folder) else str(super()._split_scope(nodeid))

    return ByFile(config, log)
