"""One GPU's witnesses, counters and place, read from trees of whole hosts."""

from __future__ import annotations

import os

import pytest

from tests import bench_tree
from tests.bench_tree import Bench, Card, gpu_metrics, seeds_bench
from watchdog.domain import series as s
from watchdog.domain.sample import HOST, Reading, labels
from watchdog.errors import NoAnswer
from watchdog.pci import gpus
from watchdog.probes.pcie_sysfs import PcieSysfs
from watchdog.tree import Tree


class Spy(Tree):
    """Remembers what was opened."""

    def data(self, path: str, most: int = 4096) -> bytes:
        OPENED.append(path.removeprefix("bus/pci/devices/"))
        return super().data(path, most)


OPENED: list[str] = []


def read(card: Card) -> Reading:
    """Read a card; its addresses come from the product's own census."""
    tree = Tree(card.bench.root)
    (gpu,) = (gpu for gpu in gpus(tree) if gpu.address == card.address)
    OPENED.clear()
    return PcieSysfs(gpu.slot, gpu, Spy(card.bench.root)).read({}, 0.0)


def levels(reading: Reading) -> dict[str, float]:
    return {sample.series: sample.value for sample in reading.samples}


def links(reading: Reading) -> dict[str, tuple[float | None, float | None]]:
    """Return what each witness says; those that say nothing are left out."""
    told = levels(reading)
    pairs = {
        who: (told.get(s.LINK_SPEED + who), told.get(s.LINK_WIDTH + who)) for who in s.WITNESSES
    }
    return {who: pair for who, pair in pairs.items() if pair != (None, None)}


def unread(reading: Reading) -> dict[str, str]:
    return reading.facts["unread"]


@pytest.fixture
def bench(tmp_path) -> Bench:
    return seeds_bench(tmp_path)


# --- the seeds' bench ----------------------------------------------------------------------------


def test_a_healthy_slot_has_three_witnesses_that_agree_and_the_function_tells_of_the_inside(bench):
    assert links(read(bench["05:00.0"])) == {
        s.STARRED: (8.0, 16), s.PORT: (8.0, 16), s.CARD: (8.0, 16), s.FUNCTION: (32.0, 16),
    }  # fmt: skip


def test_the_bifurcated_slot_is_x8_for_every_witness_but_the_inside(bench):
    assert links(read(bench["09:00.0"])) == {
        s.STARRED: (8.0, 8), s.PORT: (8.0, 8), s.CARD: (8.0, 8), s.FUNCTION: (32.0, 16),
    }  # fmt: skip


def test_what_is_read_is_about_the_slot(bench):
    reading = read(bench["09:00.0"])
    assert (reading.probe, reading.target, reading.slot) == ("pcie_sysfs", HOST, "0000:00:03.0")
    assert {sample.subject for sample in reading.samples} == {labels(slot="0000:00:03.0")}


def test_the_place_of_a_card_is_told(bench):
    facts = dict(read(bench["89:00.0"]).facts)
    assert len(facts.pop("rows")) == 3
    assert facts == {
        "gpu": "0000:89:00.0", "slot": "0000:80:03.0", "switch": True,
        "chain": ["0000:80:03.0", "0000:87:00.0", "0000:88:00.0", "0000:89:00.0"],
        "vendor": "amd", "device": "1002:7551", "card": "AMD 1002:7551", "host": "intel",
        "numa": 1, "root": "pci0000:80", "driver": "amdgpu", "runtime": "active",
        "stars": 3, "unread": {},
    }  # fmt: skip


def test_a_slot_that_trained_to_gen1_before_the_driver_is_gen1_for_every_witness(bench):
    card = bench["05:00.0"]
    card.trained(1, 16)
    reading = read(card)
    assert links(reading) == {
        s.STARRED: (2.5, 16), s.PORT: (2.5, 16), s.CARD: (2.5, 16), s.FUNCTION: (32.0, 16),
    }  # fmt: skip
    assert reading.facts["rows"][-1] == "2: 2.5GT/s, x16 1143Mhz *"


def test_a_link_that_fell_under_the_driver_has_no_star_and_gpu_metrics_speaks(bench):
    card = bench["86:00.0"]
    card.fell(3, 4)
    reading = read(card)
    assert links(reading) == {
        s.PORT: (8.0, 4), s.CARD: (8.0, 4), s.METRICS: (8.0, 4), s.FUNCTION: (32.0, 16),
    }  # fmt: skip
    assert reading.facts["stars"] == 0
    assert unread(reading) == {s.STARRED: "no starred row"}


