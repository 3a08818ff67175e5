"""
One destination of the webhook sink: a sleeping thread that empties its queue, oldest first.

It posts the oldest notice, and takes the next one only when that one is done: a receiver never
reads `resolved` before `firing`. A receiver that took a notice and could not say so gets it
again, with the same key.
"""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from watchdog.clock import Clock
from watchdog.domain.notice import Notice, Queued
from watchdog.domain.report import Delivery
from watchdog.fetch import Access
from watchdog.posting import Address, Answer

log = structlog.get_logger("watchdog.sinks.webhook")

NAME: Final = "webhook"
TIMEOUT: Final = 10.0
"""Seconds that one post may take in all."""

FIRST_BACKOFF: Final = 1.0
MOST_BACKOFF: Final = 300.0
"""Seconds: the most that the first, and that any later back-off takes."""

MOST_AGE: Final = 7 * 86400.0
"""Seconds after which a notice that nobody took is dropped."""

CLOSING: Final = 2.0
"""Seconds that the ends of all may take: a name that is being looked up cannot be interrupted."""

REFUSED: Final = frozenset({400, 406, 413, 415, 422})
"""
Answers about the body itself, which stays as it is: the same again gets the same again.

Any other one an operator or time can mend: a wrong address (404, 405, 410), a secret (401, 403),
a clash with the post before (409), a full or failing server.
"""


class Outbox(Protocol):
    """What waits, kept by the store. For any thread; times are on the timeline."""

    def first(self, destination: str) -> Queued | None:
        """Return the oldest that this destination has not taken."""
        ...

    def waiting(self, destination: str) -> int:
        """Count what this destination has not taken."""
        ...

    def done(self, id: int) -> None:  # noqa: A002  the store's word for it
        """Forget one: taken, or dropped for good."""
        ...

    def later(self, id: int, next_at: float) -> None:  # noqa: A002
        """Keep one for then; it has been tried once more."""
        ...


@dataclass
class Tally:
    """
    What happened since a round asked last; of the troubles the last one is told.

    `stuck`: the last try failed, and its notice holds up the rest.
    """

    taken: int = 0
    kept: int = 0  # tries that failed
    dropped: int = 0
    trouble: str = ""
    loss: str = ""
    stuck: bool = False

    def deliveries(self, name: str) -> list[Delivery]:
        """Say it as deliveries, nothing where nothing happened; what is true now comes last."""
        kept = Delivery(NAME, name, ok=False, detail=self.trouble, count=self.kept)
        dropped = Delivery(NAME, name, ok=False, detail=self.loss, count=self.dropped)
        taken = Delivery(NAME, name, ok=True, detail="taken", count=self.taken)
        told = [taken, dropped, kept] if self.stuck else [kept, dropped, taken]
        return [delivery for delivery in told if delivery.count]


