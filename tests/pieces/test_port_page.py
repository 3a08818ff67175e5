"""docs/port.md: each path by each method, as the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.asking import JSON, Watched, ask, report, serving
from watchdog.server import Server

PAGE = (Path(__file__).parents[2] / "docs/port.md").read_text()
TABLE, _, AFTER = PAGE.partition("\n\nHEAD is answered as GET is, and OPTIONS with the methods")
ROWS = re.findall(r"^\| (`/.*?`) \| (GET|POST) \|", TABLE, re.MULTILINE)
PATHS = {path: method for told, method in ROWS for path in re.findall(r"`(.+?)`", told)}
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    watched = Watched()
    watched.board.report = report()
    with serving(watched.board) as server:
        yield server


def test_the_page_names_the_paths_and_says_what_else_is_answered():
    assert len(PATHS) == 12
    assert AFTER.startswith(" of a path (`Allow`). Everything else is 404 or 405")


@pytest.mark.parametrize("path", [*PATHS, "/elsewhere"])
@pytest.mark.parametrize("method", METHODS)
def test_a_path_takes_the_methods_that_the_page_names_and_no_other(server, path, method):
    status, headers, _ = ask(server, method, path, b"{}", JSON)
    if path not in PATHS:
        assert status == 404
    elif method == "OPTIONS":
        assert status == 200
        assert PATHS[path] in headers["Allow"]
    elif method == PATHS[path] or (method, PATHS[path]) == ("HEAD", "GET"):
        assert status not in {404, 405}
    else:
        assert status == 405
