"""
What is installed here, what clashes, and what each source shows: `watchdog doctor`.

Each step has a thread and a deadline of its own, so that one that hangs costs its own line only.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from watchdog import installation
from watchdog.config import access_of, load, warnings
from watchdog.doctor_gpus import gpu_steps
from watchdog.doctor_places import PAGE_BYTES, place_steps
from watchdog.domain import series as s
from watchdog.domain.finding import Verdict
from watchdog.domain.sample import NO_FACTS, Reading
from watchdog.errors import ConfigError, NoAnswer, WatchdogError
from watchdog.fetch import Access, Fetcher
from watchdog.installation import Line
from watchdog.probes.vllm_metrics import VllmMetrics
from watchdog.settings import Settings, Target

__all__ = ["Line", "examine"]

PATIENCE: Final = 5.0
"""Seconds for one step."""

SIDE_BY_SIDE: Final = 16

Step = tuple[str, Callable[[], Iterable[Line]]]
"""A name for the line where the step fails, and the step."""


def examine(settings: Settings, config_path: Path | None, patience: float = PATIENCE) -> list[Line]:
    """Take every step; never raises and never hangs. `patience` in seconds for each step."""
    ours = installation.installed()
    network = 0.8 * patience  # its own sentence comes before "did not end"
    steps: list[Step] = [
        ("version", installation.version),
        ("package", partial(installation.integrity, ours)),
        ("libraries", partial(installation.dependencies, ours)),
        ("PyPI's watchdog", partial(installation.clashes, ours)),
        ("commands", installation.commands),
        ("config", partial(configuration, settings, config_path)),
    ]
    steps += [(f"target {t.name}", partial(serves, t, network)) for t in settings.targets]
    steps += place_steps(settings, network)
    steps += gpu_steps(settings, network)
    steps += [
        ("port", partial(port, settings, network)),
        ("processes", processes),
        ("promtool", promtool),
    ]
    return list(run(steps, patience))


def run(steps: list[Step], patience: float) -> Iterator[Line]:
    """Run steps a few at a time; a line for each that crashes or does not end."""
    for first in range(0, len(steps), SIDE_BY_SIDE):
        wave = [_Started(*step) for step in steps[first : first + SIDE_BY_SIDE]]
        deadline = time.monotonic() + patience
        for started in wave:
            yield from started.lines(deadline, patience)


class _Started:
    """A step under way in a thread that nobody waits for at exit."""

    def __init__(self, what: str, step: Callable[[], Iterable[Line]]) -> None:
        self._what, self._step = what, step
        self._lines: list[Line] | None = None
        self._thread = threading.Thread(target=self._run, name=f"doctor: {what}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._lines = list(self._step())
        except Exception as error:  # noqa: BLE001  (a step that crashes is a line, not the end)
            detail = f"could not be examined: {type(error).__name__}: {error}"
            self._lines = [Line(Verdict.UNKNOWN, self._what, detail)]

    def lines(self, deadline: float, patience: float) -> list[Line]:
        """What the step said; one line that it did not end, where it did not."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._lines is not None:
            return [line._replace(detail=_printable(line.detail)) for line in self._lines]
        return [Line(Verdict.UNKNOWN, self._what, f"did not end within {patience:g} s")]


