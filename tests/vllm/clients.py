"""Clients that keep a server busy."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import requests

from .programs import HOST, say
from .servers import MODEL

CLIENTS: Final = 3
TOKENS: Final = 400
SECONDS_AT_MOST: Final = 900.0
REQUESTS_AT_MOST: Final = 10_000
WORDS: Final = ("draft", "target", "guess", "pass", "good", "bad")


@dataclass
class Traffic:
    """What the clients have done so far."""

    requests: int = 0
    tokens: int = 0
    errors: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, tokens: int) -> None:
        """Note one finished request."""
        with self.lock:
            self.requests += 1
            self.tokens += tokens

    def __str__(self) -> str:
        """Say it in one line."""
        seconds = time.monotonic() - self.began
        rate = f"{self.tokens / seconds:.0f} tokens a second"
        return f"{self.requests} requests in {seconds:.0f} s, {rate}"


def ask(session: requests.Session, port: int, prompt: str) -> int:
    """
    Ask for one completion and return the number of its tokens.

    Greedy, since vLLM 0.32.0 on a CPU samples with an uninitialised temperature, by which even
    the identical drafter is rejected.
    """
    body = {
        "model": MODEL,
        "prompt": prompt,
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    answer = session.post(f"http://{HOST}:{port}/v1/completions", json=body, timeout=60)
    answer.raise_for_status()
    tokens: int = answer.json()["usage"]["completion_tokens"]
    return tokens


@contextmanager
def traffic(port: int, clients: int = CLIENTS) -> Iterator[Traffic]:
    """
    Keep a few clients busy for as long as the block lasts.

    They are bounded in time and in count, should the block never end.
    """
    done = Traffic()
    enough = threading.Event()
    until = time.monotonic() + SECONDS_AT_MOST

    def goes_on() -> bool:
        bounded = done.requests < REQUESTS_AT_MOST and time.monotonic() < until
        return bounded and not enough.is_set()

    def client(number: int) -> None:
        rng = random.Random(number)
        with requests.Session() as session:
            session.trust_env = False
            try:
                while goes_on():
                    done.count(ask(session, port, " ".join(rng.choices(WORDS, k=12))))
            except requests.RequestException as error:
                done.errors.append(str(error))

    threads = [threading.Thread(target=client, args=(n,), daemon=True) for n in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        enough.set()
        for thread in threads:
            thread.join(90)
        say(f"traffic: {done}")
    assert not done.errors, f"requests failed: {done.errors}"
    assert done.requests, "no request finished"
