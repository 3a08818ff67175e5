"""Bad findings with their figures, and what is around them, for tests of suspects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchdog.domain.changes import RESTART, Changes, Event
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.fingerprint import fingerprint_of
from watchdog.domain.proven import Healthy, Proven, pair_of
from watchdog.domain.sample import labels
from watchdog.domain.suspect import Around, Case

NOW = 1_789_520_000.0
HOUR, DAY = 3600.0, 86400.0
ENGINE = labels(target="qwen", engine="0", model_name="m")
TARGET = labels(target="qwen")
ONSET = (NOW - 5 * HOUR, NOW - 4 * HOUR)

DEAD: Mapping[str, Any] = {
    "drafts": 170.0, "padded_drafts": 0.0, "accepted_tokens": 27.0, "generated_tokens": 200.0,
    "acceptance_length": 1.079, "draft_tokens_per_draft": 2.96, "positions": [0.067, 0.009, 0.003],
    "step_seconds": 0.039,
}  # fmt: skip
"""The incident's own figures."""

WATCHED = Changes(since=((RESTART, NOW - 30 * DAY), ("launch", NOW - 30 * DAY)))
STARTED = Event(ONSET[0] + 60, ONSET[0], RESTART, "restarted")
RELAUNCHED = Event(
    ONSET[0] + 60, ONSET[0], "launch",
    "launch image sha256:77aa -> sha256:bebc; model config 1a -> 2b; drafter /a -> /b; "
    "env RADIANCE_X (absent) -> 1; 3 more",
)  # fmt: skip


def argv(model: str = "/m/27b", drafter: str = "/m/dflash", **more: Any) -> list[str]:
    import json  # noqa: PLC0415  (one use)

    told = {"method": "dflash", "model": drafter, "num_speculative_tokens": 7, **more}
    return ["vllm", "serve", model, "--speculative-config", json.dumps(told)]


def launched(
    words: list[str] | None = None, environ: Mapping[str, str] | None = None, files: str = "1" * 8,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """The facts of a launch that was read whole; `more` goes into it."""
    one = {"config": files, "tensors": files, "quantization": "fp8", "files": files}
    launch = {
        "argv": words or argv(), "environ": dict(environ or {}), "versions": {"vllm": "0.27.1"},
        "models": {"model": one, "drafter": one}, **more,
    }  # fmt: skip
    return {"launch": launch, "launch_fingerprint": fingerprint_of(launch).as_dict()}


def healthy(
    facts: Mapping[str, Any], length: float = 3.77, days: float = 6.0, **more: Any
) -> Proven:
    """A memory of this launch's good days."""
    from watchdog.domain.proven import fingerprint_in  # noqa: PLC0415

    whole = fingerprint_in(facts)
    pair = pair_of(whole)
    one = Healthy(NOW - days * DAY, length, digest=whole.digest, factors=pair.factors,
                  unread=pair.unread)  # fmt: skip
    return Proven((one._replace(**more),))


def bad(
    alertname: str = "SpecDecodeCollapsed", check: str = "acceptance_length",
    verdict: Verdict = Verdict.CRITICAL, **evidence: Any,
) -> Finding:  # fmt: skip
    said = Argument("is bad", evidence={**DEAD, "onset": list(ONSET), **evidence})
    return Finding(
        alertname, ENGINE, verdict, lambda: said, value=1.079, unit="tokens", check=check
    )


def other(
    alertname: str, verdict: Verdict = Verdict.OK, *, about: Any = TARGET, check: str = "x",
    summary: str = "says so", conclusive: bool = True, **evidence: Any,
) -> Finding:  # fmt: skip
    said = Argument(summary, evidence=evidence)
    return Finding(alertname, about, verdict, lambda: said, conclusive, check=check)


def case(
    found: Finding | None = None, *near: Finding, changes: Changes = WATCHED, facts: Any = None,
    levels: Mapping[str, float] | None = None, proven: Proven | None = None,
    start: float | None = None,
) -> Case:  # fmt: skip
    """A finding and all that is around it."""
    found = found or bad()
    around = Around(changes, NOW, facts or {}, levels or {}, proven or Proven(), start)
    return Case(found, found.argument, near, around)


def with_events(*events: Event) -> Changes:
    return WATCHED._replace(events=events)
