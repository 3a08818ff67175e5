"""The commands about a cache and a launch that is still to come: `key`, `stamp` and `verify`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from watchdog.errors import CommandError

if TYPE_CHECKING:
    from watchdog.domain.fingerprint import Fingerprint

PATIENCE: Final = 30.0
"""Seconds to read the headers of a model's files; a large one takes about one."""


def _of_a_launch(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a launch: its words behind `--`, and its image."""
    command = click.argument("words", nargs=-1, metavar="-- vllm serve ...")(command)
    return click.option("--image", metavar="ID", help="the container image it runs in, by digest")(
        command
    )


_directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))


@click.command("key")
@click.option("--root", metavar="DIR", help="put this directory in front of the name")
@_of_a_launch
def cache_key(root: str | None, image: str | None, words: tuple[str, ...]) -> int:
    """Print a name for the cache directory of this launch, with its fingerprint in it."""
    from watchdog.cache_launch import directory_name

    found = _fingerprint(words, image)
    name = directory_name(words, found)
    click.echo(name if root is None else str(Path(root) / name))
    return 0


@click.command("stamp")
@_directory
@_of_a_launch
def cache_stamp(directory: Path, image: str | None, words: tuple[str, ...]) -> int:
    """Note in DIR that this launch fills it from now on."""
    from watchdog import cache_guard

    place = Path.cwd() / directory
    found = _fingerprint(words, image)
    note = cache_guard.stamped(place, found, datetime.now(timezone.utc))
    click.echo(f"serving-watchdog: {place} is stamped with {found.digest}")
    if note:
        click.echo(f"  note: {note}")
    return 0


@click.command("verify")
@_directory
@_of_a_launch
def cache_verify(directory: Path, image: str | None, words: tuple[str, ...]) -> int:
    """May this launch use DIR? Exits with 0 safe, 2 stale, 3 unknown; for ExecStartPre=."""
    from watchdog import cache_guard

    answer = cache_guard.judged(Path.cwd() / directory, _fingerprint(words, image))
    if answer.code == cache_guard.UNKNOWN:
        raise CommandError(f"unknown: {answer.words}; next: {answer.next_step}")
    word = "safe" if answer.code == cache_guard.SAFE else "stale"
    click.echo(f"serving-watchdog: {word}: {answer.words}")
    if answer.next_step:
        click.echo(f"  next: {answer.next_step}")
    return answer.code


def _fingerprint(words: tuple[str, ...], image: str | None) -> Fingerprint:
    """Make it, and say on standard error what could not be read. Raises CommandError."""
    from watchdog.cache_guard import unread_words
    from watchdog.cache_launch import fingerprint

    if not words:
        raise CommandError("give the launch behind --: watchdog cache ... -- vllm serve MODEL ...")
    found = fingerprint(words, os.environ, image, time.monotonic() + PATIENCE)
    if found.partial:
        print(
            f"serving-watchdog: the fingerprint lacks what could not be read: "
            f"{unread_words(found.unread)}",
            file=sys.stderr,
        )
    return found
