"""Error counters of the chain: by rate, at once, since boot, and what zero does not prove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks.gpu_windows import (
    DOWN,
    GPU,
    PORT,
    SUBJECT,
    UP,
    geforce,
    last,
    link,
    r9700,
    steps,
    tells,
    unread,
    window,
)
from watchdog.checks.pcie_errors import PIECES, PcieErrors
from watchdog.domain import series as s
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import History, Window
from watchdog.domain.link import Link, Slot
from watchdog.domain.link_errors import allowed_a_minute
from watchdog.domain.profile import Profile
from watchdog.domain.sample import Reading, Sample

OPEN = (Verdict.OK, False)
WELL = (Verdict.OK, True)
BAD = (Verdict.WARNING, True)

COR, NONFATAL, FATAL = s.CORRECTABLE, s.NONFATAL, s.FATAL
GEN3_X8 = Slot(PORT, 3, 8)  # 4 errors a minute are allowed
GEN4_X16 = Slot(PORT, 4, 16)  # 16 are


def said(found: Finding) -> tuple[Verdict, bool]:
    return found.verdict, found.conclusive


def counts(**names: float) -> dict[str, float]:
    """Correctable errors at the slot's port: BadTLP=3."""
    return {f"{COR}{PORT} {name}": n for name, n in names.items()}


QUIET = counts(BadTLP=0, RxErr=0, Timeout=0)


class Chain:
    """One GPU's counters through the real history, round by round."""

    def __init__(
        self,
        slot: Slot | None = GEN4_X16,
        facts: Mapping[str, Any] | None = None,
        check: PcieErrors | None = None,
    ) -> None:
        self.history = History("", Profile(slots=() if slot is None else (slot,)))
        self.check = check or PcieErrors()
        self.facts = r9700() if facts is None else facts
        self.state, self.now = None, 0.0

    def read(self, levels: Mapping[str, float] | None, after: float = 15.0) -> Finding:
        """One round; None: the GPU was not read."""
        self.now += after
        if levels is None:
            reading = Reading("pcie_sysfs", "", error="hangs", answered=False, slot=PORT)
        else:
            samples = tuple(Sample(SUBJECT, name, value) for name, value in levels.items())
            reading = Reading("pcie_sysfs", "", samples, self.facts, slot=PORT)
        whole = self.history.add([reading], self.now)
        self.state, found = self.check.step(self.state, whole.parts[0], self.now)
        assert [f.alertname for f in found] == ["GpuLinkErrors"]
        return found[0]


# By rate.


@pytest.mark.parametrize(
    ("link", "allowed"),
    [
        (Link(16.0, 16.0), 16), (Link(8.0, 16.0), 8), (Link(8.0, 8.0), 4), (Link(32.0, 16.0), 31),
        (Link(2.5, 1.0), 1), (Link(2.5, 16.0), 3), (Link(), 1),
    ],
)  # fmt: skip
def test_the_rule_allows_a_bit_error_rate_of_1e_12(link: Link, allowed: int) -> None:
    """DCGM: ceil(GT/s per lane / 1000 * 60 * lanes); Gen4 x16: 16 a minute."""
    assert allowed_a_minute(link) == allowed


@pytest.mark.parametrize(
    ("slot", "n", "bad"),
    [(GEN4_X16, 16, False), (GEN4_X16, 17, True), (GEN3_X8, 4, False), (GEN3_X8, 5, True)],
)
def test_a_burst_beyond_a_whole_stretch_is_enough(slot: Slot, n: float, bad: bool) -> None:
    chain = Chain(slot)
    chain.read(QUIET)
    found = chain.read(counts(BadTLP=n, RxErr=0, Timeout=0))
    assert said(found) == (BAD if bad else WELL)
    assert found.value == n


@pytest.mark.parametrize(("each", "bad"), [(4, False), (5, True)])
def test_a_steady_rate_is_weighed_over_a_minute(each: int, bad: bool) -> None:
    chain = Chain(GEN4_X16)
    verdicts = [chain.read(counts(BadTLP=each * i)).verdict for i in range(20)]
    assert (Verdict.WARNING in verdicts) is bad
    assert verdicts[4] is (Verdict.WARNING if bad else Verdict.OK)


