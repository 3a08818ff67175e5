"""The commands about learned baselines: they ask the daemon, which alone has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from watchdog.cli_options import confirm, settings_of, with_config
from watchdog.errors import CommandError

UNKNOWN: Final = 3
PATH: Final = "/api/v1/baseline"


@click.group("baseline")
def baseline_group() -> None:
    """Show, accept or forget the acceptance length that each engine is used to."""


_engine = click.option("--engine", metavar="NAME", help="this engine alone; else all of the target")


@baseline_group.command("show")
@click.argument("target", required=False)
@with_config
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def baseline_show(
    target: str | None,
    config: Path | None,
    url: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """What each engine is used to, how far it has learned, and what it does now."""
    from watchdog import baselines_table

    answer = _of_target(_asked(config, url), target)
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    elif answer["baselines"]:
        click.echo(baselines_table.table(answer["baselines"], now=answer["at"]))
    else:
        click.echo(f"serving-watchdog: no engine of {target or 'any target'} was read yet")
    return 0


@baseline_group.command("accept")
@click.argument("target")
@_engine
@with_config
def baseline_accept(target: str, engine: str | None, config: Path | None, url: str | None) -> int:
    """Take the present length of TARGET for the new normal, and end what is raised about it."""
    return _change("accept", target, engine, config, url)


@baseline_group.command("reset")
@click.argument("target")
@_engine
@click.option("--yes", is_flag=True, help="do not ask whether that is meant")
@with_config
def baseline_reset(
    target: str,
    engine: str | None,
    yes: bool,  # noqa: FBT001
    config: Path | None,
    url: str | None,
) -> int:
    """Forget what TARGET is used to, and learn it anew."""
    if not yes:
        _confirm(target, engine, _of_target(_asked(config, url), target)["baselines"])
    return _change("reset", target, engine, config, url)


def _confirm(target: str, engine: str | None, found: list[dict[str, Any]]) -> None:
    """Raise CommandError unless somebody says yes."""
    days = [row["days"] for row in found if engine in (None, row["subject"].get("engine"))]
    whom = target if engine is None else f"{target} engine {engine}"
    known = max(days, default=0)
    question = f"forget {known} day{'' if known == 1 else 's'} of {whom} and learn anew?"
    confirm(question, "nothing was changed")


def _change(how: str, target: str, engine: str | None, config: Path | None, url: str | None) -> int:
    from watchdog import baselines, baselines_table, checking

    body = {"target": target, "engine": engine}
    answer = checking.ask_daemon(settings_of(config, url), f"{PATH}/{how}", body)
    for line in baselines_table.told(answer):
        click.echo(f"serving-watchdog: {line}")
    refused = baselines.refusals(answer)
    for line in refused:
        click.echo(f"serving-watchdog: {line}", err=True)
    return UNKNOWN if refused else 0


def _asked(config: Path | None, url: str | None) -> dict[str, Any]:
    from watchdog import checking

    return checking.ask_daemon(settings_of(config, url), PATH)


def _of_target(answer: dict[str, Any], target: str | None) -> dict[str, Any]:
    """Keep one target's. Raises CommandError naming the targets there are."""
    if target is None:
        return answer
    if target not in answer["targets"]:
        known = ", ".join(answer["targets"]) or "none"
        raise CommandError(f"unknown target; known: {known}")
    kept = [row for row in answer["baselines"] if row["subject"].get("target") == target]
    return {**answer, "targets": [target], "baselines": kept}
