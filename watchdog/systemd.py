"""READY, WATCHDOG, RELOADING and STOPPING to systemd, where it started us (sd_notify(3))."""

from __future__ import annotations

import os
import socket
import time


def notify(*lines: str) -> bool:
    """Send `KEY=value` lines; False where no one listens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(address)
            sock.sendall("\n".join(lines).encode())
        except OSError:
            return False
    return True


def reloading() -> None:
    """Say that a reload begins; READY=1 ends it."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def ping_every() -> float | None:
    """Seconds between pings that systemd wants (half of WatchdogSec), or None."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 2_000_000
