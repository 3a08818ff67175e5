"""Suspects in the drafter itself: the wrong one, two of them, too deep, made up, or corrupted."""

from __future__ import annotations

from typing import Final

from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.causes import AFTER_COLD, PAIR_HEALS, PLAIN_RESTART, RESTART_HEALS
from watchdog.domain.proven import Match
from watchdog.domain.suspect import (
    COLLAPSED,
    FEWEST,
    LIKELY,
    NAMED,
    POSSIBLE,
    Case,
    Judged,
    Ruled,
    Suspect,
)
from watchdog.domain.suspects_cache import STALE

PAIR: Final = "pair"
STATE: Final = "state"
TWICE: Final = "twice"
SYNTHETIC: Final = "synthetic"
DEEP: Final = "deep"

ONE_DRAFTER: Final = (0.75, 1.25)
TWO_DRAFTERS: Final = (1.7, 2.3)
"""(drafts + accepted) / generated tokens: about 1 for a drafter on every step, 2 for two."""

MOST_TOLD: Final = 4

KV_TRANSFER: Final = "kv-transfer-config"


def mispaired(case: Case) -> Judged:
    """Judge whether the drafter fits the model: the same pair drafted well before, or did not."""
    name, match = "mispaired drafter", case.match
    if match is not None and match.same:
        return Ruled(PAIR, f"{name}: {_before(case, match)}")
    changed = match.compared.changed if match is not None else ()
    predicts, decides = PAIR_HEALS, AFTER_COLD
    if case.dead_again is not None and case.sound(STALE) is not None:
        decides = "a start with the former model and drafter"  # this one compiled, and is dead
    if match is not None and changed:
        names = [
            x.name if x.was == x.now else f"{x.name} {x.was or '(absent)'} -> {x.now or '(absent)'}"
            for x in changed[:MOST_TOLD]
        ]
        more = [f"{len(changed) - MOST_TOLD} more"] if len(changed) > MOST_TOLD else []
        proof = (
            f"not ruled out, since this pair was never seen healthy here; against the launch that "
            f"had length {match.healthy.length:.2f} {case.ago(match.healthy.at)}: "
            f"{', '.join((*names, *more))}"
        )
        return Suspect(PAIR, POSSIBLE + 5, name, proof, predicts, decides)
    if match is not None:
        dark = ", ".join(match.compared.unknown[:MOST_TOLD])
        proof = (
            f"against it: what is known of model and drafter gave length "
            f"{match.healthy.length:.2f} {case.ago(match.healthy.at)}; not known: {dark}"
        )
        return Suspect(PAIR, NAMED + 5, name, proof, predicts, decides)
    proof = "it was never seen healthy here under a launch that is known"
    return Suspect(PAIR, NAMED + 6, name, proof, predicts, decides)


def _before(case: Case, match: Match) -> str:
    healthy = match.healthy
    length = f"acceptance length {healthy.length:.2f} {case.ago(healthy.at)}"
    if match.same_process:
        return f"this very process, with the same weights, had {length}"
    drafter = case.factors.get("drafter")
    named = f"model {case.factors['model']}" + (f", drafter {drafter}" if drafter else "")
    alike = len(healthy.factors)
    return f"the same pair gave {length} ({named}; {alike} factors of both alike)"


def corrupted(case: Case) -> Judged:
    """Judge whether state went bad at run time: then a restart alone heals it."""
    name = "draft state corrupted at run time (prefix cache or KV transfer)"
    if case.finding.alertname != COLLAPSED:
        return None
    share = case.dead_again
    if share is not None and any(name.startswith(KV_TRANSFER) for name in case.factors):
        return None  # what lies in a store of its own outlasts a restart
    if share is not None:
        return Ruled(
            STATE,
            f"{name}: a restart did not heal it: position 0 accepts {w.percent(share)} of "
            f"{w.count(case.level(s.DRAFTS))} drafts since the one "
            f"{case.ago(case.restarts_since[-1].at)}",
        )
    predicts, decides = RESTART_HEALS, PLAIN_RESTART
    if case.began_without_a_start:
        ran = "" if case.ran_for is None else f", {w.span(case.ran_for)} after the start"
        return Suspect(
            STATE, LIKELY, name, f"it began while the process ran{ran}", predicts, decides
        )
    if case.began_with_a_start:
        return Suspect(STATE, NAMED, name, "against it: a restart began it", predicts, decides)
    return Suspect(STATE, NAMED + 4, name, "nothing is known for or against it", predicts, decides)


