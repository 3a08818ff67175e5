from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys
from watchdog import logs
if {journal!r}:
    import os
    s = os.fstat(2)
    os.environ["JOURNAL_STREAM"] = f"{{s.st_dev}}:{{s.st_ino}}"
logs.configure({style!r}, {level!r})
import structlog
log = structlog.get_logger("watchdog.test")
{body}
"""


def stderr(body: str, style: str = "auto", level: str = "info", *, journal: bool = False, **env):
    """What a program of its own writes to standard error, which is all that a reader sees."""
    program = PROGRAM.format(body=body, style=style, level=level, journal=journal)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
    )  # fmt: skip
    assert ran.stdout == b""
    return ran.stderr.decode()


def test_without_a_journal_lines_are_for_people():
    text = stderr('log.warning("not delivered", to="am-1", why="refused")')
    assert re.fullmatch(
        r"\S+Z \[warning *\] not delivered +\[watchdog.test\] to=am-1 why=refused\n", text
    )


def test_in_the_journal_a_line_is_json_behind_its_priority():
    levels = ("debug", "info", "warning", "error", "critical")
    body = "\n".join(f'log.{level}("said", number=1)' for level in levels)
    lines = stderr(body, level="debug", journal=True).splitlines()
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>", "<2>"]
    parsed = [json.loads(line[3:]) for line in lines]
    assert [line["level"] for line in parsed] == list(levels)
    assert all(line["event"] == "said" and line["number"] == 1 for line in parsed)


def test_a_journal_of_our_parent_is_not_ours():
    assert stderr('log.info("said")', JOURNAL_STREAM="1:2").endswith("[watchdog.test]\n")


def test_json_can_be_asked_for():
    line = json.loads(stderr('log.info("said", subject={"engine": "0"})', "json"))
    assert (line["event"], line["subject"], line["logger"]) == (
        "said", {"engine": "0"}, "watchdog.test",
    )  # fmt: skip


def test_libraries_log_the_same_way_and_the_noisy_ones_less():
    body = """
logging.getLogger("some.library").warning("of %s", "theirs")
logging.getLogger("waitress.queue").warning("Task queue depth is 1")
logging.getLogger("apscheduler.scheduler").info("Added job")
"""
    (line,) = stderr(body, "json").splitlines()
    assert json.loads(line)["event"] == "of theirs"


def test_below_the_level_nothing_is_written():
    assert stderr('log.info("said")', level="error") == ""


@pytest.mark.parametrize("style", ["plain", "json"])
@pytest.mark.parametrize("character", ["x", "é", "\\n", "\\ud800"])
def test_a_line_is_bounded(style, character):
    text = stderr(f'log.info("said", page="{character}" * 1_000_000, more="y" * 1_000_000)', style)
    assert len(text.encode()) <= 8192 + 1
    assert text.count("\n") == 1
    assert "(cut)" in text
    if style == "json":
        assert json.loads(text)["event"] == "said"


def test_a_line_with_too_many_keys_keeps_what_happened():
    body = 'log.error("said", **{f"key{i}": "x" * 100 for i in range(1000)})'
    line = json.loads(stderr(body, "json"))
    assert (line["event"], line["level"], line["cut"]) == ("said", "error", True)


def test_what_a_server_sent_cannot_begin_a_line_or_steer_the_terminal():
    text = stderr(r'log.info("said\n<0>forged", why="a\nb\x1b[31m\x9b\u202e")', "plain")
    assert text.count("\n") == 1
    assert not set(text) & {"\x1b", "\x9b", "\u202e"}
    assert r"said\n<0>forged" in text


@pytest.mark.parametrize("style", ["plain", "json"])
def test_a_crash_is_told_with_its_traceback(style):
    body = """
try:
    1 / 0
except ZeroDivisionError:
    log.exception("crashed")
"""
    text = stderr(body, style)
    assert "Traceback (most recent call last)" in text
    assert "ZeroDivisionError: division by zero" in text
    assert style == "plain" or text.count("\n") == 1
