"""The architecture and the driver of a host's GPUs, where they are told and where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proc_tree import Proc, card, write
from watchdog.launch_gpus import gpu_facts
from watchdog.tree import Tree

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (dvs@x)\n"
    "GCC version:  gcc version 12.2.0\n"
)
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    return tmp_path / "sys"


def radeon(sys: Path) -> None:
    node = sys / "class/kfd/kfd/topology/nodes/1/properties"
    write(node, "simd_count 64\ngfx_target_version 120001\n")


def told(proc: Proc, sys: Path) -> tuple[dict[str, str], dict[str, str]]:
    unread: dict[str, str] = {}
    return gpu_facts(Tree(sys), proc.root, unread), unread


def test_a_host_without_gpus_tells_nothing_and_lacks_nothing(proc: Proc, sys: Path) -> None:
    assert told(proc, sys) == ({}, {})


def test_amds_own_module_has_a_version_and_the_kernels_has_the_kernels(
    proc: Proc, sys: Path
) -> None:
    radeon(sys)
    write(proc.root / "sys/kernel/osrelease", "7.1.5-p2p\n")
    arch = {"arch": "gfx1201"}
    assert told(proc, sys) == ({**arch, "driver": "amdgpu of kernel 7.1.5-p2p"}, {})
    write(sys / "module/amdgpu/version", "6.12.12\n")
    assert told(proc, sys) == ({**arch, "driver": "amdgpu 6.12.12"}, {})


@pytest.mark.parametrize("text", ["", "../../x", "1" * 100])
def test_what_is_no_version_is_not_told_and_said(proc: Proc, sys: Path, text: str) -> None:
    radeon(sys)
    write(sys / "module/amdgpu/version", text)
    found, unread = told(proc, sys)
    assert found == {"arch": "gfx1201"}
    assert "no version" in unread["gpu driver"]


@pytest.mark.parametrize(("text", "version"), [(OPEN, "570.86.10"), (CLOSED, "550.54.14")])
def test_nvidias_model_stands_for_its_architecture(
    proc: Proc, sys: Path, text: str, version: str
) -> None:
    for address in ("0000:05:00.0", "0000:06:00.0"):
        card(sys, address, vendor="0x10de")
        where = proc.root / f"driver/nvidia/gpus/{address}/information"
        write(where, "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 17\n")
    write(proc.root / "driver/nvidia/version", text)
    assert told(proc, sys) == (
        {"arch": "NVIDIA H100 80GB HBM3", "driver": f"nvidia {version}"},
        {},
    )


def test_a_card_whose_model_is_not_told_is_missing(proc: Proc, sys: Path) -> None:
    card(sys, "0000:05:00.0", vendor="0x10de")
    assert "NVIDIA" in told(proc, sys)[1]["gpu"]
    write(proc.root / "driver/nvidia/version", "what")
    assert "no version" in told(proc, sys)[1]["gpu driver"]
