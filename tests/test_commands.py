"""What the commands print and exit with, on recorded pages of a real vLLM and on a live port."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.serving import recorded, repeated, served
from tests.test_daemon import free_port, get, running, until, written
from watchdog import cli

START = datetime(2026, 11, 30, 3, 0, tzinfo=timezone.utc)


def recording(folder: Path, *pages: str, config: str = "", apart: float = 60.0) -> Path:
    """Write a recorded folder of these pages, a minute apart."""
    for i, page in enumerate(pages):
        target = folder / f"{i:03d}" / "targets" / "tiny"
        target.mkdir(parents=True)
        (target / "metrics.prom").write_text(recorded(page))
        (folder / f"{i:03d}" / "at").write_text((START + timedelta(seconds=apart * i)).isoformat())
    if config:
        (folder / "config.yaml").write_text(config)
    return folder


def declared(**expect: object) -> str:
    return f"targets: [{{url: 'http://127.0.0.1:1', name: tiny, expect: {json.dumps(expect)}}}]\n"


def checked(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli.main(["check", *argv])
    return code, capsys.readouterr().out


def judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict]]:  # type: ignore[type-arg]
    """Exit code, and the findings by alertname."""
    code, out = checked("--replay", str(folder), "--json", capsys=capsys)
    return code, {f["alertname"]: f for f in json.loads(out)["findings"]}


def test_an_identical_drafter_is_ok_at_length_5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recording(
        tmp_path, "g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy"
    )

    code, findings = judged(folder, capsys)

    assert code == 0
    dead = findings["SpecDecodeCollapsed"]
    assert (dead["verdict"], dead["conclusive"], dead["value"]) == ("OK", True, 5.0)


def test_a_foreign_drafter_is_critical_with_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recording(
        tmp_path, "g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy"
    )

    code, findings = judged(folder, capsys)

    assert code == 2
    dead = findings["SpecDecodeCollapsed"]
    assert (dead["verdict"], dead["value"]) == ("CRITICAL", 1.0)
    assert dead["evidence"]["accepted_tokens"] == 0
    assert dead["evidence"]["draft_tokens"] == 25568
    assert dead["next_step"]


def test_speculation_off_is_ok_unless_it_is_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = ("g_spec_off_baseline_0_start", "g_spec_off_baseline_1_after_greedy")

    code, _ = judged(recording(tmp_path / "a", *pages), capsys)
    expecting = recording(tmp_path / "b", *pages, config=declared(speculation=True))
    code_expecting, findings = judged(expecting, capsys)

    assert code == 0
    assert code_expecting == 2
    assert findings["SpecDecodeNotDrafting"]["verdict"] == "CRITICAL"


def test_counters_that_fell_at_a_restart_give_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recording(tmp_path, "f0_ngram_before_restart", "f1_ngram_after_restart_idle")

    code, findings = judged(folder, capsys)

    assert code == 0
    dead = findings["SpecDecodeCollapsed"]
    assert (dead["value"], dead["conclusive"]) == (None, False)
    assert dead["evidence"]["drafts"] == 0
    assert findings["ServingRestarting"]["value"] == 1


def test_the_first_line_names_the_product_and_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recording(
        tmp_path, "g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy"
    )

    _, out = checked("--replay", str(folder), capsys=capsys)

    first, rest = out.split("\n", 1)
    assert first.startswith("serving-watchdog 0.1.0 on ")
    assert ": CRITICAL at 2026-11-30T03:01:00Z" in first
    for part in ("expected", "evidence", "ruled out", "suspect 1", "next", "runbook"):
        assert f"\n  {part} " in rest


def test_nagios_gets_one_line_with_perfdata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recording(
        tmp_path, "g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy"
    )

    code, out = checked("--replay", str(folder), "--nagios", capsys=capsys)

    assert code == 0
    assert out.count("\n") == 1
    assert out.startswith("serving-watchdog OK: ")
    assert out.rstrip().endswith("| 'tiny_tiny_0_acceptance_length'=5.0000;;;1;")


@pytest.mark.parametrize(
    "argv",
    [
        ["check", "--bogus"],
        ["check", "--window", "soon"],
        ["check", "--config", "/nonexistent/config.yaml"],
        ["check", "--replay", "/nonexistent"],
        ["check", "nobody"],
        ["check", "--url", "ftp://x"],
        ["status", "--url", "http://127.0.0.1:1"],
        ["capture", "/proc/none", "--url", "http://127.0.0.1:1"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_every_failure_of_our_own_exits_3_and_says_why_on_standard_error(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("serving-watchdog: ")


def test_a_live_check_stops_early_once_it_has_enough_evidence(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    pages = repeated("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy", 60)
    with served(*pages) as server:
        config.write_text(
            f"targets: [{{url: '{server.url}', name: tiny}}]\ninterval: 1s\n"
            "server: {listen: '127.0.0.1:1'}\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "watchdog", "check", "--config", str(config), "--json"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        asked = server.asked

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "OK"
    assert 3 <= asked <= 20


def test_an_idle_server_is_no_alarm_and_the_words_say_what_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    with served(recorded("g_draft_same_healthy_0_start")) as server:
        config.write_text(
            f"targets: [{{url: '{server.url}', name: tiny}}]\ninterval: 1s\n"
            "server: {listen: '127.0.0.1:1'}\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "watchdog", "check", "--config", str(config), "--window", "3s"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert done.returncode == 0
    assert "0 of 30 effective drafts" in done.stdout
    assert "\nno evidence " in done.stdout


def test_what_is_captured_is_judged_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = repeated("g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy", 60)
    config = tmp_path / "c.yaml"
    with served(*pages) as server:
        config.write_text(f"targets: [{{url: '{server.url}', name: tiny}}]\ninterval: 1s\n")
        argv = ["capture", str(tmp_path / "rec"), "--config", str(config), "--window", "9s"]
        assert cli.main(argv) == 0
    capsys.readouterr()

    code, findings = judged(tmp_path / "rec", capsys)

    assert code == 2
    assert findings["SpecDecodeCollapsed"]["verdict"] == "CRITICAL"


def test_a_capture_of_nothing_exits_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("targets: [{url: 'http://127.0.0.1:1'}]\ninterval: 1s\n")
    argv = ["capture", str(tmp_path / "rec"), "--config", str(config), "--window", "1s"]

    assert cli.main(argv) == 3
    assert "0 pages recorded" in capsys.readouterr().out


def test_a_running_daemons_word_is_taken_for_the_same_server_and_no_other(tmp_path: Path) -> None:
    pages = repeated("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy", 300)
    port = free_port()
    config, other = tmp_path / "c.yaml", tmp_path / "other.yaml"
    with served(*pages) as server, served(pages[0]) as idle:
        written(config, server.url, port)
        written(other, idle.url, port)
        with running(config):
            until(lambda: healthy_in(report_of(port)), 60)
            same = check_in_a_process(config)
            another = check_in_a_process(other, "--window", "2s")

    assert "(said by the running daemon)" in same.splitlines()[0]
    assert "acceptance length 5.00" in same
    assert "(said by the running daemon)" not in another


def report_of(port: int) -> str:
    return get(port, "/api/v1/report")[1]


def healthy_in(report: str) -> bool:
    found = json.loads(report).get("findings", [])
    return any(f["alertname"] == "SpecDecodeCollapsed" and f["conclusive"] for f in found)


def check_in_a_process(config: Path, *argv: str) -> str:
    command = [sys.executable, "-m", "watchdog", "check", "--config", str(config), *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
