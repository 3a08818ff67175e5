"""
NVML with the cards that a test gives it, at the seam of the module pynvml.

Errors and structures are the real module's. Where the real library is called through the real
module: tests/nvml_stub.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml as real

GIB = 2**30
HANGS_AT_MOST = 30.0  # seconds: a test that forgets to release ends all the same


@dataclass
class Card:
    """
    One card: a Gen4 x16 link under load where nothing else is said.

    `answers` by the function's name (without nvmlDeviceGet): a value, an error to raise, or an
    Event that the call waits for. `fields` by id: a number, or an error. `handle` is the
    error of the call for the handle.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    fields: dict[int, Any] = field(default_factory=dict)
    handle: Exception | threading.Event | None = None


def healthy() -> dict[str, Any]:
    """What a card says that works at full load."""
    return {
        "CurrPcieLinkGeneration": 4,
        "CurrPcieLinkWidth": 16,
        "MaxPcieLinkGeneration": 4,
        "MaxPcieLinkWidth": 16,
        "GpuMaxPcieLinkGeneration": 5,
        "PcieReplayCounter": 7,
        "PerformanceState": 0,
        "CurrentClocksEventReasons": 0x4,
        "UtilizationRates": SimpleNamespace(gpu=97, memory=40),
        "MemoryInfo": SimpleNamespace(total=24 * GIB, used=21 * GIB, free=3 * GIB),
        "Name": "NVIDIA GeForce RTX 3090",
        "ComputeRunningProcesses": [SimpleNamespace(pid=4711, usedGpuMemory=20 * GIB)],
        "GraphicsRunningProcesses": [],
    }


def error(code: int) -> Exception:
    """Return NVML's error of this code, as the module raises it."""
    return real.NVMLError(code)


class FakeNvml:
    """
    Stands for the module. `init` is what nvmlInit does, one entry a call and then success.

    `without` names functions that this version of the module does not have.
    """

    NVMLError = real.NVMLError
    NVMLLibraryMismatchError = real.NVMLLibraryMismatchError

    def __init__(
        self,
        cards: Mapping[str, Card],
        init: list[Any] | None = None,
        without: tuple[str, ...] = (),
    ) -> None:
        self.cards = cards
        self.inits = 0
        self.running = False
        self._init = list(init or [])
        self._without = without

    def nvmlInit(self) -> None:  # noqa: N802
        self.inits += 1
        if self._init:
            _answered(self._init.pop(0))
        self.running = True

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> Card:  # noqa: N802
        self._must_run()
        if address not in self.cards:
            raise error(real.NVML_ERROR_NOT_FOUND)
        card = self.cards[address]
        _answered(card.handle)
        return card

    def nvmlDeviceGetFieldValues(self, card: Card, ids: list[int]) -> list[Any]:  # noqa: N802
        self._must_run()
        return [_field(i, card.fields.get(i, error(real.NVML_ERROR_NOT_SUPPORTED))) for i in ids]

    def __getattr__(self, name: str) -> Any:
        word = name.removeprefix("nvmlDeviceGet")
        known = healthy()
        known["CurrentClocksThrottleReasons"] = 0x8
        if name in self._without or word not in known:
            raise AttributeError(name)

        def ask(card: Card) -> Any:
            self._must_run()
            return _answered(card.answers.get(word, known[word]))

        return ask

    def _must_run(self) -> None:
        if not self.running:
            raise error(real.NVML_ERROR_UNINITIALIZED)


def _answered(answer: Any) -> Any:
    if isinstance(answer, threading.Event):
        answer.wait(HANGS_AT_MOST)
        answer = error(real.NVML_ERROR_GPU_IS_LOST)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _field(number: int, value: Any) -> Any:
    """One value as NVML's own structure; a float, or a negative number, in its own type."""
    told = real.c_nvmlFieldValue_t(fieldId=number)
    if isinstance(value, Exception):
        told.nvmlReturn = value.value
    elif isinstance(value, float):
        told.valueType, told.value.dVal = real.NVML_VALUE_TYPE_DOUBLE, value
    elif value < 2**32:
        told.valueType, told.value.uiVal = real.NVML_VALUE_TYPE_UNSIGNED_INT, value
    else:
        told.valueType, told.value.ullVal = real.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, value
    return told
