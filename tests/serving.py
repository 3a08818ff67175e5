"""A server on a free loopback port that answers /metrics with given pages, one after the other."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGES = Path(__file__).parent / "probes/fixtures/vllm_metrics"


def recorded(name: str) -> str:
    """Return a page as a real vLLM 0.32.0 served it."""
    return (PAGES / f"{name}.prom").read_text(encoding="utf-8")


class Served:
    """`pages` may be changed at any time; the last one repeats."""

    def __init__(self, pages: Sequence[str]) -> None:
        self.pages = list(pages)
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.answer(self.path)
                self.send_response(404 if body is None else 200)
                body = body or ""
                self.send_header("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def answer(self, path: str) -> str | None:
        """The next page, or None for another path."""
        if path != "/metrics":
            return None
        self.asked += 1
        return self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def served(*pages: str) -> Iterator[Served]:
    """Serve for the length of a test."""
    server = Served(pages)
    try:
        yield server
    finally:
        server.close()


COUNTED = re.compile(r"^(vllm:[a-z_]+(?:_total|_count|_sum)\{[^}]*\}) (\S+)$", re.MULTILINE)


def repeated(start: str, end: str, times: int) -> list[str]:
    """Repeat what happened between two recorded pages, so that counters grow on alike."""
    before = dict(COUNTED.findall(recorded(start)))
    last = recorded(end)
    return [
        recorded(start),
        *(
            COUNTED.sub(lambda m, i=i: f"{m[1]} {_on(before, m, i)!r}", last)  # type: ignore[misc]
            for i in range(times)
        ),
    ]


def _on(before: dict[str, str], found: re.Match[str], times: int) -> float:
    end = float(found[2])
    return end + times * (end - float(before.get(found[1], 0.0)))
