"""The last start in a log file: read from its end, bounded, and never laid to a younger process."""

from __future__ import annotations

import gzip
import io
import os
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.domain.test_start_lines import HIT, compiled, engine, head, info
from watchdog import start_log
from watchdog.regular_files import why
from watchdog.start_log import Found, of_stream, read

LATER = time.monotonic() + 1000.0
ACCESS = b'INFO:     127.0.0.1:47284 - "POST /v1/completions HTTP/1.1" 200 OK\n'
WRITTEN = datetime(2026, 9, 13, 2, 20, tzinfo=timezone.utc).timestamp()
"""When the logs of these tests were written last, whatever zone their dates are in."""


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    def made(*lines: str, behind: bytes = b"", before: bytes = b"") -> Path:
        path = tmp_path / "vllm.log"
        path.write_bytes(before + "".join(f"{line}\n" for line in lines).encode() + behind)
        os.utime(path, (WRITTEN, WRITTEN))
        return path

    return made


def test_the_last_start_of_a_file_is_told(log: Callable[..., Path]) -> None:
    path = log(head(), engine(), HIT, head(), engine(), compiled())
    found = read(path, LATER)
    assert (found.facts["compiled"], found.facts["hits"]) == (1, 0)
    assert (found.facts["path"], found.facts["cut"]) == (str(path), "")
    assert found.seen == (path.stat().st_ino, path.stat().st_size)


def test_a_last_line_without_an_end_counts(log: Callable[..., Path]) -> None:
    assert read(log(head(), engine(), behind=compiled().encode()), LATER).facts["compiled"] == 1


