"""One throw-away host for all tests here, with the service installed as an operator would."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd import wheels
from tests.systemd.booted import Host, booted, why_not

PARTS = (
    "LICENSE", "Makefile", "README.md", "config", "docs", "pyproject.toml",
    "serving_watchdog_boot.py", "systemd", "tools", "watchdog",
)  # fmt: skip
UNIT = "serving-watchdog.service"
INSTALLED_UNIT = f"/etc/systemd/system/{UNIT}"
DROP_INS = f"{INSTALLED_UNIT}.d"
CONFIG = "/etc/serving-watchdog/config.yaml"
PREFIX = "/opt/serving-watchdog"
CHECKOUT = "/srv/checkout"
WHEELS = "/srv/wheels"


class Installed:
    """The host, and the checkout in it that `make install` is run from."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.checkout = host.path(CHECKOUT)
        self.first = ""  # what the first install said

    def make(self, target: str, **variables: str) -> tuple[int, str]:
        """Run `make TARGET` as root: its exit code, and all that it said."""
        given = {"PYTHON": wheels.PYTHON, "WHEELS": WHEELS} | variables
        words = [f"{name}={value}" for name, value in given.items()]
        done = self.host.run("make", "-C", CHECKOUT, target, *words, timeout=300)
        return done.returncode, done.stdout + done.stderr


def pid(installed: Installed) -> str:
    return installed.host.shows(UNIT)["MainPID"]


def target(installed: Installed, link: str) -> str:
    """What a link says; "" where there is none."""
    path = installed.host.path(link)
    return str(path.readlink()) if path.is_symlink() else ""


@pytest.fixture(scope="session")
def installed() -> Iterator[Installed]:
    reason = why_not() or wheels.why_not()
    if reason:
        pytest.skip(reason)
    folder = wheels.wheels()
    with booted() as host:
        product = Installed(host)
        shutil.copytree(folder, host.path(WHEELS))
        product.checkout.mkdir()
        for part in PARTS:
            source = wheels.ROOT / part
            if source.is_dir():
                skipped = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, product.checkout / part, ignore=skipped)
            else:
                shutil.copy2(source, product.checkout / part)
        code, product.first = product.make("install")
        assert code == 0, product.first
        yield product


@pytest.fixture
def running(installed: Installed) -> None:
    """A test begins with the service running on a good configuration.

    And as after a boot, or another package's install: multi-user.target holds the unit.
    """
    installed.host.path(CONFIG).write_text("targets: []\n")
    installed.host.ok("systemctl", "daemon-reload")
    installed.host.ok("systemctl", "start", UNIT)


@pytest.fixture
def containers(installed: Installed) -> Iterator[None]:
    """NVIDIA's container toolkit is there, as far as its command goes."""
    tool = installed.host.path("/usr/bin/nvidia-ctk")
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    yield
    tool.unlink()


@pytest.fixture
def changed_unit(installed: Installed) -> Iterator[Path]:
    """The unit on the host, and in systemd, is not the one of the checkout."""
    unit = installed.host.path(INSTALLED_UNIT)
    ours = (installed.checkout / "systemd" / UNIT).read_text()
    unit.write_text(ours.replace("\nNice=5\n", "\nNice=7\n"))
    installed.host.ok("systemctl", "daemon-reload")
    yield unit
    unit.write_text(ours)
    installed.host.ok("systemctl", "daemon-reload")