def counted_twice(case: Case) -> Judged:
    """Judge by the counters' own sum: each step is one draft and gives one token beyond it."""
    drafts, accepted = case.number("drafts"), case.number("accepted_tokens")
    generated = case.number("generated_tokens")
    if drafts is None or accepted is None or generated is None or generated < FEWEST:
        return None
    drafts -= case.number("padded_drafts") or 0.0
    share = (drafts + accepted) / generated
    name = "two drafters that count twice"
    sums = (
        f"{w.count(drafts)} drafts + {w.count(accepted)} accepted = "
        f"{w.count(drafts + accepted)} of {w.count(generated)} generated tokens"
    )
    if ONE_DRAFTER[0] <= share <= ONE_DRAFTER[1]:
        return Ruled(TWICE, f"{name}: {sums}: one drafter; two would give about twice as many")
    if TWO_DRAFTERS[0] <= share <= TWO_DRAFTERS[1]:
        return Suspect(
            TWICE, LIKELY, name, f"{sums}, about twice as many",
            "that decoding is as fast as ever and only the counters are wrong",
            "tokens per second of one request, against the time before",
        )  # fmt: skip
    return None


def synthetic(case: Case) -> Judged:
    """Judge by the launch itself: then acceptance is a setting, and says nothing of a drafter."""
    method = case.factors.get("speculative-config rejection_sample_method", "")
    if method.strip('"') == "synthetic":
        rates = [
            f"{name.split()[-1]} {shown}" for name, shown in sorted(case.factors.items())
            if name.startswith("speculative-config synthetic_acceptance")
        ]  # fmt: skip
        proof = ", ".join(("the launch has rejection_sample_method synthetic", *rates[:MOST_TOLD]))
        return Suspect(
            SYNTHETIC, LIKELY + 25, "synthetic acceptance", proof,
            "lengths that follow that setting whatever the text",
            "a start of the same launch without it",
        )  # fmt: skip
    if not case.fingerprint.factors or any(p == "argv" for p, _ in case.fingerprint.unread):
        return None
    how = f"rejection_sample_method is {method}" if method else "the command line asks for none"
    return Ruled(SYNTHETIC, f"synthetic acceptance: {how}", spare=True)


def too_deep(case: Case) -> Judged:
    """Judge by the positions: what is drafted beyond what the drafter can see gains nothing."""
    told = case.said.evidence.get("positions")
    q = [float(x) for x in told if isinstance(x, (int, float))] if isinstance(told, list) else []
    if not q or case.finding.alertname not in (COLLAPSED, "SpecDecodeDegraded"):
        return None
    if case.finding.alertname == COLLAPSED:
        line = f"drafts that are too deep: position 0 itself accepts only {w.percent(q[0])}"
        return Ruled(DEEP, line, spare=True)
    gain = w.TOO_DEEP * (1 + sum(q))
    deep = next((i for i in range(1, len(q)) if max(q[i:]) < gain), None)
    if deep is None:
        return None
    return Suspect(
        DEEP, POSSIBLE - 5, "drafts that are too deep",
        f"positions {deep} to {len(q) - 1} together gain {sum(q[deep:]):.2f} of "
        f"{1 + sum(q):.2f} tokens",
        "the same length and faster steps with fewer draft tokens",
        f"a start with num_speculative_tokens {deep}",
    )  # fmt: skip
