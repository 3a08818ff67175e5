"""What the sinks' tests share: stubs that take posts, and a real Alertmanager."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sinks.alertmanagers import SUITES, RealAlertmanager, program
from tests.sinks.lab import Hook


@pytest.fixture
def hook() -> Iterator[Hook]:
    with contextlib.closing(Hook()) as hook:
        yield hook


@pytest.fixture
def hooks() -> Iterator[Callable[..., Hook]]:
    """Make as many stub servers as a test wants."""
    with contextlib.ExitStack() as stack:
        yield lambda *args: stack.enter_context(contextlib.closing(Hook(*args)))


@pytest.fixture
def alertmanager(hook: Hook, tmp_path: Path) -> Iterator[RealAlertmanager]:
    with RealAlertmanager(program(SUITES[0]), tmp_path, hook) as real:
        yield real
