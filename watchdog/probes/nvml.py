"""
What NVIDIA's own library says of one GPU: its link, its errors, its load, who holds it.

A card is found by its PCI address, never by NVML's count or index: a card that fell off the bus
is missing from these. Nothing can break a call into NVML that hangs, so no lock is held during
one, and each costs only the reading that is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.domain.sample import HOST, Facts, Reading
from watchdog.errors import NoAnswer, NotUnderstood
from watchdog.pci import ASLEEP, driver_of, of_device
from watchdog.probes import nvml_words as words
from watchdog.probes.nvml_library import library_of, pynvml
from watchdog.probes.nvml_words import reading_of
from watchdog.processes import hidden
from watchdog.tree import Tree

__all__ = ["Nvml", "reading_of"]

OWN_DRIVER: Final = "nvidia"
PATIENCE: Final = 10.0  # seconds, where no deadline is given

_COSTS_ALL: Final = frozenset(
    {words.UNINITIALIZED, words.DRIVER_NOT_LOADED, words.LIB_RM_VERSION_MISMATCH}
)
_NO_HANDLE: Final = frozenset({*words.LOST, 6, 8, 11, 14, 999})
"""
A card that gives no handle for these is of no use to anybody: NOT_FOUND, INSUFFICIENT_POWER,
IRQ_ISSUE, CORRUPTED_INFOROM, and UNKNOWN, which is what many a card off the bus gets.
"""
_TO_DO: Final = {
    4: "this user may not ask: let it read and write /dev/nvidiactl and /dev/nvidia0, 1, ...",
    words.DRIVER_NOT_LOADED: (
        "the NVIDIA driver is not loaded: `modprobe nvidia`, and if that fails `dmesg` says why"
    ),
    words.LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 is not here: install the NVIDIA driver's libraries (libnvidia-ml1 on "
        "Debian, libnvidia-compute on Ubuntu); a container needs the utility capability"
    ),
    words.LIB_RM_VERSION_MISMATCH: (
        "the loaded kernel module and libnvidia-ml.so.1 have different versions, as after an "
        "update of the driver: reboot, or reload the nvidia modules and restart serving-watchdog"
    ),
}

_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""What of a field's value counts, by its valueType."""


class Question(NamedTuple):
    """
    One question to NVML.

    `functions` are tried until the module and the library know one; `take` turns what it
    returned into the answers, by their words. `more` follows the handle as argument.
    """

    word: str
    functions: tuple[str, ...]
    take: Callable[[str, Any], dict[str, object]]
    more: tuple[object, ...] = ()


def _plain(word: str, value: Any) -> dict[str, object]:
    return {word: int(value)}


def _text(word: str, value: Any) -> dict[str, object]:
    return {word: value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)}


def _rates(word: str, value: Any) -> dict[str, object]:
    return {word: int(value.gpu)}


def _memory(_: str, value: Any) -> dict[str, object]:
    return {"memory_used": int(value.used), "memory_total": int(value.total)}


def _pids(word: str, value: Any) -> dict[str, object]:
    return {word: [int(process.pid) for process in value[: words.MOST_HOLDERS + 1]]}


def _fields(word: str, values: Any) -> dict[str, object]:
    """Each field's number, or the name of its own error."""
    return {word: {str(value.fieldId): _field(value) for value in values}}


def _field(value: Any) -> int | str:
    if value.nvmlReturn:
        return words.error_name(value.nvmlReturn)
    if not 0 <= value.valueType < len(_MEMBERS):
        return f"odd answer: a value of type {value.valueType}"
    return int(getattr(value.value, _MEMBERS[value.valueType]))


# The link first and its load right behind it: they are judged together.
QUESTIONS: Final = (
    Question("link_generation", ("nvmlDeviceGetCurrPcieLinkGeneration",), _plain),
    Question("link_width", ("nvmlDeviceGetCurrPcieLinkWidth",), _plain),
    Question("pstate", ("nvmlDeviceGetPerformanceState",), _plain),
    Question(
        "event_reasons",
        (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",  # its name before driver 535
        ),
        _plain,
    ),
    Question("utilisation", ("nvmlDeviceGetUtilizationRates",), _rates),
    Question("replay", ("nvmlDeviceGetPcieReplayCounter",), _plain),
    Question("fields", ("nvmlDeviceGetFieldValues",), _fields, (list(words.FIELDS),)),
    Question("memory", ("nvmlDeviceGetMemoryInfo",), _memory),
    Question(
        "compute",
        (
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetComputeRunningProcesses_v2",  # all that drivers before 510 know
        ),
        _pids,
    ),
    Question(
        "graphics",
        (
            "nvmlDeviceGetGraphicsRunningProcesses",
            "nvmlDeviceGetGraphicsRunningProcesses_v2",
        ),
        _pids,
    ),
    Question("link_generation_max", ("nvmlDeviceGetMaxPcieLinkGeneration",), _plain),
    Question("link_width_max", ("nvmlDeviceGetMaxPcieLinkWidth",), _plain),
    Question("device_generation_max", ("nvmlDeviceGetGpuMaxPcieLinkGeneration",), _plain),
    Question("name", ("nvmlDeviceGetName",), _text),
)


