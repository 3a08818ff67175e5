"""
Causes that a check names by experience: what each predicts, and the observation that decides.

Several checks name the same ones. Where more is known of a launch, `suspects` judges them.
"""

from __future__ import annotations

from typing import Final


def cause(name: str, predicts: str, decides: str) -> str:
    """Say of a cause what would be seen if it is the one, and the one observation that tells."""
    return f"{name}; predicts {predicts}; decided by {decides}"


OLD_CACHE: Final = "a compile cache of an older launch"
COLD_HEALS: Final = "that a start which compiles anew heals it and a plain restart does not"
COLD_START: Final = "a start of the same launch with its cache moved aside"

PAIR_HEALS: Final = "that a cold start heals nothing, and the former model and drafter do"
AFTER_COLD: Final = "the acceptance length after a start that compiled anew"

RESTART_HEALS: Final = "that a restart alone heals it, with the cache kept"
PLAIN_RESTART: Final = "a plain restart before anything else is changed"

NEW_VERSION: Final = "a new version, quantization or drafter checkpoint"

LOST: Final = "the launch lost its --speculative-config"
NO_SERIES: Final = "that the page has no vllm:spec_decode series, whatever is asked"
START_LOG: Final = "`speculative_config` in the start-up log"

CACHE: Final = cause(OLD_CACHE, COLD_HEALS, COLD_START)
VERSION: Final = cause(
    NEW_VERSION,
    "that the former one, started cold, has the former length on the same prompts",
    "a fixed set of prompts, asked of both",
)


def other_traffic(name: str) -> str:
    """Name other traffic: `name` says than which."""
    return cause(
        name,
        "that the requests of before are accepted as well as before",
        "a fixed set of prompts of before, asked again",
    )
