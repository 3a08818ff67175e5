"""A server that means ill neither hangs, nor grows, nor fools a reading."""

from __future__ import annotations

import gc
import math
import threading
import time
import tracemalloc

import pytest

from tests import hostile
from tests.hostile import HostileServer, answer, others_than, says
from watchdog.errors import NoAnswer, NotUnderstood, ProbeError
from watchdog.fetch import Fetcher
from watchdog.probes import vllm_page
from watchdog.probes.vllm_metrics import VllmMetrics

SECONDS = 0.5
LATE = 1.0
"""Seconds beyond the deadline that a busy machine may need."""
MEGABYTE = 2**20


class Cost:
    """Seconds and bytes at the peak of what ran inside, the server's own aside."""

    seconds = math.inf
    peak = math.inf

    def __enter__(self) -> Cost:
        gc.collect()
        self._threads = set(others_than("hostile"))
        tracemalloc.start()
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert set(others_than("hostile")) <= self._threads, "a thread was left behind"


def read(url, seconds=SECONDS, known=None, **kwargs):
    probe = VllmMetrics("t", url, **kwargs)
    return probe.read(known or {}, time.monotonic() + seconds)


@pytest.mark.parametrize(
    "behaviour",
    [
        hostile.drips_bytes,
        hostile.drips_headers,
        hostile.drips_continues,
        hostile.never_ends_slowly,
        hostile.says_nothing,
    ],
)
def test_what_never_ends_is_given_up_at_the_deadline(behaviour):
    with HostileServer(behaviour) as server, Cost() as cost:
        with pytest.raises(NoAnswer, match=r"before the deadline of 0\.5 s"):
            read(server.url)
    assert SECONDS * 0.9 <= cost.seconds < SECONDS + LATE
    assert cost.peak < 4 * MEGABYTE


@pytest.mark.parametrize("behaviour", [hostile.never_ends, hostile.a_gigabyte])
def test_a_body_beyond_the_limit_is_left_where_the_limit_is(behaviour):
    with HostileServer(behaviour) as server, Cost() as cost:
        with pytest.raises(NotUnderstood, match="sent more than 1048576 bytes"):
            read(server.url, seconds=10, limit=MEGABYTE)
    assert cost.seconds < 5
    assert cost.peak < 4 * MEGABYTE


@pytest.mark.parametrize("behaviour", [hostile.floods_continues, hostile.trailers_for_ever])
def test_headers_without_end_are_left_long_before_the_deadline(behaviour):
    with HostileServer(behaviour) as server, Cost() as cost:
        with pytest.raises(NotUnderstood, match="bytes, headers included"):
            read(server.url, seconds=60, limit=100_000)
    assert cost.seconds < 20
    assert cost.peak < 4 * MEGABYTE


def test_a_body_announced_beyond_the_limit_is_not_read_at_all():
    with HostileServer(hostile.announces_a_gigabyte) as server, Cost() as cost:
        with pytest.raises(NotUnderstood, match="announced 1073741824 bytes"):
            read(server.url, seconds=10)
    assert cost.seconds < 2
    assert cost.peak < 2 * MEGABYTE


@pytest.mark.parametrize("length", ["-1", "abc", "1e3", "9" * 400, "12, 13"])
def test_a_length_that_is_none_is_not_understood(length):
    def says_length(visit):
        visit.send(hostile.HEAD + f"Content-Length: {length}\r\n\r\nvllm:x 1\n".encode())

    with HostileServer(says_length) as server, Cost() as cost, pytest.raises(ProbeError):
        read(server.url)
    assert cost.seconds < SECONDS + LATE


def test_a_body_shorter_than_announced_is_not_understood():
    body = page(drafts=1)
    with HostileServer(says(body, length=len(body) + 5)) as server:
        with pytest.raises(NotUnderstood, match="was cut"):
            read(server.url)


