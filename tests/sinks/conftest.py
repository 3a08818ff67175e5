"""What the sinks' tests share: stubs that take posts, and a real Alertmanager."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.binaries import find
from tests.sinks.lab import Hook, RealAlertmanager, answers, free_port, until

CONFIG = """
route: {receiver: hook, group_by: ["..."], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: "%s", send_resolved: true}]}]
"""


@pytest.fixture
def hook() -> Iterator[Hook]:
    with contextlib.closing(Hook()) as hook:
        yield hook


@pytest.fixture
def hooks() -> Iterator[Callable[..., Hook]]:
    """Make as many stub servers as a test wants."""
    with contextlib.ExitStack() as stack:
        yield lambda *args: stack.enter_context(contextlib.closing(Hook(*args)))


@pytest.fixture
def alertmanager(hook: Hook, tmp_path: Path) -> Iterator[RealAlertmanager]:
    config = tmp_path / "alertmanager.yml"
    config.write_text(CONFIG % hook.url)
    port = free_port()
    command = [
        find("prometheus-alertmanager"),
        f"--config.file={config}",
        f"--storage.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            real = RealAlertmanager(f"http://127.0.0.1:{port}", hook)
            until(lambda: process.poll() is not None or answers(f"{real.url}/-/ready"))
            assert process.poll() is None, (tmp_path / "log").read_text()
            yield real
        finally:
            process.terminate()
            process.wait(10)
