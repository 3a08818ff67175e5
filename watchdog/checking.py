"""`watchdog check`: as many rounds as it needs, or a running daemon's word, or a recording."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from watchdog.build import assessor_of, gpu_probes_now, probes_of, watchdog_of
from watchdog.clock import Clock
from watchdog.config import for_recording
from watchdog.domain.finding import Verdict, worst
from watchdog.domain.report import PRODUCT, Report, as_json, seconds_of
from watchdog.errors import CommandError, ProbeError
from watchdog.fetch import Fetcher
from watchdog.gpu_recording import GpuRecorder
from watchdog.probes.vllm_metrics import VllmMetrics
from watchdog.recording import Recording, capture, redactor_for
from watchdog.round import rounds
from watchdog.settings import Settings

DAEMON_TIMEOUT = 2.0
MOST_BYTES = 8 << 20
FRESH_ROUNDS = 3
LATE = 1.0
"""Seconds that the last round may begin after the window: rounds are a little late."""

DECIDING = ("SpecDecodeCollapsed", "SpecDecodeNotDrafting", "ServingDown", "ServingStalled")
"""What a check waits for; the other alerts need longer than anyone waits for an answer."""

LINK_CHECKS = ("pcie_link", "gpu_present")
"""What is judged by rounds in a row, the same number whatever the traffic."""


@dataclass(frozen=True)
class Progress:
    """How far a check is: seconds waited of the window, and what is still open, in words."""

    waited: float
    window: float
    open: tuple[str, ...]


def check(
    settings: Settings, window: float, told: Callable[[Progress], None] = lambda _: None
) -> dict[str, Any]:
    """Repeat rounds until each target has enough evidence or `window` seconds are over."""
    watchdog = watchdog_of(settings, [])
    began = watchdog.clock.now()
    report: Report | None = None
    for number, report in enumerate(rounds(watchdog), 1):
        waited = watchdog.clock.now() - began
        still = unsettled(report, settings, number)
        told(Progress(waited, window, still))
        if not still or waited + settings.interval > window + LATE:
            break
    watchdog.close()
    if report is None:  # only where the clock was stopped
        raise CommandError("stopped before the first round")
    return as_json(replace(report, alerts=()))  # nothing was sent: there is no alert


def replayed(directory: Path, settings: Settings) -> dict[str, Any]:
    """Judge every snapshot of a recorded folder; the last round is what counts."""
    assessor = assessor_of(settings)
    report: Report | None = None
    for at, readings in Recording(directory).snapshots():
        report = assessor.assess(readings, at)
    if report is None:
        raise CommandError(f"{directory}: no snapshot to replay")
    return as_json(report)


def settings_for(directory: Path) -> Settings:
    """Make the settings for a recording without a config: its targets, nothing declared."""
    # No page is fetched in a replay; each target only needs an address of its own.
    targets = [
        {"name": name, "url": f"http://127.0.0.1:{port}"}
        for port, name in enumerate(Recording(directory).targets(), 1)
    ]
    return Settings.model_validate({"targets": targets})


def record(settings: Settings, directory: Path, window: float) -> tuple[int, int, int]:
    """
    Record `window` seconds of every target and GPU.

    Return how many pages came, how many did not, and how many GPUs there are.
    """
    count = max(2, int(window // settings.interval) + 1)
    gpus = GpuRecorder(gpu_probes_now(settings, DAEMON_TIMEOUT))
    probes = probes_of(settings)
    taken = capture(probes, directory, gpus, count, settings.interval, Clock())
    text = for_recording(settings, redactor_for(probes).text)
    (directory / "config.yaml").write_text(text, encoding="utf-8")
    return taken, count * len(settings.targets) - taken, gpus.count


def unsettled(report: Report, settings: Settings, number: int) -> tuple[str, ...]:
    """
    Name what more traffic or time would decide; empty when the check may stop.

    `number` rounds are over. A link is judged by rounds in a row, so nothing waits for an idle
    one longer than these.
    """
    still: list[str] = []
    for target in settings.targets:
        findings = report.of_target(target.name)
        deciding = [f for f in findings if f.alertname in DECIDING]
        if any(f.alertname == "WatchdogBlind" and f.verdict is not Verdict.OK for f in findings):
            continue  # it answers, and what it says will not change
        still += [f.argument.summary for f in deciding if _is_open(f.verdict, f.conclusive)]
    if number < max(settings.checks[check]["rounds"] for check in LINK_CHECKS):
        links = [f for f in report.findings if f.check in LINK_CHECKS]
        still += [f.argument.summary for f in links if _is_open(f.verdict, f.conclusive)]
    return tuple(still)


def _is_open(verdict: Verdict, conclusive: bool) -> bool:  # noqa: FBT001
    return not conclusive and verdict in (Verdict.OK, Verdict.UNKNOWN)


def from_daemon(settings: Settings) -> dict[str, Any] | None:
    """
    Take a running daemon's last report, where it is conclusive for all these targets.

    None where there is no daemon, where it watches other targets, where its last round is old,
    or where its evidence is too thin: then the check makes rounds of its own.
    """
    try:
        report = daemon_report(settings)
    except CommandError:
        return None
    names = {target.name for target in settings.targets}
    watched = {(r["target"], r["facts"].get("url")) for r in report["readings"]}
    asked = {(t.name, VllmMetrics(t.name, t.url).shown) for t in settings.targets}
    if not asked <= watched or not is_fresh(report, settings):
        return None
    # The host's own have no target: its GPUs are the same, whichever target is asked about.
    findings = [f for f in report["findings"] if f["subject"].get("target") in {None, *names}]
    decided = [f for f in findings if f["alertname"] in DECIDING]
    bad = any(f["conclusive"] and f["verdict"] in ("CRITICAL", "WARNING") for f in decided)
    if not bad and not (decided and all(f["conclusive"] for f in decided)):
        return None  # one dead engine is told at once, however little is known of the others
    verdicts = [Verdict[f["verdict"]] for f in findings]
    alerts = [a for a in report["alerts"] if a["subject"].get("target") in {None, *names}]
    paused = {name: until for name, until in report["paused"].items() if name in names}
    own = {"findings": findings, "alerts": alerts, "paused": paused}
    return {**report, **own, "verdict": worst(verdicts).name}


def is_fresh(report: Mapping[str, Any], settings: Settings) -> bool:
    """Whether a daemon's last round is young enough to stand for one of our own."""
    age = time.time() - seconds_of(report["at"])
    return age <= FRESH_ROUNDS * settings.interval + 10


def daemon_report(settings: Settings) -> dict[str, Any]:
    """GET /api/v1/report of the daemon on this host. Raises CommandError with the reason."""
    report = ask_daemon(settings, "/api/v1/report")
    if report.get("product") != PRODUCT:
        raise CommandError(f"{settings.server.listen}: another program answers there")
    return report


def ask_daemon(
    settings: Settings, path: str, body: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """GET from or POST to the daemon's port. Raises CommandError with what it said."""
    fetcher = Fetcher(settings.server.url)
    deadline = time.monotonic() + DAEMON_TIMEOUT
    try:
        if body is None:
            page = fetcher.get(path, deadline, MOST_BYTES)
        else:
            page = fetcher.post(path, json.dumps(body).encode(), deadline, MOST_BYTES)
    except ProbeError as error:
        raise CommandError(
            f"no daemon at {settings.server.listen}: {error}; start it with `watchdog run`"
        ) from error
    finally:
        fetcher.close()
    try:
        answer = json.loads(page.body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise CommandError(f"{settings.server.listen}: another program answers there")
    if page.status != 200:
        raise CommandError(str(answer.get("error", f"the daemon answered {page.status}")))
    return answer
