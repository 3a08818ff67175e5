"""
vLLM's names on the wire as data: which of our words each of them feeds.

The one place to touch when vLLM renames a series. Names are without their prefix: `vllm:` in
vLLM's own page, `vllm_` where an exporter may not write colons, `ray_vllm_` from Ray's agent.
Presence by release: vLLM 0.8 to 0.33, V1 engine.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from watchdog.domain import series as s


class Wire(NamedTuple):
    """
    One name on the wire.

    `word` is ours. Where several names feed one word of one engine, the lowest `rank` present is
    taken and the others are left: they count the same thing. `only` is a label and its value
    that a sample must have. `position` says that the label of that name completes the word.
    """

    word: str
    rank: int = 0
    only: tuple[str, str] | None = None
    position: bool = False


_COUNTERS: Final = {
    "spec_decode_num_drafts": s.DRAFTS,
    "spec_decode_num_draft_tokens": s.DRAFT_TOKENS,
    "spec_decode_num_accepted_tokens": s.ACCEPTED_TOKENS,
    "generation_tokens": s.GENERATED_TOKENS,
    "prompt_tokens": s.PROMPT_TOKENS,
    "num_preemptions": s.PREEMPTIONS,
    "prefix_cache_queries": s.PREFIX_QUERIES,
    "prefix_cache_hits": s.PREFIX_HITS,
    "request_success": s.FINISHED,
}

# Deprecated names, read only where the new one is absent.
_OLD_COUNTERS: Final = {
    "gpu_prefix_cache_queries": s.PREFIX_QUERIES,
    "gpu_prefix_cache_hits": s.PREFIX_HITS,
}

_PER_POSITION: Final = "spec_decode_num_accepted_tokens_per_pos"

_PLAIN: Final = {
    # Counts and sums of histograms. iteration_tokens_total is a histogram in spite of its name;
    # the two latencies are the same observations under the new and the old name.
    "time_to_first_token_seconds_count": Wire(s.FIRST_TOKENS),
    "inter_token_latency_seconds_count": Wire(s.UPDATES),
    "inter_token_latency_seconds_sum": Wire(s.UPDATE_SECONDS),
    "time_per_output_token_seconds_count": Wire(s.UPDATES, 1),
    "time_per_output_token_seconds_sum": Wire(s.UPDATE_SECONDS, 1),
    "iteration_tokens_total_count": Wire(s.ITERATIONS),
    # Gauges.
    "num_requests_running": Wire(s.RUNNING),
    "num_requests_waiting": Wire(s.WAITING),
    "kv_cache_usage_perc": Wire(s.KV_USAGE),
    "gpu_cache_usage_perc": Wire(s.KV_USAGE, 1),
    "engine_sleep_state": Wire(s.AWAKE, only=("sleep_state", "awake")),
    "generation_tokens_created": Wire(s.CREATED),
}

POSITION_LABEL: Final = "position"
MODEL_LABEL: Final = "model_name"
ENGINE_LABEL: Final = "engine"
REPLICA_LABEL: Final = "ReplicaId"  # only Ray has it

PROCESS_START: Final = "process_start_time_seconds"
"""The page's own name, without a prefix."""

V0_ONLY: Final = frozenset(
    {
        "spec_decode_draft_acceptance_rate",
        "spec_decode_efficiency",
        "num_requests_swapped",
        "cpu_cache_usage_perc",
    }
)
"""Gauges of the V0 engine, whose counters grow quadratically: no window can judge them."""

HIGHEST: Final = frozenset({s.KV_USAGE, s.CREATED, s.AWAKE, s.PROCESS_START})
"""Words of which several samples are not added up: the highest counts."""

OTHER_ENGINES: Final = {
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "tgi": "text-generation-inference",
    "te": "text-embeddings-inference",
    "trtllm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
    "nv_inference": "Triton",
}
"""What a name begins with, before `:` or `_`, where the page is another engine's."""


def _table() -> dict[str, tuple[Wire, ...]]:
    """Every name that is read. Ray exports some counters bare too: `_total` wins."""
    table: dict[str, tuple[Wire, ...]] = {name: (wire,) for name, wire in _PLAIN.items()}
    for rank, counters in ((0, _COUNTERS), (2, _OLD_COUNTERS)):
        for name, word in counters.items():
            table[f"{name}_total"] = (Wire(word, rank),)
            table[name] = (Wire(word, rank + 1),)
    for name, rank in ((f"{_PER_POSITION}_total", 0), (_PER_POSITION, 1)):
        table[name] = (Wire(s.ACCEPTED_AT, rank, position=True),)
    for name, rank in (("request_success_total", 0), ("request_success", 1)):
        table[name] = (
            Wire(s.FINISHED, rank),
            Wire(s.ABORTED, rank, only=("finished_reason", "abort")),
        )
    return table


WIRES: Final = _table()
"""Name on the wire, without prefix, to what it feeds."""
