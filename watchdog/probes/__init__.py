"""
Probes read one source each and judge nothing.

A probe has a `name`, a `target` and a `slot`, and `read(known, deadline) -> Reading`: samples as
the source gives them, in base units, and bounded facts for what is no number. `known` is what the
last round learned, `deadline` is in monotonic seconds. It may read files under its root, call a
driver or GET one local URL; it starts no process and needs no root. It never times, logs,
retries or catches what it cannot explain: it raises ProbeError, and the reader does the rest.
`close()` breaks a read that is under way and may be called from another thread.

To add one, write the file, its test and its fixture folder, and name it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from watchdog.probes.compile_cache import CompileCache
from watchdog.probes.gpu_memory import GpuMemory
from watchdog.probes.gpus import Gpus
from watchdog.probes.inbox import Inbox
from watchdog.probes.launch import Launch
from watchdog.probes.nvml import Nvml
from watchdog.probes.pcie_sysfs import PcieSysfs
from watchdog.probes.server_log import ServerLog
from watchdog.probes.vllm_metrics import VllmMetrics

PROBES: Mapping[str, Callable[..., Any]] = {
    "gpus": Gpus,
    "pcie_sysfs": PcieSysfs,
    "nvml": Nvml,
    "gpu_memory": GpuMemory,
    "launch": Launch,
    "compile_cache": CompileCache,
    "server_log": ServerLog,
    "inbox": Inbox,
    "vllm_metrics": VllmMetrics,
}
"""Every probe by its name in reports."""
