"""What is said of a compile cache: whose files a launch runs on, and what a set-aside brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from watchdog.domain import cache_commands as commands
from watchdog.domain import coldness as c
from watchdog.domain.cache_state import State
from watchdog.domain.causes import COLD_HEALS, COLD_START, cause
from watchdog.domain.finding import Argument
from watchdog.domain.ledger import SAFE, SEEN, STALE, UNKNOWN, Fill, Place, compared, inode_of
from watchdog.domain.ledger_verdict import Judged
from watchdog.domain.report import rfc3339
from watchdog.domain.starts import REPLACED, Owed, Start

NOTHING_HERE: Final = "nothing that counts here"
"""In what two launches differ that are alike in all that changes what lies in a place."""

SAYS: Final[Mapping[str, str]] = {
    "compiled": "this start compiled it for itself",
    "unused": "it is not in use: {unused}",
    "own": "this launch compiled it for itself, at its start of {made}",
    "unsure": "no change was seen since the start of {made}, which compiled it, and that proves "
    "nothing{dark}",
    "alike": "made under another launch that is alike in all that changes what lies here",
    "warm": "{other} was here before and this launch did not compile anew: {changed}",
    "mixed": "{other} was here before and this launch did not compile all anew: {changed}",
    "empty": "it holds nothing: this launch compiled nothing, or elsewhere",
    "traces": "nobody saw who filled it{traces}",
    "partial": "no change was seen against {other}, and that proves nothing: {changed}",
    "back": "{other} was here before ({changed}), and so was this launch: whether it compiled then "
    "is no longer kept",
    "forgotten": "{other} was here before, and its factors are no longer kept",
    "blind": "it {blind}",
    "unshown": "this launch compiled it for itself at its start of {made}, by its log alone: "
    "whether those files still lie here cannot be told",
    "layout": "it holds no compiled code of a known layout",
    "many": "{other} was here before ({changed}), and more lies here than was listed: whether all "
    "that this start uses is new cannot be told",
    "between": "{other} was here before ({changed}), but all that a start needs was compiled "
    "after that, before this start and by a launch that nobody saw; it may have been this one",
    "time": "{other} was here before ({changed}), and only the time of this start says that it "
    "compiled anew",
    "rival": "{other} was here before ({changed}), and another launch started into it at the "
    "same time as this one: whose files are new cannot be told",
    "late": "{other} was here before ({changed}), and nothing here is as old as that",
    "kernels": "{other} was here before ({changed}), and kernels of its time are left; which of "
    "them this launch uses is up to Triton's own key, which has version, card and source",
}
"""By the `why` of what was judged."""


def said(state: State, answer: Judged) -> str:
    """Say in words what holds of the running launch in one place."""
    now, place = state.now, place_of(state, answer)
    own = place.fill(now.digest) if place and now else None
    other = place.fill(answer.other) if place and answer.other else None
    text = SAYS.get(answer.why, answer.why)
    return text.format(
        made=when(own.made) if own and own.made else "an unknown time",
        other=_other(other),
        changed=_changed(state, other, answer.kind),
        traces=_traces(place),
        blind=answer.blind or "was not seen whole",
        unused=now.unused if now else "",
        dark=_dark(now, own),
    )


def place_of(state: State, answer: Judged) -> Place | None:
    """Return the directory that was judged."""
    inode = inode_of(answer.identity)
    return next((p for p in state.places if (p.path, p.inode) == (answer.path, inode)), None)


def when(at: float) -> str:
    """Write a time; that of a file may be any number."""
    try:
        return rfc3339(at)
    except (OverflowError, ValueError, OSError):
        return "a time that is none"


def _other(fill: Fill | None) -> str:
    if fill is None:
        return "another launch"
    later = fill.last > fill.first  # a stamp has one start of it: another one was seen
    seen = "seen" if fill.origin == SEEN or later else "noted in its stamp"
    return f"the launch {fill.digest} ({seen} {when(fill.last)})"


def _changed(state: State, fill: Fill | None, kind: str) -> str:
    if fill is None or state.now is None:
        return "what differs is not known"
    difference = compared(state.prints, fill, state.now.digest, kind)
    return difference.words() if difference else "what differs is not known"


def _dark(now: Start | None, own: Fill | None) -> str:
    """Say what could not be read of this start's launch, or of the one that compiled."""
    if now and now.unread:
        return f": not known: {', '.join(now.unread)}"
    return ": not all of the launch could be read then" if own and own.dark else ""


