"""Suspects in what is asked: prefix-cache hits, and long contexts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.sample import number
from watchdog.domain.suspect import POSSIBLE, SLOW, Case, Judged, Ruled, Suspect

PREFIX: Final = "prefix"
LONG: Final = "long"

MOVED: Final = 0.15
"""Share of the prompt tokens by which hits must have risen before they are suspected."""

LOOKED_UP: Final = 1000.0
"""Prompt tokens below which no hit says nothing: a new process begins without any."""

FEW_HITS: Final = 0.05
"""Share of the prompt tokens below which hits are no cause, whatever the version."""

LONGER, LONG_PROMPT = 1.5, 4000.0
"""How many times longer prompts must be, and how many tokens at least."""

SHORT_PROMPT: Final = 2000.0
"""Mean prompt tokens up to which long contexts are no cause."""

FEWEST: Final = 10.0
"""Requests below which a mean says nothing."""


def prefix_hits(case: Case) -> Judged:
    """Judge whether drafts on restored prefixes are the bad ones (vllm #47930)."""
    if case.finding.alertname == SLOW:
        return None
    name, queries = "prefix-cache hits", case.level(s.PREFIX_QUERIES)
    hits, pair = case.level(s.PREFIX_HITS), traffic_of(case).get("prefix_hit_ratio")
    if queries >= LOOKED_UP and hits == 0 and not case.restarts_since:
        line = f"{name}: 0 of {w.count(queries)} prompt tokens since the start"
        return Ruled(PREFIX, line, spare=True)
    if pair is None:
        return None
    before, now = pair
    told = f"{w.percent(before)} -> {w.percent(now)} of the prompt tokens"
    if now - before >= MOVED:
        return Suspect(
            PREFIX, POSSIBLE + 8, name, f"they rose, {told}",
            "that prompts nobody sent before are drafted as well as ever",
            "position 0 of one prompt that is new from its first word",
        )  # fmt: skip
    if now >= FEW_HITS and not case.began_without_a_start:
        return None  # another version may restore prefixes wrongly, of which there are as many
    return Ruled(PREFIX, f"{name}: {told}", spare=True)


def long_contexts(case: Case) -> Judged:
    """Judge whether only long prompts are drafted badly."""
    name, pair = "only long contexts", traffic_of(case).get("prompt_tokens")
    if pair is not None and pair[1] >= max(LONG_PROMPT, LONGER * pair[0]):
        return Suspect(
            LONG, POSSIBLE + 2, name,
            f"prompts are {w.count(pair[1])} tokens, {w.count(pair[0])} before",
            "that short prompts are served as well as ever",
            "position 0 (or the step time) of one short prompt",
        )  # fmt: skip
    requests, prompt = case.first_tokens, case.level(s.PROMPT_TOKENS)
    if case.restarts_since or not case.began_with_a_start:
        return None  # the sums since the start are of another time than the finding
    if requests >= FEWEST and prompt / requests <= SHORT_PROMPT:
        mean = w.count(prompt / requests)
        line = f"{name}: {mean} tokens a prompt over {w.count(requests)} requests"
        return Ruled(LONG, line, spare=True)
    return None


def traffic_of(case: Case) -> dict[str, tuple[float, float]]:
    """Return what is known of the engine's traffic, before and now."""
    told: Any = case.said.evidence.get("traffic")
    for other in case.near:
        if other.check == "baseline" and other.subject == case.finding.subject:
            told = told or other.argument.evidence.get("traffic")
    pairs = {}
    for name, pair in told.items() if isinstance(told, Mapping) else ():
        known = [number(x) for x in pair] if isinstance(pair, (list, tuple)) else []
        if len(known) == 2 and known[0] is not None and known[1] is not None:
            pairs[str(name)] = known[0], known[1]
    return pairs
