"""The census of the PCI bus."""

from __future__ import annotations

import json

import pytest

from tests import bench_tree
from tests.bench_tree import Bench, seeds_bench
from watchdog.domain.sample import HOST
from watchdog.pci import Gpu, gpus
from watchdog.probes.gpus import Gpus
from watchdog.tree import Tree


def census(root) -> dict[str, object]:
    reading = Gpus(Tree(root)).read({}, 0.0)
    assert (reading.probe, reading.target, reading.slot) == ("gpus", HOST, "")
    assert not reading.samples
    return dict(reading.facts)


def test_the_seeds_bench_has_four_gpus_in_four_slots(tmp_path):
    seeds_bench(tmp_path)
    facts = census(tmp_path)
    assert facts["pci"] is True
    assert [(gpu["gpu"], gpu["slot"]) for gpu in facts["gpus"]] == [
        ("0000:05:00.0", "0000:00:02.0"),
        ("0000:09:00.0", "0000:00:03.0"),
        ("0000:86:00.0", "0000:80:02.0"),
        ("0000:89:00.0", "0000:80:03.0"),
    ]
    assert facts["gpus"][0] == {
        "gpu": "0000:05:00.0",
        "slot": "0000:00:02.0",
        "chain": ["0000:00:02.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0"],
        "vendor": "amd",
        "device": "1002:7551",
        "root": "pci0000:00",
        "switch": True,
    }


def test_a_card_that_is_gone_is_not_in_the_census(tmp_path):
    bench = seeds_bench(tmp_path)
    bench["86:00.0"].gone()
    assert [gpu["gpu"] for gpu in census(tmp_path)["gpus"]] == [
        "0000:05:00.0", "0000:09:00.0", "0000:89:00.0",
    ]  # fmt: skip


def test_two_cards_behind_a_switch_of_the_board_have_each_its_own_slot(tmp_path):
    bench_tree.behind_board_switch(Bench(tmp_path))
    assert [gpu["slot"] for gpu in census(tmp_path)["gpus"]] == ["0000:04:08.0", "0000:04:10.0"]


def test_a_host_whose_graphics_are_no_gpu_of_ours_has_none(tmp_path):
    bench = Bench(tmp_path)
    bench.device(tmp_path / "devices/pci0000:00/0000:00:02.0", "8086:3e92", "gpu")
    assert census(tmp_path) == {"gpus": [], "pci": True, "pci_unread": []}


@pytest.mark.parametrize("file", ["vendor", "class"])
@pytest.mark.parametrize("odd", ["EIO", "", "0x", "soon"])
def test_a_device_of_which_nothing_can_be_read_may_be_a_gpu(tmp_path, file, odd):
    bench = seeds_bench(tmp_path)
    if odd == "EIO":
        bench["05:00.0"].fails(file, odd)
    else:
        bench["05:00.0"].write(file, odd)

    facts = census(tmp_path)

    assert len(facts["gpus"]) == 3
    assert facts["pci_unread"] == ["0000:05:00.0"]


def test_a_host_without_a_pci_bus_says_so(tmp_path):
    assert census(tmp_path) == {"gpus": [], "pci": False}


def test_a_gpu_that_goes_is_missed_at_once_and_else_the_bus_is_left_alone(tmp_path):
    bench = seeds_bench(tmp_path / "sys")
    probe = Gpus(Tree(tmp_path / "sys"), settled=0.0)
    assert probe.at_once({}) is None
    four = probe.read({}, 0.0)

    assert probe.at_once({}) == four
    bench["09:00.0"].gone()
    assert probe.at_once({}) is None
    assert len(probe.read({}, 0.0).facts["gpus"]) == 3


def test_a_gpu_that_was_removed_and_came_back_at_its_address_is_looked_at_again(tmp_path):
    seeds_bench(tmp_path / "sys")
    probe = Gpus(Tree(tmp_path / "sys"), settled=0.0)
    probe.read({}, 0.0)
    link = tmp_path / "sys/bus/pci/devices/0000:09:00.0"
    target = link.readlink()
    new = link.with_name("new")
    new.symlink_to(target)

    new.replace(link)

    assert probe.at_once({}) is None


def test_a_gpu_that_comes_is_seen_when_the_bus_is_looked_at_again(tmp_path):
    bench = seeds_bench(tmp_path)
    seldom = Gpus(Tree(tmp_path), every=3600.0, settled=0.0)
    always = Gpus(Tree(tmp_path), every=0.0, settled=0.0)
    seldom.read({}, 0.0)
    always.read({}, 0.0)

    bench_tree.geforce(bench)

    assert len(seldom.at_once({}).facts["gpus"]) == 4
    assert always.at_once({}) is None
    assert len(always.read({}, 0.0).facts["gpus"]) == 5


def test_after_a_change_the_bus_is_looked_at_in_each_round(tmp_path):
    """A card that was away for one round must not be missed in the next."""
    seeds_bench(tmp_path)
    probe = Gpus(Tree(tmp_path), every=3600.0, settled=3600.0)
    probe.read({}, 0.0)
    link = tmp_path / "bus/pci/devices/0000:09:00.0"
    target = link.readlink()
    link.unlink()
    assert len(probe.read({}, 0.0).facts["gpus"]) == 3

    link.symlink_to(target)

    assert probe.at_once({}) is None
    assert len(probe.read({}, 0.0).facts["gpus"]) == 4


def test_what_a_census_tells_makes_the_same_gpu_again(tmp_path):
    seeds_bench(tmp_path)
    for gpu in gpus(Tree(tmp_path)):
        assert Gpu.of(json.loads(json.dumps(gpu.as_fact()))) == gpu
