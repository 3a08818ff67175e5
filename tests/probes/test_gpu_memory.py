"""Bytes in use and who holds them, from a made-up /sys and /proc."""

from __future__ import annotations

import sys as python
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.proc_tree import Proc, card, drm, kfd, write
from watchdog.domain import series as s
from watchdog.domain.sample import NO_FACTS, Reading
from watchdog.errors import NoAnswer, NotUnderstood
from watchdog.pci import gpus
from watchdog.probes import gpu_memory
from watchdog.probes.gpu_memory import LITTLE, GpuMemory
from watchdog.tree import Tree

GPU = "0000:05:00.0"
GIB = 2**30


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    root = tmp_path / "sys"
    card(root, GPU, mem_info_vram_total=f"{32 * GIB}\n", mem_info_vram_used=f"{20 * GIB}\n")
    return root


def read(sys: Path, proc: Proc, *, library: bool = False) -> Reading:
    tree = Tree(sys)
    (gpu,) = gpus(tree)
    probe = GpuMemory(gpu.slot, gpu, tree, proc.root, library)
    return probe.read(NO_FACTS, time.monotonic() + 1000)


def test_bytes_are_read_and_belong_to_the_slot(sys: Path, proc: Proc) -> None:
    found = read(sys, proc)
    assert {x.series: x.value for x in found.samples} == {
        s.MEMORY_USED: 20.0 * GIB,
        s.MEMORY_TOTAL: 32.0 * GIB,
    }
    assert {x.subject for x in found.samples} == {(("slot", "0000:00:01.0"),)}
    assert (found.slot, found.target) == ("0000:00:01.0", "")
    assert found.facts["memory_by"] == "sysfs"


def test_holders_are_named_where_they_are_known(sys: Path, proc: Proc) -> None:
    kfd(sys, {4001: GPU}, {500: {4001: GIB}, 501: {4001: GIB}})
    proc.add(500)
    found = read(sys, proc).facts
    assert (found["holders"], found["holders_gone"]) == ([500], [501])


def test_nobody_is_an_empty_list(sys: Path, proc: Proc) -> None:
    kfd(sys, {4001: GPU}, {})
    assert read(sys, proc).facts["holders"] == []


def test_unknown_holders_have_a_reason_and_no_list(sys: Path, proc: Proc) -> None:
    found = read(sys, proc).facts
    assert "holders" not in found
    assert "KFD" in str(found["holders_unknown"])


@pytest.mark.parametrize(("used", "searched"), [(LITTLE - 1, False), (LITTLE, True)])
def test_nobodys_files_are_searched_for_a_few_bytes(
    sys: Path, proc: Proc, used: int, searched: bool
) -> None:
    kfd(sys, {4001: GPU}, {})
    proc.add(600, opens=[("/dev/dri/renderD128", drm(GPU, 1024))])
    write(sys / f"bus/pci/devices/{GPU}/mem_info_vram_used", f"{used}\n")
    assert ("holders" in read(sys, proc).facts) is searched


def test_a_suspended_gpu_is_left_asleep(sys: Path, proc: Proc) -> None:
    write(sys / f"bus/pci/devices/{GPU}/power/runtime_status", "suspended\n")
    found = read(sys, proc)
    assert (found.samples, found.facts) == ((), {"memory_asleep": True})
    write(sys / f"bus/pci/devices/{GPU}/power/runtime_status", "active\n")
    assert read(sys, proc).samples


def test_a_read_that_fails_is_told_by_its_name(sys: Path, proc: Proc) -> None:
    place = sys / f"bus/pci/devices/{GPU}"
    (place / "mem_info_vram_used").unlink()
    with pytest.raises(NoAnswer, match="mem_info_vram_used: ENOENT"):
        read(sys, proc)
    write(place / "mem_info_vram_used.errno", "EBUSY\n")
    with pytest.raises(NoAnswer, match="EBUSY"):
        read(sys, proc)


@pytest.mark.parametrize("text", ["", "\n", "-1\n", "lots\n", "1 2\n", "\u0661\n"])
def test_what_is_no_number_is_not_understood(sys: Path, proc: Proc, text: str) -> None:
    write(sys / f"bus/pci/devices/{GPU}/mem_info_vram_total", text)
    with pytest.raises(NotUnderstood, match="no number of bytes"):
        read(sys, proc)


def test_the_library_is_only_asked_for(sys: Path, proc: Proc, monkeypatch) -> None:
    monkeypatch.setitem(python.modules, "pyamdgpuinfo", None)  # as if it were not installed
    gpu_memory._device.cache_clear()
    assert read(sys, proc).facts["memory_by"] == "sysfs"
    with pytest.raises(NoAnswer, match="not installed"):
        read(sys, proc, library=True)


def test_the_library_is_believed_for_the_right_card(sys: Path, proc: Proc, monkeypatch) -> None:
    def device(address: str, used: int) -> SimpleNamespace:
        memory = {"vram_size": 32 * GIB, "gtt_size": GIB}
        return SimpleNamespace(pci_slot=address, memory_info=memory, query_vram_usage=lambda: used)

    cards = [device("0000:89:00.0", 1), device(GPU, 7 * GIB)]
    library = SimpleNamespace(detect_gpus=lambda: len(cards), get_gpu=cards.__getitem__)
    monkeypatch.setitem(python.modules, "pyamdgpuinfo", library)
    gpu_memory._device.cache_clear()
    found = read(sys, proc, library=True)
    assert found.samples[0].value == 7.0 * GIB
    assert found.facts["memory_by"] == "pyamdgpuinfo"
    cards.pop()
    gpu_memory._device.cache_clear()
    with pytest.raises(NoAnswer, match="does not know"):
        read(sys, proc, library=True)
    gpu_memory._device.cache_clear()
