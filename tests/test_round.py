"""A round keeps what it found before it tells anybody."""

from __future__ import annotations

from dataclasses import dataclass, field

from watchdog.domain.assess import Assessor
from watchdog.domain.report import Delivery, Report
from watchdog.errors import SinkError
from watchdog.reader import Readers
from watchdog.round import Watchdog


@dataclass
class Told:
    """A place that notes what happened, or refuses to."""

    done: list[str]
    name: str = "told"
    refuses: bool = False
    closed: int = field(default=0)

    def send(self, report: Report, deadline: float) -> list[Delivery]:
        del report, deadline
        if self.refuses:
            raise SinkError("refused")
        self.done.append("told")
        return []

    def close(self) -> None:
        self.closed += 1


def watchdog(sink: Told) -> Watchdog:
    made = Watchdog(Readers([]), Assessor("gpu-1", "0", {}), [sink], 15.0)
    made.keep = lambda _report: sink.done.append("kept")
    return made


def test_it_is_kept_before_anybody_hears_of_it() -> None:
    sink = Told([])
    watchdog(sink).round()
    assert sink.done == ["kept", "told"]


def test_a_place_that_refuses_costs_no_round() -> None:
    sink = Told([], refuses=True)
    deliveries: list[Delivery] = []
    made = watchdog(sink)
    made.delivered = deliveries.append
    made.round()
    assert [(d.ok, d.detail) for d in deliveries] == [(False, "refused")]


def test_who_retires_lets_go_of_every_place() -> None:
    sink = Told([])
    watchdog(sink).retire()
    assert sink.closed == 1