def test_errors_of_more_than_a_minute_ago_no_longer_count() -> None:
    chain = Chain(GEN4_X16)
    chain.read(QUIET)
    assert said(chain.read(counts(BadTLP=17))) == BAD
    quiet = [chain.read(counts(BadTLP=17)).verdict for _ in range(4)]
    assert quiet == [Verdict.WARNING] * 3 + [Verdict.OK]


@pytest.mark.parametrize(("share", "bad"), [(1.0, False), (0.5, True), (2.0, False)])
def test_the_share_of_the_rule_is_a_limit(share: float, bad: bool) -> None:
    chain = Chain(GEN4_X16, check=PcieErrors(share=share))
    chain.read(QUIET)
    assert said(chain.read(counts(BadTLP=9))) == (BAD if bad else WELL)


@pytest.mark.parametrize(("n", "bad"), [(160, False), (161, True)])
def test_a_long_window_is_allowed_as_much_as_its_minutes(n: float, bad: bool) -> None:
    chain = Chain(GEN4_X16)
    chain.read(QUIET)
    assert said(chain.read(counts(BadTLP=n), after=600.0)) == (BAD if bad else WELL)


@pytest.mark.parametrize(("n", "bad"), [(160, False), (400, True)])
def test_what_grew_while_nothing_was_read_is_weighed_by_its_time(n: float, bad: bool) -> None:
    chain = Chain(GEN4_X16)
    chain.read(QUIET)
    for _ in range(39):
        assert said(chain.read(None)) == OPEN
    assert said(chain.read(counts(BadTLP=n))) == (BAD if bad else WELL)


@pytest.mark.parametrize(("n", "bad"), [(160, False), (400, True)])
def test_a_device_that_is_silent_while_another_speaks_is_weighed_by_its_time_too(
    n: float, bad: bool
) -> None:
    other = {f"{COR}{UP} BadTLP": 0.0}
    chain = Chain(GEN4_X16)
    chain.read({**QUIET, **other})
    for _ in range(39):
        chain.read(other)
    found = chain.read({**counts(BadTLP=n), **other})
    assert (found.verdict is Verdict.WARNING) is bad
    assert found.argument.evidence["since_start"] == {PORT: {"BadTLP": n}}


def test_the_allowance_is_that_of_the_declared_link_not_of_the_degraded_one() -> None:
    chain = Chain(GEN4_X16)
    chain.read({**QUIET, **tells(1, 1)})
    found = chain.read({**counts(BadTLP=10), **tells(1, 1)})
    assert said(found) == WELL
    assert "Gen4 x16, as declared" in found.argument.expected


def test_without_a_declaration_a_better_link_than_usual_is_told_as_such() -> None:
    chain = Chain(None)
    chain.read(QUIET | tells(4, 16))
    found = chain.read(counts(BadTLP=16) | tells(4, 16))
    assert said(found) == WELL
    assert "Gen4 x16, as it runs now" in found.argument.expected


def test_an_undeclared_link_that_is_slow_just_now_is_not_allowed_less() -> None:
    """It may idle: the errors were counted while it was fast."""
    chain = Chain(None)
    chain.read(QUIET | tells(3, 16))
    found = chain.read(counts(BadTLP=8) | tells(1, 16))
    assert said(found) == WELL
    assert "Gen3 x16, taken as the least" in found.argument.expected


@pytest.mark.parametrize(("n", "bad"), [(8, False), (9, True)])
def test_without_either_a_typical_link_is_taken(n: float, bad: bool) -> None:
    chain = Chain(None)
    chain.read(QUIET)
    found = chain.read(counts(BadTLP=n))
    assert said(found) == (BAD if bad else WELL)
    assert "taken as the least, since nothing is declared" in found.argument.expected


