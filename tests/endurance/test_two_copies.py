"""Two copies on one state directory: the second refuses, and a crash of the first frees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.endurance.forked import Nursery
from tests.endurance.house import House, until


def test_a_second_copy_refuses_and_names_the_first(tmp_path: Path, nursery: Nursery) -> None:
    with House(tmp_path, ["well"], nursery=nursery) as house:
        house.running()
        config = tmp_path / "second.yaml"
        config.write_text(
            f"{{targets: [], state_dir: '{house.state}', server: {{listen: '127.0.0.1:0'}}}}"
        )
        second = subprocess.run(
            [sys.executable, "-m", "watchdog", "run", "--config", str(config)],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert second.returncode == 3
        assert second.stderr.splitlines() == [
            f"serving-watchdog: {house.state} is in use by process {house.pid}, another "
            f"serving-watchdog: stop that one, or give this one a state_dir of its own"
        ]
        asked = house.targets["well"].asked
        until(lambda: house.targets["well"].asked > asked + 1)
        assert house.metric("watchdog_store_durable") == 1


def test_after_a_kill_the_next_one_starts_at_once(tmp_path: Path, nursery: Nursery) -> None:
    with House(tmp_path, ["well"], nursery=nursery) as house:
        for number in (signal.SIGKILL, signal.SIGTERM):
            house.running()
            first = house.pid
            code = house.kill(number)
            assert code == (-number if number == signal.SIGKILL else 0)
            began = time.monotonic()
            house.running()
            assert time.monotonic() - began < 10
            assert house.pid != first
            assert (house.state / "lock").read_text() == f"{house.pid}\n"
            house.kill()


def test_a_frozen_first_copy_still_has_the_directory(tmp_path: Path, nursery: Nursery) -> None:
    """It is no evidence of its end that it does nothing."""
    with House(tmp_path, ["well"], nursery=nursery) as house:
        house.running()
        first = house.pid
        os.kill(first, signal.SIGSTOP)
        try:
            house.start()
            assert house.reaped() == 3
            assert house.says(f"in use by process {first}")
        finally:
            os.kill(first, signal.SIGCONT)
            house.pid = first
