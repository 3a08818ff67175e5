"""
What the kernel's small files say of a PCIe link and its errors: pure, and no input raises.

Nothing is claimed that a text does not state: a row that is cut, garbled or of an unknown kind
claims no link, and what cannot be told comes with the reason. Speeds are GT/s, widths lanes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from watchdog.pci import speed_of

WIDTHS: Final = frozenset({1, 2, 4, 8, 12, 16, 32})
MOST_SPEED: Final = 256.0  # four times PCIe 6
DEAD: Final = (0, 63, 255)
"""Widths that a device gives which is not there: no lanes, or all bits of the register set."""

MOST_ROWS, MOST_ROW = 16, 80  # of pp_dpm_pcie that are shown: rows, characters
MOST_COUNTERS: Final = 64  # AER has 32 bits
MOST_COUNT: Final = 2**53  # beyond it a float no longer counts one by one


class Link(NamedTuple):
    """A link's speed and width as far as they are stated; `reason` says what is missing."""

    speed: float | None = None
    width: int | None = None
    reason: str = ""


class Starred(NamedTuple):
    """
    What pp_dpm_pcie says: its rows, the number of stars (None: no rows), and the starred link.

    `ambiguous`: starred rows differ, and the slowest is told.
    """

    rows: tuple[str, ...] = ()
    stars: int | None = None
    speed: float | None = None
    width: int | None = None
    ambiguous: bool = False
    reason: str = ""


# --- pp_dpm_pcie ---------------------------------------------------------------------------------

_ROW: Final = re.compile(
    r"[ \t]*[0-9]{1,3}:[ \t]+"
    r"(?:([0-9]{1,3}(?:\.[0-9]{1,2})?)GT/s(?:,[ \t]*|[ \t]+|(?=\*|$)))?"
    r"(?:x([0-9]{1,2})(?:[ \t]+|(?=\*|$)))?"
    r"(?:([0-9]{1,6})Mhz)?[ \t]*(\*?)[ \t]*",
    re.IGNORECASE,
)


def starred(text: str) -> Starred:
    """
    Read pp_dpm_pcie; every format of amdgpu since CIK.

    Rows without a clock (CIK to Vega10) have a width that is a constant of the driver or of its
    table, so it is told only by rows with one. A card in reset says "unavailable".
    """
    lines = [line.strip("\r") for line in text.replace("\0", "\n").split("\n") if line.strip()]
    if not lines:
        return Starred(reason="empty")
    if lines[0].strip().lower() == "unavailable":
        return Starred(reason="unavailable")
    rows = tuple(line.rstrip()[:MOST_ROW] for line in lines[:MOST_ROWS])
    if not any(_ROW.fullmatch(line) for line in lines):
        return Starred(rows, reason="not understood")
    marked = [line for line in lines if line.rstrip().endswith("*")]
    if not marked:
        return Starred(rows, 0, reason="no starred row")
    links = {_row(line) for line in marked}
    speed, width = _lowest(links)
    reason = "" if speed else "the starred row states no speed"
    return Starred(rows, len(marked), speed, width, len(links) > 1, reason)


def _row(line: str) -> tuple[float | None, int | None]:
    """Return speed and width of one row; None for what it does not state."""
    match = _ROW.fullmatch(line)
    if match is None:
        return None, None
    speed, width, clock, _ = match.groups()
    gts = float(speed) if speed else 0.0
    lanes = int(width) if width and clock else 0
    return (
        gts if 0 < gts <= MOST_SPEED else None,
        lanes if lanes in WIDTHS else None,
    )


def _lowest(links: set[tuple[float | None, int | None]]) -> tuple[float | None, int | None]:
    """Return the slowest of links; None where one of them does not tell, for it may be slower."""
    whole = [(speed, width) for speed, width in links if speed and width]
    if len(whole) == len(links):
        return min(whole, key=lambda link: (link[0] * link[1], link))
    speeds = [speed for speed, _ in links]
    widths = [width for _, width in links]
    known = [speed for speed in speeds if speed], [width for width in widths if width]
    return (
        min(known[0]) if len(known[0]) == len(links) else None,
        min(known[1]) if len(known[1]) == len(links) else None,
    )