@dataclass(frozen=True)
class Nvml:
    """
    One card; `slot` is its port's address, `address` its function's.

    `module` is pynvml, of the package nvidia-ml-py; None imports it at the first reading.
    """

    slot: str
    address: str
    module: Any = None
    tree: Tree | None = None
    proc: Path = Path("/proc")
    name: str = words.NAME
    target: str = HOST

    def at_once(self, known: Facts) -> Reading | None:
        """Return the reading of a card that is not asked: asleep, or with another driver."""
        driver, runtime = known.get("driver"), known.get("runtime")
        if driver not in (None, OWN_DRIVER):  # vfio-pci: the card is a guest's
            why = f"not asked: the card's driver is {driver}"
        elif runtime in ASLEEP:  # a question would wake it
            why = f"not asked: the card is {runtime}"
        else:
            return None
        facts = {"nvml_unread": {words.NAME: why}}
        return Reading(self.name, self.target, facts=facts, slot=self.slot)

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002  (it looks itself)
        """Ask the card; `deadline` in monotonic seconds. Raises ProbeError."""
        spared = self.spared()
        reading = spared or reading_of(self.slot, self.ask(deadline))
        unseen = "holders" in reading.facts and hidden(self.proc)
        if unseen:  # in a container NVML lists nobody, or numbers that are not ours
            facts = {k: v for k, v in reading.facts.items() if k != "holders"}
            reading = replace(reading, facts={**facts, "holders_unknown": unseen})
        return reading

    def spared(self) -> Reading | None:
        """Return the reading of a card that is not asked, as its files tell now; else None."""
        if self.tree is None:
            return None
        state = of_device(self.tree, self.address, "power/runtime_status")
        return self.at_once({"driver": driver_of(self.tree, self.address), "runtime": state})

    def ask(self, deadline: float | None = None) -> dict[str, Any]:
        """
        Return what NVML said, as plain JSON (see `nvml_words`). Raises ProbeError.

        Without a deadline (monotonic seconds) it is PATIENCE away.
        """
        until = time.monotonic() + PATIENCE if deadline is None else deadline
        module = self.module or pynvml()
        library = library_of(module)
        try:
            life = library.start(module, until)
            try:
                return self._asked(module, until)
            except module.NVMLError as error:
                if error.value not in _COSTS_ALL:
                    raise
                library.forget(life)  # somebody shut NVML down, or the driver was loaded anew
                library.start(module, until)
                return self._asked(module, until)
        except module.NVMLError as error:
            if error.value in words.LOST:
                return {"lost": words.error_name(error.value)}
            raise NotUnderstood(_sentence(error.value)) from error

    def close(self) -> None:
        """Nothing can break a call into NVML; the reader leaves it behind."""

    def _asked(self, module: Any, deadline: float) -> dict[str, Any]:
        """Ask every question; raises NVMLError where it costs more than one of them."""
        try:
            handle = module.nvmlDeviceGetHandleByPciBusId(self.address)
        except module.NVMLError as error:
            if error.value not in _NO_HANDLE:
                raise
            return {"lost": words.error_name(error.value)}
        answers: dict[str, object] = {}
        errors: dict[str, str] = {}
        for question in QUESTIONS:
            if time.monotonic() >= deadline:
                raise NoAnswer(f"NVML is slow: no time was left to ask for {question.word}")
            said = _answer(module, handle, question)
            if isinstance(said, str):
                errors[question.word] = said
            else:
                answers.update(said)
        return {"answers": answers, "errors": errors}


def _answer(module: Any, handle: Any, question: Question) -> dict[str, object] | str:
    """Return the answers to one question, or the name of the error that costs only this one."""
    said = words.error_name(words.FUNCTION_NOT_FOUND)
    # pynvml's other word for FUNCTION_NOT_FOUND; not every version has it
    mismatch = getattr(module, "NVMLLibraryMismatchError", module.NVMLError)
    for name in question.functions:
        function = getattr(module, name, None)
        if function is None:
            continue
        try:
            return question.take(question.word, function(handle, *question.more))
        except module.NVMLError as error:
            if error.value in words.LOST or error.value in _COSTS_ALL:
                raise
            said = words.error_name(error.value)
            if error.value != words.FUNCTION_NOT_FOUND:
                break
        except mismatch:
            continue
        except (TypeError, ValueError, OverflowError) as error:
            return f"odd answer: {error}"
    return said


def _sentence(code: int) -> str:
    name = words.error_name(code)
    return f"NVML says {name}: {_TO_DO[code]}" if code in _TO_DO else f"NVML says {name}"
