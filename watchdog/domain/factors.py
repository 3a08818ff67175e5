"""
Which facts of a launch change compiled graphs, and which do not: one table, a reason for each row.

A name is that of a factor of a fingerprint; `*` at its end stands for any rest. Of two rows that
fit a name the more exact one decides, and a name that no row fits counts: a needless miss costs
one compilation, a wrong hit costs a drafter. Names are those of vLLM 0.8 to 0.33; what its own
key leaves out is in each version's `compute_hash` and `envs.compile_factors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

ENV: Final = "env "
"""What stands before the name of an environment variable."""


class Row(NamedTuple):
    """Names that share a reason; each may end in `*`."""

    reason: str
    names: tuple[str, ...]


def _row(reason: str, names: str) -> Row:
    return Row(reason, tuple(name.strip() for name in names.split(",")))


GRAPHS: Final = (
    _row("another image is other code, kernels and compilers under the same name", "image"),
    _row("graphs are made for one model", "model, model config, model tensors, revision"),
    _row("weights or code that were swapped under the same path", "model files"),
    _row("the form of the weights chooses the kernels", "quantization, model quantization, dtype"),
    _row(
        "the drafter has graphs of its own; vLLM's key misses it or its weights",
        "drafter, drafter files, drafter config, drafter tensors, drafter quantization",
    ),
    _row("depth and method shape the drafter's graphs; vLLM's key misses the depth and most keys",
         "speculative-config *"),
    _row(
        "how the model is split decides the shapes and the collectives in each graph",
        "tensor-parallel-size, pipeline-parallel-size, data-parallel-size, "
        "decode-context-parallel-size, prefill-context-parallel-size, enable-expert-parallel",
    ),
    _row("graphs are what these versions compile", "version *"),
    _row("kernels are built for one architecture; the count goes with the split", "gpu *"),
    _row("how, and how much of it, is compiled and captured",
         "compilation-config *, optimization-level, enforce-eager, cudagraph-capture-sizes, "
         "max-cudagraph-capture-size"),
    _row("they bound the shapes that are compiled",
         "max-model-len, max-num-seqs, max-num-batched-tokens, block-size"),
    _row("it chooses the kernels that a graph calls",
         "attention-backend, attention-config *, kernel-config *, moe-backend, linear-backend, "
         "kv-cache-dtype, disable-custom-all-reduce"),
    _row("they rewrite the model's configuration or classes",
         "hf-overrides, hf-overrides *, model-impl, additional-config *, trust-remote-code"),
    _row("switches of the engine; vLLM's key misses those that are not declared to it",
         "env VLLM_*"),
    _row("switches of the Radiance kernels: they are the feature set", "env RADIANCE_*"),
    _row("they choose and build AMD's kernels; vLLM's key has none of them", "env AITER_*"),
    _row("they choose how kernels are compiled; vLLM's key has none of them",
         "env TRITON_*, env TORCH*"),
    _row("they change what the runtime offers to a kernel",
         "env HIP_*, env HSA_*, env CUDA_*"),
    _row("they choose collectives, and those are captured with the graph", "env NCCL_*"),
)  # fmt: skip
"""What changes graphs. The rows of `env` are the families of variables that are looked at."""

QUIET: Final = (
    _row("where the server listens",
         "host, port, uds, grpc, grpc-port, root-path, data-parallel-supervisor-port, "
         "dp-supervisor-probe-*, env VLLM_PORT, env VLLM_HOST_IP, env VLLM_LOOPBACK_IP, "
         "env VLLM_RPC_BASE_PATH"),
    _row("where its parts find each other",
         "master-addr, master-port, data-parallel-address, data-parallel-rpc-port, "
         "env VLLM_DP_MASTER_IP, env VLLM_DP_MASTER_PORT, env VLLM_NIXL_SIDE_CHANNEL_*, "
         "env VLLM_P2P_SIDE_CHANNEL_*, env VLLM_EC_SIDE_CHANNEL_*, "
         "env VLLM_MOONCAKE_BOOTSTRAP_PORT, env VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME, "
         "env NCCL_SOCKET_IFNAME, env TORCHELASTIC_*"),
    _row("which part of a group it is: each rank has a folder of its own in the cache",
         "node-rank, data-parallel-rank, data-parallel-start-rank, env VLLM_DP_RANK, "
         "env VLLM_DP_RANK_LOCAL"),
    _row("who may ask, and by which secret",
         "api-key, hf-token, allow-credentials, allowed-origins, allowed-methods, "
         "allowed-headers, middleware, env VLLM_API_KEY"),
    _row("how HTTP is spoken",
         "ssl-*, enable-ssl-refresh, h11-*, enable-request-id-headers, disable-fastapi-docs, "
         "enable-offline-docs, sse-keep-alive-interval, api-server-count, "
         "env VLLM_HTTP_TIMEOUT_KEEP_ALIVE"),
    _row("what is logged",
         "uvicorn-log-level, disable-uvicorn-access-log, disable-access-log-for-endpoints, "
         "log-level, logging-config, logging-config *, log-config-file, max-log-len, "
         "enable-log-requests, disable-log-requests, enable-log-outputs, enable-log-deltas, "
         "log-error-stack, disable-log-stats, aggregate-engine-logging, "
         "enable-logging-iteration-details, use-tqdm-on-load, env VLLM_LOGGING_*, "
         "env VLLM_CONFIGURE_LOGGING, env VLLM_LOG_STATS_INTERVAL, "
         "env VLLM_DEBUG_LOG_API_SERVER_RESPONSE, env VLLM_RINGBUFFER_WARNING_INTERVAL, "
         "env VLLM_DISABLE_LOG_LOGO, env AITER_LOG_*, env NCCL_DEBUG, env NCCL_DEBUG_*, "
         "env TORCH_LOGS, env TORCH_LOGS_*, env TORCH_CPP_LOG_LEVEL, "
         "env TRITON_PRINT_AUTOTUNING"),
    _row("what is counted and reported",
         "otlp-traces-endpoint, collect-detailed-traces, show-hidden-metrics-for-version, "
         "per-request-spec-decode-metrics, kv-cache-metrics, kv-cache-metrics-sample, "
         "cudagraph-metrics, custom-histogram-buckets, enable-server-load-tracking, "
         "enable-per-request-metrics, enable-prompt-tokens-details, "
         "enable-force-include-usage, kv-events-config, kv-events-config *, profiler-config, "
         "profiler-config *, enable-mfu-metrics, jit-monitor-mode, jit-monitor-verbose, "
         "env VLLM_SERVER_DEV_MODE, env VLLM_USAGE_*, env VLLM_NO_USAGE_STATS, "
         "env VLLM_DO_NOT_TRACK"),
    _row("text before and after the model",
         "served-model-name, chat-template, chat-template-content-format, "
         "trust-request-chat-template, default-chat-template-kwargs, "
         "default-chat-template-kwargs *, response-role, enable-auto-tool-choice, "
         "exclude-tools-when-tool-choice-none, tool-call-parser, tool-parser-plugin, "
         "tool-server, tool-strict-level, reasoning-parser, reasoning-parser-plugin, "
         "return-tokens-as-token-ids, enable-tokenizer-info-endpoint, tokenizer, "
         "tokenizer-mode, tokenizer-revision, stream-interval, fingerprint-mode, "
         "fingerprint-value"),
    _row("the seed of sampling; vLLM's key leaves it out", "seed"),
    _row("how long is waited, how many wait in line",
         "shutdown-timeout, distributed-timeout-seconds, cpu-distributed-timeout-seconds, "
         "max-num-queued-reqs, max-num-queued-tokens, scheduling-policy, "
         "env VLLM_ENGINE_READY_TIMEOUT_S, env VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS, "
         "env VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS, env VLLM_KEEP_ALIVE_ON_ENGINE_DEATH"),
    _row("how weights are read, not what they are",
         "download-dir, safetensors-prefetch-*, max-parallel-loading-workers, load-format, "
         "safetensors-load-strategy, model-loader-extra-config, model-loader-extra-config *, "
         "ignore-patterns, pt-load-map-location, env VLLM_SKIP_MODEL_NAME_VALIDATION, "
         "env VLLM_USE_MODELSCOPE"),
    _row("memory for the KV cache, and reuse of prefixes; vLLM's key leaves them out",
         "gpu-memory-utilization, kv-cache-memory-bytes, num-gpu-blocks-override, swap-space, "
         "enable-prefix-caching, prefix-caching-hash-algo, env VLLM_CPU_KVCACHE_SPACE"),
    _row("how pictures and sound are fetched",
         "allowed-local-media-path, allowed-media-domains, trust-request-mm-kwargs, "
         "env VLLM_MEDIA_*, env VLLM_IMAGE_FETCH_TIMEOUT, env VLLM_VIDEO_FETCH_TIMEOUT, "
         "env VLLM_AUDIO_FETCH_TIMEOUT, env VLLM_MAX_AUDIO_*, env VLLM_MAX_IMAGE_PIXELS, "
         "env VLLM_ASSETS_CACHE, env VLLM_ASSETS_CACHE_*"),
    _row("where a cache lies, not what is in it",
         "compilation-config cache_dir, compilation-config local_cache_dir, "
         "compilation-config debug_dump_path, env VLLM_CACHE_ROOT, env VLLM_CONFIG_ROOT, "
         "env VLLM_XLA_CACHE_PATH, env VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR, "
         "env VLLM_DEBUG_DUMP_PATH, env VLLM_LORA_RESOLVER_CACHE_DIR, env TRITON_CACHE_DIR, "
         "env TRITON_DUMP_DIR, env TORCHINDUCTOR_CACHE_DIR, env TORCH_COMPILE_DEBUG_DIR, "
         "env TORCH_HOME, env CUDA_CACHE_PATH, env CUDA_CACHE_MAXSIZE, env AITER_JIT_DIR"),
    _row("whether a cache is used, not what is compiled",
         "env VLLM_DISABLE_COMPILE_CACHE, env VLLM_FORCE_AOT_LOAD, "
         "env VLLM_ENABLE_STARTUP_PLAN, env TORCHINDUCTOR_FORCE_DISABLE_CACHES"),
    _row("which of the host's cards it is; vLLM's key leaves it out, and has the card's kind",
         "gpu uuid, gpu uuids, gpu address, gpu addresses, device-ids, "
         "env CUDA_VISIBLE_DEVICES, env HIP_VISIBLE_DEVICES"),
    _row("which processors serve it, and how its processes are made",
         "numa-bind, numa-bind-nodes, numa-bind-cpus, fail-on-environ-validation, "
         "env VLLM_WORKER_MULTIPROC_METHOD, env VLLM_ENABLE_V1_MULTIPROCESSING, "
         "env VLLM_TRITON_JIT_WARMUP_NUM_THREADS, env VLLM_V1_OUTPUT_PROC_CHUNK_SIZE"),
    _row("adapters that are there from the start: weights, beside how many and how large",
         "lora-modules"),
    _row("what is sampled, and allowed to be, after the graph",
         "max-logprobs, structured-outputs-config, structured-outputs-config *, "
         "guided-decoding-backend"),
    _row("the toolkit compiles kernels, not the driver, which may change with each kernel update",
         "gpu driver"),
)  # fmt: skip
"""What does not change graphs, and so is no factor."""

FAMILIES: Final = tuple(
    name.removeprefix(ENV)[:-1] for row in GRAPHS for name in row.names if name.startswith(ENV)
)
"""First letters of the environment variables that are looked at."""

_LINKED: Final = re.compile(
    r"env \w+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)
"""
Variables by which Kubernetes and Docker tell of other services, and ports at large: a service
that is called `vllm-qwen` puts VLLM_QWEN_SERVICE_HOST into every pod that starts after it.
"""

_SHOUTED: Final = re.compile(r"[A-Z][A-Z0-9_]*\*?")


def counts(name: str, more: Sequence[str] = (), less: Sequence[str] = ()) -> bool:
    """Whether a factor of this name counts; `more` and `less` are configured, as `named` says."""
    if _fit(name, map(named, more)):
        return True
    if _fit(name, map(named, less)):
        return False
    if _LINKED.fullmatch(name):
        return False
    quiet = _fit(name, (n for row in QUIET for n in row.names))
    return not quiet or _fit(name, (n for row in GRAPHS for n in row.names)) > quiet


def known(name: str) -> bool:
    """Whether a row fits this name."""
    return _LINKED.fullmatch(name) is not None or any(
        _fit(name, row.names) for row in (*GRAPHS, *QUIET)
    )


def watched(variable: str, more: Sequence[str] = ()) -> bool:
    """Whether an environment variable is of a family, or configured to count."""
    return variable.startswith(FAMILIES) or _fit(ENV + variable, map(named, more)) > 0


def looked_at(name: str, more: Sequence[str] = (), less: Sequence[str] = ()) -> bool:
    """Whether a factor of this name would be in a fingerprint that is made with these names."""
    return counts(name, more, less) and (
        not name.startswith(ENV) or watched(name[len(ENV) :], more)
    )


def named(text: str) -> str:
    """
    Return a factor's name of what people write.

    `VLLM_X` is a variable, `--max_model_len` an option; names of factors stay what they are.
    """
    text = text.strip()
    if _SHOUTED.fullmatch(text):
        return ENV + text
    if text.startswith(ENV):
        return text
    first, space, rest = text.lstrip("-").replace(".", " ", 1).partition(" ")
    return first.replace("_", "-") + space + rest


def rank(name: str) -> tuple[int, str]:
    """Sort factors as the table does: what is most often the cause comes first."""
    rows = (i for i, row in enumerate(GRAPHS) if _fit(name, row.names))
    return next(rows, len(GRAPHS)), name


def _fit(name: str, patterns: Iterable[str]) -> int:
    """Return how many letters the most exact pattern that fits has, doubled; a whole name wins."""
    best = 0
    for pattern in patterns:
        if pattern == name:
            return 2 * len(name) + 1
        if pattern.endswith("*") and name.startswith(pattern[:-1]):
            best = max(best, 2 * (len(pattern) - 1))
    return best