class Webhook:
    """One destination; `chance` makes the back-off's jitter; `timeout` in seconds."""

    def __init__(
        self,
        name: str,
        url: str,
        access: Access,
        outbox: Outbox,
        clock: Clock,
        chance: random.Random | None = None,
    ) -> None:
        self.name = name
        self.timeout = TIMEOUT
        self._address = Address(url, access)
        self._outbox, self._clock = outbox, clock
        self._chance = chance or random.Random()  # noqa: S311  jitter, no secret
        self._lock = threading.Lock()  # for the tally and the thread
        self._tally = Tally()
        self._thread: threading.Thread | None = None
        self._wake, self._closed = threading.Event(), threading.Event()
        self._taken = ""  # key of the notice that was taken last

    def send(self) -> list[Delivery]:
        """Wake the worker, and say what happened since the last time; it waits for nothing."""
        with self._lock:
            tally, self._tally = self._tally, Tally()
            if not self._closed.is_set() and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(
                    target=self._work, name=f"webhook-{self.name}", daemon=True
                )
                self._thread.start()
        self._wake.set()
        return tally.deliveries(self.name)

    def test(self, notice: Notice, deadline: float) -> Delivery:
        """Post a notice past the queue, now, and say what was answered."""
        answer = self._post(notice.key, json.dumps(notice.body), deadline)
        detail = "taken" if answer.ok else answer.words
        return Delivery(NAME, self.name, ok=answer.ok, detail=detail, count=1)

    def end(self) -> bool:
        """
        Break the post that is under way and begin no other; True once the worker has ended.

        It waits for nothing. What was not told is told after the next start.
        """
        self._closed.set()
        self._wake.set()
        self._address.close()
        return self._thread is None or not self._thread.is_alive()

    def _work(self) -> None:
        """Tell what waits, and sleep until something does; no fault ends it but `end`."""
        crashes = 0
        while not self._closed.is_set():
            self._wake.clear()
            try:
                pause = self._turn()
            except Exception:
                log.exception("a webhook's worker crashed and goes on", webhook=self.name)
                self._closed.wait(self._backoff(crashes))  # no round may wake it: it would crash
                crashes += 1
            else:
                crashes = 0
                if pause != 0:
                    self._wake.wait(pause)

    def _turn(self) -> float | None:
        """Deal with the oldest notice; return the seconds to sleep, None until one comes."""
        queued = self._outbox.first(self.name)
        if queued is None:
            return None
        now = self._clock.now()
        # One that was never tried is young to its receiver: this host may have been off for long.
        if queued.tries and now - queued.made_at > MOST_AGE:
            tries = "1 try" if queued.tries == 1 else f"{queued.tries} tries"
            self._drop(queued, f"not taken within 7 days, in {tries}")
            return 0
        wait = queued.next_at - now
        if 0 < wait <= MOST_BACKOFF:  # no back-off is longer: then the timeline began anew
            return wait / self._clock.speed
        if queued.key != self._taken:
            self._tell(queued)
        else:
            self._outbox.done(queued.id)  # taken before, but the store could not note it
        return 0

    def _tell(self, queued: Queued) -> None:
        answer = self._post(queued.key, queued.body, time.monotonic() + self.timeout)
        if answer.ok:
            self._taken = queued.key
            self._count(Tally(taken=1))
            self._outbox.done(queued.id)
        elif answer.status in REFUSED:
            self._drop(queued, answer.words)
        elif not self._closed.is_set():
            self._keep(queued, answer)

    def _post(self, key: str, body: str, deadline: float) -> Answer:
        return self._address.post(body.encode(), deadline, headers={"Idempotency-Key": key})

    def _keep(self, queued: Queued, answer: Answer) -> None:
        now = self._clock.now()
        asked = min(answer.wait(now + self._clock.skew()), MOST_BACKOFF)
        self._outbox.later(queued.id, now + max(asked, self._backoff(queued.tries)))
        waiting = self._outbox.waiting(self.name)
        trouble = f"{answer.words}; {waiting} kept, to be tried again"
        self._count(Tally(kept=1, trouble=trouble, stuck=True))

    def _drop(self, queued: Queued, why: str) -> None:
        self._outbox.done(queued.id)
        alertname, change = _about(queued.body)
        log.error("a notice is dropped", webhook=self.name, key=queued.key, alertname=alertname,
                  change=change, why=why)  # fmt: skip
        self._count(Tally(dropped=1, loss=f"dropped {change} of {alertname}: {why}"))

    def _backoff(self, tries: int) -> float:
        """Full jitter: many hosts that lost one receiver must not come back to it in step."""
        return self._chance.uniform(0, min(MOST_BACKOFF, FIRST_BACKOFF * 2 ** min(tries, 20)))

    def _count(self, more: Tally) -> None:
        with self._lock:
            self._tally = Tally(
                self._tally.taken + more.taken,
                self._tally.kept + more.kept,
                self._tally.dropped + more.dropped,
                more.trouble or self._tally.trouble,
                more.loss or self._tally.loss,
                more.stuck,
            )


def _about(body: str) -> tuple[str, str]:
    """Alertname and change of a stored body, for people."""
    try:
        told = json.loads(body)
        return str(told["alert"]["labels"]["alertname"]), str(told["change"])
    except (ValueError, LookupError, TypeError):
        return "?", "?"
