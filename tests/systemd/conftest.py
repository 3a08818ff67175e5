"""One throw-away host for all tests here, with the service installed as an operator would."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.systemd import wheels
from tests.systemd.booted import Host, booted, why_not

PARTS = (
    "LICENSE", "Makefile", "README.md", "config", "docs", "pyproject.toml",
    "serving_watchdog_boot.py", "systemd", "tools", "watchdog",
)  # fmt: skip
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
        # As after any other package's install or a boot: multi-user.target holds the unit from now on.
        host.ok("systemctl", "daemon-reload")
        yield product
