"""
A vLLM metrics page into samples: pure, strict about what is wanted, blind to the rest.

One expression picks the wanted lines. What such a line is about (its name and labels) is parsed
by prometheus_client's own parser once and remembered, so a repeated scrape costs little more
than that expression and one float() a line. What is no vLLM page is refused with a sentence
that says what it is instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from watchdog.domain import series as s
from watchdog.domain.sample import Labels, Sample, labels
from watchdog.errors import NotUnderstood
from watchdog.probes import vllm_series as wire

MOST_ENGINES: Final = 512
MOST_LINES: Final = 8_192  # that count; so many are remembered, and no page pushes itself out
MOST_HEAD: Final = 1_024  # characters of one name with its labels
MOST_VALUE: Final = float(2**53)  # beyond it a float no longer counts one by one

_NAMES: Final = "|".join(sorted([*wire.WIRES, *wire.V0_ONLY], key=len, reverse=True))
_NAME: Final = rf"(?:(?:ray_)?vllm[:_](?:{_NAMES})|{wire.PROCESS_START})"
_LABELS: Final = r'\{[^"}\n]*(?:"[^"\\\n]*(?:\\.[^"\\\n]*)*"[^"}\n]*)*\}'

# Both begin with a literal newline, not with ^: the search then runs at the speed of memchr.
_WANTED: Final = re.compile(rf"\n[ \t]*({_NAME}(?![\w:])[^\n]*)")
_LINE: Final = re.compile(rf"({_NAME}[ \t]*(?:{_LABELS})?)[ \t]*(?<=[ \t}}])(\S+)(.*)")
_AFTER: Final = re.compile(r"[ \t]*(?:[ \t][-+.0-9eE]+)?[ \t]*(?:[ \t]# ?\{.*)?\r?")

_ANY_VLLM: Final = re.compile(r"\n[ \t]*((?:ray_)?vllm[:_]\w+)")
_OTHER: Final = re.compile(rf"\n({'|'.join(wire.OTHER_ENGINES)})[:_]\w")
_PYTHON: Final = re.compile(r"\n(?:python_|process_|http_)\w+[ \t{]")
_SAMPLE: Final = re.compile(r"\n[a-zA-Z_:][\w:]*(?:\{[^\n]*\})?[ \t]+[-+.\dNI]")


class _Owner(NamedTuple):
    """Whom a sample is about, but for the target. The whole page where `engine` is None."""

    engine: str | None
    model_name: str = ""
    replica: str | None = None

    def subject(self, target: str) -> Labels:
        if self.engine is None:
            return labels(target=target)
        named = {"target": target, "engine": self.engine, "model_name": self.model_name}
        if self.replica is not None:
            named["replica"] = self.replica
        return labels(**named)


class _Head(NamedTuple):
    """
    What the name and labels of a line say.

    `identity` is equal for the same series however its labels are ordered. `feeds` holds word
    and rank (see `vllm_series.Wire`); nothing where the line is of no use.
    """

    identity: tuple[str, Labels]
    owner: _Owner
    feeds: tuple[tuple[str, int], ...]


def parse_page(
    target: str, body: str, content_type: str = ""
) -> tuple[tuple[Sample, ...], dict[str, object]]:
    """
    Samples and facts of one page, or NotUnderstood with the sentence that says why not.

    `body` is the whole answer. Facts: `format` ("text" or "openmetrics") and, where the page
    tells, `process_start` in Unix seconds.
    """
    facts: dict[str, object] = {"format": _whole(body, content_type)}
    page = "\n" + body
    best: dict[tuple[_Owner, str], tuple[int, float]] = {}
    _collect((match[1] for match in _WANTED.finditer(page)), best)
    if not any(owner.engine is not None for owner, _ in best):
        raise NotUnderstood(_instead(page))
    _no_hole(best)
    process = best.get((_Owner(None), s.PROCESS_START))
    if process:
        facts["process_start"] = process[1]
    return tuple(_samples(target, best)), facts


def _collect(lines: Iterable[str], best: dict[tuple[_Owner, str], tuple[int, float]]) -> None:
    """Put the lines' values into `best`: by owner and word, the rank and the value."""
    seen: set[tuple[str, Labels]] = set()
    owners: set[_Owner] = set()
    for line in lines:
        head, value = _split(line)
        if head.identity in seen:
            raise NotUnderstood(f"has the series {_short(line)} twice")
        seen.add(head.identity)
        if len(seen) > MOST_LINES:
            raise NotUnderstood(f"has more than {MOST_LINES} series that count")
        owners.add(head.owner)
        if len(owners) > MOST_ENGINES + 1:  # the page itself is one
            raise NotUnderstood(f"has more than {MOST_ENGINES} engines")
        for word, rank in head.feeds:
            _put(best, (head.owner, word), rank, value)


def _put(
    best: dict[tuple[_Owner, str], tuple[int, float]],
    key: tuple[_Owner, str],
    rank: int,
    value: float,
) -> None:
    old = best.get(key)
    if old is None or rank < old[0]:
        best[key] = rank, value
    elif rank == old[0]:
        total = max(old[1], value) if key[1] in wire.HIGHEST else old[1] + value
        if total > MOST_VALUE:
            raise NotUnderstood(f"{key[1]} add up to {total!r}, which is no count")
        best[key] = rank, total


