"""
Did a start compile for itself, or load what lay in the cache?

Three witnesses, the strongest first: the server's log, which says of each graph that it was
compiled or loaded; the times of the compiled files, against the start of the process; and how
long the start took, against the cold and the warm floor. One that cannot tell says so and why.

Of files only the oldest one of a key directory proves anything: kernels are added to an old
directory at any time, but a directory whose oldest file is newer than the start was made by it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from watchdog.domain import wording as w

COLD: Final = "cold"
WARM: Final = "warm"
UNCLEAR: Final = "unclear"
UNKNOWN: Final = "unknown"

ARTIFACTS: Final = "artifacts"
LOG: Final = "log"
TIME: Final = "time"

LAUNCH: Final = "launch"
"""Who says that a start used no compile cache: no witness of a cold or a warm one."""

SLACK: Final = 2.0
"""Seconds by which the start of a process and the times of files may differ: btime is whole."""

FILLING: Final = 180.0
"""Seconds after the first answer in which what is written still counts as the start's own."""

APART: Final = 1.25
"""Cold floor over warm floor: where they are nearer, a start's time tells nothing."""

GRAPH_PLACES: Final = ("vllm", "chosen")
"""Kinds of places that hold vLLM's graphs; the others hold kernels only."""

GRAPHS: Final = ("inductor", "aot")
"""Kinds of entries that are graphs, of vLLM's two layouts."""

KERNELS: Final = ("triton", "aiter", "inductor shared")
"""Kinds of entries that are compiled kernels."""

BESIDE: Final = ".."
"""Stands for what could not be read beside a place: copies that were set aside, not its files."""


class Sign(NamedTuple):
    """What one witness says: `says` is cold, warm or unclear."""

    name: str
    says: str
    text: str


class Floors(NamedTuple):
    """How long a start takes, in seconds; None where not known. `by`: declared or learned."""

    cold: float | None = None
    warm: float | None = None
    by: str = ""


class Coldness(NamedTuple):
    """The joint verdict (cold, warm, unknown), with all witnesses, the strongest first."""

    verdict: str
    signs: tuple[Sign, ...]

    @property
    def by(self) -> str:
        """The witness that decided, or nothing."""
        return next((sign.name for sign in self.signs if sign.says == self.verdict), "")

    def words(self) -> str:
        """Say it in one sentence, with what each witness says."""
        head = {COLD: "the start was cold", WARM: "the start was warm"}
        said = "; ".join(f"{sign.name}: {sign.text}" for sign in self.signs)
        return f"{head.get(self.verdict, 'whether the start was cold is not known')} ({said})"


def coldness(  # noqa: PLR0913  (each is another witness's)
    start: float,
    up_seconds: float | None,
    places: Sequence[Mapping[str, Any]],
    log: Mapping[str, Any] | None,
    floors: Floors,
    launch_has_drafter: bool,  # noqa: FBT001  (one of six facts)
    *,
    up_least: float | None = None,
    within: float = math.inf,
) -> Coldness:
    """
    Judge a start of which `places`, `log` and `up_seconds` are known to be.

    `start` in Unix seconds; it answered first `up_seconds` later, and `up_least` later at the
    earliest (None: just then). Where that was not seen, it took `within` seconds at most.
    `places` and `log` as the facts `cache` and `log` have them.
    """
    until = start + (within if up_seconds is None else up_seconds) + FILLING
    return joint(
        of_log(log),
        of_places(places, start, until, drafter=launch_has_drafter),
        of_time(up_seconds, up_least, floors),
    )


def joint(*signs: Sign) -> Coldness:
    """Join witnesses, the strongest first: the first one that can tell decides."""
    verdict = next((sign.says for sign in signs if sign.says != UNCLEAR), UNKNOWN)
    return Coldness(verdict, signs)


# --- the log -------------------------------------------------------------------------------------


def of_log(log: Mapping[str, Any] | None) -> Sign:
    """Say what the lines since the last start tell."""
    if not log:
        return Sign(LOG, UNCLEAR, "no log was read")
    if log.get("unread"):
        return Sign(LOG, UNCLEAR, f"it was not read: {log['unread']}")
    # A CPU's vLLM (mode 2) tells of what it compiled only when it stores it.
    compiled = max(_count(log, "compiled"), _count(log, "stored"))
    hits = _count(log, "hits") + _count(log, "aot_hits")
    counts = f"{compiled} graph(s) compiled, {hits} loaded from the cache"
    doubt = _doubt(log)
    if doubt:
        return Sign(LOG, UNCLEAR, f"{doubt}: {counts}")
    if bool(compiled) != bool(hits):
        return Sign(LOG, COLD if compiled else WARM, counts)
    none = "no line about compiling or loading a graph"
    return Sign(LOG, UNCLEAR, counts if compiled else none)


