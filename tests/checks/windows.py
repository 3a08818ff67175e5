"""Windows as literals, for tests of one check alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watchdog.domain import series as s
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile
from watchdog.domain.sample import labels

SUBJECT = labels(target="t", engine="0", model_name="m")
ALONE = Profile(method="eagle", icc=0.0)
"""Every draft counts whole: limits can be met to the draft."""


def window(
    drafts: float = 0.0,
    accepted_at: Sequence[float] = (),
    *,
    requests: float = 0.0,
    running: float = 0.0,
    updates: float | None = None,
    generated: float | None = None,
    tokens: float | None = None,
    seconds: float | None = 15.0,
    step: float = 0.03,
    profile: Profile = ALONE,
    depth: int = 7,
    gap: bool = False,
    levels: Mapping[str, float] | None = None,
) -> Window:
    """One engine's window; `depth` 0: no speculation on the page."""
    updates = drafts if updates is None else updates
    accepted = sum(accepted_at)
    grown = {
        s.GENERATED_TOKENS: updates + accepted + requests if generated is None else generated,
        s.FIRST_TOKENS: requests, s.UPDATES: updates, s.UPDATE_SECONDS: updates * step,
        s.ITERATIONS: updates, s.FINISHED: requests, s.PROMPT_TOKENS: 100 * requests,
    }  # fmt: skip
    if depth:
        at = [*accepted_at, *[0.0] * (depth - len(accepted_at))]
        grown |= {s.DRAFTS: drafts, s.ACCEPTED_TOKENS: accepted}
        grown |= {s.DRAFT_TOKENS: drafts * depth if tokens is None else tokens}
        grown |= dict(zip(s.POSITIONS, at, strict=False))
    now = {**dict.fromkeys(grown, 1.0), s.RUNNING: running, s.WAITING: 0.0, **(levels or {})}
    before = {s.RUNNING: running, s.WAITING: 0.0}
    if seconds is None:
        return Window(SUBJECT, 0.0, levels=now, profile=profile, reset=True)
    return Window(
        SUBJECT, 0.0, seconds, grown, now, before, profile=profile, gap=gap,
        facts={"format": "text"},
    )  # fmt: skip
