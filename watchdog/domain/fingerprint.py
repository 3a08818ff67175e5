"""
A launch as named factors, so that two launches can be compared, and what differs can be said.

A factor is what changes compiled graphs; `factors` says what that is. What could not be read makes
a fingerprint *partial*: it can show a change, it can never prove sameness.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from watchdog.domain import factors as f
from watchdog.domain.launch_factors import MODEL_PARTS, dumped, facts_of, unread_of
from watchdog.domain.masking import masked_data, masked_text
from watchdog.domain.texts import one_line

MOST_FACTORS: Final = 512
MOST_NAME: Final = 120
MOST_SHOWN: Final = 120
MOST_UNREAD: Final = 32
MOST_TOLD: Final = 12
"""Differences that a sentence names."""

MOST_CONFIGURED: Final = 128
"""Names in each list of factors that count, or do not, by the configuration."""

NOT_OF_A_COMMAND: Final = {"version": "versions", "gpu": "gpu", "image": "image"}
"""First words of factors that a command line need not tell, and the part they belong to."""

_ONE_OF: Final = {"versions": "version *", "gpu": "gpu *"}
"""What stands for all factors of a part: who ignores these need not read it."""

_DIGEST: Final = re.compile(r"[0-9a-f]{16}")


class Factor(NamedTuple):
    """One fact; `digest`: 16 hex digits of its SHA-256; `shown`: short, for people."""

    name: str
    digest: str
    shown: str


class Difference(NamedTuple):
    """A factor that changed; empty where it was or is absent."""

    name: str
    was: str
    now: str


@dataclass(frozen=True)
class Fingerprint:
    """
    The factors of one launch that change graphs, by name, and what could not be read.

    `unread`: pairs of a part (`environ`, `versions`, `model tensors`) and the reason. `more` and
    `less`: the configured names that it was made with; they are no part of the digest.
    """

    factors: tuple[Factor, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Sixteen hex digits over all factors; equal ones prove sameness only if not partial."""
        return _digest([[factor.name, factor.digest] for factor in self.factors])

    @property
    def partial(self) -> bool:
        """Whether something could not be read."""
        return bool(self.unread)

    def counted(self, more: Sequence[str] = (), less: Sequence[str] = ()) -> Fingerprint:
        """Return it without what counts no longer: what was kept may be older than the config."""
        kept = tuple(x for x in self.factors if f.looked_at(x.name, more, less))
        return replace(self, factors=kept)

    def recounted(self, again: Fingerprint) -> Fingerprint:
        """
        Return it by the configuration of a later reading of the same process.

        What counts only by that one is taken from there; the rest is as it was read first.
        """
        kept = self.counted(again.more, again.less).factors
        new = [x for x in again.factors if not f.looked_at(x.name, self.more, self.less)]
        return Fingerprint(tuple(sorted((*kept, *new))), self.unread, again.more, again.less)

    def filled(self, older: Fingerprint) -> Fingerprint:
        """Return it with what could not be read of it as an older one of the target knew it."""
        older = older.counted(self.more, self.less)
        own, dark = {x.name for x in self.factors}, [part for part, _ in self.unread]
        more = [x for x in older.factors if x.name not in own and _dark(x.name, dark)]
        if len(own) + len(more) > MOST_FACTORS:
            return self
        gaps = [part for part, _ in older.unread]
        wide = not {"factors", "others", "models"}.isdisjoint(gaps)
        lacked = {_area(part) for part in gaps}
        unread = [row for row in self.unread if wide or _area(row[0]) in lacked]
        return replace(self, factors=tuple(sorted((*self.factors, *more))), unread=tuple(unread))

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        configured = {"more": list(self.more), "less": list(self.less)}
        return {
            "digest": self.digest,
            "factors": [factor._asdict() for factor in self.factors],
            "unread": [{"part": part, "reason": reason} for part, reason in self.unread],
            **{key: names for key, names in configured.items() if names},
        }

    @classmethod
    def from_dict(cls, data: Any) -> Fingerprint:
        """Read what `as_dict` wrote. Raises ValueError that names the key."""
        rows = _listed(data, "factors", MOST_FACTORS)
        found = [_factor(row, f"factors[{i}]") for i, row in enumerate(rows)]
        names = [factor.name for factor in found]
        if names != sorted(set(names)):
            raise ValueError("factors: not sorted by name, or one name is there twice")
        rows = _listed(data, "unread", MOST_UNREAD)
        unread = [_unread(row, f"unread[{i}]") for i, row in enumerate(rows)]
        more, less = (_names(data, key) for key in ("more", "less"))
        result = cls(tuple(found), tuple(unread), more, less)
        if data.get("digest") != result.digest:
            raise ValueError("digest: not that of the factors")
        return result


