"""
The incident of September 2026 as a recorded folder: `python -m tests.incident DIR` writes it.

A stale compile cache ate a speculative drafter: on the 6th a launcher was given another image,
other model paths and another drafter, and kept the name of the cache directory. On the 13th the
server restarted and loaded the old graphs: acceptance length 1.079 where it had been 3.766. On the
16th the directory was moved aside and the same launch started again, cold: 3.315. The figures are
the report's; the pages are those of a real vLLM with these counters in them; times of day, the
traffic between, and what the older launch was are ours. Nothing here is random.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from watchdog.demo.page import render
from watchdog.demo.simulation import BROKEN, Drafter, Life, Traffic
from watchdog.domain.fingerprint import fingerprint_of
from watchdog.domain.report import rfc3339
from watchdog.domain.sample import Reading
from watchdog.probes.vllm_page import parse_page

TARGET: Final = "qwen"
MODEL: Final = "qwen3.8-27b-mxfp4"
DIRECTORY: Final = "/mnt/models/cache/qwen38-27b-mxfp4-radiance-093"
TRIAL: Final = "/mnt/models/cache/qwen38-27b-mxfp4-trial"
"""Where the record of the 9th compiled: a directory of its own."""

BEFORE: Final = Drafter((0.780, 0.570, 0.440, 0.340, 0.260, 0.210, 0.166), 6.946)
"""Length 3.766, 39.82 % of the draft tokens: the 9th."""

AFTER: Final = Drafter((0.700, 0.480, 0.360, 0.280, 0.210, 0.160, 0.125), 7.0)
"""Length 3.315: the 16th, once it was set aside."""

OLD_IMAGE: Final = "sha256:77aa0c1d93b2" + "0" * 52
NEW_IMAGE: Final = "sha256:bebc00145d7d" + "0" * 52
SWITCHES: Final = (
    "RADIANCE_MXFP4", "RADIANCE_MXFP4_W4A8", "RADIANCE_USE_R4D", "RADIANCE_USE_R4D_AR",
    "RADIANCE_PRESHUFFLE", "RADIANCE_FUSE_RMS_QUANT",
)  # fmt: skip
VERSIONS: Final = {"vllm": "0.27.1", "torch": "2.11.0+rocm7.14", "triton": "3.6.0"}


def on(day: int, clock: str) -> float:
    """A time of September 2026, in Unix seconds."""
    hour, minute, second = map(int, clock.split(":"))
    return datetime(2026, 9, day, hour, minute, second, tzinfo=timezone.utc).timestamp()


@dataclass(frozen=True)
class Launch:
    """What is started: image, model, drafter, cache directory, and the switches that are set."""

    image: str
    model: str
    drafter: str
    directory: str = DIRECTORY
    switches: tuple[str, ...] = SWITCHES

    def facts(self, started: float) -> dict[str, Any]:
        """What the launch probe tells of it."""
        speculative = {"method": "dflash", "model": self.drafter, "num_speculative_tokens": 7}
        argv = [
            "vllm", "serve", self.model, "--tensor-parallel-size", "2", "--port", "8218",
            "--served-model-name", MODEL, "--max-model-len", "262144", "--max-num-seqs", "8",
            "--gpu-memory-utilization", "0.97",
            "--speculative-config", json.dumps(speculative),
        ]  # fmt: skip
        models = {name: _identity(path) for name, path in
                  (("model", self.model), ("drafter", self.drafter))}  # fmt: skip
        launch = {
            "argv": argv,
            "environ": {"VLLM_CACHE_ROOT": self.directory, **dict.fromkeys(self.switches, "1")},
            "image": self.image, "image_labels": {}, "versions": VERSIONS,
            "gpu": {"arch": "gfx1201", "driver": "ROCm 7.14.0"}, "models": models,
            "started_at": started, "container": "", "unread": {}, "pid": 4711, "root": "",
            "caches": [{"kind": "vllm", "path": self.directory, "by": "VLLM_CACHE_ROOT"}],
        }  # fmt: skip
        return {"launch": launch, "launch_fingerprint": fingerprint_of(launch).as_dict()}


def _identity(path: str) -> dict[str, Any]:
    """A model's identity, made of its path: another folder has other files."""
    sum_of = format(abs(hash_of(path)), "016x")[:16]
    return {"config": sum_of, "tensors": sum_of[::-1], "quantization": "mxfp4", "files": sum_of}


