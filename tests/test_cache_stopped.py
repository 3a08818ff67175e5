"""`cache show` and `cache confirm` of a server that does not answer: nobody looks at its files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.checks.caches import T0, Watch, entry, launch, place
from tests.test_cache_show import Port, port
from watchdog.domain.cache_outline import NEVER_UP, outline
from watchdog.domain.cache_state import State

__all__ = ["port"]

HERE = "/srv/caches/qwen"
IN_CONTAINER = "/proc/4711/root/root/.cache/vllm"


def seen(stale: bool, here: str = HERE) -> Watch:
    """A server that filled its cache; stale: and another launch that runs on it since."""
    watch = Watch()
    start = watch.now + 45.0
    made = place(entry(oldest=start + 20), here=here, stamp=[])
    watch.runs(launch(3), made, start=start)
    return watch.runs(launch(7), made) if stale else watch


def stop(port: Port, watch: Watch) -> None:
    """The server stopped: the page is not read, and no probe tells of files."""
    watch.round(None, {})
    port.known["qwen"] = watch.outline
    silence(port)


def silence(port: Port, **more: Any) -> None:
    told = port.answer()
    told["caches"][0] |= {"answers": False, "running_since": None, **more}
    port.watched.board.caches = lambda: told


def words(out: str) -> str:
    return " ".join(out.split())


@pytest.mark.parametrize("stale", [False, True])
def test_files_that_nobody_looks_at_are_not_said_to_be_gone(port: Port, stale: bool) -> None:
    stop(port, seen(stale))
    out = port.ask("show")[1]
    for untold in ("no files", "no stamp", "stamp:", "its files were looked at", "nothing to do"):
        assert untold not in out
    assert "    not looked at now\n" in out
    assert (
        "not known: what lies in its places while it does not answer: each verdict is as of the "
        "last look, 2026-09-21 "
    ) in words(out)


def test_what_was_safe_when_it_ran_is_unknown_while_it_does_not_answer(port: Port) -> None:
    stop(port, seen(stale=False))
    code, out, _ = port.ask("show")
    assert code == 3
    assert out.splitlines()[0].endswith(": 1 unknown")
    assert "\nqwen: unknown\n" in out
    assert "): safe at the last look\n" in out
    assert out.endswith("  next: ask again once it answers\n")


def test_what_is_stale_is_set_aside_before_the_stopped_server_is_started(port: Port) -> None:
    stop(port, seen(stale=True))
    code, out, _ = port.ask("show")
    assert code == 2
    assert "): stale at the last look\n" in out
    step = words(out).rpartition("next: ")[2]
    assert step == (
        f"if it was not set aside yet, `watchdog cache set-aside --directory {HERE}`; then start "
        f"it, and `watchdog cache confirm qwen` says whether that start was cold"
    )


def test_of_a_stopped_container_no_path_is_told_that_went_with_it(port: Port) -> None:
    stop(port, seen(stale=True, here=IN_CONTAINER))
    out = port.ask("show")[1]
    assert "/proc/" not in out
    assert "as its process saw it" in out
    assert "set aside the directory of this host that its container has as" in words(out)


def test_where_a_running_server_was_not_looked_at_its_cache_is_not_called_safe(port: Port) -> None:
    """As in the rounds after a daemon began, before its first look."""
    watch = seen(stale=False)
    watch.facts = {}
    port.known["qwen"] = watch.outline
    code, out, _ = port.ask("show")
    assert code == 3
    assert "what lies in its places now: each verdict is as of the last look" in words(out)


def test_a_machine_reads_that_nobody_looked(port: Port) -> None:
    watch = seen(stale=False)
    assert watch.place["looked"] is True
    assert watch.place["stamp"]
    stop(port, watch)
    [row] = json.loads(port.ask("show", "--json")[1])["caches"]
    [one] = row["places"]
    assert (one["looked"], one["verdict"], one["stamp"]) == (False, "safe", "")
    assert not {"files", "bytes"} & set(one)


# --- never up ------------------------------------------------------------------------------------


def test_a_server_that_was_never_up_is_to_be_started(port: Port) -> None:
    stop(port, Watch())
    for argv in (("show",), ("confirm", "qwen")):
        code, out, _ = port.ask(*argv)
        assert code == 3
        assert NEVER_UP in out
        assert out.endswith("  next: start it, then ask again\n")
        assert "doctor" not in out


def test_only_who_is_silent_is_said_not_to_answer() -> None:
    assert outline(State(), {})["unknown"] == "no start of it is known"
    watch = Watch().round(None, {})
    assert watch.outline["unknown"] == NEVER_UP
    watch.round(T0 - 100.0, {})
    assert watch.outline["unknown"] == "it was not looked at since the start of its process"


def test_one_that_stopped_before_it_was_looked_at_is_asked_again_once_it_answers(
    port: Port,
) -> None:
    stop(port, Watch().round(T0 - 100.0, {}))
    for argv in (("show",), ("confirm", "qwen")):
        assert port.ask(*argv)[1].endswith("  next: ask again once it answers\n")
