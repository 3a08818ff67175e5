"""What `make install` does by what systemd holds and runs, whatever an earlier run has written.

The host has booted to multi-user.target, which wants the service. So systemd holds its unit, also
while it is stopped and after its file is gone.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.systemd.conftest import (
    CHECKOUT,
    CONFIG,
    DROP_INS,
    INSTALLED_UNIT,
    PREFIX,
    UNIT,
    WHEELS,
    Installed,
    pid,
    target,
)
from tests.systemd.wheels import PYTHON

pytestmark = pytest.mark.usefixtures("running")


def nice(installed: Installed) -> str:
    return installed.host.ok("ps", "-o", "ni=", "-p", pid(installed)).strip()


def capabilities(installed: Installed) -> int:
    status = installed.host.ok("cat", f"/proc/{pid(installed)}/status")
    return int(status.split("CapEff:")[1].split()[0], 16)


def is_enabled(installed: Installed) -> bool:
    return installed.host.run("systemctl", "is-enabled", "--quiet", UNIT).returncode == 0


def uninstall(installed: Installed, **variables: str) -> str:
    """Uninstall it, and put the release back as built and not taken: the next one is quicker."""
    release = f"{PREFIX}/{target(installed, f'{PREFIX}/current')}"
    installed.host.ok("mv", release, "/srv/built")
    code, said = installed.make("uninstall", **variables)
    assert code == 0, said
    installed.host.ok("mkdir", "-p", f"{PREFIX}/releases")
    installed.host.ok("mv", "/srv/built", release)
    return said


def install_and_die_before_the_start(installed: Installed) -> None:
    script = installed.checkout / "tools" / "killed.sh"
    text = (installed.checkout / "tools" / "install.sh").read_text()
    killed, times = re.subn(r"^start$", "kill -9 $$", text, flags=re.MULTILINE)
    assert times == 1
    script.write_text(killed)
    done = installed.host.run("sh", f"{CHECKOUT}/tools/killed.sh", PYTHON=PYTHON, WHEELS=WHEELS)
    assert done.returncode != 0
    script.unlink()


@contextmanager
def taken_port(installed: Installed) -> Iterator[None]:
    """Another program has the service's port, so that it ends at each start."""

    def listen() -> socket.socket:
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 19590))
        taken.listen()
        return taken

    with installed.host.inside(listen):
        yield


@pytest.fixture
def more_sight(installed: Installed) -> Iterator[Path]:
    """The drop-in that gives capabilities, in force."""
    drop_in = installed.host.path(f"{DROP_INS}/more-sight.conf")
    drop_in.parent.mkdir(exist_ok=True)
    shutil.copy(installed.checkout / "systemd" / "more-sight.conf", drop_in)
    installed.host.ok("systemctl", "daemon-reload")
    installed.host.ok("systemctl", "restart", UNIT)
    yield drop_in
    if drop_in.exists():
        drop_in.unlink()
        installed.host.ok("systemctl", "daemon-reload")
        installed.host.ok("systemctl", "restart", UNIT)


@pytest.fixture
def roots_config(installed: Installed, running: None) -> Iterator[Path]:  # noqa: ARG001
    """The running service has read its configuration; since then only root can read it."""
    config = installed.host.path(CONFIG)
    group = config.stat().st_gid
    installed.host.ok("chown", "root:root", CONFIG)
    config.chmod(0o600)
    yield config
    installed.host.ok("chown", f"root:{group}", CONFIG)
    config.chmod(0o640)


@pytest.mark.usefixtures("more_sight")
def test_capabilities_that_a_purge_took_away_are_gone_after_the_next_install(
    installed: Installed,
) -> None:
    assert capabilities(installed) != 0
    # with them it may have a configuration of root alone
    installed.host.ok("chown", "root:root", CONFIG)
    installed.host.path(CONFIG).chmod(0o600)
    code, said = installed.make("install")
    assert code == 0, said

    uninstall(installed, PURGE="1")
    assert installed.host.shows(UNIT)["LoadState"] == "not-found"
    code, said = installed.make("install")
    assert code == 0, said
    assert "daemon-reload is not needed" in said
    assert "is enabled and started" in said
    assert capabilities(installed) == 0