def _traces(place: Place | None) -> str:
    traces = place.fill("") if place else None
    if traces is None:
        return ""
    return f": its files are of {when(traces.first)} to {when(traces.last)}"


# --- CompileCacheStale ---------------------------------------------------------------------------


def stale(target: str, state: State, worst: Judged | None) -> Argument:
    """Argue about the places of a launch; the worst one speaks."""
    now = state.now
    if now is None:
        return Argument(f"{target}: when its process started is told by nobody, so that nothing "
                        f"can be said of its compile cache")  # fmt: skip
    proof = _proof(state, worst)
    if worst is None:
        why = state.blind or "not looked at since this start"
        return Argument(f"{target}: whether its compile cache is stale is not known: {why}",
                        evidence=proof, next_step=_look(target))  # fmt: skip
    if worst.says == SAFE:
        return Argument(f"{target}: {worst.path}: {said(state, worst)}{_others(state, worst)}",
                        evidence=proof)  # fmt: skip
    if worst.says == UNKNOWN:
        return Argument(
            f"{target}: whether {worst.path} is safe is not known: "
            f"{said(state, worst)}{_others(state, worst)}",
            evidence=proof, next_step=_decides(target, worst),
        )  # fmt: skip
    return Argument(
        f"{target}: runs on compiled code of another launch: {worst.path}: {said(state, worst)}"
        f"{_others(state, worst)}",
        "code that this launch compiled for itself",
        proof,
        ruled_out=tuple(_ruled_out(now, worst)),
        suspects=tuple(_suspects(state, worst)),
        next_step=f"stop the server, run `{set_aside_line(worst)}`, start the same launch, "
        f"then `{commands.confirm(target)}`",
    )


def set_aside_line(one: Judged) -> str:
    """Return the command that makes the next start a cold one."""
    if not one.here.startswith("/proc/"):
        return commands.set_aside(one.here or one.path)
    return (  # by way of a process, which is gone when the server is stopped
        f"watchdog cache set-aside --directory DIRECTORY` with the directory of this host that its "
        f"container has at `{one.path}"
    )


def _others(state: State, worst: Judged) -> str:
    rest = [f"{one.path} {one.says}" for one in state.judged if one is not worst]
    return f" (also: {', '.join(rest)})" if rest else ""


def _ruled_out(now: Start, worst: Judged) -> Iterable[str]:
    if worst.kind in c.GRAPH_PLACES and not any(sign.says == c.COLD for sign in now.signs):
        yield (
            "a change that vLLM's own key sees: such a launch compiles anew, and nothing shows "
            "that this one did"
        )
    yield "what came into the directory after this start: only who was there before counts"
    for sign in now.signs:
        if sign.says == c.WARM:
            yield f"a start that compiled, by its {sign.name}: {sign.text}"


def _suspects(state: State, worst: Judged) -> Iterable[str]:
    if any(one.chosen for one in state.judged):
        yield cause(
            "an explicit cache_dir, which bypasses vLLM's key: any launch loads what lies there",
            "that the same launch compiles where no cache_dir is given",
            "one start without `cache_dir`, and its `Compiling a graph` lines",
        )
    if worst.kind in ("triton", "aiter", "inductor"):
        shared = f"a {worst.kind} cache outside vLLM's own directory, shared by every launch"
        yield cause(shared, COLD_HEALS, COLD_START)
    else:
        kept = "a changed launch whose cache directory kept its name: vLLM's key misses the change"
        yield cause(kept, COLD_HEALS, COLD_START)
    yield cause(
        "this launch itself, if it compiled here before the watch began: then its files are its "
        "own, and a set-aside costs one compilation",
        "the same speed and acceptance after a cold start",
        "the acceptance length and the step time after a cold start",
    )


def _look(target: str) -> str:
    return f"run `{commands.show(target)}`"


def _decides(target: str, worst: Judged) -> str:
    """Name the one step that would decide."""
    if worst.why in ("blind", "layout", "empty", "many"):
        return f"{_look(target)}: it names what could not be read; a log (`launch.log`) decides too"
    if worst.why in ("partial", "unsure"):
        return "let the daemon read the whole launch: `watchdog doctor` says what it may not read"
    return (
        f"if acceptance is low, `{set_aside_line(worst)}` before the next start makes it "
        f"sure; a log (`launch.log`) would tell of each start"
    )