def _doubt(log: Mapping[str, Any]) -> str:
    """Say why the counts of a log prove nothing; empty where they do."""
    failures, cut = _count(log, "load_failures"), log.get("cut")
    if not log.get("began"):
        return f"not known to be of this start ({cut or 'its start line was not found'})"
    if log.get("off"):
        return "the compile cache is switched off"
    if failures:
        return f"{failures} graph(s) failed to load"
    return f"not read whole ({cut})" if cut else ""


def _count(log: Mapping[str, Any], key: str) -> int:
    value = log.get(key)
    return value if isinstance(value, int) and value > 0 else 0


# --- the time ------------------------------------------------------------------------------------


def of_time(
    up_seconds: float | None, up_least: float | None, floors: Floors, apart: float = APART
) -> Sign:
    """Compare a start's time with the geometric middle of both floors."""
    if up_seconds is None:
        return Sign(TIME, UNCLEAR, "how long it took was not seen")
    took = f"it took {_took(up_seconds, up_least)}"
    if not floors.cold or not floors.warm:
        known = [f"{n} start {w.span(v)}" for n, v in (("cold", floors.cold),
                 ("warm", floors.warm)) if v]  # fmt: skip
        return Sign(TIME, UNCLEAR, f"{took}; floors are not known{_also(known)}")
    both = (
        f"{floors.by} floors: a cold start takes about {w.span(floors.cold)}, "
        f"a warm one {w.span(floors.warm)}"
    )
    if floors.cold < apart * floors.warm:
        return Sign(TIME, UNCLEAR, f"{took}; the {both}, which is too near to tell")
    middle = math.sqrt(floors.cold * floors.warm)
    if (up_seconds if up_least is None else up_least) >= middle:
        return Sign(TIME, COLD, f"{took}; {both}")
    if up_seconds < middle:
        return Sign(TIME, WARM, f"{took}; {both}")
    return Sign(TIME, UNCLEAR, f"{took}; {both}")


def _took(most: float, least: float | None) -> str:
    return w.span(most) if least is None else f"between {w.span(least)} and {w.span(most)}"


def _also(known: Sequence[str]) -> str:
    return f" (but for: {', '.join(known)})" if known else ""


# --- the files -----------------------------------------------------------------------------------


def of_places(
    places: Sequence[Mapping[str, Any]],
    start: float,
    until: float = math.inf,
    *,
    drafter: bool = False,
    rivals: Collection[str] = (),
) -> Sign:
    """
    Say what the files of all places with graphs tell: one that differs makes it unclear.

    `rivals`: paths into which another launch started at the same time.
    """
    told = [place for place in places if place.get("kind") in GRAPH_PLACES]
    if not told:
        return Sign(ARTIFACTS, UNCLEAR, "no place with vLLM's graphs is known")
    signs = [of_place(p, start, until, drafter=drafter, rivals=rivals) for p in told]
    filled = [s for s, place in zip(signs, told, strict=True) if not is_empty(place)] or signs
    words = {sign.says for sign in filled}
    text = "; ".join(sign.text for sign in filled)
    if not any(not is_empty(place) for place in told):
        others = [str(p.get("path")) for p in places if p not in told and not is_empty(p)]
        text += f"; files are in {', '.join(others)}" if others else ""
    return Sign(ARTIFACTS, words.pop() if len(words) == 1 else UNCLEAR, text)


def of_place(
    place: Mapping[str, Any],
    start: float,
    until: float = math.inf,
    *,
    drafter: bool = False,
    rivals: Collection[str] = (),
) -> Sign:
    """
    Say what the files of one place tell of a start that was over at `until`.

    With graphs: cold where all that it needs was made in that time, the drafter's graph too. With
    kernels: cold only where nothing is older, since each of them may be used for years.
    """
    path, entries = str(place.get("path", "?")), _compiled(place)
    silent = _silent(place)
    if silent:
        return Sign(ARTIFACTS, UNCLEAR, f"{path} {silent}")
    if made_within(place, start, until, drafter=drafter):
        if path in rivals:
            return Sign(ARTIFACTS, UNCLEAR, f"{path} was filled by this start, or by another "
                        f"launch that started at the same time")  # fmt: skip
        return Sign(ARTIFACTS, COLD, f"{path} was filled by this start")
    if not any(_time(e, "newest") >= start - SLACK for e in entries):
        return Sign(ARTIFACTS, WARM, f"nothing in {path} is newer than this start")
    late = all(_time(e, "oldest") > until for e in entries)
    mixed = f"{path} holds files from before this start and from after it"
    return Sign(ARTIFACTS, UNCLEAR, f"{path} was filled later than this start" if late else mixed)


