"""What comes and goes from day to day is no factor, unless it is configured to be one."""

from __future__ import annotations

import pytest

from watchdog.domain.factors import counts


@pytest.mark.parametrize(
    "name",
    [
        "env CUDA_VISIBLE_DEVICES", "env HIP_VISIBLE_DEVICES", "env VLLM_QWEN_SERVICE_HOST",
        "env VLLM_QWEN_SERVICE_PORT_HTTP", "env VLLM_QWEN_PORT", "env VLLM_QWEN_PORT_8000_TCP",
        "env VLLM_QWEN_PORT_8000_TCP_ADDR", "load-format", "lora-modules", "scheduling-policy",
    ],
)  # fmt: skip
def test_which_card_and_which_other_services_there_are_is_no_factor(name: str) -> None:
    assert not counts(name)
    assert counts(name, more=(name,))


@pytest.mark.parametrize(
    "name", ["env CUDA_X", "env HIP_X", "env VLLM_PORTS", "env VLLM_SERVICE", "env VLLM_PORT_X"]
)
def test_what_only_looks_like_it_counts(name: str) -> None:
    assert counts(name)
