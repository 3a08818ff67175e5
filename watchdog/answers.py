"""What every answer of the port has in common: its headers, strict JSON, and refusals as JSON."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import structlog
from flask import Response, request
from werkzeug.exceptions import HTTPException

log = structlog.get_logger("watchdog.server")

CONTENT_POLICY: Final = "Content-Security-Policy"

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    CONTENT_POLICY: "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""On every answer. Programs ignore them; they keep a browser from making more of it."""


def with_headers(response: Response) -> Response:
    """Put HEADERS on; a view that needs more than nothing brings a Content-Security-Policy."""
    own = response.headers.get(CONTENT_POLICY)
    response.headers.update(HEADERS)
    if own is not None:
        response.headers[CONTENT_POLICY] = own
    return response


def as_text(text: str) -> Response:
    return Response(text, content_type="text/plain; charset=utf-8")


def as_json(value: Any, status: int = 200) -> Response:
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


def refused(error: HTTPException) -> Response:
    """What a view raises, told as JSON."""
    response = as_json({"error": error.description, "status": error.code}, error.code or 500)
    allowed = getattr(error, "valid_methods", None)  # a 405 names them
    if allowed:
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def crashed(bug: Exception) -> Response:
    """Tell that a view failed; why is for the log alone."""
    log.error("a request crashed", path=request.path, exc_info=bug)
    return as_json({"error": "our own fault; the log has the details", "status": 500}, 500)