def _silent(place: Mapping[str, Any]) -> str:
    """Say why a place's files tell nothing; empty where they do."""
    blind = blindness(place)
    if blind:
        return blind
    if is_empty(place):
        return "holds nothing after this start: it compiled nothing, or elsewhere"
    return "" if _compiled(place) else "holds no compiled code of a known layout"


def made_within(
    place: Mapping[str, Any], since: float, until: float = math.inf, *, drafter: bool = False
) -> bool:
    """
    Whether all that a launch needs was made in this time.

    Graphs: a whole key directory in each layout that the place has, with the drafter's part or,
    where directories have no parts, with one more for the drafter. Kernels: everything.
    """
    if blindness(place):
        return False
    entries, more = _compiled(place), bool(place.get("more"))
    new = [e for e in entries if since - SLACK <= _time(e, "oldest") <= until]
    if place.get("kind") not in GRAPH_PLACES:
        return bool(new) and len(new) == len(entries) and not more
    kinds = {entry.get("kind") for entry in entries}
    if more and "aot" not in kinds:  # what is left out may be just the one in use
        return False
    return bool(kinds) and all(
        _suffices(
            [e for e in new if e.get("kind") == kind],
            [e for e in entries if e.get("kind") == kind],
            drafter=drafter,
            more=more,
        )
        for kind in kinds
    )


def last_made(place: Mapping[str, Any], since: float, until: float) -> float:
    """The time of the last key directory that was begun in this time: later ones are others'."""
    times = [_time(entry, "oldest") for entry in _compiled(place)]
    return max((at for at in times if since - SLACK <= at <= until), default=until)


def _suffices(
    new: Sequence[Mapping[str, Any]],
    every: Sequence[Mapping[str, Any]],
    *,
    drafter: bool,
    more: bool,
) -> bool:
    """
    Whether the new key directories of a layout are all that a start can have used.

    A drafter shares the directory of the model in Inductor's layout, where parts are named, and
    has one of its own in that of AOT. Where there is no old directory it cannot be in one.
    """
    if not new or not drafter or len(new) > 1:
        return bool(new)
    if len(new) == len(every) and not more:
        return True
    [one] = new
    if one.get("kind") == "aot":
        return False
    parts = _parts(one)
    if not parts or len(parts) > 1:  # of vLLM before 0.13 no parts are known
        return True
    return not more and not any(_parts(e) - parts for e in every)


def _parts(entry: Mapping[str, Any]) -> set[str]:
    return {str(part).rpartition("/")[2] for part in entry.get("parts") or ()}


def blindness(place: Mapping[str, Any]) -> str:
    """Say why a place was not seen whole; empty where it was."""
    if place.get("cut"):
        return f"was not seen whole: {place['cut']}"
    for row in place.get("unread") or ():
        if row[0] != BESIDE:
            return f"could not be read in part: {' '.join(map(str, row))}"
    return ""


def is_empty(place: Mapping[str, Any]) -> bool:
    """Whether a place is not there, or holds nothing, as far as it was seen."""
    rows = place.get("entries") or ()
    return bool(place.get("missing")) or not any(row.get("files", 1) for row in rows)


def oldest(place: Mapping[str, Any]) -> float | None:
    """The time of the oldest compiled file that was seen."""
    times = [_time(entry, "oldest") for entry in _compiled(place)]
    return min(times, default=None)


def newest(place: Mapping[str, Any]) -> float | None:
    """The time of the newest compiled file that was seen."""
    times = [_time(entry, "newest") for entry in _compiled(place)]
    return max(times, default=None)


def _compiled(place: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Entries of compiled code: of graphs where the place is one of graphs, else of kernels."""
    kinds: Iterable[str] = GRAPHS if place.get("kind") in GRAPH_PLACES else (*GRAPHS, *KERNELS)
    rows = place.get("entries") or ()
    return [e for e in rows if e.get("kind") in kinds and isinstance(e.get("oldest"), (int, float))
            and isinstance(e.get("newest"), (int, float))]  # fmt: skip


def _time(entry: Mapping[str, Any], key: str) -> float:
    return float(entry[key])
