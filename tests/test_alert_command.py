"""`alert test` says of each place what it answered, and nothing that did not happen."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.sinks.lab import Hook, free_port
from tests.sinks.receiver import Answered, Receiver
from watchdog.cli_alert import alert_group

CONFIG = """
alerting:
  alertmanagers: [{{url: "{alertmanager}"}}]
  webhooks: [{{url: "{webhook}", name: pager}}]
  ping: {{url: "{ping}/9c5f3f2e-8f7a-4a9b-b2d1-0c1f6f0a1e55"}}
"""


@pytest.mark.parametrize("status", [200, 503])
def test_each_place_is_told_of_with_what_came_of_it(tmp_path: Path, status: int) -> None:
    with (
        contextlib.closing(Hook()) as alertmanager,
        contextlib.closing(Receiver(Answered(status, b"well"))) as webhook,
        contextlib.closing(Receiver()) as switch,
    ):
        config = tmp_path / "config.yml"
        config.write_text(
            CONFIG.format(alertmanager=alertmanager.url, webhook=webhook.url, ping=switch.url)
        )
        done = CliRunner().invoke(
            alert_group, ["test", "--config", str(config)], standalone_mode=False
        )
        assert done.return_value == (0 if status == 200 else 3), done.output
        assert len(webhook.asked) == 1
        assert switch.asked == []
    lines = [line.strip() for line in done.output.splitlines()]
    assert f"alertmanager  {alertmanager.url}: taken" in lines
    assert (
        f"webhook       pager: {'taken' if status == 200 else 'FAILED: answered 503 well'}" in lines
    )
    not_pinged = "not pinged: a test must not pass for a daemon that is alive"
    assert f"ping          {switch.url}/...: {not_pinged}" in lines
    assert "log           stderr: written" in lines


def test_a_place_that_is_down_is_told_as_failed(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    config = tmp_path / "config.yml"
    config.write_text(f"alerting: {{alertmanagers: [{{url: '{url}'}}]}}\n")
    done = CliRunner().invoke(alert_group, ["test", "--config", str(config)], standalone_mode=False)
    assert done.return_value == 3
    assert f"  alertmanager  {url}: FAILED: {url}/api/v2/alerts: connection refused" in done.output
