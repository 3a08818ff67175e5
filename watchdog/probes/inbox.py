"""Reads what Alertmanager has posted to us since the last round; the port puts it in."""

from __future__ import annotations

import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain.arrivals import FIRING, Arrival, sort
from watchdog.domain.named import Here
from watchdog.domain.received import INBOX
from watchdog.domain.sample import HOST, Facts, Reading
from watchdog.errors import TryLater

MOST_WAITING: Final = 256
MOST_REMEMBERED: Final = 4096
"""Alerts that wait for the next round, and alerts of which it is known what was said last."""

REMINDER: Final = 600.0
"""Seconds after which the same word is a reminder; before, it is the other one of an HA pair."""


class TakeResult(NamedTuple):
    """
    What became of the alerts of one payload; `firing` of the `accepted` ask for a round at once.

    `ours` we sent ourselves; `not_for_us` name neither this host nor one of its targets. `refused`
    found the queue full: the payload must come again, and what was accepted is a duplicate then.
    """

    accepted: int = 0
    ours: int = 0
    duplicates: int = 0
    not_for_us: int = 0
    firing: int = 0
    refused: int = 0


class Inbox:
    """
    The queue between the port's threads, which `take`, and the round, which reads it empty.

    There is one for as long as the daemon lives: a reload neither empties nor closes it. `here`
    says who we are at this moment; `clock` is monotonic, in seconds.
    """

    name = INBOX
    target = HOST
    slot = ""

    def __init__(
        self, here: Callable[[], Here], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._here, self._clock = here, clock
        self._lock = threading.Lock()
        self._waiting: deque[Arrival] = deque()
        self._said: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._stopped = False

    def take(self, payload: Mapping[str, Any]) -> TakeResult:
        """
        Queue what names us, as far as there is room.

        PayloadError where that can never be; TryLater where nobody reads the queue any more.
        """
        found = sort(payload, self._here())
        with self._lock:
            if self._stopped:
                raise TryLater("this daemon is stopping")
            new = [arrival for arrival in found.arrivals if not self._is_known(arrival)]
            taken = new[: MOST_WAITING - len(self._waiting)]
            self._waiting += taken
            for arrival in taken:
                self._remember(arrival)
        return TakeResult(
            accepted=len(taken),
            ours=found.ours,
            duplicates=len(found.arrivals) - len(new),
            not_for_us=found.not_for_us,
            firing=sum(arrival.status == FIRING for arrival in taken),
            refused=len(new) - len(taken),
        )

    def stop(self) -> None:
        """Take no more: nobody will read it."""
        with self._lock:
            self._stopped = True

    def at_once(self, _known: Facts) -> Reading:
        """Return what arrived since the last time, as the fact `told`; it costs no thread."""
        with self._lock:
            told = tuple(arrival._asdict() for arrival in self._waiting)
            self._waiting.clear()
        return Reading(self.name, self.target, facts={"told": told})

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002  (nothing is waited for)
        """Return the same; the reader asks `at_once` first."""
        return self.at_once(known)

    def close(self) -> None:
        """Break nothing: a reader that ends at a reload leaves what waits to the next one."""

    def _is_known(self, arrival: Arrival) -> bool:
        """
        Whether this is what was said of it last, a moment ago.

        Only the last word counts: an alert that Alertmanager ended for want of news fires again
        with the time at which it first began.
        """
        status, at = self._said.get(arrival.key, ("", 0.0))
        return status == arrival.status and self._clock() - at < REMINDER

    def _remember(self, arrival: Arrival) -> None:
        self._said[arrival.key] = (arrival.status, self._clock())
        self._said.move_to_end(arrival.key)
        if len(self._said) > MOST_REMEMBERED:
            self._said.popitem(last=False)


def here_of(host: str, urls: Mapping[str, str]) -> Here:
    """Say who we are: the configured name, the host's own names and addresses, and the targets."""
    import psutil  # noqa: PLC0415  (a megabyte that a host without Alertmanager never needs)

    addresses = [
        address.address.partition("%")[0]
        for of_card in psutil.net_if_addrs().values()
        for address in of_card
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    # Loopback is this host on every host; `named` treats it apart.
    outside = [a for a in addresses if not a.startswith("127.") and a != "::1"]
    return Here.of(host, [socket.gethostname(), *outside], urls)
