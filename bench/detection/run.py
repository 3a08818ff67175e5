"""
Put the shipped checks on trial over simulated lives and faults, and write down what came of it.

    make detection                      # a slice of a few minutes
    make detection ARGS=--whole         # all of it, for bench/detection/results.json

Each unit of work is kept once done, below .cache/detection in a folder of its own for each
version of the checks and of the generator: a run that was stopped goes on where it ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from bench.detection.interruptions import DAY, of_day
from bench.detection.plan import (
    HistoryUnit,
    LifeUnit,
    PromqlLifeUnit,
    PromqlSpliceUnit,
    SpliceUnit,
    Unit,
    everything,
)
from bench.detection.streams import Streams
from bench.detection.tables import reached

ROOT: Final = Path(__file__).parents[2]

JUDGES: Final = ("watchdog/checks", "watchdog/domain", "bench/detection")
"""What the results depend on: with other sources of these they are others."""

SHIPPED: Final = "shipped checks"
"""The detector that is on trial; the others are rules in PromQL."""

READS_ONLY: Final = frozenset(
    {
        "run.py",
        "tally.py",
        "goals.py",
        "tables.py",
        "plots.py",
        "bound.py",
        "assumptions.py",
        "alone.py",
        "restarts.py",
    }
)
"""Files of bench/detection that change no result."""

QUICK: Final = 0.04
"""The part of a year, and of each number of faults, that the quick slice takes."""


def main() -> int:
    """Run it as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--whole", action="store_true", help="all of it (hours)")
    parser.add_argument("--only", default="", help="units whose name has these words")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side")
    parser.add_argument("--list", action="store_true", help="name the units and end")
    parser.add_argument("--so-far", action="store_true", help="write what is done, and do no more")
    parser.add_argument("--to", type=Path, help="where the results go")
    asked = parser.parse_args()
    part = 1.0 if asked.whole else QUICK
    units = [unit for unit in everything(part) if asked.only in unit.key]
    if asked.list:
        print("\n".join(unit.key for unit in units))
        return 0
    if not asked.so_far:
        _work(units, asked.jobs)
    done = _done(units)
    whole = asked.whole and not asked.only
    to = asked.to or (ROOT / "bench/detection/results.json" if whole else _folder() / "slice.json")
    told = {**results(done), "units": {"done": len(done), "planned": len(units)}}
    to.write_text(_text(told), encoding="utf-8")
    print(reached(told))
    _say(f"written: {to}, of {len(done)} of {len(units)} units of work" + (
        "" if whole else "; this is a slice: its figures are too few to be those of the page"
    ))  # fmt: skip
    return 0


def _work(units: Sequence[Unit], jobs: int) -> None:
    """Do what is not done yet, in so many processes."""
    folder = _folder()
    files = _files(units)
    todo = [unit for unit in units if not files[unit.key].exists()]
    began = time.monotonic()
    _say(f"{len(units)} units of work, {len(units) - len(todo)} done before; in {folder}")
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(_one, unit, files[unit.key]): unit for unit in todo}
        for number, future in enumerate(as_completed(running), 1):
            seconds = future.result()
            spent = time.monotonic() - began
            left = spent / number * (len(todo) - number)
            _say(f"{number}/{len(todo)} {running[future].key}: {seconds:.0f} s; "
                 f"{spent / 60:.0f} min so far, about {left / 60:.0f} to go")  # fmt: skip


def _done(units: Sequence[Unit]) -> list[tuple[Unit, Any]]:
    """Return what came of each unit that was done, in the order of the plan."""
    files = _files(units)
    done = [unit for unit in units if files[unit.key].exists()]
    return [(unit, json.loads(files[unit.key].read_text("utf-8"))) for unit in done]


def _files(units: Sequence[Unit]) -> dict[str, Path]:
    folder = _folder()
    return {unit.key: folder / f"{_plain(unit.key)}.json" for unit in units}


def _one(unit: Unit, file: Path) -> float:
    """Do one unit and keep what came of it; a file that is there is whole. Returns CPU seconds."""
    began = time.process_time()
    told = unit.work()
    spare = file.with_suffix(".part")
    spare.write_text(json.dumps(told), encoding="utf-8")
    spare.replace(file)
    return time.process_time() - began


def _text(told: Mapping[str, Any]) -> str:
    """As JSON with a row a line: small, and a change of one row is a change of one line."""
    parts = []
    for key, value in told.items():
        rows = value if isinstance(value, list) else None
        text = json.dumps(value) if rows is None else (
            "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]"
        )  # fmt: skip
        parts.append(f"{json.dumps(key)}: {text}")
    return "{" + ",\n".join(parts) + "}\n"


