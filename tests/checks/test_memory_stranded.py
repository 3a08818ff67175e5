"""Memory that nobody owns while a server is down, and everything that only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from watchdog.checks.gpu_memory import GpuMemory
from watchdog.domain import series as s
from watchdog.domain.finding import Finding
from watchdog.domain.history import Window
from watchdog.domain.sample import Reading, Sample, labels

SUBJECT = labels(slot="0000:00:03.0")
GIB = float(2**30)
NOBODY: dict[str, Any] = {"gpu": "0000:05:00.0", "holders": [], "down": ["qwen"]}


def window(used: float | None = 20 * GIB, **facts: Any) -> Window:
    """One round of one GPU; `used` None: its memory was not read."""
    samples = () if used is None else (Sample(SUBJECT, s.MEMORY_USED, used),)
    levels = {s.MEMORY_USED: 20 * GIB if used is None else used, s.MEMORY_TOTAL: 32 * GIB}
    readings = (Reading("gpu_memory", "", samples, slot="0000:00:03.0"),)
    return Window(SUBJECT, 0.0, levels=levels, facts=facts, readings=readings)


def judge(*windows: Window, check: GpuMemory | None = None) -> Finding | None:
    check, state, found = check or GpuMemory(), None, []
    for seen in windows:
        state, found = check.step(state, seen, 0.0)
    return found[0] if found else None


def verdict(*windows: Window) -> str:
    found = judge(*windows)
    if found is None:
        return "silent"
    return found.verdict.name if found.conclusive else "thin"


def test_memory_of_nobody_while_a_server_is_down_is_a_warning_in_the_second_round() -> None:
    assert verdict(window(**NOBODY)) == "thin"
    assert verdict(window(**NOBODY), window(**NOBODY)) == "WARNING"


def test_the_warning_says_what_is_held_and_what_is_down() -> None:
    found = judge(*[window(**NOBODY, holders_gone=[4711])] * 2)
    assert found is not None
    assert found.value == 20 * GIB
    assert "GPU 0000:05:00.0: 20.0 GiB of memory in use by no process" in found.argument.summary
    assert "qwen" in found.argument.summary
    assert "[4711], which ended" in found.argument.summary
    assert "fuser" in found.argument.next_step
    assert found.argument.evidence["memory_total"] == 32 * GIB


@pytest.mark.parametrize(("used", "expected"), [(GIB, "OK"), (GIB + 1, "WARNING")])
def test_what_a_driver_keeps_for_itself_is_not_stranded(used: float, expected: str) -> None:
    assert verdict(window(used, **NOBODY), window(used, **NOBODY)) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"down": []}, "OK"),  # every server answers
        ({"down": None}, "OK"),
        ({"holders": [4711]}, "OK"),
        ({"holders": None, "holders_unknown": "not readable"}, "thin"),
        ({"holders": None}, "thin"),
    ],
)
def test_only_nobody_while_a_server_is_down_counts(facts: Any, expected: str) -> None:
    seen = window(**{**NOBODY, **facts})
    assert verdict(seen, seen, seen) == expected


def test_who_holds_it_is_told_and_why_that_is_not_known() -> None:
    found = judge(window(**{**NOBODY, "holders": [4711]}))
    assert found is not None
    assert "held by process 4711" in found.argument.summary
    found = judge(window(down=["qwen"], holders_unknown="not readable"))
    assert found is not None
    assert "not readable" in found.argument.summary


def test_little_memory_needs_no_holder_to_be_known() -> None:
    assert verdict(window(GIB, down=["qwen"], holders_unknown="not readable")) == "OK"


def test_a_round_in_which_holders_are_unknown_neither_counts_nor_begins_anew() -> None:
    unknown = window(down=["qwen"], holders_unknown="no time")
    assert verdict(window(**NOBODY), unknown, window(**NOBODY)) == "WARNING"
    assert verdict(window(**NOBODY), unknown, unknown) == "thin"


def test_a_holder_in_between_begins_the_count_anew() -> None:
    held = window(**{**NOBODY, "holders": [1]})
    assert verdict(window(**NOBODY), held, window(**NOBODY)) == "thin"


def test_memory_that_was_not_read_in_this_round_is_not_judged_by_the_last_one() -> None:
    assert verdict(window(**NOBODY), window(None, **NOBODY)) == "thin"


def test_a_gpu_whose_memory_nobody_tells_has_no_finding() -> None:
    assert verdict(window(None, **NOBODY)) == "silent"
