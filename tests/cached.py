"""Compile caches in a test: a check that says what a test wants, an assessor that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchdog.caches import CHECK
from watchdog.domain import series as s
from watchdog.domain.alert import AlertBook
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.history import History, Window
from watchdog.domain.profile import Profile
from watchdog.domain.sample import HOST, Reading, Sample, labels

NOW = 1_796_040_000.0  # 2026-11-30T12:00:00Z
DAY = 86400.0
ROOT = "/var/cache/vllm/qwen"
DECLARED = Profile(warm_start=320.0)
OLD, NEW = "77aa0c1d00000000", "0a1b2c3d4e5f6071"
CHANGED = "image sha256:0a1b2c3d -> sha256:bebc0014; drafter /models/DFlash -> /models/DFlash2-FP8"


class Judge:
    """Its state is the outline itself."""

    about = "target"

    def outline(
        self, state: dict[str, Any], _facts: Mapping[str, Any], profile: Profile
    ) -> dict[str, Any]:
        assert profile is DECLARED
        return dict(state)


def place(verdict: str = "safe", path: str = ROOT, **more: Any) -> dict[str, Any]:
    """A directory that one launch filled on the 6th; stale: and another one loads it since."""
    fills = [fill(OLD, 24, compiled=True, changed=CHANGED), fill(NEW, 17, compiled=False)]
    return {
        "path": path, "kind": "vllm", "by": "VLLM_CACHE_ROOT", "files": 1234,
        "bytes": 1_300_000_000, "oldest": NOW - 24 * DAY, "newest": NOW - 24 * DAY + 600,
        "verdict": verdict, "words": f"{verdict} it is",
        "fills": fills if verdict == "stale" else [fill(NEW, 17, compiled=True)],
        "aside": [], "stamp": "no stamp", **more,
    }  # fmt: skip


def fill(digest: str, days: float, **more: Any) -> dict[str, Any]:
    """A launch that used a place, first so many days ago."""
    at = {"first": NOW - days * DAY, "last": NOW - days * DAY + 3600}
    return {"digest": digest, **at, "compiled": None, "origin": "seen", "changed": "", **more}


def sign(name: str, says: str, text: str = "it says so") -> dict[str, str]:
    return {"name": name, "says": says, "text": text}


def start(verdict: str = "cold", **more: Any) -> dict[str, Any]:
    """The last start, 600 s from process to first answer."""
    signs = [
        sign("log", "unclear", "no log was read"),
        sign("artifacts", "cold" if verdict == "cold" else "unclear", f"{ROOT} was filled by it"),
        sign("time", "warm" if verdict == "warm" else "unclear", "it took 600 s"),
    ]
    return {
        "start": NOW - 17 * DAY, "up_seconds": 600.0, "verdict": verdict, "signs": signs,
        "after_aside": None, "digest": NEW, "changed": CHANGED, **more,
    }  # fmt: skip


def outline(*places: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What is known of one target, as the check says it."""
    now = {
        "digest": NEW, "partial": False, "unread": [],
        "factors": [{"name": "model", "shown": "/models/qwen3"},
                    {"name": "drafter", "shown": "/models/DFlash2-FP8"}],
    }  # fmt: skip
    return {
        "now": now, "places": list(places) or [place()], "starts": [start()],
        "floors": {"cold": 594.0, "warm": 320.0, "by": "declared"},
        "asked": NOW - 60, "unknown": "", **more,
    }  # fmt: skip


def assessor(known: dict[str, dict[str, Any] | None], **facts: Any) -> Assessor:
    """An assessor that watches this host, and targets of it of which so much is known."""
    watches = {HOST: Watch(History(HOST), {})}
    for target, state in known.items():
        about = labels(target=target)
        states = {} if state is None else {about: {CHECK: state}}
        watch = Watch(History(target, DECLARED), {CHECK: Judge()}, states, here=True)
        since = {s.PROCESS_START: NOW - 17 * DAY}
        page = Reading("vllm_metrics", target, (Sample(about, s.PROCESS_START, NOW),))
        watch.newest = Window(about, NOW, levels=since, facts=facts, readings=(page,))
        watches[target] = watch
    return Assessor("gpu-1", "1.0", watches, AlertBook())


def answer(known: dict[str, dict[str, Any] | None], **facts: Any) -> dict[str, Any]:
    """What the daemon answers."""
    from watchdog import caches  # noqa: PLC0415  (a test of the table needs no more)

    return {
        "product": "serving-watchdog", "version": "1.0", "host": "gpu-1",
        "at": "2026-11-30T12:00:00Z", "targets": list(known),
        "caches": caches.rows(assessor(known, **facts)),
    }  # fmt: skip
