"""What a daemon has learned for weeks, without the weeks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from watchdog.build import assessor_of
from watchdog.clock import Clock
from watchdog.domain.baseline import BLOCK, DAY, Baseline, Block, Day, total
from watchdog.domain.baseline_state import State
from watchdog.domain.sample import Labels
from watchdog.keeping import Keeper
from watchdog.settings import Settings


def weeks(now: float) -> State:
    """28 days of acceptance length 4, then one of 2.5, far busier, that was found low."""
    today = int(now // BLOCK)
    usual = Block(drafts=8000.0, accepted=24000.0, first=6000.0, requests=400.0)
    low = Block(drafts=2e6, accepted=3e6, first=1.2e6, requests=50.0)
    blocks = tuple(low._replace(number=today - ago) for ago in range(8, 0, -1))
    fell = (blocks[0].number * BLOCK, blocks[0].number * BLOCK)
    return State(
        Baseline(tuple(Day.of(usual, now - ago * DAY) for ago in range(28, 0, -1))),
        blocks, usual._replace(number=today), total(blocks),
        raised="silent", raised_at=now - 3600, limit=0.66, told=total(blocks), onset=fell,
    )  # fmt: skip


def quiet_weeks(now: float) -> State:
    """28 days of acceptance length 4, and nothing found."""
    known = weeks(now)
    return State(known.baseline, open=known.open)


def kept(directory: Path, settings: Mapping[str, Any], engine: Labels) -> None:
    """Have a state directory as a daemon that knows `engine` for weeks leaves it."""
    directory.mkdir(parents=True, exist_ok=True)
    assessor = assessor_of(Settings.model_validate(settings))
    keeper = Keeper(directory, Clock())
    states = assessor.watches[dict(engine)["target"]].states
    states[engine] = {"baseline": quiet_weeks(keeper.clock.now())}
    keeper.keep_between(assessor)
    keeper.close()
