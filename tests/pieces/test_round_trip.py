"""
There and back, with the shipped files and real programs.

A rule on vLLM's own metrics fires in Prometheus, Alertmanager routes it to our receiver, the daemon
looks at once, and its own alert, which says what it explains, is in that Alertmanager.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.pieces.lab import CONFIG, alertmanager, daemon, get, prometheus, shipped_scrapes
from tests.serving import repeated, served
from tests.sinks.lab import free_port, until

BROKEN = ("g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy")
TOKEN = "not-for-everyone"


def shipped_alertmanager(ours: str, token: Path) -> dict[str, Any]:
    """The shipped configuration, with our address and our token in it."""
    config = yaml.safe_load((CONFIG / "alertmanager/serving-watchdog.yml").read_text())
    (receiver,) = [r for r in config["receivers"] if r["name"] == "serving-watchdog"]
    (hook,) = receiver["webhook_configs"]
    hook["url"] = ours + hook["url"][hook["url"].index("/webhook/") :]
    hook["http_config"]["authorization"]["credentials_file"] = str(token)
    return config


def impatient_rules(folder: Path) -> Path:
    """The shipped rules on vLLM's metrics; a second stands for the minutes of their `for`."""
    rules = yaml.safe_load((CONFIG / "prometheus/rules-vllm.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        if "for" in rule:
            rule["for"] = "1s"
    path = folder / "rules-vllm.yml"
    path.write_text(yaml.safe_dump(rules))
    return path


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """The daemon looks every 10 minutes: whatever it knows, it looked for because it was told."""
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    port = free_port()
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        server = enter(served(*repeated(*BROKEN, 300)))
        config = shipped_alertmanager(f"http://127.0.0.1:{port}", token)
        manager = enter(alertmanager(tmp_path / "alertmanager", config))
        ours = enter(
            daemon(
                tmp_path / "daemon",
                interval="10m",
                targets=[{"url": server.url, "name": "qwen"}],
                alerting={"alertmanagers": [{"url": manager.url}]},
                server={"listen": f"127.0.0.1:{port}", "webhook_token_file": str(token)},
            )
        )
        scrapes = shipped_scrapes({"vllm": server.url})
        assert "target" in scrapes[0]["static_configs"][0]["labels"]
        scrapes[0]["static_configs"][0]["labels"]["target"] = "qwen"
        rules = [impatient_rules(tmp_path)]
        enter(prometheus(tmp_path / "prometheus", scrapes, rules, manager.url))
        yield SimpleNamespace(server=server, manager=manager, daemon=ours)


def test_an_alert_of_prometheus_comes_back_explained(lab):
    (theirs,) = until(lambda: lab.manager.alerts(alertname="VllmDrafterDead"), 40)
    (ours,) = until(lambda: lab.manager.alerts(alertname="SpecDecodeCollapsed"))

    assert theirs["labels"] == {
        "alertname": "VllmDrafterDead", "severity": "critical", "job": "vllm", "host": "gpu-1",
        "instance": lab.server.url.removeprefix("http://"), "target": "qwen", "engine": "0",
        "model_name": "tiny",
    }  # fmt: skip
    assert ours["labels"] == {
        "alertname": "SpecDecodeCollapsed", "severity": "critical", "host": "gpu-1",
        "target": "qwen", "engine": "0", "model_name": "tiny",
    }  # fmt: skip
    assert ours["annotations"]["explains"].startswith("VllmDrafterDead (received ")
    assert "suspects, likeliest first" in ours["annotations"]["description"]
    assert {r["name"] for r in theirs["receivers"]} == {"serving-watchdog", "pager"}
    assert {r["name"] for r in ours["receivers"]} == {"pager"}

    report = get(f"{lab.daemon.url}/api/v1/report")
    (received,) = report["received"]
    assert (received["alertname"], received["status"]) == ("VllmDrafterDead", "firing")
    assert any("SpecDecodeCollapsed" in said for said in received["diagnosis"]), json.dumps(
        received
    )

    # It was told before ours fired; from now on people hear of one of them alone.
    (silenced,) = lab.manager.alerts(alertname="VllmDrafterDead")
    assert silenced["status"]["inhibitedBy"] == [ours["fingerprint"]]
    assert ours["status"]["inhibitedBy"] == []
