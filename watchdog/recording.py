"""A recorded folder (DESIGN 4.3): how `capture` writes it and `check --replay` reads it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote, unquote

from watchdog.domain.report import rfc3339
from watchdog.domain.sample import Facts, Reading
from watchdog.errors import CommandError, NoAnswer, NotUnderstood, ProbeError
from watchdog.fetch import Access
from watchdog.fetch_sockets import reason_of
from watchdog.gpu_recording import (
    NO_GPUS,
    SYS,
    GpuRecorder,
    Taken,
    json_of,
    launch_of,
    recorded,
)
from watchdog.probes.compile_cache import CompileCache
from watchdog.probes.launch import Launch
from watchdog.probes.server_log import ServerLog
from watchdog.probes.vllm_metrics import VllmMetrics, details_of
from watchdog.probes.vllm_page import parse_page
from watchdog.reader import GRACE, Reader
from watchdog.redaction import Redactor, redactor_of
from watchdog.tree import Tree

LARGEST: Final = 8 * 2**20  # bytes of a file that is read
LAUNCH: Final = "launch"
LAUNCH_SECONDS: Final = 5.0
CACHE: Final = "cache"
CACHE_SECONDS: Final = 5.0
LOG: Final = "log"
LOG_FACTS: Final = (LOG, "log_unknown")
LARGEST_CACHE: Final = 16 * 2**20  # bytes of what was learned of a compile cache
DETAIL_FILES: Final = ("version.json", "models.json")
_ANSWERED: Final = "(it answered)"
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d{1,9})?(?:([Zz])|([+-])(\d\d):(\d\d))"
)

Scrape = Mapping[str, bytes] | ProbeError
"""One target's bodies by file name, or why there are none."""


class Snapshot(NamedTuple):
    """What is written of one moment: scrapes, and facts of each kind by target, and the GPUs."""

    scrapes: Mapping[str, Scrape]
    gpus: Taken = NO_GPUS
    launches: Mapping[str, Facts] = MappingProxyType({})
    caches: Mapping[str, Facts] = MappingProxyType({})
    logs: Mapping[str, Facts] = MappingProxyType({})


