"""
The incident's timeline as a replay: what an operator would have been told, and from when on.

See `tests/incident.py` for the recorded folder and for what in it is the report's and what is ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.incident import AFTER, BEFORE, CONFIG, DIRECTORY, MENDED, STALE, on, story, write
from watchdog.build import assessor_of
from watchdog.checking import replayed
from watchdog.config import load
from watchdog.demo.simulation import BROKEN
from watchdog.domain.report import rfc3339
from watchdog.settings import Settings

DEAD = "SpecDecodeCollapsed"
URL = "http://127.0.0.1:8218"
SERVING = ("serving", "reading")
"""Checks that rightly say that it does not answer while it starts."""


def told(directory: Path, **how: bool) -> dict[str, dict[str, Any]]:
    """The findings of the last snapshot of a replay, by alertname."""
    folder = write(directory / "incident", **how)
    report = replayed(folder, load(folder / "config.yaml"))
    return {finding["alertname"]: finding for finding in report["findings"]}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return told(tmp_path_factory.mktemp("broken"), mended=False)


@pytest.fixture(scope="module")
def unknown_pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Without the record of the 9th."""
    return told(tmp_path_factory.mktemp("unknown"), mended=False, record=False)


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return told(tmp_path_factory.mktemp("mended"))


def line(lines: list[str], start: str) -> str:
    """The one line that begins so."""
    [found] = [text for text in lines if text.startswith(start)]
    return found


def test_the_figures_are_those_of_the_report() -> None:
    assert BEFORE.acceptance_length == pytest.approx(3.766)
    assert sum(BEFORE.positions) / BEFORE.tokens_per_draft == pytest.approx(0.3982, abs=5e-5)
    assert BROKEN.acceptance_length == pytest.approx(1.079, abs=1e-3)
    assert (BROKEN.positions[0], BROKEN.tokens_per_draft) == (0.067, 2.96)
    assert AFTER.acceptance_length == pytest.approx(3.315)


def test_the_drafter_is_found_dead_since_the_13th(broken: dict[str, dict[str, Any]]) -> None:
    found = broken[DEAD]
    assert (found["verdict"], found["value"]) == ("CRITICAL", pytest.approx(1.079, abs=1e-3))
    assert "position 0 accepts 6.7 %" in found["summary"]
    assert found["evidence"]["draft_tokens_per_draft"] == pytest.approx(2.96, abs=1e-2)


def test_the_first_suspect_is_the_cache_with_its_evidence(
    broken: dict[str, dict[str, Any]],
) -> None:
    first = broken[DEAD]["suspects"][0]
    assert first.startswith("a compile cache of an older launch: CompileCacheStale stands: ")
    assert DIRECTORY in first
    assert "compiled 12.0 days before this start" in first
    assert "it differs in image, model, drafter, env RADIANCE_" in first
    assert "this start was warm" in first
    assert "drafts are 2.96 tokens deep where this launch asks for 7" in first
    assert "decided by a cold start of the same launch" in first
    assert broken["CompileCacheStale"]["verdict"] == "WARNING"


def test_the_onset_is_the_restart_of_the_13th_and_not_the_launchers_file_of_the_6th(
    broken: dict[str, dict[str, Any]],
) -> None:
    changed = line(broken[DEAD]["suspects"], "changed near its onset")
    assert "restarted 2.4 days ago" in changed
    assert "sha256:77aa0c1d93b2" in changed
    assert "sha256:bebc00145d7d" in changed


def test_the_three_wrong_hypotheses_are_ruled_out_with_their_numbers(
    broken: dict[str, dict[str, Any]],
) -> None:
    out = broken[DEAD]["ruled_out"]
    assert "the same pair gave acceptance length 3.77 5.9 days ago" in line(
        out, "mispaired drafter"
    )
    fast = line(out, "a fast path that is off")
    assert "6 set in the process: " in fast
    assert "RADIANCE_MXFP4=1" in fast
    assert "a decode step takes 39.2 ms, 47.6 ms when it was healthy" in fast
    twice = line(out, "two drafters that count twice")
    counts = [float(word.replace(",", "")) for word in twice.split() if word[0].isdigit()]
    drafts, accepted, told_of, generated = counts
    assert drafts + accepted == pytest.approx(told_of)
    assert told_of == pytest.approx(generated, rel=0.01)
    assert len(out) <= 8
    assert len(broken[DEAD]["suspects"]) <= 5


