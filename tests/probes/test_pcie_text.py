"""Rows, link strings and counters as every kernel prints them, and as none should."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watchdog.probes.pcie_text import Link, Starred, counters, link, starred

# --- pp_dpm_pcie: what the drivers print ---------------------------------------------------------

# What it is: the text, then stars, speed, width. A width without a clock in the row is a constant.
TOLD = {
    "RX 5500 XT": ("0: 2.5GT/s, x8 81Mhz \n1: 8.0GT/s, x8 619Mhz *\n", 1, 8.0, 8),
    "RX 580, Polaris": ("0: 2.5GT/s, x8 \n1: 8.0GT/s, x16 *\n", 1, 8.0, None),
    "CIK at Gen2": ("0: 2.5GT/s, x8 \n1: 5.0GT/s, x16 *\n", 1, 5.0, None),
    "RX 6600": ("0: 2.5GT/s, x1 81Mhz \n1: 8.0GT/s, x8 619Mhz *\n", 1, 8.0, 8),
    "RX 6900 XT, padded with NULs": (
        ("0: 2.5GT/s, x1 310Mhz \n1: 16.0GT/s, x16 619Mhz *\n").ljust(4096, "\0"), 1, 16.0, 16,
    ),
    "RX 7600S, two stars": (
        "0: 2.5GT/s, x1 81Mhz \n1: 16.0GT/s, x8 306Mhz *\n2: 16.0GT/s, x8 306Mhz *\n", 2, 16.0, 8,
    ),
    "RX 7900 XTX, three stars": (
        "0: 16.0GT/s, x16 78Mhz *\n1: 16.0GT/s, x16 156Mhz *\n2: 16.0GT/s, x16 623Mhz *\n",
        3, 16.0, 16,
    ),
    "RX 9070 XT": ("0: 2.5GT/s, x16 250Mhz \n1: 16.0GT/s, x16 1143Mhz *\n", 1, 16.0, 16),
    "Vega 56, two stars": ("0: 8.0GT/s, x16 *\n1: 8.0GT/s, x16 *\n", 2, 8.0, None),
    "Vega 56, one star": ("0: 8.0GT/s, x16 \n1: 8.0GT/s, x16 *\n", 1, 8.0, None),
    "Vega FE at Gen1": ("0: 2.5GT/s, x16 *\n1: 2.5GT/s, x16 *\n", 2, 2.5, None),
    "Vega 20": ("0: 2.5GT/s, x16 200Mhz \n1: 16.0GT/s, x16 619Mhz *\n", 1, 16.0, 16),
    "Arcturus": ("0: 16.0GT/s, x16 619Mhz *\n", 1, 16.0, 16),
    "gfx12 in an x8 slot": ("0: 2.5GT/s, x8 250Mhz \n1: 16.0GT/s, x8 1143Mhz *\n", 1, 16.0, 8),
    "smu14 in an x4 slot": (
        "0: 2.5GT/s, x4 250Mhz\n1: 8.0GT/s, x4 616Mhz *\n2: 8.0GT/s, x4 1143Mhz *\n", 2, 8.0, 4,
    ),
    "x12": ("0: 8.0GT/s, x12 619Mhz *\n", 1, 8.0, 12),
    "Gen5": ("0: 32.0GT/s, x16 1143Mhz *\n", 1, 32.0, 16),
    "Gen6 and x32": ("0: 64.0GT/s, x32 1143Mhz *\n", 1, 64.0, 32),
    "no newline at the end": ("0: 2.5GT/s, x1 81Mhz \n1: 8.0GT/s, x8 619Mhz *", 1, 8.0, 8),
    "blanks at the end": ("0: 8.0GT/s, x8 619Mhz *  \n", 1, 8.0, 8),
    "carriage returns": ("0: 2.5GT/s, x8 81Mhz \r\n1: 8.0GT/s, x8 619Mhz *\r\n", 1, 8.0, 8),
    "MHz in capitals": ("0: 8.0GT/s, x8 619MHz *\n", 1, 8.0, 8),
    "no width": ("0: 8.0GT/s,  619Mhz *\n", 1, 8.0, None),
    "a star in deep sleep's row too": ("S: 19Mhz \n0: 8.0GT/s, x8 619Mhz *\n", 1, 8.0, 8),
}  # fmt: skip

# What it is: the text, then stars and the reason.
SILENT = {
    "APU or SI, a lone newline": ("\n", None, "empty"),
    "nothing": ("", None, "empty"),
    "only NULs": ("\0" * 4096, None, "empty"),
    "in reset": ("unavailable\n", None, "unavailable"),
    "RX 7700S, no star": (
        "0: 2.5GT/s, x1 81Mhz \n1: 16.0GT/s, x8 306Mhz \n2: 16.0GT/s, x8 306Mhz \n",
        0, "no starred row",
    ),
    "an error page": ("<html>\n*\n", None, "not understood"),
    "cut before its star": ("0: 2.5GT/s, x1 81Mhz \n1: 16.0GT/s, x1", 0, "no starred row"),
    "only deep sleep is starred": (
        "S: 19Mhz *\n0: 8.0GT/s, x8 619Mhz \n", 1, "the starred row states no speed",
    ),
    "an empty row": ("0: 8.0GT/s, x8 \n1:  *\n", 1, "the starred row states no speed"),
    "a speed that is none": ("0: 0.0GT/s, x8 *\n", 1, "the starred row states no speed"),
    "a speed beyond every bus": ("0: 999.0GT/s, x8 *\n", 1, "the starred row states no speed"),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_the_starred_row_is_told_as_the_text_states_it(what):
    text, stars, speed, width = TOLD[what]
    rows = tuple(line.rstrip() for line in re.split(r"[\r\n\0]+", text) if line.strip())
    assert starred(text) == Starred(rows, stars, speed, width)


@pytest.mark.parametrize("what", SILENT)
def test_a_text_that_states_no_link_claims_none_and_says_why(what):
    text, stars, reason = SILENT[what]
    told = starred(text)
    assert (told.stars, told.reason) == (stars, reason)
    assert (told.speed, told.width, told.ambiguous) == (None, None, False)


def test_a_gen5_row_of_linux_6_12_has_a_width_and_no_speed():
    text = "0: 2.5GT/s, x16 250Mhz \n1: 16.0GT/s, x16 616Mhz \n2:  x16 1143Mhz *\n"
    told = starred(text)
    assert (told.stars, told.speed, told.width) == (1, None, 16)
    assert told.reason == "the starred row states no speed"


@pytest.mark.parametrize(
    ("text", "speed", "width"),
    [
        ("0: 2.5GT/s, x16 250Mhz *\n1: 8.0GT/s, x16 1143Mhz *\n", 2.5, 16),
        ("0: 8.0GT/s, x16 250Mhz *\n1: 8.0GT/s, x4 1143Mhz *\n", 8.0, 4),
        (
            "0: 2.5GT/s, x16 250Mhz *\n1: 8.0GT/s, x4 1143Mhz *\n",
            8.0,
            4,
        ),  # 40 against 32 lanes-GT/s
        ("0: 2.5GT/s, x8 *\n1: 8.0GT/s, x16 *\n", 2.5, None),
        ("0: 8.0GT/s, x16 250Mhz *\n1:  x16 1143Mhz *\n", None, 16),  # the other may be slower
        ("0: 8.0GT/s, x16 *\n1: 8.0GT/s, x8 1143Mhz *\n", 8.0, None),
        ("0: 8.0GT/s, x16 250Mhz *\n1: garbled *\n", None, None),
    ],
)
def test_of_starred_rows_that_differ_the_slowest_is_told_and_marked(text, speed, width):
    told = starred(text)
    assert (told.stars, told.speed, told.width, told.ambiguous) == (2, speed, width, True)


def test_rows_that_differ_in_the_clock_alone_are_not_ambiguous():
    assert not starred(TOLD["RX 7900 XTX, three stars"][0]).ambiguous


def test_the_rows_that_are_shown_are_bounded():
    text = "".join(f"{i % 10}: 2.5GT/s, x8 81Mhz{' ' * 90}?\n" for i in range(100))
    told = starred(text + "7: 8.0GT/s, x8 619Mhz *\n")
    assert len(told.rows) == 16
    assert max(map(len, told.rows)) <= 80
    assert (told.stars, told.speed) == (1, 8.0), "a bound on what is shown loses no star"


def mostly(*sound: str, odd: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(sound * 4 + odd)


ROW = st.builds(
    "0: {}{}{}{}".format,
    mostly("2.5GT/s, ", "8.0GT/s, ", odd=("16.0GT/s,", "32GT/s ", "\u0662.5GT/s, ", "")),
    mostly("x1 ", "x16 ", odd=("x8", "x63 ", "x\u0661 ", "16 ", "")),
    mostly("619Mhz ", "1143MHz ", odd=("*", "Mhz *", "\0", "")),
    mostly("\n", "*\n", "*\n", odd=("\0", "\r\n", "", "\u2028", "* 1\n", "*\0\0")),
)
SCRAP = st.sampled_from(
    ["1:", "GT/s", "x16 ", "2.5", "*\n", "S: 19Mhz *\n", "unavailable", "\ufffd"]
)
TABLES = st.lists(st.one_of(ROW, ROW, ROW, SCRAP), max_size=4).map("".join)
STATED_SPEED = re.compile(r"(?<![0-9.])([0-9]+(?:\.[0-9]+)?)GT/s", re.IGNORECASE)
STATED_WIDTH = re.compile(r"x([0-9]+)[ \t]+[0-9]+Mhz", re.IGNORECASE)


@given(st.one_of(TABLES, st.text(max_size=200)))
@example("0: \u0662.5GT/s, x16 619Mhz *")
@example("0: 8.0GT/s, x1\x006 619Mhz *\n")
def test_no_text_raises_or_claims_a_link_that_it_does_not_state(text):
    told = starred(text)
    marked = [row for row in re.split(r"[\n\0]", text) if row.rstrip().endswith("*")]
    assert told.speed in (None, *(float(n) for row in marked for n in STATED_SPEED.findall(row)))
    assert told.width in (None, *(int(n) for row in marked for n in STATED_WIDTH.findall(row)))
    assert (told.speed is None) == bool(told.reason)
    assert told.stars is None or told.stars <= len(marked)


@given(st.sampled_from(sorted(TOLD)), st.integers(0, 120))
def test_a_text_that_was_cut_claims_nothing_that_the_whole_does_not(what, at):
    text, _, speed, width = TOLD[what]
    told = starred(text[:at])
    assert told.speed in (None, speed)
    assert told.width in (None, width)


@given(st.sampled_from(sorted(TOLD)), st.integers(0, 120), st.sampled_from("0x*\n,. \0:"))
def test_a_text_with_one_wrong_character_never_raises(what, at, char):
    text = TOLD[what][0]
    starred(text[:at] + char + text[at + 1 :])


# --- current_link_speed and current_link_width ---------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "width", "told"),
    [
        ("2.5 GT/s PCIe\n", "1\n", Link(2.5, 1)),
        ("5.0 GT/s PCIe\n", "2\n", Link(5.0, 2)),
        ("8.0 GT/s PCIe\n", "16\n", Link(8.0, 16)),
        ("16.0 GT/s PCIe\n", "8\n", Link(16.0, 8)),
        ("32.0 GT/s PCIe\n", "16\n", Link(32.0, 16)),
        ("64.0 GT/s PCIe\n", "12\n", Link(64.0, 12)),
        ("8 GT/s\n", "32\n", Link(8.0, 32)),  # before Linux 5.7
        ("2.5 GT/s", "4", Link(2.5, 4)),
        ("Unknown\n", "16\n", Link(None, 16, "speed 'Unknown'")),
        ("Unknown speed\n", "8\n", Link(None, 8, "speed 'Unknown speed'")),
        ("8.0 GT/s PCIe\n", "", Link(8.0, None, "width empty")),
        ("8.0 GT/s PCIe\n", "7\n", Link(8.0, None, "width '7'")),
        ("8.0 GT/s PCIe\n", "-4\n", Link(8.0, None, "width '-4'")),
        ("", "", Link(None, None, "speed empty, width empty")),
        ("0 GT/s\n", "8\n", Link(None, 8, "speed '0 GT/s'")),
    ],
)
def test_the_two_files_of_a_link_are_read(speed, width, told):
    assert link(speed, width) == told


@pytest.mark.parametrize("width", ["0", "63", "255"])
def test_a_width_that_no_link_has_means_that_the_link_is_down(width):
    assert link("8.0 GT/s PCIe\n", f"{width}\n") == Link(reason=f"link down (width {width})")


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_string_makes_the_link_reader_raise(speed, width):
    told = link(speed, width)
    assert told.width is None or str(told.width) in width
    assert bool(told.reason) == (told.speed is None or told.width is None)
    assert told.reason.isprintable()


# --- AER -----------------------------------------------------------------------------------------

MODERN = """RxErr 0
BadTLP 6655
BadDLLP 3
Rollover 1
Timeout 12
NonFatalErr 0
CorrIntErr 0
HeaderOF 0
TOTAL_ERR_COR 6668
"""
OLD = """Receiver Error 0
Bad TLP 6655
Bad DLLP 3
RELAY_NUM Rollover 1
Replay Timer Timeout 12
Advisory Non-Fatal 0
Corrected Internal Error 0
Header Log Overflow 0
TOTAL_ERR_COR 6668
"""
FATAL = """Undefined 0
DLP 1
SDES 2
TLP 0
FCP 0
CmpltTO 0
CmpltAbrt 0
UnxCmplt 0
RxOF 0
MalfTLP 0
ECRC 0
UnsupReq 0
ACSViol 0
UncorrIntErr 0
BlockedTLP 0
AtomicOpBlocked 0
TLPBlockedErr 0
PoisonTLPBlocked 0
TOTAL_ERR_FATAL 3
"""
OLD_FATAL = """Undefined 0
Data Link Protocol 1
Surprise Down Error 2
Poisoned TLP 0
Flow Control Protocol 0
Completion Timeout 0
Completer Abort 0
Unexpected Completion 0
Receiver Overflow 0
Malformed TLP 0
ECRC 0
Unsupported Request 0
ACS Violation 0
Uncorrectable Internal Error 0
MC Blocked TLP 0
AtomicOp Egress Blocked 0
TLP Prefix Blocked Error 0
TOTAL_ERR_FATAL 3
"""
COUNTED = {
    "RxErr": 0, "BadTLP": 6655, "BadDLLP": 3, "Rollover": 1, "Timeout": 12, "NonFatalErr": 0,
    "CorrIntErr": 0, "HeaderOF": 0, "TOTAL": 6668,
}  # fmt: skip


def test_the_correctable_errors_are_read_by_their_names():
    assert counters(MODERN) == COUNTED


def test_the_names_with_blanks_of_the_first_kernels_are_the_same_errors():
    assert counters(OLD) == COUNTED
    modern = counters(FATAL)
    del modern["PoisonTLPBlocked"]  # came later
    assert counters(OLD_FATAL) == modern


@pytest.mark.parametrize("kind", ["COR", "FATAL", "NONFATAL"])
def test_each_total_is_called_total(kind):
    assert counters(f"TOTAL_ERR_{kind} 5\n") == {"TOTAL": 5}


def test_bits_without_a_name_are_counted_by_their_number():
    text = "RxErr 0\ndev_cor_errs_bit[5] 7\ndev_fatal_errs_bit[31] 2\n"
    assert counters(text) == {"RxErr": 0, "bit[5]": 7, "bit[31]": 2}


def test_an_unknown_name_of_a_later_kernel_is_kept():
    assert counters("DMWrReqBlocked 4\n") == {"DMWrReqBlocked": 4}


@pytest.mark.parametrize(
    "text",
    ["", "\n", "\0\0", "6655\n", "BadTLP\n", "BadTLP -1\n", "BadTLP 1.5\n", "Bad<TLP> 1\n",
     f"BadTLP {2**53 + 1}\n", "BadTLP \u0663\n", f"{'A' * 33} 1\n", "some other words 1\n"],
)  # fmt: skip
def test_a_line_without_sense_counts_nothing(text):
    assert counters(text) == {}


def test_a_count_up_to_the_last_whole_float_is_kept():
    assert counters(f"BadTLP {2**53}\n") == {"BadTLP": 2**53}


def test_a_line_without_sense_costs_only_itself():
    assert counters("RxErr 0\nBadTLP many\nTimeout 3") == {"RxErr": 0, "Timeout": 3}


def test_the_counters_are_bounded():
    assert len(counters("".join(f"Name{i} 1\n" for i in range(1000)))) == 64


@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda b: b.decode("latin1"))))
def test_no_text_makes_the_counters_raise(text):
    for name, count in counters(text).items():
        assert str(count) in re.sub(r"\b0+(?=[0-9])", "", text)
        assert re.fullmatch(r"[\w\[\]]+", name, re.ASCII)
