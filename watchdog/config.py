"""A file, or nothing, to Settings; all faults are told at once, each with its line and column."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError

from watchdog.checks import ABOUT_HOST, CHECKS
from watchdog.domain.link import Slot
from watchdog.domain.profile import ICC, Profile
from watchdog.domain.sample import HOST
from watchdog.doubts import warnings
from watchdog.errors import ConfigError
from watchdog.faults import faults_of, nothing_given
from watchdog.limits import Limits, make_checks, merged
from watchdog.settings import Settings, Target, access_of
from watchdog.yaml_marks import Document, Fault, Place, read

__all__ = [
    "access_of", "as_yaml", "checks_for", "default", "for_recording", "host_profile", "load",
    "profile_of", "warnings",
]  # fmt: skip

MOST_BYTES: Final = 1 << 20
"""A configuration above 1 MiB is some other file."""

LEAST: Final = "the least is `targets: [{url: http://127.0.0.1:8000}]`"


def load(path: Path) -> Settings:
    """Read the file. Raises ConfigError with every fault as `file:line:column: path: what`."""
    document = read(_text_of(path))
    settings, faults = _settings_of(document)
    if settings is None or faults:
        faults.sort(key=lambda fault: fault.mark)
        raise ConfigError([_line(path, fault) for fault in faults])
    return settings


def default(url: str | None = None) -> Settings:
    """Make the settings without a file: one target, at `url` if given. Raises ConfigError."""
    if url is None:
        return Settings()
    try:
        return Settings.model_validate({"targets": [{"url": url}]})
    except ValidationError as error:
        faults = [f"--url: {part['ctx']['error']}" for part in error.errors()]
        raise ConfigError(faults) from None


def checks_for(settings: Settings, target: str) -> dict[str, Any]:
    """
    Make every check with the limits for this target: its own over all targets' over default.

    For HOST, those about the host and its GPUs, else those about targets and engines.
    """
    of_host = target == HOST
    asked = {name: kind for name, kind in CHECKS.items() if (kind.about in ABOUT_HOST) == of_host}
    return make_checks(_limits_for(settings, target), asked)


def host_profile(settings: Settings) -> Profile:
    """Return what is declared of this host's slots."""
    slots = settings.gpus.slots.items()
    return Profile(slots=tuple(Slot(k, s.generation, s.width, s.note or "") for k, s in slots))


def profile_of(settings: Settings, target: Target) -> Profile:
    """Return what is declared of a target, as checks and history want it."""
    expect = target.expect
    return Profile(
        expect.speculation,
        expect.method,
        expect.depth,
        expect.acceptance_length,
        target.cache.cold_start,
        _limits_for(settings, target.name).get("acceptance_length", {}).get("icc", ICC),
        routing=target.routing,
        version=expect.version,
        warm_start=target.cache.warm_start,
    )


def as_yaml(settings: Settings) -> str:
    """Return the whole configuration, defaults included, as a file that `load` accepts."""
    data = settings.model_dump(mode="json", exclude_none=True)
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return f"# serving-watchdog: the whole configuration, defaults included\n{text}"


def for_recording(settings: Settings, name: Callable[[str], str]) -> str:
    """Return what a recording is judged by: claims and limits; `name` hides what must be hidden."""
    targets: list[dict[str, Any]] = []
    for port, target in enumerate(settings.targets, 1):
        url = f"http://127.0.0.1:{port}"  # none is asked in a replay
        claims = _given(target, {"expect", "routing", "cache", "checks"})
        targets.append({"url": url, "name": name(target.name), **claims})
    slots = {key: slot.model_dump(exclude_none=True) for key, slot in settings.gpus.slots.items()}
    written: dict[str, Any] = {"targets": targets, "gpus": {"slots": slots}}
    written |= _given(settings, {"checks", "interval"})
    text = yaml.safe_dump(written, sort_keys=False)
    return f"# what this recording is judged by, without addresses and secrets\n{text}"


def _given(part: BaseModel, keys: set[str]) -> dict[str, Any]:
    """Return these keys of a section as the file would write them, where they are no default."""
    return part.model_dump(mode="json", include=keys, exclude_none=True, exclude_defaults=True)


def _limits_for(settings: Settings, target: str) -> Limits:
    own = next((part.checks for part in settings.targets if part.name == target), {})
    return merged(settings.checks, own)


def _text_of(path: Path) -> str:
    """Read a text file, with the sentence that mends it where it is none."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError([f"{path}: is no file"])
        with path.open("rb") as file:
            body = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        hint = f"write one with `watchdog config init --output {path}`"
        raise ConfigError([f"{path}: does not exist; {hint}"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {(error.strerror or '?').lower()}"]) from None
    if len(body) > MOST_BYTES:
        raise ConfigError([f"{path}: is larger than 1 MiB; this is no configuration"])
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{body[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise ConfigError([f"{path}:{line}:1: {what}"]) from None


def _settings_of(document: Document) -> tuple[Settings | None, list[Fault]]:
    """The settings, or what is wrong; a part with one fault is not told a second time."""
    faults = list(document.faults)
    if not isinstance(document.data, dict):
        if not faults:
            faults.append(Fault(document.mark(()), (), _no_sections(document)))
        return None, faults
    settings = None
    found = list(nothing_given(document))
    found += _same_names(document)
    try:
        settings = Settings.model_validate(document.data)
    except ValidationError as error:
        found += faults_of(error, document)
    told = {fault.place for fault in faults}
    for fault in found:
        if fault.place not in told:
            told.add(fault.place)
            faults.append(fault)
    if settings is not None:
        faults += _unfit_limits(settings, document)
    return settings, faults


def _unfit_limits(settings: Settings, document: Document) -> Iterator[Fault]:
    """Limits that are sound one by one and not together: a check says so when it is made."""
    parts: list[tuple[Place, Limits]] = [(("checks",), settings.checks)]
    for i, target in enumerate(settings.targets):
        if target.checks:
            parts.append((("targets", i, "checks"), _limits_for(settings, target.name)))
    for place, limits in parts:
        for check, kind in CHECKS.items():
            try:
                kind(**limits[check])
            except ValueError as error:  # noqa: PERF203  (each check has its own say)
                yield Fault(document.mark((*place, check)), (*place, check), str(error))


def _no_sections(document: Document) -> str:
    if document.data is None:
        return f"the file is empty; {LEAST}"
    what = "a list" if isinstance(document.data, list) else "text"
    return f"the file holds {what}, not sections; {LEAST}"


def _same_names(document: Document) -> Iterator[Fault]:
    """Names must differ: they are the identity of a target in alerts, metrics and folders."""
    targets = document.data.get("targets")
    seen: dict[str, int] = {}
    for i, target in enumerate(targets if isinstance(targets, list) else []):
        name = _name_in(target)
        if name is not None and seen.setdefault(name, i) != i:
            place: Place = ("targets", i, "name")
            what = f"{name} is also the name of targets.{seen[name]}; give each a name of its own"
            yield Fault(document.mark(place), place, what)


def _name_in(target: Any) -> str | None:
    """The name that a target of the file would have, None where it would have none."""
    if not isinstance(target, dict):
        return None
    name, url = target.get("name"), target.get("url")
    if isinstance(name, str) or not isinstance(url, str):
        return name if isinstance(name, str) else None
    try:
        return Target.model_validate({"url": url}).name
    except ValidationError:
        return None


def _line(path: Path, fault: Fault) -> str:
    where = ".".join(str(step) for step in fault.place)
    what = f"{where}: {fault.what}" if where else fault.what
    return f"{path}:{fault.mark.line}:{fault.mark.column}: {what}"
