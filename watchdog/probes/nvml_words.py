"""
What NVML said of one GPU into samples and facts: pure, and the names of NVML's numbers.

`answers` is plain JSON, as `nvml.Nvml.ask` makes it and a recording keeps it (nvml.json):

    {"answers": {"link_generation": 4, ..., "fields": {"94": 0, "173": "NOT_SUPPORTED", ...}},
     "errors": {"utilisation": "UNKNOWN", ...}}
    {"lost": "GPU_IS_LOST"}                  the card, or its handle, is gone
    {"failed": "...", "answered": true}      the reading failed with this sentence

A recording is a stranger's file: an answer that is no sane number is unread, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from watchdog.domain import series as s
from watchdog.domain.link import SPEEDS
from watchdog.domain.sample import HOST, Reading, Sample, labels
from watchdog.errors import NoAnswer, NotUnderstood, ProbeError

NAME: Final = "nvml"
MOST_HOLDERS: Final = 256  # pids; a longer list is no list: "not among them" would be no answer
MOST_TEXT: Final = 120
MOST_SENTENCE: Final = 500
MOST_UNREAD: Final = 64
MOST_COUNT: Final = 2**53  # beyond it a float no longer counts one by one
WIDEST: Final = 32  # lanes

# nvmlReturn_t.
UNINITIALIZED: Final = 1
NOT_SUPPORTED: Final = 3
DRIVER_NOT_LOADED: Final = 9
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
LIB_RM_VERSION_MISMATCH: Final = 18
ERRORS: Final[Mapping[int, str]] = {
    UNINITIALIZED: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    NOT_SUPPORTED: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    8: "INSUFFICIENT_POWER",
    DRIVER_NOT_LOADED: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    11: "IRQ_ISSUE",
    LIBRARY_NOT_FOUND: "LIBRARY_NOT_FOUND",
    FUNCTION_NOT_FOUND: "FUNCTION_NOT_FOUND",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    LIB_RM_VERSION_MISMATCH: "LIB_RM_VERSION_MISMATCH",
    19: "IN_USE",
    20: "MEMORY",
    21: "NO_DATA",
    23: "INSUFFICIENT_RESOURCES",
    25: "ARGUMENT_VERSION_MISMATCH",
    27: "NOT_READY",
    28: "GPU_NOT_FOUND",
    29: "INVALID_STATE",
    999: "UNKNOWN",
}

LOST: Final[Mapping[int, str]] = {code: ERRORS[code] for code in (15, 16, 28)}
"""A card that gives one of these to any question is of no use until it is reset or replaced."""

# nvmlFieldValue ids.
REPLAY: Final = 94
REPLAY_ROLLOVER: Final = 95
L0_TO_RECOVERY: Final = 169  # a link that retrains, to another speed as well: no error
NON_FATAL: Final = 179
FATAL: Final = 180
COUNTERS: Final[Mapping[int, tuple[str, str]]] = {
    REPLAY: (s.CORRECTABLE, "Replay"),
    REPLAY_ROLLOVER: (s.CORRECTABLE, "ReplayRollover"),
    173: (s.CORRECTABLE, "CORRECTABLE_ERRORS"),
    174: (s.CORRECTABLE, "NAKS_RECEIVED"),
    175: (s.CORRECTABLE, "RECEIVER_ERROR"),
    176: (s.CORRECTABLE, "BAD_TLP"),
    177: (s.CORRECTABLE, "NAKS_SENT"),
    178: (s.CORRECTABLE, "BAD_DLLP"),
    NON_FATAL: (s.NONFATAL, "NON_FATAL"),
    FATAL: (s.FATAL, "FATAL"),
    181: (s.CORRECTABLE, "UNSUPPORTED_REQ"),
    182: (s.CORRECTABLE, "LCRC"),
    183: (s.CORRECTABLE, "LANE_ERROR"),
}
FIELDS: Final = (*COUNTERS, L0_TO_RECOVERY)

_MOST: Final[Mapping[str, int]] = {
    s.UTILISATION: 100,
    s.PSTATE: 15,  # 32 says that it is not known
    s.EVENT_REASONS: MOST_COUNT,
    s.MEMORY_USED: MOST_COUNT,
    s.MEMORY_TOTAL: MOST_COUNT,
}
_REASONS: Final[Mapping[str, str]] = {
    "RESET_REQUIRED": "NVML says RESET_REQUIRED: the card does not work until it is reset",
    "UNKNOWN": "NVML gives no handle for the card (its error 999)",
    "NOT_FOUND": "NVML knows no card at this address (NOT_FOUND)",
}
_MAXIMA: Final = ("link_generation_max", "link_width_max", "device_generation_max")


def error_name(code: int) -> str:
    """Return NVML's own name of an error, without its prefix."""
    return ERRORS.get(code, f"code {code}")


def field_name(field: int) -> str:
    """Return the name of a field, as it stands in a series or in the fact `nvml_unread`."""
    return COUNTERS[field][1] if field in COUNTERS else "L0_TO_RECOVERY"


def failed(error: ProbeError) -> dict[str, object]:
    """Return what a recording keeps of a reading that failed."""
    return {"failed": str(error), "answered": not isinstance(error, NoAnswer)}


