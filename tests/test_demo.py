"""The demo whole, in a process of its own: real daemon, real scrapes, time 20 times faster."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from watchdog.clock import Clock
from watchdog.demo.narrator import Narrator

SPEED = 20
PROGRAM = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests
from watchdog import demo
raise SystemExit(demo.run(speed={SPEED}))
"""


def started():
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def told():
    """Exit code, output, errors and seconds of one whole demo."""
    began = time.monotonic()
    with started() as process:
        out, err = process.communicate(timeout=90)
    return process.returncode, out, err, time.monotonic() - began


def in_order(text, *parts):
    """Whether all parts are there, each behind the one before."""
    at = 0
    for part in parts:
        found = re.search(part, text[at:], re.DOTALL)
        assert found, f"missing, or out of order: {part}\n{text}"
        at += found.end()


def test_the_alert_fires_and_resolves_in_bounded_time(told):
    code, out, err, took = told
    assert (code, err) == (0, ""), out
    in_order(
        out,
        r"OK: demo engine 0: acceptance length 3\.3\d",
        r"answers; the drafter is broken",
        r"alert firing: alertname=SpecDecodeCollapsed severity=critical target=demo",
        r"ALERT +FIRES: SpecDecodeCollapsed",
        r"answers; the drafter works",
        r"OK: demo engine 0: acceptance length 3\.3\d",
        r"alert resolved: alertname=SpecDecodeCollapsed",
        r"ALERT +RESOLVED: SpecDecodeCollapsed",
        r"the alert fired \d+ s after the broken server's",
    )
    assert took < 75


def test_the_alert_argues_before_it_is_explained(told):
    _, out, _, _ = told
    in_order(
        out, r"FIRES", r"summary +demo engine 0: the drafter is dead: position 0 accepts 6\.\d %",
        r"ruled out +queueing: 3 requests wait behind 8 running",
        r"suspect 1 +changed near its onset \(", r"suspect 2 +a compile cache",
        r"next step +restart", r"runbook +https://", r"-> it goes to the log",
    )  # fmt: skip


def test_silence_and_a_new_process_do_not_resolve_it(told):
    _, out, _, _ = told
    in_order(
        out, r"FIRES", r"launched again with its compile cache moved aside",
        r"answers; the drafter works", r"OK: demo engine 0", r"RESOLVED",
    )  # fmt: skip
    assert out.count("FIRES") == out.count("RESOLVED") == 1


def test_the_first_lines_say_what_is_simulated_and_the_last_what_to_do(told):
    lines = told[1].splitlines()
    assert re.fullmatch(
        r"serving-watchdog \S+ demo: a simulated server; time runs 20 times faster", lines[0]
    )
    assert lines[-2].startswith("next: watchdog check --url ")
    assert lines[-1].startswith("next: watchdog config init")


def test_it_is_plain_text_that_fits_a_terminal(told):
    lines = told[1].splitlines()
    assert "\x1b" not in told[1]
    assert [line for line in lines if len(line) > 100 and "https://" not in line] == []


def test_control_c_ends_it_cleanly():
    with started() as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        while not re.match(r"\d\d:\d\d  ", process.stdout.readline()):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert first.startswith("serving-watchdog ")
    assert (process.returncode, err) == (130, "")
    assert out.splitlines()[-1] == "serving-watchdog demo: stopped before its end"


def test_an_alert_that_does_not_fire_is_told_and_exits_3():
    program = PROGRAM.replace(
        "from watchdog import demo\n",
        "from watchdog import demo\nfrom watchdog.demo import story\n"
        "story.BROKEN = story.HEALTHY\nstory.FIRES_WITHIN = 40.0\n",
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert ran.returncode == 3
    assert ran.stdout.splitlines()[-1] == (
        "serving-watchdog demo: FAILED: the alert did not fire within 40 s"
    )


def test_the_narrator_shows_the_simulated_clock_and_wraps():
    out = io.StringIO()
    clock = Clock()
    narrator = Narrator(clock, out)
    narrator.say("server", "word " * 40, at=clock.now() + 125)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("02:05  server    word")
    assert len(lines) > 1
    assert all(line.startswith(" " * 17 + "word") for line in lines[1:])
