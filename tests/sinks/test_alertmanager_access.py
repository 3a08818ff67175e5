"""How we are let in: a real Alertmanager with a web config, and a stub for what a proxy asks."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sinks.alertmanagers import ALONE, SUITES, RealAlertmanager, program
from tests.sinks.lab import Hook, alert, report, until
from watchdog.fetch import Access
from watchdog.sinks.alertmanager import Alertmanager, AlertmanagerSink

WEB = """
tls_server_config:
  cert_file: {folder}/server.pem
  key_file: {folder}/server.key
  client_ca_file: {folder}/ca.pem
  client_auth_type: RequireAndVerifyClientCert
basic_auth_users: {{watchdog: {hashed}}}
"""
PASSWORD = "s3cret"
HASHED = "$2b$04$RCdqwquZtJakejTT7/QfzekXPYc2CcPYGY/MxlR9sI7PV1/.VxxaW"


def openssl(folder: Path, *arguments: str) -> None:
    made = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    """An authority, and what it signed for the server `am.test` and for us."""
    folder = tmp_path_factory.mktemp("keys")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        folder, "req", "-x509", *new, "-days", "2", "-subj", "/CN=ours",
        "-keyout", "ca.key", "-out", "ca.pem",
    )  # fmt: skip
    for name, extension in (
        ("server", "subjectAltName=DNS:am.test"),
        ("client", "extendedKeyUsage=clientAuth"),
    ):
        openssl(
            folder, "req", *new, "-subj", f"/CN={name}", "-keyout", f"{name}.key",
            "-out", f"{name}.csr",
        )  # fmt: skip
        (folder / "extension").write_text(extension)
        openssl(
            folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "extension", "-out", f"{name}.pem",
        )  # fmt: skip
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "wrong").write_text("guessed\n")
    (folder / "web.yml").write_text(WEB.format(folder=folder, hashed=HASHED))
    return folder


@pytest.fixture(scope="module", params=SUITES)
def closed(request, keys, tmp_path_factory) -> Iterator[RealAlertmanager]:
    """One that wants a certificate of ours and a password, below a prefix."""
    hook = Hook()
    folder = tmp_path_factory.mktemp("closed")
    options = (*ALONE, f"--web.config.file={keys / 'web.yml'}", "--web.route-prefix=/am")
    with RealAlertmanager(
        program(request.param), folder, hook, options, scheme="https", prefix="/am"
    ) as real:
        yield real
    hook.close()


def access(keys: Path, **other) -> Access:
    given = {
        "username": "watchdog",
        "password_file": keys / "password",
        "ca_file": keys / "ca.pem",
        "cert_file": keys / "client.pem",
        "key_file": keys / "client.key",
        "server_name": "am.test",
    }
    return Access(**{**given, **other})


def send(url: str, how: Access, *alerts):
    to = AlertmanagerSink((Alertmanager(url, how),))
    return to.send(report(time.time(), *alerts), time.monotonic() + 5)


def test_a_real_one_lets_us_in_by_certificate_and_password_below_its_prefix(closed, keys):
    """Nobody else may ask it, so what it notifies tells that it heard both."""
    now = time.time()
    to = AlertmanagerSink((Alertmanager(closed.url, access(keys)),))
    for end in (None, now):
        told = to.send(report(time.time(), alert(now - 9, end)), time.monotonic() + 5)
        assert [(d.ok, d.count) for d in told] == [(True, 1)]
        until(lambda end=end: len(closed.told("qwen")) == 1 + (end is not None))
    assert closed.told("qwen") == ["firing", "resolved"]


@pytest.mark.parametrize(
    ("other", "prefix", "said"),
    [
        ("wrong password", "/am", "answered 401"),
        ("no password", "/am", "answered 401"),
        ("no certificate", "/am", "failed"),
        ("other name", "/am", "TLS failed"),
        ("other authority", "/am", "TLS failed"),
        (None, "", "answered 404"),
    ],
)
def test_a_real_one_that_does_not_let_us_in_is_told_with_its_reason(
    closed, keys, other, prefix, said
):
    how = {
        "wrong password": {"password_file": keys / "wrong"},
        "no password": {"username": None, "password_file": None},
        "no certificate": {"cert_file": None, "key_file": None},
        "other name": {"server_name": "am.example"},
        "other authority": {"ca_file": None},
        None: {},
    }[other]
    url = closed.url.removesuffix("/am") + prefix
    (failed,) = send(url, access(keys, **how), alert(time.time(), target="never"))
    assert (failed.ok, failed.count) == (False, 1)
    assert said in failed.detail
    assert "guessed" not in failed.detail
    assert PASSWORD not in failed.detail


def test_a_token_is_sent_with_every_post_and_read_anew(hook, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    to = AlertmanagerSink((Alertmanager(hook.url, Access(bearer_token_file=token)),))
    to.send(report(1000.0, alert()), time.monotonic() + 5)
    token.write_text("second\n")
    to.send(report(1060.0, alert()), time.monotonic() + 5)
    assert hook.authorizations == ["Bearer first", "Bearer first", "Bearer second"]


@pytest.mark.parametrize("kind", ["token", "password"])
def test_a_secret_that_an_instance_repeats_is_not_told(hook, tmp_path, kind):
    hook.answer = lambda _: (401, f"bad {hook.authorizations[-1]} from me:{PASSWORD}".encode())
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    how = (
        Access(bearer_token_file=secret)
        if kind == "token"
        else Access(username="me", password_file=secret)
    )
    (failed,) = send(f"{hook.url}/hidden-prefix", how, alert())
    said = {"token": "bad Bearer ... from me:...", "password": "bad Basic ... from me:..."}[kind]
    assert failed.detail == f"answered 401 {said}"
    assert failed.instance == f"{hook.url}/..."


def test_a_prefix_that_an_instance_repeats_is_not_told(hook):
    hook.answer = lambda _: (404, b"nothing at /hidden-prefix/api/v2/alerts")
    (failed,) = send(f"{hook.url}/hidden-prefix", Access(), alert())
    assert failed.detail == "answered 404 nothing at /.../api/v2/alerts"


def test_a_token_that_is_refused_mutes_only_that_instance(hooks, tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")
    closed, open_ = hooks(lambda _: (401, b"who are you?")), hooks()
    to = AlertmanagerSink((
        Alertmanager(closed.url, Access(bearer_token_file=token)), Alertmanager(open_.url),
    ))  # fmt: skip
    told = to.send(report(1000.0, alert()), time.monotonic() + 5)
    assert [d.ok for d in told] == [False, True]
    assert told[0].detail == "answered 401 who are you?"
    assert open_.authorizations == [None, None]
