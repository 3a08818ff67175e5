"""The outbox in memory: what the store does for webhooks, small enough to be seen through."""

from __future__ import annotations

import json
import threading

from watchdog.domain.notice import Notice, Queued


class MemoryOutbox:
    """Keeps notices by destination, oldest first; `log` is what was done with them, in order."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, float]] = []  # done or later, key, next_at
        self.broken = False
        self._lock = threading.Lock()
        self._ids = 0
        self._rows: list[tuple[str, Queued]] = []

    def put(self, destination: str, notice: Notice, made_at: float, **given) -> None:
        with self._lock:
            self._ids += 1
            body = given.pop("body", None) or json.dumps(notice.body)
            row = Queued(self._ids, notice.key, body, made_at, 0, made_at)
            self._rows.append((destination, row._replace(**given)))

    def first(self, destination: str) -> Queued | None:
        self._check()
        with self._lock:
            return next((row for name, row in self._rows if name == destination), None)

    def waiting(self, destination: str) -> int:
        with self._lock:
            return sum(name == destination for name, _ in self._rows)

    def done(self, id: int) -> None:  # noqa: A002
        self._check()
        with self._lock:
            row = self._row(id)
            self._rows = [(name, kept) for name, kept in self._rows if kept.id != id]
            self.log.append(("done", row.key, row.next_at))

    def later(self, id: int, next_at: float) -> None:  # noqa: A002
        self._check()
        with self._lock:
            changed = self._row(id)
            changed = changed._replace(tries=changed.tries + 1, next_at=next_at)
            self._rows = [(n, changed if row.id == id else row) for n, row in self._rows]
            self.log.append(("later", changed.key, next_at))

    def _row(self, wanted: int) -> Queued:
        return next(row for _, row in self._rows if row.id == wanted)

    def _check(self) -> None:
        if self.broken:
            raise OSError("the disk is full")