@lru_cache(maxsize=1)  # a run stays with what it began with
def _folder() -> Path:
    digest = hashlib.sha256()
    for file in sorted(f for folder in JUDGES for f in (ROOT / folder).rglob("*.py")):
        if file.parent.name == "detection" and file.name in READS_ONLY:
            continue
        digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    folder = ROOT / ".cache/detection" / digest.hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def results(done: Iterable[tuple[Unit, Any]]) -> dict[str, Any]:
    """Join the units of one row of a table."""
    lives: dict[tuple[str, str, str], list[tuple[LifeUnit, Any]]] = {}
    faults: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for unit, told in done:
        if isinstance(unit, PromqlLifeUnit | LifeUnit):
            life = unit if isinstance(unit, LifeUnit) else unit.life
            lives.setdefault((life.name, life.setting.profile, life.role), []).append((life, told))
        elif isinstance(unit, PromqlSpliceUnit):
            of = unit.faults
            for part in told[of.name]:
                for rule, one in part.items():
                    faults.setdefault((of.name, of.setting.profile, rule), []).append(one)
        else:
            for name, parts in told.items():
                row = faults.setdefault((name, unit.setting.profile, SHIPPED), [])
                row += ({**part, "blind_s": _unread(unit, part)} for part in parts)
    return {
        "commit": _commit(),
        "lives": [_life(*names, parts) for names, parts in lives.items()],
        "faults": [_fault(*names, parts) for names, parts in faults.items() if parts],
    }


def _unread(unit: SpliceUnit | HistoryUnit, part: Mapping[str, Any]) -> float:
    """Seconds of a fault's delay in which no page could be read; none where it was not found."""
    if not part["found"]:
        return 0.0
    streams, interval = Streams(unit.seed), unit.setting.interval
    begins, found, missed = part["begins"], part["begins"] + part["delay_s"], 0
    for index in range(int(begins // DAY), int((found - 1) // DAY) + 1):
        first, last = (max(0, round((at - index * DAY) / interval)) for at in (begins, found))
        missed += int((~of_day(streams, index, interval).read[first:last]).sum())
    return missed * interval


def _life(
    name: str, profile: str, role: str, parts: Sequence[tuple[LifeUnit, Any]]
) -> dict[str, Any]:
    """One row: lives of one setting, and all alarms in them by detector."""
    judged = [(unit, told) for unit, told in parts if "years" in told]
    alarms: dict[str, dict[str, float]] = {}
    for _, told in parts:
        for detector, counted in told["alarms"].items():
            to = alarms.setdefault(detector, {"episodes": 0, "seconds": 0.0})
            to["episodes"] += counted["episodes"]
            to["seconds"] += counted["seconds"]
    setting = parts[0][0].setting
    return {
        "name": name,
        "profile": profile,
        "sd": setting.sd,
        "odd": setting.odd_per_year,
        "engines": setting.engines,
        "jitter": setting.jitter,
        "seeds": [unit.seed for unit, _ in judged],
        "role": role,
        "years": sum(told["years"] for _, told in judged),
        "seconds": sum(told["seconds"] for _, told in judged),
        "alarms": {
            detector: {"episodes": n["episodes"], "seconds": round(n["seconds"], 1)}
            for detector, n in sorted(alarms.items())
        },
    }


def _fault(
    name: str, profile: str, detector: str, parts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One row: faults of one kind, and how they were found."""
    found = [part for part in parts if part["found"]]
    rules = [part["rule"] for part in found]
    delays = {
        f"delays_{of}": [part[f"delay_{of}"] for part in found]
        for of in ("s", "drafts", "updates", "requests")
    }
    return {
        "name": name,
        "profile": profile,
        "role": "fault",
        "n": len(parts),
        "found": len(found),
        **delays,
        "blind_s": [part.get("blind_s", 0.0) for part in found],
        "alerts": [len(part["raised"]) for part in parts],
        "raised": _counts(detector for part in parts for detector in part["raised"]),
        "resolve_s": [part["resolve_s"] for part in found],
        "detector": detector,
        "rule": max(rules, key=rules.count, default=""),
        "rules": _counts(rules),
        "seconds": sum(part.get("seconds", 0.0) for part in parts),
    }


def _counts(words: Iterable[str]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for word in words:
        counted[word] = counted.get(word, 0) + 1
    return counted


def _commit() -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return told.stdout.strip()


def _plain(key: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "_" for c in key)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
