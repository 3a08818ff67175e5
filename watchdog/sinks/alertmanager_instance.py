"""
One instance of Alertmanager: what it was told, what is due, and the thread that tells it.

It hears of every change at once, of all alerts each minute, and of everything anew after it did
not answer. Alerts are sent in batches; if one batch is refused, each of its alerts goes alone,
because one that is refused must not mute the rest.

It judges times by its own clock, not by ours. So they are stamped in its clock, as the dates of
its answers tell it; where it has not answered lately, it is asked with an empty batch before.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog

from watchdog.domain.other_clock import TOLERATED, OtherClock
from watchdog.domain.payload import Told
from watchdog.domain.report import Delivery
from watchdog.fetch import NO_ACCESS, Access
from watchdog.posting import Address, Answer

log = structlog.get_logger("watchdog.sinks.alertmanager")

NAME: Final = "alertmanager"
BATCH: Final = 64
PATH: Final = "/api/v2/alerts"

ABOUT_US: Final = frozenset({401, 403, 404, 405, 407, 408, 410, 415, 429})
"""Answers about the sender or the place, whatever the body: sent alone, alerts get the same."""

LATE: Final = 0.5
"""Seconds by which a round may be early."""

GRACE: Final = 0.5
"""Seconds that a send has after its deadline, to fail by itself with a better sentence."""


class Last(NamedTuple):
    """The state told last, "" if it must be told anew, and when, on the report's timeline."""

    state: str
    at: float


NEVER: Final = Last("", 0.0)


class Moment(NamedTuple):
    """When a send began: on the report's timeline, its wall clock's skew, and monotonic."""

    now: float
    skew: float
    began: float

    def timeline(self) -> float:
        """Return the present moment on the report's timeline."""
        return self.now + time.monotonic() - self.began


@dataclass
class Tally:
    """
    What came of one send to one instance; `trouble` is the first answer that was not good.

    `reached`: the last answer was good, or about what one alert says. `told`: this was told.
    """

    due: int = 0
    taken: int = 0
    trouble: str = ""
    reached: bool = False
    told: bool = False

    def deliveries(self, instance: str) -> list[Delivery]:
        """Say what was taken, and what was not and why; last what tells if it is reached now."""
        failed = self.due - self.taken
        if not self.due:  # it was only asked whether it is there
            detail = "is there" if self.reached else self.trouble or "no answer in time"
            return [Delivery(NAME, instance, ok=self.reached, detail=detail, count=0)]
        told = [
            Delivery(NAME, instance, ok=True, detail="taken", count=self.taken),
            Delivery(
                NAME, instance, ok=False, detail=self.trouble or "no answer in time", count=failed
            ),
        ]
        if self.reached:
            told.reverse()
        return [delivery for delivery in told if delivery.count]