def test_gpu_metrics_is_not_read_where_a_row_is_starred(bench):
    read(bench["05:00.0"])
    assert not [path for path in OPENED if path.endswith("gpu_metrics")]


def test_a_starred_row_without_a_speed_keeps_its_width_and_gpu_metrics_is_asked(bench):
    card = bench["05:00.0"]
    card.write("pp_dpm_pcie", "0: 2.5GT/s, x16 250Mhz \n1:  x16 1143Mhz *\n")
    card.write("gpu_metrics", gpu_metrics(320, 16))
    reading = read(card)
    assert links(reading)[s.STARRED] == (None, 16)
    assert links(reading)[s.METRICS] == (32.0, 16)


def test_starred_rows_that_differ_are_marked(bench):
    card = bench["05:00.0"]
    card.write("pp_dpm_pcie", "0: 2.5GT/s, x16 250Mhz *\n1: 8.0GT/s, x16 1143Mhz *\n")
    reading = read(card)
    assert links(reading)[s.STARRED] == (2.5, 16)
    assert reading.facts["ambiguous"] is True


def test_6655_bad_packets_at_the_root_port_are_counted_there_and_nowhere_else(bench):
    card = bench["05:00.0"]
    card.errors(card.slot, "correctable", BadTLP=6655)
    told = levels(read(card))
    assert told["pcie_correctable 0000:00:02.0 BadTLP"] == 6655
    assert told["pcie_correctable 0000:00:02.0 TOTAL"] == 6655
    assert sum(value for name, value in told.items() if name.startswith(s.CORRECTABLE)) == 2 * 6655


def test_every_device_of_the_chain_is_asked_for_its_errors(bench):
    card = bench["05:00.0"]
    for i, address in enumerate(card.chain):
        card.errors(address, "correctable", Timeout=1 + i)
        card.errors(address, "nonfatal", CmpltTO=10 + i)
        card.errors(address, "fatal", DLP=100 + i)
    told = levels(read(card))
    for i, address in enumerate(card.chain):
        assert told[f"pcie_correctable {address} Timeout"] == 1 + i
        assert told[f"pcie_nonfatal {address} CmpltTO"] == 10 + i
        assert told[f"pcie_fatal {address} DLP"] == 100 + i


def test_a_card_that_is_gone_gives_no_answer(bench):
    card = bench["86:00.0"]
    gpu = next(gpu for gpu in gpus(Tree(bench.root)) if gpu.address == card.address)
    card.gone()
    with pytest.raises(NoAnswer, match="0000:86:00.0 is no longer on the PCI bus"):
        PcieSysfs(gpu.slot, gpu, Tree(bench.root)).read({}, 0.0)
    assert links(read(bench["89:00.0"]))[s.CARD] == (8.0, 16), "its neighbour is read as before"


# --- files that fail -----------------------------------------------------------------------------

ERRORS = ["EPERM", "EBUSY", "EINVAL", "ENODATA", "ENODEV", "EIO", "EACCES"]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("file", "who"), [("pp_dpm_pcie", s.STARRED), ("gpu_busy_percent", s.UTILISATION)]
)
def test_a_file_of_the_driver_that_fails_costs_only_itself(bench, error, file, who):
    card = bench["05:00.0"]
    whole = levels(read(card))
    card.fails(file, error)
    reading = read(card)
    assert unread(reading) == {who: error}
    lost = {name for name in whole if name not in levels(reading)}
    assert lost == {
        s.STARRED: {"link_speed_starred", "link_width_starred"}, s.UTILISATION: {"utilisation"},
    }[who]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("file", ["current_link_speed", "current_link_width"])
def test_a_link_file_that_fails_silences_that_end_alone(bench, error, file):
    card = bench["05:00.0"]
    card.fails(file, error, at=card.slot)
    reading = read(card)
    assert set(links(reading)) == {s.STARRED, s.CARD, s.FUNCTION}
    assert unread(reading) == {s.PORT: error}


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_counter_that_fails_is_told_by_its_device_and_file(bench, error):
    card = bench["05:00.0"]
    card.fails("aer_dev_fatal", error, at="0000:03:00.0")
    reading = read(card)
    assert unread(reading) == {"0000:03:00.0 aer_dev_fatal": error}
    assert "pcie_nonfatal 0000:03:00.0 DLP" in levels(reading)
    assert "pcie_fatal 0000:03:00.0 DLP" not in levels(reading)


