"""What the commands take: a duration, and the configuration to work with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from watchdog.errors import CommandError

if TYPE_CHECKING:
    from watchdog.settings import Settings

DEFAULT_CONFIG: Final = Path("/etc/serving-watchdog/config.yaml")


class Seconds(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A duration as in the config: `90s`, `5m`, `1h30m`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        from watchdog.duration import parse_duration

        try:
            return value if isinstance(value, float) else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Directory(click.Path):
    """A directory that is named; an empty word would be the working directory by accident."""

    name = "directory"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a Path. Raises CommandError where the word is empty."""
        if value == "":
            raise CommandError("DIR is empty; is the variable set?")
        return super().convert(value, param, ctx)


def confirm(question: str, refused: str, told: Sequence[str] = ()) -> None:
    """Show lines and ask. Raises CommandError unless somebody says yes; `refused` is then said."""
    if not sys.stdin.isatty():
        raise CommandError("nobody can be asked whether that is meant; give --yes")
    for line in told:
        click.echo(line, err=True)
    if not click.confirm(question, err=True):
        raise CommandError(refused)


def with_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config and --url, which every command takes."""
    command = click.option("--url", help="one target, without a configuration file")(command)
    return click.option(
        "--config",
        "config",
        type=click.Path(path_type=Path),
        help=f"configuration file (default {DEFAULT_CONFIG}, else built-in defaults)",
    )(command)


def settings_of(config: Path | None, url: str | None) -> Settings:
    """Load the configuration that a command was given. Raises ConfigError, CommandError."""
    from watchdog.config import default, load

    if config is not None and url is not None:
        raise CommandError("--config and --url exclude each other")
    if url is not None:
        return default(url)
    path = config_path(config)
    return default() if path is None else load(path)


def config_path(config: Path | None) -> Path | None:
    """Return the file that counts, None where there is none."""
    if config is not None:
        return config
    return DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None
