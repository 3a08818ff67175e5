"""
One address that is told things: what it answered, in words that hold no secret.

Hooks and dead-man's switches are addresses that whoever knows them may use, so neither their
path nor their query is ever repeated, not even where the answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from watchdog.errors import ProbeError
from watchdog.fetch import NO_ACCESS, Access, Fetcher, Page

MOST_ANSWER: Final = 4096  # bytes
MOST_WORDS: Final = 200  # characters of an answer that are repeated
HIDDEN: Final = "..."
SECRET: Final = 6
"""Characters from which on a part of an address is taken for a secret."""

NONE: Mapping[str, str] = MappingProxyType({})


class Answer(NamedTuple):
    """What came back; status 0: no answer, and what was sent may have arrived or not."""

    status: int
    words: str
    retry_after: str = ""

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

    No failure of the other side, of the way there or of a secret's file is an exception.
    """

    def __init__(self, url: str, access: Access = NO_ACCESS) -> None:
        self._fetcher = Fetcher(url, access, exact=True)
        self._secrets = _secrets(url)

    @property
    def shown(self) -> str:
        """Scheme and host: what may be logged."""
        return self._fetcher.shown

    def get(self, deadline: float) -> Answer:
        """Ask; `deadline` in monotonic seconds."""
        return self._answer(lambda: self._fetcher.get("", deadline, MOST_ANSWER))

    def post(
        self,
        body: bytes,
        deadline: float,
        content_type: str = "application/json",
        headers: Mapping[str, str] = NONE,
    ) -> Answer:
        """Send the body; as `get`."""
        return self._answer(
            lambda: self._fetcher.post("", body, deadline, MOST_ANSWER, content_type, headers)
        )

    def close(self) -> None:
        """Break what is under way."""
        self._fetcher.close()

    def _answer(self, fetch: Callable[[], Page]) -> Answer:
        try:
            page = fetch()
        except ProbeError as error:
            return Answer(0, str(error))
        except UnicodeError:  # what the system's resolver raises for a label of 64 characters
            return Answer(0, f"{self.shown}: no name that a host can have")
        text = page.body.decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        words = "".join(c if c.isprintable() else " " for c in text.strip())[:MOST_WORDS]
        words = f"answered {page.status} {words}".rstrip()
        return Answer(page.status, words, page.headers.get("Retry-After", ""))


def _secrets(url: str) -> list[str]:
    """Return the parts of the path and the query that nobody is to read, longest first."""
    parts = urlsplit(url)
    pieces = [*parts.path.split("/"), *(pair.split("=")[-1] for pair in parts.query.split("&"))]
    found = {text for piece in pieces for text in (piece, unquote(piece)) if len(text) >= SECRET}
    return sorted(found, key=len, reverse=True)