def test_a_chunked_body_that_stops_early_is_not_understood():
    def stops(visit):
        visit.send(hostile.HEAD + b"Transfer-Encoding: chunked\r\n\r\n40\r\nvllm:x 1\n")

    with HostileServer(stops) as server, pytest.raises(NotUnderstood, match="was cut"):
        read(server.url)


def test_a_body_cut_in_the_middle_of_a_number_is_not_understood():
    def cut(visit):
        visit.send(hostile.HEAD + b"\r\n" + page(drafts=123456789)[:-5])

    with HostileServer(cut) as server, pytest.raises(NotUnderstood, match="middle of a line"):
        read(server.url)


def test_a_gzip_bomb_is_not_unpacked():
    hostile.bomb()
    with HostileServer(hostile.gzip_bomb) as server, Cost() as cost:
        with pytest.raises(NotUnderstood, match="'gzip' compression, unasked"):
            read(server.url, seconds=5)
    assert cost.seconds < 3
    assert cost.peak < 2 * MEGABYTE


def test_a_redirect_loop_ends():
    with HostileServer(hostile.redirects_for_ever) as server, Cost() as cost:
        with pytest.raises(NotUnderstood, match="redirects more than 3 times"):
            read(server.url)
    assert cost.seconds < SECONDS + LATE


def test_a_redirect_to_another_host_is_not_followed():
    with HostileServer(says(page(drafts=1))) as other:
        moved = says(b"", status="307 Temporary Redirect", Location=f"{other.url}/metrics")
        with HostileServer(moved) as server:
            with pytest.raises(NotUnderstood, match="redirects to another server"):
                read(server.url)
        assert not other.visits


@pytest.mark.parametrize(
    "value",
    ["abc", "NaN", "nan", "+Inf", "-Inf", "-1", "-0.5", "1e308", "9007199254740994", "1_000",
     "0x10", "\u0663", "", "1 2 3", "--1"],
)  # fmt: skip
def test_a_value_that_is_no_count_is_not_understood(value):
    body = page(drafts=1) + f'vllm:prompt_tokens_total{{engine="0"}} {value}\n'.encode()
    with HostileServer(says(body)) as server:
        with pytest.raises(NotUnderstood, match="prompt_tokens_total") as caught:
            read(server.url)
    assert len(str(caught.value)) < 500


def test_ten_thousand_engines_are_too_many():
    names = ("spec_decode_num_drafts_total", "generation_tokens_total", "prompt_tokens_total")
    lines = [
        f'vllm:{name}{{engine="{engine}",model_name="m"}} 1\n'
        for engine in range(10_000)
        for name in names
    ]
    with HostileServer(says("".join(lines).encode())) as server:
        with Cost() as cost, pytest.raises(NotUnderstood, match="more than 512 engines"):
            read(server.url, seconds=10)
    assert cost.seconds < 5
    assert cost.peak < 64 * MEGABYTE


def test_a_hundred_thousand_series_of_one_engine_are_too_many():
    lines = [
        f'vllm:request_success_total{{engine="0",finished_reason="{i}"}} 1\n' for i in range(10**5)
    ]
    with HostileServer(says("".join(lines).encode())) as server:
        with Cost() as cost, pytest.raises(NotUnderstood, match="more than 8192 series"):
            read(server.url, seconds=10)
    assert cost.seconds < 10
    assert cost.peak < 100 * MEGABYTE


def test_pages_of_ever_new_series_do_not_grow_the_process():
    """What is remembered of a page is bounded: here by count, elsewhere by length."""
    counter = iter(range(10**6))

    def fresh(visit):
        base = next(counter) * 400
        line = 'vllm:prompt_tokens_total{{engine="{}",model_name="m"}} 1\n'.format
        visit.send(answer("".join(line(base + i) for i in range(400)).encode()))

    with HostileServer(fresh) as server:
        probe = VllmMetrics("t", server.url)
        for _ in range(25):
            probe.read({"version": "1", "models": []}, time.monotonic() + 10)
    info = vllm_page._head.cache_info()
    assert info.currsize == info.maxsize == vllm_page.MOST_LINES


