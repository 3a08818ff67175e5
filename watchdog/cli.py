"""The commands: parse, call, print, exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from watchdog import __version__
from watchdog.cli_alert import alert_group
from watchdog.cli_baseline import baseline_group
from watchdog.cli_cache import cache_group
from watchdog.cli_config import config_group
from watchdog.cli_options import Seconds, config_path, settings_of, with_config
from watchdog.domain.finding import Verdict, worst
from watchdog.errors import CommandError, ConfigError, WatchdogError

if TYPE_CHECKING:
    from watchdog.checking import Progress
    from watchdog.settings import Settings

UNKNOWN: Final = 3


def main(argv: list[str] | None = None) -> int:
    """Run one command; every failure of our own is 3, never 1 or 2."""
    try:
        code = cli.main(argv, prog_name="watchdog", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        return _fail(f"{error.format_message().rstrip('.')}; see `watchdog --help`")
    except click.Abort:
        return _fail("interrupted")
    except ConfigError as error:
        for fault in error.faults:
            _fail(fault)
        return UNKNOWN
    except WatchdogError as error:
        return _fail(str(error))
    return code if isinstance(code, int) else 0


def _fail(what: str) -> int:
    print(f"serving-watchdog: {what}", file=sys.stderr)
    return UNKNOWN


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="serving-watchdog %(version)s")
def cli() -> None:
    """serving-watchdog: is this inference host lossless but slow?"""


def _only(settings: Settings, names: tuple[str, ...]) -> Settings:
    """Keep the named targets. Raises CommandError naming the ones that exist."""
    if not names:
        return settings
    known = [target.name for target in settings.targets]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise CommandError(f"no target {', '.join(unknown)}; there are: {', '.join(known)}")
    kept = tuple(target for target in settings.targets if target.name in names)
    return settings.model_copy(update={"targets": kept})


@cli.command()
@with_config
def run(config: Path | None, url: str | None) -> int:
    """Watch for ever (the daemon)."""
    from watchdog import logs
    from watchdog.daemon import Daemon

    logs.configure()
    # A file that is gone at a reload is a fault then, and no reason to fall back to defaults.
    path = None if url is not None else config_path(config)
    return Daemon(settings_of(path, url), lambda: settings_of(path, url)).run()


@cli.command()
@click.argument("targets", nargs=-1)
@with_config
@click.option("--window", type=Seconds(), default="120s", show_default=True, help="longest wait")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
@click.option("--nagios", is_flag=True, help="one line and perfdata")
@click.option("--all", "everything", is_flag=True, help="also what is well, check by check")
@click.option("--replay", type=click.Path(path_type=Path), help="judge a recorded folder instead")
@click.option("--fresh", is_flag=True, help="do not ask a running daemon")
def check(  # noqa: PLR0913, PLR0917  (one argument an option)
    targets: tuple[str, ...],
    config: Path | None,
    url: str | None,
    window: float,
    as_json: bool,  # noqa: FBT001
    nagios: bool,  # noqa: FBT001
    everything: bool,  # noqa: FBT001
    replay: Path | None,
    fresh: bool,  # noqa: FBT001
) -> int:
    """Judge once; the exit code is the worst verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
    from watchdog import checking, logs

    logs.configure(level="error")
    source = ""
    if replay is not None:
        report = checking.replayed(replay, _only(_for_replay(replay, config, url), targets))
        source = f" (replay of {replay})"
    else:
        settings = _only(settings_of(config, url), targets)
        found = None if fresh else checking.from_daemon(settings)
        if found is not None:
            source = " (said by the running daemon)"
        report = found or _checked(settings, window)
    _print_report(report, as_json, nagios, everything, source)
    return int(Verdict[report["verdict"]])


def _for_replay(directory: Path, config: Path | None, url: str | None) -> Settings:
    """`--config` beats the folder's own; without both, its targets with the defaults."""
    from watchdog.checking import settings_for
    from watchdog.config import load

    if config is not None or url is not None:
        return settings_of(config, url)
    own = directory / "config.yaml"
    return load(own) if own.exists() else settings_for(directory)


def _checked(settings: Settings, window: float) -> dict[str, Any]:
    """Make rounds, with progress on standard error where a person looks at it."""
    from watchdog import checking

    if not sys.stderr.isatty():
        return checking.check(settings, window)
    from rich.console import Console

    with Console(stderr=True).status("reading for the first time ...") as status:

        def told(progress: Progress) -> None:
            still = progress.open[0] if progress.open else "done"
            status.update(f"{progress.waited:.0f} s of at most {progress.window:.0f} s: {still}")

        return checking.check(settings, window, told)


