"""What holds for all shipped files: they are valid, they explain themselves, and links exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.binaries import find
from tests.pieces.lab import scrapes_over_tls, uncommented
from tests.pieces.promtool import CONFIG, RULES, alert_rules
from watchdog.domain.alert import PATIENCE
from watchdog.domain.report import RUNBOOK

ROOT = Path(__file__).parents[2]
FILES = ("rules-watchdog.yml", "rules-vllm.yml")
ALERTS = [pytest.param(rule, id=rule["alert"]) for file in FILES for rule in alert_rules(file)]
REPOSITORY = RUNBOOK.partition("docs/")[0]


def promtool(*arguments: str) -> None:
    run = subprocess.run(  # noqa: PLW1510  (its words are told first)
        [find("promtool"), *arguments], capture_output=True, text=True, timeout=30
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_promtool_accepts_the_rules():
    promtool("check", "rules", *(str(RULES / file) for file in FILES))


def test_promtool_accepts_the_scrapes_with_the_rules_beside_them(tmp_path):
    config = yaml.safe_load((RULES / "scrape.yml").read_text())
    config["rule_files"] = [str(RULES / file) for file in FILES]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    promtool("check", "config", str(tmp_path / "prometheus.yml"))
    promtool("check", "config", "--syntax-only", str(RULES / "scrape.yml"))


def test_promtool_accepts_the_scrapes_over_tls(tmp_path):
    (tmp_path / "prometheus.yml").write_text(scrapes_over_tls())
    promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yml"))


def example(title: str) -> Any:
    """The settings that docs/port.md shows below this word."""
    page = (ROOT / "docs/port.md").read_text()
    block = re.search(rf"^{title}:\n\n((?:    .*\n)+)", page, re.MULTILINE)
    assert block
    (found,) = yaml.safe_load(block[1])
    return found


def test_the_page_of_the_port_and_the_files_show_the_same_ways_through_the_proxy():
    jobs = yaml.safe_load(scrapes_over_tls())["scrape_configs"]
    (job,) = [job for job in jobs if job["job_name"] == "serving-watchdog"]
    told = example("Prometheus")
    assert told == {key: value for key, value in job.items() if key in told}
    text = uncommented((CONFIG / "alertmanager/serving-watchdog.yml").read_text())
    receivers = yaml.safe_load(text)["receivers"]
    assert example("Alertmanager") in receivers
    (port,) = re.findall(r"listen (\d+) ssl;", (CONFIG / "proxy/nginx.conf").read_text())
    url = example("Alertmanager")["webhook_configs"][0]["url"]
    assert {
        url.split(":")[2].split("/")[0],
        told["static_configs"][0]["targets"][0].split(":")[1],
    } == {port}


def test_no_shipped_file_speaks_of_another_port_than_ours():
    """`:443` and a token once stood where nginx.conf listens on 9590 and takes a password."""
    for path in CONFIG.rglob("*.yml"):
        assert not re.search(r"example(\.com)?(:443|/webhook/)", path.read_text()), path


@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_has_its_severity_its_sentences_and_a_page(rule):
    assert rule["labels"]["severity"] in {"warning", "critical"}
    said = rule["annotations"]
    assert set(said) == {"summary", "description", "runbook_url"}
    assert said["runbook_url"].startswith(REPOSITORY)
    path, _, anchor = said["runbook_url"].removeprefix(REPOSITORY).partition("#")
    text = (ROOT / path).read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    assert not anchor or anchor in {heading.lower() for heading in headings}


def test_no_name_of_an_alert_is_used_twice():
    names = [rule["alert"] for file in FILES for rule in alert_rules(file)]
    assert len(set(names)) == len(names)
    vllm = {rule["alert"] for rule in alert_rules("rules-vllm.yml")}
    assert not vllm & set(PATIENCE), "one name, one meaning"
    assert "Watchdog" not in names, "elsewhere that name is the heartbeat of a whole stack"


def test_the_page_tells_of_every_alert_with_its_severity_and_of_every_file():
    page = (ROOT / "docs/prometheus.md").read_text()
    rules = {r["alert"]: r["labels"]["severity"] for file in FILES for r in alert_rules(file)}
    told = dict(re.findall(r"^\| `(\w+)` \| (warning|critical) \|", page, re.MULTILINE))
    assert told == {name: severity for name, severity in rules.items() if name not in PATIENCE}
    # How much is wanted before a rule speaks, which is why it may be silent.
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    for rule in (r for file in FILES for r in alert_rules(file) if r["alert"] not in PATIENCE):
        for least in re.findall(r">= (\d+)", str(rule["expr"])):
            assert re.search(rf"\b{int(least):,} (?!s\b|minutes\b)", rows[rule["alert"]]), rule[
                "alert"
            ]
    files = [path for kind in ("prometheus", "alertmanager", "grafana") for path in
             (CONFIG / kind).iterdir()]  # fmt: skip
    for path in files:
        assert path.relative_to(ROOT).as_posix() in page, path


@pytest.mark.parametrize("file", FILES)
def test_the_page_names_no_series_that_is_not_recorded(file):
    page = (ROOT / "docs/prometheus.md").read_text()
    rules = [rule for f in FILES for g in yaml.safe_load((RULES / f).read_text())["groups"]
             for rule in g["rules"]]  # fmt: skip
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert set(re.findall(r"`((?:watchdog|engine):\w+(?::\w+)?)`", page)) <= recorded
    assert file in page
