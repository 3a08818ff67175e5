"""Opens silent connections as fast as it can, 500 at a time: `python -m tests.flood PORT`."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

AT_A_TIME = 500


@contextmanager
def flooded(port: int) -> Iterator[None]:
    """Have a port of the loopback flooded by a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.flood", str(port)],
        cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout
            assert process.stdout.readline() == b"flooding\n"
            yield
        finally:
            process.communicate()  # the end of its input ends it


def flood(port: int, enough: threading.Event) -> None:
    held: deque[socket.socket] = deque()
    count = 0
    while not enough.is_set():
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), 5))
        if len(held) >= AT_A_TIME:
            held.popleft().close()
        count += 1
        if count == AT_A_TIME:
            sys.stdout.write("flooding\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count} connections\n")


if __name__ == "__main__":
    ended = threading.Event()
    thread = threading.Thread(target=flood, args=(int(sys.argv[1]), ended))
    thread.start()
    sys.stdin.read()
    ended.set()
    thread.join()
