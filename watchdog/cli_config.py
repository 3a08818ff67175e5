"""The commands about the configuration."""

from __future__ import annotations

from pathlib import Path

import click

from watchdog.cli_options import config_path, settings_of, with_config
from watchdog.errors import CommandError


@click.group("config")
def config_group() -> None:
    """Check, show or write the configuration."""


@config_group.command("check")
@with_config
def config_check(config: Path | None, url: str | None) -> int:
    """Validate; every fault with its line and column."""
    from watchdog.config import warnings

    settings = settings_of(config, url)
    for doubt in warnings(settings):
        click.echo(f"serving-watchdog: warning: {doubt}")
    click.echo(f"serving-watchdog: {config_path(config) or 'built-in defaults'}: good; "
               f"{len(settings.targets)} target(s)")  # fmt: skip
    return 0


@config_group.command("show")
@with_config
def config_show(config: Path | None, url: str | None) -> int:
    """Print the whole configuration, defaults included."""
    from watchdog.config import as_yaml

    click.echo(as_yaml(settings_of(config, url)), nl=False)
    return 0


@config_group.command("init")
@click.option("--output", type=click.Path(path_type=Path), help="write there, never over a file")
def config_init(output: Path | None) -> int:
    """Find the vLLM servers on this host's ports and propose a first configuration."""
    from watchdog import discover

    found, untried = discover.search(timeout=5.0)
    text = discover.first_config(found, untried)
    if output is None:
        click.echo(text, nl=False)
        return 0
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandError(f"{output} exists and is left as it is") from None
    except OSError as error:
        raise CommandError(f"{output}: {error.strerror}") from None
    click.echo(f"serving-watchdog: wrote {output}; look it through, then: "
               f"watchdog config check --config {output}")  # fmt: skip
    return 0
