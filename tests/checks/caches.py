"""A server, its cache directory and the rounds of a watch, for tests of the cache's check."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.deciding import every_cause_decides
from watchdog.checks.compile_cache import CompileCache
from watchdog.domain import series as s
from watchdog.domain.cache_state import State
from watchdog.domain.finding import Finding
from watchdog.domain.fingerprint import Fingerprint, fingerprint_of
from watchdog.domain.history import Window
from watchdog.domain.plain import plain, restored, shapes_of
from watchdog.domain.profile import Profile
from watchdog.domain.sample import Reading, Sample, labels

SUBJECT = labels(target="qwen")
ROOT = "/var/cache/vllm/qwen"
STALE, VAIN = "CompileCacheStale", "CompileCacheInvalidationIneffective"
DAY = 86400.0
T0 = 1_790_000_000.0


def launch(
    depth: int = 3,
    *,
    image: str = "sha256:a",
    version: str = "0.27.1",
    env: Any = (),
    unread: Mapping[str, str] | None = None,
    drafter: str = "/m/draft",
) -> dict[str, Any]:
    """One launch of a server with a learned drafter; depth 0: without."""
    argv = ["vllm", "serve", "/m/qwen", "--port", "8000"]
    if depth:
        told = {"method": "dflash", "model": drafter, "num_speculative_tokens": depth}
        argv += ["--speculative-config", json.dumps(told)]
    part = {"config": "c", "tensors": "t", "quantization": "q", "files": "f"}
    return {
        "argv": argv, "environ": dict(env), "image": image, "versions": {"vllm": version},
        "models": {"model": part, **({"drafter": part} if depth else {})},
        "unread": dict(unread or {}),
    }  # fmt: skip


def print_of(told: Mapping[str, Any]) -> Fingerprint:
    return fingerprint_of(told)


def entry(kind: str = "inductor", oldest: float = 0.0, newest: float | None = None,
          parts: tuple[str, ...] = ("backbone", "eagle_head"), name: str = "ab12cd34ef",
          keyed: bool = True) -> dict[str, Any]:  # fmt: skip
    return {
        "kind": kind, "path": f"torch_compile_cache/{name}", "keyed": keyed,
        "parts": [f"rank_0_0/{part}" for part in parts] if kind == "inductor" else [],
        "files": 9, "bytes": 900, "oldest": oldest,
        "newest": oldest + 60 if newest is None else newest, "factors": {},
    }  # fmt: skip


def place(*entries: dict[str, Any], path: str = ROOT, kind: str = "vllm", identity: str = "8:77",
          **more: Any) -> dict[str, Any]:  # fmt: skip
    rows = sorted(entries, key=lambda e: -e["newest"])
    return {
        "kind": kind, "path": path, "by": "VLLM_CACHE_ROOT", "id": identity, "missing": False,
        "files": 9 * len(rows), "bytes": 900 * len(rows),
        "oldest": min((e["oldest"] for e in rows), default=None),
        "newest": max((e["newest"] for e in rows), default=None),
        "entries": rows, "more": 0, "cut": "", "unread": [], "stamp": None, "stamp_fault": "",
        "aside": [], **more,
    }  # fmt: skip


@dataclass
class Watch:
    """Rounds of one target, as a watch makes them."""

    now: float = T0
    profile: Profile = field(default_factory=Profile)
    state: State | None = None
    found: dict[str, Finding] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    check: CompileCache = field(default_factory=CompileCache)
    causes: set[str] = field(default_factory=set)

    def round(self, start: float | None, facts: Mapping[str, Any] | None = None) -> Watch:
        """One round in which the page tells of this start; None: no answer."""
        facts = dict(self.facts if facts is None else facts)
        samples = () if start is None else (Sample(SUBJECT, s.PROCESS_START, start),)
        levels = {} if start is None else {s.PROCESS_START: start}
        reading = Reading("vllm_metrics", "qwen", samples, facts=facts)
        window = Window(SUBJECT, self.now, levels=levels, facts=facts, readings=(reading,),
                        profile=self.profile)  # fmt: skip
        self.state, found = self.check.step(self.state, window, self.now)
        self.found = {one.alertname: one for one in found}
        every_cause_decides(found, self.causes)
        self.facts = facts
        self.now += 15.0
        return self

    def silent(self, seconds: float) -> Watch:
        """Nothing answers for so long."""
        until = self.now + seconds
        while self.now < until:
            self.round(None)
        return self

    def told(self, start: float, how: Mapping[str, Any], *places: dict[str, Any],
             log: Mapping[str, Any] | None = None) -> Watch:  # fmt: skip
        """Rounds of a start that answers: first with what was carried on, then its own facts."""
        self.round(start)
        facts = {
            "launch": {**how, "started_at": start},
            "launch_fingerprint": print_of(how).as_dict(),
            "cache": {"asked": self.now, "start": start, "unknown": "",
                      "places": copy.deepcopy(list(places))},
        }  # fmt: skip
        if log is not None:
            facts["log"] = {"began": True, "path": "/log", **log}
        return self.round(start, facts)

    def runs(self, how: Mapping[str, Any], *places: dict[str, Any], start: float | None = None,
             took: float = 90.0, log: Mapping[str, Any] | None = None) -> Watch:  # fmt: skip
        """The server stops, starts anew and is looked at."""
        self.silent(30.0)
        start = self.now + 5.0 if start is None else start
        while self.now < start + took:
            self.round(None)
        return self.told(start, how, *places, log=log)

    def again(self) -> Watch:
        """A daemon that starts anew, and goes on from what was kept."""
        kept = json.loads(json.dumps(plain(self.state)))
        shapes = json.loads(json.dumps(shapes_of(State)))
        self.state = restored(State | None, kept, shapes)
        return self

    def verdict(self, alertname: str = STALE) -> str:
        one = self.found.get(alertname)
        if one is None:
            return "silent"
        return one.verdict.name if one.conclusive else "thin"

    @property
    def text(self) -> str:
        return self.found[STALE].argument.summary

    @property
    def place(self) -> dict[str, Any]:
        return self.outline["places"][0]

    @property
    def outline(self) -> dict[str, Any]:
        return self.check.outline(self.state, self.facts, self.profile)