def test_a_kernel_without_aer_has_no_counters_and_says_so(bench):
    card = bench["05:00.0"]
    for address in card.chain:
        for word in bench_tree.TOTALS:
            card.lacks(f"aer_dev_{word}", at=address)
    reading = read(card)
    assert not [name for name in levels(reading) if name.startswith("pcie_")]
    assert unread(reading) == {
        f"{address} aer_dev_{word}": "absent"
        for address in card.chain
        for word in bench_tree.TOTALS
    }


def test_counters_without_sense_are_told(bench):
    card = bench["05:00.0"]
    card.write("aer_dev_fatal", "what?\n", at=card.slot)
    assert unread(read(card)) == {"0000:00:02.0 aer_dev_fatal": "not understood"}


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "empty"), ("\n", "empty"), ("unavailable\n", "unavailable"), ("?\n", "not understood")],
)
def test_a_table_that_says_nothing_is_told_and_gpu_metrics_speaks(bench, text, why):
    card = bench["05:00.0"]
    card.write("pp_dpm_pcie", text)
    reading = read(card)
    assert unread(reading) == {s.STARRED: why}
    assert links(reading)[s.METRICS] == (8.0, 16)


def test_without_table_and_metrics_both_are_told(bench):
    card = bench["05:00.0"]
    card.lacks("pp_dpm_pcie")
    card.lacks("gpu_metrics")
    assert unread(read(card)) == {s.STARRED: "absent", s.METRICS: "absent"}


def test_metrics_of_an_unknown_layout_are_told(bench):
    card = bench["05:00.0"]
    card.lacks("pp_dpm_pcie")
    card.write("gpu_metrics", gpu_metrics(80, 16, (1, 9)))
    assert unread(read(card))[s.METRICS] == "unknown layout v1.9"


@pytest.mark.parametrize("width", ["0", "63", "255"])
def test_a_dead_link_has_no_speed(bench, width):
    card = bench["05:00.0"]
    card.write("current_link_width", f"{width}\n", at=card.end)
    reading = read(card)
    assert s.CARD not in links(reading)
    assert unread(reading) == {s.CARD: f"link down (width {width})"}


@pytest.mark.parametrize(
    ("text", "value"), [("0\n", 0.0), ("100\n", 100.0), ("101\n", None), ("-1\n", None), ("", None)]
)
def test_busy_is_a_percentage_or_nothing(bench, text, value):
    card = bench["05:00.0"]
    card.write("gpu_busy_percent", text)
    reading = read(card)
    assert levels(reading).get(s.UTILISATION) == value
    assert (s.UTILISATION in unread(reading)) == (value is None)


@pytest.mark.parametrize(("text", "node"), [("0\n", 0), ("3\n", 3), ("-1\n", None), ("", None)])
def test_the_numa_node_minus_one_is_no_node(bench, text, node):
    card = bench["05:00.0"]
    card.write("numa_node", text)
    assert read(card).facts["numa"] == node


@pytest.mark.parametrize("error", ERRORS)
def test_a_numa_node_that_cannot_be_read_is_no_node(bench, error):
    card = bench["05:00.0"]
    card.fails("numa_node", error)
    assert read(card).facts["numa"] is None


# --- asleep --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["suspended", "suspending"])
def test_nothing_that_may_wake_a_sleeping_card_is_read(bench, state):
    card = bench["05:00.0"]
    card.write("power/runtime_status", f"{state}\n")
    reading = read(card)
    opened = {path.partition("/")[2] for path in OPENED if path.startswith(card.address)}
    assert opened == {
        "power/runtime_status", "numa_node", "uevent",
        "aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal",
    }  # fmt: skip
    assert reading.facts["runtime"] == state
    assert set(unread(reading)) == {s.STARRED, s.METRICS, s.UTILISATION, s.FUNCTION}
    assert set(unread(reading).values()) == {"suspended: a read would wake it"}


def test_a_sleeping_port_is_not_asked_for_its_link(bench):
    card = bench["05:00.0"]
    card.suspended()
    for address in card.chain:
        card.write("power/runtime_status", "suspended\n", at=address)
    assert links(read(card)) == {}
    assert not [path for path in OPENED if "current_link" in path]


@pytest.mark.parametrize("state", ["active", "resuming", "unsupported", "error"])
def test_a_card_in_any_other_state_is_read(bench, state):
    card = bench["05:00.0"]
    card.write("power/runtime_status", f"{state}\n")
    assert s.STARRED in links(read(card))


def test_without_a_power_state_the_card_is_read(bench):
    card = bench["05:00.0"]
    card.lacks("power/runtime_status")
    reading = read(card)
    assert reading.facts["runtime"] == "unknown"
    assert s.STARRED in links(reading)


