"""
One address that is told things: what it answered, in words that hold no secret.

Hooks and dead-man's switches are addresses that whoever knows them may use, so neither their
path nor their query is ever repeated, not even where the answer does; nor is what let us in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from watchdog.domain.texts import one_line
from watchdog.errors import ProbeError
from watchdog.fetch import NO_ACCESS, Access, Fetcher, Page
from watchdog.redaction import LONGEST_SPELLING, masked

MOST_ANSWER: Final = 4096
MOST_OF_API: Final = 64 * 1024  # bytes; such an answer is read whole or not at all
MOST_WORDS: Final = 200  # characters of an answer that are repeated
MOST_HEADER: Final = 64  # characters
SECRET: Final = 6
"""Characters from which on a part of an address is taken for a secret."""

NONE: Mapping[str, str] = MappingProxyType({})


class Answer(NamedTuple):
    """What came back; status 0: no answer, and what was sent may have arrived or not."""

    status: int
    words: str
    retry_after: str = ""
    date: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was taken."""
        return 200 <= self.status < 300

    def wait(self, wall: float) -> float:
        """Seconds that a full or resting server asked for at least; `wall` is the time of day."""
        if self.status not in (429, 503):
            return 0.0
        text = self.retry_after.strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            moment = parsedate_to_datetime(text)
        except (TypeError, ValueError, IndexError, OverflowError):
            return 0.0
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return max(0.0, aware.timestamp() - wall)


class Address:
    """
    One whole address, path and query included. One request at a time; `close` breaks it.

    `api`: the address is only the base of an API, and this the path below it; then an answer
    whose body does not end is none.

    No failure of the other side, of the way there or of a secret's file is an exception.
    """

    def __init__(self, url: str, access: Access = NO_ACCESS, api: str = "") -> None:
        self._fetcher = Fetcher(url, access, exact=not api)
        self._api, self._most = api, MOST_OF_API if api else MOST_ANSWER
        self._secrets = _secrets(url)

    @property
    def shown(self) -> str:
        """Scheme and host (a socket's path): what may be logged."""
        return self._fetcher.shown

    def get(self, deadline: float) -> Answer:
        """Ask; `deadline` in monotonic seconds."""
        return self._answer(lambda: self._fetcher.get(self._api, deadline, self._most))

    def post(
        self,
        body: bytes,
        deadline: float,
        content_type: str = "application/json",
        headers: Mapping[str, str] = NONE,
    ) -> Answer:
        """Send the body; as `get`."""
        return self._answer(
            lambda: self._fetcher.post(self._api, body, deadline, self._most, content_type, headers)
        )

    def close(self) -> None:
        """Break what is under way."""
        self._fetcher.close()

    def _answer(self, fetch: Callable[[], Page]) -> Answer:
        try:
            page = fetch()
        except ProbeError as error:
            return Answer(0, str(error))
        words = self._words(page.body, (*self._secrets, *page.secrets))
        return Answer(
            page.status,
            f"answered {page.status} {words}".rstrip(),
            page.headers.get("Retry-After", "")[:MOST_HEADER],
            page.headers.get("Date", "")[:MOST_HEADER],
        )

    def _words(self, body: bytes, secrets: tuple[str, ...]) -> str:
        """Return the beginning of an answer as one line, to be repeated to people."""
        text = masked(body.decode("utf-8", "replace"), secrets)
        if len(body) >= self._most:  # it was cut, maybe within a secret
            text = text[: max(0, len(text) - LONGEST_SPELLING * max(map(len, secrets), default=0))]
        return one_line(text, MOST_WORDS)


def _secrets(url: str) -> tuple[str, ...]:
    """Return the parts of the path and the query that nobody is to read."""
    parts = urlsplit(url)
    path = parts.path.partition(":")[2] if parts.scheme == "unix" else parts.path
    pieces = path.split("/")
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        pieces.append(value.lstrip("=") or name)
    return tuple(piece for piece in pieces if len(unquote(piece)) >= SECRET)
