"""What an operator declares of a target or of the host: claims for the checks to verify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from watchdog.domain.link import Slot

SOMETIMES: Final = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods that draft only when they find a match: they may accept nothing and be healthy."""

ANY_ROUTING: Final = "any"
PREFIX_AWARE: Final = "prefix-aware"
"""How requests come to the engines of a target: regardless of the prompt, or by its prefix."""

ICC: Final = 0.10
"""Correlation of the drafts inside one request (the detector study's stress-proof value)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """
    A target, or the host, as declared; None where nothing is declared.

    `depth` in draft positions, `acceptance_length` in tokens, `cold_start` in seconds: how long
    a young process may take before it answers. `icc` is 0 to 1. `slots` are the host's: what its
    GPU links are declared to be. `routing` is how requests come to its engines. `version` is the
    one that vLLM should have. `warm_start` in seconds: about so long takes a start that compiles
    nothing; where it is declared, `cold_start` is about how long one takes that does.
    """

    speculation: bool | None = None
    method: str | None = None
    depth: int | None = None
    acceptance_length: float | None = None
    cold_start: float = 900.0
    icc: float = ICC
    slots: tuple[Slot, ...] = ()
    routing: str = ANY_ROUTING
    version: str | None = None
    warm_start: float | None = None

    @property
    def drafts_sometimes(self) -> bool:
        """An n-gram or suffix drafter: never called dead, never asked why it does not draft."""
        return self.method in SOMETIMES

    @property
    def learned(self) -> bool:
        """A drafter with weights (eagle, mtp, dflash, draft_model ...): drafts on every step."""
        return self.method is not None and self.method not in SOMETIMES


NOTHING_DECLARED: Final = Profile()