def hash_of(text: str) -> int:
    """A number of a text, the same in every process."""
    value = 0
    for letter in text:
        value = (value * 131 + ord(letter)) % (1 << 64)
    return value


OLD: Final = Launch(
    OLD_IMAGE, "/mnt/models/radiance/Qwen3.8-27B-MXFP4", "/mnt/models/radiance/Qwen3.8-27B-DFlash",
    switches=SWITCHES[:2],
)  # fmt: skip
NEW: Final = Launch(
    NEW_IMAGE,
    "/mnt/models/radiance/Qwen3.8-27B-MXFP4-mtpfp8",
    "/mnt/models/radiance/Qwen3.8-27B-DFlash2-FP8",
)


@dataclass(frozen=True)
class Filled:
    """A cache directory: which one it is, between which times it was filled, what is beside it."""

    inode: int
    since: float
    until: float
    path: str = DIRECTORY
    aside: tuple[tuple[str, float], ...] = ()

    def facts(self, asked: float, start: float) -> dict[str, Any]:
        """What the cache probe tells of it."""
        keys = f"{self.inode:010x}"[-10:]
        times = {"oldest": self.since, "newest": self.until}
        parts = [f"rank_{r}_0/{p}" for r in (0, 1) for p in ("backbone", "dflash_head")]
        rows = [
            {"kind": "inductor", "path": f"torch_compile_cache/{keys}", "keyed": True,
             "parts": parts, "files": 412, "bytes": 388_000_000, "factors": {}, **times},
            *(
                {"kind": "aot", "path": f"torch_compile_cache/torch_aot_compile/{keys}{n}",
                 "keyed": True, "parts": [], "files": 64, "bytes": 96_000_000, "factors": {},
                 **times}
                for n in (0, 1)
            ),
        ]  # fmt: skip
        place = {
            "kind": "vllm", "path": self.path, "by": "VLLM_CACHE_ROOT", "here": self.path,
            "id": f"66309:{self.inode}", "missing": False, "files": 540, "bytes": 580_000_000,
            **times, "entries": rows, "more": 0, "cut": "", "unread": [], "stamp": None,
            "stamp_more": 0, "stamp_fault": "",
            "aside": [{"name": name, "at": at} for name, at in self.aside],
        }  # fmt: skip
        return {"asked": asked, "start": start, "unknown": "", "places": [place]}


FIRST: Final = Filled(1001, on(1, "08:01:10"), on(1, "08:09:40"))
STALE: Final = (f"{DIRECTORY.rpartition('/')[2]}.stale-20260916T021500Z", on(16, "02:15:00"))


@dataclass(frozen=True)
class Run:
    """One process: what was started, when, how it drafts, and what lies in its cache."""

    launch: Launch
    life: Life
    cache: Filled

    @classmethod
    def of(cls, launch: Launch, started: float, took: float, drafter: Drafter, rate: float,
           cache: Filled) -> Run:  # fmt: skip
        """A run that answers `took` seconds after its start and makes `rate` steps a second."""
        life = Life(
            started, started + took, drafter, Traffic(2, 2, waiting=0, steps_per_second=rate)
        )
        return cls(launch, life, cache)


SERVING: Final = Run.of(OLD, on(1, "08:00:00"), 598.0, BEFORE, 21.0, FIRST)
RECORD: Final = Run.of(
    replace(NEW, directory=TRIAL), on(9, "20:00:00"), 601.0, BEFORE, 21.0,
    Filled(1002, on(9, "20:01:20"), on(9, "20:09:30"), TRIAL),
)  # fmt: skip
SERVING_ON: Final = Run.of(OLD, on(9, "22:00:00"), 321.0, BEFORE, 21.0, FIRST)
BROKEN_RUN: Final = Run.of(NEW, on(13, "09:00:00"), 323.0, BROKEN, 25.5, FIRST)
MENDED: Final = Run.of(
    NEW, on(16, "02:16:00"), 600.0, AFTER, 21.0,
    Filled(2002, on(16, "02:17:20"), on(16, "02:25:10"), aside=(STALE,)),
)  # fmt: skip


