"""
Runs probes side by side, each in its own thread and under its own deadline.

A probe never times, logs, retries or catches: that is done here, once for all. A probe that
hangs stalls its own reading only: at the deadline its socket is closed, and until it comes back
it is not asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Protocol

import structlog

from watchdog.domain.sample import HOST, NO_FACTS, Facts, Reading
from watchdog.errors import NoAnswer, ProbeError

log = structlog.get_logger("watchdog.reader")

GRACE = 0.5
"""Seconds that a probe has after its deadline, to fail by itself with a better sentence."""


Whom = tuple[str, str]
"""A target, or HOST, and the slot of a GPU, empty where it is about none."""


class Probe(Protocol):
    """
    Reads one source of one target, of the host or of one GPU; its fields are its settings.

    It may also have `at_once(known) -> Reading | None`: the reading where nothing needs to be
    read this time, which costs no thread.
    """

    @property
    def name(self) -> str:
        """Name of the kind of source."""
        ...

    @property
    def target(self) -> str:
        """Whom the reading is about; HOST for this host."""
        ...

    @property
    def slot(self) -> str:
        """Which GPU's slot the reading is about; empty where it is about none."""
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
        self._reading = Reading(probe.name, probe.target, slot=probe.slot)
        self._at_once: Callable[[Facts], Reading | None] = getattr(probe, "at_once", lambda _: None)

    def start(self, known: Facts, deadline: float) -> bool:
        """Begin to read, unless nothing has to be; False where the last reading still hangs."""
        if not self._idle.is_set():
            return False
        reading = self._at_once(known)
        if reading is not None:
            self._reading = reading
            return True
        if self._thread is None:
            name = f"read-{self.probe.name}-{self.probe.target or self.probe.slot or 'host'}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()
        self._began = time.monotonic()
        self._idle.clear()
        self._jobs.put((known, deadline))
        return True

    def has_ended(self, by: float) -> bool:
        """Wait until then, in monotonic seconds; whether it has been read."""
        return self._idle.wait(max(0.0, by - time.monotonic()))

    def result(self) -> Reading:
        """Return what was read; a source that is still being read is called silent."""
        if not self._idle.is_set():
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
        probe = self.probe
        return Reading(
            probe.name, probe.target, error=error, answered=answered, took=took, slot=probe.slot
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
    """
    All readers, with the facts that the last readings of each target or GPU brought home.

    `more` makes the probes of the GPUs that a reading listed (the fact `gpus` of this host):
    cards come and go while the watchdog runs, and a card that hangs must cost only its own.
    """

    def __init__(
        self, probes: Sequence[Probe], more: Callable[[Any], Sequence[Probe]] = lambda _: ()
    ) -> None:
        self._more = more
        self._made_of: object = None
        self._readers = [Reader(probe) for probe in probes]
        self._known: dict[Whom, dict[str, object]] = {}

    def read_all(self, timeout: float) -> list[Reading]:
        """Read every probe once within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        readings = self._read(self._readers, deadline)
        listed = next((r.facts["gpus"] for r in readings if _is_census(r)), None)
        if listed is not None and listed != self._made_of:
            self._made_of = listed
            readings += self._read(self._renew(self._more(listed)), deadline)
        self._remember(readings)
        return readings

    def _read(self, readers: Sequence[Reader], deadline: float) -> list[Reading]:
        """
        Read side by side. What is late is closed, and has one more moment, all together.

        What hung in the last round already is closed again, and not waited for.
        """
        begun = [
            reader
            for reader in readers
            if reader.start(self._known.get(_whom(reader.probe), NO_FACTS), deadline)
        ]
        late = [reader for reader in begun if not reader.has_ended(deadline + GRACE)]
        for reader in readers:
            if reader in late or not reader.has_ended(0.0):
                reader.probe.close()
        for reader in late:
            reader.has_ended(deadline + 2 * GRACE)
        return [reader.result() for reader in readers]

    def _renew(self, probes: Sequence[Probe]) -> list[Reader]:
        """Let go of readers of GPUs that are no more where they were; return the new ones."""
        kept = [r for r in self._readers if not r.probe.slot or r.probe in probes]
        for reader in self._readers:
            if reader not in kept:
                reader.end()
        known = [reader.probe for reader in kept]
        new = [Reader(probe) for probe in probes if probe not in known]
        self._readers = kept + new
        return new

    def _remember(self, readings: Sequence[Reading]) -> None:
        known: dict[Whom, dict[str, object]] = {}
        # Who sent a page is up: that another probe of it hangs, on a disk, is no silence.
        up = {_whom(reading) for reading in readings if reading.samples}
        for reading in readings:
            facts = known.setdefault(_whom(reading), {"answered": True})
            facts.update(reading.facts)
            answered = reading.answered or _whom(reading) in up
            facts["answered"] = bool(facts["answered"]) and answered
        for whom, facts in known.items():
            if not facts["answered"]:  # what was learned of a server outlasts its silence
                known[whom] = {**self._known.get(whom, {}), **facts}
        self._known = known

    def close(self) -> None:
        """End every reader: the process ends, or others take over."""
        for reader in self._readers:
            reader.end()

    @property
    def known(self) -> Mapping[Whom, Facts]:
        """Facts by target and slot, as of the last round."""
        return self._known


def _is_census(reading: Reading) -> bool:
    return _whom(reading) == (HOST, "") and "gpus" in reading.facts


def _whom(what: Probe | Reading) -> Whom:
    return what.target, what.slot