def _proof(state: State, worst: Judged | None) -> dict[str, object]:
    now = state.now
    proof: dict[str, object] = {
        "verdicts": {one.path: one.says for one in state.judged},
        "ledger": ledger(state),
    }
    if now is not None:
        proof["start"] = when(now.start)
        proof["coldness"] = now.verdict
        proof["signs"] = {sign.name: f"{sign.says}: {sign.text}" for sign in now.signs}
        proof["fingerprint"] = now.digest
    if worst is None:
        return proof
    place = place_of(state, worst)
    other = place.fill(worst.other) if place and worst.other else None
    proof["place"], proof["why"] = worst.path, worst.why
    proof["bypasses_key"] = any(one.chosen for one in state.judged)
    proof["fills"] = [_row(fill) for fill in (place.fills if place else ())]
    if other is not None and worst.says == STALE:
        difference = compared(state.prints, other, now.digest if now else "", worst.kind)
        proof["differs_in"] = [one.name for one in difference.changed] if difference else []
        proof["differs"] = _changed(state, other, worst.kind)
    return proof


def _row(fill: Fill) -> dict[str, object]:
    return {
        "fingerprint": fill.digest, "first": when(fill.first), "last": when(fill.last),
        "compiled": fill.compiled, "origin": fill.origin, "verdict": fill.verdict,
    }  # fmt: skip


def ledger(state: State) -> list[dict[str, Any]]:
    """Return what the running launch did in each place, for the stamp in it."""
    start = state.now.start if state.now else None
    return [
        {"path": one.path, "id": one.identity or None, "start": start, "compiled": one.compiled}
        for one in state.judged
    ]


# --- CompileCacheInvalidationIneffective ---------------------------------------------------------


def ineffective(target: str, state: State, owed: Owed | None) -> Argument:
    """Argue about the last set-aside, and the start that followed it."""
    now = state.now
    if now is None:
        return Argument(f"{target}: when its process started is told by nobody")
    proof: dict[str, object] = {
        "start": when(now.start), "coldness": now.verdict,
        "signs": {sign.name: f"{sign.says}: {sign.text}" for sign in now.signs},
    }  # fmt: skip
    if owed is None:
        whole = c.Coldness(now.verdict, now.signs).words() if now.signs else "not looked at yet"
        after = f" (before this start: {_what(now.after_aside)})" if now.after_aside else ""
        return Argument(f"{target}: no set-aside waits for a cold start{after}: {whole}",
                        evidence=proof)  # fmt: skip
    proof |= {"set_aside": owed.name, "place": owed.path, "set_aside_at": when(owed.at)}
    start = next((one for one in state.starts if one.start == owed.start), now)
    said_of_it = c.Coldness(owed.verdict, start.signs).words()
    what = f"{owed.path} {_how(owed)}"
    if owed.verdict != c.WARM:
        return Argument(
            f"{target}: {what}, and the start that followed: {said_of_it}",
            evidence=proof,
            next_step=f"run `{commands.confirm(target)} --log FILE` with the "
            f"server's log; a declared `cache.warm_start` would tell by the time",
        )
    return Argument(
        f"{target}: {what}, and the start that followed was not a cold one: {said_of_it}",
        "a start that compiles, as the first one does after a set-aside",
        proof,
        ruled_out=(
            "a set-aside before an earlier start: this was the first start after it"
            if start is now else
            "an earlier start that compiled: none was cold since the set-aside",
        ),
        suspects=(
            cause(
                "another cache is in use: TRITON_CACHE_DIR, AITER_JIT_DIR, an explicit cache_dir, "
                "or one that is baked into the image",
                "a place of this launch, not set aside, with files older than the start",
                f"`{commands.show(target)}`",
            ),
            cause(
                "another directory was set aside than the one that the server uses",
                "that the server's own directory is another one, with older files",
                f"the directory that `{commands.show(target)}` reads from the process",
            ),
            cause(
                "the directory was put back, or filled from a copy, before the start",
                "files there from before the start",
                "the time of the oldest file there against that of the start",
            ),
        ),
        next_step=f"run `{commands.show(target)}`: it lists every cache of this "
        f"launch; set aside the one with old files",
    )  # fmt: skip


def _how(owed: Owed) -> str:
    if owed.name == REPLACED:
        return f"is another directory, without older files, since the start of {when(owed.start)}"
    return f"was set aside at {when(owed.at)} ({_what(owed.name)})"


def _what(name: str) -> str:
    if name == REPLACED:
        return "the directory was replaced by an empty one"
    return f"now {name}; times in such names are taken for UTC"
