"""Debian's Prometheus and Alertmanager on free ports, and our daemon beside them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.binaries import find
from tests.sinks.lab import answers, free_port, until

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config"


def get(url: str) -> Any:
    """What a server answers, from JSON."""
    with urllib.request.urlopen(url, timeout=5) as page:
        return json.load(page)


@contextmanager
def program(
    folder: Path, ready: str, *command: str, **env: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run it from when `ready` answers 200 until the end of the test."""
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **env}) as process,
    ):
        try:
            until(lambda: process.poll() is not None or answers(ready))
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            process.terminate()
            process.send_signal(signal.SIGCONT)  # one that a test stopped cannot end
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


@dataclass
class Alertmanager:
    url: str

    def alerts(self, **labels: str) -> list[dict[str, Any]]:
        """The alerts that are not resolved, and have these labels."""
        return [
            alert
            for alert in get(f"{self.url}/api/v2/alerts")
            if labels.items() <= alert["labels"].items()
        ]

    def post(self, *alerts: Mapping[str, str]) -> None:
        """Fire alerts with these labels, as anyone may."""
        body = json.dumps([{"labels": labels} for labels in alerts]).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v2/alerts", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 200


@contextmanager
def alertmanager(folder: Path, config: Mapping[str, Any]) -> Iterator[Alertmanager]:
    folder.mkdir(exist_ok=True)
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{free_port()}"
    command = (
        find("prometheus-alertmanager"),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
    )
    with program(folder, f"{url}/-/ready", *command):
        yield Alertmanager(url)


@dataclass
class Prometheus:
    url: str
    process: subprocess.Popen[bytes]

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self._ask("query", query=expression)

    def range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        return self._ask("query_range", query=expression, start=start, end=end, step=step)

    def value(self, expression: str) -> float | None:
        """The one value, None if there is none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def rules(self) -> list[dict[str, Any]]:
        groups = get(f"{self.url}/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _ask(self, what: str, **parameters: str | float) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode(parameters)
        answer = get(f"{self.url}/api/v1/{what}?{query}")
        assert answer["status"] == "success", answer
        return answer["data"]["result"]


def uncommented(text: str) -> str:
    """Put in force what shipped YAML has as commented settings: `#` and no single space after."""
    return re.sub(r"^( {4,})#(?! \S)", r"\1", text, flags=re.MULTILINE)


def scrapes_over_tls() -> str:
    """scrape.yml as its comments say for a Prometheus elsewhere."""
    text = (CONFIG / "prometheus/scrape.yml").read_text()
    here = """\
    static_configs:
      - targets: ["127.0.0.1:19590"]
        labels: {host: gpu-1}
"""
    assert here in text
    return uncommented(text.replace(here, ""))


def shipped_scrapes(addresses: Mapping[str, str], interval: str = "1s") -> list[dict[str, Any]]:
    """The shipped jobs, with these addresses by job and a shorter interval; others are left out."""
    jobs = yaml.safe_load((CONFIG / "prometheus/scrape.yml").read_text())["scrape_configs"]
    told = [job for job in jobs if job["job_name"] in addresses]
    for job in told:
        job |= {"scrape_interval": interval, "scrape_timeout": interval}
        (target,) = job["static_configs"]
        target["targets"] = [addresses[job["job_name"]].removeprefix("http://")]
    return told


@contextmanager
def prometheus(
    folder: Path,
    scrapes: Sequence[Mapping[str, Any]],
    rules: Sequence[Path] = (),
    alertmanager: str = "",
) -> Iterator[Prometheus]:
    """Evaluate each second; alerts go to `alertmanager`."""
    folder.mkdir(exist_ok=True)
    config: dict[str, Any] = {
        "global": {"evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": list(scrapes),
    }
    if alertmanager:
        host = alertmanager.removeprefix("http://")
        told = {"static_configs": [{"targets": [host]}]}
        config["alerting"] = {"alertmanagers": [told]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{free_port()}"
    command = (
        find("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--rules.alert.resend-delay=1s",
    )
    with program(folder, f"{url}/-/ready", *command) as process:
        yield Prometheus(url, process)


@dataclass
class Daemon:
    url: str
    process: subprocess.Popen[bytes]

    def pause(self, target: str) -> None:
        """End the target's alerts, as an operator may."""
        body = json.dumps({"target": target, "seconds": 600}).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/pause", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 200


@contextmanager
def daemon(folder: Path, **settings: Any) -> Iterator[Daemon]:
    """Run the real one, in a process of its own."""
    folder.mkdir(exist_ok=True)
    server = {"listen": f"127.0.0.1:{free_port()}", **settings.pop("server", {})}
    url = f"http://{server['listen']}"
    config = {"interval": "1s", "host": "gpu-1", "server": server, **settings}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    command = (sys.executable, "-m", "watchdog", "run", "--config", str(folder / "config.yaml"))
    with program(
        folder, f"{url}/-/ready", *command, STATE_DIRECTORY=str(folder / "state")
    ) as process:
        yield Daemon(url, process)
