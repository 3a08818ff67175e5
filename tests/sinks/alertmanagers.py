"""Real Alertmanagers on free ports of the loopback, and ways of not being one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.binaries import find
from tests.sinks.lab import Hook, answers, free_port, until

CONFIG = """
route:
  {receiver: hook, group_by: ["..."], group_wait: 0s, group_interval: %s, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: "%s", send_resolved: true}]}]
"""

SUITES = ("bookworm", "trixie", "sid")
"""Debian's: Alertmanager 0.25, 0.28 and the newest; the first is the one that is on PATH."""

PEER_TIMEOUT = 0.5
"""Seconds that the second of a pair waits for the first to notify."""

ALONE = ("--cluster.listen-address=",)


def program(suite: str) -> str:
    """Return the Alertmanager of a suite; the test is skipped where a newer one is not there."""
    if suite == SUITES[0]:
        return find("prometheus-alertmanager")
    folder = Path(os.environ.get("SERVING_WATCHDOG_BINARIES", ".cache/debian/usr/bin"))
    beside = folder.parents[1].with_name(f"debian-{suite}") / "usr/bin/prometheus-alertmanager"
    if not beside.exists():
        pytest.skip(f"no Alertmanager of Debian {suite} here: `make test` fetches it if it can")
    runs = subprocess.run([beside, "--version"], capture_output=True, text=True, check=False)
    if runs.returncode:
        pytest.skip(f"the Alertmanager of Debian {suite} does not run here: {runs.stderr[:200]}")
    return str(beside)


class RealAlertmanager:
    """One that tells `hook` what it notifies. `folder` is its own; `prefix` that of its paths."""

    def __init__(
        self,
        command: str,
        folder: Path,
        hook: Hook,
        options: Sequence[str] = ALONE,
        *,
        scheme: str = "http",
        prefix: str = "",
        group_interval: str = "100ms",
    ) -> None:
        self.folder, self.hook = folder, hook
        self.port = free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}{prefix}"
        config = folder / "alertmanager.yml"
        config.write_text(CONFIG % (group_interval, hook.url))
        self._command = [
            command,
            f"--config.file={config}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RealAlertmanager:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, with an empty memory; return once it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stderr=log)
        if self.url.startswith("https:"):
            until(lambda: self._ended() or listens(self.port))
        else:
            until(lambda: self._ended() or answers(f"{self.url}/-/ready"))
        assert not self._ended(), (self.folder / "log").read_text()

    def kill(self) -> None:
        """End it as a crash does, and forget all that it knew."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def alerts(self, query: str = "") -> list[dict[str, Any]]:
        return self._get(f"alerts{query}")

    def peers(self) -> int:
        """Return how many a settled cluster has, itself among them."""
        cluster = self._get("status")["cluster"]
        return len(cluster["peers"]) if cluster["status"] == "ready" else 0

    def considered(self) -> int:
        """Return how often it looked whether to notify, having waited for its peer."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as page:
            (line,) = re.findall(
                rb"^alertmanager_nflog_queries_total (\d+)", page.read(), re.MULTILINE
            )
        return int(line)

    def _get(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v2/{what}", timeout=5) as page:
            return json.load(page)

    def active(self, target: str) -> list[dict[str, Any]]:
        """Return the alerts about a target that fire there."""
        return self.alerts(f"?filter=target%3D{quote(target)}")

    def notified(self, status: str) -> list[dict[str, Any]]:
        return [a for body in self.hook.bodies for a in body["alerts"] if a["status"] == status]

    def told(self, target: str) -> list[str]:
        """Return what was notified about a target, in order: firing, resolved ..."""
        told = [alert for body in self.hook.bodies for alert in body["alerts"]]
        return [alert["status"] for alert in told if alert["labels"].get("target") == target]


@contextlib.contextmanager
def pair(command: str, folder: Path, hook: Hook) -> Iterator[list[RealAlertmanager]]:
    """Two that gossip, as operators run them: together they notify once."""
    ports = [free_port(), free_port()]
    with contextlib.ExitStack() as stack:
        both = []
        for i, port in enumerate(ports):
            own = folder / f"instance-{i}"
            own.mkdir()
            options = (
                f"--cluster.listen-address=127.0.0.1:{port}",
                f"--cluster.peer=127.0.0.1:{ports[1 - i]}",
                f"--cluster.peer-timeout={PEER_TIMEOUT}s",
                "--cluster.gossip-interval=50ms",
                "--cluster.pushpull-interval=500ms",
                "--cluster.settle-timeout=500ms",
                "--cluster.reconnect-interval=500ms",
            )
            # Shorter than the peer's timeout, and each would still wait to tell what is over.
            both.append(RealAlertmanager(command, own, hook, options, group_interval="1500ms"))
        for each in both:
            stack.enter_context(each)
        until(lambda: all(each.peers() == 2 for each in both))
        yield both


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Yield an address that answers nobody, not even that it is there: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False
