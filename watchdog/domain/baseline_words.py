"""How a finding argues that an engine's drafts are accepted less than they usually are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from watchdog.domain import wording as w
from watchdog.domain.adjusted import usual_for
from watchdog.domain.baseline import (
    BLOCK,
    BLOCKS_A_DAY,
    DAY,
    Baseline,
    Block,
    deeper,
    per_hit,
    total,
)
from watchdog.domain.causes import CACHE, VERSION, cause, other_traffic
from watchdog.domain.changes_words import traffic_line, traffic_moved
from watchdog.domain.finding import Argument
from watchdog.domain.history import Window, engine_of
from watchdog.domain.traffic import compared

LAUNCH = (VERSION, CACHE)
TRAFFIC = other_traffic("other traffic than on the days before")
DEEP = (
    cause(
        "deeper draft heads or steps that run wrongly (layers run as another kind, state of the "
        "drafter that is not carried from step to step)",
        "that position 0 is as usual and each deeper one falls, on any prompt",
        "the positions of a fixed set of prompts, by this version and by the one before",
    ),
    *LAUNCH,
)
RESTARTED = cause(
    "what the restart changed: version, flags, quantization, drafter checkpoint, or a compile "
    "cache of an older launch",
    "that the launch of before the restart, started cold, has the former length",
    "a fixed set of prompts, asked of both launches",
)


@dataclass(frozen=True)
class Case:
    """
    One engine at `now` (timeline seconds) beside its baseline.

    `usual` is the length to judge against, None while learning. `recent` sums the last whole 24 h,
    `told` what the rule `raised` found low against `limit`, at `raised_at`; it fell between the
    times of `fell`.
    `expected` puts the limits into words, `hours` is what `told` spans; `skipped` says why the
    last day was not learned.
    """

    window: Window
    now: float
    baseline: Baseline
    usual: float | None
    blocks: Sequence[Block]
    recent: Block
    told: Block
    raised: str
    raised_at: float
    fell: tuple[float, float]
    limit: float
    hours: int
    expected: str
    min_days: float
    min_requests: float
    skipped: str

    @property
    def who(self) -> str:
        """The engine's name in a sentence."""
        return engine_of(self.window.subject)

    @property
    def age(self) -> float:
        """Seconds since the end of the last whole 24 h."""
        return self.now - (self.recent.number + 1) * BLOCK

    @property
    def doubted(self) -> bool:
        """Whether some of these 24 h are left out, since another check found something wrong."""
        since = self.recent.number - BLOCKS_A_DAY
        return any(b.doubtful for b in self.blocks if b.number > since)

    def adjusted(self, block: Block) -> float | None:
        """Return what is usual for traffic like a block's, where the rule goes by that; tokens."""
        return usual_for(self.baseline.days, block) if self.raised == "restart" else None

    @property
    def long(self) -> Block:
        """The sum of the last whole 72 h."""
        since = self.recent.number - 3 * BLOCKS_A_DAY
        return total(b for b in self.blocks if b.number > since)

    @property
    def traffic(self) -> dict[str, list[float]]:
        """The last 24 h against the days before it fell; or before these 24 h."""
        since = self.recent.number + 1 - BLOCKS_A_DAY
        fell = int(self.fell[0] // BLOCK) if self.raised else since
        before = total(b for b in self.blocks if b.number < min(since, fell))
        return compared(before.traffic, self.recent.traffic)

    @property
    def evidence(self) -> dict[str, object]:
        """Numbers: tokens, counts, log units, ages in seconds; times on the timeline."""
        told = self.told if self.raised else self.recent
        found: dict[str, object] = {
            "baseline_days": len(self.baseline.days),
            "length_24h": self.recent.acceptance_length,
            "length_72h": self.long.acceptance_length,
            "requests_24h": self.recent.requests,
            "drafts": told.drafts,
            "requests": told.requests,
            "traffic": self.traffic,
        }
        if self.recent.drafts:
            found["evidence_age_seconds"] = round(self.age, 1)
        if self.usual is not None:
            found["baseline"] = self.usual
        if self.raised == "shape":
            shape = deeper(self.baseline.days, told)
            found["deeper_loss"] = shape and shape.loss
        if (adjusted := self.adjusted(told)) is not None:
            found["baseline_for_traffic"] = adjusted
        if self.raised:
            found |= {"rule": self.raised, "onset": list(self.fell), "limit": self.limit}
        return found


def argue(case: Case) -> Argument:
    """Put a case into words."""
    if case.raised:
        return {"silent": _silent, "restart": _restart, "shape": _shape}[case.raised](case)
    if case.usual is None:
        return _learning(case)
    if case.age > DAY or case.recent.requests < case.min_requests:
        return _thin(case)
    return _usual(case)


def sometimes(window: Window) -> Argument:
    """Say that its method is one that has no usual length: what was warned of is over."""
    return Argument(
        f"{engine_of(window.subject)}: a drafter of method {window.profile.method} has no usual "
        f"acceptance length: it is that of the text"
    )


def _days(case: Case) -> str:
    """Say on what the usual length stands; what an operator accepted stands for some days."""
    days, accepted = case.baseline.days, case.baseline.accepted_at
    learned = sum(day.at != accepted for day in days)
    if accepted is None or learned == len(days):
        return f"{len(days)} days"
    said = f"accepted by an operator {w.span(case.now - accepted)} ago"
    return f"{said}, and {learned} days since" if learned else said


def _learning(case: Case) -> Argument:
    days, needed = len(case.baseline.days), case.min_days
    why = f" (not learned: {case.skipped})" if case.skipped else ""
    return Argument(
        f"{case.who}: learning what acceptance length is usual: {days} of {needed:.0f} days"
        f"{why}; until then a weaker drafter is found only by limits that need no baseline",
        case.expected,
        case.evidence,
        next_step="wait, or declare expect.acceptance_length to be judged at once",
    )


def _thin(case: Case) -> Argument:
    sound = ", without the hours that another check found wrong" if case.doubted else ""
    seen = f"no draft for {w.span(case.age)}" if case.age > DAY else (
        f"{w.count(case.recent.requests)} requests in 24 h{sound}; {case.min_requests:.0f} decide"
    )  # fmt: skip
    return Argument(
        f"{case.who}: too little traffic to compare with the usual acceptance length "
        f"{w.length(case.usual)}: {seen}",
        case.expected,
        case.evidence,
    )


def _usual(case: Case) -> Argument:
    return Argument(
        f"{case.who}: acceptance length {w.length(case.recent.acceptance_length)} over 24 h, "
        f"{_share(case, case.recent)} of the usual {w.length(case.usual)} ({_days(case)})",
        case.expected,
        case.evidence,
    )


def _share(case: Case, block: Block) -> str:
    length, usual = block.acceptance_length, case.adjusted(block) or case.usual
    return w.percent(length / usual if length and usual else None)


def _bad(case: Case, summary: str, suspects: tuple[str, ...], next_step: str) -> Argument:
    line, moved = traffic_line(case.traffic), traffic_moved(case.traffic)
    ruled_out = [w.queueing(case.window.levels)]
    if moved:
        suspects = (other_traffic(line), *suspects)
    elif line:
        ruled_out.append(f"{line}: it hardly moved")
    said = f"{case.who}: {summary}{_now(case)}{_age(case)}"
    return Argument(said, case.expected, case.evidence, tuple(ruled_out), suspects, next_step)


def _now(case: Case) -> str:
    """Tell what it is by now, once that is not what was found low."""
    if case.age > DAY or case.recent.requests < case.min_requests:
        return ""
    if case.now - case.raised_at < BLOCK:
        return ""
    return (
        f"; over the last 24 h the length is {w.length(case.recent.acceptance_length)}, "
        f"{_share(case, case.recent)} of the usual{_for_such(case, case.recent)}"
    )


def _for_such(case: Case, block: Block) -> str:
    return " for such prompts and answers" if case.adjusted(block) is not None else ""


def _age(case: Case) -> str:
    return f"; the evidence is {w.span(case.age)} old" if case.age > DAY else ""


def _when(case: Case) -> str:
    first, last = (w.span(max(0.0, case.now - at)) for at in case.fell)
    return f"it fell about {first} ago" if first == last else (
        f"it fell between {first} and {last} ago"
    )  # fmt: skip


def _accept(case: Case) -> str:
    named = dict(case.window.subject)
    command = f"watchdog baseline accept {named.get('target', 'TARGET')}"
    engine = named.get("engine", "")
    if engine.isascii() and engine.isdigit():  # the page's own word; a number is safe in a shell
        command += f" --engine {engine}"
    return f"if it is the traffic and will stay, run `{command}`"


def _silent(case: Case) -> Argument:
    return _bad(
        case,
        f"acceptance length {w.length(case.told.acceptance_length)} over {case.hours} h is "
        f"{_share(case, case.told)} of the usual {w.length(case.usual)} ({_days(case)}); "
        f"{_when(case)}; a change of traffic looks the same: fixed prompts, or other engines of "
        f"the same traffic, would tell",
        (TRAFFIC, *LAUNCH),
        f"compare this launch with the one before it fell (image, flags, drafter, compile cache); "
        f"{_accept(case)}",
    )


def _restart(case: Case) -> Argument:
    return _bad(
        case,
        f"since the restart {w.span(case.now - case.fell[0])} ago acceptance is lower: length "
        f"{w.length(case.told.acceptance_length)} in its first "
        f"{w.span(case.raised_at - case.fell[0])}, {_share(case, case.told)} of the "
        f"{_held_against(case)}",
        (RESTARTED, TRAFFIC),
        f"compare this launch with the one before the restart (image, flags, drafter, compile "
        f"cache); {_accept(case)}",
    )  # fmt: skip


def _held_against(case: Case) -> str:
    """Say what the length after a restart was compared with, and what would look the same."""
    adjusted = case.adjusted(case.told)
    if adjusted is None:
        return (
            f"usual {w.length(case.usual)} ({_days(case)}); traffic that changed on the same day "
            f"looks the same"
        )
    prompt, answer = (
        w.count(tokens / case.told.requests)
        for tokens in (case.told.prompt_tokens, case.told.generated)
    )
    return (
        f"usual for such prompts and answers, {w.length(adjusted)} (of {prompt} and {answer} "
        f"tokens; for all traffic it is {w.length(case.usual)}; {_days(case)}); other text of the "
        f"same lengths looks the same"
    )


def _shape(case: Case) -> Argument:
    told, shape = case.told, deeper(case.baseline.days, case.told)
    gained, loss = per_hit(told), shape.loss if shape else 0.0
    return _bad(
        case,
        f"deeper draft positions are worse than position 0 explains: a draft whose first token is "
        f"accepted gains {gained:.2f} tokens, where {gained * math.exp(loss):.2f} would be usual "
        f"with position 0 at {w.percent(told.first / told.drafts)}; {_when(case)}; a change of "
        f"traffic moves both together, and does not look like this",
        DEEP,
        "compare this launch with the one before it fell (image, flags, drafter, compile cache)",
    )