def reading_of(slot: str, answers: Mapping[str, Any]) -> Reading:
    """
    Samples and facts of one card; `slot` is the address of the port that it is plugged into.

    Raises NotUnderstood where nothing at all was answered, and the recorded failure as it was.
    """
    if "failed" in answers:
        kind = NoAnswer if answers.get("answered") is False else NotUnderstood
        raise kind(_text(answers["failed"], MOST_SENTENCE) or "failed")
    told = _mapping(answers.get("answers"))
    fields = _mapping(told.get("fields"))
    lost = _lost(answers, fields)
    if lost:
        return Reading(NAME, HOST, facts={"lost": lost, "vendor": "nvidia"}, slot=slot)
    unread = _unread(_mapping(answers.get("errors")), fields)
    values = {**dict(_levels(told, unread)), **dict(_counters(told, fields, unread))}
    facts = dict(_facts(told, fields, unread))
    if not values and not facts:
        why = ", ".join(sorted(set(unread.values()))) or "no answer"
        raise NotUnderstood(f"NVML has the card and answers none of the questions: {why}")
    facts |= {"nvml_unread": unread, "vendor": "nvidia"}
    subject = labels(slot=slot)
    samples = tuple(Sample(subject, word, value) for word, value in values.items())
    return Reading(NAME, HOST, samples, facts, slot=slot)


def _lost(answers: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """Why the card is of no use, as the end of a sentence; empty where it is not lost."""
    if "lost" in answers:
        reason = _text(answers["lost"]) or "GPU_IS_LOST"
    else:
        reason = next((error for error in LOST.values() if error in fields.values()), "")
    return _REASONS.get(reason, f"NVML says {reason}") if reason else ""


def _unread(errors: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the error of each question that has one, by the question's or the field's name."""
    pairs = [(_text(key), _text(value)) for key, value in list(errors.items())[:MOST_UNREAD]]
    pairs += [(field_name(field), _text(fields.get(str(field)))) for field in FIELDS]
    return {key: value for key, value in pairs if key and value}


def _levels(told: Mapping[str, Any], unread: dict[str, str]) -> Iterator[tuple[str, float]]:
    generation = _count(told, "link_generation", unread)
    if generation is not None and generation in SPEEDS:
        yield s.LINK_SPEED + s.NVML, SPEEDS[generation]
    elif generation is not None:
        unread["link_generation"] = f"generation {generation}, which is no link"
    width = _count(told, "link_width", unread)
    if width is not None and 1 <= width <= WIDEST:
        yield s.LINK_WIDTH + s.NVML, float(width)
    elif width is not None:
        unread["link_width"] = f"width {width}, which is no link"
    for word, most in _MOST.items():
        value = _count(told, word, unread)
        if value is not None and value <= most:
            yield word, float(value)
        elif value is not None:
            unread[word] = f"the answer is {value}"


def _counters(
    told: Mapping[str, Any], fields: Mapping[str, Any], unread: dict[str, str]
) -> Iterator[tuple[str, float]]:
    for field, (kind, name) in COUNTERS.items():
        value = _count(fields, str(field), unread, name)
        if field == REPLAY:
            value = _replays(told, value, unread)
        if value is not None:
            yield f"{kind}{s.NVML} {name}", float(value)


def _replays(told: Mapping[str, Any], by_field: int | None, unread: dict[str, str]) -> int | None:
    """The same counter by its older call, and only one error where neither tells it."""
    by_call = _count(told, "replay", unread)
    error = unread.pop("replay", None)
    if by_call is None and by_field is None:
        if error:
            unread["Replay"] = error
        return None
    unread.pop("Replay", None)
    return by_field if by_call is None else by_call


def _facts(
    told: Mapping[str, Any], fields: Mapping[str, Any], unread: dict[str, str]
) -> Iterator[tuple[str, object]]:
    name = _text(told.get("name"))
    if name:
        yield "name", name
    for key in _MAXIMA:  # never an expectation: they know nothing of the slot, or are degraded too
        value = _count(told, key, unread)
        if value is not None:
            yield f"nvml_{key}", value
    recoveries = _count(fields, str(L0_TO_RECOVERY), unread, field_name(L0_TO_RECOVERY))
    if recoveries is not None:
        yield "nvml_link_recoveries", recoveries
    holders = _holders(told, unread)
    if holders is not None:
        yield "holders", holders


def _holders(told: Mapping[str, Any], unread: dict[str, str]) -> list[int] | None:
    """Pids from both lists; None where one is unknown, for half of a list is no knowledge."""
    pids: set[int] = set()
    for word in ("compute", "graphics"):
        listed = told.get(word)
        if not isinstance(listed, list):
            return None
        if len(listed) > MOST_HOLDERS or not all(type(pid) is int and pid > 0 for pid in listed):
            unread[word] = f"{len(listed)} processes, which is no list that counts"
            return None
        pids.update(listed)
    return sorted(pids)


def _count(told: Mapping[str, Any], key: str, unread: dict[str, str], name: str = "") -> int | None:
    """Return a whole number from 0; None where it was not told or is none, which is unread."""
    value = told.get(key)
    if type(value) is int and 0 <= value <= MOST_COUNT:
        return value
    if value is not None:
        unread.setdefault(name or key, f"the answer is {_text(str(value)[:40])}")
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object, most: int = MOST_TEXT) -> str:
    """Text fit for a sentence: bounded and printable; empty where it is no text."""
    if not isinstance(value, str):
        return ""
    return "".join(c for c in value[:most] if c.isprintable()).strip()
