"""Does the server answer, and how often does it start anew?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, target_of

MOST_STARTS = 16
LAUNCH = "launch"
"""The probe that looks for a young process."""


class State(NamedTuple):
    """What is known of a target's answers and starts; times on the round's timeline."""

    silent_since: float | None = None
    silent_rounds: int = 0
    answered_at: float | None = None
    starts: tuple[float, ...] = ()
    started_at: float | None = None  # of the young process that was seen last
    newest: float | None = None  # latest process start that a page told


@dataclass(frozen=True)
class Serving:
    """Fields are limits: rounds, seconds, process starts."""

    about: ClassVar[str] = "target"

    down_rounds: float = 3.0
    down_after: float = field(default=60.0, metadata={"unit": "seconds"})
    starts: float = 3.0
    starts_within: float = field(default=3600.0, metadata={"unit": "seconds"})

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one round of one target."""
        state = state or State()
        if not window.readings:  # a recorded folder may lack a source in one snapshot
            return state, [_unread(window)]
        readable = _readable(window)
        if readable or _answered(window):
            state = State(None, 0, now, *state[3:])
        else:
            since = now if state.silent_since is None else state.silent_since
            state = state._replace(silent_since=since, silent_rounds=state.silent_rounds + 1)
        state = self._counted(state, window, now)
        findings = [
            self._judge_answer(state, window, now, readable=readable),
            self._judge_starts(state, window),
        ]
        return state, findings

    def _counted(self, state: State, window: Window, now: float) -> State:
        """Count process starts, and forget those that are older than the limit."""
        start, young = window.levels.get(s.PROCESS_START), _started(window)
        starts, newest = state.starts, state.newest
        if _began_anew(state, window) or _another_process(state, young):
            starts = (*starts, now)[-MOST_STARTS:]
        if starts and now - starts[0] >= self.starts_within:
            starts = tuple(at for at in starts if now - at < self.starts_within)
        if start is not None and (newest is None or start > newest):
            newest = start
        if starts is state.starts and newest is state.newest and young is None:
            return state
        young = state.started_at if young is None else young
        return state._replace(starts=starts, started_at=young, newest=newest)

    def _judge_answer(self, state: State, window: Window, now: float, *, readable: bool) -> Finding:
        verdict, conclusive = OK, readable
        young = None if state.silent_since is None else self._starting_for(state, window, now)
        if state.silent_since is not None:
            down = (
                state.silent_rounds >= self.down_rounds
                and now - state.silent_since >= self.down_after
            )
            verdict, conclusive = (Verdict.CRITICAL, True) if down else (Verdict.UNKNOWN, False)
            if young is not None:
                verdict, conclusive = Verdict.UNKNOWN, False

        def argue() -> Argument:
            if verdict is Verdict.CRITICAL:
                return self._down(state, window, now)
            if state.silent_since is None:
                return _answers(window)
            if young is not None:
                return _starting(window, young)
            return self._silent(state, window, now)

        return Finding("ServingDown", window.subject, verdict, argue, conclusive=conclusive)

    def _starting_for(self, state: State, window: Window, now: float) -> float | None:
        """
        Age of a process that may still be starting, or None.

        The grace ends with the silence's own length: a server that dies and starts again every
        two minutes is always young and never up.
        """
        young, grace = _young(window, now), window.profile.cold_start
        if young is None and _late(window) and state.started_at is not None:
            young = now - state.started_at  # who looks for it was late: it is no less there
        silent = now - (state.silent_since if state.silent_since is not None else now)
        return young if young is not None and young <= grace and silent <= grace else None

    def _silent(self, state: State, window: Window, now: float) -> Argument:
        waited = f"for {w.span(now - (state.silent_since or now))}"
        return Argument(
            f"{target_of(window)}: no answer {waited if state.silent_rounds > 1 else 'just now'} "
            f"({_error(window)}); down if it lasts {w.span(self.down_after)} and "
            f"{self.down_rounds:.0f} rounds"
        )

    def _down(self, state: State, window: Window, now: float) -> Argument:
        waited = now - (state.silent_since or now)
        seen = "never answered since the watch began"
        if state.answered_at is not None:
            seen = f"answered last {w.span(now - state.answered_at)} ago"
        return Argument(
            f"{target_of(window)}: down: no answer for {w.span(waited)}: {_error(window)}; {seen}",
            f"an answer within {self.down_rounds:.0f} rounds and {w.span(self.down_after)}",
            {"silent_seconds": waited, "silent_rounds": state.silent_rounds},
            ruled_out=(_no_young_process(window, now),),
            suspects=(
                "the server stopped or crashed",
                "another port or address than configured",
                "a server that accepts connections and is too busy or hung to answer",
            ),
            next_step="look at the server's log; if it runs, run `watchdog doctor` for this target",
        )

    def _judge_starts(self, state: State, window: Window) -> Finding:
        often = len(state.starts) >= self.starts

        def argue() -> Argument:
            times = f"{len(state.starts)} times in {w.span(self.starts_within)}"
            if not often:
                return Argument(f"{target_of(window)}: started anew {times}")
            return Argument(
                f"{target_of(window)}: the server started anew {times}",
                f"fewer than {self.starts:.0f} starts in {w.span(self.starts_within)}",
                {"starts": len(state.starts)},
                ruled_out=("counters reset without a new process, where the page tells its start",),
                suspects=(
                    "a crash loop under a restart policy",
                    "a deployment that keeps retrying",
                ),
                next_step="look at the end of the server's log before the last start",
            )

        verdict = Verdict.WARNING if often else OK
        value = float(len(state.starts))
        return Finding("ServingRestarting", window.subject, verdict, argue, True, value, "starts")  # noqa: FBT003


