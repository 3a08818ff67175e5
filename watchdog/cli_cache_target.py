"""The commands about a target's compile cache as the daemon knows it: `show` and `confirm`."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from watchdog.cli_options import settings_of, with_config
from watchdog.errors import CommandError

if TYPE_CHECKING:
    from watchdog.caches_answer import Answer, Row
    from watchdog.caches_confirm import Confirmed, Log
    from watchdog.caches_steps import Given
    from watchdog.settings import Settings

PATH: Final = "/api/v1/cache"
SHOW: Final = {"safe": 0, "stale": 2, "unknown": 3}
CONFIRM: Final = {"cold": 0, "warm": 2, "unknown": 3}
"""Exit codes."""

PATIENCE: Final = 30.0
"""Seconds to read a log."""

STDIN: Final = "-"

OLDER: Final = "requested URL was not found"
"""What a daemon says that does not know the path yet."""

_json = click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")


@click.command("show")
@click.argument("target", required=False)
@with_config
@_json
def cache_show(
    target: str | None,
    config: Path | None,
    url: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Which launches filled the cache of TARGET, and may the running one use it?"""
    from watchdog import caches_table

    settings = settings_of(config, url)
    raw, answer = _asked(settings, target)
    if as_json:
        click.echo(json.dumps(raw, indent=2, ensure_ascii=False))
    else:
        click.echo(caches_table.shown(answer, _given(settings), _width()))
    verdicts = [row.verdict for row in answer.caches] or ["unknown"]
    worst = next(word for word in ("stale", "unknown", "safe") if word in verdicts)
    return SHOW[worst]


@click.command("confirm")
@click.argument("target")
@click.option("--log", metavar="FILE", help="the server's log; - is standard input")
@with_config
@_json
def cache_confirm(
    target: str,
    log: str | None,
    config: Path | None,
    url: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Was the last start of TARGET cold: did it compile for itself?"""
    from watchdog import caches_confirm, caches_steps, caches_table

    settings = settings_of(config, url)
    _, answer = _asked(settings, target)
    row = next((row for row in answer.caches if row.target == target), None)
    if row is None:
        raise CommandError(f"the daemon says nothing of {target}; ask again in a moment")
    start = caches_confirm.seconds(None if row.last is None else row.last.start)
    found = caches_confirm.confirmed(row, None if log is None else _log(log, start))
    given = caches_steps.given_of(_given(settings), target)
    step = caches_steps.after_confirm(row, found, given, log=log is not None)
    if as_json:
        click.echo(json.dumps(_document(answer, row, found, step), indent=2, ensure_ascii=False))
    else:
        click.echo(caches_table.confirmation(row, found, step, _width()))
    return CONFIRM[found.verdict]


def _asked(settings: Settings, target: str | None) -> tuple[dict[str, Any], Answer]:
    """Ask the daemon; of one target alone where one is named. Raises CommandError."""
    from watchdog import caches_answer, checking

    listen = settings.server.listen
    try:
        raw = checking.ask_daemon(settings, PATH)
    except CommandError as error:
        if OLDER in str(error):
            raise CommandError(
                f"{listen}: the daemon there does not know of caches yet; restart it, so that it "
                f"is the version of this command"
            ) from None
        raise
    answer = caches_answer.read(raw, listen)
    if target is None:
        return raw, answer
    if target not in answer.targets:
        known = ", ".join(answer.targets) or "none"
        raise CommandError(f"unknown target; known: {known}")
    kept = [row for row in raw["caches"] if row["target"] == target]
    raw = {**raw, "targets": [target], "caches": kept}
    return raw, caches_answer.read(raw, listen)


def _given(settings: Settings) -> dict[str, Given]:
    from watchdog.caches_steps import Given

    return {
        part.name: Given(
            str(part.cache.directory or ""),
            part.launch.systemd_unit or "",
            part.cache.warm_start is not None,
        )
        for part in settings.targets
    }


def _log(name: str, start: float | None) -> Log:
    """Read the last start in a log, `start` in Unix seconds. Raises CommandError."""
    from watchdog import start_log
    from watchdog.caches_confirm import Log
    from watchdog.regular_files import why

    try:
        if name == STDIN:
            found = start_log.of_stream(sys.stdin.buffer)
        else:
            found = start_log.read(Path(name), time.monotonic() + PATIENCE)
    except OSError as error:
        raise CommandError(
            f"{name} {why(error)}; give the file that the server writes, or pipe it into --log -"
        ) from None
    return Log(found.facts, "" if start is None else found.older_than(start))


def _document(answer: Answer, row: Row, found: Confirmed, step: str) -> dict[str, Any]:
    start = found.start
    return {
        "product": answer.product,
        "version": answer.version,
        "host": answer.host,
        "at": answer.at,
        "target": row.target,
        "verdict": found.verdict,
        "words": found.words(),
        "start": None if start is None else start.start,
        "up_seconds": None if start is None else start.up_seconds,
        "after_aside": None if start is None else start.after_aside or None,
        "signs": [sign.model_dump() for sign in found.signs],
        "floors": row.floors.model_dump(),
        "next_step": step,
    }


def _width() -> int:
    """Columns of the terminal, within what is readable; the widest where it is none."""
    from watchdog.caches_table import NARROW, WIDE

    if not _is_terminal():
        return WIDE
    return min(WIDE, max(NARROW, shutil.get_terminal_size((WIDE, 24)).columns))


def _is_terminal() -> bool:
    return sys.stdout.isatty()
