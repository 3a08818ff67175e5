"""The unit and its drop-in as files: what systemd says of them without starting anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "systemd" / "serving-watchdog.service"
MORE_SIGHT = ROOT / "systemd" / "more-sight.conf"
PROGRAM = "/opt/serving-watchdog/bin/serving-watchdog"

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed"
)


def exposure(unit: Path) -> float:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return float(found[1])


def with_drop_in(folder: Path) -> Path:
    place = folder / UNIT.name
    shutil.copy(UNIT, place)
    (folder / f"{UNIT.name}.d").mkdir()
    shutil.copy(MORE_SIGHT, folder / f"{UNIT.name}.d")
    return place


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    # the program is not on this machine, and is not what is looked at
    for source in (UNIT, with_drop_in(tmp_path)):
        place = tmp_path / UNIT.name
        place.write_text(source.read_text().replace(PROGRAM, "/bin/true"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(place)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def test_its_exposure_is_at_most_2(tmp_path: Path) -> None:
    assert exposure(UNIT) <= 2.0
    assert exposure(with_drop_in(tmp_path)) <= 2.5


def test_it_runs_the_linked_program_with_the_default_configuration() -> None:
    lines = UNIT.read_text().splitlines()
    assert f"ExecStart={PROGRAM} run --config /etc/serving-watchdog/config.yaml" in lines


def test_the_groups_are_the_users_so_that_a_host_without_one_still_starts_it() -> None:
    assert "\nSupplementaryGroups=" not in UNIT.read_text()
    members = re.findall(
        r"^m serving-watchdog (\S+)$", (ROOT / "systemd/sysusers.conf").read_text(), re.MULTILINE
    )
    assert members == ["video", "render", "systemd-journal"]
