"""NVML once per process: loaded late, initialised by one thread while the others wait for it."""

from __future__ import annotations

import threading
import time
from typing import Any, Final
from weakref import WeakKeyDictionary

from watchdog.errors import NoAnswer, NotUnderstood


class Library:
    """
    Whether nvmlInit was called, for one module.

    No lock is held during the call: it may hang. A `life` is the time between two calls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready = False
        self._life = 0
        self._under_way: threading.Event | None = None
        self._began = 0.0

    def start(self, module: Any, deadline: float) -> int:
        """
        Return the life that is on, after nvmlInit where it was not called yet.

        Raises NVMLError, and NoAnswer where another reading is in nvmlInit until the deadline
        (monotonic seconds): a second call would hang as the first does.
        """
        while (mine := self._turn(deadline)) is not None:
            try:
                module.nvmlInit()
            except BaseException:
                self._done(mine, ready=False)
                raise
            self._done(mine, ready=True)
        return self._life

    def forget(self, life: int) -> None:
        """Initialise anew at the next start: NVML says that this life is over."""
        with self._lock:
            if life == self._life:
                self._ready = False

    def _turn(self, deadline: float) -> threading.Event | None:
        """Wait for whoever is in nvmlInit; the event of our own turn, None where all is ready."""
        while True:
            with self._lock:
                if self._ready:
                    return None
                busy = self._under_way
                if busy is None:
                    self._under_way, self._began = threading.Event(), time.monotonic()
                    return self._under_way
                began = self._began
            if not busy.wait(max(0.0, deadline - time.monotonic())):
                spent = time.monotonic() - began
                raise NoAnswer(
                    f"nvmlInit, called by another reading, is in its {spent:.0f}. second"
                )

    def _done(self, mine: threading.Event, *, ready: bool) -> None:
        with self._lock:
            self._ready, self._under_way = ready, None
            self._life += ready
        mine.set()


_LIBRARIES: Final[WeakKeyDictionary[Any, Library]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def library_of(module: Any) -> Library:
    """Return the state of a module that speaks for NVML; the same one for every probe."""
    with _LOCK:
        return _LIBRARIES.setdefault(module, Library())


def pynvml() -> Any:
    """Import it: 6,000 lines that a host without an NVIDIA card never needs."""
    try:
        import pynvml as module  # noqa: PLC0415
    except ImportError as error:
        raise NotUnderstood(
            "the Python module pynvml is not here: `pip install nvidia-ml-py` "
            "where serving-watchdog is installed (not the package that is called pynvml)"
        ) from error
    return module