class Alertmanager:
    """One instance. `timeout`: seconds that everything sent in one round may take."""

    def __init__(self, url: str, access: Access = NO_ACCESS, timeout: float = 10.0) -> None:
        self.url = url
        self.timeout = timeout
        self._address = Address(url, access, PATH)
        self._thread: threading.Thread | None = None
        self._tally = Tally(told=True)
        self._until = 0.0  # when the send under way must have ended
        self._asked_at: float | None = None  # when a send last began, on the report's timeline
        # Of these the thread takes care while it runs.
        self._last: dict[str, Last] = {}  # by identity
        self._moment = Moment(0.0, 0.0, 0.0)
        self._clock = OtherClock()
        self._ahead = 0.0  # seconds that our clock was said to be ahead of its clock

    @property
    def busy(self) -> bool:
        """Whether a send is still on its way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, alerts: Sequence[Told], moment: Moment, resend: float) -> bool:
        """
        Begin to send what is due; False if nothing is, or the last send still hangs.

        With nothing to tell it is asked as often whether it is there: that nobody can be told
        must not be learnt from the first alert.
        """
        if self.busy:
            return False
        known = {_identity(told): told for told in alerts}
        self._last = {key: last for key, last in self._last.items() if key in known}
        due = {k: told for k, told in known.items() if self._is_due(k, told, moment.now, resend)}
        quiet = self._asked_at is not None and 0 <= moment.now - self._asked_at < resend - LATE
        if not due and quiet:
            return False
        self._tally = Tally(len(due))
        self._moment, self._asked_at = moment, moment.now
        self._until = time.monotonic() + self.timeout
        self._thread = threading.Thread(
            target=self._send, args=(due, self._until), name=f"send-{self.url}", daemon=True
        )
        self._thread.start()
        return True

    def deliveries(self, deadline: float) -> list[Delivery]:
        """
        Wait for the send under way until then, and say what came of it.

        It may go on for longer than a round waits, and is told of when it has ended.
        """
        if self._thread is not None and not self._tally.told:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        if self.busy:
            if time.monotonic() < self._until + GRACE:
                return []
            self._tally.reached = False
            self.close()
        elif self._tally.told:
            return []
        self._tally.told = not self.busy
        return self._tally.deliveries(self._address.shown)

    def close(self) -> None:
        """Break what blocks."""
        self._address.close()

    def _is_due(self, key: str, told: Told, now: float, resend: float) -> bool:
        last = self._last.get(key, NEVER)
        return last.state != told.state or not 0 <= now - last.at < resend

    def _send(self, due: dict[str, Told], deadline: float) -> None:
        """Send in batches, what was told longest ago first: a short deadline starves nobody."""
        keys = sorted(due, key=lambda key: self._last.get(key, NEVER).at)
        try:
            if not due or self._clock.must_ask(self._moment.now, self._moment.skew):
                asked = self._post([], deadline)
                self._tally.reached = asked.ok
                if not asked.status or not due:
                    self._tally.trouble = asked.words
                    return
            for i in range(0, len(keys), BATCH):
                if not self._send_batch({k: due[k] for k in keys[i : i + BATCH]}, deadline):
                    return
        except Exception as bug:
            log.exception("sending crashed", to=self._address.shown)
            self._tally.reached = False
            trouble = f"our own fault, please report it: {type(bug).__name__}: {bug}"
            self._tally.trouble = self._tally.trouble or trouble

    def _send_batch(self, batch: dict[str, Told], deadline: float) -> bool:
        """Send; False where the rest need not be tried in this round."""
        answer = self._tell(list(batch.values()), deadline)
        refused = _is_refused(answer)
        if refused and len(batch) > 1:
            return all(self._send_batch({key: told}, deadline) for key, told in batch.items())
        self._tally.reached = answer.ok or refused
        if self._tally.reached:
            # What was refused is remembered too: unchanged, it comes again at the next resend only.
            now = self._moment.now
            self._last |= {key: Last(told.state, now) for key, told in batch.items()}
        if answer.ok:
            self._tally.taken += len(batch)
            return True
        which = [told.body["labels"]["alertname"] + ": " for told in batch.values()]
        self._tally.trouble = self._tally.trouble or which[0] * refused + answer.words
        return refused or answer.status >= 500

    def _tell(self, alerts: Sequence[Told], deadline: float) -> Answer:
        """Send in its clock; once more where its answer shows that its clock was another."""
        offset = self._clock.offset(self._moment.skew)
        answer = self._post([told.stamped(offset) for told in alerts], deadline)
        bounds = self._clock.bounds
        if not answer.ok or bounds is None or bounds.allows(offset):
            return answer
        offset = self._clock.offset(self._moment.skew)
        return self._post([told.stamped(offset) for told in alerts], deadline)

    def _post(self, alerts: Sequence[dict[str, Any]], deadline: float) -> Answer:
        asked = self._moment.timeline()
        answer = self._address.post(json.dumps(alerts).encode(), deadline)
        if answer.status:
            self._learn(answer.date, asked)
        else:
            # It may come back with an empty memory: tell it everything anew.
            self._last = {key: last._replace(state="") for key, last in self._last.items()}
        return answer

    def _learn(self, date: str, asked: float) -> None:
        """Learn what its clock shows, and say so when that changed enough to matter."""
        skew = self._moment.skew
        self._clock.learn(date, asked, self._moment.timeline(), skew)
        ahead = self._clock.ahead(skew)
        if abs(ahead - self._ahead) >= TOLERATED:
            self._ahead = ahead
            log.warning(_clocks(ahead, self._address.shown))


def _is_refused(answer: Answer) -> bool:
    """Whether it was refused for what the body says."""
    return 400 <= answer.status < 500 and answer.status not in ABOUT_US


def _identity(told: Told) -> str:
    """Labels alone make an alert the same to Alertmanager."""
    return json.dumps(told.body["labels"], sort_keys=True)


def _clocks(ahead: float, shown: str) -> str:
    """Say how our clock stands to an instance's. Which one is wrong, we cannot know."""
    if abs(ahead) < TOLERATED:
        return f"this host's clock agrees again with the one of Alertmanager at {shown}"
    return (
        f"this host's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} "
        f"Alertmanager at {shown}: alerts are stamped in its time; "
        "mend the clock that is wrong: timedatectl"
    )
