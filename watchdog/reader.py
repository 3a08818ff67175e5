"""
Runs probes side by side, each in its own thread and under its own deadline.

A probe never times, logs, retries or catches: that is done here, once for all. A probe that
hangs stalls its own reading only: at the deadline its socket is closed, and until it comes back
it is not asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Protocol

import structlog

from watchdog.domain.sample import NO_FACTS, Facts, Reading
from watchdog.errors import NoAnswer, ProbeError

log = structlog.get_logger("watchdog.reader")

GRACE = 0.5
"""Seconds that a probe has after its deadline, to fail by itself with a better sentence."""


class Probe(Protocol):
    """Reads one source of one target; its fields are its settings."""

    @property
    def name(self) -> str:
        """Name of the kind of source."""
        ...

    @property
    def target(self) -> str:
        """Whom the reading is about."""
        ...

    def read(self, known: Facts, deadline: float) -> Reading:
        """Read once; `known` are the target's facts of the last round, deadline is monotonic."""
        ...

    def close(self) -> None:
        """Break what blocks; called from another thread."""
        ...


class Reader:
    """One probe and its one thread, which sleeps between readings."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._jobs: SimpleQueue[tuple[Facts, float] | None] = SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self._began = 0.0
        self._reading = Reading(probe.name, probe.target)

    def start(self, known: Facts, deadline: float) -> None:
        """Begin to read, unless the last reading still hangs."""
        if not self._idle.is_set():
            return
        if self._thread is None:
            name = f"read-{self.probe.name}-{self.probe.target}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()
        self._began = time.monotonic()
        self._idle.clear()
        self._jobs.put((known, deadline))

    def result(self, deadline: float) -> Reading:
        """Wait until the deadline; past it close the probe and call the source silent."""
        if not self._idle.wait(max(0.0, deadline - time.monotonic()) + GRACE):
            self.probe.close()
        if not self._idle.wait(GRACE):
            stuck = time.monotonic() - self._began
            return self._failed(f"still reading after {stuck:.0f} s", answered=False)
        return self._reading

    def end(self) -> None:
        """Break what is being read, and let the thread go."""
        self.probe.close()
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._read(*job)
            self._idle.set()

    def _failed(self, error: str, *, answered: bool) -> Reading:
        took = time.monotonic() - self._began
        return Reading(
            self.probe.name, self.probe.target, error=error, answered=answered, took=took
        )

    def _read(self, known: Facts, deadline: float) -> None:
        try:
            reading = self.probe.read(known, deadline)
        except NoAnswer as error:
            self._reading = self._failed(str(error), answered=False)
        except ProbeError as error:
            self._reading = self._failed(str(error), answered=True)
        except Exception as bug:
            log.exception("a probe crashed", probe=self.probe.name, target=self.probe.target)
            self._reading = self._failed(
                f"our own fault, please report it: {type(bug).__name__}: {bug}", answered=True
            )
        else:
            self._reading = replace(reading, took=time.monotonic() - self._began)


class Readers:
    """All readers, with the facts that each target's last readings brought home."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        self._readers = [Reader(probe) for probe in probes]
        self._known: dict[str, dict[str, object]] = {}

    def read_all(self, timeout: float) -> list[Reading]:
        """Read every probe once within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for reader in self._readers:
            reader.start(self._known.get(reader.probe.target, NO_FACTS), deadline)
        readings = [reader.result(deadline) for reader in self._readers]
        self._remember(readings)
        return readings

    def _remember(self, readings: Sequence[Reading]) -> None:
        known: dict[str, dict[str, object]] = {}
        for reading in readings:
            facts = known.setdefault(reading.target, {"answered": True})
            facts.update(reading.facts)
            facts["answered"] = bool(facts["answered"]) and reading.answered
        for target, facts in known.items():
            if not facts["answered"]:  # what was learned of a server outlasts its silence
                known[target] = {**self._known.get(target, {}), **facts}
        self._known = known

    def close(self) -> None:
        """End every reader: the process ends, or others take over."""
        for reader in self._readers:
            reader.end()

    @property
    def known(self) -> Mapping[str, Facts]:
        """Facts by target, as of the last round."""
        return self._known
