"""
The Alertmanager sink: tells every instance of a cluster what fires, again and again.

Alertmanager forgets an alert whose `endsAt` passes, keeps alerts in memory only, and does not
gossip them. So each instance is told by itself, in its own thread: one that is slow or down
costs the others nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from watchdog.domain.alert import TEST_ALERT
from watchdog.domain.heartbeat import heartbeat
from watchdog.domain.payload import RESEND, payload
from watchdog.domain.report import Delivery, Report
from watchdog.sinks.alertmanager_instance import NAME, Alertmanager, Moment

__all__ = ["NAME", "Alertmanager", "AlertmanagerSink"]


@dataclass
class AlertmanagerSink:
    """
    All instances of the cluster. `resend` and `interval` in seconds.

    Delivered means that one instance at least took it; each instance's answer is told.
    `heartbeat` adds an alert that always fires, from the first report on.
    """

    instances: tuple[Alertmanager, ...]
    resend: float = RESEND
    interval: float = 15.0
    heartbeat: bool = False
    name: str = field(default=NAME, init=False)
    _since: float | None = field(default=None, init=False)  # the heartbeat's start

    def send(self, report: Report, deadline: float) -> list[Delivery]:
        """Send to all instances side by side; wait for them until the deadline at the latest."""
        moment = Moment(report.now, report.skew, time.monotonic())
        every = max(self.interval, self.resend)
        alerts = payload(self._with_heartbeat(report), every)
        told = [d for instance in self.instances for d in instance.deliveries(0.0)]  # of before
        for instance in self.instances:
            instance.start(alerts, moment, self.resend)
        return told + [d for instance in self.instances for d in instance.deliveries(deadline)]

    def close(self) -> None:
        """Break every send; for the end of the process."""
        for instance in self.instances:
            instance.close()

    def _with_heartbeat(self, report: Report) -> Report:
        # A test is sent by a command, which must not look like a daemon that makes rounds.
        test = any(alert.finding.alertname == TEST_ALERT for alert in report.alerts)
        if not self.heartbeat or test:
            return report
        if self._since is None:
            self._since = report.now
        return replace(report, alerts=(*report.alerts, heartbeat(report, self._since)))
