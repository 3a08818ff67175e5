"""A vLLM in its own process that serves real pages, widened to N engines, with moving counters."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

CAPTURE = (
    Path(__file__).parent.parent
    / "tests/probes/fixtures/vllm_metrics/g_draft_same_healthy_1_after_greedy.prom"
)
MOVES = re.compile(r"^(vllm:[a-z_]+(?:_total|_count|_sum)\{[^}]*\}) (\S+)$", re.MULTILINE)
VARIANTS = 64


def page(engines: int, step: int = 0) -> str:
    """Render the recorded page with every engine line `engines` times, counters moved on."""
    lines: list[str] = []
    for line in CAPTURE.read_text(encoding="utf-8").splitlines():
        own = 'engine="0"' in line
        lines += (
            [line.replace('engine="0"', f'engine="{i}"') for i in range(engines)] if own else [line]
        )
    text = "\n".join(lines) + "\n"
    return MOVES.sub(lambda m: f"{m[1]} {float(m[2]) * (1 + step / 100)!r}", text)


@contextmanager
def served(engines: int) -> Iterator[str]:
    """Serve such pages on a free loopback port; yields the base URL."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(engines, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(engines: int, pipe: Connection) -> None:
    bodies = [page(engines, step).encode() for step in range(VARIANTS if engines < 8 else 8)]
    turn = count()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/metrics"
            body = bodies[next(turn) % len(bodies)] if known else b"{}"
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_port)
    server.serve_forever()
