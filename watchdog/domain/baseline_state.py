"""What the check of an engine's baseline carries from round to round."""

from __future__ import annotations

from typing import NamedTuple

from watchdog.domain.baseline import BLOCK, NO_BLOCK, Baseline, Block


class State(NamedTuple):
    """
    What is usual, and what came lately. `blocks` are whole, `open` is the one that grows.

    `recent` is the sum of the 24 h before the open block. `restarted_at` is a restart that was not
    judged yet, `since` the sum after it. `raised` names the rule that found it low, `limit` what
    it undercut, `told` the sum that did, `onset` between which times it fell. `over`: a warning
    was taken back, since there is nothing to judge any more. `well_from` is the first block of
    those that showed it well again.
    """

    baseline: Baseline = Baseline()
    blocks: tuple[Block, ...] = ()
    open: Block = NO_BLOCK
    recent: Block = NO_BLOCK
    restarts: tuple[float, ...] = ()  # of the last 28 days
    restarted_at: float | None = None  # the restart that is to be judged
    since: Block = NO_BLOCK  # from it on, whatever restarts followed
    life: Block = NO_BLOCK  # since the newest one
    raised: str = ""
    raised_at: float = 0.0
    limit: float = 0.0
    told: Block = NO_BLOCK
    hours: int = 24  # that `told` sums
    onset: tuple[float, float] = (0.0, 0.0)
    skipped: str = ""  # why the last day was not learned
    over: bool = False
    well_from: int = 0

    @property
    def recent_until(self) -> float:
        """When the newest whole block ended; seconds of the timeline."""
        return (self.recent.number + 1) * BLOCK

    def cleared(self) -> State:
        """Return what is left when nothing is raised any more."""
        return self._replace(raised="", raised_at=0.0, limit=0.0, told=NO_BLOCK, onset=(0.0, 0.0))
