"""Settings to a watchdog: what is configured is there, and where a secret address is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdog.board import Board
from watchdog.build import (
    address_of,
    destinations_of,
    marks_of,
    places_of,
    probes_of,
    sinks_of,
)
from watchdog.clock import Clock
from watchdog.domain.report import Report
from watchdog.errors import ConfigError
from watchdog.probes.compile_cache import CompileCache
from watchdog.probes.launch import Launch
from watchdog.settings import PingSettings, Settings, WebhookSettings
from watchdog.store import Store


def settings_of(**alerting: object) -> Settings:
    return Settings.model_validate({"alerting": alerting})


def names(settings: Settings, tmp_path: Path) -> list[str]:
    sinks = sinks_of(settings, Store(tmp_path / "unopened"), Board(), Clock())
    return [sink.name for sink in sinks]


def test_without_places_alerts_go_to_the_log_alone(tmp_path: Path) -> None:
    assert names(settings_of(), tmp_path) == ["log"]


def test_each_place_that_is_configured_is_told(tmp_path: Path) -> None:
    settings = settings_of(
        alertmanagers=[{"url": "http://127.0.0.1:1"}],
        webhooks=[{"url": "http://127.0.0.1:2/hook"}],
        textfile="/tmp/x.prom",
        ping={"url": "http://127.0.0.1:3/ping"},
    )
    assert names(settings, tmp_path) == ["log", "alertmanager", "webhook", "textfile", "ping"]
    assert destinations_of(settings) == ["127.0.0.1:2"]
    assert places_of(settings) == [
        ("log", "stderr"),
        ("alertmanager", "http://127.0.0.1:1"),
        ("webhook", "127.0.0.1:2"),
        ("textfile", "/tmp/x.prom"),
        ("ping", "http://127.0.0.1:3/..."),
    ]


def test_a_secret_address_is_read_from_its_file_query_and_all(tmp_path: Path) -> None:
    file = tmp_path / "hook.url"
    file.write_text("https://chat.example/hook?key=abc\n")
    assert address_of(WebhookSettings(url_file=str(file))) == "https://chat.example/hook?key=abc"


def test_a_secret_address_may_stand_in_systemds_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "ping").write_text("https://hc.example/uuid")
    part = PingSettings(url_file="$CREDENTIALS_DIRECTORY/ping")
    assert address_of(part) == "https://hc.example/uuid"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such file or directory"),
        ("", "names no host|must begin with"),
        ("http://a\nhttp://b", "alone|more than one"),
        ("http://a/?x=1\nhttp://b", "more than one"),
        ("ftp://a", "must begin with"),
    ],
)
def test_a_file_without_an_address_is_a_fault_of_the_configuration(
    tmp_path: Path, content: str | None, why: str
) -> None:
    file = tmp_path / "hook.url"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=why) as refused:
        address_of(WebhookSettings(url_file=str(file)))
    assert str(file) in refused.value.faults[0]


def test_the_curve_is_held_against_the_floor_and_against_what_is_declared() -> None:
    settings = Settings.model_validate(
        {
            "targets": [
                {"url": "http://a:1", "name": "told", "expect": {"acceptance_length": 3.0}},
                {
                    "url": "http://a:2",
                    "name": "not",
                    "checks": {"acceptance_length": {"floor": 0.3}},
                },
            ]
        }
    )
    assert marks_of(settings, "told") == [
        ("dead drafter", 1.21), ("declared", 3.0), ("degraded below 80% of it", pytest.approx(2.4)),
    ]  # fmt: skip
    assert marks_of(settings, "not") == [("dead drafter", 1.3)]


def test_an_address_that_cannot_be_read_fails_its_own_place_alone(tmp_path: Path) -> None:
    settings = settings_of(
        webhooks=[{"url_file": f"{tmp_path}/none"}, {"url": "http://127.0.0.1:2/hook"}],
        ping={"url_file": f"{tmp_path}/ping"},
    )
    assert names(settings, tmp_path) == ["log", "webhook", "webhook", "ping"]
    sinks = sinks_of(settings, Store(tmp_path / "unopened"), Board(), Clock())
    report = Report("gpu-1", "0", 0.0)
    told = [d for sink in (sinks[1], sinks[3]) for d in sink.send(report, 0.0)]
    assert [(d.instance, d.ok) for d in told] == [("none", False), ("ping", False)]
    assert all("no such file" in d.detail for d in told)


def test_what_is_configured_to_count_goes_to_the_targets_launch() -> None:
    factors = {"add": ["MY_*"], "ignore": ["seed"]}
    targets = [{"url": "http://127.0.0.1:1", "cache": {"factors": factors}},
               {"url": "http://127.0.0.1:2"}]  # fmt: skip
    probes = probes_of(Settings.model_validate({"targets": targets}))
    found = [(probe.more, probe.less) for probe in probes if isinstance(probe, Launch)]
    assert found == [(("MY_*",), ("seed",)), ((), ())]


def test_the_caches_of_a_target_are_looked_at_on_this_host_alone() -> None:
    targets = [{"url": "http://127.0.0.1:1", "cache": {"directory": "/var/cache/vllm"}},
               {"url": "http://localhost:2"}, {"url": "http://192.0.2.7:3"}]  # fmt: skip
    probes = probes_of(Settings.model_validate({"targets": targets}))
    found = [(p.target, p.directory) for p in probes if isinstance(p, CompileCache)]
    assert found == [("127.0.0.1:1", Path("/var/cache/vllm")), ("localhost:2", None)]
