"""The commands about a compile cache as texts name them; each has one way to be written."""

from __future__ import annotations

import re
from typing import Final

_SAFE: Final = re.compile(r"[\w./@%+=:,-]+", re.ASCII)


def set_aside(directory: str) -> str:
    """Return the command that makes the next start on a directory a cold one."""
    return f"watchdog cache set-aside --directory {quoted(directory)}"


def set_aside_of(target: str) -> str:
    """Return the same where the configuration names the target's directory."""
    return f"watchdog cache set-aside {quoted(target)}"


def confirm(target: str) -> str:
    """Return the command that says whether the last start was cold."""
    return f"watchdog cache confirm {quoted(target)}"


def show(target: str) -> str:
    """Return the command that shows who filled what."""
    return f"watchdog cache show {quoted(target)}"


def quoted(text: str) -> str:
    """Make a word of a command for a shell."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    return line if _SAFE.fullmatch(line) else "'" + line.replace("'", "'\\''") + "'"
