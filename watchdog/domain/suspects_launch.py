"""Suspects in the launch: another version or checkpoint, or one that asks for no drafts."""

from __future__ import annotations

from typing import Final

from watchdog.domain.causes import LOST, NEW_VERSION, NO_SERIES, START_LOG
from watchdog.domain.suspect import LIKELY, Case, Judged, Ruled, Suspect

ABOUT: Final = "speculation"
OPTION: Final = "speculative-config"


def speculation_lost(case: Case) -> Judged:
    """Judge by the command line of the process that serves."""
    found = case.fingerprint
    if not found.factors or any(part in ("argv", "factors", "others") for part, _ in found.unread):
        return None
    keys = {
        name.removeprefix(OPTION).strip(): shown
        for name, shown in case.factors.items() if name.split(" ")[0] == OPTION
    }  # fmt: skip
    if not keys and "drafter" not in case.factors:
        return Suspect(
            ABOUT, LIKELY, LOST, "the command line of the process that serves has none",
            NO_SERIES, START_LOG,
        )  # fmt: skip
    told = ", ".join(f"{key} {keys[key]}" for key in ("method", "num_speculative_tokens")
                     if key in keys)  # fmt: skip
    return Ruled(ABOUT, f"{LOST}: the process that serves has it{f' ({told})' if told else ''}")


def another_launch(case: Case) -> Judged:
    """Judge by the restarts: a process that ran on has the version and the weights it had."""
    if not case.began_without_a_start:
        return None
    return Ruled("launch", f"{NEW_VERSION}: it began without a restart", spare=True)
