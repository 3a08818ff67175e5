"""How one engine against the others of its target is argued: figures, ruled out, what next."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.domain import wording as w
from watchdog.domain.causes import RESTART_HEALS, cause
from watchdog.domain.changes_words import traffic_line, traffic_moved
from watchdog.domain.finding import Argument
from watchdog.domain.history import Window, engine_of
from watchdog.domain.profile import PREFIX_AWARE
from watchdog.domain.siblings import Bar, Look
from watchdog.domain.traffic import compared

SUSPECTS = (
    cause(
        "a GPU or a GPU link of this engine alone",
        "that the engine on these GPUs stays low, whatever is restarted",
        "the links and errors of its GPUs against the others' (`watchdog links`)",
    ),
    cause(
        "its own compile cache or captured graphs: each engine loads or makes its own",
        "that a start which compiles anew heals it",
        "a restart of this engine alone with its cache moved aside",
    ),
    cause(
        "draft weights that this engine alone loaded wrongly, or not at all",
        RESTART_HEALS,
        "a plain restart of this engine alone",
    ),
)
AGAINST = "traffic of the others -> of this engine, in the same hours"
OTHER_REQUESTS = "requests of another kind than the others have"


@dataclass(frozen=True)
class Case:
    """
    One engine, the last look at it, and the limits it was looked at with.

    `since` is when its counters began; `onset` between when the fault began, where one stands;
    seconds of the timeline.
    """

    window: Window
    look: Look | None
    since: float
    bar: Bar
    min_effective: float
    onset: tuple[float, float] | None = None
    alone: bool = False

    @property
    def who(self) -> str:
        """The engine's name in a sentence."""
        return engine_of(self.window.subject)

    def told(self) -> Argument:
        """Choose what there is to say."""
        look = self.look
        if self.alone:
            return self._nothing("there is no other engine of its model to compare it with")
        if not self.window.speculates:
            return w.off(self.window)
        if self.window.profile.drafts_sometimes:
            method = self.window.profile.method
            return self._nothing(f"not compared: {method} drafts on a match, by its own traffic")
        if look is None:
            return self._nothing("not compared with the other engines yet: once each full hour")
        if self.onset is not None:
            return self._low(look)
        return self._as_the_others(look) if look.enough else self._too_little(look)

    def _nothing(self, why: str) -> Argument:
        return Argument(f"{self.who}: {why}")

    def _argument(self, summary: str, look: Look, **more: object) -> Argument:
        expected = (
            f"at least {self.bar.low:g} of the other engines' acceptance length, or within "
            f"{self.bar.z:g} standard deviations of it"
        )
        proof = evidence(look, self.onset)
        return Argument(f"{self.who}: {summary}", expected, proof, **more)  # type: ignore[arg-type]

    def _too_little(self, look: Look) -> Argument:
        need = f"of {self.min_effective:.0f} effective drafts in at most {look.hours} h"
        own, rest = look.own.effective, look.rest.effective
        if not look.own.drafts:
            # Not "no draft": those of a former life, of a dead drafter or of long ago are left out.
            return self._argument("made no draft lately that can be compared", look)
        if min(own, rest) < self.min_effective:
            return self._argument(
                f"too little to compare it with the others: {w.count(own)} {need}, "
                f"{w.count(rest)} of {_engines(look.others)}",
                look,
            )
        share = w.percent(look.rest.coverage)
        return self._argument(
            f"not compared: drafts on {share} of the decode steps, as an n-gram drafter does; "
            f"declare expect.method if it is none",
            look,
        )

    def _as_the_others(self, look: Look) -> Argument:
        return self._argument(
            f"acceptance length {w.length(look.own.length)}, {_engines(look.others)} "
            f"{w.length(look.rest.length)} in the same {w.span(look.hours * 3600.0)}",
            look,
        )

    def _low(self, look: Look) -> Argument:
        summary = (
            f"acceptance length {w.length(look.own.length)} is "
            f"{w.percent(look.ratio)} of what {_engines(look.others)} of its model reached in the "
            f"same {w.span(look.hours * 3600.0)}, {w.length(look.rest.length)}; answers are right "
            f"and decode is slow"
        )
        if look.left_out:
            summary += f"; {look.left_out} more engine(s) are as low and left out of this"
        if self.since >= look.at:
            summary += "; its counters began anew since, and it is not compared yet"
        moved = self._other_requests(look)
        launch = "the launch" if moved else "the launch and the traffic mix"
        reach = "has the same and reaches" if look.others == 1 else "have the same and reach"
        reach = f"{_engines(look.others)} {reach} {w.length(look.rest.length)}"
        line = traffic_line(traffic_of(look), AGAINST)
        return self._argument(
            summary,
            look,
            ruled_out=(
                f"{launch}: {reach}",
                *([line] if line and not moved else []),
                w.queueing(self.window.levels),
                "padded first steps: not in these counts",
            ),
            suspects=(*([_other_kind(line)] if moved else []), *SUSPECTS),
            next_step="restart this engine alone; if it is low again, compare its GPUs with the "
            "others': `watchdog links`",
        )

    def _other_requests(self, look: Look) -> bool:
        """
        Whether the router, or the figures, say that it has requests of another kind.

        More requests at a time say nothing: a slow engine keeps each of them longer.
        """
        kind = {name: pair for name, pair in traffic_of(look).items() if name != "running"}
        return self.window.profile.routing == PREFIX_AWARE or traffic_moved(kind)


def _other_kind(line: str) -> str:
    return cause(
        f"{OTHER_REQUESTS}: {line}",
        "that this engine drafts the others' requests as well as they do",
        "the same request, sent to each engine",
    )


def evidence(look: Look, onset: tuple[float, float] | None) -> dict[str, object]:
    """Every number of a look. Tokens, ratios, effective drafts, hours."""
    proof: dict[str, object] = {
        "acceptance_length": look.own.length,
        "others_length": look.rest.length,
        "ratio": look.ratio,
        "z": round(look.z, 2),
        "effective_drafts": round(look.own.effective, 1),
        "others_effective_drafts": round(look.rest.effective, 1),
        "span_hours": look.hours,
        "others": look.others,
        "others_left_out": look.left_out,
        "compared_at": look.at,
    }
    if traffic := traffic_of(look):
        proof["traffic"] = traffic
    if onset is not None:
        proof["onset"] = list(onset)
    return proof


def traffic_of(look: Look) -> dict[str, list[float]]:
    """Compare the requests: of the others, of the engine. What is unknown of one is left out."""
    pairs = compared(look.rest.traffic, look.own.traffic)
    return {name: [round(figure, 4) for figure in pair] for name, pair in pairs.items()}


def _engines(count: int) -> str:
    return "the other engine" if count == 1 else f"the other {count} engines"
