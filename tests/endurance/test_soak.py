"""A slice of `make soak`: hours of a fast clock, and nothing that is held for ever."""

from __future__ import annotations

from pathlib import Path

from tests.endurance.forked import Nursery
from tests.endurance.soak import Sample, Soak, slope


def test_hours_of_faults_leave_no_thread_and_no_descriptor_behind(
    tmp_path: Path, nursery: Nursery
) -> None:
    soak = Soak(tmp_path, days=0.25, seed=2, speed=1500.0, every=1.0, nursery=nursery)
    samples = soak.run()
    early, late = samples[1:3], samples[-2:]
    assert min(s.threads for s in late) <= max(s.threads for s in early)
    assert min(s.descriptors for s in late) <= max(s.descriptors for s in early)
    assert late[-1].rss < early[0].rss + 25, "more than a warm-up's megabytes"
    assert late[-1].database < 16
    assert soak.failed == 0
    assert sum(soak.happened.values()) > 10


def test_growth_is_seen() -> None:
    """A line of 3 MB a day on top of noise is a slope of 3."""
    noise = (0.2, -0.2)
    samples = [Sample(12.0 * i, 0, 60 + 1.5 * i + noise[i % 2], 1, 1, 0.0, 0) for i in range(8)]
    assert abs(slope(samples) - 3.0) < 0.2
