"""The receiver on its real port: who may post, every answer, and the way of a real alert."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.asking import JSON, ask, post, serving
from tests.binaries import find
from tests.domain.test_arrivals import HERE, RECORDED, alert, payload, recorded
from tests.serving import repeated, served
from tests.sinks.alertmanagers import RealAlertmanager
from tests.sinks.lab import Hook, until
from watchdog import connections
from watchdog.board import Board
from watchdog.config import load
from watchdog.daemon import Daemon
from watchdog.domain.report import rfc3339
from watchdog.probes.inbox import MOST_WAITING, Inbox
from watchdog.views import make_app
from watchdog.webhook_in import MOST_BODY, PATH

TOKEN = "token-of-a-test"


class Receiving:
    """A port with a real inbox behind it; `token` is the file that a post must show."""

    def __init__(self) -> None:
        self.inbox = Inbox(lambda: HERE)
        self.token: Path | None = None
        self.board = Board(take=self.inbox.take, webhook_token_file=lambda: self.token)

    def told(self) -> int:
        return len(self.inbox.at_once({}).facts["told"])  # type: ignore[arg-type]


@pytest.fixture
def receiving() -> Receiving:
    return Receiving()


@pytest.fixture
def server(receiving):
    with serving(receiving.board) as server:
        yield server


@pytest.fixture
def token(receiving, tmp_path) -> Path:
    receiving.token = tmp_path / "token"
    receiving.token.write_text(f"{TOKEN}\n")
    return receiving.token


# What is taken


@pytest.mark.parametrize("version", ["0.25", "0.33"])
def test_what_a_real_alertmanager_sent_is_taken_at_once_and_once(server, receiving, version):
    body = (RECORDED / f"alertmanager-{version}/firing.json").read_bytes()
    status, _, answer = ask(server, "POST", PATH, body, JSON)
    assert (status, json.loads(answer)) == (
        200, {"accepted": 2, "ours": 1, "duplicates": 0, "not_for_us": 1},
    )  # fmt: skip
    _, _, answer = ask(server, "POST", PATH, body, JSON)
    assert json.loads(answer) == {"accepted": 0, "ours": 1, "duplicates": 2, "not_for_us": 1}
    assert receiving.told() == 2


def test_a_payload_without_alerts_is_fine(server):
    assert post(server, PATH, payload())[0] == 200


def test_a_full_queue_is_503_and_what_was_left_out_is_taken_later(server, receiving):
    whole = payload(*(alert(fingerprint=f"f{i}") for i in range(MOST_WAITING + 1)))
    status, headers, body = ask(server, "POST", PATH, json.dumps(whole), JSON)
    assert (status, headers["Retry-After"]) == (503, "10")
    assert "queue full" in json.loads(body)["error"]
    assert receiving.told() == MOST_WAITING
    assert post(server, PATH, whole)[1]["accepted"] == 1


def test_a_daemon_that_stops_or_has_not_begun_is_503(server, receiving):
    receiving.inbox.stop()
    status, headers, _ = ask(server, "POST", PATH, json.dumps(payload(alert())), JSON)
    assert (status, headers["Retry-After"]) == (503, "10")
    with serving(Board()) as empty:
        assert post(empty, PATH, payload(alert()))[0] == 503


def test_alerts_that_alertmanager_left_out_are_told_to_the_log(receiving):
    with capture_logs() as logs, serving(receiving.board) as server:
        assert post(server, PATH, payload(alert(), truncatedAlerts=3))[0] == 200
    assert "max_alerts" in logs[0]["why"]


# What is refused


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"[]", b'"x"', b"null", b"1" * 10_000,
     json.dumps(recorded("alertmanager-0.33/custom-payload.json")).encode(),
     json.dumps(payload({"labels": {}})).encode()],
    ids=lambda body: repr(body[:20]),
)  # fmt: skip
def test_what_can_never_work_is_400_with_a_sentence(server, receiving, body):
    status, headers, answer = ask(server, "POST", PATH, body, JSON)
    assert (status, headers["Content-Type"]) == (400, "application/json")
    assert len(json.loads(answer)["error"]) > 10
    assert receiving.told() == 0


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_only_json_is_taken(server, kind):
    headers = {"Content-Type": kind} if kind else {}
    assert ask(server, "POST", PATH, json.dumps(payload(alert())), headers)[0] == 415


def test_a_megabyte_is_taken_and_more_is_413(server, receiving):
    assert (PATH, MOST_BODY) == (connections.WEBHOOK, connections.MOST_WEBHOOK)
    text = json.dumps(payload(alert(summary="x", host="gpu-1")))
    whole = text.ljust(MOST_BODY)
    assert ask(server, "POST", PATH, whole, JSON)[0] == 200
    assert receiving.told() == 1
    assert ask(server, "POST", PATH, whole + " ", JSON)[0] == 413
    client = make_app(receiving.board).test_client()
    assert client.post(PATH, data=whole + " ", content_type="application/json").status_code == 413


def test_a_megabyte_of_hostile_alerts_stays_bounded(server, receiving):
    one = {"status": "firing", "labels": {"host": "gpu-1"}}
    many = [{**one, "fingerprint": str(i)} for i in range(12_000)]
    status, _ = post(server, PATH, payload(*many))
    assert status == 503
    assert receiving.told() == MOST_WAITING
    wide = {"host": "gpu-1", **{f"label{i}": "\x1b\ud800" * 5 for i in range(10_000)}}
    assert post(server, PATH, payload({**one, "labels": wide}))[0] == 200


def test_only_posts_are_known(server):
    status, headers, _ = ask(server, "GET", PATH)
    assert (status, headers["Allow"]) == (405, "OPTIONS, POST")


# Who may


@pytest.mark.parametrize(
    ("peer", "header", "status"),
    [
        ("127.0.0.1", None, 200),
        ("::1", None, 200),
        ("10.0.0.9", None, 403),
        ("127.0.0.1", "X-Forwarded-For", 403),
        ("127.0.0.1", "Origin", 403),
    ],
)
def test_without_a_token_only_programs_of_this_host_may_post(receiving, peer, header, status):
    client = make_app(receiving.board).test_client()
    answer = client.post(
        PATH, json=payload(alert()), environ_base={"REMOTE_ADDR": peer},
        headers={header: "http://10.0.0.9"} if header else {},
    )  # fmt: skip
    assert answer.status_code == status
    assert receiving.told() == (status == 200)
    if header != "Origin" and status == 403:
        assert "set server.webhook_token_file" in answer.json["error"]


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.9"])
@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer other", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer \u00e9\u00ff", 401),
    ],
)
def test_with_a_token_whoever_shows_it_may_and_nobody_else(receiving, token, peer, shown, status):
    assert token
    client = make_app(receiving.board).test_client()
    headers = {} if shown is None else {"Authorization": shown}
    answer = client.post(
        PATH, json=payload(alert()), environ_base={"REMOTE_ADDR": peer}, headers=headers
    )
    assert answer.status_code == status
    assert receiving.told() == (status == 200)
    if status == 401:
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="serving-watchdog"'
        assert TOKEN not in answer.text


def test_a_new_token_counts_from_the_next_post_on(server, token):
    token.write_text("newer")
    assert post(server, PATH, payload(alert()), Authorization=f"Bearer {TOKEN}")[0] == 401
    assert post(server, PATH, payload(alert()), Authorization="Bearer newer")[0] == 200


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff", b"two\nlines"])
def test_a_token_that_cannot_be_read_is_503_and_told_to_the_log_alone(receiving, token, content):
    token.unlink()
    if content is not None:
        token.write_bytes(content)
    show = {**JSON, "Authorization": "Bearer "}
    with capture_logs() as logs, serving(receiving.board) as server:
        for _ in range(3):
            status, headers, body = ask(server, "POST", PATH, json.dumps(payload(alert())), show)
            assert (status, headers["Retry-After"]) == (503, "10")
            assert str(token) not in body.decode()
    assert [str(token) in line["why"] for line in logs] == [True]  # once a minute


def test_who_may_not_is_told_so_before_the_body_is_looked_at(server, token):
    assert token
    assert ask(server, "POST", PATH, b"{", {"Content-Type": "text/plain"})[0] == 401


# Whatever is posted

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ALERTS = st.lists(
    st.fixed_dictionaries(
        {"status": st.sampled_from(["firing", "resolved"]) | ODD},
        optional={
            "labels": ODD
            | st.dictionaries(st.sampled_from(["host", "instance", "job"]), st.text()),
            "annotations": ODD,
            "startsAt": ODD,
            "fingerprint": ODD,
        },
    )
)
PAYLOADS = st.fixed_dictionaries(
    {}, optional={"version": st.just("4") | ODD, "alerts": ALERTS | ODD, "groupKey": ODD,
                  "truncatedAlerts": ODD},
)  # fmt: skip
ANSWERS = {200, 400, 401, 403, 413, 415, 503}
LAST = Receiving()
CLIENT = make_app(LAST.board).test_client()


@given(PAYLOADS | ODD, st.sampled_from(["application/json", "application/json; charset=x", "a"]))
def test_no_payload_makes_another_answer(body, kind):
    answer = CLIENT.post(PATH, data=json.dumps(body), content_type=kind)
    assert answer.status_code in ANSWERS
    assert json.loads(answer.data)
    LAST.told()


@given(st.binary(), st.binary())
def test_no_bytes_make_another_answer(body, header):
    shown = {"Authorization": header.decode("latin-1").replace("\r", "").replace("\n", "")}
    answer = CLIENT.post(PATH, data=body, content_type="application/json", headers=shown)
    assert answer.status_code in ANSWERS


# The whole way

US = """
route: {receiver: us, group_by: ["..."], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
  - name: us
    webhook_configs:
      - url: "http://127.0.0.1:%d/webhook/alertmanager"
        send_resolved: true
        http_config: {authorization: {type: Bearer, credentials_file: "%s"}}
"""

HEALTHY = repeated("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy", 1)
DEAD = repeated("g_draft_other_broken_0_start", "g_draft_other_broken_3_after_greedy_8clients", 5)


@contextlib.contextmanager
def watched(
    tmp_path: Path, token: Path, pages: Sequence[str], interval: str
) -> Iterator[tuple[Daemon, RealAlertmanager, str]]:
    """Run a daemon and a real Alertmanager that tell each other; and the server's address."""
    (tmp_path / "am").mkdir()
    config = tmp_path / "c.yaml"
    with contextlib.ExitStack() as stack:
        vllm = stack.enter_context(served(*pages))
        hook = stack.enter_context(contextlib.closing(Hook()))
        real = RealAlertmanager(find("prometheus-alertmanager"), tmp_path / "am", hook)
        config.write_text(
            f"targets: [{{url: '{vllm.url}', name: tiny}}]\nhost: gpu-1\ninterval: {interval}\n"
            f"alerting: {{alertmanagers: [{{url: '{real.url}'}}]}}\n"
            f"server: {{listen: '127.0.0.1:0', webhook_token_file: '{token}'}}\n"
        )
        daemon = Daemon(load(config), lambda: load(config))
        thread = threading.Thread(target=daemon.run)
        thread.start()
        try:
            until(lambda: daemon.board.rounds)
            (tmp_path / "am/alertmanager.yml").write_text(US % (daemon.server.port, token))
            stack.enter_context(real)
            yield daemon, real, vllm.url.replace("http://127.0.0.1", "gpu-1")
        finally:
            daemon.stop()
            thread.join(30)
        assert not thread.is_alive()


def told_by(daemon: Daemon) -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{daemon.server.port}/api/v1/report"
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)["received"]


