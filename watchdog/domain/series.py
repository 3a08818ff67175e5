"""
The words for what is counted, shared by the probe that reads and the checks that judge.

Where vLLM's own names are mapped to these words: `watchdog/probes/vllm_series.py`.
"""

from __future__ import annotations

from typing import Final

# Counters of an engine. Tokens, drafts, requests or seconds since the process started.
DRAFTS: Final = "drafts"
DRAFT_TOKENS: Final = "draft_tokens"
ACCEPTED_TOKENS: Final = "accepted_tokens"
ACCEPTED_AT: Final = "accepted_at_"  # followed by the draft position, from 0
GENERATED_TOKENS: Final = "generated_tokens"
PROMPT_TOKENS: Final = "prompt_tokens"
FIRST_TOKENS: Final = "first_tokens"  # count of time to first token: one a request
UPDATES: Final = "updates"  # count of inter-token latency: decode updates, one a request and step
UPDATE_SECONDS: Final = "update_seconds"  # sum of inter-token latency
ITERATIONS: Final = "iterations"  # engine steps that gave output
FINISHED: Final = "finished"  # requests that ended, whatever the reason
ABORTED: Final = "aborted"  # of these, ended by the client
PREEMPTIONS: Final = "preemptions"
PREFIX_QUERIES: Final = "prefix_queries"  # prompt tokens looked up in the prefix cache
PREFIX_HITS: Final = "prefix_hits"

# Levels of an engine.
RUNNING: Final = "running"  # requests in the batch
WAITING: Final = "waiting"  # requests not yet admitted
KV_USAGE: Final = "kv_usage"  # share of the KV cache in use, 0 to 1
AWAKE: Final = "awake"  # 0 while the engine sleeps on request
CREATED: Final = "created"  # Unix time at which the counters began, where the page tells

# Levels of a target.
PROCESS_START: Final = "process_start"  # Unix time, where the page tells

# Levels of a GPU. A link's speed in GT/s and its width in lanes, as each witness tells them.
LINK_SPEED: Final = "link_speed_"  # followed by the witness
LINK_WIDTH: Final = "link_width_"
STARRED: Final = "starred"  # the starred row of pp_dpm_pcie
PORT: Final = "port"  # the slot's end of the slot's link
CARD: Final = "card"  # the card's end of it
METRICS: Final = "metrics"  # gpu_metrics
NVML: Final = "nvml"
PATH: Final = "path"  # the slowest and narrowest link above the slot's port
FUNCTION: Final = "function"  # the link inside a card with a switch: no witness of the slot
WITNESSES: Final = (STARRED, PORT, CARD, METRICS, NVML, PATH, FUNCTION)
UTILISATION: Final = "utilisation"  # percent
PSTATE: Final = "pstate"  # 0 is the fastest
EVENT_REASONS: Final = "event_reasons"  # NVML's bits of why clocks are low
MEMORY_USED: Final = "memory_used"  # bytes
MEMORY_TOTAL: Final = "memory_total"

# Counters of a GPU, followed by the address of who counts (or nvml) and the error's name.
CORRECTABLE: Final = "pcie_correctable "
NONFATAL: Final = "pcie_nonfatal "
FATAL: Final = "pcie_fatal "

_LINK_LEVELS: Final = {f"{kind}{who}" for kind in (LINK_SPEED, LINK_WIDTH) for who in WITNESSES}

LEVELS: Final = frozenset(
    {
        *(RUNNING, WAITING, KV_USAGE, AWAKE, CREATED, PROCESS_START),
        *(UTILISATION, PSTATE, EVENT_REASONS, MEMORY_USED, MEMORY_TOTAL),
        *_LINK_LEVELS,
    }
)
"""Series that go both ways. All others are counters."""

MOST_POSITIONS: Final = 64
"""More draft positions than any drafter has; a page with more makes no sense."""
POSITIONS: Final = tuple(f"{ACCEPTED_AT}{i}" for i in range(MOST_POSITIONS))