@pytest.mark.usefixtures("containers", "changed_unit")
def test_a_unit_that_outlives_its_file_is_told_of_before_anything_is_installed(
    installed: Installed,
) -> None:
    host = installed.host
    assert "systemctl daemon-reload" in uninstall(installed)
    assert host.shows(UNIT)["LoadState"] == "loaded"

    code, said = installed.make("install")
    assert code != 0
    assert "nvidia-container-toolkit#48" in said
    assert not host.path(INSTALLED_UNIT).exists()

    code, said = installed.make("install", RELOAD="no")
    assert code == 0, said
    assert f"systemctl daemon-reload && systemctl enable --now {UNIT}" in said
    assert host.shows(UNIT)["ActiveState"] == "inactive"

    code, said = installed.make("install", ASSUME_YES="1")
    assert code == 0, said
    assert "is enabled and started" in said
    assert (nice(installed), is_enabled(installed)) == ("5", True)


def test_an_install_that_was_killed_before_the_start_is_made_good_by_the_next(
    installed: Installed,
) -> None:
    assert "until you run systemctl daemon-reload" in uninstall(installed, RELOAD="no")
    install_and_die_before_the_start(installed)
    assert installed.host.path(INSTALLED_UNIT).exists()
    code, said = installed.make("install")
    assert code == 0, said
    assert "takes this one by systemctl daemon-reload" in said
    assert "is enabled and started" in said
    shown = installed.host.shows(UNIT)
    assert (shown["ActiveState"], shown["NeedDaemonReload"]) == ("active", "no")
    assert is_enabled(installed)


def test_a_service_that_does_not_come_up_is_told_of_by_every_run(installed: Installed) -> None:
    uninstall(installed)
    with taken_port(installed):
        code, said = installed.make("install")
        assert code != 0
        assert "does not start" in said
        code, said = installed.make("install")
        assert code != 0
        assert "did not run: activating" in said
        assert is_enabled(installed)  # so that it comes up after a boot, if not before

        # an upgrade does not take it for one that was stopped
        unit = installed.host.path(INSTALLED_UNIT)
        text = unit.read_text()
        unit.write_text(text + "# of an older release\n")
        code, said = installed.make("install")
        assert unit.read_text() == text
        assert code != 0
        assert "did not run: activating" in said
    code, said = installed.make("install")
    assert code == 0, said
    assert "is restarted" in said
    assert installed.host.shows(UNIT)["ActiveState"] == "active"


@pytest.mark.usefixtures("changed_unit")
def test_what_was_left_to_the_operator_is_done_by_the_next_run(installed: Installed) -> None:
    installed.host.ok("systemctl", "restart", UNIT)
    code, said = installed.make("install", RELOAD="no")
    assert code == 0, said
    assert nice(installed) == "7"
    code, said = installed.make("install")
    assert code == 0, said
    assert "takes this one by systemctl daemon-reload" in said
    assert "is restarted" in said
    assert nice(installed) == "5"


def test_a_release_that_was_taken_while_another_runs_is_started(installed: Installed) -> None:
    host, link = installed.host, f"{PREFIX}/current"
    current = target(installed, link)
    old, new = f"{PREFIX}/releases/0-older", f"{PREFIX}/{current}"
    host.ok("cp", "-a", new, old)
    host.ok("sed", "-i", f"s#{new}#{old}#", f"{old}/bin/serving-watchdog")
    host.path(f"{old}/.source").write_text("other")
    host.ok("ln", "-sfn", "releases/0-older", link)
    host.ok("systemctl", "restart", UNIT)
    host.ok("ln", "-sfn", current, link)

    code, said = installed.make("install")
    assert code == 0, said
    assert "is up to date" in said
    assert "is restarted" in said
    assert new in host.ok("ps", "-o", "args=", "-p", pid(installed))
    host.ok("rm", "-r", old)


@pytest.mark.usefixtures("changed_unit")
def test_what_the_operator_stopped_or_disabled_stays_so(installed: Installed) -> None:
    for command in ("stop", "disable"):
        installed.host.ok("systemctl", command, UNIT)
        code, said = installed.make("install")
        assert code == 0, said
        assert "is stopped, and stays so" in said
        assert installed.host.shows(UNIT)["ActiveState"] == "inactive"
        assert is_enabled(installed) is (command == "stop")
    installed.host.ok("systemctl", "enable", UNIT)


@pytest.mark.usefixtures("roots_config", "changed_unit")
def test_a_service_that_could_not_read_its_configuration_again_is_left_running(
    installed: Installed,
) -> None:
    before = pid(installed)
    code, said = installed.make("install")
    assert code != 0
    assert f"chown root:serving-watchdog {CONFIG}; chmod 640 {CONFIG}" in said
    assert "left as it was" in said
    assert pid(installed) == before
