"""
A round of judging a cache: what the probes tell of the present start, into what is kept.

The facts of several probes are about one process. Those of its former process, which are carried
on for a round or two, are never laid to the new one: each says of which start it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from watchdog.domain import coldness as c
from watchdog.domain.cache_facts import places_of
from watchdog.domain.cache_state import State
from watchdog.domain.fingerprint import Fingerprint, compare
from watchdog.domain.ledger import (
    Fill,
    Place,
    Stamped,
    adopted,
    compared,
    inode_of,
)
from watchdog.domain.ledger_verdict import Judged, Run, judged
from watchdog.domain.profile import Profile
from watchdog.domain.report import seconds_of
from watchdog.domain.sample import Facts, number
from watchdog.domain.starts import (
    NEAR,
    REPLACED,
    Owed,
    Start,
    floors,
    has_drafter,
    near,
    no_cache,
    set_aside,
)
from watchdog.domain.texts import one_line

MOST_PLACES: Final = 12
"""Directories that are kept, those that were set aside among them; a survey tells of 8."""

MOST_STAMPS: Final = 6
"""Entries of one stamp that are looked at, the newest."""

MOST_WORDS: Final = 240
LATEST: Final = 1e11

_LOG: Final = (
    "began", "hits", "aot_hits", "compiled", "stored", "load_failures", "off", "cut", "unread",
)  # fmt: skip


def judged_now(
    state: State, facts: Facts, profile: Profile, now: float, apart: float = c.APART
) -> State:
    """
    Judge the newest start with what is told of it in this round; as before where nothing is.

    `apart`: cold floor over warm floor where a start's time tells something.
    """
    start = state.now
    if start is None:
        return state
    log = _log_of(facts, state, now)
    cache, launch = _cache_of(facts, start), _launch_of(facts, start)
    unused = start.unused or no_cache(_told(launch), _environ(launch, facts), log)
    key = _key(cache, launch, log, profile, apart, unused)
    if key == state.key:
        return state
    blind = "" if cache and (launch or start.digest) else _why_blind(facts, cache)
    if cache is None:
        return state if blind == state.blind else state._replace(blind=blind)
    state = state.with_now(start._replace(unused=unused))
    return _Judging(state, cache, launch, log, profile, apart).done(key, blind)


def _key(*told: Any) -> str:
    """Tell two rounds apart by what they say: cheap, for most are like the one before."""
    cache, launch, log, profile, apart, unused = told
    return repr((
        unused,
        cache and cache.get("asked"),
        launch and (launch.get("digest"), str(launch.get("unread"))),
        launch and (launch.get("more"), launch.get("less")),
        log and [log.get(key) for key in _LOG],
        (profile.cold_start, profile.warm_start, profile.method, apart),
    ))  # fmt: skip


def _cache_of(facts: Facts, start: Start) -> Mapping[str, Any] | None:
    """Return the survey that was made of this start; None where there is none yet."""
    cache = facts.get("cache")
    if not isinstance(cache, Mapping) or cache.get("unknown") or not cache.get("places"):
        return None
    return cache if near(cache.get("start"), start.start) else None


def _launch_of(facts: Facts, start: Start) -> Mapping[str, Any] | None:
    """Return the fingerprint of this start's process; None where there is none yet."""
    launch, found = facts.get("launch"), facts.get("launch_fingerprint")
    if not isinstance(launch, Mapping) or not isinstance(found, Mapping):
        return None
    return found if _is_of(launch, facts, start) else None


def _told(launch: Mapping[str, Any] | None) -> Fingerprint | None:
    """Read a fingerprint; None of a recording that is not ours."""
    try:
        return None if launch is None else Fingerprint.from_dict(launch)
    except ValueError:
        return None


def _environ(launch: Mapping[str, Any] | None, facts: Facts) -> Any:
    """Return the environment of this start's process, where it is known which one that is."""
    told = facts.get("launch")
    return told.get("environ") if launch is not None and isinstance(told, Mapping) else None


