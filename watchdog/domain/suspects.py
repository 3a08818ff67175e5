"""
Ranked suspects of a bad finding: what speaks for each, what it predicts, and what would decide.

The checks name causes by experience. Here the facts, the other findings and what changed speak:
a cause that the numbers rule out moves to what is ruled out, with these numbers; one that
something speaks for goes before those that nothing does. At night nobody reads fifteen lines, so
they are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from watchdog.domain.acceptance_words import SET_ASIDE
from watchdog.domain.cache_sight import set_aside
from watchdog.domain.causes import LOST, NEW_VERSION, OLD_CACHE
from watchdog.domain.finding import Argument
from watchdog.domain.suspect import PROVED, SPOKEN_FOR, Case, Judged, Ruled, Suspect
from watchdog.domain.suspects_cache import STALE, cache, undecided
from watchdog.domain.suspects_drafter import (
    corrupted,
    counted_twice,
    mispaired,
    synthetic,
    too_deep,
)
from watchdog.domain.suspects_launch import another_launch, speculation_lost
from watchdog.domain.suspects_steps import fast_path
from watchdog.domain.suspects_traffic import long_contexts, prefix_hits

MOST_SUSPECTS: Final = 5
MOST_RULED_OUT: Final = 8
"""Lines, beyond which what is only spare is not told; whatever a check ruled out itself stays."""

Rule = Callable[[Case], Judged]

_DRAFTER: Final[tuple[Rule, ...]] = (
    cache, mispaired, fast_path, counted_twice, corrupted, synthetic, prefix_hits, long_contexts,
    too_deep,
)  # fmt: skip
_LOWER: Final = (another_launch, *_DRAFTER)

RULES: Final[Mapping[tuple[str, str], tuple[Rule, ...]]] = {
    ("SpecDecodeCollapsed", "acceptance_length"): _DRAFTER,
    ("SpecDecodeDegraded", "declared_length"): _LOWER,
    ("SpecDecodeDegraded", "baseline"): _LOWER,
    ("SpecDecodeDegraded", "siblings"): (cache, synthetic),
    ("SpecDecodeNotDrafting", "drafting"): (speculation_lost,),
    ("SpecDecodeShallowDrafts", "draft_shape"): (cache, counted_twice, synthetic),
    ("SpecDecodeCliff", "draft_shape"): (cache, mispaired, synthetic),
    ("ServingStepsSlow", "step_time"): (cache, fast_path, long_contexts),
}
"""Which causes are judged of which alert, by the check whose evidence they are read from."""

STANDS: Final = " stands too: "
"""What the neighbours' alerts have in their lines."""

_KNOWN_AS: Final[Mapping[str, str]] = {
    OLD_CACHE: "cache",
    "a drafter that runs with other settings than the launch says": "cache",
    "drafter weights that do not fit": "pair",
    "draft state corrupted at run time": "state",
    NEW_VERSION: "launch",
    LOST: "speculation",
}
"""How the checks' own lines begin, and the cause that each is."""


def ranked(
    said: Argument, case: Case, lead: tuple[str, ...] = (), last: tuple[str, ...] = ()
) -> Argument:
    """
    Put the causes of a finding in order, the likeliest first, and rule out what can be.

    `lead` is what changed near its onset, a hint: only an alert that stands is an answer and goes
    before it. `last` is suspected after all others.
    """
    rules = RULES.get((case.finding.alertname, case.finding.check))
    if rules is None:
        return replace(said, suspects=(*lead, *said.suspects, *last))
    judged = [rule(case) for rule in rules]
    told = sorted((x for x in judged if isinstance(x, Suspect)), key=lambda x: -x.rank)
    out = [x for x in judged if isinstance(x, Ruled)]
    first = tuple(x.line for x in told if x.rank >= PROVED)
    likely = tuple(x.line for x in told if SPOKEN_FOR <= x.rank < PROVED)
    named = tuple(_named(said.suspects, told, out))
    stands = tuple(line for line in named if STANDS in line)
    rest = tuple(line for line in named if STANDS not in line)
    kept = (*first, *lead, *stands, *likely, *rest)[: MOST_SUSPECTS - len(last)]
    return replace(
        said,
        suspects=(*kept, *last),
        ruled_out=(*said.ruled_out, *_ruled_out(out, len(said.ruled_out))),
        next_step=_next_step(said.next_step, case, out),
    )


def _named(own: Iterable[str], told: list[Suspect], out: list[Ruled]) -> Iterator[str]:
    """Yield what the check named by experience, less what is judged; or what is known of it."""
    spoken_for = {x.about for x in told if x.rank >= SPOKEN_FOR} | {x.about for x in out}
    known = {x.about: x.line for x in told if x.rank < SPOKEN_FOR}
    for line in own:
        about = _about(line)
        if about not in spoken_for:
            yield known.get(about, line)


def _about(line: str) -> str:
    """Return the cause that a check's own line is about; "" for one that is not judged here."""
    return next((about for start, about in _KNOWN_AS.items() if line.startswith(start)), "")


def _ruled_out(out: list[Ruled], already: int) -> list[str]:
    firm = [one.line for one in out if not one.spare]
    room = max(0, MOST_RULED_OUT - already - len(firm))
    return [*firm, *[one.line for one in out if one.spare][:room]]


def _next_step(own: str, case: Case, out: list[Ruled]) -> str:
    """Name the place that is to be set aside, where it is known; not where no cache is to blame."""
    if own != SET_ASIDE:
        return own
    if undecided(case) and case.alert(STALE) is None:
        sound = case.sound(STALE) is not None
        since = "this start compiled for itself" if sound else "it was started anew since"
        return (
            f"send the server some requests, then run `watchdog check`: {since}, and its drafts "
            f"decide"
        )
    if any(one.about == "cache" for one in out) and case.dead_again is not None:
        return (
            "start it with the model, drafter and method that drafted well before: a restart did "
            "not heal it, and its compile cache is ruled out"
        )
    if any(one.about == "cache" for one in out):
        return (
            "restart the server as it is, its compile cache is ruled out; then run "
            "`watchdog check`: if the drafter is still dead, its weights or its wiring are"
        )
    return set_aside(case.around.facts, case.target) or own
