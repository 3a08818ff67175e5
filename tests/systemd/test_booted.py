"""The service as shipped, installed and run by a real systemd: from READY to a clean stop."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.bench_tree import seeds_bench
from tests.serving import Served, repeated
from tests.systemd.booted import Host
from tests.systemd.conftest import Installed

UNIT = "serving-watchdog.service"
CONFIG = "/etc/serving-watchdog/config.yaml"
STATE = "/var/lib/serving-watchdog"
DROP_INS = f"/etc/systemd/system/{UNIT}.d"
PORT = 19590
HEALTHY = ("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy")
OTHER = 2001  # a user id
SYS_PTRACE, DAC_READ_SEARCH = 1 << 19, 1 << 2


def get(host: Host, path: str) -> str:
    def ask() -> str:
        with closing(HTTPConnection("127.0.0.1", PORT, timeout=5)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()

    return host.inside(ask)


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except (OSError, HTTPException, ValueError):  # not there yet, or half written
            pass
        time.sleep(0.1)
    pytest.fail(f"did not come true in {seconds} s")


def report(host: Host) -> dict[str, Any]:
    return dict(json.loads(get(host, "/api/v1/report")))


def said(host: Host, words: str) -> list[dict[str, Any]]:
    return [line for line in host.journal(UNIT) if words in line["MESSAGE"]]


def configure(host: Host, *lines: str) -> None:
    text = "\n".join([*lines, "interval: 1s", ""])
    host.path(CONFIG).write_text(text)  # the mode and the owner are the installer's


@contextmanager
def dropped_in(host: Host, *lines: str) -> Iterator[None]:
    """Change the unit for a while, and start it so."""
    file = host.path(f"{DROP_INS}/test.conf")
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(["[Service]", *lines, ""]))
    host.ok("systemctl", "daemon-reload")
    host.ok("systemctl", "restart", UNIT)
    try:
        yield
    finally:
        file.unlink()
        host.ok("systemctl", "daemon-reload")


@pytest.fixture(scope="module")
def vllm(installed: Installed) -> Iterator[Served]:
    """A server in the host, with a recording of a healthy drafter that goes on for two minutes."""
    server = installed.host.inside(lambda: Served(repeated(*HEALTHY, 120)))
    yield server
    server.close()


@pytest.fixture
def host(installed: Installed, vllm: Served) -> Iterator[Host]:
    """The host, with the service configured to watch that server; started by the test."""
    host = installed.host
    configure(host, f"targets: [{{url: '{vllm.url}', name: tiny}}]")
    yield host
    for line in host.journal(UNIT)[-30:]:
        sys.stdout.write(f"{line['MESSAGE']}\n")  # shown where the test fails


def restart(host: Host) -> dict[str, str]:
    """Start the service anew; its properties."""
    host.ok("systemctl", "restart", UNIT)
    return host.shows(UNIT)


def test_it_is_started_when_it_has_said_ready_and_judges_what_it_watches(host: Host) -> None:
    shown = restart(host)
    # that has come back, so the port answers at once and nothing is polled for
    assert "watchdog_build_info" in get(host, "/metrics")
    assert (shown["Type"], shown["ActiveState"], shown["SubState"]) == (
        "notify",
        "active",
        "running",
    )

    def findings() -> list[dict[str, Any]]:
        return [f for f in report(host).get("findings", ()) if f["check"] == "acceptance_length"]

    until(lambda: findings() and findings()[0]["conclusive"])
    assert findings()[0]["verdict"] == "OK"
    assert findings()[0]["value"] > 2


def test_it_runs_as_its_own_user_and_owns_its_state(host: Host) -> None:
    pid = restart(host)["MainPID"]
    user = host.ok("id", "-u", "serving-watchdog").strip()
    assert host.ok("ps", "-o", "uid=", "-p", pid).strip() == user
    state = host.path(STATE).stat()
    assert (str(state.st_uid), state.st_mode & 0o777) == (user, 0o750)


def test_a_reload_takes_a_good_file_and_keeps_the_old_one_for_a_bad(
    host: Host, vllm: Served
) -> None:
    pid = restart(host)["MainPID"]
    configure(host, f"targets: [{{url: '{vllm.url}', name: renamed}}]")
    host.ok("systemctl", "reload", UNIT)
    until(lambda: "renamed" in get(host, "/api/v1/report"))

    configure(host, "targets: 7")
    host.ok("systemctl", "reload", UNIT)
    until(lambda: said(host, "config.yaml:1:"))
    assert "watchdog_config_last_reload_successful 0" in get(host, "/metrics")
    until(lambda: "renamed" in get(host, "/api/v1/report"))
    shown = host.shows(UNIT)
    assert (shown["MainPID"], shown["ActiveState"]) == (pid, "active")

    # lines have priorities: this one is an error, the start is information
    assert {line["PRIORITY"] for line in said(host, "config.yaml:1:")} == {"3"}
    assert {line["PRIORITY"] for line in said(host, '"watching"')} == {"6"}


def test_a_stop_is_clean_and_quick(host: Host) -> None:
    ended = f"/bin/sh -c 'echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS >{STATE}/ended'"
    with dropped_in(host, f"ExecStopPost={ended}"):
        began = time.monotonic()
        host.ok("systemctl", "stop", UNIT)
        assert time.monotonic() - began < 10
    assert host.path(f"{STATE}/ended").read_text() == "success exited 0\n"


def test_a_process_that_stands_still_is_replaced(host: Host) -> None:
    with dropped_in(host, "WatchdogSec=3", "RestartSec=1"):
        before = host.shows(UNIT)
        host.ok("kill", "-STOP", before["MainPID"])
        until(lambda: int(host.shows(UNIT)["NRestarts"]) == 1)
        until(lambda: report(host).get("verdict") == "OK")
        assert host.shows(UNIT)["MainPID"] != before["MainPID"]
        assert said(host, "Failed with result 'watchdog'")


def test_a_daemon_whose_rounds_hang_is_replaced_while_its_loop_still_turns(
    host: Host,
) -> None:
    host.ok("systemctl", "stop", UNIT)
    image = "/tmp/state.img"
    host.ok("truncate", "--size=64M", image)
    host.ok("mkfs.ext4", "-q", image)
    mounted = host.run("mount", "-o", "loop", image, STATE)
    if mounted.returncode:
        pytest.skip(f"no loop devices here: {mounted.stderr.strip()}")
    try:
        with dropped_in(host, "WatchdogSec=3", "RestartSec=1"):
            until(lambda: report(host).get("verdict") == "OK")
            pid = host.shows(UNIT)["MainPID"]
            # The disk of the state stands still, and so do rounds, which keep their outcome there.
            host.ok("fsfreeze", "--freeze", STATE)
            try:
                until(lambda: host.shows(UNIT)["Result"] == "watchdog", 120)
                # its main thread was alive, and says where each thread hung
                until(lambda: said(host, "in _supervise") and said(host, "/store.py"))
            finally:
                host.ok("fsfreeze", "--unfreeze", STATE)
            until(lambda: int(host.shows(UNIT)["NRestarts"]) >= 1)
            until(lambda: report(host).get("verdict") == "OK")
            assert host.shows(UNIT)["MainPID"] != pid
    finally:
        host.ok("systemctl", "stop", UNIT)
        host.ok("umount", STATE)


def test_a_secret_of_loadcredential_reaches_the_server_it_is_for(host: Host) -> None:
    asked: list[str] = []

    class Guarded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization", ""))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = host.inside(lambda: ThreadingHTTPServer(("127.0.0.1", 0), Guarded))
    threading.Thread(target=server.serve_forever, args=(0.05,)).start()
    secret = host.path("/etc/serving-watchdog/credentials/vllm.token")
    secret.write_text("of-root-alone\n")
    secret.chmod(0o600)
    configure(
        host,
        f"targets: [{{url: 'http://127.0.0.1:{server.server_port}', name: guarded, "
        "bearer_token_file: $CREDENTIALS_DIRECTORY/vllm.token}]",
    )
    try:
        with dropped_in(
            host, f"LoadCredential=vllm.token:/etc/serving-watchdog/credentials/{secret.name}"
        ):
            until(lambda: "Bearer of-root-alone" in asked)
    finally:
        server.shutdown()
        server.server_close()


def test_the_hardened_unit_reads_a_tree_of_gpus(host: Host, tmp_path: Path) -> None:
    bench = seeds_bench(tmp_path / "sys")
    bench["09:00.0"].errors("0000:00:03.0", "correctable", BadTLP=7)
    shutil.copytree(bench.root, host.path("/srv/gpus"), symlinks=True)
    slots = '{"0000:05:00.0": {generation: 3, width: 16}}'
    configure(host, "targets: []", f"gpus: {{sysfs: /srv/gpus, slots: {slots}}}")
    restart(host)
    link = 'watchdog_gpu_link_width_lanes{gpu="0000:05:00.0",slot="0000:00:02.0"} 16.0'
    until(lambda: link in get(host, "/metrics"))
    until(lambda: 'error="BadTLP"' in get(host, "/metrics"))


@pytest.fixture
def seen(host: Host) -> Iterator[Callable[..., dict[str, Any]]]:
    """What the unit itself sees and may do, started with some drop-in lines."""
    for name, mode in (("open", 0o755), ("closed", 0o700)):
        home = host.path(f"/home/{name}")
        home.joinpath(".cache/vllm").mkdir(parents=True, exist_ok=True)
        home.joinpath(".cache/vllm/key").write_text("of a compile cache")
        home.chmod(mode)
    host.ok("chown", "-R", str(OTHER), "/home/open", "/home/closed")
    cache = host.path("/tmp/torchinductor_vllm")
    cache.mkdir(exist_ok=True)
    cache.joinpath("key").write_text("of another")
    # two real devices of this machine, one under the name of a GPU's
    for node, minor in (("/dev/kfd", "229"), ("/dev/other", "234")):
        if not host.path(node).exists():
            host.ok("mknod", "-m", "666", node, "c", "10", minor)
    look = Path(__file__).with_name("look.py")
    shutil.copy(look, host.path("/srv/look.py"))
    sleeps = ("setpriv", f"--reuid={OTHER}", "--clear-groups", "sleep", "1000")
    host.ok("systemd-run", "--quiet", "--unit=other", *sleeps)
    other = host.shows("other.service")["MainPID"]
    python = "/opt/serving-watchdog/current/bin/python"

    def look_from(*lines: str) -> dict[str, Any]:
        start = f"ExecStartPost={python} /srv/look.py {other}"
        with dropped_in(host, start, *lines):
            return dict(json.loads(host.path(f"{STATE}/seen.json").read_text()))

    yield look_from
    host.ok("systemctl", "stop", "other.service")


def test_the_sandbox_shows_what_is_needed_and_closes_the_rest(
    host: Host, seen: Callable[..., dict[str, Any]]
) -> None:
    saw = seen()
    groups = {
        host.ok("getent", "group", name).split(":")[2]
        for name in ("video", "render", "systemd-journal")
    }
    assert groups <= {str(group) for group in saw.pop("groups")}
    assert saw.pop("uid") == int(host.ok("id", "-u", "serving-watchdog"))
    assert saw == {
        "capabilities": "0000000000000000",
        "command line of another": "sleep",
        "owner of another": OTHER,
        "environment of another": "PermissionError",
        "open home": True,
        "closed home": "PermissionError",
        "tmp": True,
        "sys": True,
        "memory": True,
        "gpu node": True,
        "other node": "PermissionError",
        "write state": True,
        "write etc": "Read-only file system",
        "write tmp": "Read-only file system",
        "write home": "Read-only file system",
        "executable memory": "PermissionError",
        "call back": True,
    }


def test_the_drop_in_gives_the_two_capabilities_and_what_they_buy(
    host: Host, seen: Callable[..., dict[str, Any]]
) -> None:
    drop_in = host.path(f"{DROP_INS}/more-sight.conf")
    drop_in.parent.mkdir(exist_ok=True)
    shutil.copy(host.path("/opt/serving-watchdog/share/more-sight.conf"), drop_in)
    try:
        saw = seen()
    finally:
        drop_in.unlink()
    assert int(saw["capabilities"], 16) == SYS_PTRACE | DAC_READ_SEARCH
    assert (saw["environment of another"], saw["closed home"]) == (True, True)
    assert saw["write etc"] == "Read-only file system"
