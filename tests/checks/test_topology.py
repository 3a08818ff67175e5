"""The GPUs of one server on one socket, on two, and where that is not known."""

from __future__ import annotations

from typing import Any

import pytest

from watchdog.checks.topology import State, Topology
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.sample import labels

SUBJECT = labels(target="qwen")


def card(gpu: str, numa: int | None, root: str = "pci0000:00", socket: int | None = None) -> Any:
    return {"gpu": gpu, "socket": socket, "numa": numa, "root": root, "pids": [7]}


NEAR, FAR = card("0000:05:00.0", 0), card("0000:89:00.0", 1, "pci0000:80")


def judge(*rounds: dict[str, Any], state: State | None = None) -> Finding | None:
    check, found = Topology(), []
    for facts in rounds:
        state, found = check.step(state, Window(SUBJECT, 0.0, facts=facts), 0.0)
    return found[0] if found else None


def verdict(*rounds: dict[str, Any]) -> str:
    found = judge(*rounds)
    if found is None:
        return "silent"
    return found.verdict.name if found.conclusive else "thin"


def test_gpus_of_two_numa_nodes_are_a_warning_in_the_second_round() -> None:
    apart = {"gpus": [NEAR, FAR]}
    assert verdict(apart) == "thin"
    assert verdict(apart, apart) == "WARNING"


def test_the_warning_names_gpus_and_nodes() -> None:
    found = judge(*[{"gpus": [NEAR, FAR]}] * 2)
    assert found is not None
    assert found.argument.summary == (
        "qwen: its GPUs sit on different NUMA nodes: "
        "0000:05:00.0 on NUMA node 0, 0000:89:00.0 on NUMA node 1"
    )
    assert found.argument.next_step


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ([], "OK"),
        ([NEAR], "OK"),
        ([card("a", None, "")], "OK"),
        ([NEAR, card("b", 0)], "OK"),
        ([NEAR, card("b", 0, "pci0000:40")], "OK"),  # EPYC: several root complexes a socket
        ([card("a", 0, socket=0), card("b", 1, socket=0)], "OK"),  # several nodes a socket
        ([card("a", 0, socket=0), card("b", 0, socket=1)], "WARNING"),
        ([card("a", 0, socket=0), card("b", 1)], "WARNING"),
        ([card("a", None), card("b", None)], "OK"),  # one root bus is one socket's
        ([card("a", None), card("b", None, "pci0000:80")], "WARNING"),
        ([card("a", 0), card("b", None, "pci0000:80")], "WARNING"),
        ([card("a", 0), card("b", None)], "OK"),
        ([card("a", None, ""), card("b", None, "")], "thin"),
        ([card("a", None, ""), card("b", None)], "thin"),
        ([NEAR, FAR, card("c", None)], "WARNING"),
    ],
)
def test_the_socket_counts_else_the_node_else_the_root_complex(cards: Any, expected: str) -> None:
    assert verdict({"gpus": cards}, {"gpus": cards}) == expected


def test_unknown_nodes_are_said() -> None:
    apart = {"gpus": [card("a", None), card("b", None, "pci0000:80")]}
    found = judge(apart, apart)
    assert found is not None
    assert "root complexes, of unknown NUMA nodes" in found.argument.summary


def test_without_positive_knowledge_the_reason_is_told() -> None:
    found = judge({"gpus_unknown": "no process was seen"}, {"gpus_unknown": "no process was seen"})
    assert found is not None
    assert (found.verdict, found.conclusive) == (Verdict.OK, False)
    assert "no process was seen" in found.argument.summary


def test_a_target_that_was_never_seen_here_has_no_finding() -> None:
    assert verdict({}, {}) == "silent"


def test_a_round_without_facts_ends_no_warning_and_raises_none() -> None:
    apart = {"gpus": [NEAR, FAR]}
    assert verdict(apart, {}) == "thin"
    assert verdict(apart, {}, apart) == "WARNING"
    assert verdict(apart, {"gpus": [NEAR]}, apart) == "thin"


def test_the_drivers_word_of_who_holds_each_gpu_serves_as_well() -> None:
    held = [NEAR, FAR, {**card("0000:c3:00.0", 1), "pids": [99]}]
    unsure = {"gpus_unknown": "several are open", "pids": [7, 8], "held": held}
    found = judge(unsure, unsure)
    assert found is not None
    assert found.verdict is Verdict.WARNING
    assert "c3" not in found.argument.summary
    assert verdict({**unsure, "pids": [1]}) == "thin"


def test_where_the_drivers_gpus_sit_is_told_by_the_launch() -> None:
    """Two NUMA nodes of one socket, as EPYC has them: the driver alone does not tell the socket."""
    held = [{"gpu": "0000:01:00.0", "pids": [7]}, {"gpu": "0000:81:00.0", "pids": [8]}]
    places = [{**card("0000:01:00.0", 0), "socket": 0}, {**card("0000:81:00.0", 1), "socket": 0}]
    facts = {"gpus_unknown": "open", "pids": [7, 8], "held": held, "places": places}

    assert verdict(facts, facts) == "OK"
    assert verdict({**facts, "places": []}, {**facts, "places": []}) == "thin"


def test_the_state_is_plain() -> None:
    state, _ = Topology().step(None, Window(SUBJECT, 0.0, facts={"gpus": [NEAR, FAR]}), 0.0)
    assert state == (1,)
