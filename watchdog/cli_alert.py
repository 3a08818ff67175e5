"""The commands about the way of an alert."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from watchdog import __version__
from watchdog.cli_options import settings_of, with_config

UNKNOWN: Final = 3
PATIENCE: Final = 10.0
"""Seconds for each kind of place."""


@click.group("alert")
def alert_group() -> None:
    """Try the way of an alert."""


@alert_group.command("test")
@with_config
def alert_test(config: Path | None, url: str | None) -> int:
    """Send a marked test alert through every sink, and say what each answered."""
    from watchdog import logs
    from watchdog.board import Board
    from watchdog.build import sinks_of
    from watchdog.clock import Clock
    from watchdog.sinks import test_report, undelivered
    from watchdog.store import Store

    logs.configure()
    settings = settings_of(config, url)
    labels = tuple(sorted(settings.alerting.labels.items()))
    report = test_report(settings.host, __version__, time.time(), labels)
    click.echo(f"serving-watchdog {__version__} on {settings.host}: a test alert")
    never_opened = Store(settings.state_dir)  # a test waits in no outbox
    sinks = sinks_of(settings, never_opened, Board(), Clock())
    deliveries = [d for sink in sinks for d in sink.send(report, time.monotonic() + PATIENCE)]
    for d in deliveries:
        click.echo(f"  {d.sink:<13} {d.instance}: {'' if d.ok else 'FAILED: '}{d.detail}")
    if not settings.alerting.alertmanagers:
        click.echo("  alertmanager  none is configured: alerting.alertmanagers")
    return UNKNOWN if undelivered(deliveries) else 0
