"""The probe against cards of ours at the seam of pynvml: what each answer and each error costs."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_nvml import GIB, Card, FakeNvml, error, healthy
from watchdog.domain.sample import NO_FACTS, Reading, labels
from watchdog.errors import NoAnswer, NotUnderstood, ProbeError
from watchdog.probes import nvml_words as words
from watchdog.probes.nvml import QUESTIONS, Nvml, reading_of
from watchdog.probes.nvml_library import library_of
from watchdog.reader import Readers
from watchdog.tree import Tree

SLOT, ADDRESS = "0000:00:03.0", "0000:05:00.0"
FOUR = ("0000:05:00.0", "0000:09:00.0", "0000:85:00.0", "0000:89:00.0")
SUBJECT = labels(slot=SLOT)


def read(card: Card, **module) -> Reading:
    return probe(card, **module).read(NO_FACTS, time.monotonic() + 10)


def probe(card: Card, **module) -> Nvml:
    return Nvml(SLOT, ADDRESS, FakeNvml({ADDRESS: card}, **module))


def values(reading: Reading) -> dict[str, float]:
    assert all(sample.subject == SUBJECT for sample in reading.samples)
    return {sample.series: sample.value for sample in reading.samples}


def said(**answers) -> dict[str, object]:
    """Answers of a card that says these and nothing else."""
    return {"answers": answers, "errors": {}}


def test_a_card_under_load_is_told_in_our_words_and_units():
    reading = read(Card(fields={94: 7, 95: 0, 173: 12, 179: 1, 180: 0, 183: 2}))

    assert (reading.probe, reading.target, reading.slot) == ("nvml", "", SLOT)
    assert values(reading) == {
        "link_speed_nvml": 16.0,
        "link_width_nvml": 16.0,
        "utilisation": 97.0,
        "pstate": 0.0,
        "event_reasons": 4.0,
        "memory_used": 21.0 * GIB,
        "memory_total": 24.0 * GIB,
        "pcie_correctable nvml Replay": 7.0,
        "pcie_correctable nvml ReplayRollover": 0.0,
        "pcie_correctable nvml CORRECTABLE_ERRORS": 12.0,
        "pcie_nonfatal nvml NON_FATAL": 1.0,
        "pcie_fatal nvml FATAL": 0.0,
        "pcie_correctable nvml LANE_ERROR": 2.0,
    }


def test_what_card_and_system_could_do_at_most_is_a_fact_and_no_sample():
    reading = read(Card())

    assert reading.facts["nvml_link_generation_max"] == 4
    assert reading.facts["nvml_link_width_max"] == 16
    assert reading.facts["nvml_device_generation_max"] == 5
    assert not any("max" in series for series in values(reading))


def test_a_link_that_retrains_counts_no_error():
    reading = read(Card(fields={169: 812}))

    assert reading.facts["nvml_link_recoveries"] == 812
    assert not any(value == 812 for value in values(reading).values())


def test_fields_are_read_by_the_type_that_each_comes_in():
    told = values(read(Card(fields={173: 2**40, 174: 3.0, 175: 2**32 - 1})))

    assert told["pcie_correctable nvml CORRECTABLE_ERRORS"] == 2**40
    assert told["pcie_correctable nvml NAKS_RECEIVED"] == 3
    assert told["pcie_correctable nvml RECEIVER_ERROR"] == 2**32 - 1


@pytest.mark.parametrize("code", [3, 4, 17, 999, 4321])
@pytest.mark.parametrize(
    "name", [q.functions[0].removeprefix("nvmlDeviceGet") for q in QUESTIONS if q.word != "fields"]
)
def test_an_error_of_one_question_costs_only_this_one(name, code):
    whole = read(Card(fields={95: 1}))
    reading = read(Card({name: error(code)}, fields={95: 1}))

    lost = set(values(whole)) - set(values(reading)) | set(whole.facts) - set(reading.facts)
    new = set(reading.facts["nvml_unread"].items()) - set(whole.facts["nvml_unread"].items())
    assert {value for _, value in new} == {words.error_name(code)}
    assert len(new) == 1
    assert 1 <= len(lost) <= 2


def test_fields_that_cannot_be_asked_for_cost_no_other_question():
    class Refuses(FakeNvml):
        def nvmlDeviceGetFieldValues(self, card, ids):  # noqa: ARG002, N802
            raise error(13)

    reading = Nvml(SLOT, ADDRESS, Refuses({ADDRESS: Card()})).read(NO_FACTS, math.inf)

    assert reading.facts["nvml_unread"] == {"fields": "FUNCTION_NOT_FOUND"}
    assert values(reading)["pcie_correctable nvml Replay"] == 7


@pytest.mark.parametrize("code", [3, 4, 999])
def test_a_field_has_an_error_of_its_own(code):
    reading = read(Card(fields={173: error(code), 176: 6655}))

    assert reading.facts["nvml_unread"]["CORRECTABLE_ERRORS"] == words.error_name(code)
    assert "pcie_correctable nvml CORRECTABLE_ERRORS" not in values(reading)
    assert values(reading)["pcie_correctable nvml BAD_TLP"] == 6655


def test_replays_are_told_by_either_way_and_unread_only_where_both_fail():
    refused = {"PcieReplayCounter": error(3)}
    by_field = read(Card(refused, fields={94: 9}))
    by_call = read(Card())
    neither = read(Card(refused))

    assert values(by_field)["pcie_correctable nvml Replay"] == 9
    assert values(by_call)["pcie_correctable nvml Replay"] == 7
    assert "pcie_correctable nvml Replay" not in values(neither)
    assert [r.facts["nvml_unread"].get("Replay") for r in (by_field, by_call, neither)] == [
        None,
        None,
        "NOT_SUPPORTED",
    ]
    assert "replay" not in neither.facts["nvml_unread"]


def test_a_card_that_answers_nothing_at_all_is_not_understood():
    refuses = dict.fromkeys(healthy(), error(999))
    with pytest.raises(NotUnderstood, match="answers none of the questions: NOT_SUPPORTED, UNKNOW"):
        read(Card(refuses))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (15, "NVML says GPU_IS_LOST"),
        (16, "NVML says RESET_REQUIRED: the card does not work until it is reset"),
        (28, "NVML says GPU_NOT_FOUND"),
    ],
)
def test_a_lost_card_is_told_as_lost_wherever_nvml_says_so(code, reason):
    cards = [
        Card(handle=error(code)),
        Card({"Name": error(code)}),
        Card({"CurrPcieLinkGeneration": error(code)}),
        Card(fields={94: 1, 180: error(code)}),
    ]
    readings = [read(card) for card in cards] + [read(Card(), init=[error(code)])]

    for reading in readings:
        assert (reading.samples, reading.facts) == ((), {"lost": reason, "vendor": "nvidia"})
        assert (reading.error, reading.slot) == (None, SLOT)


@pytest.mark.parametrize("code", [6, 8, 11, 14, 999])
def test_a_card_that_gives_no_handle_is_of_no_use(code):
    said = str(code) if code == 999 else words.error_name(code)  # UNKNOWN is a verdict of ours
    assert said in str(read(Card(handle=error(code))).facts["lost"])


@pytest.mark.parametrize("code", [2, 4, 17, 20])
def test_a_handle_refused_for_another_reason_does_not_make_a_card_lost(code):
    with pytest.raises(NotUnderstood, match=f"^NVML says {words.error_name(code)}"):
        read(Card(handle=error(code)))


def test_a_card_that_nvml_does_not_know_is_lost():
    stranger = Nvml(SLOT, "0000:41:00.0", FakeNvml({ADDRESS: Card()}))

    assert stranger.read(NO_FACTS, math.inf).facts == {
        "lost": "NVML knows no card at this address (NOT_FOUND)", "vendor": "nvidia",
    }  # fmt: skip


def test_one_lost_card_of_four_costs_the_others_nothing():
    cards = {address: Card() for address in FOUR}
    cards[FOUR[1]] = Card(handle=error(15))
    module = FakeNvml(cards)

    readings = Readers([Nvml(f"slot of {a}", a, module) for a in FOUR]).read_all(5)

    assert [reading.facts.get("lost") for reading in readings] == [
        None,
        "NVML says GPU_IS_LOST",
        None,
        None,
    ]
    assert [bool(reading.samples) for reading in readings] == [True, False, True, True]
    assert module.inits == 1


@pytest.mark.parametrize(
    ("code", "to_do"),
    [
        (4, "let it read and write /dev/nvidiactl"),
        (9, "modprobe nvidia"),
        (12, "install the NVIDIA driver's libraries"),
        (18, "reboot"),
    ],
)
def test_what_stops_nvml_as_a_whole_is_said_with_what_to_do(code, to_do):
    with pytest.raises(NotUnderstood, match=to_do):
        read(Card(), init=[error(code)])


@pytest.mark.parametrize("code", [9, 18])
def test_a_driver_that_goes_while_we_ask_is_no_lost_card(code):
    with pytest.raises(NotUnderstood, match=words.error_name(code)):
        read(Card({"CurrPcieLinkWidth": error(code)}))


def test_a_failed_initialisation_is_tried_again_at_the_next_reading():
    it = probe(Card(), init=[error(9)])
    with pytest.raises(NotUnderstood):
        it.ask()
    assert library_of(it.module).start(it.module, math.inf) == 1

    assert it.ask()["answers"]["link_width"] == 16
    assert it.module.inits == 2


def test_without_the_module_the_package_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)

    with pytest.raises(NotUnderstood, match="pip install nvidia-ml-py"):
        Nvml(SLOT, ADDRESS).ask()


def test_nvml_is_initialised_once_for_all_threads_that_come_at_once():
    begins = threading.Event()

    class Slow(FakeNvml):
        def nvmlInit(self):  # noqa: N802
            begins.wait(20)
            super().nvmlInit()

    module = Slow({address: Card() for address in FOUR})
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(Nvml(SLOT, a, module).ask) for a in FOUR * 2]
        begins.set()
        assert all("answers" in one.result() for one in asked)

    assert module.inits == 1


def test_an_initialisation_that_hangs_costs_one_reader_and_the_others_do_not_hang():
    hang = threading.Event()
    module = FakeNvml({address: Card() for address in FOUR}, init=[hang])
    readers = Readers([Nvml(f"slot of {a}", a, module) for a in FOUR])

    readings = readers.read_all(0.3)

    errors = sorted(str(reading.error) for reading in readings)
    assert errors[0].startswith("nvmlInit, called by another reading, ")
    assert [e[:8] for e in errors] == ["nvmlInit"] * 3 + ["still re"]
    assert not any(reading.answered for reading in readings)
    assert module.inits == 1
    hang.set()  # it comes back with an error, and the next one tries again
    readers.read_all(5)
    assert all(reading.samples for reading in readers.read_all(5))


def test_a_call_that_never_returns_costs_only_its_own_reading():
    hang = threading.Event()
    cards = {address: Card() for address in FOUR}
    cards[FOUR[2]] = Card({"PerformanceState": hang})
    readers = Readers([Nvml(f"slot of {a}", a, FakeNvml(cards)) for a in FOUR])

    for _ in range(2):
        readings = readers.read_all(0.3)
        assert [bool(reading.samples) for reading in readings] == [True, True, False, True]
        assert str(readings[2].error).startswith("still reading after ")
    hang.set()


def test_nvml_that_was_shut_down_is_initialised_anew():
    it = probe(Card())
    it.ask()
    it.module.running = False

    assert it.ask()["answers"]["link_width"] == 16
    assert it.module.inits == 2


def test_nvml_that_stays_shut_down_is_not_asked_for_ever():
    it = probe(Card({"CurrPcieLinkWidth": error(1)}))

    with pytest.raises(NotUnderstood, match="NVML says UNINITIALIZED"):
        it.ask()
    assert it.module.inits == 2


def test_a_life_that_is_over_already_ends_no_newer_one():
    it = probe(Card())
    it.ask()
    library = library_of(it.module)
    library.forget(1)
    assert library.start(it.module, math.inf) == 2
    library.forget(1)

    assert library.start(it.module, math.inf) == 2
    assert it.module.inits == 2


def test_a_slow_card_is_left_at_the_deadline_and_the_question_named():
    with pytest.raises(NoAnswer, match="no time was left to ask for link_generation"):
        probe(Card()).ask(time.monotonic() - 1)


def test_why_clocks_are_low_is_asked_by_the_old_name_where_there_is_no_other():
    new = "nvmlDeviceGetCurrentClocksEventReasons"
    old = "nvmlDeviceGetCurrentClocksThrottleReasons"

    of_module = read(Card(), without=(new,))
    of_driver = read(Card({"CurrentClocksEventReasons": error(13)}))
    nobody = read(Card(), without=(new, old))

    assert values(of_module)["event_reasons"] == 8
    assert values(of_driver)["event_reasons"] == 8
    assert nobody.facts["nvml_unread"]["event_reasons"] == "FUNCTION_NOT_FOUND"


def test_a_driver_too_old_for_a_function_costs_only_its_question():
    mismatch = FakeNvml.NVMLLibraryMismatchError("Unversioned function called")

    reading = read(Card({"MemoryInfo": mismatch}))

    assert reading.facts["nvml_unread"]["memory"] == "FUNCTION_NOT_FOUND"
    assert values(reading)["link_width_nvml"] == 16


@pytest.mark.parametrize("odd", [None, "sixteen", math.nan, math.inf])
def test_an_answer_of_an_odd_kind_costs_only_its_question(odd):
    reading = read(Card({"CurrPcieLinkWidth": odd}))

    assert reading.facts["nvml_unread"]["link_width"].startswith("odd answer: ")
    assert values(reading)["link_speed_nvml"] == 16


def test_holders_are_the_processes_that_compute_and_those_that_draw():
    processes = [SimpleNamespace(pid=pid) for pid in (812, 811)]
    card = Card({"ComputeRunningProcesses": processes, "GraphicsRunningProcesses": processes[:1]})

    assert read(card).facts["holders"] == [811, 812]
    assert read(Card({"ComputeRunningProcesses": []})).facts["holders"] == []


@pytest.mark.parametrize("word", ["ComputeRunningProcesses", "GraphicsRunningProcesses"])
def test_half_of_the_holders_are_no_holders(word):
    reading = read(Card({word: error(3)}))

    assert "holders" not in reading.facts
    assert "NOT_SUPPORTED" in reading.facts["nvml_unread"].values()


def test_more_processes_than_are_listed_are_no_list():
    def held(count: int) -> Reading:
        processes = [SimpleNamespace(pid=pid + 1) for pid in range(count)]
        return read(Card({"ComputeRunningProcesses": processes}))

    assert len(held(256).facts["holders"]) == 256
    assert "holders" not in held(257).facts
    assert "compute" in held(257).facts["nvml_unread"]


@pytest.mark.parametrize(
    ("word", "series", "good", "bad"),
    [
        ("link_generation", "link_speed_nvml", {1: 2.5, 3: 8.0, 6: 64.0}, (0, 7, 255)),
        ("link_width", "link_width_nvml", {1: 1.0, 8: 8.0, 32: 32.0}, (0, 33, 63, 255, True)),
        ("pstate", "pstate", {0: 0.0, 15: 15.0}, (16, 32)),
        ("utilisation", "utilisation", {0: 0.0, 100: 100.0}, (101, 2**32 - 1)),
        ("memory_used", "memory_used", {0: 0.0, 2**53: 2.0**53}, (2**53 + 1, -1)),
    ],
)
def test_a_value_out_of_its_range_is_unread(word, series, good, bad):
    for value, told in good.items():
        assert values(reading_of(SLOT, said(**{word: value}))) == {series: told}
    for value in bad:
        reading = reading_of(SLOT, said(**{word: value}, name="a card"))
        assert values(reading) == {}
        assert str(value) in reading.facts["nvml_unread"][word]


def test_a_counter_is_told_as_far_as_a_float_counts_one_by_one():
    most = reading_of(SLOT, said(fields={"176": 2**53, "178": 2**53 + 1}))

    assert values(most) == {"pcie_correctable nvml BAD_TLP": 2.0**53}
    assert most.facts["nvml_unread"] == {"BAD_DLLP": "the answer is 9007199254740993"}


def test_a_name_of_bytes_with_odd_characters_is_made_fit_for_a_sentence():
    assert read(Card({"Name": b"Tesla\x1b[31m \xff"})).facts["name"] == "Tesla[31m \ufffd"
    assert len(str(read(Card({"Name": "x" * 1000})).facts["name"])) == 120


@pytest.mark.parametrize(
    "card",
    [
        Card(),
        Card(handle=error(15)),
        Card({"Name": error(3)}, fields={94: 5, 173: error(3)}),
    ],
)
def test_a_recording_tells_the_same_as_the_card_did(card):
    it = probe(card)
    recorded = json.loads(json.dumps(it.ask()))

    assert reading_of(SLOT, recorded) == it.read(NO_FACTS, math.inf)


@pytest.mark.parametrize(
    "failure", [NoAnswer("it hangs"), NotUnderstood("no driver " * 20 + "at all")]
)
def test_a_reading_that_failed_is_recorded_as_the_failure_that_it_was(failure):
    recorded = json.loads(json.dumps(words.failed(failure)))

    with pytest.raises(type(failure), match=f"^{failure}$"):
        reading_of(SLOT, recorded)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
_KEYS = [*(q.word for q in QUESTIONS), "memory_used", "memory_total"]
_FIELDS = st.dictionaries(st.sampled_from([str(f) for f in words.FIELDS]), _JSON)
_ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "answers": st.dictionaries(st.sampled_from(_KEYS), _JSON | _FIELDS) | _JSON,
        "errors": st.dictionaries(st.text(), _JSON) | _JSON,
        "lost": _JSON,
        "failed": _JSON,
        "answered": _JSON,
    },
)


@given(_ANSWERS)
def test_no_recording_makes_the_probe_crash_or_tell_what_is_no_number(answers):
    try:
        reading = reading_of(SLOT, answers)
    except ProbeError:
        return
    told = values(reading)
    assert all(type(v) is float and math.isfinite(v) and v >= 0 for v in told.values())
    assert len(json.dumps(dict(reading.facts))) < 20_000


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"driver": "vfio-pci"}, "not asked: the card's driver is vfio-pci"),
        ({"driver": "nouveau"}, "not asked: the card's driver is nouveau"),
        ({"driver": "nvidia", "runtime": "suspended"}, "not asked: the card is suspended"),
        ({"runtime": "suspending"}, "not asked: the card is suspending"),
    ],
)
def test_a_card_that_sleeps_or_has_another_driver_is_not_asked(known, why):
    reading = probe(Card()).at_once(known)

    assert reading is not None
    assert reading.facts == {"nvml_unread": {"nvml": why}}
    assert (reading.samples, reading.error, reading.slot) == ((), None, SLOT)


@pytest.mark.parametrize("known", [{}, {"driver": None}, {"driver": "nvidia", "runtime": "active"}])
def test_a_card_that_may_be_asked_is_asked(known):
    assert probe(Card()).at_once(known) is None


def test_closing_does_nothing_for_nothing_can_break_a_call():
    it = probe(Card())
    it.close()

    assert it.ask()["answers"]["link_width"] == 16


# --- what it looks at before and after ------------------------------------------------------------


def test_where_processes_are_hidden_an_empty_list_of_holders_is_no_nobody(tmp_path):
    """In a container NVML lists none, or numbers that are not ours."""
    probe = Nvml(SLOT, ADDRESS, FakeNvml({ADDRESS: Card()}), proc=tmp_path)

    facts = probe.read(NO_FACTS, math.inf).facts

    assert "holders" not in facts
    assert "hidden" in str(facts["holders_unknown"])


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("power/runtime_status", "suspended", "not asked: the card is suspended"),
        ("uevent", "DRIVER=vfio-pci\nPCI_ID=10DE:2204", "not asked: the card's driver is vfio-pci"),
    ],
)
def test_a_card_that_sleeps_or_is_a_guests_is_not_asked_even_at_first(tmp_path, file, text, why):
    path = tmp_path / "bus/pci/devices" / ADDRESS / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    fake = FakeNvml({ADDRESS: Card(handle=error(15))})

    reading = Nvml(SLOT, ADDRESS, fake, tree=Tree(tmp_path)).read(NO_FACTS, math.inf)

    assert reading.facts == {"nvml_unread": {"nvml": why}}
