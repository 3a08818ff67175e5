"""vLLM's options as data: other names, which take no value and which take several (0.8 to 0.33)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHORT: Final = MappingProxyType(
    {
        "-asc": "api-server-count",
        "-q": "quantization",
        "-pp": "pipeline-parallel-size",
        "-n": "nnodes",
        "-r": "node-rank",
        "-tp": "tensor-parallel-size",
        "-dcp": "decode-context-parallel-size",
        "-pcp": "prefill-context-parallel-size",
        "-dp": "data-parallel-size",
        "-dpn": "data-parallel-rank",
        "-dpr": "data-parallel-start-rank",
        "-dpl": "data-parallel-size-local",
        "-dpa": "data-parallel-address",
        "-dpp": "data-parallel-rpc-port",
        "-dpb": "data-parallel-backend",
        "-dph": "data-parallel-hybrid-lb",
        "-dpe": "data-parallel-external-lb",
        "-dpm": "data-parallel-multi-port-external-lb",
        "-ep": "enable-expert-parallel",
        "-sc": "speculative-config",
        "-dc": "diffusion-config",
        "-cc": "compilation-config",
        "-ac": "attention-config",
        "-O": "optimization-level",  # with an object of JSON, or a dot, it is compilation-config
    }
)
"""Short names."""

LONG: Final = MappingProxyType(
    {
        "device-memory-utilization": "gpu-memory-utilization",
        "spec-method": "speculative-config.method",
        "spec-model": "speculative-config.model",
        "spec-tokens": "speculative-config.num_speculative_tokens",
        "speculative-model": "speculative-config.model",
        "num-speculative-tokens": "speculative-config.num_speculative_tokens",
    }
)
"""Other long names; some are a key of an object."""

FLAGS: Final = _words(
    "aggregate-engine-logging async-scheduling calculate-kv-scales cohere-is-reasoning-model "
    "cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb "
    "data-parallel-multi-port-external-lb dcp-q-replicate enforce-eager "
    "exclude-tools-when-tool-choice-none fail-on-environ-validation fully-sharded-loras grpc "
    "headless interleave-mm-strings jit-monitor-verbose kv-cache-metrics "
    "kv-sharing-fast-prefill language-model-only log-error-stack "
    "long-prefill-token-threshold-adaptive mm-device-do-normalize mm-encoder-only numa-bind "
    "ray-workers-use-nsight return-sampling-mask return-tokens-as-token-ids "
    "scheduler-reserve-full-isl sleep-mode-offload-cudagraph specialize-active-lora "
    "swa-bounded-replay tokens-only"
)
"""Options without a value, beside those that begin as flags do."""

_BEGINNINGS: Final = ("allow-", "disable-", "enable-", "no-", "skip-", "trust-", "use-")
_VALUED: Final = _words("disable-access-log-for-endpoints")

MANY: Final = _words(
    "allowed-media-domains api-key collect-detailed-traces cpu-offload-params "
    "cudagraph-capture-sizes ignore-patterns kv-cache-dtype-skip-layers logits-processors "
    "lora-modules lora-target-modules numa-bind-cpus numa-bind-nodes offload-params "
    "served-model-name sleep-preserve-parameter-names"
)
"""Options that take every word up to the next option."""


def is_flag(name: str) -> bool:
    """Whether an option takes no value."""
    return name in FLAGS or (name.startswith(_BEGINNINGS) and name not in _VALUED)
