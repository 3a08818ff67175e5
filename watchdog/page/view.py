"""The view behind `/`: a report to HTML, once for each, under a policy that allows little."""

from __future__ import annotations

import threading
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from flask import Flask, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from watchdog import __version__
from watchdog.board import Board
from watchdog.domain import wording as w
from watchdog.domain.report import PRODUCT, Report
from watchdog.page.content import MOST_NOTES, content_of
from watchdog.page.shown import shown

FOLDER: Final = Path(__file__).parent
STYLE: Final = (FOLDER / "page.css").read_text(encoding="utf-8")
SCRIPT: Final = (FOLDER / "page.js").read_text(encoding="utf-8")

STALE_AFTER: Final = 3
"""Intervals without a round after which what is shown is stale."""

LEAST_PATIENCE: Final = 5.0
SOONEST, LATEST = 1.0, 60.0
"""Seconds: a round may take that long; and between two refreshes of a page."""


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"style-src {_hashed(STYLE)}",
        f"script-src {_hashed(SCRIPT)}",
        "connect-src 'self'",
        "img-src data:",  # the icon of the tab
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

BUILD: Final = sha256((STYLE + SCRIPT).encode()).hexdigest()[:16]
"""Tells an open page that its script is of another version than the answer."""

TEMPLATES: Final = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    finalize=shown,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


def register(app: Flask, board: Board) -> None:
    """Add the page at `/`."""
    page = Page(board)
    app.add_url_rule("/", "page", page.answer)


class _Made(NamedTuple):
    """The part of the page that changes with a round alone."""

    report: Report
    notes: list[str]
    verdict: str
    at: str
    host: str
    html: Markup


class Page:
    """Renders a report when somebody asks for it, and not again before the next one."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._made: _Made | None = None

    def answer(self) -> Response:
        """Return the whole page as of now."""
        board = self._board
        made = self._newest()
        age = board.age() if made else None
        patience = max(LEAST_PATIENCE, STALE_AFTER * board.interval)
        html = TEMPLATES.get_template("page.html").render(
            product=PRODUCT,
            version=__version__,
            build=BUILD,
            style=Markup(STYLE),  # noqa: S704  (our own file)
            script=Markup(SCRIPT),  # noqa: S704  (our own file)
            made=made,
            age=age,
            ago=None if age is None else w.span(age),
            every=w.span(board.interval),
            patience=patience,
            stale=age is not None and age > patience,
            refresh=round(min(LATEST, max(SOONEST, board.interval))),
        )
        answer = Response(html, content_type="text/html; charset=utf-8")
        answer.headers["Content-Security-Policy"] = POLICY
        return answer

    def _newest(self) -> _Made | None:
        report, notes = self._board.report, self._board.notes()
        if report is None:
            return None
        with self._lock:  # one renders, the others wait for it
            made = self._made
            if made is None or made.report is not report or made.notes != notes:
                made = self._made = self._render(report, notes)
            return made

    def _render(self, report: Report, notes: list[str]) -> _Made:
        content = content_of(self._board, report)
        html = TEMPLATES.get_template("report.html").render(
            content._asdict(), notes=notes[:MOST_NOTES], more_notes=len(notes) - MOST_NOTES
        )
        return _Made(
            report, notes, content.verdict, content.at, content.host, Markup(html)  # noqa: S704
        )  # fmt: skip
