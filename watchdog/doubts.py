"""What a configuration may hold and an operator may not have meant."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from watchdog.fields import CREDENTIALS
from watchdog.settings import (
    AlertmanagerSettings,
    Settings,
    Target,
    Tls,
    WebhookSettings,
    access_of,
)
from watchdog.settings_alerting import expanded

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def warnings(settings: Settings) -> list[str]:
    """Say what is allowed and yet looks like a slip; files are looked at, nothing is fetched."""
    said = []
    if not settings.targets:
        said.append("targets: none; only the GPUs of this host are watched")
    for target in settings.targets:
        said += [f"target {target.name}: {what}" for what in _doubts(target)]
    for manager in settings.alerting.alertmanagers:
        said += [f"alertmanager {manager.url}: {what}" for what in _doubts(manager)]
    for webhook in settings.alerting.webhooks:
        said += [f"webhook {webhook.name}: {what}" for what in _doubts(webhook)]
    said += _silent(settings)
    for what, parts in (
        ("targets", settings.targets),
        ("alertmanagers", settings.alerting.alertmanagers),
        ("webhooks", settings.alerting.webhooks),
    ):
        urls = [part.url for part in parts if part.url is not None]
        twice = sorted({url for url in urls if urls.count(url) > 1})
        said += [f"{what}: {url} is listed more than once" for url in twice]
    host, port = settings.server.address
    token = settings.server.webhook_token_file
    if host not in _LOOPBACK:
        said.append(f"server.listen: everybody who reaches {host} port {port} can read the report")
        if token is None:
            said.append("server.webhook_token_file: without it other hosts may not post alerts")
    if token is not None:
        said += [f"server: {what}" for what in _doubts_of_file("webhook_token_file", token)]
    return said


def _silent(settings: Settings) -> Iterator[str]:
    """What is asked for and reaches nobody."""
    alerting = settings.alerting
    if alerting.heartbeat and not alerting.alertmanagers:
        yield "alerting.heartbeat: no alertmanagers are given, so nobody hears it"
    for webhook in alerting.webhooks:
        if webhook.url_file is not None:
            named = f"webhook {webhook.name}: url_file"
            yield from _doubts_of_file(named, expanded(webhook.url_file) or webhook.url_file)
    if alerting.ping is not None and alerting.ping.url_file is not None:
        path = alerting.ping.url_file
        yield from _doubts_of_file("alerting.ping: url_file", expanded(path) or path)


def _doubts(part: Target | AlertmanagerSettings | WebhookSettings) -> Iterator[str]:
    """What may be wrong with how one server is reached."""
    access = access_of(part)
    for key in ("bearer_token_file", "password_file", "ca_file", "cert_file", "key_file"):
        path = getattr(access, key)
        if path is not None:
            yield from _doubts_of_file(key, path)
    if part.url is None:
        return
    parts = urlsplit(part.url)
    secret = access.bearer_token_file or access.password_file
    if secret and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        yield "the secret travels unencrypted; use https"
    if access.insecure_skip_verify and parts.scheme == "https":
        yield "tls.insecure_skip_verify accepts any certificate; name a ca_file instead"
    if parts.scheme != "https" and part.tls != Tls():
        yield f"tls has no effect on a {parts.scheme}:// url"


def _doubts_of_file(key: str, path: Path) -> Iterator[str]:
    if str(path).startswith(CREDENTIALS):
        yield f"{key}: {CREDENTIALS[:-1]} is not set here; systemd sets it for the service"
        return
    try:
        mode = path.stat().st_mode
        path.open("rb").close()
    except FileNotFoundError:
        yield f"{key}: {path} does not exist"
        return
    except OSError as error:
        yield f"{key}: {path} cannot be read: {(error.strerror or '?').lower()}"
        return
    if key not in {"ca_file", "cert_file"} and mode & stat.S_IROTH:
        yield f"{key}: {path} can be read by every user; chmod o-r it"
