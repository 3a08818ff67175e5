"""Which process may be the server that does not answer yet."""

from __future__ import annotations

import socket
import time

import pytest

from watchdog.probes.launch import Launch, is_here, listening, port_of, processes, youngest

SERVE = ["/venv/bin/python", "/venv/bin/vllm", "serve", "m"]


def test_the_server_on_the_targets_port_counts_before_a_younger_one() -> None:
    seen = [(["vllm serve", "--port", "8001"], 10.0), (["vllm serve", "--port=8002"], 20.0)]

    assert youngest(seen, 8001) == 10.0


def test_where_no_port_fits_the_youngest_server_counts() -> None:
    seen = [(["vllm serve", "--port", "8001"], 10.0), (["vllm serve", "--port", "8002"], 20.0)]

    assert youngest(seen, 8218) == 20.0


def test_a_server_that_listens_on_another_port_is_up_and_not_this_one() -> None:
    seen = [(["vllm serve", "--port", "8001"], 10.0), (["vllm serve", "--port", "8002"], 20.0)]

    assert youngest(seen, 8218, frozenset({8002})) == 10.0
    assert youngest(seen, 8218, frozenset({8001, 8002})) is None


def test_listening_ports_of_this_host_are_seen() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()

        assert sock.getsockname()[1] in listening()


def test_other_processes_do_not_count() -> None:
    assert youngest([(["/usr/bin/python", "train.py", "--port", "8000"], 5.0)], 8000) is None


@pytest.mark.parametrize(
    ("argv", "port"),
    [
        (["vllm", "serve", "m"], 8000),
        (["vllm", "serve", "m", "--port", "81"], 81),
        (["vllm", "serve", "m", "--port=82"], 82),
        (["vllm", "serve", "m", "--port"], 8000),
        (["vllm", "serve", "m", "--port", "x"], 8000),
    ],
)
def test_the_port_is_read_from_the_command_line(argv: list[str], port: int) -> None:
    assert port_of(argv) == port


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000", True),
        ("unix:///run/vllm.sock", True),
        ("http://10.0.0.7:8000", False),
        ("http://gpu-7:8000", False),
    ],
)
def test_only_this_hosts_addresses_have_a_process_here(url: str, here: bool) -> None:
    assert is_here(url) is here


def test_processes_are_real_ones_with_their_start() -> None:
    own = [at for argv, at in processes() if "pytest" in " ".join(argv)]

    assert own
    assert all(0 <= time.time() - at < 86400 for at in own)


def test_nothing_is_looked_up_while_the_target_answers() -> None:
    probe = Launch("t", "http://127.0.0.1:8000")

    assert probe.read({"answered": True}, 0.0).facts == {}