def push(alertmanager: RealAlertmanager, instance: str, **more: str) -> None:
    """Tell it what Prometheus would."""
    body = [{"labels": {"alertname": "HighLatencyP99", "instance": instance, "job": "vllm"},
             "annotations": {"summary": "p99 is 41 s"}, **more}]  # fmt: skip
    where = f"{alertmanager.url}/api/v2/alerts"
    asked = urllib.request.Request(where, json.dumps(body).encode(), JSON)
    urllib.request.urlopen(asked, timeout=5).close()


def test_a_firing_alert_has_the_daemon_look_at_once_and_keeps_what_it_saw(tmp_path, token):
    with watched(tmp_path, token, HEALTHY, "10m") as (daemon, alertmanager, instance):
        assert daemon.board.rounds == 1
        push(alertmanager, instance)
        (told,) = until(lambda: told_by(daemon))
        assert daemon.board.rounds == 2
        assert (told["alertname"], told["status"], told["target"]) == (
            "HighLatencyP99", "firing", "tiny",
        )  # fmt: skip
        assert told["summary"] == "p99 is 41 s"
        assert any(s.startswith("ruled out: tiny: answers") for s in told["diagnosis"])


def test_our_alert_in_alertmanager_says_which_one_of_others_it_may_explain(tmp_path, token):
    with watched(tmp_path, token, DEAD, "1s") as (daemon, alertmanager, instance):
        until(lambda: alertmanager.active("tiny"))
        push(alertmanager, instance)
        (told,) = until(lambda: told_by(daemon))
        assert told["diagnosis"][0].startswith("may explain it: CRITICAL SpecDecodeCollapsed: ")

        def explains() -> str | None:
            (ours,) = alertmanager.active("tiny")
            return ours["annotations"].get("explains")

        assert (
            until(explains) == f"HighLatencyP99 (received {told['received_at']} from Alertmanager)"
        )
        # Our own alert came back on the same route, and is not taken for one of others.
        assert [each["alertname"] for each in told_by(daemon)] == ["HighLatencyP99"]

        push(alertmanager, instance, endsAt=rfc3339(time.time()))
        until(lambda: told_by(daemon)[0]["status"] == "resolved")
        until(lambda: explains() is None)


def test_a_post_without_the_token_reaches_no_daemon(tmp_path, token):
    with watched(tmp_path, token, HEALTHY, "10m") as (daemon, _, _):
        assert post(daemon.server, PATH, payload(alert()))[0] == 401
        assert daemon.board.rounds == 1
