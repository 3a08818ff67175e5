"""`make install` and `make uninstall` as an operator runs them, on a host with a real systemd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.systemd.conftest import (
    CHECKOUT,
    CONFIG,
    INSTALLED_UNIT,
    PREFIX,
    UNIT,
    Installed,
    pid,
    target,
)
from tests.systemd.wheels import PYTHON

COMMANDS = "/usr/local/bin"

pytestmark = pytest.mark.usefixtures("running")


def releases(installed: Installed) -> list[str]:
    return sorted(p.name for p in installed.host.path(f"{PREFIX}/releases").iterdir() if p.is_dir())


def test_the_first_install_puts_all_into_place_and_needs_no_daemon_reload(
    installed: Installed,
) -> None:
    host = installed.host
    assert "daemon-reload is not needed" in installed.first
    assert "is enabled and started" in installed.first
    assert host.ok("systemctl", "is-enabled", UNIT) == "enabled\n"
    assert (
        host.path(INSTALLED_UNIT).read_text() == (installed.checkout / "systemd" / UNIT).read_text()
    )
    assert target(installed, f"{COMMANDS}/serving-watchdog") == f"{PREFIX}/bin/serving-watchdog"
    assert target(installed, f"{COMMANDS}/watchdog") == f"{PREFIX}/bin/watchdog"
    assert host.ok("watchdog", "--version").startswith("serving-watchdog ")
    group = int(host.ok("getent", "group", "serving-watchdog").split(":")[2])
    config = host.path(CONFIG).stat()
    assert (config.st_uid, config.st_gid, config.st_mode & 0o777) == (0, group, 0o640)
    assert host.path("/etc/serving-watchdog/credentials").stat().st_mode & 0o777 == 0o700
    assert not host.path("/etc/watchdog.d").exists()
    assert not host.path("/etc/systemd/system/watchdog.service").exists()


def test_a_second_run_changes_nothing(installed: Installed) -> None:
    before = pid(installed), releases(installed), target(installed, f"{PREFIX}/current")
    code, said = installed.make("install")
    assert code == 0, said
    assert "nothing has changed" in said
    assert before == (pid(installed), releases(installed), target(installed, f"{PREFIX}/current"))
    assert installed.host.path(CONFIG).read_text() == "targets: []\n"


def test_an_upgrade_is_taken_once_the_new_program_accepts_the_configuration(
    installed: Installed,
) -> None:
    host, old, before = installed.host, target(installed, f"{PREFIX}/current"), pid(installed)
    source = installed.checkout / "watchdog" / "__init__.py"
    text = source.read_text()
    version = text.split('__version__ = "')[1].split('"')[0]
    source.write_text(text.replace(version, "99.0.0"))

    host.path(CONFIG).write_text("targets: []\nof_another_time: 1\n")
    code, said = installed.make("install")
    assert code != 0
    assert "refuses" in said
    assert "of_another_time" in said
    assert (target(installed, f"{PREFIX}/current"), pid(installed)) == (old, before)

    host.path(CONFIG).write_text("targets: []\n")
    code, said = installed.make("install")
    assert code == 0, said
    assert "is restarted" in said
    assert pid(installed) != before
    assert host.ok("serving-watchdog", "--version") == "serving-watchdog 99.0.0\n"
    exe = host.ok("ps", "-o", "args=", "-p", pid(installed))
    assert "/releases/99.0.0-" in exe

    # the way back: one link
    assert old.removeprefix("releases/") in releases(installed)
    host.ok("ln", "-sfn", old, f"{PREFIX}/current")
    host.ok("systemctl", "restart", UNIT)
    assert host.ok("serving-watchdog", "--version") == f"serving-watchdog {version}\n"
    source.write_text(text)


def test_an_upgrade_that_cannot_be_built_leaves_what_was_there(installed: Installed) -> None:
    before = pid(installed), releases(installed), target(installed, f"{PREFIX}/current")
    readme = installed.checkout / "README.md"
    text = readme.read_text()
    readme.write_text(text + "changed\n")
    broken = installed.host.path("/srv/broken-python")
    broken.write_text(f'#!/bin/sh\ncase "$*" in *venv*) exit 1 ;; esac\nexec {PYTHON} "$@"\n')
    broken.chmod(0o755)
    code, said = installed.make("install", PYTHON="/srv/broken-python")
    readme.write_text(text)
    assert code != 0
    assert "no virtual environment could be made" in said
    assert "left as it was" in said
    assert before == (pid(installed), releases(installed), target(installed, f"{PREFIX}/current"))


def test_another_watchdog_is_named_before_anything_happens_and_keeps_its_name(
    installed: Installed,
) -> None:
    host = installed.host
    debians = host.path("/usr/sbin/watchdog")
    debians.write_text("#!/bin/sh\n")
    host.path(f"{COMMANDS}/watchdog").unlink()
    code, said = installed.make("install")
    assert code == 0, said
    assert said.index("/usr/sbin/watchdog is another program") < said.index("is up to date")
    assert target(installed, f"{COMMANDS}/watchdog") == ""
    debians.unlink()

    assert installed.make("install", LINK_WATCHDOG="no")[0] == 0
    assert target(installed, f"{COMMANDS}/watchdog") == ""
    assert installed.make("install")[0] == 0
    assert target(installed, f"{COMMANDS}/watchdog") == f"{PREFIX}/bin/watchdog"


@pytest.mark.usefixtures("containers")
def test_containers_that_may_lose_their_gpus_stop_it_where_nobody_can_be_asked(
    installed: Installed, changed_unit: Path
) -> None:
    before, text = pid(installed), changed_unit.read_text()
    code, said = installed.make("install")
    assert code != 0
    assert "nvidia-container-toolkit#48" in said
    assert (pid(installed), changed_unit.read_text()) == (before, text)

    code, said = installed.make("install", RELOAD="no")
    assert code == 0, said
    assert "systemctl daemon-reload && systemctl restart" in said
    assert pid(installed) == before
    assert installed.host.shows(UNIT)["NeedDaemonReload"] == "yes"

    installed.host.ok("systemctl", "daemon-reload")  # and the restart is forgotten
    code, said = installed.make("install")
    assert code == 0, said
    assert "daemon-reload is not needed" in said
    assert "is restarted" in said


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("answer", ["no", "YES"])
def test_at_a_terminal_it_asks_and_takes_only_a_yes(
    installed: Installed, changed_unit: Path, answer: str
) -> None:
    before, text = pid(installed), changed_unit.read_text()
    command = f"make -C {CHECKOUT} install PYTHON={PYTHON}"
    done = installed.host.run(
        "script", "-qec", command, "/dev/null", text=f"{answer}\n", timeout=60
    )
    assert "type YES to go on" in done.stdout
    if answer == "YES":
        assert done.returncode == 0, done.stdout
        assert pid(installed) != before
        assert installed.host.shows(UNIT)["NeedDaemonReload"] == "no"
    else:
        assert "nothing is changed" in done.stdout
        assert (pid(installed), changed_unit.read_text()) == (before, text)


@pytest.mark.usefixtures("containers", "changed_unit")
def test_who_says_so_beforehand_is_not_asked(installed: Installed) -> None:
    before = pid(installed)
    code, said = installed.make("install", ASSUME_YES="1")
    assert code == 0, said
    assert "is restarted" in said
    assert pid(installed) != before


def test_without_a_systemd_it_installs_and_says_what_is_left_to_do(installed: Installed) -> None:
    before = pid(installed)
    hidden = f"mount -t tmpfs tmpfs /run/systemd && exec make -C {CHECKOUT} install PYTHON={PYTHON}"
    done = installed.host.run("unshare", "--mount", "sh", "-c", hidden)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"systemctl enable --now {UNIT}" in done.stdout
    assert pid(installed) == before


def test_only_root_installs_and_a_destdir_is_refused(installed: Installed) -> None:
    user = installed.host.run("runuser", "-u", "nobody", "--", f"{CHECKOUT}/tools/install.sh")
    assert user.returncode != 0
    assert "sudo make install" in user.stderr
    code, said = installed.make("install", DESTDIR="/tmp/image")
    assert code != 0
    assert "DESTDIR" in said


def test_an_uninstall_keeps_configuration_and_state_unless_told_otherwise(
    installed: Installed,
) -> None:
    host = installed.host
    kept = (CONFIG, "/var/lib/serving-watchdog")
    code, said = installed.make("uninstall")
    assert code == 0, said
    gone = (PREFIX, INSTALLED_UNIT, f"{COMMANDS}/serving-watchdog", f"{COMMANDS}/watchdog")
    assert [path for path in gone if os.path.lexists(host.path(path))] == []
    assert all(path in said for path in ("/etc/serving-watchdog", "/var/lib/serving-watchdog"))
    assert all(host.path(path).exists() for path in kept)
    assert host.run("systemctl", "cat", UNIT).returncode != 0  # systemd has forgotten it
    assert not host.path(f"/etc/systemd/system/multi-user.target.wants/{UNIT}").is_symlink()

    code, said = installed.make("uninstall", PURGE="1")  # a second time harms nothing
    assert code == 0, said
    assert not any(host.path(path).exists() for path in kept)
    assert host.run("id", "serving-watchdog").returncode != 0
