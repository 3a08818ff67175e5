"""An assessor that ends after every round, and another one that carries on from what was kept."""

from __future__ import annotations

import json

from tests.telling_stories import Story
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.history import History
from watchdog.domain.memory import recall, rows_of
from watchdog.domain.report import Report


def kept(assessor: Assessor) -> dict[str, object]:
    """Return what a store would hand back: everything through JSON."""
    return {name: json.loads(json.dumps(body)) for name, body in rows_of(assessor)}


def fresh(assessor: Assessor) -> Assessor:
    """Make a watch of the same settings that knows nothing."""
    watches = {
        target: Watch(
            History(target, w.history.profile, w.history.gap_after), w.checks, here=w.here
        )
        for target, w in assessor.watches.items()
    }
    return Assessor(assessor.host, assessor.version, watches, labels=assessor.labels)


def restarted(assessor: Assessor, now: float) -> Assessor:
    """End a watch that was kept at `now`, and go on with another; every row must be of use."""
    successor = fresh(assessor)
    faults = recall(kept(assessor), successor, now, now)
    assert faults == []
    return successor


class RestartingStory(Story):
    """Tells the same story through processes that live for one round each."""

    def _restart(self) -> None:
        self.assessor = restarted(self.assessor, self.now)

    def round(self, seconds: float | None = None) -> Report:
        """One round, and the end of the process."""
        report = super().round(seconds)
        self._restart()
        return report

    def fail(self, error: str = "refused", *, answered: bool = False, **facts: object) -> Report:
        """The same with a page that could not be read."""
        report = super().fail(error, answered=answered, **facts)
        self._restart()
        return report
