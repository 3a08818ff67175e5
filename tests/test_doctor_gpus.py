"""What `doctor` says of GPUs: what each source shows and cannot, over made-up trees."""

from __future__ import annotations

import pytest

from tests.bench_tree import Bench, geforce, seeds_bench
from watchdog.doctor_gpus import gpu_steps
from watchdog.settings import Settings


def lines_of(root, slots=None):
    gpus = {"sysfs": str(root), "slots": slots or {}}
    settings = Settings.model_validate({"targets": [], "gpus": gpus})
    return {line.what: line for _, step in gpu_steps(settings, 2.0) for line in step()}


def test_gpus_that_are_not_declared_are_named_with_the_command_that_proposes(tmp_path):
    seeds_bench(tmp_path)

    line = lines_of(tmp_path, {"0000:00:02.0": {"generation": 3, "width": 16}})["gpus"]

    assert "not declared, so not judged: 0000:09:00.0, 0000:86:00.0, 0000:89:00.0" in line.detail
    assert (line.verdict.name, line.next_step) == ("OK", "watchdog links --propose")


def test_a_file_that_cannot_be_read_is_named_with_its_reason(tmp_path):
    bench = seeds_bench(tmp_path)
    bench["05:00.0"].fails("pp_dpm_pcie", "EPERM")

    lines = lines_of(tmp_path)

    assert "starred (EPERM)" in lines["pcie_sysfs 0000:00:02.0"].detail
    assert "not told" not in lines["pcie_sysfs 0000:00:03.0"].detail
    assert "who holds its memory" in lines["gpu_memory 0000:00:02.0"].detail


def test_a_source_that_is_not_there_is_unknown_with_its_sentence(tmp_path):
    card = geforce(Bench(tmp_path))

    line = next(v for k, v in lines_of(tmp_path).items() if k.startswith("nvml"))

    assert line.verdict.name == "UNKNOWN", card
    assert "libnvidia-ml.so.1" in line.detail


@pytest.mark.parametrize(("slots", "verdict"), [(False, "OK"), (True, "UNKNOWN")])
def test_a_host_without_a_pci_bus_is_fine_unless_slots_are_declared(tmp_path, slots, verdict):
    declared = {"0000:05:00.0": {"generation": 3, "width": 16}} if slots else {}

    line = lines_of(tmp_path, declared)["gpus"]

    assert line.verdict.name == verdict
    assert "ENOENT" in line.detail


def test_a_host_without_gpus_says_so(tmp_path):
    (tmp_path / "bus/pci/devices").mkdir(parents=True)

    assert lines_of(tmp_path)["gpus"].detail == "no AMD or NVIDIA GPU on the PCI bus"


def test_a_key_that_renumbers_is_told_with_the_one_that_does_not(tmp_path):
    seeds_bench(tmp_path)

    line = lines_of(tmp_path, {"0000:05:00.0": {"generation": 3, "width": 16}})["gpus"]

    assert "0000:05:00.0 is declared by an address that changes" in line.detail
    assert line.next_step == 'write "0000:00:02.0", its port, in its place'
