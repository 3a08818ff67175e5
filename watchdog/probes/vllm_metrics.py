"""vLLM's own counters and gauges from GET /metrics; version and model from their endpoints."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from watchdog.domain.sample import Facts, Reading
from watchdog.errors import NoAnswer, NotUnderstood, ProbeError
from watchdog.fetch import Access, Fetcher, Page
from watchdog.probes.vllm_page import parse_page

MOST_TEXT: Final = 300  # characters of a fact
MOST_MODELS: Final = 16
_DETAIL_BYTES: Final = 65_536
_DETAILS: Final = {"version.json": "/version", "models.json": "/v1/models"}
_ASK_AGAIN: Final = 3600.0  # seconds after which details are read anew
_ASK_ABSENT: Final = 300.0  # the same where one is missing: many servers have no such endpoint
_DETAIL_SHARE: Final = 0.3  # of what is left of the deadline: details must never cost the page
_NOT_READY: Final = frozenset({502, 503, 504})


@dataclass
class VllmMetrics:
    """
    One target's page.

    `url` is the server's address, or that of its page where that is elsewhere (NIM has it at
    /v1/metrics). `limit` in bytes of the page.
    """

    target: str
    url: str = "http://127.0.0.1:8000"
    access: Access = field(default_factory=Access)
    limit: int = 8 * 2**20
    name: ClassVar[str] = "vllm_metrics"
    slot: ClassVar[str] = ""

    def __post_init__(self) -> None:
        base = self.url.rstrip("/").removesuffix("/metrics")
        below = "/v1" if base != self.url.rstrip("/") and base.endswith("/v1") else ""
        self._path = f"{below}/metrics"
        self._fetcher = Fetcher(base.removesuffix(below), self.access)
        self._asked_at: float | None = None
        self._asked_of: object = None

    def read(self, known: Facts, deadline: float) -> Reading:
        """
        Read the page; `deadline` in monotonic seconds. Raises ProbeError.

        Details (`version`, `models`) are read seldom and else taken over from `known`. Where
        they are odd or fail they are absent: they are never a reason to be blind.
        """
        try:
            page = self._page(deadline)
            samples, facts = self._parse(page)
        except ProbeError:
            self._asked_at = None  # what answers after an outage may be another server
            raise
        if self._due(known, facts):
            self._asked_at, self._asked_of = time.monotonic(), facts.get("process_start")
            facts.update(details_of(self._details(deadline)))
        else:
            facts.update((key, known[key]) for key in ("version", "models") if key in known)
        facts["url"] = self.shown
        return Reading(self.name, self.target, samples, facts)

    @property
    def shown(self) -> str:
        """The server's address without what may be a secret; the fact `url`."""
        return self._fetcher.shown

    def scrape(self, deadline: float) -> dict[str, bytes]:
        """Return the bodies as received, by the file names of a recording. Raises ProbeError."""
        page = self._page(deadline)
        return {"metrics.prom": page.body, **self._details(deadline)}

    def close(self) -> None:
        """Break a read that is under way; for any thread."""
        self._fetcher.close()

    def _page(self, deadline: float) -> Page:
        page = self._fetcher.get(self._path, deadline, self.limit)
        shown = self._fetcher.shown + self._path
        if page.status == 200:
            return page
        if page.status in _NOT_READY:
            raise NoAnswer(
                f"{shown} answered {page.status}: the server, or a proxy for it, is not ready"
            )
        if page.status in (401, 403):
            raise NotUnderstood(
                f"{shown} answered {page.status}: it wants a token; give bearer_token_file"
            )
        if page.status == 404:
            raise NotUnderstood(f"{shown} answered 404, no such page: is this a vLLM server?")
        raise NotUnderstood(f"{shown} answered {page.status}, not 200")

    def _parse(self, page: Page) -> tuple[Any, dict[str, object]]:
        shown = self._fetcher.shown + self._path
        try:
            return parse_page(self.target, page.body.decode("utf-8"), page.content_type)
        except UnicodeDecodeError as error:
            raise NotUnderstood(f"{shown} is not UTF-8 text at byte {error.start}") from error
        except NotUnderstood as error:
            raise NotUnderstood(f"{shown} {error}") from error

    def _due(self, known: Facts, facts: Facts) -> bool:
        if self._asked_at is None or self._asked_of != facts.get("process_start"):
            return True
        complete = "version" in known and "models" in known
        return time.monotonic() - self._asked_at >= (_ASK_AGAIN if complete else _ASK_ABSENT)

    def _details(self, deadline: float) -> dict[str, bytes]:
        """Return the bodies of the details that answer, within a share of what is left."""
        bodies: dict[str, bytes] = {}
        for file, path in _DETAILS.items():
            now = time.monotonic()
            with contextlib.suppress(ProbeError):
                share = now + max(0.0, deadline - now) * _DETAIL_SHARE
                page = self._fetcher.get(path, share, _DETAIL_BYTES)
                if page.status == 200:
                    bodies[file] = page.body
        return bodies


def details_of(bodies: Mapping[str, bytes]) -> dict[str, object]:
    """Facts from the bodies of /version and /v1/models; what is odd is absent."""
    facts: dict[str, object] = {}
    version = _field(_json(bodies.get("version.json", b"")), "version")
    if isinstance(version, str) and 0 < len(version) <= MOST_TEXT:
        facts["version"] = version
    listed = _field(_json(bodies.get("models.json", b"")), "data")
    models = [_model(entry) for entry in listed[:MOST_MODELS]] if isinstance(listed, list) else []
    if any(models):
        facts["models"] = [model for model in models if model]
    return facts


def _model(entry: object) -> dict[str, object] | None:
    """One model: `id` as it is served, `root` the path that was loaded, None where not told."""
    name, root = _field(entry, "id"), _field(entry, "root")
    if not isinstance(name, str) or not 0 < len(name) <= MOST_TEXT:
        return None
    return {"id": name, "root": root if isinstance(root, str) and len(root) <= MOST_TEXT else None}


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _field(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
