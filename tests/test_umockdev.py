"""The probes on a faked /sys: other paths, other files, and the product does not know."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench_tree import Bench, behind_board_switch, seeds_bench, umockdev

pytestmark = pytest.mark.skipif(
    shutil.which("umockdev-run") is None, reason="Debian's package umockdev is not installed"
)

READ = """
import json
from watchdog.pci import gpus
from watchdog.probes.gpus import Gpus
from watchdog.probes.pcie_sysfs import PcieSysfs
from watchdog.tree import Tree

tree = Tree()
told = {"census": dict(Gpus(tree).read({}, 0.0).facts)}
for gpu in gpus(tree):
    reading = PcieSysfs(gpu.slot, gpu, tree).read({}, 0.0)
    told[gpu.address] = {
        "facts": dict(reading.facts),
        "levels": {sample.series: sample.value for sample in reading.samples},
    }
print(json.dumps(told))
"""


CONFIG = """
targets: []
interval: 1s
gpus:
  sysfs: {sysfs}
  slots:
    "0000:05:00.0": {{generation: 3, width: 16}}
    "0000:09:00.0": {{generation: 3, width: 8, note: bifurcated}}
    "0000:86:00.0": {{generation: 3, width: 16}}
    "0000:89:00.0": {{generation: 3, width: 16}}
"""


def run(bench: Bench, *command: str, code: int = 0) -> str:
    """Run a command for which /sys is the bench; return what it printed."""
    described = bench.root.with_suffix(".umockdev")
    described.write_text(umockdev(bench.root))
    argv = ["umockdev-run", "--device", str(described), "--", *command]
    return output(*argv, code=code)


def output(*argv: str, code: int) -> str:
    root = Path(__file__).parent.parent
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=root, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


def read(bench: Bench) -> dict[str, dict[str, dict[str, object]]]:
    return json.loads(run(bench, sys.executable, "-c", READ))


def test_the_seeds_bench_is_read_from_sys_itself(tmp_path):
    bench = seeds_bench(tmp_path / "sys")
    bench["05:00.0"].trained(1, 16)
    bench["86:00.0"].fell(3, 4)
    bench["89:00.0"].errors("0000:80:03.0", "correctable", BadTLP=6655)
    told = read(bench)
    slots = [gpu["slot"] for gpu in told["census"]["gpus"]]
    assert slots == ["0000:00:02.0", "0000:00:03.0", "0000:80:02.0", "0000:80:03.0"]
    links = {
        address: (seen["levels"].get("link_speed_port"), seen["levels"].get("link_width_port"))
        for address, seen in told.items()
        if address != "census"
    }
    assert links == {
        "0000:05:00.0": (2.5, 16), "0000:09:00.0": (8.0, 8),
        "0000:86:00.0": (8.0, 4), "0000:89:00.0": (8.0, 16),
    }  # fmt: skip
    assert told["0000:05:00.0"]["levels"]["link_speed_starred"] == 2.5
    assert told["0000:86:00.0"]["levels"]["link_width_metrics"] == 4
    assert told["0000:86:00.0"]["facts"]["unread"] == {"starred": "no starred row"}
    assert told["0000:89:00.0"]["levels"]["pcie_correctable 0000:80:03.0 BadTLP"] == 6655
    assert told["0000:89:00.0"]["facts"]["numa"] == 1
    assert told["0000:89:00.0"]["facts"]["driver"] == "amdgpu"


def test_a_tree_and_the_same_tree_as_sys_are_read_alike(tmp_path):
    from watchdog.pci import gpus  # noqa: PLC0415
    from watchdog.probes.pcie_sysfs import PcieSysfs  # noqa: PLC0415
    from watchdog.tree import Tree  # noqa: PLC0415

    bench = Bench(tmp_path / "sys")
    behind_board_switch(bench)
    tree = Tree(bench.root)
    told = read(bench)
    found = gpus(tree)
    assert len(found) == 2
    for gpu in found:
        reading = PcieSysfs(gpu.slot, gpu, tree).read({}, 0.0)
        seen = told[gpu.address]
        assert seen["facts"] == dict(reading.facts)
        assert seen["levels"] == {sample.series: sample.value for sample in reading.samples}


def test_a_host_without_gpus_is_read_as_such(tmp_path):
    bench = Bench(tmp_path / "sys")
    bench.device(bench.root / "devices/pci0000:00/0000:00:1f.0", "8086:8d44", "bridge")
    assert read(bench) == {"census": {"gpus": [], "pci": True, "pci_unread": []}}


@pytest.mark.parametrize("command", ["check", "links"])
def test_the_real_command_says_the_same_of_sys_and_of_the_tree(tmp_path, command):
    bench = seeds_bench(tmp_path / "sys")
    bench["05:00.0"].trained(1, 16)
    bench["86:00.0"].gone()
    said = []
    for sysfs in ("/sys", str(bench.root)):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(sysfs=sysfs))
        argv = [sys.executable, "-m", "watchdog", command, "--json", "--config", str(config)]
        faked = sysfs == "/sys"
        report = json.loads(run(bench, *argv, code=2) if faked else output(*argv, code=2))
        said.append([(f["alertname"], f["verdict"], f["summary"]) for f in report["findings"]])
    assert said[0] == said[1]
    bad = {(name, verdict) for name, verdict, _ in said[0] if verdict not in ("OK", "UNKNOWN")}
    assert bad == {("GpuLinkDegraded", "WARNING"), ("GpuMissing", "CRITICAL")}
