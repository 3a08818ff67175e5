"""One next step for each answer about a compile cache: a command, or one thing to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from watchdog.caches_answer import SAFE, STALE, Place, Row
from watchdog.caches_confirm import COLD, WARM, Confirmed
from watchdog.domain import cache_commands as commands
from watchdog.domain.cache_outline import NEVER_UP
from watchdog.domain.coldness import LAUNCH

PARTIAL: Final = "partial"
"""The check's word for: no change was seen, and something of a launch could not be read."""

PROCESS: Final = "/proc/"
"""How a path begins that leads by way of a process, and is gone with it."""

DOCTOR: Final = "`watchdog doctor` says which processes can be read here"


_SWITCH: Final = re.compile(r"\((.+)\)$")
"""What the check names at the end of why a launch uses no cache."""


class Given(NamedTuple):
    """What is configured of one target: its directory and unit; whether both floors are."""

    directory: str = ""
    unit: str = ""
    floors: bool = False


NOTHING: Final = Given()


def after_show(row: Row, given: Given = NOTHING) -> str:
    """Return what to do after what was shown of one target."""
    if row.verdict == SAFE:
        return "nothing to do"
    if row.verdict == STALE:
        return _after_stale(row, given)
    if not row.here:
        return "ask on the host where it runs: `watchdog cache show`"
    if not row.answers and (row.starts or row.unknown == NEVER_UP):
        return _after_quiet(row)
    if not row.places or row.now is None:
        return DOCTOR
    return _after_unknown(row, given)


def _after_stale(row: Row, given: Given) -> str:
    place = _there([place for place in row.places if place.verdict == STALE])
    if place.missing:
        return _anew(row, place)
    if not row.answers:
        return (
            f"if it was not set aside yet, {_how(row, place, given)}; then start it, and "
            f"`{commands.confirm(row.target)}` says whether that start was cold"
        )
    return (
        f"{_aside(row, place, given)}; "
        f"then `{commands.confirm(row.target)}` says whether that start was cold"
    )


def _after_quiet(row: Row) -> str:
    """Say when there is more to know of a server that does not answer; it may be starting."""
    return "ask again once it answers" if row.starts else "start it, then ask again"


def _after_unknown(row: Row, given: Given) -> str:
    place = _there([place for place in row.places if place.verdict != SAFE] or row.places)
    if place.missing:
        return _anew(row, place)
    if place.why == PARTIAL:
        return f'let the watchdog read what is missing (docs/install.md, "More sight"); {DOCTOR}'
    how = _aside(row, place, given)
    return f"if its drafts are not accepted: {how}; who fills it is seen from then on"


def after_confirm(row: Row, found: Confirmed, given: Given = NOTHING, *, log: bool = False) -> str:
    """Return what to do after the last start was judged; `log`: one was given."""
    if found.why:
        return _after_silence(row, found)
    if found.verdict == COLD:
        return "nothing to do; `watchdog check` says how long its drafts are accepted now"
    if found.verdict == WARM:
        return _after_warm(row, found, given)
    return _after_doubt(row, found, given, log=log)


def _after_doubt(row: Row, found: Confirmed, given: Given, *, log: bool) -> str:
    unused = next((sign.text for sign in found.signs if sign.name == LAUNCH), "")
    if unused:
        switch = _SWITCH.search(unused)
        why = switch[1] if switch else unused
        return f"nothing to confirm: this launch uses no compile cache ({why})"
    if not log:
        journal = f"journalctl -u {commands.quoted(given.unit or 'vllm')} -b"
        return f"its log decides: `{journal} | {commands.confirm(row.target)} --log -`"
    if not given.floors:
        return (
            f"declare how many seconds both kinds of start take: cache.cold_start and "
            f"cache.warm_start of {row.target}; the next start is then held against them"
        )
    return "let the daemon watch the next start from its beginning, and ask again after it"


def _after_silence(row: Row, found: Confirmed) -> str:
    if not row.here:
        return f"ask on the host where it runs: `{commands.confirm(row.target)}`"
    if found.start is None and row.unknown and row.unknown != NEVER_UP:
        return DOCTOR
    return "ask again in a minute" if row.answers else _after_quiet(row)


def _after_warm(row: Row, found: Confirmed, given: Given) -> str:
    if row.verdict == STALE:
        return _after_stale(row, given)
    if found.start is not None and found.start.after_aside:
        return (
            f"what it loaded is still there: `{commands.show(row.target)}` lists each place that "
            f"its launch names; set those aside too, and start it again"
        )
    place = _there(row.places) if row.places else None
    if place is not None and place.missing:
        return _anew(row, place)
    how = _aside(row, place, given) if place else f"`{commands.set_aside_of(row.target)}`"
    return f"nothing, unless it was to compile anew: then {how}"


def _there(places: Sequence[Place]) -> Place:
    """Return the first one that is there, else the first one."""
    return next((place for place in places if not place.missing), places[0])


def _anew(row: Row, place: Place) -> str:
    """Say that there is nothing to set aside."""
    return (
        f"nothing to set aside: the next start makes {place.path} anew, and then "
        f"`{commands.confirm(row.target)}` says whether it was cold"
    )


def _aside(row: Row, place: Place, given: Given) -> str:
    """Say how the next start becomes a cold one."""
    return f"stop the server, {_how(row, place, given)}, start it again"


def _how(row: Row, place: Place, given: Given) -> str:
    """Say how a place is set aside."""
    # By way of a process it is gone when the server is stopped.
    here = "" if place.here.startswith(PROCESS) else place.here
    if given.directory and given.directory in (here, place.path):
        return f"`{commands.set_aside_of(row.target)}`"
    if here or not (row.container or place.here):
        return f"`{commands.set_aside(here or place.path)}`"
    return (
        f"set aside the directory of this host that its container has as {place.path} "
        f"(`watchdog cache set-aside --directory DIR`)"
    )


def given_of(found: Mapping[str, Given], target: str) -> Given:
    """Return what is configured of a target; nothing where the daemon has another configuration."""
    return found.get(target, NOTHING)
