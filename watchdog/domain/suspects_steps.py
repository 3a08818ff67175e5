"""Suspects in how fast a step is: a fast path of the kernels that is off, and its switches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from watchdog.domain.masking import is_secret
from watchdog.domain.suspect import NAMED, POSSIBLE, SLOW, Case, Judged, Ruled, Suspect
from watchdog.domain.texts import one_line

ABOUT: Final = "fast path"
NAME: Final = "a fast path that is off"

FAMILIES: Final = ("RADIANCE_", "AITER_", "VLLM_ROCM_USE_", "VLLM_USE_", "TRITON_", "HIP_", "HSA_")
"""First letters of variables that switch kernels, in the order in which they are named."""

NO_SWITCH: Final = ("DEVICE", "DEBUG", "BLOCKING", "INTERPRET", "LOG")
"""Words in names of what chooses a card, tells more or makes kernels slower: no fast path."""

MOST_NAMED: Final = 8
AS_FAST: Final = 1.25
"""How much slower than in its healthy time a step may be and still be as fast."""

OFF: Final = frozenset({"0", "false", "off", "no"})
ON: Final = frozenset({"1", "true", "on", "yes"})
"""Values of a switch; a variable with another one is a path, a version or a list."""


class Switches(NamedTuple):
    """Switches that are really in the process's environment, as NAME=VALUE."""

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    unread: str = ""  # why they are not known

    @property
    def words(self) -> str:
        """Name them; whatever is left out is counted: a list cut short must not read as a "no"."""
        if self.unread:
            return f"the process's environment is not known ({self.unread})"
        told = f"{len(self.on)} set in the process: {_few(self.on)}" if self.on else (
            "no switch is set in the process"
        )  # fmt: skip
        return f"{told}; off: {_few(self.off)}" if self.off else told


def switches(facts: Mapping[str, object]) -> Switches:
    """Return the switches of the server's own environment, not of a shell's or a file's."""
    launch = facts.get("launch")
    if not isinstance(launch, Mapping):
        return Switches(unread=one_line(str(facts.get("launch_unknown") or "no launch"), 120))
    environ = launch.get("environ")
    if not isinstance(environ, Mapping):
        unread = launch.get("unread")
        why = unread.get("environ") if isinstance(unread, Mapping) else None
        return Switches(unread=one_line(str(why or "not read"), 120))
    found = [(n, str(v)) for n, v in environ.items() if isinstance(n, str) and _is_switch(n, v)]
    found.sort(key=_rank)
    on = tuple(f"{name}={value}" for name, value in found if value.lower() not in OFF)
    off = tuple(f"{name}={value}" for name, value in found if value.lower() in OFF)
    return Switches(on, off)


def fast_path(case: Case) -> Judged:
    """
    Judge a kernel switch that may be off: it makes steps slower, and no draft worse.

    A verifier that computes the same slower accepts the same; so where steps take as long as
    before, or only drafts are bad, the switch is not what is wrong.
    """
    known = switches(case.around.facts)
    slow = case.finding.alertname == SLOW
    if slow or case.alert(SLOW) is not None:
        return _suspect(case, known) if slow else None
    steps = _steps(case)
    if not steps and not known.on:
        return None
    why = "one that is off makes steps slower and accepts about as many drafts"
    return Ruled(ABOUT, "; ".join(p for p in (f"{NAME}: {known.words}", steps, why) if p))


def _suspect(case: Case, known: Switches) -> Suspect | None:
    launch = [e for e in case.around.changes.events if e.kind == "launch" and "env " in e.text]
    if known.unread and not launch:
        return None
    moved = f"{launch[-1].text} {case.ago(launch[-1].at)}; " if launch else ""
    return Suspect(
        ABOUT, POSSIBLE if launch else NAMED, NAME, f"{moved}{known.words}",
        "slower steps with drafts accepted as before",
        "the start-up log's line on the kernels that it chose, against that of the launch before",
    )  # fmt: skip


def _steps(case: Case) -> str:
    """Say that steps take as long as they did; "" where that is not known."""
    sound = case.sound(SLOW)
    if sound is not None:
        now = sound.argument.evidence.get("step_seconds")
        usual = sound.argument.evidence.get("usual_step_seconds")
        if isinstance(now, float) and isinstance(usual, float):
            return f"a decode step takes {now * 1e3:.1f} ms, usually {usual * 1e3:.1f} ms"
    now, match = case.number("step_seconds"), case.match
    before = match.healthy.step if match is not None else None
    if now is None or before is None or now > AS_FAST * before:
        return ""
    return f"a decode step takes {now * 1e3:.1f} ms, {before * 1e3:.1f} ms when it was healthy"


def _is_switch(name: str, value: object) -> bool:
    if is_secret(name) or any(word in name for word in NO_SWITCH):
        return False
    return name.startswith(FAMILIES) and str(value).lower() in ON | OFF


def _rank(switch: tuple[str, str]) -> tuple[int, str]:
    name = switch[0]
    return next(i for i, family in enumerate(FAMILIES) if name.startswith(family)), name


def _few(named: tuple[str, ...]) -> str:
    told = ", ".join(one_line(text, 80) for text in named[:MOST_NAMED])
    more = len(named) - MOST_NAMED
    return f"{told} and {more} more" if more > 0 else told
