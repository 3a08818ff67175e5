"""Those who watch: the watchdog, as a command and as a daemon, and an Alertmanager to tell."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .programs import HOST, JSON, Program, eventually, free_port, get, running, say
from .servers import DEPTH, MODEL, Server

CHECK_AT_MOST: Final = 240.0
"""Seconds for one `watchdog check`: twice its default window."""


@dataclass(frozen=True)
class Alertmanager:
    """An Alertmanager that tells nobody."""

    url: str

    def active(self, alertname: str) -> JSON | None:
        """Return the active alert of this name, or None; a second one is a fault."""
        answer = get(f"{self.url}/api/v2/alerts?active=true&silenced=false&inhibited=false")
        answer.raise_for_status()
        alerts: list[JSON] = answer.json()
        named = [alert for alert in alerts if alert["labels"]["alertname"] == alertname]
        assert len(named) <= 1, f"{alertname} is there {len(named)} times: {named}"
        return named[0] if named else None


@contextmanager
def alertmanager(binary: str, scratch: Path) -> Iterator[Alertmanager]:
    """Run a real Alertmanager, by itself and without a receiver."""
    config = scratch / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    url = f"http://{HOST}:{free_port()}"
    command = [binary, f"--config.file={config}", f"--storage.path={scratch / 'alertmanager'}"]
    command += [f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address="]
    with running(command, scratch / "alertmanager.log") as program:

        def is_up() -> bool | None:
            program.must_live()
            return True if get(f"{url}/-/ready").status_code == 200 else None

        eventually(is_up, 30, "Alertmanager ready")
        yield Alertmanager(url)


@dataclass(frozen=True)
class Check:
    """What one `watchdog check --json` said and how it ended."""

    exit_code: int
    report: JSON
    seconds: float


def finding(report: JSON, alertname: str) -> JSON:
    """Return the one finding about this alert in a report, whatever its verdict is."""
    found: list[JSON] = [f for f in report["findings"] if f["alertname"] == alertname]
    assert len(found) == 1, f"expected one finding of {alertname}, got {found}"
    return found[0]


def watchdog(*arguments: str) -> list[str]:
    """Return the command line of the watchdog that this interpreter has."""
    return [sys.executable, "-m", "watchdog", *arguments]


def check(server: Server) -> Check:
    """Run `watchdog check` on a server, with nothing but its URL."""
    began = time.monotonic()
    command = watchdog("check", "--url", server.url, "--json")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=CHECK_AT_MOST, check=False
    )
    try:
        report: JSON = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(
            f"exit {done.returncode}, no JSON:\n{done.stdout}\n{done.stderr}"
        ) from None
    result = Check(done.returncode, report, time.monotonic() - began)
    for found in report["findings"]:
        say(f"  {found['verdict']:8} {found['alertname']}: {found['summary']}")
    say(f"check: {report['verdict']}, exit {result.exit_code}, after {result.seconds:.0f} s")
    return result


@dataclass(frozen=True)
class Daemon:
    """A `watchdog run` that answers on its port."""

    url: str
    program: Program

    def report(self) -> JSON:
        """Return its newest report."""
        answer = get(f"{self.url}/api/v1/report")
        answer.raise_for_status()
        report: JSON = answer.json()
        return report

    def reload(self) -> None:
        """Let it read its configuration again."""
        self.program.process.send_signal(signal.SIGHUP)


@contextmanager
def daemon(server: Server, alerts_to: Alertmanager, scratch: Path) -> Iterator[Daemon]:
    """Run the daemon on one target; it must end with 0 when it is asked to."""
    listen = f"{HOST}:{free_port()}"
    config = scratch / "watchdog.yaml"
    expect = f"{{speculation: true, method: draft_model, depth: {DEPTH}}}"
    config.write_text(
        f"targets: [{{url: '{server.url}', name: {MODEL}, expect: {expect}}}]\n"
        f"alerting: {{alertmanagers: [{{url: '{alerts_to.url}'}}]}}\n"
        "interval: 5s\n"
        f"server: {{listen: '{listen}'}}\n"
    )
    with configured(config, listen) as watching:
        yield watching


@contextmanager
def configured(config: Path, listen: str) -> Iterator[Daemon]:
    """Run the daemon with this configuration; it must end with 0 when it is asked to."""
    log = config.with_name("watchdog.log")
    with running(watchdog("run", "--config", str(config)), log) as program:
        watching = Daemon(f"http://{listen}", program)

        def reports() -> JSON | None:
            program.must_live()
            return watching.report()

        eventually(reports, 60, "a first report of the daemon")
        yield watching
        program.must_live()
        exit_code = program.stop()
    assert exit_code == 0, f"the daemon ended with {exit_code}; its last lines:\n{program.tail()}"