def _split(line: str) -> tuple[_Head, float]:
    """What a line is about, and its value; timestamps and exemplars are left."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise NotUnderstood(f"has a line that is no sample: {_short(line)}")
    name, text, after = match.groups()
    if after and not _AFTER.fullmatch(after):
        raise NotUnderstood(f"has a line that is no sample: {_short(line)}")
    head = _head(name)
    if not head.feeds:
        return head, 0.0
    try:
        value = float(text)
        sound = 0 <= value <= MOST_VALUE and text.isascii() and "_" not in text
    except ValueError:
        sound = False
    if not sound:
        raise NotUnderstood(f"{_short(name)} is {_short(text)}, which is no count")
    return head, value


@lru_cache(maxsize=MOST_LINES)
def _head(text: str) -> _Head:
    if len(text) > MOST_HEAD:
        raise NotUnderstood(f"has a series with more than {MOST_HEAD} characters: {_short(text)}")
    try:
        ((found,),) = (family.samples for family in text_string_to_metric_families(f"{text} 0\n"))
    except ValueError as error:
        raise NotUnderstood(f"has a line that is no sample: {_short(text)}") from error
    name, pairs = found.name, found.labels
    identity = name, tuple(sorted(pairs.items()))
    if name == wire.PROCESS_START:
        return _Head(identity, _Owner(None), ((s.PROCESS_START, 0),))
    bare = re.split("vllm[:_]", name, maxsplit=1)[1]
    if bare in wire.V0_ONLY and wire.ENGINE_LABEL not in pairs:
        raise NotUnderstood(
            f"is the page of vLLM's V0 engine ({name}), whose counters cannot be judged by "
            "windows: serve with the V1 engine, vLLM 0.9 or later"
        )
    owner = _Owner(
        pairs.get(wire.ENGINE_LABEL, "0"),
        pairs.get(wire.MODEL_LABEL, ""),
        pairs.get(wire.REPLICA_LABEL),
    )
    return _Head(identity, owner, tuple(_feeds(wire.WIRES.get(bare, ()), pairs)))


def _feeds(wires: Iterable[wire.Wire], pairs: Mapping[str, str]) -> Iterable[tuple[str, int]]:
    for word, rank, only, position in wires:
        if only is not None and pairs.get(only[0]) != only[1]:
            continue
        if not position:
            yield word, rank
            continue
        at = pairs.get(wire.POSITION_LABEL, "")
        if f"{word}{at}" not in s.POSITIONS:
            most = s.MOST_POSITIONS - 1
            raise NotUnderstood(f"has draft position {_short(at)!r}; they are 0 to {most}")
        yield f"{word}{at}", rank


def _samples(target: str, best: Mapping[tuple[_Owner, str], tuple[int, float]]) -> Iterable[Sample]:
    """Every value as a sample, an engine's samples side by side."""
    grouped: dict[_Owner, list[tuple[str, float]]] = {}
    for (owner, word), (_, value) in best.items():
        grouped.setdefault(owner, []).append((word, value))
    for owner, values in grouped.items():
        subject = owner.subject(target)
        for word, value in values:
            yield Sample(subject, word, value)


def _no_hole(best: Mapping[tuple[_Owner, str], object]) -> None:
    """Draft positions run from 0 without a hole, else a shape read from them would be false."""
    count: dict[_Owner, int] = {}
    for owner, word in best:
        if word.startswith(s.ACCEPTED_AT):
            count[owner] = count.get(owner, 0) + 1
    for owner, depth in count.items():
        if not all((owner, name) in best for name in s.POSITIONS[:depth]):
            raise NotUnderstood(f"engine {_short(owner.engine or '')} lacks a draft position")


def _whole(body: str, content_type: str) -> str:
    """Return the page's format; NotUnderstood where it is no page of metrics or was cut."""
    start = body[:256].lstrip("\ufeff \t\r\n")[:1]
    if start == "<":
        raise NotUnderstood("is an HTML page, not metrics: is this the right port?")
    if start in ("{", "["):
        raise NotUnderstood("is JSON, not metrics: is this the right path?")
    if not start and not body.strip():
        raise NotUnderstood("is an empty page")
    if body.endswith(("\n# EOF\n", "\n# EOF")) or body in ("# EOF", "# EOF\n"):
        return "openmetrics"
    if "\n# EOF\n" in body:
        raise NotUnderstood("goes on after its end (# EOF)")
    if "openmetrics" in content_type.lower():
        raise NotUnderstood("was cut: it is OpenMetrics and does not end with # EOF")
    if not body.endswith("\n"):
        raise NotUnderstood("was cut: it ends in the middle of a line")
    return "text"


def _instead(page: str) -> str:
    """Say what a page without a known vLLM series is."""
    unknown = _ANY_VLLM.search(page)
    if unknown:
        return f"has vllm series, but none that serving-watchdog knows; the first is {unknown[1]}"
    other = _OTHER.search(page)
    if other:
        return f"is the page of {wire.OTHER_ENGINES[other[1]]}, not of vLLM"
    if _PYTHON.search(page):
        return (
            "has no vllm: series: vLLM was started with --disable-log-stats, "
            "or this is another Python server"
        )
    if page.strip() == "# EOF":
        return "is an empty page"
    if _SAMPLE.search(page):
        return "has metrics, but no vllm: series: is this a vLLM server?"
    return "is text, but no page of metrics: is this the right port?"


def _short(text: str) -> str:
    """Text of a stranger, fit for a sentence: bounded and printable."""
    shown = text[:120].encode("unicode_escape").decode("ascii").replace('\\"', '"')
    return shown if len(text) <= 120 else f"{shown} ..."