# --- current_link_speed, current_link_width ------------------------------------------------------


def link(speed: str, width: str) -> Link:
    """Read the two files of one end of a link: `8.0 GT/s PCIe` and `16`."""
    lanes = int(width) if re.fullmatch(r"\s*[0-9]{1,3}\s*", width) else None
    if lanes in DEAD:
        return Link(reason=f"link down (width {lanes})")
    gts = speed_of(speed)
    known = gts if gts and 0 < gts <= MOST_SPEED else None
    wide = lanes if lanes in WIDTHS else None
    missing = [
        f"{name} {shown(text)}"
        for name, text, value in (("speed", speed, known), ("width", width, wide))
        if value is None
    ]
    return Link(known, wide, ", ".join(missing))


def shown(text: str) -> str:
    """Return a stranger's text fit for a sentence: short, printable, in quotes."""
    return ascii(text.strip()[:40]) if text.strip() else "empty"


# --- AER -----------------------------------------------------------------------------------------

_OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {  # of Linux 4.19 and its like, before the names lost their blanks
        "Receiver Error": "RxErr",
        "Bad TLP": "BadTLP",
        "Bad DLLP": "BadDLLP",
        "RELAY_NUM Rollover": "Rollover",
        "Replay Timer Timeout": "Timeout",
        "Advisory Non-Fatal": "NonFatalErr",
        "Corrected Internal Error": "CorrIntErr",
        "Header Log Overflow": "HeaderOF",
        "Data Link Protocol": "DLP",
        "Surprise Down Error": "SDES",
        "Poisoned TLP": "TLP",
        "Flow Control Protocol": "FCP",
        "Completion Timeout": "CmpltTO",
        "Completer Abort": "CmpltAbrt",
        "Unexpected Completion": "UnxCmplt",
        "Receiver Overflow": "RxOF",
        "Malformed TLP": "MalfTLP",
        "Unsupported Request": "UnsupReq",
        "ACS Violation": "ACSViol",
        "Uncorrectable Internal Error": "UncorrIntErr",
        "MC Blocked TLP": "BlockedTLP",
        "AtomicOp Egress Blocked": "AtomicOpBlocked",
        "TLP Prefix Blocked Error": "TLPBlockedErr",
    }
)
_UNNAMED: Final = re.compile(r"\w+(bit\[[0-9]{1,2}\])", re.ASCII)  # dev_cor_errs_bit[5]
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}|bit\[[0-9]{1,2}\]")
_COUNT: Final = re.compile(r"[ \t]*(\S(?:[^\n]{0,60}\S)?)[ \t]+([0-9]{1,20})[ \t\r]*")


def counters(text: str) -> dict[str, int]:
    """
    Read one AER file (aer_dev_correctable and its two siblings): the kernel's names to counts.

    The last line is `TOTAL` here, whatever the kind. A line without sense is left out.
    """
    found: dict[str, int] = {}
    for line in text.replace("\0", "\n").split("\n"):
        match = _COUNT.fullmatch(line)
        name = _canonical(match[1]) if match else None
        if match is None or name is None or int(match[2]) > MOST_COUNT:
            continue
        found.setdefault(name, int(match[2]))
        if len(found) == MOST_COUNTERS:
            break
    return found


def _canonical(told: str) -> str | None:
    """Return today's name of an error; None for what is no name."""
    if told.startswith("TOTAL_ERR_"):
        return "TOTAL"
    unnamed = _UNNAMED.fullmatch(told)
    name = unnamed[1] if unnamed else _OLD_NAMES.get(" ".join(told.split()), told)
    return name if _NAME.fullmatch(name) else None
