from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

from watchdog.clock import Clock
from watchdog.demo.server import SimulatedServer
from watchdog.demo.simulation import BROKEN, HEALTHY, Life
from watchdog.domain import series as s
from watchdog.errors import NoAnswer
from watchdog.fetch import Fetcher
from watchdog.probes.vllm_metrics import VllmMetrics

EIGHT_MIB = 8 * 2**20


@pytest.fixture
def server():
    with contextlib.closing(SimulatedServer(Clock())) as server:
        yield server


def life(drafter=HEALTHY, age=600.0):
    now = time.time()
    return Life(now - age - 10, now - age, drafter)


def get(server, path):
    with contextlib.closing(Fetcher(server.url)) as fetcher:
        return fetcher.get(path, time.monotonic() + 10, EIGHT_MIB)


def read(server):
    with contextlib.closing(VllmMetrics("demo", server.url)) as probe:
        return probe.read({}, time.monotonic() + 10)


def test_our_probe_reads_page_version_and_model(server):
    served = life()
    server.serve(served)
    reading = read(server)
    assert reading.facts["version"] == "0.32.0"
    assert reading.facts["models"] == [{"id": "demo", "root": "/models/demo"}]
    assert reading.facts["process_start"] == served.started
    (drafts,) = (x.value for x in reading.samples if x.series == s.DRAFTS)
    assert drafts >= served.counters(served.ready + 600).drafts


def test_health_is_fine_whatever_the_drafter_does(server):
    server.serve(life(BROKEN))
    assert get(server, "/health").status == 200
    assert json.loads(get(server, "/version").body) == {"version": "0.32.0"}
    assert get(server, "/nothing").status == 404


def test_between_two_lives_the_port_refuses_and_stays_ours(server):
    server.serve(life())
    port = server.port
    server.stop()
    with pytest.raises(NoAnswer, match="refused"):
        get(server, "/health")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    server.serve(life(BROKEN, age=0.0))
    assert server.port == port
    assert get(server, "/health").status == 200


def test_a_relaunch_begins_anew(server):
    server.serve(life())
    before = read(server)
    server.stop()
    server.serve(life(age=0.0))
    after = read(server)

    def drafts(reading):
        return next(x.value for x in reading.samples if x.series == s.DRAFTS)

    assert drafts(after) < drafts(before)
    assert after.facts["process_start"] > before.facts["process_start"]


def test_stopping_twice_is_no_fault(server):
    server.serve(life())
    server.stop()
    server.stop()
