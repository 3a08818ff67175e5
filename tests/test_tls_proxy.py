"""The shipped nginx configuration in a real nginx: TLS, who may ask for what, and slow clients."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.asking import Watched, clients_of, report, serving, until
from tests.binaries import find, installed
from tests.pieces.lab import CONFIG, alertmanager, prometheus, scrapes_over_tls, uncommented
from tests.sinks.lab import free_port
from watchdog.probes.inbox import TakeResult
from watchdog.server import Server

SHIPPED = Path(__file__).parents[1] / "config/proxy/nginx.conf"
USER = "Basic " + base64.b64encode(b"prometheus:correct horse").decode()
TOKEN = "a-token-of-Alertmanager"
ALERT = {
    "version": "4", "groupKey": "{}", "truncatedAlerts": 0, "status": "firing", "receiver": "us",
    "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "externalURL": "http://am",
    "alerts": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what openssl made: an authority, a host's certificate, a client's, a user."""
    folder = tmp_path_factory.mktemp("keys")

    def openssl(*words: str | Path) -> str:
        made = subprocess.run(
            [find("openssl"), *map(str, words)], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
        return made.stdout

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl("req", "-x509", *curve, "-subj", "/CN=ours", "-keyout", folder / "ca.key",
            "-out", folder / "ca.pem")  # fmt: skip
    for name, alternative in (("host", "DNS:gpu-1.test"), ("client", "DNS:prometheus.test")):
        openssl("req", "-x509", *curve, "-subj", f"/CN={name}", "-CA", folder / "ca.pem",
                "-CAkey", folder / "ca.key", "-addext", f"subjectAltName={alternative}",
                "-addext", "basicConstraints=critical,CA:FALSE",
                "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")  # fmt: skip
    (folder / "users").write_text(f"prometheus:{openssl('passwd', '-5', 'correct horse')}")
    return folder


def shipped(keys: Path, own: int, daemon: int) -> str:
    """Return the shipped file with our ports and paths in place of those it names."""
    text = SHIPPED.read_text()
    for told, ours in (
        ("listen 9590", f"listen 127.0.0.1:{own}"),
        ("127.0.0.1:19590", f"127.0.0.1:{daemon}"),
        ("/etc/nginx/tls/host.pem", f"{keys}/host.pem"),
        ("/etc/nginx/tls/host.key", f"{keys}/host.key"),
        ("/etc/nginx/tls/clients-ca.pem", f"{keys}/ca.pem"),
        ("/etc/nginx/serving-watchdog.users", f"{keys}/users"),
    ):
        assert told in text
        text = text.replace(told, ours)
    return text


@dataclass
class Proxy:
    port: int
    keys: Path
    folder: Path

    def context(self, *, certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.keys / "ca.pem"))
        if certificate:
            context.load_cert_chain(self.keys / "client.pem", self.keys / "client.key")
        return context

    def connected(self, *, certificate: bool = False) -> ssl.SSLSocket:
        """Connect and shake hands; the name in the host's certificate is verified."""
        raw = socket.create_connection(("127.0.0.1", self.port), 15)
        return self.context(certificate=certificate).wrap_socket(raw, server_hostname="gpu-1.test")

    def ask(
        self, method: str, path: str, body: str | None = None, *, certificate: bool = False,
        **headers: str,
    ) -> tuple[int, str]:  # fmt: skip
        with self.connected(certificate=certificate) as sealed:
            line = HTTPSConnection("gpu-1.test", timeout=15)
            line.sock = sealed
            line.request(method, path, body, {"Content-Type": "application/json", **headers})
            answer = line.getresponse()
            return answer.status, answer.read().decode()


@contextlib.contextmanager
def proxied(folder: Path, keys: Path, port: int, text: str) -> Iterator[Proxy]:
    """Run nginx in the foreground with this `server` and nothing of the machine's configuration."""
    folder.mkdir(exist_ok=True)
    root = "user root;" if os.geteuid() == 0 else ""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "server.conf").write_text(text)
    (folder / "nginx.conf").write_text(
        f"daemon off; {root} worker_processes 1; pid {folder}/pid; error_log stderr info;\n"
        f"events {{}}\n"
        f"http {{ access_log {folder}/access.log; {temporary}\ninclude {folder}/server.conf;\n}}\n"
    )
    command = [
        installed("nginx", package="nginx-light"),
        "-p",
        str(folder),
        "-e",
        "stderr",
        "-c",
        str(folder / "nginx.conf"),
    ]
    with (
        (folder / "log").open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out) as process,
    ):
        try:
            until(lambda: process.poll() is not None or listens(port))
            assert process.poll() is None, (folder / "log").read_text()
            yield Proxy(port, keys, folder)
        finally:
            process.terminate()
            process.wait(10)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    watched = Watched()
    watched.board.report = report()
    token = tmp_path / "token"
    token.write_text(TOKEN)
    watched.board.webhook_token_file = lambda: token
    return watched