def _readable(window: Window) -> bool:
    """One page that was read is enough: another probe's failure is no news of the server."""
    failed = False
    for reading in window.readings:
        if reading.samples:
            return True
        failed = failed or reading.error is not None
    return not failed


def _answered(window: Window) -> bool:
    """Whether all answered, or one with a page that makes no sense."""
    readings = window.readings
    return all(r.answered for r in readings) or any(r.answered and r.error for r in readings)


def _unread(window: Window) -> Finding:
    said = Argument(f"{target_of(window)}: not read in this round; nothing is known of it")
    return Finding("ServingDown", window.subject, Verdict.UNKNOWN, lambda: said, conclusive=False)


def _began_anew(state: State, window: Window) -> bool:
    """
    A new process: a later start time than any before; else, any engine's counters fell.

    Two processes that answer in turn behind one address are not one that starts again and again.
    """
    start = window.levels.get(s.PROCESS_START)
    if start is not None:
        return window.reset and (state.newest is None or start > state.newest)
    return any(part.reset for part in window.parts)


def _another_process(state: State, started: float | None) -> bool:
    """Whether another young process is seen than before, while the server is silent."""
    return started is not None and state.started_at is not None and started > state.started_at + 1


def _started(window: Window) -> float | None:
    """Unix time at which the young process of a silent server started, where one is seen."""
    started = window.facts.get("started_at")
    return started if isinstance(started, float) else None


def _late(window: Window) -> bool:
    """Whether nobody could look for the process in this round."""
    return any(r.probe == LAUNCH and r.error is not None for r in window.readings)


def _young(window: Window, now: float) -> float | None:
    """Age in seconds of a server process that was seen to start, or None."""
    started = _started(window)
    return None if started is None else now - started


def _error(window: Window) -> str:
    errors = [r.error for r in window.readings if r.error is not None and not r.answered]
    return errors[0] if errors else "no answer"


def _answers(window: Window) -> Argument:
    levels = [part.levels for part in window.parts]
    running = sum(x.get(s.RUNNING, 0.0) for x in levels)
    waiting = sum(x.get(s.WAITING, 0.0) for x in levels)
    errors = [r.error for r in window.readings if r.error is not None]
    if errors:
        return Argument(f"{target_of(window)}: answers, and cannot be read: {errors[0]}")
    full = "; those wait for admission, which is no slowness of the engine" if waiting else ""
    return Argument(
        f"{target_of(window)}: answers; {len(window.parts)} engine(s), {w.count(running)} requests "
        f"running, {w.count(waiting)} waiting{full}",
        evidence={"running": running, "waiting": waiting, "engines": len(window.parts)},
    )


def _starting(window: Window, young: float) -> Argument:
    return Argument(
        f"{target_of(window)}: starting: a vLLM process of this host is {w.span(young)} old and "
        f"nothing answers yet; down if it takes longer than {w.span(window.profile.cold_start)}"
    )


def _no_young_process(window: Window, now: float) -> str:
    young = _young(window, now)
    if young is None:
        return "a server that is starting: no young vLLM process was seen on this host"
    return (
        f"a server that is starting: the youngest vLLM process is {w.span(young)} old, and the "
        f"{w.span(window.profile.cold_start)} allowed for a start are over"
    )
