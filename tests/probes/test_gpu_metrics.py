"""The binary gpu_metrics file: known layouts to a link, all others to a reason."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench_tree import gpu_metrics
from watchdog.probes.gpu_metrics import link
from watchdog.probes.pcie_text import Link


@pytest.mark.parametrize(
    ("card", "width", "tenths", "speed"),
    [
        ("RX 6900 XT", 16, 160, 16.0),
        ("RX 7600S", 8, 160, 16.0),
        ("trained down to Gen1", 16, 25, 2.5),
        ("at Gen3", 8, 80, 8.0),
        ("Gen5", 16, 320, 32.0),
    ],
)
def test_the_link_of_v1_3_is_in_tenths_of_gts(card, width, tenths, speed):
    assert link(gpu_metrics(tenths, width)) == Link(speed, width), card


@pytest.mark.parametrize(
    ("code", "speed"), [(1, 2.5), (2, 5.0), (3, 8.0), (4, 16.0), (5, 32.0), (6, 64.0)]
)
def test_firmware_that_gives_the_generation_is_understood(code, speed):
    assert link(gpu_metrics(code, 16)) == Link(speed, 16)


@pytest.mark.parametrize(
    ("version", "size", "at"),
    [((1, 1), 96, 74), ((1, 2), 104, 74), ((1, 3), 120, 74), ((1, 4), 288, 48)],
)
def test_each_layout_has_its_size_and_place(version, size, at):
    assert link(gpu_metrics(160, 8, version, size, at)) == Link(16.0, 8)
    wrong = gpu_metrics(160, 8, version, size + 8, at)
    major, minor = version
    assert link(wrong) == Link(reason=f"v{major}.{minor} has {size + 8} bytes, not {size}")


@pytest.mark.parametrize("version", [(1, 0), (1, 5), (1, 8), (2, 1), (3, 0)])
def test_a_layout_that_is_not_known_for_certain_states_nothing(version):
    major, minor = version
    assert link(gpu_metrics(160, 16, version)) == Link(reason=f"unknown layout v{major}.{minor}")


@pytest.mark.parametrize(
    ("tenths", "width", "told"),
    [
        (0xFFFF, 0xFFFF, Link(reason="no speed, no width")),
        (0, 16, Link(None, 16, "no speed")),
        (160, 0, Link(16.0, None, "no width")),
        (7, 16, Link(None, 16, "speed 7")),
        (24, 16, Link(None, 16, "speed 24")),
        (160, 63, Link(16.0, None, "width 63")),
    ],
)
def test_a_field_that_is_absent_or_makes_no_sense_is_told(tenths, width, told):
    assert link(gpu_metrics(tenths, width)) == told


def test_the_first_v1_1_with_fields_of_one_byte_states_nothing():
    data = bytearray(gpu_metrics(0, 0, (1, 1), 96))
    struct.pack_into("<BBH", data, 74, 16, 160, 0)
    assert link(bytes(data)).speed is None
    assert link(bytes(data)).width is None


def test_a_cut_file_states_nothing():
    whole = gpu_metrics(160, 16)
    assert link(b"") == Link(reason="empty")
    for at in range(1, 78):
        assert link(whole[:at]) == Link(reason="cut")
    assert link(whole[:78]) == Link(16.0, 16)


@given(st.binary(max_size=300), st.sampled_from([b"", struct.pack("<HBB", 120, 1, 3)]))
def test_no_bytes_raise(tail, head):
    told = link(head + tail)
    assert bool(told.reason) == (told.speed is None or told.width is None)
