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

from watchdog.cli_options import Directory, settings_of
from watchdog.errors import CommandError

MOST_NAMES: Final = 128
"""Names that count, or do not; a fingerprint keeps them with it."""

if TYPE_CHECKING:
    from watchdog.cache_launch import Configured
    from watchdog.domain.fingerprint import Fingerprint

PATIENCE: Final = 30.0
"""Seconds to read the headers of a model's files; a large one takes about one."""


def _of_a_launch(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a launch: its words behind `--`, its image, and what counts of it."""
    for option in (
        click.argument("words", nargs=-1, metavar="-- vllm serve ..."),
        click.option("--image", metavar="ID", help="the container image it runs in, by digest"),
        click.option("--config", type=click.Path(path_type=Path),
                     help="configuration file that --target is in"),
        click.option("--target", metavar="NAME",
                     help="what counts by the configuration of this target (cache.factors)"),
        click.option("--ignore", multiple=True, metavar="NAME",
                     help="an option or variable that does not count; may be given again"),
        click.option("--factor", multiple=True, metavar="NAME",
                     help="an option or variable that counts too; may be given again"),
    ):  # fmt: skip
        command = option(command)
    return command


_directory = click.argument("directory", metavar="DIR", type=Directory())


@click.command("key")
@click.option("--root", metavar="DIR", type=Directory(),
              help="where it lies; else ~/.cache/vllm-launches")  # fmt: skip
@_of_a_launch
def cache_key(root: Path | None, words: tuple[str, ...], **asked: Any) -> int:
    """Print a path for the cache directory of this launch, with its fingerprint in the name."""
    from watchdog.cache_launch import directory_name, root_of

    place = root_of(os.environ) if root is None else root
    click.echo(str(place / directory_name(words, _fingerprint(words, **asked))))
    return 0


@click.command("stamp")
@_directory
@_of_a_launch
@click.option("--same", is_flag=True, help="no other launch filled it, though its stamp knows less")
def cache_stamp(directory: Path, words: tuple[str, ...], same: bool, **asked: Any) -> int:  # noqa: FBT001
    """Note in DIR that this launch fills it from now on."""
    from watchdog import cache_guard

    place = Path.cwd() / directory
    found = _fingerprint(words, **asked)
    note = cache_guard.stamped(place, found, datetime.now(timezone.utc), same=same)
    click.echo(f"serving-watchdog: {place} is stamped with {found.digest}")
    if note:
        click.echo(f"  note: {note}")
    return 0


@click.command("verify")
@_directory
@_of_a_launch
def cache_verify(directory: Path, words: tuple[str, ...], **asked: Any) -> int:
    """May this launch use DIR? Exits with 0 safe, 2 stale, 3 unknown; for ExecStartPre=."""
    from watchdog import cache_guard

    answer = cache_guard.judged(Path.cwd() / directory, _fingerprint(words, **asked))
    if answer.code == cache_guard.UNKNOWN:
        raise CommandError(f"unknown: {answer.words}; next: {answer.next_step}")
    word = "safe" if answer.code == cache_guard.SAFE else "stale"
    click.echo(f"serving-watchdog: {word}: {answer.words}")
    if answer.next_step:
        click.echo(f"  next: {answer.next_step}")
    return answer.code


def _fingerprint(words: tuple[str, ...], image: str | None, **counted: Any) -> Fingerprint:
    """Make it, and say on standard error what could not be read. Raises CommandError."""
    from watchdog.cache_guard import unread_words
    from watchdog.cache_launch import fingerprint

    if not words:
        raise CommandError("give the launch behind --: watchdog cache ... -- vllm serve MODEL ...")
    configured = _configured(**counted)
    for names in configured:
        if len(names) > MOST_NAMES or not all(0 < len(name.strip(" -")) <= 120 for name in names):
            raise CommandError(
                f"at most {MOST_NAMES} names of factors, of 1 to 120 characters each"
            )
    until = time.monotonic() + PATIENCE
    found = fingerprint(words, os.environ, image, until, configured)
    if found.partial:
        print(
            f"serving-watchdog: the fingerprint lacks what could not be read: "
            f"{unread_words(found.unread)}",
            file=sys.stderr,
        )
    return found


def _configured(
    factor: tuple[str, ...], ignore: tuple[str, ...], target: str | None, config: Path | None
) -> Configured:
    """Return what is given, and what the configuration of a target says. Raises CommandError."""
    from watchdog.cache_launch import Configured

    if target is None:
        if config is not None:
            raise CommandError("--config goes with --target, whose cache.factors it holds")
        return Configured(factor, ignore)
    known = {part.name: part.cache.factors for part in settings_of(config, None).targets}
    if target not in known:
        raise CommandError(f"the configuration has no target {target}; it has {', '.join(known)}")
    return Configured((*known[target].add, *factor), (*known[target].ignore, *ignore))
