"""The probe through the real pynvml and a libnvidia-ml.so.1 of our own."""

from __future__ import annotations

import pytest

from tests.nvml_stub import stub

FOUR = ("0000:05:00.0", "0000:09:00.0", "0000:85:00.0", "0000:89:00.0")
WORKS = """
* CurrPcieLinkGeneration 4
* CurrPcieLinkWidth 16
* MaxPcieLinkGeneration 4
* MaxPcieLinkWidth 16
* GpuMaxPcieLinkGeneration 5
* PcieReplayCounter 7
* PerformanceState 2
* CurrentClocksEventReasons 0x4
* CurrentClocksThrottleReasons 0x8
* Utilization 97
* MemoryTotal 25769803776
* MemoryUsed 21474836480
* ComputeRunningProcesses 4712 4711
* GraphicsRunningProcesses
* Name NVIDIA GeForce RTX 3090
* Field94 7
* Field95 0
* Field176 6655
"""
HANDLES = "".join(f"{address} Handle 1\n" for address in FOUR)

pytestmark = pytest.mark.skipif(
    stub.compiler() is None, reason="no C compiler: apt-get install gcc libc6-dev"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return stub.build(tmp_path_factory.mktemp("nvml"))


def test_a_card_that_works_tells_its_link_its_errors_its_load_and_who_holds_it(library):
    (told,) = stub.read(library, HANDLES + WORKS, FOUR[0])

    assert told["error"] is None
    assert told["samples"] == {
        "link_speed_nvml": 16.0,
        "link_width_nvml": 16.0,
        "pstate": 2.0,
        "event_reasons": 4.0,
        "utilisation": 97.0,
        "memory_used": 20.0 * 2**30,
        "memory_total": 24.0 * 2**30,
        "pcie_correctable nvml Replay": 7.0,
        "pcie_correctable nvml ReplayRollover": 0.0,
        "pcie_correctable nvml BAD_TLP": 6655.0,
    }
    assert told["facts"]["name"] == "NVIDIA GeForce RTX 3090"
    assert told["facts"]["holders"] == [4711, 4712]


def test_one_lost_card_of_four_costs_the_other_three_nothing(library):
    world = f"{FOUR[1]} Handle !15\n" + HANDLES + WORKS

    told = stub.read(library, world, *FOUR)

    assert [card["facts"].get("lost") for card in told] == [
        None,
        "NVML says GPU_IS_LOST",
        None,
        None,
    ]
    assert [len(card["samples"]) for card in told] == [10, 0, 10, 10]
    assert [card["error"] for card in told] == [None] * 4


def test_a_card_that_gets_lost_between_two_questions_is_lost(library):
    world = f"{FOUR[1]} PerformanceState !15\n" + HANDLES + WORKS

    told = stub.read(library, world, *FOUR[:2])

    assert told[0]["samples"]
    assert told[1]["samples"] == {}
    assert told[1]["facts"] == {"lost": "NVML says GPU_IS_LOST", "vendor": "nvidia"}


def test_a_card_that_nvml_does_not_list_is_lost(library):
    (told,) = stub.read(library, HANDLES + WORKS, "0000:41:00.0")

    assert told["facts"]["lost"] == "NVML knows no card at this address (NOT_FOUND)"


def test_what_a_consumer_card_does_not_support_costs_only_itself(library):
    world = f"{HANDLES}{FOUR[0]} PcieReplayCounter !3\n{FOUR[0]} Field94 !3\n{WORKS}"

    (told,) = stub.read(library, world, FOUR[0])

    assert told["samples"]["link_speed_nvml"] == 16.0
    assert "pcie_correctable nvml Replay" not in told["samples"]
    assert told["facts"]["nvml_unread"] == {
        "Replay": "NOT_SUPPORTED",
        "CORRECTABLE_ERRORS": "NOT_SUPPORTED",
        "NAKS_RECEIVED": "NOT_SUPPORTED",
        "RECEIVER_ERROR": "NOT_SUPPORTED",
        "NAKS_SENT": "NOT_SUPPORTED",
        "BAD_DLLP": "NOT_SUPPORTED",
        "NON_FATAL": "NOT_SUPPORTED",
        "FATAL": "NOT_SUPPORTED",
        "UNSUPPORTED_REQ": "NOT_SUPPORTED",
        "LCRC": "NOT_SUPPORTED",
        "LANE_ERROR": "NOT_SUPPORTED",
        "L0_TO_RECOVERY": "NOT_SUPPORTED",
    }


def test_a_call_that_never_returns_costs_only_its_own_card(library):
    world = f"{FOUR[2]} CurrPcieLinkWidth hang\n" + HANDLES + WORKS

    told = stub.read(library, world, *FOUR, seconds=2)

    assert told[2]["error"].startswith("still reading after ")
    assert told[2]["answered"] is False
    assert [len(card["samples"]) for card in told] == [10, 10, 0, 10]


def test_an_initialisation_that_never_returns_holds_one_reading_and_fails_the_others(library):
    told = stub.read(library, "- Init hang\n" + HANDLES + WORKS, *FOUR, seconds=2)

    errors = sorted(card["error"].partition(",")[0] for card in told)
    assert errors[:3] == ["nvmlInit"] * 3
    assert errors[3].startswith("still reading after ")


def test_a_driver_that_is_not_loaded_is_said_with_what_to_do(library):
    (told,) = stub.read(library, "- Init !9\n", FOUR[0])

    assert told["error"].startswith("NVML says DRIVER_NOT_LOADED: the NVIDIA driver is not loaded")
    assert "modprobe nvidia" in told["error"]


def test_a_host_without_a_library_that_loads_is_told_what_to_install(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")  # found before a real one, where there is one

    (told,) = stub.read(tmp_path, "", FOUR[0])

    assert told["error"].startswith("NVML says LIBRARY_NOT_FOUND: libnvidia-ml.so.1 is not here")


def test_an_old_driver_is_asked_by_the_old_names(tmp_path):
    (told,) = stub.read(stub.build(tmp_path, "-DOLD_DRIVER"), HANDLES + WORKS, FOUR[0])

    assert told["samples"]["event_reasons"] == 8.0
    assert told["facts"]["holders"] == [4711, 4712]