def _is_of(launch: Mapping[str, Any], facts: Facts, start: Start) -> bool:
    """
    Whether a launch is of this start's process, or of its parent.

    A page may be served by a child that began later: what was found while that answered is its.
    """
    began = launch.get("started_at")
    if near(began, start.start, NEAR):
        return True
    asked_of = near(facts.get("gpus_start"), start.start)
    return asked_of and isinstance(began, (int, float)) and began < start.start


def _log_of(facts: Facts, state: State, now: float) -> Mapping[str, Any] | None:
    """Return the log's lines of this start; of no told start, not in the first round."""
    log, start = facts.get("log"), state.now
    if not isinstance(log, Mapping) or start is None:
        dark = facts.get("log_unknown")
        return {"unread": one_line(dark, MOST_WORDS)} if isinstance(dark, str) else None
    if facts.get("log_start") is not None:
        return log if near(facts["log_start"], start.start) else None
    return log if now > start.seen_at or state.before is None else None


def _why_blind(facts: Facts, cache: Mapping[str, Any] | None) -> str:
    if cache is not None:
        why = facts.get("launch_unknown") or "nothing was told yet of this start's process"
        launch = facts.get("launch")
        if isinstance(launch, Mapping) and launch.get("started_at"):
            why = f"the process that was found has another start ({launch['started_at']})"
        return one_line(f"how it was launched is not known: {why}", MOST_WORDS)
    told = facts.get("cache")
    why = told.get("unknown") if isinstance(told, Mapping) else None
    if why:
        return one_line(f"where its compile cache lies is not known: {why}", MOST_WORDS)
    return "its compile cache was not looked at since this start"


