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

    @property
    def url(self) -> str:
        """Return its base URL."""
        return f"http://{HOST}:{self.port}"


@contextmanager
def vllm(lab: Lab, drafter: str, port: int) -> Iterator[Server]:
    """
    Serve the tiny target with a drafter, from a compile cache that only this drafter fills.

    The cache is the drafter's own since a stale one is a fault in itself, and not the one that
    these tests are about.
    """
    speculation = {
        "method": "draft_model",
        "model": str(lab.models / drafter),
        "num_speculative_tokens": DEPTH,
    }
    command = [str(lab.venv / "bin" / "vllm"), "serve", str(lab.models / "target")]
    command += ["--served-model-name", MODEL, "--host", HOST, "--port", str(port)]
    command += ["--max-model-len", "1024", "--max-num-seqs", "8"]
    command += ["--speculative-config", json.dumps(speculation)]
    for folder in ("home", "tmp"):
        (lab.scratch / folder).mkdir(exist_ok=True)
    env = {
        **os.environ,
        "PATH": f"{lab.venv / 'bin'}:{os.environ['PATH']}",
        "HOME": str(lab.scratch / "home"),
        "TMPDIR": str(lab.scratch / "tmp"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CACHE_ROOT": str(lab.scratch / f"cache-{drafter}"),
    }
    began = time.monotonic()
    log = lab.scratch / f"vllm-{drafter}-{time.strftime('%H%M%S')}.log"
    with running(command, log, env) as program:

        def is_up() -> bool | None:
            program.must_live()
            return True if get(f"http://{HOST}:{port}/health").status_code == 200 else None

        eventually(is_up, START_UP, f"vLLM with {drafter} answering /health")
        server = Server(drafter, port, time.monotonic() - began)
        say(f"vLLM with {drafter} is up on port {port} after {server.start_seconds:.0f} s")
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
            self._serving = self._block.enter_context(vllm(self._lab, drafter, self._port))
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
