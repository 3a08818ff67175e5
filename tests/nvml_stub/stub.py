"""Builds the stub of libnvidia-ml.so.1 and reads cards through it in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("nvml_stub.c")
ROOT = Path(__file__).parents[2]

# Reads every card named on its command line once, all side by side, within the given seconds.
_READ = """
import json, sys
from watchdog.probes.nvml import Nvml
from watchdog.reader import Readers
seconds, *addresses = sys.argv[1:]
readings = Readers([Nvml("port of " + a, a) for a in addresses]).read_all(float(seconds))
json.dump([
    {
        "error": r.error, "answered": r.answered, "facts": dict(r.facts),
        "samples": {s.series: s.value for s in r.samples},
    }
    for r in readings
], sys.stdout)
"""


def compiler() -> str | None:
    """Return the C compiler's path; on Debian the package gcc with libc6-dev."""
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path, *flags: str) -> Path:
    """Compile the stub into the folder, for LD_LIBRARY_PATH."""
    target = folder / "libnvidia-ml.so.1"
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags]
    cc = compiler()
    assert cc is not None
    subprocess.run([cc, *options, "-o", str(target), str(SOURCE)], check=True, timeout=60)
    return folder


def read(library: Path, world: str, *addresses: str, seconds: float = 10) -> list[dict[str, Any]]:
    """Return what one round of readings brings home of these cards, in their order."""
    file = library / "world"
    file.write_text(world, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(seconds), *addresses],
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "NVML_STUB_WORLD": str(file)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
