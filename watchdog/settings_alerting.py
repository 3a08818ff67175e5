"""The part of the configuration about where alerts go, and how we get in there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from watchdog.fetch import Access
from watchdog.fields import (
    CREDENTIALS,
    File,
    Name,
    Text,
    alertmanager_url,
    label_name,
    name_of,
    place_url,
)
from watchdog.limits import Strict


class Tls(Strict):
    """How an https server is trusted, and how we prove who we are."""

    ca_file: File | None = None
    cert_file: File | None = None
    key_file: File | None = None
    server_name: Text | None = None
    insecure_skip_verify: bool = False

    @field_validator("key_file")
    @classmethod
    def _of_a_certificate(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if key is not None and info.data.get("cert_file", key) is None:
            raise ValueError("needs cert_file beside it")
        return key


class Login(Strict):
    """Who we are at a place that alerts go to: a bearer token, or a user and a password."""

    bearer_token_file: File | None = None
    username: Text | None = None
    password_file: File | None = None
    tls: Tls = Tls()

    @field_validator("username")
    @classmethod
    def _one_way_in(cls, username: str | None, info: ValidationInfo) -> str | None:
        if username is not None and info.data.get("bearer_token_file") is not None:
            raise ValueError("a bearer token and a user name exclude each other")
        return username

    @field_validator("password_file")
    @classmethod
    def _of_a_user(cls, password: Path | None, info: ValidationInfo) -> Path | None:
        if password is not None and info.data.get("username", "") is None:
            raise ValueError("needs username beside it")
        return password


class AlertmanagerSettings(Login):
    """One Alertmanager to push to; every instance of a cluster is listed."""

    url: Annotated[str, AfterValidator(alertmanager_url)]


Place = Annotated[str, AfterValidator(place_url)]


def _one_url(url_file: Path | None, info: ValidationInfo) -> Path | None:
    """Hold that an address is given once: in the file, or in one of its own if it is a secret."""
    given = info.data.get("url", "a faulty one")
    if given is None and url_file is None:
        raise ValueError("give url, or url_file where the address is a secret")
    if given is not None and url_file is not None:
        raise ValueError("url and url_file exclude each other")
    return url_file


class WebhookSettings(Login):
    """A place that is told of every change at least once."""

    url: Place | None = None
    url_file: File | None = Field(default=None, validate_default=True)
    name: Name = Field(default="", validate_default=True)

    _one_url = field_validator("url_file")(_one_url)

    @field_validator("name", mode="before")
    @classmethod
    def _of_the_place(cls, name: Any, info: ValidationInfo) -> Any:
        if name != "":
            return name
        url, file = info.data.get("url"), info.data.get("url_file")
        return name_of(url) if url else file.stem if file else "unnamed"


class PingSettings(Strict):
    """An outside dead-man's switch; the addresses of its start and failure follow from `url`."""

    url: Place | None = None
    url_file: File | None = Field(default=None, validate_default=True)
    start_url: Place | None = None
    fail_url: Place | None = None

    _one_url = field_validator("url_file")(_one_url)


class Alerting(Strict):
    """Where alerts go, and what every one of them carries."""

    alertmanagers: Annotated[tuple[AlertmanagerSettings, ...], Field(strict=False)] = ()
    webhooks: Annotated[tuple[WebhookSettings, ...], Field(strict=False)] = ()
    textfile: File | None = None
    heartbeat: bool = False
    ping: PingSettings | None = None
    labels: Mapping[Annotated[str, AfterValidator(label_name)], Text] = Field(default_factory=dict)

    @field_validator("webhooks")
    @classmethod
    def _own_names(cls, webhooks: tuple[WebhookSettings, ...]) -> tuple[WebhookSettings, ...]:
        names = [webhook.name for webhook in webhooks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two are called {twice[0]}; give each its own name")
        return webhooks

    @field_validator("textfile")
    @classmethod
    def _that_is_collected(cls, path: Path | None) -> Path | None:
        if path is not None and path.suffix != ".prom":
            raise ValueError("must end in .prom, or node_exporter does not read it")
        return path


def access_of_login(part: Login) -> Access:
    """Return how to get in; files below $CREDENTIALS_DIRECTORY are looked for where it points."""
    return Access(
        bearer_token_file=expanded(part.bearer_token_file),
        username=part.username,
        password_file=expanded(part.password_file),
        **tls_of(part.tls),
    )


def tls_of(tls: Tls) -> dict[str, Any]:
    """Return what Access takes of the tls section."""
    return {
        "ca_file": expanded(tls.ca_file),
        "cert_file": expanded(tls.cert_file),
        "key_file": expanded(tls.key_file),
        "server_name": tls.server_name,
        "insecure_skip_verify": tls.insecure_skip_verify,
    }


def expanded(path: Path | None) -> Path | None:
    """Return the path with $CREDENTIALS_DIRECTORY replaced, where systemd set it."""
    folder = os.environ.get(CREDENTIALS[1:-1])
    if path is None or folder is None or not str(path).startswith(CREDENTIALS):
        return path
    return Path(folder, *path.parts[1:])