class Clock(Protocol):
    """What `capture` needs of `watchdog.clock.Clock`."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> bool: ...


@dataclass(frozen=True)
class Recorder:
    """Writes snapshots; nothing reaches the disk that `redactor` has not seen."""

    redactor: Redactor

    def write(self, directory: Path, index: int, at: float, snapshot: Snapshot) -> None:
        """Write one snapshot, `at` in Unix seconds; it appears whole or not at all."""
        whole = directory / f"{index:03d}"
        part = directory / f".{index:03d}.part"
        for target, scrape in snapshot.scrapes.items():
            folder = part / "targets" / _file_name(self.redactor.text(target))
            folder.mkdir(parents=True)
            if isinstance(scrape, ProbeError):
                marks = "" if isinstance(scrape, NoAnswer) else f"\n{_ANSWERED}"
                text = f"{self.redactor.text(str(scrape))}{marks}\n"
                (folder / "metrics.error").write_text(text, encoding="utf-8")
                continue
            for file, body in scrape.items():
                (folder / file).write_bytes(self.redactor.body(body))
        part.mkdir(parents=True, exist_ok=True)
        snapshot.gpus.write(part)
        for kind, learned in (
            (LAUNCH, snapshot.launches), (CACHE, snapshot.caches), (LOG, snapshot.logs)
        ):  # fmt: skip
            for target, facts in learned.items():
                place = part / kind / f"{_file_name(self.redactor.text(target))}.json"
                place.parent.mkdir(exist_ok=True)
                body = json.dumps(facts, indent=1, sort_keys=True).encode() + b"\n"
                place.write_bytes(self.redactor.body(body))
        (part / "at").write_text(rfc3339(at) + "\n", encoding="ascii")
        part.rename(whole)


def capture(
    probes: Sequence[object],
    directory: Path,
    gpus: GpuRecorder,
    rounds: int,
    interval: float,
    clock: Clock,
) -> int:
    """
    Record `rounds` snapshots, one every `interval` seconds; return how many scrapes succeeded.

    Of `probes` the targets' pages and processes count, and `gpus` beside them. A scrape that
    fails is recorded too. Raises CommandError where the folder cannot be used.
    """
    pages = [probe for probe in probes if isinstance(probe, VllmMetrics)]
    launches = {p.target: Reader(p) for p in probes if isinstance(p, Launch)}
    caches = {p.target: Reader(p) for p in probes if isinstance(p, CompileCache)}
    logs = {p.target: Reader(p) for p in probes if isinstance(p, ServerLog)}
    seen, said = dict[str, Facts](), dict[str, Facts]()
    known: dict[str, dict[str, object]] = {}
    recorder = Recorder(redactor_for(probes))
    succeeded = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise CommandError(f"{directory} is not empty: name a new folder to record into")
        for index in range(rounds):
            began = clock.now()
            scrapes = {page.target: _scrape(page, min(interval, 10.0)) for page in pages}
            for target, scrape in scrapes.items():
                known[target] = _learned(launches.get(target), known.get(target, {}), scrape)
            told = {target: facts for target, facts in known.items() if facts.keys() - {"answered"}}
            seen, said = _all_looked(caches, known, seen), _all_looked(logs, known, said)
            caught = ((target, facts.get(CACHE)) for target, facts in seen.items())
            found = {target: cache for target, cache in caught if isinstance(cache, Mapping)}
            taken = gpus.take(min(interval, 10.0))
            lines = {target: _of_log(facts) for target, facts in said.items() if _of_log(facts)}
            recorder.write(directory, index, began, Snapshot(scrapes, taken, told, found, lines))
            succeeded += sum(not isinstance(scrape, ProbeError) for scrape in scrapes.values())
            rest = began + interval - clock.now()
            if index + 1 < rounds and clock.sleep(max(0.0, rest)):
                break
    except OSError as error:
        raise CommandError(f"cannot record into {directory}: {reason_of(error)}") from error
    finally:
        gpus.close()
        for reader in (*launches.values(), *caches.values(), *logs.values()):
            reader.end()
    return succeeded


def _learned(launch: Reader | None, known: Facts, scrape: Scrape) -> dict[str, object]:
    """What is known of the target's processes, asked anew as seldom as a daemon would."""
    if launch is None:
        return {}
    answered = not isinstance(scrape, NoAnswer)
    told = {} if isinstance(scrape, ProbeError) else details_of(scrape)
    deadline = time.monotonic() + LAUNCH_SECONDS
    launch.start({**known, **told, "answered": answered}, deadline)
    launch.has_ended(deadline + GRACE)  # a disk that hangs costs that alone
    reading = launch.result()
    return {} if reading.error is not None else {**reading.facts, "answered": answered}


def _all_looked(
    readers: Mapping[str, Reader], known: Mapping[str, Facts], seen: Mapping[str, Facts]
) -> dict[str, Facts]:
    return {
        target: _looked(reader, known.get(target, {}), seen.get(target, {}))
        for target, reader in readers.items()
    }


def _looked(reader: Reader, launch: Facts, seen: Facts) -> Facts:
    """What is known of the target's compile cache or log; a disk that hangs costs that alone."""
    deadline = time.monotonic() + CACHE_SECONDS
    reader.start({**seen, **launch}, deadline)
    reader.has_ended(deadline + GRACE)
    return reader.result().facts


def _scrape(page: VllmMetrics, seconds: float) -> Scrape:
    try:
        return page.scrape(time.monotonic() + seconds)
    except ProbeError as error:
        return error


def redactor_for(probes: Sequence[object]) -> Redactor:
    """Make what hides this host, the targets' hosts, and secrets."""
    pages = [probe for probe in probes if isinstance(probe, VllmMetrics)]
    own = {socket.gethostname(), socket.gethostname().lower()}
    secrets = [secret for page in pages for secret in _secrets(page.access)]
    return redactor_of(own, [page.url for page in pages], secrets)


def _secrets(access: Access) -> Iterator[str]:
    for file in (access.bearer_token_file, access.password_file):
        if file is not None:
            with contextlib.suppress(OSError):  # the scrape says what is wrong with it
                yield file.read_text(encoding="utf-8", errors="replace").strip()


def _file_name(target: str) -> str:
    """Turn a target's name into the name of one folder, which `unquote` turns back."""
    name = quote(target, safe=" :@+,=()")
    return name.replace(".", "%2E", 1) if name.startswith(".") else name


