"""The commands about a target's compile cache."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from watchdog.cli_cache_launch import cache_key, cache_stamp, cache_verify
from watchdog.cli_cache_target import cache_confirm, cache_show
from watchdog.cli_options import Directory, confirm, settings_of, with_config
from watchdog.errors import CommandError

if TYPE_CHECKING:
    from watchdog.cache_copies import Copies, Copy

PROC: Final = Path("/proc")


@click.group("cache")
def cache_group() -> None:
    """Guard the compile cache: set a stale one aside, and look after what was set aside."""


for command in (cache_show, cache_confirm, cache_key, cache_stamp, cache_verify):
    cache_group.add_command(command)

_directory = click.option(
    "--directory",
    metavar="DIR",
    type=Directory(),
    help="the cache directory; else cache.directory of TARGET in the configuration",
)


@cache_group.command("set-aside")
@click.argument("target", required=False)
@_directory
@click.option("--dry-run", is_flag=True, help="look, say what would be done, and change nothing")
@click.option("--force", is_flag=True, help="although a process uses it")
@with_config
def cache_set_aside(
    target: str | None,
    directory: Path | None,
    dry_run: bool,  # noqa: FBT001
    force: bool,  # noqa: FBT001
    config: Path | None,
    url: str | None,
) -> int:
    """Rename a cache directory to DIR.stale-TIME, so that the next start compiles anew."""
    from watchdog import cache_moves

    place = _one_directory(target, directory, config, url)
    now = datetime.now(timezone.utc)
    moved = cache_moves.set_aside(place, now, PROC, dry_run=dry_run, force=force)
    did = "would rename" if dry_run else "renamed"
    click.echo(f"serving-watchdog: {did} {moved.source} to {moved.goal}; nothing is deleted")
    click.echo(f"  undo: {moved.undo}")
    for note in moved.notes:
        click.echo(f"  note: {note}")
    return 0


@cache_group.command("prune")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@_directory
@click.option("--list", "only_list", is_flag=True, help="list them; NAME is then a target")
@click.option("--yes", is_flag=True, help="do not ask whether that is meant")
@with_config
def cache_prune(
    names: tuple[str, ...],
    directory: Path | None,
    only_list: bool,  # noqa: FBT001
    yes: bool,  # noqa: FBT001
    config: Path | None,
    url: str | None,
) -> int:
    """List what was set aside, or delete the copies that are named, after asking."""
    from watchdog import cache_copies

    if only_list:
        for place in _directories(names, directory, config, url):
            _print_copies(place, cache_copies.copies(place))
        return 0
    if not names:
        raise CommandError(
            "name what to delete; `watchdog cache prune --list` prints what there is"
        )
    paths = [_named(name, directory, config, url) for name in dict.fromkeys(names)]
    cache_copies.check_copies(paths, PROC)
    if not yes:
        _confirm([cache_copies.copy_at(path) for path in paths])
    cache_copies.delete(paths, PROC)
    for path in paths:
        click.echo(f"serving-watchdog: deleted {path}")
    return 0


# --- which directory -----------------------------------------------------------------------------


def _one_directory(
    target: str | None, directory: Path | None, config: Path | None, url: str | None
) -> Path:
    """Return the directory that is meant, absolute. Raises CommandError where none is."""
    if (target is None) == (directory is None):
        raise CommandError("name a target, or give --directory DIR; one of both")
    names = () if target is None else (target,)
    return _directories(names, directory, config, url)[0]


def _directories(
    targets: tuple[str, ...], directory: Path | None, config: Path | None, url: str | None
) -> list[Path]:
    """Return the directory given, else those of these targets, else of all. Raises CommandError."""
    if directory is not None:
        if targets:
            raise CommandError("name a target, or give --directory DIR; one of both")
        return [Path.cwd() / directory]
    configured = {part.name: part.cache.directory for part in settings_of(config, url).targets}
    unknown = [name for name in targets if name not in configured]
    if unknown:
        known = ", ".join(configured) or "none"
        raise CommandError(f"unknown target; known: {known}")
    kept = [configured[name] for name in targets or configured]
    found = [place for place in dict.fromkeys(kept) if place is not None]
    if not found or (targets and None in kept):
        whose = ", ".join(targets) or "any target"
        raise CommandError(
            f"the configuration has no cache.directory of {whose}; set it, or give --directory DIR"
        )
    return found


def _named(name: str, directory: Path | None, config: Path | None, url: str | None) -> Path:
    """Return the copy that is meant: a path, or a bare name beside a cache directory."""
    if "/" in name:
        return Path.cwd() / name
    from watchdog.cache_layouts import set_aside_at

    beside = [
        place.with_name(name)
        for place in _directories((), directory, config, url)
        if set_aside_at(name, place.name) is not None and place.with_name(name).exists()
    ]
    if len(beside) != 1:
        raise CommandError(
            f"{name}: {'several copies have' if beside else 'no copy has'} this name; "
            f"give its whole path, as `watchdog cache prune --list` prints it"
        )
    return beside[0]


# --- what is said --------------------------------------------------------------------------------


def _print_copies(place: Path, found: Copies) -> None:
    from watchdog.domain import wording as w

    total = sum(copy.size for copy in found.found)
    size = f", {w.size(total)}" if found.found else ""
    count = len(found.found)
    word = "copy" if count == 1 else "copies"
    click.echo(f"serving-watchdog: {count} set-aside {word} of {place}{size}")
    for copy in found.found:
        click.echo(f"  {_told(copy)}")
    if found.cut:
        click.echo(f"  there may be more: {found.cut}")


def _told(copy: Copy) -> str:
    from watchdog.domain import wording as w

    days = (datetime.now(timezone.utc) - copy.at).total_seconds() / 86400
    least = "at least " if copy.cut else ""
    more = f" ({copy.cut})" if copy.cut else ""
    count = f"{copy.files:,} file{'' if copy.files == 1 else 's'}"
    return f"{copy.path}  {least}{w.size(copy.size)}, {count}, {days:.1f} days{more}"


def _confirm(doomed: list[Copy]) -> None:
    """Raise CommandError unless somebody says yes."""
    told = [f"  {_told(copy)}" for copy in doomed]
    confirm("delete this for good?", "nothing was deleted", told)
