"""
The starts of a server as far as they tell of its cache: how long each took, and was it cold?

A start is measured where the watch saw the server silent before: from the process's start to the
first page of it. Two rounds bound that, and where the watch was away they are far apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from watchdog.domain import coldness as c
from watchdog.domain.fingerprint import Fingerprint
from watchdog.domain.prints import Prints
from watchdog.domain.profile import SOMETIMES, Profile
from watchdog.domain.sample import Facts, number

MOST: Final = 12
"""Starts that are kept."""

SAME: Final = 1.0
"""Seconds by which two words of one witness on the start of one process may differ."""

NEAR: Final = 5.0
"""As above, of two witnesses: /proc counts from the boot, and the clock may be set meanwhile."""

TIGHT: Final = 0.25
"""A start's time is told where its two bounds are nearer than this share of it, or a minute."""

REPLACED: Final = "(replaced)"
"""Stands for the name of a copy where a directory was replaced and no copy lies beside it."""

NO_GRAPH: Final = SOMETIMES | {"[ngram]", "medusa", "mlp_speculator"}
"""Methods whose drafter vLLM does not compile."""


MODES: Final = ("compilation-config mode", "compilation-config level", "compilation-config")
NO_MODE: Final = ("0", "NONE", "none")
"""How a command line says that nothing is compiled."""

DISABLED: Final = "VLLM_DISABLE_COMPILE_CACHE"


class Start(NamedTuple):
    """
    One process of the server; times in Unix seconds, `up_...` in seconds after its start.

    It answered first between `up_least` and `up_most`; None where the watch was not there before.
    `by`: the witness that decided. `after_aside`: the copy that was set aside just before.
    `unused`: why its launch neither reads nor writes vLLM's compile cache; empty where it does.
    `unread`: the parts of its launch that no look at it could read.
    """

    start: float
    seen_at: float
    up_least: float | None = None
    up_most: float | None = None
    digest: str = ""
    verdict: str = c.UNKNOWN
    by: str = ""
    signs: tuple[c.Sign, ...] = ()
    after_aside: str = ""
    unused: str = ""
    unread: tuple[str, ...] = ()

    @property
    def up_seconds(self) -> float | None:
        """How long it took, where that is known well enough to be told."""
        if self.up_most is None or self.up_least is None:
            return None
        loose = self.up_most - self.up_least > max(60.0, TIGHT * self.up_most)
        return None if loose else self.up_most

    def over_by(self, grace: float) -> float:
        """Unix time by which all that it compiled was written."""
        took = self.up_seconds
        if took is None:
            took = grace if self.up_most is None else min(self.up_most, grace)
        return self.start + took + c.FILLING


class Owed(NamedTuple):
    """A set-aside, and what the first start after it was; a cold one would end it."""

    path: str
    name: str
    at: float
    start: float
    verdict: str = c.UNKNOWN


def near(one: Any, other: float | None, within: float = SAME) -> bool:
    """Whether two times are those of one process's start."""
    told = number(one)
    return told is not None and other is not None and abs(told - other) <= within


def start_in(facts: Facts) -> float | None:
    """Return when a target's process began, Unix seconds: by its page, else by this host."""
    launch = facts.get("launch")
    seen = launch.get("started_at") if isinstance(launch, Mapping) else None
    known = (at for at in map(number, (facts.get("process_start"), seen)) if at is not None)
    return next((float(at) for at in known), None)


def floors(starts: Iterable[Start], profile: Profile, prints: Prints, digest: str) -> c.Floors:
    """Return what a cold and a warm start take: as declared, else as seen of the same model."""
    if profile.warm_start is not None:
        return c.Floors(profile.cold_start, profile.warm_start, "declared")
    model = _models(prints.get(digest))
    seen = [
        one for one in starts
        if one.up_seconds and one.by in (c.LOG, c.ARTIFACTS)
        and model and _models(prints.get(one.digest)) == model
    ]  # fmt: skip
    took = {
        says: min((one.up_seconds or 0.0 for one in seen if one.verdict == says), default=None)
        for says in (c.COLD, c.WARM)
    }
    known = any(value is not None for value in took.values())
    return c.Floors(took[c.COLD], took[c.WARM], "learned" if known else "")


def _models(launch: Fingerprint | None) -> list[str]:
    """Return what decides how long loading takes: the model and how it is split."""
    names = ("model", "model tensors", "tensor-parallel-size", "quantization")
    return [x.digest for x in launch.factors if x.name in names] if launch else []


def has_drafter(launch: Fingerprint | None, profile: Profile) -> bool:
    """Whether a launch has a drafter with a graph of its own."""
    told = {x.name: x.shown for x in launch.factors} if launch else {}
    method = told.get("speculative-config method") or profile.method
    if method in NO_GRAPH:
        return False
    return bool(method) or "drafter" in told


def no_cache(
    launch: Fingerprint | None, environ: Any = None, log: Mapping[str, Any] | None = None
) -> str:
    """
    Say why a launch neither reads nor writes vLLM's compile cache; empty where it may.

    Its old files are no evidence then: it runs on none of them, and makes none.
    """
    told = {x.name: x.shown for x in launch.factors} if launch else {}
    if told.get("enforce-eager") == "true":
        return "this launch compiles no graph (enforce-eager)"
    modes = {name: told[name] for name in MODES if name in told}
    none = next((name for name, mode in modes.items() if mode in NO_MODE), "")
    if not modes and told.get("optimization-level") == "0":
        none = "optimization-level"
    if none:
        return f"this launch compiles no graph ({none} {told[none]})"
    variable = environ.get(DISABLED) if isinstance(environ, Mapping) else None
    if isinstance(variable, str) and variable.strip().isdecimal() and int(variable[:9]):
        return f"this launch compiles at each start ({DISABLED})"
    if log and log.get("began") and log.get("off"):
        return "the server's log says that it is switched off"
    return ""


def set_aside(
    places: Sequence[Mapping[str, Any]], start: float, before: float | None
) -> tuple[str, str, float] | None:
    """
    Return path, name and time of what was set aside between two starts; None for nothing.

    Where the start before is not known, only a directory that should not hold older files, and
    does, shows that this is the first start since. Names have whole seconds, and so has the boot
    that starts are counted from: a copy belongs to the start that follows it at once, alone.
    """
    found = []
    for place in places:
        for row in place.get("aside") or ():
            at = row.get("at")
            if not isinstance(at, (int, float)) or at > start + c.SLACK:
                continue
            oldest = c.oldest(place)
            first = oldest is not None and oldest < at if before is None else at > before + c.SLACK
            if first:
                found.append((str(place.get("path")), str(row.get("name")), float(at)))
    return max(found, key=lambda one: one[2], default=None)
