"""
Shipped rules under `promtool test rules`: series by the minute in, alerts out.

    page = Vllm().minutes(20, DEAD).minutes(5, IDLE)
    told = firing("rules-vllm.yml", "VllmDrafterDead", 25, "the summary ...", **page.labels)
    check(tmp_path, "rules-vllm.yml", page.series(), [told, *silent("VllmStalled", 25)])
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.binaries import find

CONFIG = Path(__file__).parents[2] / "config"
RULES = CONFIG / "prometheus"

Series = Mapping[str, str]


def alert_rules(file: str) -> Iterator[dict[str, Any]]:
    """Every alerting rule of a shipped file."""
    for group in yaml.safe_load((RULES / file).read_text())["groups"]:
        yield from (rule for rule in group["rules"] if "alert" in rule)


def check(folder: Path, file: str, series: Series, tests: list[dict[str, Any]]) -> None:
    """Evaluate each minute; fails with what promtool says."""
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": told} for name, told in series.items()],
        "alert_rule_test": tests,
    }
    path = folder / "test.yml"
    path.write_text(
        yaml.safe_dump(
            {"rule_files": [str(RULES / file)], "evaluation_interval": "1m", "tests": [case]},
            allow_unicode=True,
        )
    )
    run = subprocess.run(  # noqa: PLW1510  (its words are told first)
        [find("promtool"), "test", "rules", str(path)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout + run.stderr


def firing(file: str, alert: str, at: int, summary: str, **labels: str) -> dict[str, Any]:
    """Say that exactly this alert of this name fires, `at` minutes after the start."""
    (rule,) = [rule for rule in alert_rules(file) if rule["alert"] == alert]
    told = {
        "exp_labels": {**rule["labels"], **labels},
        "exp_annotations": {**rule["annotations"], "summary": summary},
    }
    return {"alertname": alert, "eval_time": f"{at}m", "exp_alerts": [told]}


def silent(alert: str, *at: int) -> list[dict[str, Any]]:
    """Say that no alert of this name fires at these minutes."""
    return [{"alertname": alert, "eval_time": f"{minute}m", "exp_alerts": []} for minute in at]


class Lines:
    """Series minute by minute; one that a minute does not name ends there, as after a scrape."""

    def __init__(self) -> None:
        self._told: dict[str, list[str]] = {}
        self.length = 0

    def minutes(self, count: int, **values: float) -> None:
        """Append `count` minutes with these values."""
        for name, value in values.items():
            told = self._told.setdefault(name, ["_"] * self.length)
            told += [str(value)] * count
        self.length += count
        for told in self._told.values():
            missing = self.length - len(told)
            told.extend(["stale", *["_"] * (missing - 1)] if missing else [])

    def series(self) -> Series:
        return {name: " ".join(told) for name, told in self._told.items()}


WIRE = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "first": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "generated": "vllm:generation_tokens_total",
    "prompt": "vllm:prompt_tokens_total",
    "requests": "vllm:time_to_first_token_seconds_count",
    "updates": "vllm:inter_token_latency_seconds_count",
    "update_seconds": "vllm:inter_token_latency_seconds_sum",
    "queued": "vllm:request_queue_time_seconds_count",
    "queue_seconds": "vllm:request_queue_time_seconds_sum",
}
"""The counters by a short name, as a real page spells them."""

GAUGES = {"running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting"}
SPECULATION = ("drafts", "draft_tokens", "accepted", "first")


class Vllm:
    """
    The page of one engine, minute by minute.

    `wire` may spell the counters otherwise. Counters begin at 0 with each `restart`.
    """

    def __init__(
        self,
        instance: str = "gpu-1:8000",
        engine: str = "0",
        wire: Mapping[str, str] = WIRE,
        speculation: bool = True,
        model: str = "tiny",
    ) -> None:
        self.labels = {
            "job": "vllm", "instance": instance, "host": instance.partition(":")[0],
            "engine": engine, "model_name": model,
        }  # fmt: skip
        self._wire = {k: v for k, v in wire.items() if speculation or k not in SPECULATION}
        self._lines = Lines()
        self._value = dict.fromkeys(self._wire, 0.0)
        self._born = 1.796e9

    def minutes(self, count: int, traffic: Mapping[str, float] | None = None) -> Vllm:
        """Append minutes of this traffic: what each counter grows by, and what gauges show."""
        traffic = traffic or {}
        for _ in range(count):
            for key in self._value:
                self._value[key] += traffic.get(key, 0.0)
            self._lines.minutes(1, **self._page(traffic))
        return self

    def down(self, count: int) -> Vllm:
        """Append minutes in which it does not answer."""
        self._lines.minutes(count, **{self._name("up"): 0.0})
        return self

    def unnamed(self, count: int) -> Vllm:
        """Append minutes in which the page has no series of vLLM."""
        self._lines.minutes(count, **{self._name("up"): 1.0})
        return self

    def gone(self, count: int) -> Vllm:
        """Append minutes in which nobody scrapes it: it left the configuration."""
        self._lines.minutes(count)
        return self

    def restart(self, speculation: bool = True) -> Vllm:
        """Begin a new process, whose counters are at 0."""
        kept = [k for k in self._wire if speculation or k not in SPECULATION]
        self._value = dict.fromkeys(kept, 0.0)
        self._born += 3600
        return self

    @property
    def length(self) -> int:
        """Minutes told so far."""
        return self._lines.length

    def series(self) -> Series:
        return self._lines.series()

    def _page(self, traffic: Mapping[str, float]) -> dict[str, float]:
        page = {self._name("up"): 1.0, self._name("process_start_time_seconds"): self._born}
        for key, value in self._value.items():
            extra = {"position": "0"} if key == "first" else {}
            page[self._name(self._wire[key], engine=True, **extra)] = value
        for key, name in GAUGES.items():
            page[self._name(name, engine=True)] = traffic.get(key, 0.0)
        return page

    def _name(self, name: str, engine: bool = False, **extra: str) -> str:
        labels = {**self.labels, **extra}
        if not engine:
            labels = {k: v for k, v in labels.items() if k in ("job", "instance", "host")}
        return name + "{" + ", ".join(f'{k}="{v}"' for k, v in labels.items()) + "}"
