"""
The first module that a command runs: it refuses a `watchdog` package that is not ours.

PyPI has a popular `watchdog` (file events) that owns the same folder. Installed into the same
environment, pip mixes the files of both without a word, and what then runs is neither. So the
entry point lives beside the package and looks at its files before it imports any of them.
It also turns every failure of our own into exit code 3 (UNKNOWN): Python's 1 and click's 2
would read as WARNING and CRITICAL.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

PRODUCT: Final = "serving-watchdog"
UNKNOWN: Final = 3

# Ours says who it is in the text of its __init__.py, which is read here and not run.
MARKER: Final = re.compile(rb"""^__product__ *= *["']serving-watchdog["']""", re.MULTILINE)

# What PyPI's `watchdog` puts beside its __init__.py and we never will (its releases 0.10 to 7).
FOREIGN: Final = ("events.py", "observers", "tricks", "utils", "version.py", "watchmedo.py")

MEND: Final = (
    "give serving-watchdog a virtual environment of its own: python3 -m venv /opt/serving-watchdog"
    " && /opt/serving-watchdog/bin/pip install serving-watchdog"
)


class Mixed(Exception):
    """The package `watchdog` that would run is not ours, or not ours alone."""


def main() -> int:
    """Run the command line: its exit code, or 3 for whatever goes wrong on our side."""
    try:
        verify(package_folder())
        from watchdog import cli  # noqa: PLC0415  (only after its folder has proved to be ours)

        code = cli.main()
        _flush()
    except Mixed as error:
        return _unknown(str(error))
    except SystemExit as leaving:
        return _code_of(leaving)
    except KeyboardInterrupt:
        return _unknown("interrupted")
    except BrokenPipeError:
        _drop_stdout()
        return UNKNOWN
    except Exception as error:  # noqa: BLE001  (what escapes from here would exit 1, a WARNING)
        _unknown(f"internal error, please report it: {type(error).__name__}: {error}")
        traceback.print_exc()
        return UNKNOWN
    return code


def package_folder() -> Path:
    """Find the folder that `import watchdog` would take, without running anything in it."""
    spec = PathFinder.find_spec("watchdog")
    if spec is None or spec.origin is None:
        raise Mixed(f"the package `watchdog` is gone, or its __init__.py is; {MEND}")
    return Path(spec.origin).parent


def verify(folder: Path) -> None:
    """Raise Mixed unless the package in `folder` is ours and nobody else's files lie in it."""
    init = folder / "__init__.py"
    if not init.is_file() or not MARKER.search(init.read_bytes()):
        raise Mixed(f"{folder} is another package named `watchdog`, not ours; {MEND}")
    foreign = [name for name in FOREIGN if (folder / name).exists()]
    if foreign:
        names = ", ".join(foreign)
        raise Mixed(f"{folder} also holds another package named `watchdog` ({names}); {MEND}")
    # Their record alone is enough: `pip uninstall watchdog` would take files of ours along.
    for record in sorted(folder.parent.glob("watchdog-*.*-info")):
        raise Mixed(f"{folder.parent} also holds another distribution ({record.name}); {MEND}")


def _unknown(message: str) -> int:
    print(f"{PRODUCT}: {message}", file=sys.stderr)
    return UNKNOWN


def _code_of(leaving: SystemExit) -> int:
    """Take a number as it is; a text is a failure, which Python would print and exit 1 for."""
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    return _unknown(str(leaving.code))


def _flush() -> None:
    """Write out now what else the interpreter would at exit, where a closed pipe exits 120."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop_stdout() -> None:
    """Point standard output at nothing, so that the flush at exit does not fail once more."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
