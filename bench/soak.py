"""
Let the daemon live through days of a fast clock, and show what it holds.

    make soak
    make soak ARGS="--days 7 --seed 3"

Exit 1 where, after half a day to warm up, memory grows by more than 2 MB a day, or threads or
descriptors that never come back were added. docs/endurance.md says what happens in these days.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what it plays is among the tests

from tests.endurance.soak import Soak, slope, table

WARM_UP = 12.0  # hours
MOST = 2.0  # MB a day


def main() -> int:
    """Run it as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=float, default=430.0, help="seconds of theirs in one real")
    asked = parser.parse_args()
    told = lambda sample: print(table([sample])[1], flush=True)  # noqa: E731
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        print(table([])[0])
        soak = Soak(Path(folder), **vars(asked), told=told)
        samples = [sample for sample in soak.run() if sample.hours > WARM_UP]
    grown = slope(samples)
    print(f"happened: {', '.join(f'{n} {name}' for name, n in sorted(soak.happened.items()))}")
    print(f"looks at the port without an answer: {soak.failed}")
    print(f"after {WARM_UP:.0f} h: memory {grown:+.2f} MB a day; "
          f"threads {_span(s.threads for s in samples)}, "
          f"descriptors {_span(s.descriptors for s in samples)}")  # fmt: skip
    half = len(samples) // 2
    more = [
        min(getattr(s, what) for s in samples[half:])
        - min(getattr(s, what) for s in samples[:half])
        for what in ("threads", "descriptors")
    ]
    return int(grown > MOST or max(more) > 0)


def _span(values: object) -> str:
    numbers = list(values)  # type: ignore[call-overload]
    return f"{min(numbers)} to {max(numbers)}"


if __name__ == "__main__":
    sys.exit(main())
