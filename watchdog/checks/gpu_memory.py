"""
Is GPU memory held that no process owns, while a server of this host is down?

What is left behind must be freed before the next start, which fails for want of memory or, with
a smaller share of it, runs slower. Only a search that could see all processes says "no process".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.history import Window

NAME = "GpuMemoryStranded"


class State(NamedTuple):
    """Rounds in a row in which memory was seen to be nobody's."""

    rounds: int = 0


@dataclass(frozen=True)
class GpuMemory:
    """Fields are limits: memory in use (GiB), rounds in a row."""

    about: ClassVar[str] = "gpu"

    gibibytes: float = 1.0
    rounds: int = 2

    @property
    def most(self) -> float:
        """Bytes that a GPU may have in use and nobody's: the driver keeps some for itself."""
        return self.gibibytes * 2**30

    def step(
        self,
        state: State | None,
        window: Window,
        now: float,  # noqa: ARG002  (rounds are counted)
    ) -> tuple[State | None, list[Finding]]:
        """Judge one round of one GPU; silent about one whose memory nobody ever told."""
        used = _used(window)
        if used is None:
            said = Argument(f"{_gpu(window)}: its memory was not read in this round")
            blind = Finding(NAME, window.subject, Verdict.OK, lambda: said, conclusive=False)
            return state, [] if state is None else [blind]
        doubt = ""
        stranded = used > self.most and bool(_down(window)) and _holders(window) == []
        if used > self.most and _down(window) and _holders(window) is None:
            doubt = str(window.facts.get("holders_unknown") or "the driver does not tell")
        rounds = (state or State()).rounds
        rounds = rounds + 1 if stranded else rounds if doubt else 0
        bad = stranded and rounds >= self.rounds

        def argue() -> Argument:
            if bad:
                return self._stranded(window, used, rounds)
            return self._well(window, used, doubt, stranded=stranded)

        verdict = Verdict.WARNING if bad else Verdict.OK
        sure = bad or not (stranded or doubt)
        found = Finding(NAME, window.subject, verdict, argue, sure, used, "bytes")
        return State(rounds), [found]

    def _well(self, window: Window, used: float, doubt: str, *, stranded: bool) -> Argument:
        said = f"{_gpu(window)}: {_gib(used)} of memory in use"
        proof = _evidence(window, used)
        if used <= self.most:
            return Argument(f"{said}, no more than {_gib(self.most)}", evidence=proof)
        if not _down(window):
            return Argument(f"{said}, and every server of this host answers", evidence=proof)
        down = f"while {_names(window)} gives no answer"
        if stranded:
            return Argument(f"{said} by no process, {down}; another such round decides")
        if doubt:
            return Argument(f"{said} {down}; who holds it is not known: {doubt}", evidence=proof)
        pids = ", ".join(str(pid) for pid in _holders(window) or [])
        return Argument(f"{said} {down}; held by process {pids}", evidence=proof)

    def _stranded(self, window: Window, used: float, rounds: int) -> Argument:
        gone = window.facts.get("holders_gone")
        booked = f"; the driver still books it on {gone}, which ended" if gone else ""
        return Argument(
            f"{_gpu(window)}: {_gib(used)} of memory in use by no process, while "
            f"{_names(window)} gives no answer{booked}",
            f"at most {_gib(self.most)} where no process holds the GPU",
            {**_evidence(window, used), "rounds": rounds},
            ruled_out=("another process that holds the GPU: all processes were looked at",),
            suspects=(
                "a worker that was killed in the middle of GPU work, and whose memory the driver "
                "did not free",
                "a driver or firmware that hangs: a reset that failed stands in the kernel's log",
            ),
            next_step="before the next start look for what is left: `ps -eo pid,stat,comm | grep "
            "-w Z`, `fuser -v /dev/kfd /dev/dri/renderD* /dev/nvidia*`; if nothing is, reset the "
            "GPU or reboot",
        )


def _used(window: Window) -> float | None:
    """Bytes in use, as read in this round: a level of an earlier one is no news."""
    for reading in window.readings:
        for sample in reading.samples:
            if sample.series == s.MEMORY_USED:
                return sample.value
    return None


def _holders(window: Window) -> list[object] | None:
    holders = window.facts.get("holders")
    return holders if isinstance(holders, list) else None


def _down(window: Window) -> list[str]:
    down = window.facts.get("down")
    return [str(name) for name in down] if isinstance(down, (list, tuple)) else []


def _names(window: Window) -> str:
    return ", ".join(_down(window))


def _gpu(window: Window) -> str:
    at = window.facts.get("gpu") or dict(window.subject).get("slot", "?")
    return f"GPU {at}"


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB"


def _evidence(window: Window, used: float) -> dict[str, object]:
    proof: dict[str, object] = {"memory_used": used, "down": _down(window)}
    if s.MEMORY_TOTAL in window.levels:
        proof["memory_total"] = window.levels[s.MEMORY_TOTAL]
    for name in ("holders", "holders_unknown", "holders_gone"):
        if name in window.facts:
            proof[name] = window.facts[name]
    return proof
