"""
Kill the daemon 200 times while faults come and go, and count what arrived.

    make crash
    make crash ARGS="--kills 50 --seed 7"

The instants of the kills are drawn from the seed: in start-up, in a commit, in a post, at any
time. What is due comes from a script; docs/endurance.md says what is compared. Exit 1 where
anything is missing, doubled, or out of order; the folder with logs and state is kept then.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what it plays is among the tests

from tests.endurance.crash import Crash, Outcome


def main() -> int:
    """Run it as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=float, default=10.0, help="seconds of theirs in one real")
    parser.add_argument("--copies", type=int, default=2, help="of each kind of target")
    parser.add_argument("--burners", type=int, default=1, help="processes that only burn CPU")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    told = lambda line: print(line, flush=True)  # noqa: E731
    outcome = Crash(folder, **vars(asked), told=told).run()
    print(*lines(outcome), sep="\n")
    if outcome.deviations:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def lines(outcome: Outcome) -> list[str]:
    """Write the outcome for people."""
    ways = ", ".join(f"{count} {way}" for way, count in outcome.kills.items())
    return [
        f"{sum(outcome.kills.values())} kills ({ways}) in {outcome.seconds:.0f} s, "
        f"{outcome.rounds} rounds",
        f"{outcome.faults} faults, {outcome.due} changes due",
        *(
            f"{name}: {count} keys, {outcome.again[name]} repeated, {outcome.refused[name]} refused"
            for name, count in outcome.keys.items()
        ),
        f"Alertmanager: {outcome.notified} notifications; {outcome.flaps} flaps between its looks",
        *(outcome.deviations or ["no deviation"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
