"""What holds for all shipped files: they are valid, they explain themselves, and links exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.binaries import find
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