@pytest.fixture
def server(watched: Watched) -> Iterator[Server]:
    with serving(watched.board) as server:
        yield server


@pytest.fixture
def proxy(server: Server, keys: Path, tmp_path: Path) -> Iterator[Proxy]:
    port = free_port()
    with proxied(tmp_path / "nginx", keys, port, shipped(keys, port, server.port)) as proxy:
        yield proxy


def test_who_knows_the_password_reads_over_tls(proxy):
    assert proxy.ask("GET", "/metrics", Authorization=USER)[0] == 200
    assert proxy.ask("HEAD", "/metrics", Authorization=USER)[0] == 200
    status, page = proxy.ask("GET", "/", Authorization=USER)
    assert (status, page[:15].lower()) == (200, "<!doctype html>")


def test_who_has_a_certificate_needs_no_password(proxy):
    assert proxy.ask("GET", "/metrics", certificate=True)[0] == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/report", "/-/healthy"])
def test_who_has_neither_reads_nothing(proxy, path):
    wrong = "Basic " + base64.b64encode(b"prometheus:wrong").decode()
    for headers in ({}, {"Authorization": wrong}, {"Authorization": f"Bearer {TOKEN}"}):
        status, body = proxy.ask("GET", path, **headers)
        assert status == 401
        assert "qwen" not in body


def test_plain_http_is_refused(proxy):
    with contextlib.closing(HTTPConnection("127.0.0.1", proxy.port, timeout=15)) as line:
        line.request("GET", "/metrics", headers={"Authorization": USER})
        assert line.getresponse().status == 400


def pause(proxy: Proxy) -> tuple[int, str]:
    asked = json.dumps({"target": "qwen", "seconds": 60})
    return proxy.ask("POST", "/api/v1/pause", asked, certificate=True)


def test_nobody_pauses_through_the_proxy(proxy, watched):
    assert pause(proxy)[0] == 403
    assert watched.pauses == {}


def test_the_daemon_itself_refuses_that_where_the_proxy_would_not(server, watched, keys, tmp_path):
    """The proxy is one lock, and what it says of its client is another."""
    port = free_port()
    text = shipped(keys, port, server.port)
    assert "limit_except GET { deny all; }" in text
    text = text.replace("limit_except GET { deny all; }", "")
    with proxied(tmp_path / "nginx", keys, port, text) as proxy:
        status, body = pause(proxy)
        assert (status, json.loads(body)["error"]) == (
            403, "only programs on this host may ask for that",
        )  # fmt: skip
        assert watched.pauses == {}


def test_alertmanager_posts_with_the_token_of_the_daemon_and_no_password(proxy, watched):
    taken = []
    watched.board.take = lambda payload: taken.append(payload) or TakeResult()
    body = json.dumps(ALERT)
    for headers in ({}, {"Authorization": USER}, {"Authorization": "Bearer wrong"}):
        assert proxy.ask("POST", "/webhook/alertmanager", body, **headers)[0] == 401
    assert taken == []
    status, _ = proxy.ask("POST", "/webhook/alertmanager", body, Authorization=f"Bearer {TOKEN}")
    assert (status, taken) == (200, [ALERT])


@pytest.mark.parametrize(("size", "status"), [(1024 * 1024, 200), (1024 * 1024 + 1, 413)])
def test_the_webhook_may_send_as_much_as_to_the_daemon(proxy, watched, size, status):
    watched.board.take = lambda payload: TakeResult(accepted=len(payload))
    body = json.dumps({"padding": "x" * (size - 15)})
    assert len(body) == size
    told = proxy.ask("POST", "/webhook/alertmanager", body, Authorization=f"Bearer {TOKEN}")
    assert told[0] == status


