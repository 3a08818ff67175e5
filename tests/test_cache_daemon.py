"""A server's cache through the real daemon: found, judged, stamped, shown and confirmed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import fake_vllm
from tests.serving import PAGES
from tests.test_daemon import free_port, get, in_process, until
from watchdog import cli
from watchdog.cache_stamp import NAME, read
from watchdog.daemon import Daemon
from watchdog.domain.starts import NEAR

GRAPH = "torch_compile_cache/abcdef0123/rank_0_0/backbone/artifact_compile_range_1_2048_subgraph_0"


class Host:
    """A server that may be started and stopped, and a daemon's configuration for it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.cache, self._folder, self._capsys = folder / "cache", folder, capsys
        self._program = folder / "vllm"
        shutil.copy(fake_vllm.__file__, self._program)
        (folder / "pages").mkdir()
        shutil.copy(PAGES / "g_draft_same_healthy_1_after_greedy.prom", folder / "pages/0.prom")
        self._port, self._daemon = free_port(), free_port()
        self.config = folder / "c.yaml"
        self.config.write_text(
            f"targets: [{{url: 'http://127.0.0.1:{self._port}', name: tiny}}]\n"
            f"interval: 1s\nserver: {{listen: '127.0.0.1:{self._daemon}'}}\n"
        )

    @contextmanager
    def daemon(self) -> Iterator[Daemon]:
        """A daemon with time to look through /proc, however busy this machine is."""
        with in_process(self.config) as daemon:
            daemon._watchdog.read_timeout = 10.0
            yield daemon

    @contextmanager
    def server(self, *words: str) -> Iterator[None]:
        """A server that has the cache for its own, and compiles at its start if told so."""
        own = {"PAGES": str(self._folder / "pages"), "VLLM_CACHE_ROOT": str(self.cache),
               "HOME": str(self._folder), "TMPDIR": str(self._folder)}  # fmt: skip
        command = [sys.executable, str(self._program), "serve", "/models/tiny", "--port",
                   str(self._port), *words]  # fmt: skip
        with subprocess.Popen(command, env={**os.environ, **own}) as process:
            try:
                yield
            finally:
                process.kill()

    def compile(self) -> None:
        (self.cache / GRAPH).parent.mkdir(parents=True)
        (self.cache / GRAPH).write_bytes(b"graph")

    def ask(self, *argv: str) -> tuple[int, str]:
        """Run a command; the daemon logs to the same place."""
        self._capsys.readouterr()
        code = cli.main(["cache", *argv, "--config", str(self.config)])
        return code, self._capsys.readouterr().out

    def known(self) -> dict[str, Any]:
        """What the port says of the target, and of `place`, empty where nothing is known of it."""
        [row] = json.loads(get(self._daemon, "/api/v1/cache")[1])["caches"]
        found = [one for one in row["places"] if one["path"] == str(self.cache)]
        return {**row, "place": found[0] if found and row["starts"] else {}}


@pytest.fixture
def host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Host:
    return Host(tmp_path, capsys)


def test_a_cold_start_is_shown_confirmed_and_stamped(host: Host) -> None:
    with host.daemon() as daemon:
        assert host.ask("show")[0] == 3
        with host.server("--seed", "1"):
            host.compile()
            until(lambda: host.known()["place"].get("verdict") == "safe", 60)
            until((host.cache / NAME).exists, 60)
            code, out = host.ask("confirm", "tiny")
            assert code == 0
            assert "serving-watchdog: tiny: the last start was cold: it compiled" in out
            found = host.known()
            stamp = read(host.cache)
            assert stamp is not None
            assert [e.fingerprint["digest"] for e in stamp.entries] == [found["now"]["digest"]]
            assert f"{host.cache} (vllm, from VLLM_CACHE_ROOT): safe" in host.ask("show")[1]
        until(lambda: not host.known()["answers"])
        assert host.ask("confirm", "tiny")[0] == 3
        daemon._stamps.wait(10)


def test_another_launch_on_the_same_directory_is_stale_and_its_start_not_cold(host: Host) -> None:
    with host.daemon():
        with host.server("--max-model-len", "1024"):
            host.compile()
            until(lambda: host.known()["place"].get("verdict") == "safe", 60)
            first = host.known()["now"]["digest"]
        until(lambda: not host.known()["answers"])
        [before] = host.known()["starts"]
        time.sleep(NEAR + 1)  # two starts so near are one, seen by two clocks
        with host.server("--max-model-len", "2048"):
            until(lambda: host.known()["place"].get("verdict") == "stale", 60)
            found = host.known()
            code, out = host.ask("show", "tiny")
            assert code == 2
            assert "max-model-len 1024 -> 2048" in out
            assert f"`watchdog cache set-aside --directory {host.cache}`" in out
            assert found["place"]["fills"][0]["digest"] == first
            assert found["starts"][-1]["start"] > before["start"]
            code, out = host.ask("confirm", "tiny")
            assert code == 2
            assert "was not cold" in out
            stamp = read(host.cache)
            assert stamp is not None
            assert [entry.fingerprint["digest"] for entry in stamp.entries] == [first]
