"""
Checks judge windows into findings; they read nothing and know no clock.

A check is a frozen dataclass: its fields are its limits (the keys of its section in the
config), and `step(state, window, now) -> (state, findings)` is its one verb, called once for
each window of each subject of its kind (`about`). The state is small, made of plain numbers,
and belongs to the check alone. One that stands still while nothing moves says until when
(`alike_until`, see `domain/again.py`), and is not asked meanwhile. To add one, write the file,
its test and the runbook of its alert, and name it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from watchdog.checks.acceptance_length import AcceptanceLength
from watchdog.checks.baseline import BaselineCheck
from watchdog.checks.compile_cache import CompileCache
from watchdog.checks.counters import Counters
from watchdog.checks.declared_length import DeclaredLength
from watchdog.checks.draft_shape import DraftShape
from watchdog.checks.drafting import Drafting
from watchdog.checks.gpu_memory import GpuMemory
from watchdog.checks.gpu_present import GpuPresent
from watchdog.checks.pcie_errors import PcieErrors
from watchdog.checks.pcie_link import PcieLink
from watchdog.checks.progress import Progress
from watchdog.checks.serving import Serving
from watchdog.checks.siblings import Siblings
from watchdog.checks.step_time import StepTime
from watchdog.checks.topology import Topology
from watchdog.checks.versions import Versions
from watchdog.domain.finding import Finding
from watchdog.domain.history import Window


class Check(Protocol):
    """
    One question; `about` says of whom: a "target" or "engine", the "host" or a "gpu".

    One that learns for weeks says `remembers`: its state of an engine is kept while it is away.
    """

    about: str

    def step(self, state: Any, window: Window, now: float) -> tuple[Any, list[Finding]]:
        """Judge one window; state is None at first."""
        ...


CHECKS: Mapping[str, type[Any]] = {
    "serving": Serving,
    "progress": Progress,
    "acceptance_length": AcceptanceLength,
    "declared_length": DeclaredLength,
    "drafting": Drafting,
    "draft_shape": DraftShape,
    "counters": Counters,
    "step_time": StepTime,
    "baseline": BaselineCheck,
    "siblings": Siblings,
    "topology": Topology,
    "compile_cache": CompileCache,
    "versions": Versions,
    "gpu_present": GpuPresent,
    "pcie_link": PcieLink,
    "pcie_errors": PcieErrors,
    "gpu_memory": GpuMemory,
}

ABOUT_HOST: Final = frozenset({"host", "gpu"})
"""What checks of this host are about; the others are about targets."""