class _Judging:
    """One look with new facts."""

    def __init__(
        self, state: State, cache: Mapping[str, Any], launch: Mapping[str, Any] | None,
        log: Mapping[str, Any] | None, profile: Profile, apart: float,
    ) -> None:  # fmt: skip
        assert state.now is not None  # noqa: S101  (its caller has looked)
        self.state, self.cache, self.log = state, cache, log
        self.start = state.now
        self.profile, self.apart = profile, apart
        self.prints, self.places = state.prints, list(state.places)
        self.facts = places_of(cache)
        if launch is not None:
            self._know(launch)

    def done(self, key: str, blind: str) -> State:
        """Return what is known by now; `blind`: why the launch is not."""
        stamps = {id(fact): self._stamps(fact) for fact in self.facts}
        for fact in self.facts:
            self._adopt(fact, stamps[id(fact)])
        rivals = [str(f.get("path")) for f in self.facts if self._rivals(stamps[id(f)])]
        run = self._run(tuple(rivals))
        self._judge_start(run)
        owed = self._owed()
        found = self._judge_places(run) if self.start.digest else []
        wanted = {f.digest for place in self.places for f in place.fills}
        wanted |= {one.digest for one in self.state.starts} | {self.start.digest}
        return self.state.with_now(self.start)._replace(
            places=tuple(self.places), prints=self.prints.only(wanted), judged=tuple(found),
            owed=owed, asked=number(self.cache.get("asked")) or 0.0, key=key, blind=blind,
        )  # fmt: skip

    def _judge_places(self, run: Run) -> list[Judged]:
        found = []
        for fact in self.facts:
            place, answer = judged(fact, self._place(fact), run, self.prints)
            self._keep(place)
            found.append(answer)
        return found

    def _know(self, launch: Mapping[str, Any]) -> None:
        """Learn the fingerprint: of one process the first reading counts, later ones fill gaps."""
        told = _told(launch)
        if told is None:
            return
        dark = tuple(part for part, _ in told.unread)
        if self.start.digest:  # what one look at a process could read is known of it
            dark = tuple(part for part in self.start.unread if part in dark)
        self.start = self.start._replace(unread=dark)
        if self.prints.get(self.start.digest) is not None:
            self._recount(told)
        kept = self.prints.get(self.start.digest)
        whole = told if kept is None else kept.filled(told)
        if self.start.digest and whole.digest != self.start.digest:
            self.places = [p.renamed(self.start.digest, whole.digest) for p in self.places]
        self.prints = self.prints.added(whole)
        self.start = self.start._replace(digest=whole.digest)

    def _recount(self, told: Fingerprint) -> None:
        """
        Let go of factors that the configuration says do not count any more, in all launches.

        One process is read twice, so what came or went in between is the configuration's doing.
        What counts only now is not known of the launches before.
        """
        kept = self.prints.get(self.start.digest) or told
        if (kept.more, kept.less) != (told.more, told.less):
            kept = self._renamed(kept, kept.recounted(told))
        changed = compare(kept, told).changed
        now, before = ({x.name for x in one.factors} for one in (told, kept))
        gone = {one.name for one in changed if one.name not in now}
        come = {one.name for one in changed if one.name not in before}
        if gone:
            self.prints, became = self.prints.forgotten(gone)
            for was, now_is in became.items():
                self.places = [place.renamed(was, now_is) for place in self.places]
            self.state = self.state._replace(starts=tuple(
                one._replace(digest=became.get(one.digest, one.digest))
                for one in self.state.starts
            ))  # fmt: skip
            self.start = self.start._replace(
                digest=became.get(self.start.digest, self.start.digest)
            )
        if come:
            own = self.prints.get(self.start.digest) or told
            new = tuple(x for x in told.factors if x.name in come)
            whole = replace(own, factors=tuple(sorted((*own.factors, *new))))
            self.prints = self.prints.doubted(come, "it did not count then").added(whole)
            self.places = [place.renamed(own.digest, whole.digest) for place in self.places]
            self.start = self.start._replace(digest=whole.digest)

    def _renamed(self, was: Fingerprint, now: Fingerprint) -> Fingerprint:
        """
        Know the running launch by what counts now; those before keep what counted then.

        Where more counts now, a start before this one may have differed in it.
        """
        more = set(compare(was, now).unknown) - {part for part, _ in now.unread}
        places = []
        for place in self.places:
            fill = place.fill(was.digest)
            own = fill is not None and (not more or fill.first >= self.start.start)
            places.append(place.renamed(was.digest, now.digest) if own else place)
        self.prints = self.prints.added(now)
        self.places = places
        self.start = self.start._replace(digest=now.digest)
        return now

    # --- directories ------------------------------------------------------------------------------

    def _place(self, fact: Mapping[str, Any]) -> Place:
        path, inode = str(fact.get("path")), inode_of(fact.get("id"))
        for place in self.places:
            if inode and (place.path, place.inode) == (path, inode):
                return place
        return Place(path, inode, str(fact.get("kind") or ""))

    def _keep(self, place: Place) -> None:
        """Keep a directory, as the one that was used last; one that is missing has nothing."""
        if not place.inode:
            return
        same = (place.path, place.inode)
        self.places = [p for p in self.places if (p.path, p.inode) != same]
        self.places = [*self.places, place][-MOST_PLACES:]

    def _adopt(self, fact: Mapping[str, Any], stamps: tuple[Stamped, ...]) -> None:
        launch = self.prints.get(self.start.digest)
        drafter = has_drafter(launch, self.profile)
        place, own = self._place(fact), self.start.digest
        if not own or place.fill(own) is None:
            # Who is noted only by now was not seen here before this start: it comes after it.
            stamps = tuple(
                x for x in stamps if x.digest == own or x.at <= self.start.start + c.SLACK
            )
        grace = self.profile.cold_start
        self._keep(adopted(fact, place, self.start.start, stamps, drafter=drafter, grace=grace))

    def _stamps(self, fact: Mapping[str, Any]) -> tuple[Stamped, ...]:
        """Return the entries of a place's stamp, and know their launches."""
        found = []
        for row in (fact.get("stamp") or ())[-MOST_STAMPS:]:
            try:
                launch = Fingerprint.from_dict(row["fingerprint"])
                at = _moment(row["at"])
            except (ValueError, KeyError, TypeError):  # another version's: `stamp_fault` says it
                continue
            told = number(row.get("start"))
            began = at if told is None else told
            if launch.digest != self.start.digest and self.prints.get(launch.digest) is None:
                own = self.prints.get(self.start.digest)
                self.prints = self.prints.added(launch)
                self.prints = self.prints if own is None else self.prints.added(own)
            found.append(Stamped(launch.digest, began, at, launch.partial))
        return tuple(found)

    def _rivals(self, stamps: Sequence[Stamped]) -> bool:
        """Whether another launch started into a place while this one did."""
        over = self.start.over_by(self.profile.cold_start)
        return any(
            self.start.start < max(one.began, one.at) and one.began < over and self._differs(one)
            for one in stamps
        )

    def _differs(self, one: Stamped) -> bool:
        as_fill = Fill(one.digest, one.began, one.began, one.at, origin="stamp")
        difference = compared(self.prints, as_fill, self.start.digest)
        return difference is not None and bool(difference.changed)

    # --- the start --------------------------------------------------------------------------------

    def _run(self, rivals: tuple[str, ...]) -> Run:
        start = self.start
        known = floors(self.state.starts[:-1], self.profile, self.prints, start.digest)
        return Run(
            start.start,
            start.seen_at,
            start.over_by(self.profile.cold_start),
            start.digest,
            has_drafter(self.prints.get(start.digest), self.profile),
            c.of_log(self.log),
            c.of_time(start.up_most, start.up_least, known, self.apart),
            number(self.cache.get("asked")) or 0.0,
            rivals,
            start.unused,
            start.unread,
        )

    def _judge_start(self, run: Run) -> None:
        """Was it cold? What files showed at first stays: kernels are added to them for weeks."""
        files = c.of_places(
            self.facts, run.start, run.until, drafter=run.drafter, rivals=run.rivals
        )
        old = next((x for x in self.start.signs if x.name == c.ARTIFACTS), None)
        if old is not None and files.says == c.UNCLEAR != old.says and not run.rivals:
            files = old
        whole = c.joint(run.log, files, run.time)
        if run.unused:  # what it neither read nor wrote tells nothing of it
            rest = (x._replace(says=c.UNCLEAR) for x in whole.signs)
            whole = c.joint(c.Sign(c.LAUNCH, c.UNCLEAR, run.unused), *rest)
        signs = tuple(x._replace(text=one_line(x.text, MOST_WORDS)) for x in whole.signs)
        self.start = self.start._replace(verdict=whole.verdict, by=whole.by, signs=signs)

    def _owed(self) -> tuple[Owed, ...]:
        """Return the set-asides that no cold start has followed."""
        before = self.state.before
        owed = {o.path: o for o in self.state.owed if o.start != self.start.start}
        done = set_aside(self.facts, self.start.start, before.start if before else None)
        if done is None and (path := self._replaced()):
            done = (path, REPLACED, self.start.start)
        if done is not None:
            path, name, at = done
            owed[path] = Owed(path, name, at, self.start.start, self.start.verdict)
        self.start = self.start._replace(after_aside=done[1] if done else "")
        if self.start.verdict == c.COLD:
            return ()
        return tuple(o for o in owed.values() if self._is_there(o))

    def _is_there(self, owed: Owed) -> bool:
        """Whether the copy is still listed beside its directory, where that was seen."""
        if owed.name == REPLACED:
            return True
        for fact in self.facts:
            rows = fact.get("aside")
            beside = all(row[0] != c.BESIDE for row in fact.get("unread") or ())
            if fact.get("path") == owed.path and rows is not None and beside:
                return any(row.get("name") == owed.name for row in rows)
        return True

    def _replaced(self) -> str:
        """Return the path of a directory that is another one than at the start before, emptied."""
        before = self.state.before
        for fact in self.facts:
            path, inode = str(fact.get("path")), inode_of(fact.get("id"))
            former = [p for p in self.places if p.path == path and p.inode != inode and before
                      and any(f.last == before.start for f in p.fills)]  # fmt: skip
            oldest = c.oldest(fact)
            emptied = oldest is None or oldest >= self.start.start - c.SLACK
            if former and inode and emptied and not c.blindness(fact):
                return path
        return ""


def _moment(text: Any) -> float:
    """Read a stamp's time. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("not a text")  # noqa: TRY004
    at = seconds_of(text)
    if not 0 <= at < LATEST:
        raise ValueError("no time")
    return at
