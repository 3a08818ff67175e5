"""A real process that has another /, as in a container, and mounts of its own."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PYTHON_PIVOTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
    if result:
        sys.exit(3)
root = sys.argv[1].encode()
must(libc.unshare(0x20000 if os.geteuid() == 0 else 0x10020000))
must(libc.mount(b"none", b"/", None, 0x44000, None))
must(libc.mount(root, root, None, 0x1000, None))
for source, name in zip(sys.argv[2::2], sys.argv[3::2]):
    must(libc.mount(source.encode(), root + name.encode(), None, 0x1000, None))
os.chdir(root)
must(libc.pivot_root(b".", b"."))
must(libc.umount2(b".", 2))
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_root(root: Path, *mounts: str) -> Iterator[int]:
    """A real process that has this directory for its `/`; `mounts`: a source and where, in turn."""
    with subprocess.Popen(
        [sys.executable, "-c", PYTHON_PIVOTS, str(root), *mounts],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        select.select([process.stdout], [], [], 30)
        if process.stdout.readline() != "ready\n":
            pytest.skip("no mounts of one's own are allowed here")
        yield process.pid
        process.stdin.close()
