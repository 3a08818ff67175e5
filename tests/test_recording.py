"""A recording is written without secrets and read back as it was."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.cache_trees import from_listing
from tests.hostile import HostileServer, answer
from tests.proc_tree import Proc, write
from watchdog.domain import series as s
from watchdog.errors import CommandError, NoAnswer, NotUnderstood
from watchdog.fetch import Access
from watchdog.gpu_recording import GpuRecorder
from watchdog.probes.compile_cache import CompileCache
from watchdog.probes.launch import Launch
from watchdog.probes.server_log import ServerLog
from watchdog.probes.vllm_metrics import VllmMetrics
from watchdog.probes.vllm_page import parse_page
from watchdog.recording import Recorder, Recording, Snapshot, capture
from watchdog.redaction import redactor_of
from watchdog.tree import Tree

FIXTURES = Path(__file__).parent / "probes" / "fixtures" / "vllm_metrics"
BODY = (FIXTURES / "g_draft_same_healthy_1_after_greedy.prom").read_bytes()
GOOD = b'vllm:prompt_tokens_total{engine="0",model_name="m"} 1\n'
NO_GPU = GpuRecorder([])
NOTHING_HIDDEN = Recorder(redactor_of([], [], []))


class Ticking:
    """A clock that a sleep moves."""

    def __init__(self, now=1_796_000_000.25):
        self.time = now

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        return False


def snapshot(folder, at="2026-11-30T03:12:16Z", target="qwen", **files):
    place = folder / "targets" / target
    place.mkdir(parents=True)
    if at is not None:
        (folder / "at").write_text(at)
    for name, body in files.items():
        (place / name.replace("_", ".")).write_bytes(body)


def test_two_snapshots_are_read_in_order_with_their_times(tmp_path):
    snapshot(tmp_path / "010", "2026-11-30T03:12:31.5Z\n", metrics_prom=BODY)
    snapshot(
        tmp_path / "9", "2026-11-30T04:12:16+01:00", metrics_prom=GOOD,
        version_json=b'{"version": "0.32.0"}', models_json=b'{"data": [{"id": "m"}]}',
    )  # fmt: skip
    (first, [one]), (second, [two]) = Recording(tmp_path).snapshots()
    assert (first, second) == (1796008336.0, 1796008351.5)
    assert one.samples == parse_page("qwen", GOOD.decode())[0]
    assert one.facts == {
        "format": "text", "version": "0.32.0", "models": [{"id": "m", "root": None}],
    }  # fmt: skip
    assert two.samples == parse_page("qwen", BODY.decode())[0]
    assert (one.probe, one.target, one.error, one.answered) == ("vllm_metrics", "qwen", None, True)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-30T03:12:16Z", 1796008336.0),
        ("2026-11-30t03:12:16z\n", 1796008336.0),
        ("2026-11-30 03:12:16.123456789Z", 1796008336.123456789),
        ("2026-11-29T22:12:16-05:00", 1796008336.0),
        ("2026-11-30T08:42:16.5+05:30", 1796008336.5),
    ],
)
def test_every_rfc_3339_time_is_read(tmp_path, text, at):
    snapshot(tmp_path / "0", text, metrics_prom=GOOD)
    ((found, _),) = Recording(tmp_path).snapshots()
    assert found == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "000/at is missing"),
        ("", "000/at holds no RFC 3339 time"),
        ("1796008336", "000/at holds no RFC 3339 time"),
        ("2026-11-30T03:12:16", "000/at holds no RFC 3339 time"),
        ("2026-13-30T03:12:16Z", "000/at holds a time that does not exist"),
        ("x" * 10**6, "000/at holds no RFC 3339 time"),
    ],
)
def test_a_time_that_is_missing_or_malformed_is_named(tmp_path, text, sentence):
    snapshot(tmp_path / "000", text, metrics_prom=GOOD)
    with pytest.raises(CommandError, match=sentence):
        list(Recording(tmp_path).snapshots())


@pytest.mark.parametrize("second", ["2026-11-30T03:12:15Z", "2026-11-30T03:12:16Z"])
def test_times_that_do_not_rise_are_refused(tmp_path, second):
    snapshot(tmp_path / "000", metrics_prom=GOOD)
    snapshot(tmp_path / "001", second, metrics_prom=GOOD)
    with pytest.raises(CommandError, match="001/at: not later"):
        list(Recording(tmp_path).snapshots())


def test_a_folder_without_snapshots_is_refused(tmp_path):
    (tmp_path / "targets").mkdir()
    with pytest.raises(CommandError, match="holds no snapshots"):
        Recording(tmp_path)
    with pytest.raises(CommandError, match="none: no such file"):
        Recording(tmp_path / "none")


def test_snapshots_are_read_one_by_one(tmp_path):
    snapshot(tmp_path / "000", metrics_prom=GOOD)
    snapshot(tmp_path / "001", "broken", metrics_prom=GOOD)
    snapshots = Recording(tmp_path).snapshots()
    assert next(snapshots)[0] == 1796008336.0
    with pytest.raises(CommandError, match="001/at"):
        next(snapshots)


def test_a_snapshot_of_other_sources_has_no_reading(tmp_path):
    (tmp_path / "000").mkdir()
    (tmp_path / "000" / "at").write_text("2026-11-30T03:12:16Z")
    snapshot(tmp_path / "001", "2026-11-30T03:12:17Z")
    assert [readings for _, readings in Recording(tmp_path).snapshots()] == [[], []]


def test_a_page_that_is_none_is_an_error_that_was_answered(tmp_path):
    snapshot(tmp_path / "000", metrics_prom=b"<html>")
    snapshot(tmp_path / "001", "2026-11-30T03:12:17Z", metrics_prom=b"\xff\n")
    snapshot(tmp_path / "002", "2026-11-30T03:12:18Z", metrics_prom=GOOD * (2**18))
    errors = [readings[0] for _, readings in Recording(tmp_path).snapshots()]
    assert [reading.answered for reading in errors] == [True] * 3
    assert "page of qwen is an HTML page" in errors[0].error
    assert "not UTF-8" in errors[1].error
    assert "longer than 8388608 bytes" in errors[2].error


def test_an_error_of_the_scrape_is_read_as_silence(tmp_path):
    snapshot(tmp_path / "000", metrics_error=b"connection refused\n")
    ((_, [reading]),) = Recording(tmp_path).snapshots()
    assert (reading.error, reading.answered) == ("connection refused", False)


def test_what_is_written_is_read_back(tmp_path):
    scrapes = {
        "qwen/a:1": {"metrics.prom": BODY, "version.json": b'{"version": "1"}'},
        "..": {"metrics.prom": GOOD},
        "silent": NoAnswer("nothing there"),
        "odd": NotUnderstood("odd answer"),
    }
    NOTHING_HIDDEN.write(tmp_path, 7, 1796008336.125, Snapshot(scrapes))
    ((at, readings),) = Recording(tmp_path).snapshots()
    assert at == 1796008336.125
    found = {reading.target: reading for reading in readings}
    assert found["qwen/a:1"].samples == parse_page("qwen/a:1", BODY.decode())[0]
    assert found["qwen/a:1"].facts["version"] == "1"
    assert found[".."].samples == parse_page("..", GOOD.decode())[0]
    assert (found["silent"].error, found["silent"].answered) == ("nothing there", False)
    assert (found["odd"].error, found["odd"].answered) == ("odd answer", True)
    assert Recording(tmp_path).targets() == ["..", "odd", "qwen/a:1", "silent"]
    assert [path.name for path in tmp_path.iterdir()] == ["007"]


def test_more_than_a_thousand_snapshots_keep_their_order(tmp_path):
    for index in (998, 999, 1000, 1001):
        one = Snapshot({"t": {"metrics.prom": GOOD}})
        NOTHING_HIDDEN.write(tmp_path, index, 1796008336.0 + index, one)
    assert len(list(Recording(tmp_path).snapshots())) == 4


def test_capture_records_rounds_that_replay(tmp_path):
    count = iter(range(100))

    def counts(visit):
        if visit.path == "/metrics":
            visit.send(answer(GOOD.replace(b"} 1", b"} %d" % next(count))))
        else:
            visit.send(answer(b"", "404 Not Found"))

    with HostileServer(counts) as server:
        probes = [VllmMetrics("t", server.url), object()]
        assert capture(probes, tmp_path / "new", NO_GPU, 3, 15.0, Ticking()) == 3
    found = [(at, readings[0]) for at, readings in Recording(tmp_path / "new").snapshots()]
    assert [at for at, _ in found] == [1796000000.25, 1796000015.25, 1796000030.25]
    assert [reading.samples[0].value for _, reading in found] == [0, 1, 2]


def test_a_server_that_is_down_is_recorded_too(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    assert capture([VllmMetrics("t", url)], tmp_path / "new", NO_GPU, 2, 1.0, Ticking()) == 0
    readings = [readings[0] for _, readings in Recording(tmp_path / "new").snapshots()]
    assert [reading.answered for reading in readings] == [False, False]
    assert "connection refused" in readings[0].error


def test_capture_does_not_write_into_a_folder_that_holds_something(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(CommandError, match="is not empty"):
        capture([], tmp_path, NO_GPU, 1, 1.0, Ticking())
    with pytest.raises(CommandError, match="cannot record into"):
        capture([], tmp_path / "mine", NO_GPU, 1, 1.0, Ticking())


def test_nothing_secret_reaches_the_disk(tmp_path):
    own = socket.gethostname()
    token = tmp_path / "token"
    token.write_text("t0psecret-token\n")
    page = (
        f'vllm:prompt_tokens_total{{engine="0",model_name="{own}/m"}} 1\n'
        f'vllm:cache_config_info{{path="http://me:pa55@{own}/x",auth="Bearer abcdefgh123"}} 1\n'
    ).encode()
    models = {"data": [{"id": "m", "root": f"//{own}/share", "key": "t0psecret-token"}]}

    def behaviour(visit):
        bodies = {"/metrics": page, "/v1/models": json.dumps(models).encode()}
        visit.send(answer(bodies.get(visit.path, b"{}")))

    folder = tmp_path / "new"
    with HostileServer(behaviour) as server:
        access = Access(bearer_token_file=token)
        probes = [
            VllmMetrics(f"{own}:8000", server.url, access),
            VllmMetrics("gpu-7.rack.example:8000", "http://gpu-7.rack.example.invalid:8000"),
        ]
        capture(probes, folder, NO_GPU, 1, 1.0, Ticking())
    written = "\n".join(
        str(path.relative_to(folder)) + (path.read_text() if path.is_file() else "")
        for path in folder.rglob("*")
    )
    for secret in (own, "t0psecret", "pa55", "abcdefgh123", "gpu-7"):
        assert secret.lower() not in written.lower(), secret
    assert "this-host/m" in written
    assert (folder / "000" / "targets" / "this-host:8000" / "metrics.prom").exists()
    assert "target-1" in written
    ((_, readings),) = Recording(folder).snapshots()
    assert {r.target: r.error is None for r in readings} == {
        "this-host:8000": True, "target-1.rack.example:8000": False,
    }  # fmt: skip


@pytest.mark.parametrize("host", ["vllm", "engine", "0", "1796008018", "total", "tiny"])
def test_a_host_with_the_name_of_a_series_does_not_spoil_the_page(host):
    redactor = redactor_of([host], [], [])
    samples, _ = parse_page("t", redactor.body(BODY).decode())
    plain, _ = parse_page("t", BODY.decode())
    assert [x[1:] for x in samples] == [x[1:] for x in plain]


def test_a_name_is_hidden_as_a_whole_word_alone():
    redactor = redactor_of(["gpu-1.lan"], ["http://10.0.0.5:8000", "http://127.0.0.1:1"], [])
    text = redactor.text(
        "gpu-1.lan GPU-1 gpu-11 gpu-1.lanx xgpu-1 10.0.0.5:8000 110.0.0.5 127.0.0.1"
    )
    assert (
        text == "this-host this-host gpu-11 this-host.lanx xgpu-1 target-1:8000 110.0.0.5 127.0.0.1"
    )


def test_keys_of_json_stay():
    redactor = redactor_of(["data"], [], [])
    assert redactor.body(b'{"data": ["data"]}') == b'{"data": ["this-host"]}'


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    snapshot(tmp_path / "000", metrics_prom=GOOD)
    page = tmp_path / "000" / "targets" / "qwen" / "metrics.prom"
    page.chmod(0)
    with pytest.raises(CommandError, match="metrics.prom: permission denied"):
        list(Recording(tmp_path).snapshots())


def test_a_directory_in_place_of_a_page_is_named(tmp_path):
    snapshot(tmp_path / "000")
    (tmp_path / "000/targets/qwen/metrics.prom").mkdir()
    with pytest.raises(CommandError, match="metrics.prom: "):
        list(Recording(tmp_path).snapshots())


def test_a_recording_of_the_real_captures_has_their_increase(tmp_path):
    for index in range(2):
        name = ("g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy")[index]
        body = (FIXTURES / f"{name}.prom").read_bytes()
        NOTHING_HIDDEN.write(
            tmp_path, index, 1796008100.0 + 72 * index, Snapshot({"t": {"metrics.prom": body}})
        )
    drafts = [
        {x.series: x.value for x in readings[0].samples}[s.DRAFTS]
        for _, readings in Recording(tmp_path).snapshots()
    ]
    assert drafts[1] - drafts[0] == 6392


def serving(proc, **variables):
    """A server in a made-up /proc that listens on port 8000."""
    write(proc.root / "stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 9\n")
    proc.add(10, ["vllm", "serve", "/nowhere", "--port", "8000"], opens=[("socket:[42]", "")])
    proc.listen(8000, 42)
    told = {"HOME": "/nowhere", "USER": "svc", "TMPDIR": "/nowhere", **variables}
    write(proc.root / "10/environ", "".join(f"{name}={value}\0" for name, value in told.items()))


def test_the_compile_cache_of_a_server_is_recorded_and_replayed(tmp_path):
    own = socket.gethostname()
    root = from_listing(tmp_path / own / "vllm", "listing_mode3.txt")
    proc = Proc(tmp_path / "proc")
    serving(proc, VLLM_CACHE_ROOT=str(root), HF_TOKEN="t0psecret", TRITON_CACHE_DIR=f"/{own}/t")
    probes = [
        VllmMetrics("qwen/a", "http://127.0.0.1:1"),
        Launch("qwen/a", "http://127.0.0.1:8000", Tree(tmp_path / "no-sys"), proc.root),
        CompileCache("qwen/a", None, proc.root),
    ]
    with HostileServer(lambda visit: visit.send(answer(GOOD))) as server:
        probes[0] = VllmMetrics("qwen/a", server.url)
        capture(probes, tmp_path / "new", NO_GPU, 2, 15.0, Ticking())
    [file] = (tmp_path / "new/000/cache").iterdir()
    text = file.read_text()
    assert file.name == "qwen%2Fa.json"
    assert own not in text
    assert "t0psecret" not in text
    first, second = (
        {reading.probe: reading for reading in readings}
        for _, readings in Recording(tmp_path / "new").snapshots()
    )
    found = first["compile_cache"]
    assert (found.target, found.error) == ("qwen/a", None)
    places = {one["kind"]: one for one in found.facts["cache"]["places"]}
    assert places["vllm"]["newest"] == 1_700_000_006.0
    assert places["triton"]["path"] == "/this-host/t"
    assert second["compile_cache"].facts == found.facts  # carried over, as in a daemon
    assert first["launch"].facts["launch"]["pid"] == 10


def test_a_compile_cache_that_hangs_is_missing_and_nothing_else(tmp_path, monkeypatch):
    proc = Proc(tmp_path / "proc")
    serving(proc)
    probes = [
        VllmMetrics("t", "http://127.0.0.1:1"),
        Launch("t", "http://127.0.0.1:8000", Tree(tmp_path / "no-sys"), proc.root),
        CompileCache("t", None, proc.root),
    ]
    free = threading.Event()
    monkeypatch.setattr("watchdog.probes.compile_cache.look", lambda *_: free.wait(30) and {})
    monkeypatch.setattr("watchdog.recording.CACHE_SECONDS", 0.1)
    with HostileServer(lambda visit: visit.send(answer(GOOD))) as server:
        probes[0] = VllmMetrics("t", server.url)
        assert capture(probes, tmp_path / "new", NO_GPU, 2, 15.0, Ticking()) == 2
    free.set()
    for _, readings in Recording(tmp_path / "new").snapshots():
        assert {reading.probe for reading in readings} == {"vllm_metrics", "launch"}


def test_a_disk_with_models_that_hangs_costs_the_launch_alone(tmp_path, monkeypatch):
    proc = Proc(tmp_path / "proc")
    serving(proc)
    free, began = threading.Event(), threading.Event()
    monkeypatch.setattr(
        "watchdog.launches.models_of", lambda *_: began.set() or (free.wait(30) and {})
    )
    monkeypatch.setattr("watchdog.recording.LAUNCH_SECONDS", 3.0)  # time for all before the models
    launch = Launch("t", "http://127.0.0.1:8000", Tree(tmp_path / "no-sys"), proc.root)
    with HostileServer(lambda visit: visit.send(answer(GOOD))) as server:
        probes = [VllmMetrics("t", server.url), launch]
        assert capture(probes, tmp_path / "new", NO_GPU, 2, 15.0, Ticking()) == 2
    assert began.is_set()
    free.set()
    for _, readings in Recording(tmp_path / "new").snapshots():
        assert {reading.probe for reading in readings} == {"vllm_metrics"}


def test_the_largest_environment_that_is_read_can_be_replayed(tmp_path):
    """A byte that is no UTF-8 has six characters in JSON."""
    environ = {f"VLLM_{i:03d}": "\ufffd" * 4000 for i in range(256)}
    launch = {"answered": True, "launch": {"environ": environ, "unread": {}}}
    NOTHING_HIDDEN.write(tmp_path, 0, 1.0, Snapshot({}, launches={"t": launch}))
    [(_, [found])] = Recording(tmp_path).snapshots()
    assert found.facts == launch


@pytest.mark.parametrize("body", ["[]", "{", '{"a": "' + "x" * 2**24 + '"}'])
def test_a_recorded_cache_that_is_no_object_is_named(tmp_path, body):
    snapshot(tmp_path / "000", metrics_prom=GOOD)
    (tmp_path / "000/cache").mkdir()
    (tmp_path / "000/cache/qwen.json").write_text(body)
    with pytest.raises(CommandError, match="cache/qwen.json: is no JSON"):
        list(Recording(tmp_path).snapshots())


def test_what_the_log_of_a_server_says_is_recorded_and_replayed(tmp_path):
    own = socket.gethostname()
    log = tmp_path / "vllm.log"
    log.write_text(
        f"INFO 11-30 03:36:27 [x.py:1] vLLM API server version 0.10.1\n"
        f"INFO 11-30 03:36:27 [x.py:1] non-default args: {{'api_key': 't0psecret'}}\n"
        f"INFO 11-30 03:36:27 [x.py:1] Using cache directory: /{own}/c for vLLM's torch.compile\n"
    )
    with HostileServer(lambda visit: visit.send(answer(GOOD))) as server:
        launch = Launch("qwen/a", server.url, Tree(tmp_path / "no-sys"), tmp_path / "no-proc")
        probes = [VllmMetrics("qwen/a", server.url), launch, ServerLog("qwen/a", log)]
        capture(probes, tmp_path / "new", NO_GPU, 2, 15.0, Ticking())
    [file] = (tmp_path / "new/000/log").iterdir()
    assert file.name == "qwen%2Fa.json"
    assert "t0psecret" not in file.read_text()
    assert own not in file.read_text()
    first, second = (
        {reading.probe: reading for reading in readings}
        for _, readings in Recording(tmp_path / "new").snapshots()
    )
    found = first["server_log"]
    assert (found.target, found.error) == ("qwen/a", None)
    assert found.facts["log"]["directories"] == ["/this-host/c"]
    assert set(found.facts) == {"log"}
    assert second["server_log"].facts == found.facts


def test_a_log_that_could_not_be_read_is_recorded_with_the_reason(tmp_path):
    with HostileServer(lambda visit: visit.send(answer(GOOD))) as server:
        launch = Launch("t", server.url, Tree(tmp_path / "no-sys"), tmp_path / "no-proc")
        probes = [VllmMetrics("t", server.url), launch, ServerLog("t", tmp_path / "none")]
        capture(probes, tmp_path / "new", NO_GPU, 1, 15.0, Ticking())
    [(_, readings)] = Recording(tmp_path / "new").snapshots()
    [found] = [reading for reading in readings if reading.probe == "server_log"]
    assert found.facts["log_unknown"].endswith("none is not there")
