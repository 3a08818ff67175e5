"""A real vLLM with its drafter, and its counters read without the watchdog."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .programs import HOST, eventually, free_port, get, running, say

MODEL: Final = "tiny"
DEPTH: Final = 4
"""Tokens a draft proposes; a drafter that is always right has an acceptance length of DEPTH + 1."""

START_UP: Final = 420.0
"""Seconds for vLLM to come up: 60 to 130 on two free cores, and they are not always free."""


@dataclass(frozen=True)
class Lab:
    """Where the real vLLM is installed, where its tiny models lie and where it may write."""

    venv: Path
    models: Path
    scratch: Path


@dataclass(frozen=True)
class Server:
    """A vLLM that answers."""

    drafter: str
    port: int
    start_seconds: float
    log: Path

    @property
    def url(self) -> str:
        """Return its base URL."""
        return f"http://{HOST}:{self.port}"


@dataclass(frozen=True)
class Launch:
    """
    How the tiny target is served: with which drafter, how deep, and from which compile cache.

    Without a name of its own the cache is the drafter's, since a stale one is a fault in itself,
    and not the one that most of these tests are about.
    """

    drafter: str
    depth: int = DEPTH
    cache: str = ""

    def words(self, lab: Lab, port: int) -> list[str]:
        """Return the command line."""
        speculation = {
            "method": "draft_model",
            "model": str(lab.models / self.drafter),
            "num_speculative_tokens": self.depth,
        }
        return [
            str(lab.venv / "bin" / "vllm"), "serve", str(lab.models / "target"),
            "--served-model-name", MODEL, "--host", HOST, "--port", str(port),
            "--max-model-len", "1024", "--max-num-seqs", "8",
            "--speculative-config", json.dumps(speculation),
        ]  # fmt: skip

    def cache_root(self, lab: Lab) -> Path:
        """Return where its graphs are kept."""
        return lab.scratch / (self.cache or f"cache-{self.drafter}")

    def environ(self, lab: Lab) -> dict[str, str]:
        """Return its environment; all that is written goes below the lab's scratch."""
        # The C++ headers that the first compilation prepares lie in TMPDIR and not in the cache.
        home, temporary = lab.scratch / "home", lab.scratch / f"tmp-{self.cache_root(lab).name}"
        for folder in (home, temporary):
            folder.mkdir(exist_ok=True)
        # VLLM_VENV is ours; a server takes what begins so for its own.
        rest = {name: value for name, value in os.environ.items() if name != "VLLM_VENV"}
        return {
            **rest,
            "PATH": f"{lab.venv / 'bin'}:{os.environ['PATH']}",
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CACHE_ROOT": str(self.cache_root(lab)),
        }


@contextmanager
def vllm(lab: Lab, launch: Launch, port: int, log: Path | None = None) -> Iterator[Server]:
    """Serve; it is up when the block begins, and down when it ends. `log` is added to."""
    began = time.monotonic()
    log = log or lab.scratch / f"vllm-{launch.drafter}-{time.strftime('%H%M%S')}.log"
    with running(launch.words(lab, port), log, launch.environ(lab)) as program:

        def is_up() -> bool | None:
            program.must_live()
            return True if get(f"http://{HOST}:{port}/health").status_code == 200 else None

        eventually(is_up, START_UP, f"vLLM with {launch.drafter} answering /health")
        server = Server(launch.drafter, port, time.monotonic() - began, log)
        say(f"vLLM with {launch.drafter} is up on port {port} after {server.start_seconds:.0f} s")
        yield server


class Host:
    """
    A host with room for one vLLM: a start takes minutes, so the one that runs is used again.

    Every drafter is served on the same port in turn, as after the restart of a real server.
    """

    def __init__(self, lab: Lab) -> None:
        """Take a port and keep it."""
        self._lab = lab
        self._port = free_port()
        self._serving: Server | None = None
        self._block = ExitStack()

    def serve(self, drafter: str) -> Server:
        """Return a vLLM with this drafter: the running one, or else a new one in its place."""
        if self._serving is None or self._serving.drafter != drafter:
            self.close()
            self._serving = self._block.enter_context(vllm(self._lab, Launch(drafter), self._port))
        return self._serving

    def close(self) -> None:
        """Stop what is being served, if anything is."""
        self._serving = None
        self._block.close()


@dataclass(frozen=True)
class Counters:
    """Speculative decoding as vLLM counts it, summed over engines."""

    drafts: float
    accepted: float
    generated: float

    def since(self, before: Counters) -> Counters:
        """Return the growth since an earlier reading of the same life."""
        return Counters(
            self.drafts - before.drafts,
            self.accepted - before.accepted,
            self.generated - before.generated,
        )

    @property
    def acceptance_length(self) -> float:
        """Tokens a draft brings: the accepted ones and the target's own."""
        return 1 + self.accepted / self.drafts


def counters(server: Server) -> Counters:
    """Read the counters without the product: a witness that shares no code with it."""
    page = get(f"{server.url}/metrics").text

    def total(name: str) -> float:
        return sum(
            float(v)
            for v in re.findall(rf"^vllm:{name}_total\{{[^}}]*\}} (\S+)$", page, re.MULTILINE)
        )

    return Counters(
        total("spec_decode_num_drafts"),
        total("spec_decode_num_accepted_tokens"),
        total("generation_tokens"),
    )
