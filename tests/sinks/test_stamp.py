"""The stamp sink: what it notes in a cache directory, and where it leaves a stamp as it is."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from watchdog import cache_stamp
from watchdog.cache_guard import STALE, judged
from watchdog.cache_stamp import DAEMON, MOST, NAME, Filled, Stamp, read, write
from watchdog.cache_stamping import CONTAINER, NOWHERE
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.fingerprint import Fingerprint, fingerprint_of
from watchdog.domain.report import Report
from watchdog.domain.sample import Reading, labels
from watchdog.domain.starts import NEAR
from watchdog.sinks.stamp import AGAIN, StampSink, fills_of

NOW = 1_796_040_000.0  # 2026-11-30T12:00:00Z
BEGAN = NOW - 1200
FILES = {"config": "c1", "tensors": "t1", "quantization": "none", "files": "f1"}


def launch(depth: int = 3, **more: Any) -> Fingerprint:
    """A launch as the daemon sees it: with versions."""
    drafter = f'{{"method": "ngram", "num_speculative_tokens": {depth}}}'
    argv = ["vllm", "serve", "/m", "--speculative-config", drafter]
    told = {"argv": argv, "environ": {}, "gpu": {"arch": "gfx1201"}, "models": {"model": FILES},
            "versions": {"vllm": "0.32.0"}, **more}  # fmt: skip
    return fingerprint_of(told)


def claimed(depth: int = 3, **more: Any) -> Fingerprint:
    """The same as a launcher's `cache stamp` sees it: without versions and GPUs."""
    found = launch(depth, gpu={}, versions={}, **more)
    return Fingerprint(found.factors, tuple(row for row in found.unread if row[0] != "versions"))


class Cache:
    """A directory with files in it, and reports about it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.sink = directory, StampSink()
        self.asked = NOW  # each report is of a new look at the files
        directory.mkdir()
        (directory / "model").write_text("graph")

    def report(self, found: Fingerprint, now: float = NOW, **changes: Any) -> Report:
        """A round in which the check has seen this launch compile for itself."""
        self.asked += 1
        asked = changes.pop("asked", self.asked)
        known = self.directory.stat()
        whole = {
            "kind": "vllm", "path": str(self.directory), "here": str(self.directory),
            "id": f"{known.st_dev}:{known.st_ino}", "compiled": True, "start": BEGAN,
            "started_at": BEGAN, "container": None, "pid": os.getpid(), **changes,
        }  # fmt: skip
        place = {key: whole[key] for key in ("kind", "path", "here", "id")}
        ledger = [{key: whole[key] for key in ("path", "id", "compiled", "start")}]
        ledger[0]["id"] = whole.get("seen_id", whole["id"])
        facts: dict[str, Any] = {
            "launch": {key: whole[key] for key in ("started_at", "container", "pid")},
            "launch_fingerprint": found.as_dict(),
        }
        readings = (
            Reading("launch", "qwen", facts=facts),
            Reading("compile_cache", "qwen", facts={"cache": {"asked": asked, "places": [place]}}),
        )
        said = Argument("said", evidence={"ledger": ledger})
        finding = Finding(
            "CompileCacheStale", labels(target="qwen"), Verdict.OK, lambda: said,
            check="compile_cache",
        )  # fmt: skip
        return Report("gpu-1", "1.0", now, readings, (finding,))

    def send(self, found: Fingerprint, now: float = NOW, **changes: Any) -> str:
        """Send a round's report, and return what is told of the stamp then."""
        assert self.sink.send(self.report(found, now, **changes), 0.0) == []
        self.sink.wait(10)
        return self.sink.told.get(("qwen", str(self.directory)), "")

    @property
    def digests(self) -> list[str]:
        stamp = read(self.directory)
        return [] if stamp is None else [entry.fingerprint["digest"] for entry in stamp.entries]

    def fill(self, *found: Fingerprint, start: float = NOW - 86400 * 20) -> Stamp:
        """Stamp it as launchers do."""
        at = "2026-11-10T12:00:00Z"
        stamp = Stamp(tuple(Filled(one.as_dict(), at, start) for one in found))
        write(self.directory, stamp)
        return stamp


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "the cache")


