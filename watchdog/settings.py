"""
The configuration as values: every key, what it may be, and its default.

Field names are the keys of the file. Durations are seconds as float. Nothing here is secret:
secrets are named by file and read where they are used.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
    model_validator,
)

from watchdog.checks import ABOUT_HOST, CHECKS
from watchdog.domain.profile import ANY_ROUTING
from watchdog.duration import format_duration
from watchdog.fetch import Access
from watchdog.fields import (
    Container,
    Directory,
    Duration,
    FactorName,
    File,
    Method,
    Name,
    Routing,
    Text,
    Unit,
    Version,
    lanes,
    listen_address,
    name_of,
    pci_address,
    server_url,
    split_listen,
)
from watchdog.limits import Limits, Strict, defaults, given, limits_model, merged, written
from watchdog.settings_alerting import (
    Alerting,
    AlertmanagerSettings,
    Login,
    PingSettings,
    Tls,
    WebhookSettings,
    access_of_login,
    expanded,
    tls_of,
)

__all__ = [
    "Alerting", "AlertmanagerSettings", "PingSettings", "Settings", "Target", "Tls",
    "WebhookSettings", "access_of",
]  # fmt: skip

MOST_FACTORS: Final = 64
"""Names in each list of factors."""

LIMITS: Final = limits_model(CHECKS)
OF_TARGETS: Final = limits_model(
    {name: check for name, check in CHECKS.items() if check.about not in ABOUT_HOST}
)

if TYPE_CHECKING:
    Given = Limits
    Whole = Limits
else:
    _write = PlainSerializer(lambda limits: written(limits, CHECKS), when_used="json")
    Given = Annotated[OF_TARGETS, AfterValidator(given), _write]
    Whole = Annotated[
        LIMITS, AfterValidator(lambda part: merged(defaults(CHECKS), given(part))), _write
    ]


DRAFTER: Final = ("method", "depth", "acceptance_length")
"""Claims that there is a drafter at all."""


class Expect(Strict):
    """What is claimed of a target, for the checks to verify; None where nothing is claimed."""

    method: Method | None = None
    depth: Annotated[int, Field(ge=1, le=64)] | None = None
    acceptance_length: Annotated[float, Field(ge=1)] | None = None
    version: Version | None = None
    # last, because the others imply it
    speculation: bool | None = Field(default=None, validate_default=True)

    @field_validator("acceptance_length")
    @classmethod
    def _within_depth(cls, length: float | None, info: ValidationInfo) -> float | None:
        depth = info.data.get("depth")
        if depth is not None and length is not None and length > depth + 1:
            raise ValueError(f"cannot be above depth + 1, which is {depth + 1}")
        return length

    @field_validator("speculation")
    @classmethod
    def _implied(cls, speculation: bool | None, info: ValidationInfo) -> bool | None:  # noqa: FBT001  (pydantic's way)
        claims = [key for key in DRAFTER if info.data.get(key) is not None]
        if speculation is False and claims:
            raise ValueError(f"false contradicts {' and '.join(claims)}; leave one of them out")
        return True if claims else speculation


class Factors(Strict):
    """Options and environment variables that change graphs beyond those known, or that do not."""

    add: Annotated[tuple[FactorName, ...], Field(strict=False, max_length=MOST_FACTORS)] = ()
    ignore: Annotated[tuple[FactorName, ...], Field(strict=False, max_length=MOST_FACTORS)] = ()


class Cache(Strict):
    """
    Where a target's compile cache is (its VLLM_CACHE_ROOT), and how long a start takes.

    `cold_start` is also how long a process may take before it is down; where `warm_start` is given
    the two are floors: about so long take a start that compiles, and one that does not.
    """

    directory: Directory | None = None
    cold_start: Annotated[Duration, Field(ge=0, le=86400)] = 900.0
    warm_start: Annotated[Duration, Field(gt=0, le=86400)] | None = None
    factors: Factors = Factors()

    @model_validator(mode="before")
    @classmethod
    def _both_floors(cls, given: Any) -> Any:
        """A grace of 15 minutes is no time that a start takes."""
        alone = isinstance(given, Mapping) and "cold_start" not in given
        if alone and given.get("warm_start") is not None:
            raise ValueError(
                "warm_start wants cold_start beside it: how long a start that compiles takes"
            )
        return given

    @field_validator("warm_start")
    @classmethod
    def _below_cold(cls, warm: float | None, info: ValidationInfo) -> float | None:
        cold = info.data.get("cold_start")
        if warm is not None and cold is not None and warm >= cold:
            raise ValueError(f"must be below cold_start, which is {format_duration(cold)}")
        return warm


class LaunchSettings(Strict):
    """Which processes of this host are the server, where that is known, and its log."""

    systemd_unit: Unit | None = None
    container: Container | None = None
    pid_file: File | None = None
    log: File | None = None

    @field_validator("container", "pid_file")
    @classmethod
    def _one_way(cls, value: Any, info: ValidationInfo) -> Any:
        ways = ("systemd_unit", "container", "pid_file")
        others = [key for key in ways if info.data.get(key) is not None]
        if value is not None and others:
            raise ValueError(f"{others[0]} names the processes already; leave one of them out")
        return value


class Target(Strict):
    """A vLLM server to watch."""

    url: Annotated[str, AfterValidator(server_url)]
    name: Name = Field(default="", validate_default=True)
    expect: Expect = Expect()
    routing: Routing = ANY_ROUTING
    launch: LaunchSettings = LaunchSettings()
    cache: Cache = Cache()
    bearer_token_file: File | None = None
    tls: Tls = Tls()
    checks: Given = Field(default_factory=dict)

    @field_validator("name", mode="before")
    @classmethod
    def _of_the_url(cls, name: Any, info: ValidationInfo) -> Any:
        if name != "":
            return name
        return name_of(info.data["url"]) if "url" in info.data else "unnamed"


class Server(Strict):
    """The daemon's own port."""

    listen: Annotated[str, AfterValidator(listen_address)] = "127.0.0.1:19590"
    webhook_token_file: File | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; port 0 is any free one."""
        return split_listen(self.listen)

    @property
    def url(self) -> str:
        """Where a program on this host reaches the port."""
        host, port = self.address
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (compared)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class SlotSettings(Strict):
    """What a slot is declared to run: a PCIe generation and a width in lanes."""

    generation: Annotated[int, Field(ge=1, le=6)]
    width: Annotated[int, AfterValidator(lanes)]
    note: Text | None = None


class Gpus(Strict):
    """The GPUs of this host: where their files are, and what each slot is declared to be."""

    sysfs: Directory = Path("/sys")
    pyamdgpuinfo: bool = False
    slots: Mapping[Annotated[str, AfterValidator(pci_address)], SlotSettings] = Field(
        default_factory=dict
    )

    @field_validator("slots", mode="before")
    @classmethod
    def _one_spelling(cls, slots: Any) -> Any:
        keys = [key.lower().removeprefix("0000:") for key in slots or () if isinstance(key, str)]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(f"names {' and '.join(twice)} more than once")
        return slots


def _state_dir() -> Path:
    """Where systemd keeps it for us, else the usual place."""
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given) if given.startswith("/") else Path("/var/lib/serving-watchdog")


class Settings(Strict):
    """The whole configuration; `checks` holds every limit of every check."""

    targets: Annotated[tuple[Target, ...], Field(strict=False)] = (
        Target(url="http://127.0.0.1:8000"),
    )
    gpus: Gpus = Gpus()
    alerting: Alerting = Alerting()
    server: Server = Server()
    checks: Whole = Field(default_factory=lambda: defaults(CHECKS))
    interval: Annotated[Duration, Field(ge=1, le=600)] = 15.0
    state_dir: Directory = Field(default_factory=_state_dir)
    host: Text = Field(default_factory=lambda: socket.gethostname() or "localhost")


def access_of(part: Target | Login) -> Access:
    """Return how to get in there."""
    if isinstance(part, Login):
        return access_of_login(part)
    return Access(bearer_token_file=expanded(part.bearer_token_file), **tls_of(part.tls))