class Recording:
    """A recorded folder; snapshots are read one by one, in numeric order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            found = [path for path in directory.iterdir() if path.name.isdecimal()]
        except OSError as error:
            raise CommandError(f"cannot read {directory}: {reason_of(error)}") from error
        self._folders = sorted((path for path in found if path.is_dir()), key=_number)
        if not self._folders:
            raise CommandError(f"{directory} holds no snapshots: folders 000, 001, ... are missing")

    def targets(self) -> list[str]:
        """Names of all targets that any snapshot has, sorted."""
        return sorted({unquote(t.name) for folder in self._folders for t in _targets(folder)})

    def snapshots(self) -> Iterator[tuple[float, list[Reading]]]:
        """
        Yield each snapshot's time in Unix seconds and its readings.

        Raises CommandError, naming the file, where a time is missing, malformed or not later
        than the one before.
        """
        last: float | None = None
        for folder in self._folders:
            at = _at(folder / "at")
            if last is not None and at <= last:
                raise CommandError(f"{folder / 'at'}: not later than the snapshot before it")
            last = at
            readings = [_reading(target) for target in _targets(folder)]
            launches = [launch_of(f, Tree(folder / SYS)) for f in _learned_of(folder, LAUNCH)]
            caches = [_cache_of(file) for file in _learned_of(folder, CACHE)]
            logs = [_log_of(file) for file in _learned_of(folder, LOG)]
            found = (*readings, *launches, *caches, *logs, *recorded(folder))
            yield at, [reading for reading in found if reading is not None]


def _number(folder: Path) -> tuple[int, str]:
    return int(folder.name), folder.name


def _targets(folder: Path) -> list[Path]:
    place = folder / "targets"
    try:
        return sorted(path for path in place.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []  # a snapshot of other sources
    except OSError as error:
        raise CommandError(f"cannot read {place}: {reason_of(error)}") from error


def _reading(folder: Path) -> Reading | None:
    """One target's reading in one snapshot; None where it has none."""
    name, target = VllmMetrics.name, unquote(folder.name)
    body = _bytes(folder / "metrics.prom")
    if body is None:
        told = _bytes(folder / "metrics.error")
        if told is None:
            return None
        sentence, _, mark = told.decode("utf-8", "replace").strip().partition("\n")
        return Reading(name, target, error=sentence or "failed", answered=mark.strip() == _ANSWERED)
    shown = f"the recorded page of {target}"
    if len(body) > LARGEST:
        return Reading(name, target, error=f"{shown} is longer than {LARGEST} bytes")
    try:
        samples, facts = parse_page(target, body.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Reading(name, target, error=f"{shown} is not UTF-8 text at byte {error.start}")
    except NotUnderstood as error:
        return Reading(name, target, error=f"{shown} {error}")
    details = {file: _bytes(folder / file) or b"" for file in DETAIL_FILES}
    return Reading(name, target, samples, {**facts, **details_of(details)})


def _learned_of(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / kind).glob("*.json"))


def _cache_of(file: Path) -> Reading:
    """Read what was learned of a target's compile cache in one snapshot. Raises CommandError."""
    target = unquote(file.name.removesuffix(".json"))
    return Reading(CompileCache.name, target, facts={CACHE: json_of(file, LARGEST_CACHE)})


def _log_of(file: Path) -> Reading:
    """Read what a target's log said in one snapshot. Raises CommandError."""
    target = unquote(file.name.removesuffix(".json"))
    return Reading(ServerLog.name, target, facts=_of_log(json_of(file)))


def _of_log(facts: Facts) -> Facts:
    return {key: facts[key] for key in LOG_FACTS if key in facts}


def _bytes(file: Path) -> bytes | None:
    """Return the file, at most one byte more than LARGEST; None where there is none."""
    try:
        with file.open("rb") as stream:
            return stream.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"cannot read {file}: {reason_of(error)}") from error


def _at(file: Path) -> float:
    """Read an RFC 3339 time as Unix seconds."""
    body = _bytes(file)
    if body is None:
        raise CommandError(f"{file} is missing: every snapshot needs its time")
    match = _TIME.fullmatch(body[:100].decode("ascii", "replace").strip())
    if match is None:
        raise CommandError(f"{file} holds no RFC 3339 time such as 2026-11-30T03:12:16Z")
    date, clock, fraction, _, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}").replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise CommandError(f"{file} holds a time that does not exist: {error}") from error
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    moment = moment + offset if sign == "-" else moment - offset
    return moment.timestamp() + float(fraction or 0)
