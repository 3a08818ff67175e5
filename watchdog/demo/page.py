"""
Counters to the text of vLLM's metrics page.

The template is a page of a real vLLM 0.32; only the values of what is simulated are replaced,
lines of an engine are repeated for each engine, and those of a draft position for each position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Final, NamedTuple

from prometheus_client.utils import floatToGoString

from watchdog.demo.simulation import Counters

Value = Callable[[Counters], float]

MODEL: Final = "demo"
TEMPLATE: Final = "page.prom"

_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?P<labels>\{.*\})? (?P<value>\S+)")
_ENGINE, _MODEL, _POSITION = 'engine="0"', 'model_name="tiny"', 'position="0"'
_POSITIONS: Final = "vllm:spec_decode_num_accepted_tokens_per_pos"

COUNTERS: Final[Mapping[str, Value]] = {
    "vllm:spec_decode_num_drafts_total": lambda c: c.drafts,
    "vllm:spec_decode_num_draft_tokens_total": lambda c: c.draft_tokens,
    "vllm:spec_decode_num_accepted_tokens_total": lambda c: c.accepted,
    "vllm:generation_tokens_total": lambda c: c.generated,
    "vllm:prompt_tokens_total": lambda c: c.prompt_tokens,
    'vllm:prompt_tokens_by_source_total source="local_compute"': lambda c: c.prompt_tokens,
    "vllm:prefix_cache_queries_total": lambda c: c.prompt_tokens,
    'vllm:request_success_total finished_reason="length"': lambda c: c.finished,
    "vllm:num_requests_running": lambda c: c.running,
    "vllm:num_requests_waiting": lambda c: c.waiting,
    'vllm:num_requests_waiting_by_reason reason="capacity"': lambda c: c.waiting,
    "vllm:kv_cache_usage_perc": lambda c: c.running / c.traffic.slots * 0.4,
    "process_start_time_seconds": lambda c: c.started,
    "http_requests_total": lambda c: c.finished,
    "http_request_size_bytes_count": lambda c: c.finished,
    "http_request_size_bytes_sum": lambda c: c.finished * 2300,
    "http_response_size_bytes_count": lambda c: c.finished,
    "http_response_size_bytes_sum": lambda c: c.finished * 2000,
}
"""A name, or a name and one of its labels, to its value."""


class Observed(NamedTuple):
    """A histogram: how often something was observed, and what each time."""

    times: Value
    each: Value


def _whole(c: Counters) -> float:
    return c.traffic.first_token_seconds + c.answer_seconds


def _of_request(each: Value) -> Observed:
    return Observed(lambda c: c.finished, each)


HISTOGRAMS: Final[Mapping[str, Observed]] = {
    "vllm:time_to_first_token_seconds": Observed(
        lambda c: c.first_tokens, lambda c: c.traffic.first_token_seconds
    ),
    "vllm:inter_token_latency_seconds": Observed(lambda c: c.updates, lambda c: c.step_seconds),
    "vllm:iteration_tokens_total": Observed(
        lambda c: c.iterations, lambda c: c.traffic.slots * c.drafter.acceptance_length
    ),
    "vllm:request_prompt_tokens": _of_request(lambda c: c.traffic.prompt_tokens),
    "vllm:request_prefill_kv_computed_tokens": _of_request(lambda c: c.traffic.prompt_tokens),
    "vllm:request_generation_tokens": _of_request(lambda c: c.traffic.answer_tokens),
    "vllm:request_max_num_generation_tokens": _of_request(lambda c: c.traffic.answer_tokens),
    "vllm:request_params_max_tokens": _of_request(lambda c: c.traffic.answer_tokens),
    "vllm:request_params_n": _of_request(lambda _: 1),
    "vllm:request_num_preemptions": _of_request(lambda _: 0),
    "vllm:request_queue_time_seconds": _of_request(lambda _: 0),
    "vllm:request_prefill_time_seconds": _of_request(lambda c: c.traffic.first_token_seconds),
    "vllm:request_decode_time_seconds": _of_request(lambda c: c.answer_seconds),
    "vllm:request_inference_time_seconds": _of_request(_whole),
    "vllm:e2e_request_latency_seconds": _of_request(_whole),
    "vllm:request_time_per_output_token_seconds": _of_request(
        lambda c: c.answer_seconds / c.traffic.answer_tokens
    ),
    "http_request_duration_seconds": _of_request(_whole),
    "http_request_duration_highr_seconds": _of_request(_whole),
}


class _Line(NamedTuple):
    """A line of the template: `text` is all of it, or all before the value where that moves."""

    text: str
    value: Value | None = None
    at_position: Callable[[Counters, int], float] | None = None


def render(engines: Sequence[Counters], model: str = MODEL) -> str:
    """One page of these engines; all share the process of the first."""
    whole = engines[0]._replace(finished=sum(c.finished for c in engines))
    lines: list[str] = []
    for of_engine, run in _template():
        for number, counters in enumerate(engines if of_engine else [whole]):
            text = "\n".join(out for line in run for out in _written(line, counters))
            text = text.replace(_ENGINE, f'engine="{number}"') if number else text
            lines.append(text.replace(_MODEL, f'model_name="{model}"'))
    return "\n".join(lines) + "\n"


def _written(line: _Line, counters: Counters) -> list[str]:
    if line.at_position is not None:
        return [
            line.text.replace(_POSITION, f'position="{i}"')
            + f" {_number(line.at_position(counters, i))}"
            for i in range(len(counters.accepted_at))
        ]
    if line.value is None:
        return [line.text]
    return [f"{line.text} {_number(line.value(counters))}"]


def _number(value: float) -> str:
    """Write it as the library that vLLM uses does."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


@cache
def _template() -> tuple[tuple[bool, tuple[_Line, ...]], ...]:
    """Runs of lines; True where a run is one engine's."""
    text = resources.files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not _is_later_position(line)]
    runs = groupby(kept, key=lambda line: _ENGINE in line)
    return tuple((of_engine, tuple(_compiled(line) for line in run)) for of_engine, run in runs)


def _is_later_position(line: str) -> bool:
    return line.startswith(_POSITIONS) and _POSITION not in line


def _compiled(line: str) -> _Line:
    match = None if line.startswith("#") else _SAMPLE.fullmatch(line)
    if match is None:
        return _Line(line)
    name, labels = match["name"], match["labels"] or ""
    text = name + labels
    if name.startswith(_POSITIONS):
        born = name.endswith("_created")
        return _Line(text, at_position=lambda c, i: c.ready if born else c.accepted_at[i])
    value = _value_of(name, labels)
    return _Line(line) if value is None else _Line(text, value)


def _value_of(name: str, labels: str) -> Value | None:
    """Return where the value comes from, None where it stays as it was recorded."""
    if name.endswith("_created"):
        return lambda c: c.ready
    for key, value in COUNTERS.items():
        wanted, _, label = key.partition(" ")
        if wanted == name and label in labels:
            return value
    family, _, part = name.rpartition("_")
    if family not in HISTOGRAMS:
        return None
    times, each = HISTOGRAMS[family]
    if part == "bucket":
        bound = float(labels.partition('le="')[2].partition('"')[0])
        return lambda c: times(c) if each(c) <= bound else 0
    return times if part == "count" else lambda c: times(c) * each(c)