def test_a_pair_that_nobody_saw_healthy_is_not_ruled_out_and_comes_after_the_cache(
    unknown_pair: dict[str, dict[str, Any]],
) -> None:
    found = unknown_pair[DEAD]
    assert not any(text.startswith("mispaired") for text in found["ruled_out"])
    starts = [text.split(":")[0] for text in found["suspects"]]
    assert starts[:3] == [
        "a compile cache of an older launch",
        "changed near its onset (between 2.4 days and 3.0 days ago)",
        "mispaired drafter",
    ]
    assert "DFlash -> /mnt/models/radiance/Qwen3.8-27B-DFlash2-FP8" in " ".join(found["suspects"])


def test_the_next_step_sets_that_directory_aside_and_proves_it(
    broken: dict[str, dict[str, Any]],
) -> None:
    step = broken[DEAD]["next_step"]
    assert f"`watchdog cache set-aside --directory {DIRECTORY}`" in step
    assert "`watchdog cache confirm qwen`" in step


def test_set_aside_and_started_cold_it_drafts_again(mended: dict[str, dict[str, Any]]) -> None:
    bad = {name for name, f in mended.items() if f["verdict"] != "OK"}
    assert bad == set()
    assert mended[DEAD]["value"] == pytest.approx(3.315, abs=1e-3)
    stale = mended["CompileCacheStale"]
    assert stale["conclusive"]
    assert "this start compiled it for itself" in stale["summary"]
    proof = stale["evidence"]
    assert proof["coldness"] == "cold"
    assert proof["signs"]["artifacts"].startswith("cold")
    assert proof["signs"]["time"].startswith("cold: it took ")
    assert (
        "declared floors: a cold start takes about 594 s, a warm one 320 s"
        in proof["signs"]["time"]
    )


Bad = list[tuple[float, str, str]]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Bad:
    """Whatever was bad about drafts or caches in any round: when, its name, its first suspect."""
    config = tmp_path_factory.mktemp("config") / "config.yaml"
    config.write_text(CONFIG)
    assessor, bad = assessor_of(load(config)), []
    for moment in story():
        for found in assessor.assess(moment.readings(), moment.at).findings:
            said = found.argument.suspects
            if found.verdict.name in ("WARNING", "CRITICAL") and found.check not in SERVING:
                bad.append((moment.at, found.alertname, said[0] if said else ""))
    return bad


def test_nothing_is_said_before_the_13th(days: Bad) -> None:
    """Neither the 6th, nor the record of the 9th, nor the return to the older launch is one."""
    assert [name for at, name, _ in days if at < on(13, "09:05:23")] == []


def test_it_is_told_within_the_hour_and_the_cache_even_before_the_drafter(days: Bad) -> None:
    first = {name: at for at, name, _ in reversed(days)}
    assert first["CompileCacheStale"] < first[DEAD] <= on(13, "09:40:00")
    suspects = {suspect.partition(" stands")[0] for at, name, suspect in days
                if name == DEAD and at < on(16, "02:15:00")}  # fmt: skip
    assert suspects == {"a compile cache of an older launch: CompileCacheStale"}


def test_a_start_that_compiled_anew_is_not_blamed_nor_cleared_before_it_has_drafted() -> None:
    """Between the fix and the first healthy drafts the alert is about the process before."""
    assessor = assessor_of(Settings.model_validate({"targets": [{"name": "qwen", "url": URL}]}))
    for moment in story():
        findings = assessor.assess(moment.readings(), moment.at).findings
        if moment.at > MENDED.life.ready and moment.run is MENDED:
            break
    [dead] = [found for found in findings if found.alertname == DEAD]
    said = dead.argument
    assert dead.verdict.name == "CRITICAL"
    assert not any("compile cache" in text for text in said.ruled_out)
    assert any("was started anew since, and for this start qwen: " in x for x in said.suspects)
    assert said.next_step.startswith("send the server some requests")


def test_nothing_more_is_said_once_it_drafts_again(days: Bad) -> None:
    assert [name for at, name, _ in days if at > on(16, "02:30:00")] == []


def test_the_copy_that_was_set_aside_bears_its_time() -> None:
    name, at = STALE
    assert name.endswith(".stale-" + rfc3339(at).replace("-", "").replace(":", "")[:15] + "Z")