@contextmanager
def another_users() -> Iterator[int]:
    """A process of the user 65534, who may write what is everybody's or his own."""
    command = ["/bin/sleep", "600"]
    with subprocess.Popen(command, cwd="/", user=65534, group=65534, extra_groups=[]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' processes are for root to start")
def test_it_writes_only_where_the_servers_own_user_may(cache: Cache) -> None:
    """A daemon of root's may write anywhere, and a server may name any directory for its cache."""
    with another_users() as pid:
        assert "own user may not write there" in cache.send(launch(), pid=pid)
        assert read(cache.directory) is None
        os.chown(cache.directory, 65534, 65534)
        assert "names 1 launch" in cache.send(launch(), pid=pid)


def test_of_a_server_that_has_ended_nothing_is_written(cache: Cache) -> None:
    assert "as far as is known" in cache.send(launch(), pid=0)
    assert read(cache.directory) is None


def test_a_launch_that_was_seen_to_compile_is_noted(cache: Cache) -> None:
    told = cache.send(launch())
    stamp = read(cache.directory)
    assert stamp is not None
    assert stamp.entries == (Filled(launch().as_dict(), "2026-11-30T12:00:00Z", BEGAN, DAEMON),)
    assert told == "names 1 launch, the last one of 2026-11-30T12:00:00Z"


@pytest.mark.parametrize("compiled", [False, None, 1, "yes"])
def test_one_that_only_loaded_or_may_have_is_not_noted(cache: Cache, compiled: Any) -> None:
    assert cache.send(launch(), compiled=compiled) == ""
    assert cache.digests == []


def test_what_is_told_of_a_stamp_is_over_once_the_directory_is_another_one(cache: Cache) -> None:
    assert cache.send(launch()) != ""
    cache.directory.rename(cache.directory.with_name("aside"))
    cache.directory.mkdir()
    assert cache.send(launch(), compiled=None) == ""


def test_of_an_unread_page_or_another_process_nothing_is_noted(cache: Cache) -> None:
    assert cache.send(launch(), start=None) == ""
    assert cache.send(launch(), started_at=BEGAN + NEAR + 0.1) == ""
    assert cache.send(launch(), seen_id="1:2") == ""
    assert cache.send(launch(), id=None) == ""
    assert cache.digests == []
    cache.send(launch(), started_at=BEGAN + NEAR)
    assert len(cache.digests) == 1


def test_a_second_launch_is_noted_beside_the_first(cache: Cache) -> None:
    cache.send(launch(3))
    cache.send(launch(7), start=BEGAN + 600, started_at=BEGAN + 600)
    assert cache.digests == [launch(3).digest, launch(7).digest]
    assert judged(cache.directory, launch(3)).code == STALE


def test_a_launch_that_comes_back_and_another_start_of_it_change_nothing(cache: Cache) -> None:
    cache.send(launch(3))
    cache.send(launch(7), start=BEGAN + 600, started_at=BEGAN + 600)
    before = (cache.directory / NAME).stat()
    names = sorted(cache.directory.iterdir())
    for start in (BEGAN + 1200, BEGAN + 2400):
        cache.send(launch(3), start=start, started_at=start)
    after = (cache.directory / NAME).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(cache.directory.iterdir()) == names


def test_of_one_process_the_entry_that_knows_most_stays(cache: Cache) -> None:
    dark = launch(environ=None, unread={"environ": "not permitted"})
    whole = launch(environ={"VLLM_X": "1"})
    cache.send(dark)
    assert cache.digests == [dark.digest]
    cache.send(whole)
    assert cache.digests == [whole.digest]
    cache.send(dark)
    assert cache.digests == [whole.digest]


# --- what launchers noted ------------------------------------------------------------------------


def test_what_launchers_noted_is_never_lost(cache: Cache) -> None:
    old = cache.fill(claimed(3), claimed(5))
    cache.send(launch(7))
    stamp = read(cache.directory)
    assert stamp is not None
    assert stamp.entries[:2] == old.entries
    assert cache.digests[2:] == [launch(7).digest]


def test_a_launch_that_its_launcher_noted_is_not_noted_again(cache: Cache) -> None:
    """Else the launcher's `cache verify` would meet versions that it cannot tell, and refuse."""
    cache.fill(claimed(3))
    cache.send(launch(3))
    assert cache.digests == [claimed(3).digest]
    assert judged(cache.directory, claimed(3)).code == 0


def test_what_a_script_sets_behind_the_launchers_back_makes_it_no_other_launch(
    cache: Cache,
) -> None:
    cache.fill(claimed(3))
    cache.send(launch(3, environ={"VLLM_X": "1"}))
    assert cache.digests == [claimed(3).digest]
    cache.fill(claimed(3, environ={"VLLM_X": "2"}))
    cache.send(launch(3, environ={"VLLM_X": "1"}), NOW + AGAIN)
    assert len(cache.digests) == 2


def test_a_launcher_that_tells_other_versions_tells_of_another_launch(cache: Cache) -> None:
    cache.fill(launch(versions={"vllm": "0.31.0"}, gpu={}))
    cache.send(launch(versions={"vllm": "0.32.0"}))
    assert len(cache.digests) == 2
    cache.fill(launch(versions={"vllm": "0.32.0"}, gpu={}))
    cache.send(launch(versions={"vllm": "0.32.0", "triton": "3.6.0"}))
    assert len(cache.digests) == 1


def test_what_the_daemon_itself_saw_without_a_variable_is_another_launch(cache: Cache) -> None:
    cache.send(launch(3))
    cache.send(launch(3, environ={"VLLM_X": "1"}), start=BEGAN + 600, started_at=BEGAN + 600)
    assert len(cache.digests) == 2


@pytest.mark.parametrize(("stamped", "entries"), [(-900.0, 1), (-900.1, 2), (60.0, 1), (60.1, 2)])
def test_a_launchers_stamp_at_the_start_is_about_this_launch(
    cache: Cache, stamped: float, entries: int
) -> None:
    cache.fill(claimed(3), start=BEGAN + stamped)
    cache.send(launch(7))
    assert len(cache.digests) == entries


def test_a_launchers_entry_that_lacks_what_is_known_here_does_not_stand_for_it(
    cache: Cache,
) -> None:
    cache.fill(claimed(3, environ=None, unread={"environ": "no"}))
    cache.send(launch(3))
    assert len(cache.digests) == 2


def test_kernels_of_others_have_no_key_of_vllms_so_that_versions_count(cache: Cache) -> None:
    cache.fill(claimed(3))
    cache.send(launch(3), kind="triton")
    assert cache.digests == [claimed(3).digest, launch(3).digest]


def test_another_version_is_another_launch(cache: Cache) -> None:
    cache.send(launch(versions={"vllm": "0.31.0"}))
    cache.send(launch(), start=BEGAN + 600, started_at=BEGAN + 600)
    assert len(cache.digests) == 2


def test_the_oldest_goes_where_there_are_too_many(cache: Cache) -> None:
    cache.fill(*(claimed(depth) for depth in range(1, MOST + 1)))
    cache.send(launch(99))
    assert len(cache.digests) == MOST
    assert cache.digests[0] == claimed(2).digest
    assert cache.digests[-1] == launch(99).digest


def test_a_launcher_that_stamps_meanwhile_loses_nothing(cache: Cache) -> None:
    """Somebody has the turn: what he writes is read before anything is written."""
    with cache_stamp.turn(cache.directory):
        cache.sink.send(cache.report(launch(7)), 0.0)
        cache.fill(claimed(3))
    cache.sink.wait(10)
    assert cache.digests == [claimed(3).digest, launch(7).digest]


# --- where it may not, or should not -------------------------------------------------------------


def test_a_directory_that_may_not_be_written_is_told_once_and_delivers_no_failure(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache_stamp, "_write_new", denied)
    with capture_logs() as logs:
        told = cache.send(launch())
        for rounds in range(1, 4):
            assert cache.send(launch(), NOW + rounds * AGAIN) == told
    assert told == (
        f"the daemon may not write there: {cache.directory}/{NAME} is not permitted to this user"
    )
    assert [(line["event"], line["stamp"]) for line in logs] == [
        ("a cache is not stamped anew", told)
    ]


def test_what_may_be_written_later_is_tried_again_with_the_next_look_or_hour(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cache_stamp, "_write_new", lambda *_: os.open("/none/x", os.O_RDONLY))
        cache.send(launch())
    cache.send(launch(), NOW + 15, asked=NOW + 1)
    assert cache.digests == []
    cache.send(launch(), NOW + AGAIN, asked=NOW + 1)
    assert len(cache.digests) == 1


def test_a_directory_that_was_exchanged_since_is_left_alone(cache: Cache) -> None:
    report = cache.report(launch())
    cache.directory.rename(cache.directory.with_name("moved"))
    cache.directory.mkdir()
    cache.sink.send(report, 0.0)
    cache.sink.wait(10)
    told = cache.sink.told["qwen", str(cache.directory)]
    assert told == "not written: another directory has this path by now"
    assert cache.digests == []
    assert not (cache.directory.with_name("moved") / NAME).exists()


def test_nothing_is_written_through_a_link(cache: Cache) -> None:
    link = cache.directory.with_name("link")
    link.symlink_to(cache.directory)
    assert cache.send(launch(), here=str(link)).startswith(f"not written: {link} ")
    assert cache.digests == []


def test_a_link_in_place_of_the_stamp_is_left_as_it_is(cache: Cache, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("{}")
    (cache.directory / NAME).symlink_to(victim)
    assert cache.send(launch()).startswith(f"left as it is: {cache.directory}/{NAME} ")
    assert victim.read_text() == "{}"
    assert (cache.directory / NAME).is_symlink()


@pytest.mark.parametrize("text", ["", "{}", '{"product": "serving-watchdog", "schema": 99}'])
def test_a_stamp_that_cannot_be_read_is_left_as_it_is(cache: Cache, text: str) -> None:
    (cache.directory / NAME).write_text(text)
    assert cache.send(launch()).startswith(f"left as it is: {cache.directory}/{NAME} ")
    assert (cache.directory / NAME).read_text() == text


def test_a_stamp_with_a_fingerprint_that_is_none_is_left_as_it_is(cache: Cache) -> None:
    write(cache.directory, Stamp((Filled({"digest": "0" * 16}, "2026-11-10T12:00:00Z", 1.0),)))
    assert "a fingerprint in it cannot be read" in cache.send(launch())
    assert cache.digests == ["0" * 16]


def test_a_container_is_left_out_and_that_is_said(cache: Cache) -> None:
    assert cache.send(launch(), container="0a1b2c3d4e5f") == CONTAINER
    assert cache.digests == []


def test_a_place_that_this_host_does_not_see_is_left_out(cache: Cache) -> None:
    assert cache.send(launch(), here="") == NOWHERE
    assert cache.send(launch(), here=f"/proc/self/root{cache.directory}") == NOWHERE
    assert cache.send(launch(), here="the cache").startswith("left out: the cache ")


def test_what_belongs_to_the_system_or_to_many_is_left_out(cache: Cache) -> None:
    assert cache.send(launch(), here="/tmp").startswith("left out: /tmp belongs to the system")
    cache.directory.chmod(0o1777)
    assert cache.send(launch()) == "left out: it is a directory of many users"
    assert cache.digests == []


def test_a_directory_that_hangs_holds_up_no_round(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, held = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        held.set()
        free.wait(10)

    monkeypatch.setattr(cache_stamp, "read", hang)
    for _ in range(3):
        assert cache.sink.send(cache.report(launch()), 0.0) == []
    assert held.wait(10)
    assert cache.sink.told["qwen", str(cache.directory)] == "is being written"
    assert sum(thread.name == "stamp" for thread in threading.enumerate()) == 1
    free.set()
    cache.sink.wait(10)


def test_a_crash_of_ours_costs_no_round_and_is_said(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_stamp, "read", lambda _: 1 / 0)
    with capture_logs() as logs:
        assert cache.send(launch()).startswith("our own fault: ZeroDivisionError")
    assert logs[0]["log_level"] == "error"


def test_reports_without_caches_write_nothing(cache: Cache) -> None:
    whole = cache.report(launch())
    bare = Report("gpu-1", "1.0", NOW, findings=whole.findings)
    odd = Report("gpu-1", "1.0", NOW, whole.readings, (
        Finding("CompileCacheStale", labels(target="qwen"), Verdict.OK,
                lambda: Argument("said", evidence={"ledger": "none"}), check="compile_cache"),
    ))  # fmt: skip
    for report in (bare, odd):
        assert list(fills_of(report.findings[0], report)) == []
    for report in (bare, odd, Report("gpu-1", "1.0", NOW, whole.readings)):
        cache.sink.send(report, 0.0)
        cache.sink.wait(10)
    assert cache.digests == []


def test_a_finding_is_read_only_when_its_files_were_looked_at(cache: Cache) -> None:
    read_at = []

    def argue() -> Argument:
        read_at.append(1)
        return Argument("said")

    for asked in (NOW, NOW, NOW, NOW + 300):
        report = cache.report(launch(), asked=asked)
        finding = Finding("CompileCacheStale", labels(target="qwen"), Verdict.OK, argue,
                          check="compile_cache")  # fmt: skip
        cache.sink.send(Report("gpu-1", "1.0", NOW, report.readings, (finding,)), 0.0)
    assert len(read_at) == 2
