"""
The daemon's answer about compile caches, read: what a command prints is what it was told.

Another program may listen there, or a daemon of another version. Keys may be added; one that is
missing, or is of another kind, makes the answer one that is not understood, and no guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from watchdog.domain.report import PRODUCT
from watchdog.domain.texts import one_line
from watchdog.errors import CommandError

LONGEST: Final = 1000
"""Characters of one text that are printed."""

MOST: Final = 1024
"""Rows of a list; more than a daemon sends."""

SAFE: Final = "safe"
STALE: Final = "stale"
UNKNOWN: Final = "unknown"

_Verdict = Literal["safe", "stale", "unknown"]


def _shown(value: Any) -> Any:
    """Make a text safe to print: paths and words in it are those of others."""
    return one_line(value, LONGEST) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_shown)]
Time = Annotated[str, BeforeValidator(_shown), Field(max_length=32)] | None
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
Words = Annotated[str, BeforeValidator(lambda value: "" if value is None else _shown(value))]
"""Empty where there are none."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Factor(_Part):
    name: Text
    shown: Text


class Unread(_Part):
    part: Text
    reason: Text


class Now(_Part):
    """The running launch; `partial`: something of it could not be read."""

    digest: Text
    partial: bool
    factors: Annotated[list[Factor], Field(max_length=MOST)]
    unread: Annotated[list[Unread], Field(max_length=MOST)]


class Fill(_Part):
    """A launch that used the place; `changed`: how it differs from the running one, in words."""

    digest: Words = ""
    first: Time = None
    last: Time = None
    compiled: bool | None = None
    origin: Words = ""
    changed: Words = ""


class Made(_Part):
    """A key directory of vLLM's: its graphs, and what its traces say that it was made for."""

    path: Text
    oldest: Time = None
    newest: Time = None
    parts: Annotated[list[Text], Field(max_length=MOST)] = []
    config: Words = ""


class Aside(_Part):
    name: Text
    at: Time = None


class Place(_Part):
    """
    One directory: `path` as the server sees it, and `here` on this host, empty if not known.

    Sizes in bytes, `oldest` and `newest` of its compiled files; `why` is one word of the check's.
    `chosen`: it bypasses vLLM's own key. `looked`: what lies in it is known now; where it is not,
    `verdict` and `words` are as of the last look, and nothing is told of files and stamp.
    """

    path: Text
    looked: bool = True
    here: Words = ""
    kind: Words = ""
    by: Words = ""
    files: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    bytes: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    oldest: Time = None
    newest: Time = None
    missing: bool = False
    cut: Words = ""
    unread: Annotated[list[list[Text]], Field(max_length=MOST)] = []
    verdict: _Verdict
    words: Words = ""
    why: Words = ""
    chosen: bool = False
    fills: Annotated[list[Fill], Field(max_length=MOST)] = []
    made: Annotated[list[Made], Field(max_length=MOST)] = []
    aside: Annotated[list[Aside], Field(max_length=MOST)] = []
    stamp: Words = ""


class SignRow(_Part):
    name: Text
    says: Literal["cold", "warm", "unclear"]
    text: Words = ""


class Start(_Part):
    """A start of the server; `up_seconds` to its first answer, None where nobody saw it."""

    start: Time
    up_seconds: Seconds = None
    verdict: Literal["cold", "warm", "unknown"]
    signs: Annotated[list[SignRow], Field(max_length=MOST)] = []
    after_aside: Words = ""
    digest: Words = ""
    changed: Words = ""


class FloorsRow(_Part):
    """Seconds; `by`: declared or learned, empty where they are not known."""

    cold: Seconds = None
    warm: Seconds = None
    by: Words = ""


class Row(_Part):
    """
    What is known of one target's cache; `unknown`: why no place of it is.

    `here`: it runs on the daemon's host. `container`: its paths are those of a container. `note`:
    what speaks against the configuration. `running_since`: when the process that answers now was
    started, by its own word.
    """

    target: Text
    here: bool = True
    container: bool = False
    note: Words = ""
    answers: bool = True
    running_since: Time = None
    now: Now | None
    places: Annotated[list[Place], Field(max_length=MOST)]
    starts: Annotated[list[Start], Field(max_length=MOST)]
    floors: FloorsRow = FloorsRow()
    asked: Time = None
    unknown: Words = ""

    @property
    def verdict(self) -> str:
        """
        The worst of its places: stale beats unknown; without a place nothing is known.

        None is safe that nobody looks at now: its files may have changed meanwhile.
        """
        found = {place.verdict for place in self.places}
        if STALE in found:
            return STALE
        return SAFE if found == {SAFE} and self.looked and not self.unknown else UNKNOWN

    @property
    def looked(self) -> bool:
        """Whether what lies in its places is known now."""
        return self.answers and all(place.looked for place in self.places)

    @property
    def last(self) -> Start | None:
        """The newest start that is known."""
        known = [start for start in self.starts if start.start is not None]
        return max(known, key=lambda one: one.start or "", default=None)


class Answer(_Part):
    """All of it; `at`: RFC 3339."""

    product: Literal["serving-watchdog"]
    version: Text
    host: Text = ""
    at: Text
    targets: Annotated[list[Text], Field(max_length=MOST)]
    caches: Annotated[list[Row], Field(max_length=MOST)]


def read(answer: Mapping[str, Any], listen: str) -> Answer:
    """Read the answer of who listens there. Raises CommandError that says what is odd."""
    if answer.get("product") != PRODUCT:
        raise CommandError(f"{listen}: another program answers there")
    try:
        return Answer.model_validate(dict(answer))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        version = one_line(str(answer.get("version", "?")), 40)
        raise CommandError(
            f"{listen}: the answer of a daemon {version} is not understood: "
            f"{one_line(where, 120)}: {one_line(first['msg'], 200)}; "
            f"restart it, so that it is the version of this command"
        ) from None