@dataclass(frozen=True)
class Moment:
    """One snapshot; `run` None: the port refuses."""

    at: float
    run: Run | None

    @property
    def page(self) -> str:
        """The page of metrics."""
        assert self.run is not None
        return render([self.run.life.counters(self.at)], MODEL)

    @property
    def launch(self) -> Mapping[str, Any]:
        """What was learned of the process."""
        return {} if self.run is None else self.run.launch.facts(self.run.life.started)

    @property
    def cache(self) -> Mapping[str, Any]:
        """What was learned of its compile cache."""
        return {} if self.run is None else self.run.cache.facts(self.at, self.run.life.started)

    def readings(self) -> list[Reading]:
        """The same as probes would bring it home."""
        if self.run is None:
            return [Reading("vllm_metrics", TARGET, error="connection refused", answered=False)]
        samples, facts = parse_page(TARGET, self.page)
        page = Reading("vllm_metrics", TARGET, samples, {**facts, "version": "0.27.1"})
        return [
            page, Reading("launch", TARGET, facts=self.launch),
            Reading("compile_cache", TARGET, facts={"cache": self.cache}),
        ]  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write the snapshot as `capture` does."""
        page = folder / "targets" / TARGET
        page.mkdir(parents=True)
        (folder / "at").write_text(rfc3339(self.at) + "\n")
        if self.run is None:
            (page / "metrics.error").write_text("connection refused\n")
            return
        (page / "metrics.prom").write_text(self.page)
        (page / "version.json").write_text('{"version": "0.27.1"}')
        for name, facts in (("launch", self.launch), ("cache", self.cache)):
            (folder / name).mkdir()
            (folder / name / f"{TARGET}.json").write_text(json.dumps(facts, indent=1))


def story(*, record: bool = True, mended: bool = True) -> Iterator[Moment]:
    """
    Tell the whole of it, in snapshots.

    `record`: with the measurement of the 9th, when the new launch ran an evening with a cache of
    its own; without it nobody had seen this model and this drafter together before.
    """
    for day in range(4, 10):  # on the 6th a file of the launcher changes, and nothing else
        yield from _at(SERVING, *(on(day, f"{hour:02}:00:00") for hour in (8, 12, 18)))
    if record:
        yield from _start(RECORD)
        yield from _at(RECORD, on(9, "20:30:00"), on(9, "21:30:00"))
        yield from _start(SERVING_ON)
    serving = SERVING_ON if record else SERVING
    for day in range(10, 13):
        yield from _at(serving, *(on(day, f"{hour:02}:00:00") for hour in (8, 12, 18)))
    yield from _at(serving, on(13, "08:58:00"))
    yield from _start(BROKEN_RUN)
    yield from _at(BROKEN_RUN, *(on(13, f"09:{minute}:00") for minute in (10, 20, 40)))
    for day in range(13, 16):
        yield from _at(BROKEN_RUN, *(on(day, f"{hour:02}:00:00") for hour in (12, 18)))
    if not mended:
        return
    yield from _at(BROKEN_RUN, on(16, "02:14:00"))
    yield from _start(MENDED)
    yield from _at(
        MENDED, *(on(16, f"02:{minute}:00") for minute in (30, 40, 50)), on(16, "04:00:00")
    )


def _at(run: Run, *times: float) -> Iterator[Moment]:
    for at in times:
        yield Moment(at, run)


def _start(run: Run) -> Iterator[Moment]:
    """It refuses until it is ready, and is read two seconds after."""
    yield Moment(run.life.started + 30, None)
    yield Moment(run.life.ready - 2, None)
    yield Moment(run.life.ready + 2, run)


CONFIG: Final = f"""\
targets:
- name: {TARGET}
  url: http://127.0.0.1:8218
  expect: {{speculation: true, method: dflash, depth: 7}}
  cache: {{cold_start: 594s, warm_start: 320s}}
"""


def write(directory: Path, *, record: bool = True, mended: bool = True) -> Path:
    """Write the folder, with a configuration that declares both floors."""
    directory.mkdir(parents=True)
    for number, moment in enumerate(story(record=record, mended=mended)):
        moment.write(directory / f"{number:03d}")
    (directory / "config.yaml").write_text(CONFIG)
    return directory


if __name__ == "__main__":
    write(Path(sys.argv[1]))
