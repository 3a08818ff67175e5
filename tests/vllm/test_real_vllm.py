"""
A drafter collapses on a real vLLM and the watchdog says so; it is mended, and that is said too.

The order saves starts, of which each takes a minute or two: the first two tests and the first
half of the third share one vLLM, the rest shares another. Each test also runs alone.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from .clients import traffic
from .programs import JSON, eventually, get, say
from .servers import DEPTH, MODEL, Host, counters
from .watchers import Daemon, alertmanager, check, daemon, finding

COLLAPSED: Final = "SpecDecodeCollapsed"

TO_ALERT: Final = 180.0
"""Seconds of traffic within which a dead drafter must be known in Alertmanager."""

TO_RESOLVED: Final = 300.0
"""The evidence, the linger of 60 s, and a machine whose cores are all busy."""


def test_the_lab_serves_a_drafter_whose_every_guess_is_rejected(host: Host) -> None:
    """Hold what the other tests rest on, by counters read without the watchdog."""
    server = host.serve("draft-other")
    before = counters(server)
    with traffic(server.port) as done:
        eventually(lambda: done.requests >= 6 or None, 120, "six requests")
    grown = counters(server).since(before)
    length = grown.acceptance_length
    say(f"{grown.drafts:.0f} drafts, acceptance length {length:.3f}, by vLLM's own counters")
    assert grown.generated == done.tokens
    assert length < 1.05
    assert get(f"{server.url}/health").status_code == 200  # nothing else tells


def test_check_calls_a_foreign_drafter_dead_and_exits_2(host: Host) -> None:
    server = host.serve("draft-other")
    with traffic(server.port):
        checked = check(server)
    collapsed = finding(checked.report, COLLAPSED)
    say(f"acceptance length {collapsed['value']:.3f}, known after {checked.seconds:.0f} s")
    assert checked.exit_code == 2
    assert checked.report["verdict"] == "CRITICAL"
    assert collapsed["verdict"] == "CRITICAL"
    assert collapsed["conclusive"] is True
    assert collapsed["value"] == pytest.approx(1.0, abs=0.05)
    assert collapsed["evidence"]["drafts"] > 0
    assert collapsed["next_step"]


def test_the_daemon_alerts_on_a_foreign_drafter_and_resolves_once_it_is_replaced(
    host: Host, alertmanager_binary: str, tmp_path: Path
) -> None:
    broken = host.serve("draft-other")
    with (
        alertmanager(alertmanager_binary, tmp_path) as alerts,
        daemon(broken, alerts, tmp_path) as watching,
    ):
        began = time.monotonic()
        with traffic(broken.port):
            alert = eventually(
                lambda: alerts.active(COLLAPSED), TO_ALERT, f"{COLLAPSED} in Alertmanager"
            )
        say(f"alert after {time.monotonic() - began:.0f} s: {alert['annotations']['summary']}")
        assert alert["labels"]["target"] == MODEL
        assert alert["labels"]["severity"] == "critical"
        eventually(lambda: _concluded(watching, "CRITICAL"), 30, "CRITICAL in the daemon's report")

        mended = host.serve("draft-same")
        assert mended.port == broken.port
        assert alerts.active(COLLAPSED), (
            "a restart alone resolved the alert: there was no evidence yet"
        )

        began = time.monotonic()
        with traffic(mended.port):
            eventually(
                lambda: None if alerts.active(COLLAPSED) else True,
                TO_RESOLVED,
                f"{COLLAPSED} resolved",
            )
            say(f"resolved after {time.monotonic() - began:.0f} s of traffic")
            well = eventually(lambda: _concluded(watching, "OK"), 60, "OK in the daemon's report")
        say(f"acceptance length {well['value']:.3f}: {well['summary']}")
        assert well["value"] == pytest.approx(DEPTH + 1, abs=0.1)
        assert alerts.active(COLLAPSED) is None


def test_check_finds_nothing_wrong_with_an_identical_drafter_and_exits_0(host: Host) -> None:
    server = host.serve("draft-same")
    with traffic(server.port):
        checked = check(server)
    healthy = finding(checked.report, COLLAPSED)
    say(f"acceptance length {healthy['value']:.3f}, known after {checked.seconds:.0f} s")
    assert checked.exit_code == 0
    assert checked.report["verdict"] == "OK"
    assert healthy["check"] == "acceptance_length"
    assert healthy["verdict"] == "OK"
    assert healthy["conclusive"] is True
    assert healthy["value"] == pytest.approx(DEPTH + 1, abs=0.1)


def _concluded(watching: Daemon, verdict: str) -> JSON | None:
    """Return the daemon's conclusive finding of this verdict; None while it says anything else."""
    about = [
        f for f in watching.report()["findings"] if f["alertname"] == COLLAPSED and f["conclusive"]
    ]
    return next((found for found in about if found["verdict"] == verdict), None)
