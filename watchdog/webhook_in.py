"""
The path that Alertmanager posts to: who may, what is taken, and an answer at once.

Alertmanager sends again what was answered with 5xx and drops what was answered with 4xx. So 503
is for what may be taken later, and 400 for what never can. Nothing is looked at here: the next
round, which begins at once, does that.
"""

from __future__ import annotations

import hmac
import json
import threading
import time
from typing import Any, Final

import structlog
from flask import Flask, Response, abort, request
from werkzeug.exceptions import (
    BadRequest,
    Forbidden,
    RequestEntityTooLarge,
    UnsupportedMediaType,
)

from watchdog.answers import as_json
from watchdog.board import Board
from watchdog.callers import local_only
from watchdog.errors import PayloadError, ProbeError, TryLater
from watchdog.fetch import secret

log = structlog.get_logger("watchdog.webhook_in")

PATH: Final = "/webhook/alertmanager"
MOST_BODY: Final = 1024 * 1024  # bytes
RETRY_AFTER: Final = 10  # seconds; a round begins at once, and a hung one ends before
TELL_EVERY: Final = 60.0  # seconds between two log lines about the same refusal
KEY: Final = "server.webhook_token_file"


def register(app: Flask, board: Board) -> None:
    """Let Alertmanager post alerts."""
    door = Door(board)
    app.add_url_rule(PATH, "alertmanager", door.take, methods=["POST"])


class Door:
    """The view, and when each refusal was last logged: a stranger must not fill the log."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._told: dict[int, float] = {}
        self._lock = threading.Lock()

    def take(self) -> Response:
        """Take a payload, or refuse it with a sentence."""
        self._let_in()
        payload = _body()
        try:
            result = self._board.take(payload)
        except PayloadError as error:
            self._log(400, str(error))
            raise BadRequest(str(error)) from None
        except TryLater as error:
            self._log(503, str(error))
            _answer(503, str(error), "Retry-After", str(RETRY_AFTER))
        if result.refused:
            why = f"{result.refused} alerts found the queue full; a round empties it"
            self._log(503, why)
            _answer(503, why, "Retry-After", str(RETRY_AFTER))
        if payload.get("truncatedAlerts"):
            self._log(200, "Alertmanager left alerts out, which may have named us: see max_alerts")
        told = ("accepted", "ours", "duplicates", "not_for_us")
        return as_json({name: getattr(result, name) for name in told})

    def _let_in(self) -> None:
        """With a token whoever shows it, without one the programs of this host."""
        file = self._board.webhook_token_file()
        if file is None:
            try:
                local_only()
            except Forbidden:
                why = f"only programs on this host may post alerts; set {KEY} to let others in"
                self._log(403, why)
                raise Forbidden(why) from None
            return
        try:
            token = secret(KEY, file)
        except ProbeError as error:
            self._log(503, str(error))  # the path is for our log alone
            _answer(503, f"{KEY} cannot be used now; the log says why",
                    "Retry-After", str(RETRY_AFTER))  # fmt: skip
        if not _shows(token):
            why = f"send Authorization: Bearer and the token of {KEY}"
            self._log(401, why)
            _answer(401, why, "WWW-Authenticate", 'Bearer realm="serving-watchdog"')

    def _log(self, status: int, why: str) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._told.get(status, -TELL_EVERY) < TELL_EVERY:
                return
            self._told[status] = now
        log.warning("not every alert was taken", status=status, why=why, peer=request.remote_addr)


def _shows(token: str) -> bool:
    """Whether the request shows the token; how long that takes tells nothing of it."""
    kind, _, shown = request.headers.get("Authorization", "").partition(" ")
    same = hmac.compare_digest(shown.strip().encode("utf-8", "replace"), token.encode())
    return same and kind.lower() == "bearer"


def _body() -> Any:
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("send Content-Type: application/json")
    too_long = f"the body may have {MOST_BODY} bytes; set max_alerts in the webhook_configs"
    if (request.content_length or 0) > MOST_BODY:
        raise RequestEntityTooLarge(too_long)
    try:
        return json.loads(request.get_data(cache=False))
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None


def _answer(status: int, why: str, header: str, value: str) -> None:
    """Refuse with a header, which an exception of its own could not carry."""
    response = as_json({"error": why, "status": status}, status)
    response.headers[header] = value
    abort(response)
