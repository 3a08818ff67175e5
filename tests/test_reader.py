"""The runner of probes: what hangs, fails or crashes costs only its own reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from watchdog.domain.sample import HOST, Facts, Reading, Sample, labels
from watchdog.errors import NoAnswer, NotUnderstood
from watchdog.reader import GRACE, Readers


@dataclass
class Fake:
    """A source that does what it is told; only the source is made up, never our own code."""

    does: Callable[[Facts], Reading]
    target: str = "t"
    name: str = "fake"
    slot: str = ""
    closed: threading.Event = field(default_factory=threading.Event)

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002
        return self.does(known)

    def close(self) -> None:
        self.closed.set()


def well(known: Facts) -> Reading:
    return Reading("fake", "t", facts={"seen": known.get("seen", 0) + 1})  # type: ignore[operator]


def refuses(_: Facts) -> Reading:
    raise NoAnswer("refused")


def talks_nonsense(_: Facts) -> Reading:
    raise NotUnderstood("an HTML page")


def crashes(_: Facts) -> Reading:
    raise ZeroDivisionError("a bug")


def test_a_probe_that_hangs_stalls_only_its_own_reading() -> None:
    release = threading.Event()

    def hangs(_: Facts) -> Reading:
        release.wait(20)
        return Reading("fake", "stuck")

    readers = Readers([Fake(hangs, "stuck"), Fake(well)])
    began = time.monotonic()

    stuck, other = readers.read_all(0.2)

    assert time.monotonic() - began < 3
    assert str(stuck.error).startswith("still reading after")
    assert not stuck.answered
    assert other.error is None
    release.set()


def test_many_probes_that_hang_cost_a_round_no_more_than_one() -> None:
    release = threading.Event()

    def hangs(_: Facts) -> Reading:
        release.wait(20)
        return Reading("fake", "stuck")

    many = [Fake(hangs, f"stuck{i}") for i in range(20)]
    began = time.monotonic()
    readings = Readers([*many, Fake(well)]).read_all(0.2)

    assert time.monotonic() - began < 0.2 + 2 * GRACE + 1
    assert [reading.error is None for reading in readings] == [False] * 20 + [True]
    assert all(probe.closed.is_set() for probe in many)
    release.set()


def test_a_probe_that_hung_before_is_not_waited_for_and_is_taken_up_again() -> None:
    release = threading.Event()

    def hangs(_: Facts) -> Reading:
        release.wait(20)
        return Reading("fake", "stuck", facts={"back": 1})

    stuck = Fake(hangs, "stuck")
    readers = Readers([stuck, Fake(well)])
    readers.read_all(0.05)
    stuck.closed.clear()
    began = time.monotonic()
    late, other = readers.read_all(5.0)
    assert time.monotonic() - began < 2
    assert str(late.error).startswith("still reading after")
    assert not late.answered
    assert other.error is None
    assert stuck.closed.is_set()  # what blocks is broken, as often as it blocks
    release.set()
    while (again := readers.read_all(5.0)[0]).error is not None:
        assert time.monotonic() - began < 10
    assert again.facts == {"back": 1}


def test_no_second_thread_is_piled_on_a_probe_that_hangs() -> None:
    release, calls = threading.Event(), []

    def hangs(_: Facts) -> Reading:
        calls.append(1)
        release.wait(20)
        return Reading("fake", "t")

    readers = Readers([Fake(hangs)])
    readers.read_all(0.05)
    readers.read_all(0.05)

    assert len(calls) == 1
    release.set()


def test_a_probe_is_closed_at_the_deadline_and_its_reading_is_then_taken() -> None:
    probe = Fake(refuses)

    def until_closed(_: Facts) -> Reading:
        probe.closed.wait(20)
        raise NoAnswer("broken off at the deadline")

    probe.does = until_closed

    [reading] = Readers([probe]).read_all(0.1)

    assert reading.error == "broken off at the deadline"


def test_no_answer_and_nonsense_are_told_apart() -> None:
    [silent] = Readers([Fake(refuses)]).read_all(1)
    [odd] = Readers([Fake(talks_nonsense)]).read_all(1)

    assert (silent.answered, silent.error) == (False, "refused")
    assert (odd.answered, odd.error) == (True, "an HTML page")


def test_a_crash_of_ours_is_an_error_that_says_so() -> None:
    [reading] = Readers([Fake(crashes)]).read_all(1)

    assert reading.error == "our own fault, please report it: ZeroDivisionError: a bug"


def test_a_probe_gets_the_facts_of_the_last_round() -> None:
    readers = Readers([Fake(well)])

    seen = [readers.read_all(1)[0].facts["seen"] for _ in range(3)]

    assert seen == [1, 2, 3]


def test_facts_of_a_server_outlast_its_silence_and_say_that_it_is_silent() -> None:
    probe = Fake(well)
    readers = Readers([probe])
    readers.read_all(1)
    probe.does = refuses

    readers.read_all(1)

    assert readers.known["t", ""] == {"seen": 1, "answered": False}


def test_a_server_whose_page_was_read_is_not_silent_because_a_disk_is() -> None:
    page = Reading("page", "t", (Sample(labels(target="t"), "running", 1.0),), {"page": 1})
    readers = Readers([Fake(lambda _: page, name="page"), Fake(refuses)])

    readers.read_all(1)

    assert readers.known["t", ""] == {"page": 1, "answered": True}


# --- GPUs come and go -----------------------------------------------------------------------------


@dataclass
class Census(Fake):
    """Lists what it is told, as the probe of this host's GPUs does."""

    target: str = HOST
    listed: list[str] = field(default_factory=list)

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002
        return Reading("gpus", HOST, facts={"gpus": list(self.listed)})


def card_probes(listed: list[str]) -> list[Fake]:
    def reads(slot: str) -> Callable[[Facts], Reading]:
        return lambda _: Reading("card", HOST, facts={"seen": slot}, slot=slot)

    return [CARDS.setdefault(slot, Fake(reads(slot), HOST, "card", slot)) for slot in listed]


CARDS: dict[str, Fake] = {}


def test_gpus_of_the_first_census_are_read_in_the_same_round() -> None:
    census = Census(well, listed=["a", "b"])
    readers = Readers([census], card_probes)

    assert [r.slot for r in readers.read_all(1)] == ["", "a", "b"]
    assert [r.slot for r in readers.read_all(1)] == ["", "a", "b"]
    assert readers.known[HOST, "a"]["seen"] == "a"


def test_a_gpu_that_left_has_no_reader_and_its_thread_ends() -> None:
    CARDS.clear()
    census = Census(well, listed=["a", "b"])
    readers = Readers([census], card_probes)
    readers.read_all(1)

    census.listed = ["b", "c"]
    readers.read_all(1)

    assert CARDS["a"].closed.is_set()
    assert not CARDS["b"].closed.is_set()
    assert [r.slot for r in readers.read_all(1)] == ["", "b", "c"]


def test_a_round_without_a_census_keeps_the_readers() -> None:
    census = Census(well, listed=["a"])
    readers = Readers([census], card_probes)
    readers.read_all(1)
    census.read = lambda known, _deadline: refuses(known)

    assert [r.slot for r in readers.read_all(1)] == ["", "a"]


def test_what_needs_no_reading_costs_no_thread() -> None:
    @dataclass
    class Seldom(Fake):
        def at_once(self, known: Facts) -> Reading | None:
            return Reading("fake", "t", facts={"seen": "before"}) if known else None

    readers = Readers([Seldom(well)])

    first, second = (readers.read_all(1)[0].facts["seen"] for _ in range(2))

    assert (first, second) == (1, "before")