@pytest.mark.parametrize("mebibytes", [2, 20])
def test_a_start_far_before_the_end_is_found(log: Callable[..., Path], mebibytes: int) -> None:
    behind = ACCESS * ((mebibytes << 20) // len(ACCESS))
    path = log("radiance 0.9.3", head(), engine(), compiled(), behind=behind, before=ACCESS * 9000)
    facts = read(path, LATER).facts
    assert (facts["began"], facts["compiled"], facts["cut"]) == (True, 1, "")
    assert facts["components"] == {"radiance": "0.9.3"}


def test_a_start_without_the_servers_first_lines_is_looked_for_up_to_the_bound(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_log, "STEPS", (1 << 16, 1 << 18))
    path = log(engine(), compiled(), behind=ACCESS * 100, before=ACCESS * 9000)
    facts = read(path, LATER).facts
    assert (facts["began"], facts["compiled"], facts["cut"]) == (True, 1, "")


@pytest.mark.parametrize("first", ["radiance 0.9.3", head()])
def test_what_stands_just_before_the_part_that_is_read_first_is_not_missed(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A banner before the server's first line, and the first line before a late engine's."""
    lines = [head(), engine(), compiled()] if first != head() else [compiled(), engine()]
    end = "".join(f"{line}\n" for line in lines).encode() + ACCESS * 2000
    monkeypatch.setattr(start_log, "STEPS", (len(end), 1 << 20))
    facts = read(log(first, before=ACCESS * 2000, behind=end), LATER).facts
    whole = read(log(first, *lines), LATER).facts
    assert facts == whole
    assert facts["compiled"] == 1


def test_a_start_before_the_bound_is_said_to_be_beyond_it(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_log, "STEPS", (1 << 16, 1 << 20))
    path = log(head(), engine(), compiled(), behind=ACCESS * 20_000)
    facts = read(path, LATER).facts
    assert not facts["began"]
    assert facts["cut"] == "only the last 1 MiB were read"
    assert facts["compiled"] == 0


def test_a_whole_file_without_a_start_is_not_cut(log: Callable[..., Path]) -> None:
    facts = read(log(compiled(), behind=ACCESS), LATER).facts
    assert (facts["began"], facts["cut"]) == (False, "")


def test_what_there_was_no_time_for_is_said(log: Callable[..., Path]) -> None:
    facts = read(log(head(), engine(), compiled()), time.monotonic()).facts
    assert not facts["began"]
    assert facts["cut"] == "it could not be read in time"


def test_lines_across_blocks_are_whole(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(head(), engine(), *[compiled()] * 50)
    for size in (100, 333, 1000):
        monkeypatch.setattr(start_log, "BLOCK", size)
        assert read(path, LATER).facts["compiled"] == 50


def test_a_line_without_end_costs_no_memory_and_hides_nothing_behind_it(
    log: Callable[..., Path],
) -> None:
    path = log(head(), engine(), before=b"", behind=b"x" * 3_000_000 + b"\n" + HIT.encode() + b"\n")
    assert read(path, LATER).facts["hits"] == 1


def test_bytes_that_are_no_text_are_no_trouble(log: Callable[..., Path]) -> None:
    path = log(head(), engine(), behind=b"\xff\xfe\x00 torch.compile\n" + HIT.encode())
    assert read(path, LATER).facts["hits"] == 1


# --- what cannot be read -------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011  (the words are looked at)
        read(path, LATER)
    return why(caught.value)


def test_what_is_no_regular_file_is_refused_and_opens_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refused(tmp_path / "fifo") == "is no regular file"
    assert refused(Path("/dev/zero")) == "is no regular file"
    assert refused(tmp_path) == "is a directory"
    assert refused(tmp_path / "none") == "is not there"


def test_a_packed_log_is_said_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.1.gz"
    path.write_bytes(gzip.compress(b"x"))
    assert refused(path) == "is packed (gzip); name the file that the server writes now"


def test_a_log_that_is_truncated_while_it_is_read_ends_there(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(head(), engine(), behind=ACCESS * 10_000)
    pread = os.pread

    def truncating(descriptor: int, size: int, offset: int) -> bytes:
        if offset > 0:
            os.truncate(path, 0)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(start_log.os, "pread", truncating)
    assert read(path, LATER).facts["began"]


# --- a pipe --------------------------------------------------------------------------------------


def test_a_pipe_is_read_to_its_end() -> None:
    lines = [head(), engine(), HIT, head(), engine(), compiled(), compiled()]
    text = "".join(f"{line}\n" for line in lines)
    facts = of_stream(io.BytesIO(text.encode())).facts
    assert (facts["path"], facts["compiled"], facts["hits"], facts["cut"]) == ("-", 2, 0, "")


def test_a_pipe_without_end_is_cut_and_said() -> None:
    facts = of_stream(io.BytesIO(ACCESS * 40_000), most=1 << 20).facts
    assert facts["cut"] == "only the first 1 MiB were read"


# --- whose start it is ---------------------------------------------------------------------------


def found(log: Callable[..., Path], begun: str, last: str) -> Found:
    return read(log(head(at=begun), info("Route", at=last)), LATER)


def test_a_file_that_was_not_written_since_tells_nothing_of_a_process(
    log: Callable[..., Path],
) -> None:
    told = read(log("non-default args: {}"), LATER)
    assert told.older_than(WRITTEN + 59) == ""
    assert told.older_than(WRITTEN + 61) == "nothing was written to it since the process began"


@pytest.mark.parametrize("zone", [0, -7, 9])
def test_a_start_that_is_older_than_the_process_is_told_whatever_its_zone(
    log: Callable[..., Path], zone: int
) -> None:
    day, hour = 13 + (2 + zone) // 24, (2 + zone) % 24
    date = f"09-{day:02} {hour:02}"
    told = found(log, f"{date}:05:00", f"{date}:20:00")
    assert told.older_than(WRITTEN - 900 + 59) == ""
    assert told.older_than(WRITTEN - 900 + 61) == "the last start in it is older than the process"


def test_over_a_change_to_summer_time_an_hour_more_is_allowed(log: Callable[..., Path]) -> None:
    day = found(log, "09-12 02:20:00", "09-13 02:20:00")
    assert day.older_than(WRITTEN - 86_400 + 3600 + 59) == ""
    assert day.older_than(WRITTEN - 86_400 + 3600 + 61) != ""


def test_a_year_may_end_between_start_and_last_line(log: Callable[..., Path]) -> None:
    told = found(log, "12-31 23:59:00", "01-01 00:01:00")
    assert told.older_than(WRITTEN - 120) == ""
    assert told.older_than(WRITTEN) != ""


def test_lines_out_of_order_are_no_year_apart(log: Callable[..., Path]) -> None:
    assert found(log, "09-13 02:20:01", "09-13 02:20:00").older_than(WRITTEN - 5) == ""


def test_a_start_that_tells_its_zone_is_taken_at_its_word(log: Callable[..., Path]) -> None:
    told = read(log(f"2026-09-13T04:10:00.5+02:00 gpu-1 vllm[1]: {head()}"), LATER)
    begun = WRITTEN - 600
    assert told.older_than(begun + 59) == ""
    assert told.older_than(begun + 61) == "the last start in it is older than the process"


def test_the_docker_time_of_a_line_is_its_time(log: Callable[..., Path]) -> None:
    line = '{"log": "non-default args: {}\\n", "time": "2026-09-13T02:10:00.123456789Z"}'
    told = read(log(line), LATER)
    assert told.older_than(WRITTEN - 600 + 61) == "the last start in it is older than the process"
    assert told.older_than(WRITTEN - 600) == ""


def test_a_start_whose_time_is_not_told_may_be_of_any_process(log: Callable[..., Path]) -> None:
    assert read(log("non-default args: {}"), LATER).older_than(WRITTEN) == ""