def test_the_password_goes_no_further_than_the_proxy(keys, tmp_path):
    """What reaches the daemon: its own name, whose request it is, and no password."""
    with socket.create_server(("127.0.0.1", 0)) as daemon:
        daemon.settimeout(15)
        own, port = daemon.getsockname()[1], free_port()
        with proxied(tmp_path / "nginx", keys, port, shipped(keys, port, own)) as proxy:
            with proxy.connected() as client:
                client.sendall(
                    f"GET /metrics HTTP/1.1\r\nHost: gpu-1.test\r\nAuthorization: {USER}\r\n"
                    "X-Forwarded-For: 127.0.0.1\r\n\r\n".encode()
                )
                told, _ = daemon.accept()
                with told:
                    request = told.recv(65536).decode().lower()
    assert f"host: 127.0.0.1:{own}\r\n" in request
    assert "authorization" not in request
    assert request.count("x-forwarded-for") == 1


def test_slow_clients_at_the_proxy_do_not_reach_us(proxy, server):
    """They hold open what they like there; here is not one connection for them."""
    with contextlib.ExitStack() as stack:
        for i in range(60):
            client = stack.enter_context(proxy.connected())
            client.sendall(
                b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-A: "
                if i % 2
                else b"POST /webhook/alertmanager HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
            )
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            assert clients_of(server) == 0
            time.sleep(0.02)
        assert proxy.ask("GET", "/metrics", Authorization=USER)[0] == 200


def test_a_slow_reader_at_the_proxy_is_no_slow_reader_here(proxy, server, watched):
    watched.board.report = report(padding=200_000)
    with proxy.connected() as client:
        client.sendall(
            f"GET /api/v1/report HTTP/1.1\r\nHost: x\r\nAuthorization: {USER}\r\n\r\n".encode()
        )
        assert client.recv(1) == b"H"
        until(lambda: clients_of(server) == 0, 5)


def placed(keys: Path, folder: Path, **settings: Any) -> dict[str, Any]:
    """The shipped settings of a client of the proxy, with our files in place of those it names."""
    (folder / "secret").write_text(TOKEN if "authorization" in settings else "correct horse")
    if "basic_auth" in settings:
        settings["basic_auth"]["password_file"] = str(folder / "secret")
    if "authorization" in settings:
        settings["authorization"]["credentials_file"] = str(folder / "secret")
    assert set(settings["tls_config"]) == {"ca_file"}
    settings["tls_config"] = {"ca_file": str(keys / "ca.pem"), "server_name": "gpu-1.test"}
    return settings


@pytest.mark.parametrize("way", ["password", "certificate"])
def test_prometheus_scrapes_us_through_tls_as_scrape_yml_says(proxy, keys, tmp_path, way):
    """The commented lines of the shipped job; only addresses and paths are ours."""
    jobs = yaml.safe_load(scrapes_over_tls())["scrape_configs"]
    (job,) = [job for job in jobs if job["job_name"] == "serving-watchdog"]
    assert job["static_configs"][0]["targets"] == ["gpu-1.example:9590"]
    job["static_configs"][0]["targets"] = [f"127.0.0.1:{proxy.port}"]
    job = placed(keys, tmp_path, **job) | {"scrape_interval": "1s", "scrape_timeout": "1s"}
    if way == "certificate":
        del job["basic_auth"]
        job["tls_config"] |= {
            "cert_file": str(keys / "client.pem"), "key_file": str(keys / "client.key"),
        }  # fmt: skip
    with prometheus(tmp_path / "prometheus", [job]) as scraper:
        until(lambda: scraper.value('up{job="serving-watchdog", host="gpu-1"}') == 1, 20)
        until(lambda: scraper.value("watchdog_acceptance_length") == 1.079, 20)


def test_alertmanager_tells_us_through_tls_as_its_shipped_receiver_says(
    proxy, watched, keys, tmp_path
):
    taken: list[Any] = []
    watched.board.take = lambda payload: taken.append(payload) or TakeResult()
    text = uncommented((CONFIG / "alertmanager/serving-watchdog.yml").read_text())
    config = yaml.safe_load(text)
    (receiver,) = [r for r in config["receivers"] if r["name"] == "serving-watchdog"]
    (hook,) = receiver["webhook_configs"]
    assert hook["url"].startswith("https://gpu-1.example:9590/")
    hook["url"] = hook["url"].replace("gpu-1.example:9590", f"127.0.0.1:{proxy.port}")
    hook["http_config"] = placed(keys, tmp_path, **hook["http_config"])
    with alertmanager(tmp_path / "alertmanager", config) as manager:
        manager.post({"alertname": "VllmDrafterDead", "host": "gpu-1"})
        until(lambda: taken, 20)
    assert taken[0]["receiver"] == "serving-watchdog"
    assert taken[0]["alerts"][0]["labels"]["alertname"] == "VllmDrafterDead"