def test_kinds_of_one_device_add_up_and_devices_do_not() -> None:
    """Both ends of a link count one and the same damaged packet."""
    both = {f"{COR}{PORT} BadTLP": 10.0, f"{COR}{UP} Timeout": 10.0}
    chain = Chain(GEN4_X16)
    chain.read(dict.fromkeys(both, 0.0))
    assert said(chain.read(both)) == WELL
    chain = Chain(GEN4_X16)
    chain.read(QUIET)
    assert said(chain.read(counts(BadTLP=10, Timeout=10))) == BAD


def test_names_of_nvml_tell_one_event_twice_and_do_not_add_up() -> None:
    names = {f"{COR}nvml {name}": 10.0 for name in ("Replay", "NAKS_RECEIVED", "BAD_TLP")}
    chain = Chain(GEN4_X16, geforce())
    chain.read(dict.fromkeys(names, 0.0))
    assert said(chain.read(names)) == WELL
    assert said(chain.read(dict.fromkeys(names, 27.0))) == BAD


@pytest.mark.parametrize("name", ["RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout"])
def test_each_error_of_the_wire_counts(name: str) -> None:
    chain = Chain(GEN4_X16)
    chain.read(counts(**{name: 0}))
    assert said(chain.read(counts(**{name: 17}))) == BAD


@pytest.mark.parametrize("name", ["NonFatalErr", "CorrIntErr", "HeaderOF", "TOTAL"])
def test_other_correctable_errors_say_nothing_of_the_wire(name: str) -> None:
    chain = Chain(GEN4_X16)
    chain.read(counts(**{name: 0}))
    found = chain.read(counts(**{name: 1000}))
    assert said(found) == WELL
    assert "1,000" in found.argument.summary


@pytest.mark.parametrize("name", ["UNSUPPORTED_REQ", "CORRECTABLE_ERRORS"])
def test_totals_and_requests_of_nvml_say_nothing_of_the_wire(name: str) -> None:
    chain = Chain(GEN4_X16, geforce())
    chain.read({f"{COR}nvml {name}": 0.0})
    assert said(chain.read({f"{COR}nvml {name}": 1000.0})) == WELL


@pytest.mark.parametrize("every", [1.0, 2.0, 15.0])
def test_the_state_stays_small_however_short_the_rounds(every: float) -> None:
    chain = Chain(GEN4_X16, check=PcieErrors(over=300.0))
    for i in range(1000):
        chain.read(counts(BadTLP=i), after=every)
    assert len(chain.state.recent) <= 2 * PIECES + 2  # type: ignore[attr-defined]


def test_a_stretch_of_no_seconds_is_the_last_window_alone() -> None:
    chain = Chain(GEN4_X16, check=PcieErrors(over=0.0))
    chain.read(QUIET)
    assert said(chain.read(counts(BadTLP=4))) == WELL  # 16 a minute, 15 s
    assert said(chain.read(counts(BadTLP=9))) == BAD


# At once.


