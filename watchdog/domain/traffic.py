"""What requests are like: the figures by which two stretches of traffic are compared."""

from __future__ import annotations

from typing import NamedTuple


class Traffic(NamedTuple):
    """
    Sums over a stretch: requests that began, their tokens, decode updates and engine steps.

    `queries` and `hits` are prompt tokens looked up and found in the prefix cache.
    """

    requests: float
    prompt_tokens: float
    generated: float
    updates: float
    iterations: float
    queries: float
    hits: float

    @property
    def figures(self) -> dict[str, float]:
        """
        What is known of it.

        `prompt_tokens` and `output_tokens` per request, `running`: mean requests in a decode
        step, `prefix_hit_ratio`: prompt tokens found in the prefix cache, 0 to 1.
        """
        parts = {
            "prompt_tokens": (self.prompt_tokens, self.requests),
            "output_tokens": (self.generated, self.requests),
            "running": (self.updates, self.iterations),
            "prefix_hit_ratio": (self.hits, self.queries),
        }
        return {name: total / of for name, (total, of) in parts.items() if of > 0}


def compared(before: Traffic, now: Traffic) -> dict[str, list[float]]:
    """Return pairs of figures: of the one, of the other. What is unknown of one is left out."""
    old, new = before.figures, now.figures
    return {name: [old[name], new[name]] for name in old if name in new}