def _print_report(
    report: dict[str, Any],
    as_json: bool,  # noqa: FBT001
    nagios: bool,  # noqa: FBT001
    everything: bool,  # noqa: FBT001
    source: str,
) -> None:
    from watchdog import telling

    if as_json:
        click.echo(json.dumps(report, indent=2, ensure_ascii=False))
    elif nagios:
        click.echo(telling.for_nagios(report))
    else:
        click.echo(telling.for_people(report, everything=everything, source=source))


@cli.command()
@click.argument("directory", type=click.Path(path_type=Path))
@with_config
@click.option("--window", type=Seconds(), default="60s", show_default=True)
def capture(directory: Path, config: Path | None, url: str | None, window: float) -> int:
    """Record what the targets say, for a bug report or `check --replay`."""
    from watchdog import checking

    settings = settings_of(config, url)
    taken, missed, gpus = checking.record(settings, directory, window)
    of_gpus = f" and {gpus} GPU(s)" if gpus else ""
    click.echo(
        f"serving-watchdog: {taken} pages{of_gpus} recorded in {directory}, {missed} failed; "
        f"secrets and host names are replaced"
    )
    click.echo(f"look it through, then attach it; judge it: watchdog check --replay {directory}")
    return 0 if taken or (gpus and not settings.targets) else UNKNOWN


@cli.command()
@with_config
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
@click.option("--all", "everything", is_flag=True, help="also what is well, check by check")
def status(config: Path | None, url: str | None, as_json: bool, everything: bool) -> int:  # noqa: FBT001
    """Tell what the running daemon last reported."""
    from watchdog import checking, telling

    report = checking.daemon_report(settings_of(config, url))
    _print_report(report, as_json, nagios=False, everything=everything, source="")
    return int(telling.verdict_of(report))


@cli.command("links")
@with_config
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
@click.option("--propose", is_flag=True, help="print a gpus: section to review, and apply nothing")
@click.option("--despite-errors", is_flag=True, help="propose from a boot with link errors as well")
def links_command(
    config: Path | None,
    url: str | None,
    as_json: bool,  # noqa: FBT001
    propose: bool,  # noqa: FBT001
    despite_errors: bool,  # noqa: FBT001
) -> int:
    """Every GPU's link: declared, actual, each witness, errors; exits with the worst verdict."""
    from watchdog import links, logs, telling

    if as_json and propose:
        raise CommandError("--json and --propose exclude each other")
    if despite_errors and not propose:
        raise CommandError("--despite-errors goes with --propose")
    logs.configure(level="error")
    report = links.links(settings_of(config, url))
    if propose:
        click.echo(links.proposal(report, with_errors=despite_errors), nl=False)
        return 0
    text = json.dumps(report, indent=2, ensure_ascii=False) if as_json else links.table(report)
    click.echo(text)
    return int(telling.verdict_of(report))


@cli.command()
@click.argument("target")
@click.argument("duration", type=Seconds())
@with_config
def pause(target: str, duration: float, config: Path | None, url: str | None) -> int:
    """Watch and record TARGET, but alert nothing about it for DURATION (30m)."""
    from watchdog import checking

    settings = settings_of(config, url)
    checking.ask_daemon(settings, "/api/v1/pause", {"target": target, "seconds": duration})
    click.echo(f"serving-watchdog: {target} is paused for {duration:.0f} s; it ends by itself")
    return 0


@cli.command()
@click.argument("target")
@with_config
def resume(target: str, config: Path | None, url: str | None) -> int:
    """End a pause."""
    from watchdog import checking

    answer = checking.ask_daemon(settings_of(config, url), "/api/v1/resume", {"target": target})
    said = "is alerted again" if answer.get("was_paused") else "was not paused"
    click.echo(f"serving-watchdog: {target} {said}")
    return 0


cli.add_command(config_group)
cli.add_command(alert_group)
cli.add_command(baseline_group)
cli.add_command(cache_group)


@cli.command()
def demo() -> int:
    """See the incident happen to a simulated server, through the real daemon (a minute)."""
    from watchdog import demo as story

    return story.run()


@cli.command()
@with_config
def doctor(config: Path | None, url: str | None) -> int:
    """What is installed, what clashes, and what each source can see here."""
    from watchdog.config import default
    from watchdog.doctor import examine

    path = config_path(config)
    faults: list[str] = []
    try:
        settings = settings_of(config, url)
    except ConfigError as error:
        settings, faults = default(), error.faults
    lines = examine(settings, path)
    verdict = worst([*(line.verdict for line in lines), *(Verdict.UNKNOWN for _ in faults)])
    click.echo(f"serving-watchdog {__version__} on {settings.host}: {verdict.name}")
    for fault in faults:
        click.echo(f"{'UNKNOWN':<9} config: {fault}")
    for line in lines:
        click.echo(f"{line.verdict.name:<9} {line.what}: {line.detail}")
        if line.next_step:
            click.echo(f"{'':<9} next: {line.next_step}")
    return int(verdict)