@pytest.mark.parametrize(
    "series",
    [
        f"{NONFATAL}{PORT} CmpltTO", f"{FATAL}{UP} DLP", f"{NONFATAL}{GPU} TOTAL",
        f"{FATAL}{DOWN} dev_fatal_errs_bit[3]", f"{NONFATAL}nvml NON_FATAL",
        f"{FATAL}nvml FATAL",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("n", "bad"), [(0.0, False), (1.0, True)])
def test_one_error_that_no_retry_mends_is_told_at_once(series: str, n: float, bad: bool) -> None:
    chain = Chain()
    chain.read({series: 3.0})
    found = chain.read({series: 3.0 + n})
    assert said(found) == (BAD if bad else WELL)
    assert ("no retry mends" in found.argument.summary) is bad
    if bad:
        assert f"1 {'fatal' if series.startswith(FATAL) else 'nonfatal'}" in found.argument.summary


def test_an_unnamed_bit_that_appears_in_a_file_read_before_began_at_zero() -> None:
    chain = Chain()
    chain.read({f"{FATAL}{PORT} DLP": 0.0})
    late = {f"{FATAL}{PORT} DLP": 0.0, f"{FATAL}{PORT} dev_fatal_errs_bit[3]": 1.0}
    assert said(chain.read(late)) == BAD


@pytest.mark.parametrize(
    "late", [counts(BadTLP=6655), {f"{FATAL}{PORT} DLP": 2.0}, {f"{COR}nvml Replay": 6655.0}]
)
def test_a_file_that_is_readable_at_last_brings_old_errors(late: dict[str, float]) -> None:
    """It was EBUSY, or its field was not supported, at first: nothing grew now."""
    chain = Chain()
    base = {f"{COR}{UP} BadTLP": 0.0, f"{COR}nvml BAD_TLP": 0.0}
    chain.read(base)
    found = chain.read({**base, **late})
    assert said(found) == WELL
    assert found.argument.evidence["since_start"] == {}


# Since boot, and anew.


def test_what_was_counted_before_the_start_is_information() -> None:
    """The user's bench: 6,655 BadTLPs at a root port since boot."""
    old = {f"{COR}{PORT} BadTLP": 6655.0, f"{COR}{PORT} RxErr": 0.0, f"{COR}{PORT} TOTAL": 6655.0}
    chain = Chain()
    first = chain.read(old)
    assert said(first) == OPEN
    assert f"6,655 BadTLP at {PORT} since boot" in first.argument.summary
    assert "first reading" in first.argument.summary
    then = chain.read(old)
    assert said(then) == WELL
    assert f"6,655 BadTLP at {PORT} since boot, none since the watchdog" in then.argument.summary
    assert then.argument.evidence["since_boot"] == {PORT: {"BadTLP": 6655.0}}


def test_growth_since_the_start_is_told_apart_from_that_since_boot() -> None:
    chain = Chain()
    chain.read(counts(BadTLP=6655))
    chain.read(counts(BadTLP=6657))
    found = chain.read(counts(BadTLP=6658))
    evidence = found.argument.evidence
    assert evidence["since_boot"] == {PORT: {"BadTLP": 6658.0}}
    assert evidence["since_start"] == {PORT: {"BadTLP": 3.0}}
    assert evidence["window"] == {PORT: {"BadTLP": 1.0}}
    assert said(found) == WELL


def test_a_total_is_told_only_where_nothing_else_is_named() -> None:
    found = Chain().read(counts(BadTLP=2, TOTAL=3) | {f"{NONFATAL}{PORT} TOTAL": 1.0})
    assert found.argument.evidence["since_boot"] == {PORT: {"BadTLP": 2.0, "nonfatal TOTAL": 1.0}}


def test_a_counter_that_fell_is_a_new_enumeration_and_no_growth() -> None:
    chain = Chain()
    chain.read(counts(BadTLP=100))
    chain.read(counts(BadTLP=110))
    found = chain.read(counts(BadTLP=50))
    assert said(found) == OPEN
    assert "removed and enumerated again" in found.argument.summary
    assert found.argument.evidence["since_start"] == {PORT: {"BadTLP": 10.0}}
    after = chain.read(counts(BadTLP=51))
    assert said(after) == WELL
    assert "began anew since the watchdog started" in after.argument.summary
    assert after.argument.evidence["counters_fell"] == 1
    assert after.argument.evidence["since_start"] == {PORT: {"BadTLP": 11.0}}


def test_a_burst_before_a_new_enumeration_is_not_held_against_the_new_life() -> None:
    chain = Chain()
    chain.read(counts(BadTLP=0, RxErr=5))
    assert said(chain.read(counts(BadTLP=100, RxErr=5))) == BAD
    assert said(chain.read(counts(BadTLP=0, RxErr=0))) == OPEN
    assert chain.read(counts(BadTLP=1, RxErr=0)).verdict is Verdict.OK


# What zero proves.


@pytest.mark.parametrize("levels", [QUIET, {}, link(3, 16)])
def test_zero_and_absent_counters_are_no_proof(levels: dict[str, float]) -> None:
    chain = Chain()
    for _ in range(3):
        found = chain.read(levels or None)
        assert said(found) == OPEN
        assert "coverage unknown" in found.argument.summary
        assert "firmware-first" in found.argument.summary
        assert "pci=noaer" in found.argument.summary


@pytest.mark.parametrize(
    "series", [f"{COR}{GPU} RxErr", f"{NONFATAL}{DOWN} UnsupReq", f"{COR}nvml Replay"]
)
def test_any_error_on_the_chain_since_boot_proves_that_they_are_counted(series: str) -> None:
    chain = Chain()
    levels = {**QUIET, series: 1.0}
    chain.read(levels)
    assert said(chain.read(levels)) == WELL


def test_an_unread_round_is_no_evidence_and_says_why() -> None:
    found = last(
        PcieErrors(), [window(counts(BadTLP=5)), unread(counts(BadTLP=5))], "GpuLinkErrors"
    )
    assert said(found) == OPEN
    assert "(hangs)" in found.argument.summary


# Which way.


@pytest.mark.parametrize(
    ("series", "facts", "words"),
    [
        (f"{COR}{PORT} BadTLP", r9700(), "GPU -> CPU on the slot's link"),
        (f"{COR}{PORT} BadDLLP", r9700(), "GPU -> CPU on the slot's link"),
        (f"{COR}{PORT} RxErr", r9700(), "GPU -> CPU on the slot's link"),
        (f"{COR}{PORT} Timeout", r9700(), "CPU -> GPU on the slot's link"),
        (f"{COR}{PORT} Rollover", r9700(), "CPU -> GPU on the slot's link"),
        (f"{COR}{UP} BadTLP", r9700(), "CPU -> GPU on the slot's link"),
        (f"{COR}{UP} Timeout", r9700(), "GPU -> CPU on the slot's link"),
        (f"{COR}{DOWN} BadTLP", r9700(), "inside the card"),
        (f"{COR}{GPU} Timeout", r9700(), "inside the card"),
        (f"{COR}0000:01:00.0 BadTLP", geforce(), "CPU -> GPU on the slot's link"),
        (f"{COR}nvml Replay", geforce(), "GPU -> CPU on the slot's link"),
        (f"{COR}nvml BAD_TLP", geforce(), "CPU -> GPU on the slot's link"),
        (f"{COR}0000:00:01.0 BadTLP", geforce(chain=["0000:00:01.0", PORT, "0000:01:00.0"]),
         "above the slot"),
    ],
)  # fmt: skip
def test_who_counts_says_which_way_the_damage_goes(
    series: str, facts: dict[str, Any], words: str
) -> None:
    """A receiver counts what arrives damaged, a transmitter what it must send again."""
    chain = Chain(facts=facts)
    chain.read({series: 0.0})
    found = chain.read({series: 100.0})
    assert said(found) == BAD
    assert words in found.argument.suspects[0]


# Real cases.


@pytest.mark.parametrize(
    ("series", "a_round"),
    [
        (f"{COR}{PORT} BadTLP", 3150), (f"{COR}{PORT} RxErr", 40),
        (f"{FATAL}{PORT} DLP", 1), (f"{FATAL}{PORT} SDES", 1), (f"{NONFATAL}{PORT} CmpltTO", 1),
    ],
    ids=[
        "13: hundreds of corrected errors a second on AM4", "10: RxErr before an Xid 79",
        "11: DLP fatal on an H20", "3: Surprise Link Down", "21: completion timeouts of a K20c",
    ],
)  # fmt: skip
def test_errors_of_real_hosts_are_found(series: str, a_round: float) -> None:
    chain = Chain(Slot(PORT, 3, 16))
    chain.read({series: 7.0})
    assert said(chain.read({series: 7.0 + a_round})) == BAD


def test_the_rule_keeps_quiet_at_the_launch_of_a_job() -> None:
    """DCGM #184: a few replays as a job starts, on a node that was then terminated."""
    chain = Chain(GEN4_X16, geforce())
    replays = [0, 0, 3, 9, 9, 9, 9, 9, 9, 10, 10]
    found = [chain.read({f"{COR}nvml Replay": float(n)}) for n in replays]
    assert all(f.verdict is Verdict.OK for f in found)


def test_a_warning_says_what_where_and_what_to_do() -> None:
    chain = Chain()
    chain.read(counts(BadTLP=6655))
    argument = chain.read(counts(BadTLP=7000)).argument
    assert f"345 correctable link errors at {PORT} in 60 s, allowed are 16" in argument.summary
    assert argument.next_step
    assert argument.ruled_out
    assert argument.evidence["allowed_errors"] == 16.0


NAMES = st.sampled_from(
    [f"{k}{by} {n}" for k in (COR, NONFATAL, FATAL) for by in (PORT, "nvml") for n in ("BadTLP",
     "TOTAL", "Replay", "dev_cor_errs_bit[4]")] + [COR, f"{COR}{PORT}", f"{COR} "]
)  # fmt: skip


@given(st.lists(st.dictionaries(NAMES, st.integers(0, 50).map(float)), min_size=1, max_size=6))
def test_whatever_is_counted_growth_is_never_more_than_since_boot(
    rounds: list[dict[str, float]],
) -> None:
    windows: list[Window] = []
    for before, levels in zip([None, *rounds], rounds, strict=False):
        windows.append(
            window(levels, before={} if before is None else before)
            if before is not None
            else window(levels, seconds=None)
        )
    for found in steps(PcieErrors(), windows):
        evidence = found[0].argument.evidence
        for by, names in dict(evidence.get("window", {})).items():  # type: ignore[call-overload]
            for name, n in names.items():
                boot = evidence["since_boot"][by]  # type: ignore[index]
                assert n <= boot.get(name, n)
        assert found[0].argument.summary


def test_a_fatal_error_in_the_round_of_a_new_enumeration_is_told_all_the_same() -> None:
    """The link breaks: the port counts a fatal error, and the card comes back with zeros."""
    chain = Chain()
    old = {f"{FATAL}{PORT} SDES": 1.0, f"{COR}{GPU} RxErr": 5.0}
    chain.read(old)

    found = chain.read({f"{FATAL}{PORT} SDES": 2.0, f"{COR}{GPU} RxErr": 0.0})

    assert said(found) == BAD
    assert f"SDES at {PORT}" in found.argument.summary


def test_what_stood_before_a_new_enumeration_is_not_told_again() -> None:
    chain = Chain()
    chain.read({f"{FATAL}{PORT} SDES": 1.0, f"{COR}{GPU} RxErr": 5.0})

    assert said(chain.read({f"{FATAL}{PORT} SDES": 1.0, f"{COR}{GPU} RxErr": 0.0}))[0] is Verdict.OK


def test_a_device_that_counts_anew_has_only_new_errors() -> None:
    chain = Chain()
    chain.read({f"{NONFATAL}{GPU} CmpltTO": 3.0, f"{COR}{GPU} RxErr": 5.0})

    found = chain.read({f"{NONFATAL}{GPU} CmpltTO": 3.0, f"{COR}{GPU} RxErr": 0.0})

    assert said(found) == BAD


def test_a_fatal_error_of_a_file_that_was_unreadable_for_a_round_is_not_new() -> None:
    chain = Chain()
    port, card = f"{FATAL}{PORT} SDES", f"{COR}{GPU} RxErr"
    chain.read({port: 1.0, card: 5.0})
    chain.read({port: 1.0, card: 5.0})
    chain.read({card: 5.0})

    assert said(chain.read({port: 1.0, card: 0.0}))[0] is Verdict.OK


def test_a_file_that_is_read_for_the_first_time_in_a_new_enumeration_brings_old_errors() -> None:
    chain = Chain()
    chain.read({f"{COR}{GPU} RxErr": 5.0})

    found = chain.read({f"{FATAL}{PORT} SDES": 1.0, f"{COR}{GPU} RxErr": 0.0})

    assert said(found)[0] is Verdict.OK


def test_a_fatal_error_of_a_new_enumeration_is_since_the_start() -> None:
    chain = Chain()
    chain.read({f"{FATAL}{PORT} SDES": 0.0, f"{COR}{GPU} RxErr": 5.0})
    chain.read({f"{FATAL}{PORT} SDES": 1.0, f"{COR}{GPU} RxErr": 0.0})

    after = chain.read({f"{FATAL}{PORT} SDES": 1.0, f"{COR}{GPU} RxErr": 0.0})

    assert "1 fatal SDES" in after.argument.summary
    assert "none since the watchdog started" not in after.argument.summary
