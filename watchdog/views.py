"""
The paths of the daemon's port: metrics, health, the last report, pausing, baselines, caches.

Everything they show is on the Board. They read no source, so that a client can cost the watch
nothing. What changes something is for programs on this host alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from flask import Flask, Response, request
from werkzeug.exceptions import (
    BadRequest,
    Conflict,
    HTTPException,
    NotFound,
    ServiceUnavailable,
    UnsupportedMediaType,
)

from watchdog import __version__, page, webhook_in
from watchdog.answers import as_json, as_text, crashed, refused, with_headers
from watchdog.baselines import ACCEPT, RESET, refusals
from watchdog.board import Board
from watchdog.callers import LISTEN, local_only, no_web_pages
from watchdog.domain import report
from watchdog.domain.exposition import CONTENT_TYPE, expose
from watchdog.errors import PayloadError, TryLater

T = TypeVar("T")

LONGEST_PAUSE: Final = 30 * 86400.0  # seconds
MOST_REFUSALS: Final = 10
"""Engines of which one sentence says why they were left as they are."""


def make_app(board: Board, listen: str = "") -> Flask:
    """Return the paths that the port knows; `listen` is the address or name that it listens on."""
    app = Flask(report.PRODUCT, static_folder=None)
    app.config[LISTEN] = listen
    app.url_map.merge_slashes = False  # `//metrics` is unknown, and no redirect
    app.before_request(no_web_pages(listen))
    app.add_url_rule("/metrics", view_func=lambda: _metrics(board), endpoint="metrics")
    app.add_url_rule("/-/healthy", view_func=lambda: _healthy(board), endpoint="healthy")
    app.add_url_rule("/-/ready", view_func=lambda: _ready(board), endpoint="ready")
    app.add_url_rule("/api/v1/report", view_func=lambda: _report(board), endpoint="report")
    for name, view in (("pause", _pause), ("resume", _resume)):
        app.add_url_rule(f"/api/v1/{name}", name, view, methods=["POST"], defaults={"board": board})
    app.add_url_rule("/api/v1/baseline", "baseline", lambda: _baseline(board))
    app.add_url_rule("/api/v1/cache", "cache", lambda: _cache(board))
    for how in (ACCEPT, RESET):
        app.add_url_rule(
            f"/api/v1/baseline/{how}", f"baseline_{how}", _change_baseline, methods=["POST"],
            defaults={"board": board, "how": how},
        )  # fmt: skip
    webhook_in.register(app, board)
    page.register(app, board)
    app.register_error_handler(HTTPException, refused)
    app.register_error_handler(Exception, crashed)
    app.after_request(with_headers)
    return app


def _metrics(board: Board) -> Response:
    body = expose(board.report, board.totals(), __version__)
    return Response(body, content_type=CONTENT_TYPE)


def _healthy(board: Board) -> Response:
    if not board.healthy():
        raise ServiceUnavailable("no round has finished lately; see the log")
    return as_text(f"{report.PRODUCT} is healthy.\n")


def _ready(board: Board) -> Response:
    if board.report is None:
        raise ServiceUnavailable("the first round is still under way")
    return as_text(f"{report.PRODUCT} is ready.\n")


def _report(board: Board) -> Response:
    if board.report is None:
        raise ServiceUnavailable("the first round is still under way; ask again in a moment")
    return as_json({**report.as_json(board.report), "notes": board.notes()})


def _pause(board: Board) -> Response:
    local_only()
    asked = _body("target", "seconds")
    target = _target(board, asked)
    seconds = asked["seconds"]
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 1 <= seconds <= LONGEST_PAUSE:
        raise BadRequest(f"seconds must be a number from 1 to {LONGEST_PAUSE:.0f} (30 days)")
    _in_turn(lambda: board.pause(target, float(seconds)))
    return as_json({"target": target, "paused": True, "seconds": float(seconds)})


def _resume(board: Board) -> Response:
    local_only()
    target = _target(board, _body("target"))
    was_paused = _in_turn(lambda: board.resume(target))
    return as_json({"target": target, "paused": False, "was_paused": was_paused})


def _baseline(board: Board) -> Response:
    local_only()  # it waits for a round to end, as nothing does that others may ask for
    known = _in_turn(board.baselines)
    return as_json({"product": report.PRODUCT, "targets": board.known_targets(), **known})


def _cache(board: Board) -> Response:
    local_only()  # as above; and it names paths and options of the launch
    known = _in_turn(board.caches)
    about = {"product": report.PRODUCT, "version": __version__, "targets": board.known_targets()}
    return as_json({**about, **known})


def _change_baseline(board: Board, how: str) -> Response:
    local_only()
    asked = _body("target", "engine")
    target, engine = _target(board, asked), asked["engine"]
    if engine is not None and not isinstance(engine, str):
        raise BadRequest("engine must be the name of an engine, or null for all of the target")
    try:
        told = _in_turn(lambda: board.change_baseline(how, target, engine))
    except PayloadError as error:
        raise NotFound(str(error)) from None
    if not told["changed"]:
        raise Conflict("; ".join(refusals(told)[:MOST_REFUSALS]))
    return as_json(told)


def _in_turn(action: Callable[[], T]) -> T:
    """Do what waits for a round to end; 503 where that takes too long."""
    try:
        return action()
    except TryLater as error:
        raise ServiceUnavailable(str(error)) from None


def _body(*keys: str) -> dict[str, Any]:
    """Return the request's JSON object, which has exactly these keys."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("send Content-Type: application/json")
    try:
        asked = json.loads(request.get_data())
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(asked, dict) or sorted(asked) != sorted(keys):
        raise BadRequest(f"the body must be a JSON object with: {', '.join(keys)}")
    return asked


def _target(board: Board, asked: dict[str, Any]) -> str:
    known = board.known_targets()
    if asked["target"] not in known:
        raise NotFound(f"unknown target; known: {', '.join(known) or 'none'}")
    return str(asked["target"])
