"""
The paths of the daemon's port: metrics, health, the last report, and pausing.

Everything they show is on the Board. They read no source, so that a client can cost the watch
nothing. What changes something is for programs on this host alone.
"""

from __future__ import annotations

import json
import math
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

import structlog
from flask import Flask, Response, request
from werkzeug.exceptions import (
    BadRequest,
    Forbidden,
    HTTPException,
    NotFound,
    ServiceUnavailable,
    UnsupportedMediaType,
)

from watchdog import __version__
from watchdog.board import Board
from watchdog.domain.exposition import CONTENT_TYPE, expose
from watchdog.domain.report import PRODUCT, as_json

log = structlog.get_logger("watchdog.server")

LONGEST_PAUSE: Final = 30 * 86400.0  # seconds

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
"""What a proxy adds: its client is not on this host although the connection is."""


def make_app(board: Board) -> Flask:
    """Return the paths that the port knows."""
    app = Flask(PRODUCT, static_folder=None)
    app.add_url_rule("/metrics", view_func=lambda: _metrics(board), endpoint="metrics")
    app.add_url_rule("/-/healthy", view_func=lambda: _healthy(board), endpoint="healthy")
    app.add_url_rule("/-/ready", view_func=lambda: _ready(board), endpoint="ready")
    app.add_url_rule("/api/v1/report", view_func=lambda: _report(board), endpoint="report")
    for name, view in (("pause", _pause), ("resume", _resume)):
        app.add_url_rule(f"/api/v1/{name}", name, view, methods=["POST"], defaults={"board": board})
    app.register_error_handler(HTTPException, _refused)
    app.register_error_handler(Exception, _crashed)
    app.after_request(_with_headers)
    return app


def _metrics(board: Board) -> Response:
    body = expose(board.report, board.totals(), __version__)
    return Response(body, content_type=CONTENT_TYPE)


def _healthy(board: Board) -> Response:
    if not board.healthy():
        raise ServiceUnavailable("no round has finished lately; see the log")
    return _text(f"{PRODUCT} is healthy.\n")


def _ready(board: Board) -> Response:
    if board.report is None:
        raise ServiceUnavailable("the first round is still under way")
    return _text(f"{PRODUCT} is ready.\n")


def _report(board: Board) -> Response:
    if board.report is None:
        raise ServiceUnavailable("the first round is still under way; ask again in a moment")
    return _json(as_json(board.report))


def _pause(board: Board) -> Response:
    _local_only()
    asked = _body("target", "seconds")
    target = _target(board, asked)
    seconds = asked["seconds"]
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 1 <= seconds <= LONGEST_PAUSE:
        raise BadRequest(f"seconds must be a number from 1 to {LONGEST_PAUSE:.0f} (30 days)")
    board.pause(target, float(seconds))
    return _json({"target": target, "paused": True, "seconds": float(seconds)})


def _resume(board: Board) -> Response:
    _local_only()
    target = _target(board, _body("target"))
    return _json({"target": target, "paused": False, "was_paused": board.resume(target)})


def _local_only() -> None:
    """Refuse peers of other hosts, also behind a proxy of this one, and pages in a browser."""
    peer = ip_address((request.remote_addr or "0.0.0.0").partition("%")[0])  # noqa: S104  (nobody)
    if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
        peer = peer.ipv4_mapped
    if not peer.is_loopback or any(header in request.headers for header in FORWARDED):
        raise Forbidden("only programs on this host may ask for that")
    if "Origin" in request.headers:
        raise Forbidden("web pages may not ask for that; use `watchdog pause` or `watchdog resume`")


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


def _refused(error: HTTPException) -> Response:
    response = _json({"error": error.description, "status": error.code}, error.code or 500)
    allowed = getattr(error, "valid_methods", None)  # a 405 names them
    if allowed:
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _crashed(bug: Exception) -> Response:
    log.error("a request crashed", path=request.path, exc_info=bug)
    return _json({"error": "our own fault; the log has the details", "status": 500}, 500)


def _with_headers(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response


def _text(text: str) -> Response:
    return Response(text, content_type="text/plain; charset=utf-8")


def _json(value: Any, status: int = 200) -> Response:
    body = json.dumps(strict(value), allow_nan=False, default=str) + "\n"
    return Response(body, status, content_type="application/json")


def strict(value: Any) -> Any:
    """Return the value with null where JSON has no number for it: NaN and the infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    return value