@dataclass(frozen=True)
class Comparison:
    """
    What two fingerprints differ in, most telling first.

    `unknown`: the parts that one of both could not read.
    """

    changed: tuple[Difference, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing changed, and nothing is unknown."""
        return not self.changed and not self.unknown

    def words(self) -> str:
        """Say it in one sentence."""
        told = [_told(one) for one in self.changed[:MOST_TOLD]]
        if len(self.changed) > MOST_TOLD:
            told.append(f"{len(self.changed) - MOST_TOLD} more")
        if not told:
            told = ["no change was seen" if self.unknown else "nothing changed"]
        if self.unknown:
            told.append(f"not known: {', '.join(self.unknown)}")
        return "; ".join(told)


def fingerprint_of(
    launch: Mapping[str, Any], more: Sequence[str] = (), less: Sequence[str] = ()
) -> Fingerprint:
    """
    Make the fingerprint of a launch: `argv`, `environ`, `image`, `versions`, `gpu`, `models`.

    `more` and `less` are configured names that count, or do not; of both, `more` wins. Secrets
    are masked once more here, so that none is ever hashed.
    """
    unread = dict(unread_of(launch))
    found: dict[str, Factor] = {}
    for name, value, shown in facts_of(launch, more, unread):
        if not f.counts(name, more, less):
            continue
        name = _short(name)  # noqa: PLW2901
        if len(found) == MOST_FACTORS and name not in found:
            unread["factors"] = f"there are more than {MOST_FACTORS}"
            break
        shown = one_line(masked_text(shown), MOST_SHOWN)  # noqa: PLW2901
        found[name] = Factor(name, _digest(masked_data(value)), shown)
    unread = {part: why for part, why in unread.items() if _part_counts(part, more, less)}
    factors, told = tuple(sorted(found.values())), _bounded(unread)
    return Fingerprint(factors, told, _configured(more), _configured(less))


def compare(was: Fingerprint, now: Fingerprint) -> Comparison:
    """
    Compare two launches: an absent factor is a change only where its part was read.

    What counts is what the newer one's configuration says. What the older one was made without,
    since its configuration was another, is not known of it: that is no change of the launch.
    """
    old, new = ({x.name: x for x in one.factors} for one in (was, now))
    dark_old, dark_new = ([part for part, _ in one.unread] for one in (was, now))
    changed = []
    for name in sorted(old.keys() | new.keys(), key=f.rank):
        before, after = old.get(name), new.get(name)
        if not _in_both(name, was, now):
            continue
        if before and after:
            if before.digest != after.digest:
                changed.append(Difference(name, before.shown, after.shown))
        elif not _dark(name, dark_new if after is None else dark_old):
            changed.append(
                Difference(name, before.shown if before else "", after.shown if after else "")
            )
    return Comparison(tuple(changed), tuple(sorted({*dark_old, *dark_new, *_newer(was, now)})))


def _in_both(name: str, was: Fingerprint, now: Fingerprint) -> bool:
    """Whether a factor counts by the configuration of both."""
    if (was.more, was.less) == (now.more, now.less):
        return True
    return all(f.looked_at(name, one.more, one.less) for one in (was, now))


def _newer(was: Fingerprint, now: Fingerprint) -> set[str]:
    """Return the names that count since the configuration was changed."""
    if (was.more, was.less) == (now.more, now.less):
        return set()
    names = {f.named(name) for name in (*now.more, *was.less)}
    return {
        name
        for name in names
        if f.looked_at(name, now.more, now.less) and not f.looked_at(name, was.more, was.less)
    }


def as_blind(other: Fingerprint, one: Fingerprint) -> Fingerprint:
    """Return `one`, with what the other alone tells, and a command line need not, as not known."""
    theirs, own = ({x.name.partition(" ")[0] for x in f.factors} for f in (other, one))
    lacking = {part for word, part in NOT_OF_A_COMMAND.items() if word in theirs - own}
    lacking -= {part for part, _ in one.unread}
    lacking = {x for x in lacking if all(_part_counts(x, y.more, y.less) for y in (other, one))}
    rows = ((part, "a command line does not tell it") for part in sorted(lacking))
    return replace(one, unread=(*one.unread, *rows))


def _part_counts(part: str, more: Sequence[str], less: Sequence[str]) -> bool:
    """Whether what could not be read counts: who ignores all factors of it need not read it."""
    return f.counts(_ONE_OF.get(part, part), more, less)


def _bounded(unread: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    rows = sorted(
        (one_line(masked_text(part), MOST_NAME), one_line(masked_text(reason), MOST_SHOWN))
        for part, reason in unread.items()
    )
    if len(rows) > MOST_UNREAD:
        rows = [*rows[: MOST_UNREAD - 1], ("others", f"{len(rows) - MOST_UNREAD + 1} more parts")]
    return tuple(rows)


def _short(name: str) -> str:
    """Bound a name; a digest keeps two long ones apart."""
    line = one_line(name, MOST_NAME)
    return line if line == name else f"{line[: MOST_NAME - 12]} ({_digest(name)[:8]})"


# --- comparing and reading -----------------------------------------------------------------------

_PARTS: Final = {"env": "environ", **NOT_OF_A_COMMAND}


def _dark(name: str, unread: Iterable[str]) -> bool:
    """Whether a factor belongs to one of the parts that could not be read."""
    first, _, rest = name.partition(" ")
    if first in ("model", "drafter") and rest in MODEL_PARTS:
        wide = {"models", first, f"{first} files"}
    else:
        wide = {_PARTS.get(first, "argv")}
    return not wide.union((name, "factors", "others")).isdisjoint(unread)


def _area(part: str) -> str:
    """Return what a part is of: `model tensors` of the model, `version vllm` of the versions."""
    return part.partition(" ")[0].removesuffix("s")


def _told(one: Difference) -> str:
    if one.was == one.now:
        return f"{one.name} changed"
    return f"{one.name} {one.was or '(absent)'} -> {one.now or '(absent)'}"


def _listed(data: Any, key: str, most: int) -> list[Any]:
    if not isinstance(data, dict):
        raise ValueError("fingerprint: not an object")  # noqa: TRY004
    rows = data.get(key)
    if not isinstance(rows, list) or len(rows) > most:
        raise ValueError(f"{key}: not a list of at most {most}")
    return rows


def _configured(names: Sequence[str]) -> tuple[str, ...]:
    """Return configured names in one order and one spelling."""
    spelled = {one_line(f.named(name), MOST_NAME) for name in names}
    return tuple(sorted(spelled))[:MOST_CONFIGURED]


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    rows = _listed(data, key, MOST_CONFIGURED) if key in data else []
    return _configured([_text({key: row}, key, key, MOST_NAME) for row in rows])


def _text(row: Any, where: str, key: str, most: int) -> str:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{where}.{key}: not a text of at most {most} characters")
    return one_line(value, most)


def _factor(row: Any, where: str) -> Factor:
    name = _text(row, where, "name", MOST_NAME)
    digest = _text(row, where, "digest", 16)
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{where}.digest: not 16 hex digits")
    return Factor(name, digest, _text(row, where, "shown", MOST_SHOWN))


def _unread(row: Any, where: str) -> tuple[str, str]:
    return _text(row, where, "part", MOST_NAME), _text(row, where, "reason", MOST_SHOWN)


def _digest(value: Any) -> str:
    """Hash a value of JSON; half a surrogate pair is a byte that was no text, and counts."""
    return hashlib.sha256(dumped(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]
