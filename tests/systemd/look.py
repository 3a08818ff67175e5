"""Run by the unit itself, in its sandbox and as its user: writes down what it can see and do."""

import ctypes
import json
import mmap
import os
import sys
from pathlib import Path


def reads(path):
    """Whether a file can be read, else why not."""
    try:
        return len(Path(path).read_bytes()[:100]) > 0
    except OSError as error:
        return type(error).__name__


def opens(path):
    """Whether a device node can be opened, else why not."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return type(error).__name__
    return True


def writes(folder):
    """Whether a file can be made in a folder, else why not."""
    try:
        file = Path(folder, "written-by-look")
        file.write_text("x")
        file.unlink()
    except OSError as error:
        return os.strerror(error.errno)
    return True


def executable_memory():
    """Whether memory can be both written and executed."""
    try:
        mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError as error:
        return type(error).__name__
    return True


def calls_back():
    """Whether ctypes can make a function that C calls, as libraries of GPUs ask for."""
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
    )
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    order = kind(lambda a, b: a[0] - b[0])
    ctypes.CDLL(None).qsort(numbers, 3, 4, order)
    return list(numbers) == [1, 2, 3]


other = sys.argv[1]
status = Path("/proc/self/status").read_text()
seen = {
    "uid": os.getuid(),
    "groups": os.getgroups(),
    "capabilities": next(x.split()[1] for x in status.splitlines() if x.startswith("CapEff")),
    "command line of another": Path(f"/proc/{other}/cmdline").read_text().split("\0")[0],
    "owner of another": Path(f"/proc/{other}").stat().st_uid,
    "environment of another": reads(f"/proc/{other}/environ"),
    "open home": reads("/home/open/.cache/vllm/key"),
    "closed home": reads("/home/closed/.cache/vllm/key"),
    "tmp": reads("/tmp/torchinductor_vllm/key"),
    "sys": reads("/sys/kernel/mm/transparent_hugepage/enabled"),
    "memory": reads("/proc/meminfo"),
    "gpu node": opens("/dev/kfd"),
    "other node": opens("/dev/other"),
    "write state": writes(os.environ["STATE_DIRECTORY"]),
    "write etc": writes("/etc"),
    "write tmp": writes("/tmp"),
    "write home": writes("/home/open"),
    "executable memory": executable_memory(),
    "call back": calls_back(),
}
Path(os.environ["STATE_DIRECTORY"], "seen.json").write_text(json.dumps(seen))
