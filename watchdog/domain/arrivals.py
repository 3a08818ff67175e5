"""What Alertmanager's webhook says (version 4), read strictly where it matters, and bounded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain.alert import PATIENCE
from watchdog.domain.named import Here, named, place
from watchdog.domain.sample import Labels
from watchdog.domain.texts import one_line
from watchdog.errors import PayloadError

VERSION: Final = "4"
FIRING, RESOLVED = "firing", "resolved"

MOST_LABELS: Final = 16
MOST_NAME, MOST_VALUE, MOST_SUMMARY = 64, 128, 300
"""How many labels of an alert are kept, and characters of each text."""


class Arrival(NamedTuple):
    """
    One alert that arrived and names us. Every text is one printable line.

    `target` is HOST where this host alone is named. `key` is the same for what an HA pair says
    twice: the group, the alert and when it began.
    """

    alertname: str
    status: str
    target: str
    labels: Labels
    summary: str
    starts_at: str
    fingerprint: str
    key: str


class Sorted(NamedTuple):
    """A payload, sorted: what names us, how many alerts are our own, how many are of others."""

    arrivals: tuple[Arrival, ...]
    ours: int
    not_for_us: int


def sort(payload: Any, here: Here) -> Sorted:
    """Read a payload whole. PayloadError names the key that can never be taken."""
    alerts, group = _alerts(payload), _text(payload.get("groupKey"))
    arrivals: list[Arrival] = []
    ours = others = 0
    for number, alert in enumerate(alerts):
        labels, status = _labels(alert, number), _status(alert, number)
        if _is_ours(labels, here):
            ours += 1
        elif (target := named(labels, here)) is None:
            others += 1
        else:
            arrivals.append(_arrival(alert, labels, status, target, group))
    return Sorted(tuple(arrivals), ours, others)


def _alerts(payload: Any) -> list[Any]:
    if not isinstance(payload, dict):
        raise PayloadError("the body must be a JSON object, as Alertmanager's webhook sends it")
    if payload.get("version") != VERSION:
        raise PayloadError(
            f'version must be "{VERSION}", Alertmanager\'s own payload; '
            "take `payload` out of this receiver's webhook_configs if it has one"
        )
    alerts = payload.get("alerts")
    if not isinstance(alerts, list):
        raise PayloadError("alerts must be a list")
    return alerts


def _labels(alert: Any, number: int) -> dict[str, str]:
    labels = alert.get("labels") if isinstance(alert, dict) else None
    if not isinstance(labels, dict) or not labels:
        raise PayloadError(f"alerts[{number}].labels must be an object that is not empty")
    if not all(isinstance(value, str) for value in labels.values()):
        raise PayloadError(f"alerts[{number}].labels must have texts as values")
    return labels


def _status(alert: Mapping[str, Any], number: int) -> str:
    status = alert.get("status")
    if status not in (FIRING, RESOLVED):
        raise PayloadError(f"alerts[{number}].status must be {FIRING} or {RESOLVED}")
    return str(status)


def _is_ours(labels: Mapping[str, str], here: Here) -> bool:
    """Whether we sent it ourselves, and a route brings it back."""
    host = place(labels.get("host", ""))[0]
    return labels.get("alertname") in PATIENCE and here.is_host(host)


def _arrival(
    alert: Mapping[str, Any], labels: dict[str, str], status: str, target: str, group: str
) -> Arrival:
    starts, fingerprint = _text(alert.get("startsAt")), _text(alert.get("fingerprint"))
    fingerprint = fingerprint or _digest(sorted(labels.items()))
    annotations = alert.get("annotations")
    said = annotations if isinstance(annotations, dict) else {}
    summary = _text(said.get("summary")) or _text(said.get("description"))
    shown = sorted((name, value) for name, value in labels.items() if name != "alertname")
    return Arrival(
        one_line(labels.get("alertname", ""), MOST_VALUE) or "an alert without a name",
        status,
        target,
        tuple((one_line(n, MOST_NAME), one_line(v, MOST_VALUE)) for n, v in shown[:MOST_LABELS]),
        one_line(summary, MOST_SUMMARY),
        one_line(starts, MOST_NAME),
        one_line(fingerprint, MOST_NAME),
        _digest([group, fingerprint, starts]),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _digest(value: object) -> str:
    """A key of constant size: what a group is called may be long."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
