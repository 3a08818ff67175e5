"""Who holds which GPU: named only where it is certain, and "nobody" only after a whole search."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.proc_tree import Proc, drm, kfd, write
from watchdog.holders import LEAST, Held, Own, held_by, holders_of, open_memory
from watchdog.kfd import kfd_gpus, kfd_memory
from watchdog.processes import files
from watchdog.tree import Tree

ONE, TWO = "0000:05:00.0", "0000:89:00.0"
IDS = {4001: ONE, 4002: TWO}
LATER = time.monotonic() + 1000.0
GIB = 2**30
RENDER = "/dev/dri/renderD128"


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    return tmp_path / "sys"


def held(proc: Proc, sys: Path, address: str = ONE, **how: bool) -> Held:
    return holders_of(address, Tree(sys), proc.root, LATER, **how)


def own(proc: Proc, sys: Path, pids: list[int], vendor: str = "amd") -> Own:
    return held_by(pids, dict.fromkeys((ONE, TWO), vendor), Tree(sys), proc.root, LATER)


def test_kfd_names_its_gpus_by_address(sys: Path) -> None:
    kfd(sys, {7: "0001:c3:1f.5"}, {})
    assert kfd_gpus(Tree(sys)) == {7: "0001:c3:1f.5"}


def test_kfd_names_who_holds_a_gpu(proc: Proc, sys: Path) -> None:
    proc.add(500)
    kfd(sys, IDS, {500: {4001: GIB, 4002: 0}})
    assert held(proc, sys) == Held(frozenset({500}))


def test_a_process_that_only_opened_a_gpu_does_not_hold_it(proc: Proc, sys: Path) -> None:
    proc.add(500)
    kfd(sys, IDS, {500: {4001: GIB, 4002: 0}})
    assert held(proc, sys, TWO) == Held(frozenset())


def test_further_contexts_of_a_process_count(proc: Proc, sys: Path) -> None:
    proc.add(500)
    kfd(sys, IDS, {500: {4001: 0}})
    write(sys / "class/kfd/kfd/proc/500/context_1/vram_4001", f"{GIB}\n")
    assert kfd_memory(Tree(sys)) == {500: {ONE: GIB}}
    assert held(proc, sys).pids == {500}


def test_a_book_that_cannot_be_read_counts_as_held(proc: Proc, sys: Path) -> None:
    proc.add(500)
    kfd(sys, IDS, {500: {}})
    write(sys / "class/kfd/kfd/proc/500/vram_4001", "soon\n")
    assert held(proc, sys).pids == {500}


def test_a_process_that_ended_holds_nothing_any_more(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {500: {4001: GIB}})
    assert held(proc, sys) == Held(frozenset(), gone=frozenset({500}))


def test_a_zombie_holds_nothing_any_more(proc: Proc, sys: Path) -> None:
    proc.add(500, state="Z")
    kfd(sys, IDS, {500: {4001: GIB}})
    assert held(proc, sys) == Held(frozenset(), gone=frozenset({500}))


def test_a_zombie_whose_threads_still_run_holds_what_it_held(proc: Proc, sys: Path) -> None:
    proc.add(500, state="Z", threads=2)
    kfd(sys, IDS, {500: {4001: GIB}})
    assert held(proc, sys) == Held(frozenset({500}))


def test_in_a_container_no_process_is_called_gone(tmp_path: Path, sys: Path) -> None:
    proc = Proc(tmp_path / "inner", "pid:[4026532000]")
    kfd(sys, IDS, {500: {4001: GIB}})
    assert held(proc, sys) == Held(frozenset({500}))


def test_in_a_container_nobody_is_no_answer(tmp_path: Path, sys: Path) -> None:
    proc = Proc(tmp_path / "inner", "pid:[4026532000]")
    kfd(sys, IDS, {})
    found = held(proc, sys)
    assert found.pids is None
    assert "namespace" in found.why


def test_where_processes_are_hidden_nobody_is_no_answer(proc: Proc, sys: Path) -> None:
    (proc.root / "1/stat").unlink()
    kfd(sys, IDS, {})
    found = held(proc, sys)
    assert found.pids is None
    assert "hidden" in found.why


def test_a_graphics_program_holds_a_gpu_without_kfd_knowing(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {})
    proc.add(600, opens=[("/dev/null", ""), (RENDER, drm(ONE, 2048))])
    assert held(proc, sys) == Held(frozenset({600}))
    assert held(proc, sys, TWO) == Held(frozenset())


def test_one_that_opened_a_gpu_and_has_nothing_in_it_does_not_hold_it(proc: Proc, sys: Path):
    kfd(sys, IDS, {})
    proc.add(600, opens=[(RENDER, drm(ONE, 0))])
    assert held(proc, sys) == Held(frozenset())


def test_where_the_kernel_does_not_tell_how_much_it_counts_as_held(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {})
    proc.add(600, opens=[(RENDER, drm(ONE, None))])
    assert held(proc, sys).pids == {600}


def test_open_files_that_may_not_be_read_are_no_no(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {})
    proc.add(600)
    proc.blind(600)
    found = held(proc, sys)
    assert found.pids is None
    assert "1 process(es) may not be read" in found.why


def test_a_holder_counts_although_others_may_not_be_read(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {})
    proc.add(600)
    proc.blind(600)
    proc.add(601, opens=[(RENDER, drm(ONE, 1))])
    assert held(proc, sys) == Held(frozenset({601}))


def test_threads_of_the_kernel_and_zombies_are_not_asked(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {})
    proc.add(2, flags=0x208040)
    proc.add(3, state="Z")
    proc.blind(2)
    proc.blind(3)
    assert held(proc, sys) == Held(frozenset())


def test_without_kfd_nobody_is_no_answer(proc: Proc, sys: Path) -> None:
    found = held(proc, sys)
    assert found.pids is None
    assert "ENOENT" in found.why


def test_a_gpu_that_kfd_does_not_know_is_no_answer(proc: Proc, sys: Path) -> None:
    kfd(sys, {4001: ONE}, {})
    assert held(proc, sys, TWO) == Held(None, "KFD does not know this GPU")


def test_without_a_search_nobody_is_no_answer(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {})
    found = held(proc, sys, search=False)
    assert found.pids is None
    assert "not searched" in found.why


def test_a_search_that_ran_out_of_time_is_no_answer(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {})
    found = holders_of(ONE, Tree(sys), proc.root, time.monotonic() - 1)
    assert found.pids is None
    assert "no time" in found.why


def test_several_files_of_one_client_are_not_added_up(proc: Proc) -> None:
    xe = "drm-driver:\txe\ndrm-pdev:\t0000:03:00.0\ndrm-total-vram0:\t24 MiB\n"
    proc.add(600, opens=[(RENDER, drm(ONE, 8)), ("/dev/dri/card1", drm(ONE, 4)), (RENDER, xe)])
    assert open_memory(proc.root, 600) == {ONE: 8192, "0000:03:00.0": 24 * 2**20}


def test_processes_hold_the_gpus_on_which_they_have_memory(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {500: {4001: GIB, 4002: LEAST - 1}, 501: {4001: GIB}, 9: {4002: GIB}})
    assert own(proc, sys, [500, 501]) == Own({ONE: frozenset({500, 501})})
    assert own(proc, sys, [500, 9]) == Own({ONE: frozenset({500}), TWO: frozenset({9})})


def test_a_runtimes_few_bytes_are_no_use_of_a_gpu_and_more_are(proc: Proc, sys: Path) -> None:
    kfd(sys, IDS, {500: {4001: LEAST, 4002: LEAST - 1}})
    assert own(proc, sys, [500]) == Own({ONE: frozenset({500})})


def test_processes_without_kfd_are_asked_for_their_open_files(proc: Proc, sys: Path) -> None:
    proc.add(500, opens=[(RENDER, drm(TWO, 2**20))])
    assert own(proc, sys, [500]) == Own({TWO: frozenset({500})})
    proc.blind(500)
    assert own(proc, sys, [500]).gpus is None


def test_in_a_container_whose_numbers_differ_nothing_is_said(tmp_path: Path, sys: Path) -> None:
    proc = Proc(tmp_path / "inner", "pid:[4026532000]")
    kfd(sys, IDS, {500: {4001: GIB}})
    assert own(proc, sys, [500]).gpus is None


def test_one_open_nvidia_gpu_is_held(proc: Proc, sys: Path) -> None:
    proc.nvidia(ONE, TWO)
    proc.add(500, opens=[("/dev/nvidiactl", ""), ("/dev/nvidia1", ""), ("/dev/nvidia-uvm", "")])
    assert own(proc, sys, [500], "nvidia") == Own({TWO: frozenset({500})})


def test_all_nvidia_gpus_open_may_be_a_question_to_nvml(proc: Proc, sys: Path) -> None:
    proc.nvidia(ONE, TWO)
    proc.add(500, opens=[("/dev/nvidia0", ""), ("/dev/nvidia1", "")])
    found = own(proc, sys, [500], "nvidia")
    assert found.gpus is None
    assert "NVML" in found.why


def test_nvidia_files_that_may_not_be_read_are_no_no(proc: Proc, sys: Path) -> None:
    proc.nvidia(ONE)
    proc.add(500)
    assert own(proc, sys, [500], "nvidia") == Own({})
    proc.blind(500)
    assert own(proc, sys, [500], "nvidia").gpus is None


def test_on_a_host_with_cards_of_two_vendors_a_found_one_decides(proc: Proc, sys: Path) -> None:
    kfd(sys, {4001: ONE}, {500: {4001: GIB}})
    vendors = {ONE: "amd", TWO: "nvidia"}
    found = held_by([500], vendors, Tree(sys), proc.root, LATER)
    assert found == Own({ONE: frozenset({500})})
    nothing = held_by([501], vendors, Tree(sys), proc.root, LATER)
    assert nothing.gpus is None


def test_open_files_of_a_real_process_are_seen(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        names = dict(files(Path("/proc"), os.getpid()))
        assert names[str(file.fileno())] == str(tmp_path / "open")
    assert open_memory(Path("/proc"), os.getpid()) == {}
