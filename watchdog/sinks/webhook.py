"""
The webhook sink: tells each destination every change at least once, oldest first.

The notices are in the outbox, on disk, before this sink hears of them; `webhook_worker.py` takes
them from there.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from watchdog.domain.notice import is_test, notices
from watchdog.domain.report import Delivery, Report
from watchdog.sinks.webhook_worker import CLOSING, NAME, Outbox, Webhook

__all__ = ["Outbox", "Webhook", "WebhookSink"]

GRACE: Final = 0.5
"""Seconds that a test has after its deadline, to fail by itself with a better sentence."""


@dataclass
class WebhookSink:
    """All destinations; each gets every change, whatever the others do."""

    webhooks: tuple[Webhook, ...]
    name: str = field(default=NAME, init=False)

    def send(self, report: Report, deadline: float) -> list[Delivery]:
        """
        Say what happened since the last round; the notices of this one are in the outbox.

        A test alert is in no outbox: it is posted here, and its answers awaited.
        """
        if is_test(report):
            return self._test(report, deadline)
        return [told for webhook in self.webhooks for told in webhook.send()]

    def close(self) -> None:
        """End every worker; for the end of the process, or of this configuration."""
        until = time.monotonic() + CLOSING
        while self._still_at_work() and time.monotonic() < until:
            time.sleep(0.02)

    def _still_at_work(self) -> list[Webhook]:
        """Bid all to end, again where a post was just about to begin; return who has not yet."""
        return [webhook for webhook in self.webhooks if not webhook.end()]

    def _test(self, report: Report, deadline: float) -> list[Delivery]:
        """Side by side: one that is slow must not use up the others' time."""
        notice = notices(report)[0]
        told: dict[str, Delivery] = {}

        def tell(webhook: Webhook) -> None:
            told[webhook.name] = webhook.test(notice, deadline)

        threads = [threading.Thread(target=tell, args=(w,), daemon=True) for w in self.webhooks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()) + GRACE)
        return [
            told.get(w.name, Delivery(NAME, w.name, ok=False, detail="no answer in time", count=1))
            for w in self.webhooks
        ]