def test_the_bandwidth_file_that_blocks_is_never_opened(bench):
    card = bench["05:00.0"]
    os.mkfifo(card.folder() / "pcie_bw")
    card.fell(1, 16)
    read(card)
    assert not [path for path in OPENED if path.endswith("pcie_bw")]


# --- other cards and hosts -----------------------------------------------------------------------


def test_a_geforce_is_the_slots_other_end_itself_and_has_no_files_of_amdgpu(tmp_path):
    reading = read(bench_tree.geforce(Bench(tmp_path)))
    assert links(reading) == {s.PORT: (8.0, 16), s.CARD: (8.0, 16)}
    assert unread(reading) == {}
    assert (reading.facts["card"], reading.facts["driver"]) == ("NVIDIA 10de:2204", "nvidia")
    assert reading.facts["switch"] is False


def test_of_polaris_the_starred_width_is_no_evidence(tmp_path):
    card = bench_tree.polaris(Bench(tmp_path))
    card.linked(3, 4)
    reading = read(card)
    assert links(reading) == {s.STARRED: (8.0, None), s.PORT: (8.0, 4), s.CARD: (8.0, 4)}
    assert reading.facts["stars"] == 1


def test_behind_a_switch_of_the_board_the_links_above_it_are_a_witness_too(tmp_path):
    card, neighbour = bench_tree.behind_board_switch(Bench(tmp_path))
    assert links(read(card)) == {s.PORT: (8.0, 16), s.CARD: (8.0, 16), s.PATH: (8.0, 16)}
    card.bench.link(card.folder("0000:03:00.0"), 1, 8)  # the switch's own way to the root port
    for each in (card, neighbour):
        told = links(read(each))
        assert told == {s.PORT: (8.0, 16), s.CARD: (8.0, 16), s.PATH: (2.5, 8)}


def test_one_end_of_a_link_above_speaks_for_it_and_the_other_is_told(tmp_path):
    card, _ = bench_tree.behind_board_switch(Bench(tmp_path))
    card.fails("current_link_speed", "EINVAL", at="0000:00:03.0")
    reading = read(card)
    assert links(reading)[s.PATH] == (8.0, 16)
    assert unread(reading) == {"path 0000:00:03.0": "EINVAL"}


def test_without_a_switch_of_the_board_there_is_no_path(bench):
    assert s.PATH not in links(read(bench["05:00.0"]))


@pytest.mark.parametrize(
    ("port", "host"), [("8086:6f08", "intel"), ("1022:1483", "amd"), ("1b36:000c", "other")]
)
def test_the_host_is_known_by_its_root_port(tmp_path, port, host):
    card = bench_tree.r9700(Bench(tmp_path), f"0000:00:03.0 {port}", 0x03, numa=0)
    assert read(card).facts["host"] == host


def test_on_an_amd_host_the_star_follows_the_link(tmp_path):
    card = bench_tree.on_amd_host(Bench(tmp_path))
    reading = read(card)
    assert reading.facts["host"] == "amd"
    assert links(reading)[s.STARRED] == (16.0, 16)
    card.write("pp_dpm_pcie", "0: 2.5GT/s, x16 250Mhz *\n1: 16.0GT/s, x16 1143Mhz \n")
    assert links(read(card))[s.STARRED] == (2.5, 16)


def test_a_card_on_the_root_bus_has_no_port_and_its_host_is_that_of_the_host_bridge(tmp_path):
    bench = Bench(tmp_path)
    bench.device(tmp_path / "devices/pci0000:00/0000:00:00.0", "1022:1480", "bridge")
    card = bench.card("0000:00:05.0 1002:67df", numa=0)
    reading = read(card)
    assert reading.facts["slot"] == "0000:00:05.0"
    assert reading.facts["host"] == "amd"
    assert s.PORT not in links(reading)
    assert links(reading)[s.CARD] == (8.0, 16)


def test_a_card_given_to_a_virtual_machine_has_links_and_no_files_of_amdgpu(tmp_path):
    card = Bench(tmp_path).card(
        "0000:00:03.0 8086:6f08", "0000:03:00.0 1002:1478", "0000:04:00.0 1002:1479",
        "0000:05:00.0 1002:7551", numa=0, driver="vfio-pci",
    )  # fmt: skip
    reading = read(card)
    assert reading.facts["driver"] == "vfio-pci"
    assert set(links(reading)) == {s.PORT, s.CARD, s.FUNCTION}
    assert unread(reading) == dict.fromkeys((s.STARRED, s.METRICS, s.UTILISATION), "absent")


def test_a_card_without_a_driver_says_none(bench):
    card = bench["05:00.0"]
    card.driven_by("")
    assert read(card).facts["driver"] is None
