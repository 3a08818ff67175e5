"""Places on the loopback that outlive every daemon: servers to watch, and receivers to tell."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.telling_stories import Engine, shares
from watchdog.domain import series as s


class Asked(NamedTuple):
    path: str
    body: bytes
    headers: Any


class Place:
    """A port that can be closed and opened again; nobody else can take it meanwhile."""

    def __init__(self) -> None:
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.elsewhere = f"http://127.1:{self.port}"  # reads as if it were another host
        self._server: ThreadingHTTPServer | None = None
        self._turn = threading.Lock()
        self.up()

    def answer(self, asked: Asked) -> tuple[int, bytes] | None:
        """Status and body of an answer; None: the connection is closed without one."""
        raise NotImplementedError

    def up(self) -> None:
        """Open the port; nothing happens if it is open."""
        place = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = place.answer(Asked(self.path, body, self.headers))
                if answer is None:
                    self.close_connection = True
                    return
                status, words = answer
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                self.wfile.write(words)

            do_POST = do_GET  # noqa: N815  the library's word

            def log_message(self, *_: object) -> None:
                pass

        with self._turn:
            if self._server is None:
                server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
                server.daemon_threads = True
                server.handle_error = lambda *_: None  # type: ignore[method-assign]
                threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
                self._server = server

    def down(self) -> None:
        """Close the port: connections are refused."""
        with self._turn:
            server, self._server = self._server, None
            if server is not None:
                server.shutdown()
                server.server_close()

    def close(self) -> None:
        """Close it for good."""
        self.down()
        self._reserved.close()


HEALTHY = (0.85, 0.70, 0.55, 0.45, 0.36, 0.30, 0.25)
DEAD = (0.02,)

NAMES = {
    s.DRAFTS: "vllm:spec_decode_num_drafts_total",
    s.DRAFT_TOKENS: "vllm:spec_decode_num_draft_tokens_total",
    s.ACCEPTED_TOKENS: "vllm:spec_decode_num_accepted_tokens_total",
    s.GENERATED_TOKENS: "vllm:generation_tokens_total",
    s.PROMPT_TOKENS: "vllm:prompt_tokens_total",
    s.FIRST_TOKENS: "vllm:time_to_first_token_seconds_count",
    s.UPDATES: "vllm:inter_token_latency_seconds_count",
    s.UPDATE_SECONDS: "vllm:inter_token_latency_seconds_sum",
    s.ITERATIONS: "vllm:iteration_tokens_total_count",
    s.FINISHED: "vllm:request_success_total",
}


class Engineered(Place):
    """
    A target: one engine whose counters move with real time, `speed` times as fast.

    `drafter` are the shares of drafts with each position accepted. `stalled`: requests run and
    nothing moves. `garbled`: something answers that is no page of vLLM.
    """

    def __init__(self, name: str, speed: float) -> None:
        self.name, self.speed = name, speed
        self.drafter: tuple[float, ...] = HEALTHY
        self.stalled = self.garbled = False
        self.asked = 0
        self.asked_at = 0.0
        self.engine = Engine(running=4)
        self.busy = 1.0  # share of the traffic
        self.model = "m"
        self._moved_at = time.monotonic()
        self._started = time.time()
        self._lock = threading.Lock()
        super().__init__()

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        if asked.path != "/metrics":
            return 404, b""
        with self._lock:
            self.asked += 1
            self.asked_at = time.monotonic()
            self._move(self.asked_at)
            page = self._page()
        return 200, (b"<html>hello</html>" if self.garbled else page.encode())

    def restart(self) -> None:
        """Begin a new process: all counters at 0."""
        with self._lock:
            self.engine.restart()
            self._started = time.time()

    def _move(self, now: float) -> None:
        """Let so much happen as time went by; a server that nobody asks works all the same."""
        seconds, self._moved_at = (now - self._moved_at) * self.speed, now
        if not self.stalled and self.busy:
            drafts = 20 * seconds * self.busy
            self.engine.draft(drafts, shares(drafts, *self.drafter), requests=drafts / 5)

    def _page(self) -> str:
        engine = self.engine
        owner = f'engine="0",model_name="{self.model}"'
        label = f"{{{owner}}}"
        lines = [f"{name}{label} {engine.totals[word]!r}" for word, name in NAMES.items()]
        lines += [
            f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{owner},"
            f'position="{i}"}} {engine.totals[word]!r}'
            for i, word in enumerate(s.POSITIONS[: engine.depth])
        ]
        lines += [
            f"vllm:num_requests_running{label} {engine.running!r}",
            f"vllm:num_requests_waiting{label} {engine.waiting!r}",
            f"vllm:kv_cache_usage_perc{label} {engine.kv!r}",
            f"process_start_time_seconds {self._started!r}",
        ]
        return "\n".join(lines) + "\n"


class Taken(NamedTuple):
    """A notice that arrived, whatever became of the answer."""

    key: str
    about: str
    change: str
    body: bytes
    at: float  # monotonic seconds


@dataclass
class Manners:
    """Shares of the posts that are answered badly."""

    refuses: float = 0.0  # 500, and does not take it
    drops: float = 0.0  # takes it and closes the connection
    slow: float = 0.0  # takes it, and answers after `pause` seconds
    pause: float = 0.3


class Taker(Place):
    """A webhook's receiver: what it took, in order, every repetition too."""

    def __init__(self, manners: Manners, chance: random.Random) -> None:
        self.manners, self.chance = manners, chance
        self.taken: list[Taken] = []
        self.refused = 0
        self.arrived = threading.Event()
        self._lock = threading.Lock()
        super().__init__()

    def answer(self, asked: Asked) -> tuple[int, bytes] | None:
        self.arrived.set()
        with self._lock:
            luck = self.chance.random()
            if luck < self.manners.refuses:
                self.refused += 1
                return 500, b"not now"
            told = json.loads(asked.body)
            labels = told["alert"]["labels"]
            self.taken.append(
                Taken(
                    asked.headers["Idempotency-Key"], about(labels), told["change"], asked.body,
                    time.monotonic(),
                )
            )  # fmt: skip
        luck -= self.manners.refuses
        if luck < self.manners.drops:
            return None
        if luck < self.manners.drops + self.manners.slow:
            time.sleep(self.manners.pause)
        return 200, b""

    def first(self) -> list[Taken]:
        """Each notice once, in the order in which they came first."""
        firsts: dict[str, Taken] = {}
        for taken in list(self.taken):
            firsts.setdefault(taken.key, taken)
        return list(firsts.values())

    def again(self) -> int:
        """Count the notices that came more than once."""
        return len(self.taken) - len(self.first())


def about(labels: dict[str, str]) -> str:
    """Name an alert for people: its alertname, and what it is about."""
    return f"{labels['alertname']} {labels.get('target') or labels.get('slot') or ''}".strip()


@dataclass
class Flapping:
    """Closes and opens a place now and then, until `end`; seconds, drawn at random."""

    place: Place
    chance: random.Random
    up: tuple[float, float] = (3.0, 8.0)
    down: tuple[float, float] = (0.5, 3.0)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._flap, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self.place.up()

    def _flap(self) -> None:
        while not self._over.wait(self.chance.uniform(*self.up)):
            self.place.down()
            self._over.wait(self.chance.uniform(*self.down))
            self.place.up()
