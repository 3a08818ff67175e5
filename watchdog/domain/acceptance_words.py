"""How the findings about acceptance argue: what was seen, ruled out, suspected, and what next."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.domain import wording as w
from watchdog.domain.acceptance import Decode
from watchdog.domain.causes import (
    AFTER_COLD,
    COLD_HEALS,
    COLD_START,
    OLD_CACHE,
    PAIR_HEALS,
    PLAIN_RESTART,
    RESTART_HEALS,
    cause,
)
from watchdog.domain.finding import Argument
from watchdog.domain.history import Window, engine_of

SUSPECTS = (
    cause(
        f"{OLD_CACHE}: the drafter replays graphs that were compiled for another configuration "
        f"(the first suspect if image, model, drafter or flags changed lately)",
        COLD_HEALS,
        COLD_START,
    ),
    cause(
        "drafter weights that do not fit: another checkpoint, or weights that were not loaded or "
        "not shared with the target model",
        PAIR_HEALS,
        AFTER_COLD,
    ),
    cause(
        "draft state corrupted at run time: prefix cache or KV transfer",
        RESTART_HEALS,
        PLAIN_RESTART,
    ),
    cause(
        "a wrong speculative method or wrong layers wired to the drafter",
        "that every start with these flags is dead, a cold one too",
        "a start with the method and the depth that the drafter's own documentation names",
    ),
)

SET_ASIDE = (
    "restart the server with its compile cache moved aside, not deleted: "
    'mv "$VLLM_CACHE_ROOT" "$VLLM_CACHE_ROOT.stale-$(date -u +%Y%m%dT%H%M%SZ)" '
    "(default root: ~/.cache/vllm), then run `watchdog check`"
)


@dataclass(frozen=True)
class Case:
    """
    One engine's drafter at one time.

    `told` is the stretch of drafts that the sentence is about, of `seconds`; `age` is how old
    its newest draft is, `dead_for` how long the drafter has been called dead; all in seconds.
    `score` and `alarm` are log-odds, `floor` a ratio of position 0; `onset` is between which
    times it died.
    """

    window: Window
    told: Decode
    seconds: float
    age: float
    score: float
    alarm: float
    floor: float
    effective: float
    min_effective: float
    min_requests: float
    dead_for: float = 0.0
    reset_since: bool = False
    onset: tuple[float, float] | None = None

    @property
    def who(self) -> str:
        """The engine's name in a sentence."""
        return engine_of(self.window.subject)

    @property
    def first(self) -> float | None:
        """Share of the drafts whose first token was accepted."""
        return self.told.first_position / self.told.real_drafts if self.told.real_drafts else None

    def _argument(self, summary: str, **more: object) -> Argument:
        proof = {**w.evidence(self.told, self.seconds), "score": round(self.score, 2)}
        proof |= {"alarm": self.alarm, "evidence_age_seconds": round(self.age, 1)}
        if self.onset is not None:
            proof["onset"] = list(self.onset)
        expected = f"position 0 accepted on more than {w.percent(self.floor)} of the drafts"
        declared = self.window.profile.acceptance_length
        if declared is not None:
            expected += f"; declared acceptance length {declared:g}"
        return Argument(summary, expected, proof, **more)  # type: ignore[arg-type]

    def without_speculation(self) -> Argument:
        """Say that the page has no series of speculative decoding."""
        return w.off(self.window)

    def too_little(self) -> Argument:
        """Not enough drafts to say anything."""
        lacking = max(0.0, self.min_effective - self.effective)
        return self._argument(
            f"{self.who}: too little evidence: {self.effective:.0f} of {self.min_effective:.0f} "
            f"effective drafts ({w.count(self.told.real_drafts)} drafts of "
            f"{self.told.requests:.0f} requests); send it traffic or wait",
            next_step=f"about {max(1, round(lacking / 9))} more requests of usual length decide",
        )

    def stale(self) -> Argument:
        """Say that the last drafts are too old to speak for today."""
        return self._argument(
            f"{self.who}: no draft for {w.span(self.age)}; older evidence says nothing about now"
        )

    def leaning(self) -> Argument:
        """Evidence leans towards dead and has not reached the alarm."""
        per_request = self.score / max(1.0, self.told.requests)
        more = max(1.0, (self.alarm - self.score) / per_request if per_request > 0 else 1.0)
        more = max(more, self.min_requests - self.told.requests)
        return self._argument(
            f"{self.who}: the drafter looks dead, not yet proved: position 0 accepts "
            f"{w.percent(self.first)} of {w.count(self.told.real_drafts)} drafts (score "
            f"{self.score:.1f} of {self.alarm:g}); about {more:.0f} more such requests decide",
            next_step="wait for more traffic, or send some requests and run `watchdog check` again",
        )

    def contradicted(self) -> Argument:
        """The counters say dead, and tokens per step say that drafts are accepted."""
        return self._argument(
            f"{self.who}: the speculation counters say that position 0 accepts "
            f"{w.percent(self.first)}, but each step gives {w.length(self.told.tokens_per_step)} "
            f"tokens: the counters are wrong, the drafter works",
            next_step="report the vLLM version with `watchdog capture DIR`; see "
            "SpecDecodeCountersInconsistent",
        )

    def dead_drafter(self) -> Argument:
        """The alarm: lossless, and slow."""
        when = f"has been dead for {w.span(self.dead_for)}" if self.dead_for >= 1 else "is dead"
        summary = (
            f"{self.who}: the drafter {when}: position 0 accepts {w.percent(self.first)} "
            f"of {w.count(self.told.real_drafts)} drafts, acceptance length "
            f"{w.length(self.told.acceptance_length)}; answers are right and decode is slow"
        )
        if self.reset_since:
            summary += "; the counters began anew since, and no healthy drafts were seen yet"
        elif self.age >= 600:
            summary += f"; idle, evidence {w.span(self.age)} old"
        return self._argument(
            summary,
            ruled_out=(
                w.queueing(self.window.levels),
                w.second_witness(self.told),
                w.padding(self.told),
                f"a drafter that only drafts sometimes (n-gram, suffix): drafts on "
                f"{w.percent(self.told.coverage)} of the decode updates",
            ),
            suspects=SUSPECTS,
            next_step=SET_ASIDE,
        )

    def sometimes(self) -> Argument:
        """A drafter that is never called dead."""
        return self._argument(
            f"{self.who}: drafts on {w.percent(self.told.coverage)} of the decode updates, as "
            f"n-gram and suffix drafters do; acceptance length "
            f"{w.length(self.told.acceptance_length)}; not judged for death, since such a drafter "
            f"may accept nothing on text that never repeats"
        )

    def healthy(self) -> Argument:
        """The drafter gains tokens."""
        return self._argument(
            f"{self.who}: acceptance length {w.length(self.told.acceptance_length)} over "
            f"{w.count(self.told.real_drafts)} drafts of {self.told.requests:.0f} requests; "
            f"{w.shape(self.told)}",
            ruled_out=(w.queueing(self.window.levels), w.padding(self.told)),
        )
