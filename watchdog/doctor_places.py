"""The part of `watchdog doctor` about where alerts go, and where what is remembered is kept."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from watchdog.build import address_of
from watchdog.config import access_of
from watchdog.domain.finding import Verdict
from watchdog.errors import ConfigError, WatchdogError
from watchdog.fetch import Fetcher
from watchdog.installation import Line
from watchdog.settings import AlertmanagerSettings, Settings, WebhookSettings
from watchdog.store_file import MIGRATIONS, NAME, asides, connect, known_version

PAGE_BYTES: Final = 1 << 20


def place_steps(
    settings: Settings, patience: float
) -> list[tuple[str, Callable[[], Iterable[Line]]]]:
    """Return a step for each place; `patience` in seconds for one that is asked."""
    alerting = settings.alerting
    steps: list[tuple[str, Callable[[], Iterable[Line]]]] = [
        (f"alertmanager {part.url}", partial(accepts, part, patience))
        for part in alerting.alertmanagers
    ]
    steps += [(f"webhook {part.name}", partial(is_told, part)) for part in alerting.webhooks]
    if alerting.textfile is not None:
        steps.append(("textfile", partial(writes, alerting.textfile)))
    return [*steps, ("state", partial(remembers, settings.state_dir))]


def accepts(part: AlertmanagerSettings, patience: float) -> Iterator[Line]:
    """Whether an Alertmanager says that it is ready."""
    what = f"alertmanager {part.url}"
    try:
        fetcher = Fetcher(part.url, access_of(part))
        page = fetcher.get("/-/ready", time.monotonic() + patience, PAGE_BYTES)
    except WatchdogError as error:
        step = "start it, or correct alerting.alertmanagers"
        yield Line(Verdict.CRITICAL, what, str(error), step)
        return
    if page.status == 200:
        yield Line(Verdict.OK, what, "is ready", "watchdog alert test")
    elif page.status in (401, 403):
        detail = f"answered {page.status}: it wants a token or a password"
        yield Line(Verdict.CRITICAL, what, detail, "give bearer_token_file, or username")
    else:
        step = "is this an Alertmanager, and is its path prefix in the url?"
        detail = f"answered {page.status} to /-/ready, not 200"
        yield Line(Verdict.CRITICAL, what, detail, step)


def is_told(part: WebhookSettings) -> Iterator[Line]:
    """Whether a webhook's address is known; it is not asked, since a post would be an alert."""
    what = f"webhook {part.name}"
    try:
        address_of(part)
    except ConfigError as error:
        yield Line(Verdict.CRITICAL, what, error.faults[0], "write the address into that file")
    else:
        yield Line(Verdict.OK, what, "is configured, and was not asked", "watchdog alert test")


def writes(file: Path) -> Iterator[Line]:
    """Whether the file for node_exporter can be written by whoever asks."""
    if file.is_dir():
        step = "name a file that ends in .prom: alerting.textfile"
        yield Line(Verdict.WARNING, "textfile", f"{file} is a directory", step)
        return
    if os.access(file.parent, os.W_OK | os.X_OK):
        yield Line(Verdict.OK, "textfile", f"{file.parent} can be written")
        return
    step = f"let the service's user write to {file.parent} (in the unit: ReadWritePaths=)"
    yield Line(Verdict.WARNING, "textfile", f"{file.parent} cannot be written by this user", step)


def remembers(directory: Path) -> Iterator[Line]:
    """Whether alerts can be kept over a restart; looked at, and nothing is made."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        detail = f"{existing} cannot be written by this user"
        step = "if the daemon runs as this user: choose another state_dir, or alerts are forgotten"
        yield Line(Verdict.OK, "state", detail, step)
        return
    aside = [path.name for path in asides(directory / NAME)]
    detail = f"{directory / NAME} keeps alerts and what was learned"
    if existing != directory:
        detail = f"{directory} will be made by `watchdog run`"
    if existing == directory:
        yield from _file(directory / NAME)
    if aside:
        detail += f"; {len(aside)} set aside because it could not be used, the last: {aside[-1]}"
        step = f"look into it, then remove it from {directory}"
        yield Line(Verdict.WARNING, "state", detail, step)
        return
    yield Line(Verdict.OK, "state", detail)


def _file(path: Path) -> Iterator[Line]:
    """What the next start would say of the file; it is read, and nothing else."""
    if not path.exists():
        return
    try:
        with closing(connect(f"file:{path}?mode=ro", uri=True)) as db:
            version = known_version(db)
            db.execute("SELECT count(*) FROM kept").fetchone()
    except sqlite3.Error as error:
        step = "the next start of the daemon sets it aside and begins a new one"
        yield Line(Verdict.WARNING, "state", f"{path} cannot be read: {error}", step)
        return
    if version > len(MIGRATIONS):
        detail = f"{path} was written by a newer version: this one does not start on it"
        yield Line(Verdict.CRITICAL, "state", detail, "run the daemon by hand: it says what to do")