def test_a_line_of_megabytes_is_refused_and_shown_short():
    body = b'vllm:prompt_tokens_total{engine="' + b"x" * 4 * MEGABYTE + b'"} 1\n'
    with HostileServer(says(body)) as server:
        with Cost() as cost, pytest.raises(NotUnderstood, match="1024 characters") as caught:
            read(server.url, seconds=10)
    assert cost.seconds < 5
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "line",
    [
        b'vllm:prompt_tokens_total{engine="' + b"\\" * MEGABYTE + b"\n",
        b"vllm:prompt_tokens_total{" + b'a="",' * 200_000 + b"\n",
        b"vllm:prompt_tokens_total " + b" \t" * 500_000 + b"x\n",
        b"vllm:prompt_tokens_total 1 " + b"1 " * 500_000 + b"\n",
        b"{" * MEGABYTE + b"\n",
        b"[" * MEGABYTE + b"\n",
        b"<" * MEGABYTE,
        b"a" * MEGABYTE + b"\n",
        b"\n" * MEGABYTE,
        b" \n" * MEGABYTE,
        b"a{" * 500_000 + b"\n",
        b"\0" * MEGABYTE + b"\n",
        b"\xff\xfe" * 1000 + b"\n",
    ],
)
def test_no_line_makes_the_parser_slow(line):
    with HostileServer(says(line)) as server, Cost() as cost:
        with pytest.raises(NotUnderstood) as caught:
            read(server.url, seconds=10)
    assert cost.seconds < 4
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "behaviour",
    [
        hostile.says_nothing,
        hostile.drips_bytes,
        hostile.never_ends,
        hostile.redirects_for_ever,
        hostile.hangs_up,
        says(b"[" * 60_000),
        says(b'{"version": ' + b"9" * 60_000 + b"}"),
        says(b'{"version": {"a": []}, "data": {"id": 1}}'),
        says(b'{"version": "' + b"v" * 301 + b'", "data": [{"id": "' + b"m" * 301 + b'"}, 3]}'),
        says(b"{}", status="500 Internal Server Error"),
    ],
)
def test_odd_details_never_make_blind(behaviour):
    def metrics_are_well(visit):
        if visit.path == "/metrics":
            visit.send(answer(page(drafts=7)))
        else:
            behaviour(visit)

    with HostileServer(metrics_are_well) as server, Cost() as cost:
        reading = read(server.url, seconds=1.0)
    assert ("drafts", 7.0) in {(s.series, s.value) for s in reading.samples}
    assert "version" not in reading.facts
    assert "models" not in reading.facts
    assert cost.seconds < 1.0
    assert cost.peak < 8 * MEGABYTE


def test_a_stranger_is_read_on_the_next_round_after_it_was_given_up():
    """Nothing of a reading that was given up reaches the next one."""
    turn = iter([hostile.drips_bytes, hostile.says_nothing])

    def behaviour(visit):
        next(turn, says(page(drafts=9)))(visit)

    with HostileServer(behaviour) as server:
        probe = VllmMetrics("t", server.url)
        for _ in range(2):
            with pytest.raises(NoAnswer):
                probe.read({}, time.monotonic() + 0.2)
        assert probe.read({}, time.monotonic() + 5).samples


def test_closing_from_another_thread_ends_a_dripping_header():
    with HostileServer(hostile.drips_headers) as server:
        fetcher = Fetcher(server.url)
        timer = threading.Timer(0.3, fetcher.close)
        timer.start()
        began = time.monotonic()
        with pytest.raises(NoAnswer, match="given up"):
            fetcher.get("/metrics", time.monotonic() + 60, MEGABYTE)
        assert time.monotonic() - began < 0.3 + LATE
        timer.join()


def page(drafts: int) -> bytes:
    return f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}\n'.encode()
