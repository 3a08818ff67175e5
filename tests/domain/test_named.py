"""Whom labels name: what Prometheus, exporters and people write, on a fleet of hosts alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.domain.named import Here, named, place
from watchdog.domain.sample import HOST

HERE = Here.of(
    "GPU-1",
    ["gpu-1.rack.example", "10.0.0.5", "fd00::5"],
    {
        "qwen": "http://127.0.0.1:8000",
        "llama": "http://10.0.0.5:8001/prefix",
        "127.0.0.1:8002": "http://127.0.0.1:8002",
        "far": "https://box-7.example:8443",
        "socket": "unix:///run/vllm.sock",
    },
)


@pytest.mark.parametrize(
    ("labels", "whom"),
    [
        # this host, however it is written
        ({"host": "gpu-1"}, HOST),
        ({"host": "Gpu-1"}, HOST),
        ({"hostname": "gpu-1.rack.example"}, HOST),
        ({"node": "gpu-1.other.example"}, HOST),  # ours has a name without a domain
        ({"nodename": "10.0.0.5"}, HOST),
        ({"instance": "gpu-1:9100"}, HOST),
        ({"instance": "http://gpu-1:9100/metrics"}, HOST),
        ({"instance": "10.0.0.5:9100"}, HOST),
        ({"instance": "[fd00::5]:9100"}, HOST),
        ({"exported_host": "gpu-1", "instance": "gateway:9091"}, HOST),
        # a target, by its address
        ({"instance": "gpu-1:8000"}, "qwen"),
        ({"instance": "127.0.0.1:8000"}, "qwen"),
        ({"instance": "localhost:8000"}, "qwen"),
        ({"instance": "10.0.0.5:8001"}, "llama"),
        ({"instance": "gpu-1:8001", "job": "qwen"}, "llama"),
        ({"instance": "gpu-1:8002"}, "127.0.0.1:8002"),
        ({"instance": "box-7.example:8443"}, "far"),
        ({"instance": "https://box-7:8443/health"}, "far"),
        ({"instance": "gpu-1:80", "host": "gpu-1"}, HOST),
        # a target, by its name
        ({"target": "qwen"}, "qwen"),
        ({"target": "QWEN", "host": "gpu-1"}, "qwen"),
        ({"job": "qwen"}, "qwen"),
        ({"service": "socket"}, "socket"),
        ({"exported_target": "qwen", "instance": "gpu-1:19590"}, "qwen"),
        ({"target": "qwen", "instance": "localhost:9115"}, "qwen"),
        ({"target": "far", "host": "box-7"}, "far"),
        ({"target": "127.0.0.1:8002"}, "127.0.0.1:8002"),
        # the same name on another host of the fleet
        ({"target": "qwen", "host": "gpu-2"}, None),
        ({"target": "qwen", "instance": "gpu-2:19590"}, None),
        ({"job": "qwen", "instance": "10.0.0.6:8000"}, None),
        ({"instance": "localhost:8000", "host": "gpu-2"}, None),
        ({"host": "gpu-2", "node": "gpu-1"}, HOST),
        # others
        ({}, None),
        ({"host": ""}, None),
        ({"host": "gpu-10"}, None),
        ({"host": "gpu"}, None),
        ({"instance": "10.0.0.50:9100"}, None),
        ({"instance": "10.0.0.6:9100"}, None),
        ({"instance": "box-8:8443"}, None),
        ({"instance": "localhost:9100"}, None),
        ({"job": "vllm"}, None),
        ({"team": "gpu-1", "alertname": "qwen", "summary": "gpu-1:8000"}, None),
    ],
    ids=str,
)
def test_labels_name_us_a_target_or_nobody(labels, whom):
    assert named(labels, HERE) == whom


def test_two_hosts_whose_domains_both_are_told_and_differ_are_two():
    here = Here.of("gpu-1.north.example", [], {})
    assert named({"host": "gpu-1.north.example"}, here) == HOST
    assert named({"host": "gpu-1"}, here) == HOST
    assert named({"host": "gpu-1.south.example"}, here) is None


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("gpu-1", ("gpu-1", None)),
        (" GPU-1.:9100 ", ("gpu-1", 9100)),
        ("http://user:pw@gpu-1/x:y", ("gpu-1", 80)),
        ("https://gpu-1", ("gpu-1", 443)),
        ("[::1]:8000", ("::1", 8000)),
        ("unix:///run/x", ("", None)),
        ("a b:c:d", ("", None)),
        ("gpu-1:999999", ("", None)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, at):
    assert place(text) == at


@given(st.dictionaries(st.sampled_from(["host", "instance", "target", "job", "x"]), st.text()))
def test_no_labels_make_it_fail(labels):
    assert named(labels, HERE) in (None, HOST, *(server.name for server in HERE.servers))


def test_a_long_value_costs_little():
    for text in ("a" * 1_000_000, "[" * 1_000_000, ":" * 1_000_000, "a.://" * 200_000):
        assert named({"host": text, "instance": text}, HERE) is None