def _printable(text: str) -> str:
    """Escape what a stranger's page or file name could do to a terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def configuration(settings: Settings, path: Path | None) -> Iterator[Line]:
    """Whether the file is good, and what in it looks like a slip."""
    if path is None:
        detail = "no file; the built-in defaults count"
        step = "watchdog config init --output /etc/serving-watchdog/config.yaml"
        yield Line(Verdict.OK, "config", detail, step)
    else:
        try:
            load(path)
            yield Line(Verdict.OK, "config", f"{path} is good")
        except ConfigError as error:
            count = len(error.faults)
            detail = f"{path} has {count} fault{'s' if count > 1 else ''}, and is not used"
            yield Line(Verdict.UNKNOWN, "config", detail, f"watchdog config check --config {path}")
    for doubt in warnings(settings):
        yield Line(Verdict.WARNING, "config", doubt)


def serves(target: Target, patience: float) -> Iterator[Line]:
    """One scrape of a target: is it there, what is it, which facts could not be read."""
    what = f"target {target.name}"
    probe = VllmMetrics(target.name, target.url, access_of(target))
    try:
        reading = probe.read(NO_FACTS, time.monotonic() + patience)
    except NoAnswer as error:
        step = "start the server, or correct the target's url"
        yield Line(Verdict.CRITICAL, what, str(error), step)
    except WatchdogError as error:
        yield Line(Verdict.UNKNOWN, what, str(error), "correct the target's url or its access")
    else:
        yield Line(Verdict.OK, what, _page(reading))
        yield from _absent_facts(what, target, reading)
    finally:
        probe.close()


def _page(reading: Reading) -> str:
    """What a page is, in one line."""
    engines = {sample.subject for sample in reading.samples if "engine" in dict(sample.subject)}
    models = sorted({dict(subject)["model_name"] for subject in engines})
    depth = sum(name in {sample.series for sample in reading.samples} for name in s.POSITIONS)
    speculates = any(sample.series == s.DRAFTS for sample in reading.samples)
    count = f"{len(engines)} engine{'s' if len(engines) != 1 else ''}"
    version = f"vLLM {reading.facts['version']}" if "version" in reading.facts else "vLLM"
    shape = (
        f"series of speculative decoding with {depth} positions" if speculates else "no speculation"
    )
    return f"{version}, {count}, model {', '.join(models)}, {shape}"


def _absent_facts(what: str, target: Target, reading: Reading) -> Iterator[Line]:
    """Optional facts that the server did not tell; nothing is blind without them."""
    if "version" not in reading.facts:
        yield Line(Verdict.OK, what, "/version was not readable; alerts do not name the version")
    if "models" not in reading.facts:
        step = "" if target.bearer_token_file else "if it wants a key: bearer_token_file"
        detail = "/v1/models was not readable; alerts do not name the model's path"
        yield Line(Verdict.OK, what, detail, step)


def port(settings: Settings, patience: float) -> Iterator[Line]:
    """Whether our port is free, or our daemon's already."""
    listen = settings.server.listen
    what = f"port {listen}"
    trouble = _cannot_bind(*settings.server.address)
    if trouble is None:
        yield Line(Verdict.OK, what, "is free; no daemon runs on it", "watchdog run")
    elif trouble.errno != errno.EADDRINUSE:
        reason = (trouble.strerror or str(trouble)).lower()
        step = "choose an address of this host: server.listen"
        yield Line(Verdict.WARNING, what, f"cannot be used: {reason}", step)
    elif _is_our_daemon(settings.server.url, patience):
        yield Line(Verdict.OK, what, "our daemon answers there", "watchdog status")
    else:
        step = "choose another one: server.listen"
        yield Line(Verdict.WARNING, what, "is held by another program", step)


def _cannot_bind(host: str, number: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.closing(socket.socket(family, kind, protocol)) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        return error
    return None


def _is_our_daemon(url: str, patience: float) -> bool:
    try:
        page = Fetcher(url, Access()).get("/metrics", time.monotonic() + patience, PAGE_BYTES)
    except WatchdogError:
        return False
    return b"\nwatchdog_build_info{" in page.body


def processes(proc: Path = Path("/proc")) -> Iterator[Line]:
    """Whether the command lines of others can be read, by which a starting server is known."""
    others = [folder for folder in proc.iterdir() if folder.name.isdecimal()]
    readable = sum(_has_readable_argv(folder) for folder in others)
    detail = f"the command lines of {readable} of {len(others)} processes can be read"
    if (proc / "1").exists() and readable == len(others):
        yield Line(Verdict.OK, "processes", detail)
        return
    if not (proc / "1").exists():
        detail = f"only {len(others)} processes can be seen, not those of other users"
    detail += f" ({proc} is mounted with hidepid?); a server that starts may be called down"
    step = "add the service's user to the group that the mount option gid= names"
    yield Line(Verdict.UNKNOWN, "processes", detail, step)


def _has_readable_argv(folder: Path) -> bool:
    try:
        (folder / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True  # it ended meanwhile
    except OSError:
        return False
    return True


def promtool() -> Iterator[Line]:
    """Say whether Prometheus' tool is here; nothing needs it."""
    found = shutil.which("promtool")
    yield Line(Verdict.OK, "promtool", found or "not installed, and not needed")
