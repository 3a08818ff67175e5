"""`baseline show`, `accept` and `reset` against a real daemon that has learned for weeks."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.seeded import weeks
from tests.serving import repeated, served
from tests.test_daemon import free_port, get, in_process, until, written
from watchdog import cli
from watchdog.daemon import Daemon
from watchdog.domain.baseline_state import State
from watchdog.domain.sample import Labels, labels

PAGES = ("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy")
ALERT = "SpecDecodeDegraded"


@contextmanager
def learned(config: Path) -> Iterator[Daemon]:
    """A daemon that knows its one engine for 28 days, and whose alert fires."""
    with in_process(config) as daemon:
        with daemon._between_rounds():
            states_of(daemon)[engine_of(daemon)]["baseline"] = weeks(daemon._clock.now())
        until(lambda: firing(daemon))
        yield daemon


def states_of(daemon: Daemon) -> dict[Labels, dict[str, Any]]:
    return daemon._watchdog.assessor.watches["tiny"].states


def engine_of(daemon: Daemon) -> Labels:
    [subject] = (subject for subject in states_of(daemon) if "engine" in dict(subject))
    return subject


def firing(daemon: Daemon) -> bool:
    report = daemon.board.report
    return report is not None and any(
        alert.finding.alertname == ALERT and alert.state.value == "firing"
        for alert in report.alerts
    )


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    with served(*repeated(*PAGES, 300)) as server:
        yield written(tmp_path / "c.yaml", server.url, free_port())


class Run:
    """Commands on one configuration, and what they print."""

    def __init__(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._config, self._capsys = config, capsys

    def __call__(self, *argv: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = cli.main(["baseline", *argv, "--config", str(self._config)])
        return (code, *self._capsys.readouterr())

    def engine(self) -> dict[str, object]:
        """What `show --json` says of the one engine."""
        [row] = json.loads(self("show", "tiny", "--json")[1])["baselines"]
        assert isinstance(row, dict)
        return row


@pytest.fixture
def run(config: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(config, capsys)


def test_what_is_known_is_shown_and_scraped(config: Path, run: Run) -> None:
    with learned(config) as daemon:
        code, out, _ = run("show")
        assert code == 0
        assert out.startswith("serving-watchdog: baselines at 20")
        assert "1 engine, 1 below its usual length" in out
        line = out.splitlines()[3]
        for words in ("tiny  ", "28 days", "4.00", "2.50 (400 requests)", "silent since "):
            assert words in line
        row = run.engine()
        assert (row["days"], row["length"], row["length_24h"]) == (28, 4.0, 2.5)
        assert (row["raised"], row["accepted_at"]) == ("silent", None)
        metrics = get(daemon.server.port, "/metrics")[1]
        [value] = (
            line.split()[-1]
            for line in metrics.splitlines()
            if line.startswith("watchdog_baseline_acceptance_length{")
        )
        assert value == "4.0"


def test_an_accepted_length_is_the_usual_one_ends_the_alert_and_outlasts_a_restart(
    config: Path, run: Run
) -> None:
    with learned(config) as daemon:
        code, out, err = run("accept", "tiny")
        assert (code, err) == (0, "")
        assert out == "serving-watchdog: tiny engine 0: was 4.00 (28 days), now 2.50 tokens\n"
        until(lambda: not firing(daemon))
    with in_process(config) as daemon:
        row = run.engine()
        assert row["length"] == pytest.approx(2.5, rel=0.01)
        assert row["accepted_at"] is not None
        assert not firing(daemon)


def test_a_baseline_that_is_forgotten_is_learned_anew_and_its_alert_ends(
    config: Path, run: Run
) -> None:
    with learned(config) as daemon:
        code, out, _ = run("reset", "tiny", "--engine", "0", "--yes")
        assert code == 0
        assert out == "serving-watchdog: tiny engine 0: was 4.00 (28 days), it learns anew\n"
        until(lambda: not firing(daemon))
        assert "learning, 0 of 7 days" in run("show", "tiny")[1]


def test_a_change_is_followed_by_a_round_at_once(tmp_path: Path) -> None:
    with (
        served(*repeated(*PAGES, 5)) as server,
        in_process(written(tmp_path / "c.yaml", server.url, 0, "5m")) as daemon,
    ):
        assert daemon.board.rounds == 1
        daemon.board.change_baseline("reset", "tiny", None)
        until(lambda: daemon.board.rounds == 2)


def test_a_change_is_on_disk_before_it_is_answered(tmp_path: Path, state_directory: Path) -> None:
    with (
        served(*repeated(*PAGES, 5)) as server,
        in_process(written(tmp_path / "c.yaml", server.url, 0, "5m")) as daemon,
    ):
        with daemon._between_rounds():
            states_of(daemon)[engine_of(daemon)]["baseline"] = weeks(daemon._clock.now())
        daemon.board.change_baseline("accept", "tiny", None)
        with closing(sqlite3.connect(state_directory / "state.db")) as db:
            [(body,)] = db.execute("SELECT body FROM kept WHERE name LIKE '%engine%'").fetchall()
    assert "2000000.0" in body


def test_of_two_engines_one_is_accepted_and_the_other_named(config: Path, run: Run) -> None:
    with learned(config) as daemon:
        other = labels(**{**dict(engine_of(daemon)), "engine": "1"})
        with daemon._between_rounds():
            states_of(daemon)[other] = {"baseline": State()}
        code, out, err = run("accept", "tiny")
    assert code == 3
    assert out == "serving-watchdog: tiny engine 0: was 4.00 (28 days), now 2.50 tokens\n"
    assert err.startswith("serving-watchdog: tiny engine 1: 0 requests in the last 24 h")


def test_what_shows_nothing_is_not_accepted_and_says_why(config: Path, run: Run) -> None:
    with in_process(config):
        code, out, err = run("accept", "tiny")
        assert (code, out) == (3, "")
        assert err.startswith("serving-watchdog: tiny engine 0: ")
        assert "requests in the last 24 h" in err
        assert run.engine()["accepted_at"] is None


def test_forgetting_asks_somebody_and_not_nobody(config: Path, run: Run) -> None:
    with learned(config):
        code, _, err = run("reset", "tiny")
        assert (code, err) == (
            3,
            "serving-watchdog: nobody can be asked whether that is meant; give --yes\n",
        )
        assert run.engine()["days"] == 28
        code, said = on_a_terminal(config, "n")
        assert (code, run.engine()["days"]) == (3, 28)
        assert "forget 28 days of tiny and learn anew? [y/N]" in said
        assert "serving-watchdog: nothing was changed" in said
        code, said = on_a_terminal(config, "y")
        assert (code, run.engine()["days"]) == (0, 0)


def on_a_terminal(config: Path, answer: str) -> tuple[int, str]:
    """Run `baseline reset tiny` before somebody who types this; the exit code, and what he sees."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "watchdog", "baseline", "reset", "tiny"]
    with subprocess.Popen(
        [*command, "--config", str(config)],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        os.write(ours, f"{answer}\n".encode())
        said, _ = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    return process.returncode, said


@pytest.mark.parametrize("argv", [("show", "tyni"), ("accept", "tyni"), ("reset", "tyni", "--yes"),
                                  ("reset", "tyni")])  # fmt: skip
def test_an_unknown_target_is_answered_with_the_known_ones(
    config: Path, run: Run, argv: tuple[str, ...]
) -> None:
    with in_process(config):
        code, out, err = run(*argv)
    assert (code, out) == (3, "")
    assert err == "serving-watchdog: unknown target; known: tiny\n"


@pytest.mark.parametrize("how", [("accept",), ("reset", "--yes")])
def test_an_unknown_engine_is_answered_with_the_known_ones(
    config: Path, run: Run, how: tuple[str, ...]
) -> None:
    with in_process(config):
        code, _, err = run(*how, "tiny", "--engine", "7")
    assert (code, err) == (3, "serving-watchdog: tiny has no engine 7; known: 0\n")


@pytest.mark.parametrize("argv", [("show",), ("accept", "tiny"), ("reset", "tiny", "--yes")])
def test_without_a_daemon_it_says_how_to_start_one(run: Run, argv: tuple[str, ...]) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (3, "")
    assert err.startswith("serving-watchdog: no daemon at 127.0.0.1:")
    assert err.endswith("start it with `watchdog run`\n")
