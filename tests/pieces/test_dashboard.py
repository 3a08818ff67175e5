"""config/grafana: the dashboard's shape, and every query of it on a real Prometheus."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bench_tree import seeds_bench
from tests.pieces.lab import CONFIG, daemon, get, prometheus, shipped_scrapes
from tests.seeded import kept
from tests.sinks.lab import Hook, until
from watchdog.clock import Clock
from watchdog.demo.page import MODEL
from watchdog.demo.server import SimulatedServer
from watchdog.demo.simulation import BROKEN, HEALTHY, Life, Traffic
from watchdog.domain.sample import labels

DASHBOARD = json.loads((CONFIG / "grafana/serving-watchdog.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
QUERIES = [
    pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]
KINDS = {"timeseries", "stat", "bargauge", "state-timeline", "table"}
"""Panels that Grafana 10 and 11 have built in."""


QUICK = Traffic(steps_per_second=50.0, answer_tokens=50)
"""Short answers: three requests are over within seconds."""


def with_variables(expression: str, host: str = ".*", target: str = ".*") -> str:
    """What Grafana would send; a name that it does not know is left and fails."""
    known = {"host": host, "target": target, "__rate_interval": "20s"}
    return re.sub(r"\$(\w+)", lambda m: known.get(m[1], m[0]), expression)


# Shape


def test_its_panels_have_names_explanations_and_kinds_that_grafana_has():
    assert all(panel["type"] in KINDS and panel["description"] for panel in PANELS)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    titles = [panel["title"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)
    assert DASHBOARD["schemaVersion"] >= 36
    assert DASHBOARD["id"] is None, "an id of one Grafana is refused by another"


def test_no_panel_lies_on_another():
    def cells(panel) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        columns = range(at["x"], at["x"] + at["w"])
        return {(x, y) for x in columns for y in range(at["y"], at["y"] + at["h"])}

    assert all(x < 24 for panel in DASHBOARD["panels"] for x, _ in cells(panel))
    for one, other in combinations(DASHBOARD["panels"], 2):
        assert not cells(one) & cells(other), (one["title"], other["title"])


def test_every_query_asks_the_chosen_data_source_of_the_chosen_hosts():
    for panel in PANELS:
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert 'host=~"$host"' in target["expr"]
    assert set(VARIABLES) == {"datasource", "host", "target"}
    used = {name for panel in PANELS for t in panel["targets"] for name in
            re.findall(r"\$(\w+)", t["expr"])}  # fmt: skip
    assert used == {"host", "target", "__rate_interval"}


# Data


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """
    A real Prometheus that scrapes a real daemon.

    It watches two simulated servers, one of them with a broken drafter, and the bench's four GPUs,
    one of whose links is down to Gen1 with errors; and it tells one Alertmanager. The one that
    is well it has known for weeks.
    """
    folder: Path = tmp_path_factory.mktemp("dashboard")
    bench = seeds_bench(folder / "sys")
    card = bench["05:00.0"]
    card.trained(1, 16)
    card.errors(card.slot, "correctable", BadTLP=6655)
    slots = {card.address: {"generation": 3, "width": 16} for card in bench.cards}
    clock = Clock()
    well, broken, hook = SimulatedServer(clock), SimulatedServer(clock), Hook()
    engine = labels(target="well", engine="0", model_name=MODEL)
    try:
        for server, drafter in ((well, HEALTHY), (broken, BROKEN)):
            server.serve(Life(clock.now() - 700, clock.now() - 600, drafter, QUICK))
        targets = [{"url": well.url, "name": "well"}, {"url": broken.url, "name": "broken"}]
        told = {"alertmanagers": [{"url": hook.url}],
                "webhooks": [{"url": hook.url, "name": "chat"}]}  # fmt: skip
        gpus = {"sysfs": str(bench.root), "slots": slots}
        kept(folder / "daemon/state", {"targets": targets}, engine)
        with daemon(folder / "daemon", targets=targets, gpus=gpus, alerting=told) as ours:
            addresses = {"serving-watchdog": ours.url, "vllm": well.url}
            rules = [CONFIG / "prometheus/rules-watchdog.yml"]
            with prometheus(folder / "prometheus", shipped_scrapes(addresses), rules) as real:
                began = time.time()
                until(lambda: real.value('count(watchdog_alert_state{state="firing"})') == 2, 30)
                until(lambda: real.query("increase(watchdog_notifications_total[10m]) > 0"))
                until(lambda: len(real.query("watchdog:acceptance_length:avg1h")) == 2)
                yield SimpleNamespace(prometheus=real, began=began)
    finally:
        well.close()
        broken.close()
        hook.close()


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_every_panel_returns_data(watched, query):
    """Polled: a rate needs a second sample of a series that may have just begun."""

    def found() -> bool:
        series = watched.prometheus.range(with_variables(query), watched.began, time.time(), 1)
        numbers = [float(value) for one in series for _, value in one["values"]]
        return bool(numbers) and any(math.isfinite(number) for number in numbers)

    until(found, 25)


def test_the_variables_find_hosts_and_targets(watched):
    def values_of(variable: str) -> list[str]:
        query = VARIABLES[variable]["query"]["query"]
        match = re.fullmatch(r"label_values\((.+), (\w+)\)", with_variables(query))
        assert match
        found = watched.prometheus.query(f"group by ({match[2]}) ({match[1]})")
        return sorted(series["metric"].get(match[2], "") for series in found)

    assert values_of("host") == ["gpu-1"]
    assert values_of("target") == ["", "broken", "well"]


@pytest.mark.parametrize(
    ("title", "target", "expected"),
    [
        ("Verdict", "broken", 2.0),
        ("Verdict", "well", 0.0),
        ("Acceptance length", "well", 1 + sum(HEALTHY.positions)),
        ("Acceptance length", "broken", 1 + sum(BROKEN.positions)),
        ("Tokens per step", "well", 1 + sum(HEALTHY.positions)),
        ("Step time", "well", 1 / 50),
        ("Tokens per second of one request", "broken", 50 * (1 + sum(BROKEN.positions))),
    ],
)
def test_panels_show_what_is_true_of_the_chosen_target(watched, title, target, expected):
    (panel,) = [panel for panel in PANELS if panel["title"] == title]
    query = with_variables(panel["targets"][0]["expr"], "gpu-1", target)
    (found,) = watched.prometheus.query(query)
    assert found["metric"]["target"] == target
    assert float(found["value"][1]) == pytest.approx(expected, rel=0.05)


def test_an_engine_is_drawn_beside_what_it_is_used_to_once_that_is_known(watched):
    (panel,) = [panel for panel in PANELS if panel["title"] == "Acceptance length"]
    (found,) = watched.prometheus.query(with_variables(panel["targets"][2]["expr"]))
    assert (found["metric"]["target"], float(found["value"][1])) == ("well", 4.0)


def test_a_host_that_is_not_chosen_is_not_shown(watched):
    for panel in PANELS:
        for target in panel["targets"]:
            query = with_variables(target["expr"], host="gpu-2")
            assert watched.prometheus.query(query) == [], panel["title"]


def test_every_label_of_a_legend_is_one_that_the_series_have(watched):
    for panel in PANELS:
        for target in panel["targets"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            found = watched.prometheus.query(with_variables(target["expr"]))
            known = {label for series in found for label in series["metric"]}
            assert labels <= known, panel["title"]


def test_the_shipped_rules_are_evaluated_without_an_error(watched):
    rules = watched.prometheus.rules()
    assert rules
    assert [r["lastError"] for r in rules if r.get("lastError")] == []
    told = get(f"{watched.prometheus.url}/api/v1/alerts")["data"]["alerts"]
    texts = [text for alert in told for text in alert["annotations"].values()]
    assert [text for text in texts if "error expanding" in text or "no value" in text] == []
