"""
What a round costs, beside the library parse of the same pages and Prometheus' scrape of them.

    make bench                       everything, as a Markdown report
    make bench ARGS=rounds           1, 8 and 64 engines
    make bench ARGS=targets          100 targets
    make bench ARGS=daemon           the idle daemon's resident memory
    make bench ARGS=judging          one endpoint-year of judging, extrapolated from a week
    make bench ARGS=keeping          what the store adds to a round

Every case runs in a process of its own, so that its peak memory is its own. CPU seconds are the
process's own (user and system); the server that it reads runs in another one. Absolute times
depend on the machine: quote the ratios, which come from one run.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pages import page, served
from prometheus_client.parser import text_string_to_metric_families

from watchdog.build import assessor_of, watchdog_of
from watchdog.checks.acceptance_length import AcceptanceLength
from watchdog.clock import Clock
from watchdog.domain import series as s
from watchdog.domain.history import History
from watchdog.domain.sample import Reading, Sample, labels
from watchdog.keeping import Keeper
from watchdog.settings import Settings

ROUNDS = 60
PAIRS = 5
WARM_UP = 1000
"""Rounds before the one that is compared with Prometheus: a daemon runs for months, and Python
takes some hundreds of rounds until it is at its speed."""


def apart(case: Callable[..., dict[str, float]], *args: object) -> dict[str, float]:
    """Run a case in a fresh process; its figures, with the peak memory in MB."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (case, args))


def _measured(case: Callable[..., dict[str, float]], args: tuple[object, ...]) -> dict[str, float]:
    figures = case(*args)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def cpu_of_rounds(urls: list[str], rounds: int, warm_up: int = 3) -> dict[str, float]:
    """CPU milliseconds of one whole round: read, judge, keep, report."""
    with tempfile.TemporaryDirectory() as folder:
        return _cpu_of_rounds(urls, rounds, warm_up, Path(folder))


def _cpu_of_rounds(urls: list[str], rounds: int, warm_up: int, folder: Path) -> dict[str, float]:
    targets = [{"url": url, "name": f"t{i}"} for i, url in enumerate(urls)]
    clock = Clock(speed=1000.0)
    keeper = Keeper(folder, clock)
    watchdog = watchdog_of(Settings.model_validate({"targets": targets}), [], clock)
    watchdog.keep = lambda report: keeper.keep(watchdog.assessor, report, [])
    watchdog.read_timeout = 30.0
    errors = [r.error for _ in range(warm_up) for r in watchdog.round().readings if r.error]
    began = time.process_time()
    for _ in range(rounds):
        errors += [r.error for r in watchdog.round().readings if r.error]
    spent = time.process_time() - began
    if errors:
        raise SystemExit(f"the bench read badly: {errors[0]}")
    return {"cpu_ms": spent / rounds * 1000}


def cpu_of_library(engines: int, rounds: int) -> dict[str, float]:
    """CPU milliseconds of parsing the whole page with prometheus_client."""
    text = page(engines)
    began = time.process_time()
    for _ in range(rounds):
        for family in text_string_to_metric_families(text):
            len(family.samples)
    return {"cpu_ms": (time.process_time() - began) / rounds * 1000}


def cpu_of_prometheus(url: str, seconds: float) -> float | None:
    """CPU milliseconds of one scrape by a real Prometheus: two of them, ten scrapes apart."""
    binary = shutil.which("prometheus") or _unpacked("prometheus")
    if binary is None:
        return None
    busy = _prometheus_cpu(binary, url, "200ms", seconds)
    idle = _prometheus_cpu(binary, url, "1000s", seconds)
    return (busy - idle) / (seconds / 0.2) * 1000


def _unpacked(name: str) -> str | None:
    folder = os.environ.get("SERVING_WATCHDOG_BINARIES", "")
    path = Path(folder) / name
    return str(path) if folder and path.exists() else None


def _prometheus_cpu(binary: str, url: str, interval: str, seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: {interval}, scrape_timeout: 200ms}}\n"
            f"scrape_configs: [{{job_name: v, static_configs: [{{targets: ['{url[7:]}']}}]}}]\n"
        )
        process = subprocess.Popen(
            [binary, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=127.0.0.1:0", "--log.level=error"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            time.sleep(3)
            before = _cpu(process.pid)
            time.sleep(seconds)
            return _cpu(process.pid) - before
        finally:
            process.kill()
            process.wait()


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rounds() -> None:
    """1, 8 and 64 engines."""
    print("\n| engines | page kB | round, CPU ms | library parse, CPU ms | ratio | peak MB |")
    print("|---|---|---|---|---|---|")
    for engines in (1, 8, 64):
        turns = max(5, ROUNDS // engines)
        with served(engines) as url:
            ours = apart(cpu_of_rounds, [url], turns)
        theirs = apart(cpu_of_library, engines, max(3, turns // 4))
        size = len(page(engines)) / 1000
        ratio = ours["cpu_ms"] / theirs["cpu_ms"]
        print(f"| {engines} | {size:.0f} | {ours['cpu_ms']:.2f} | {theirs['cpu_ms']:.1f} | "
              f"{ratio:.2f} | {ours['peak_mb']:.0f} |")  # fmt: skip
    pairs = []
    with served(1) as url:
        for _ in range(PAIRS):  # in turn: other work on the machine comes and goes
            scrape = cpu_of_prometheus(url, 10.0)
            if scrape is None:
                print("\nPrometheus is not here; `make binaries` fetches it.")
                return
            ours = apart(cpu_of_rounds, [url], 400, WARM_UP)
            pairs.append((ours["cpu_ms"] / scrape, ours["cpu_ms"], scrape))
    told = ", ".join(f"{mine:.2f} / {theirs:.2f}" for _, mine, theirs in pairs)
    print(f"\nOur round / Prometheus' scrape of the one-engine page, CPU ms, in turn: {told}; "
          f"median ratio {statistics.median(pairs)[0]:.2f}.")  # fmt: skip


def targets() -> None:
    """100 targets on one server."""
    with served(1) as url:
        figures = apart(cpu_of_rounds, [url] * 100, 10)
    print(f"\n100 targets of one engine: {figures['cpu_ms']:.0f} CPU ms a round "
          f"({figures['cpu_ms'] / 150:.1f} % of one core at 15 s), "
          f"peak {figures['peak_mb']:.0f} MB.")  # fmt: skip


def daemon() -> None:
    """Resident memory of the daemon after a minute of rounds on one target."""
    with served(1) as url, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            f"targets: [{{url: '{url}'}}]\ninterval: 1s\nserver: {{listen: '127.0.0.1:0'}}\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "watchdog", "run", "--config", str(config)],
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(60)
            status = Path(f"/proc/{process.pid}/status").read_text()
            resident = next(x for x in status.splitlines() if x.startswith("VmRSS"))
            spent = _cpu(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    print(f"\nThe daemon after 60 rounds: {int(resident.split()[1]) / 1024:.0f} MB resident, "
          f"{spent:.2f} CPU s in all, start included.")  # fmt: skip


def weeks_readings(windows: int, busy_every: int = 10) -> Iterator[Reading]:
    """Readings of one engine, one busy window in so many."""
    subject = labels(target="t", engine="0", model_name="m")
    totals = dict.fromkeys(
        (s.DRAFTS, s.DRAFT_TOKENS, s.ACCEPTED_TOKENS, s.GENERATED_TOKENS, s.PROMPT_TOKENS,
         s.FIRST_TOKENS, s.UPDATES, s.UPDATE_SECONDS, s.ITERATIONS, s.FINISHED, s.ABORTED,
         *s.POSITIONS[:7], s.RUNNING, s.WAITING), 0.0,
    )  # fmt: skip
    grow = {s.DRAFTS: 160.0, s.DRAFT_TOKENS: 1120.0, s.ACCEPTED_TOKENS: 440.0, s.UPDATES: 160.0,
            s.GENERATED_TOKENS: 601.0, s.FIRST_TOKENS: 1.0, s.UPDATE_SECONDS: 4.0,
            s.ITERATIONS: 160.0, s.FINISHED: 1.0, s.PROMPT_TOKENS: 200.0}  # fmt: skip
    grow |= dict(zip(s.POSITIONS, (136.0, 96.0, 72.0, 52.0, 38.0, 27.0, 19.0), strict=False))
    samples: tuple[Sample, ...] = ()
    for i in range(windows):
        if i % busy_every == 0:
            for name, value in grow.items():
                totals[name] += value
            samples = tuple(Sample(subject, name, value) for name, value in totals.items())
        yield Reading("vllm_metrics", "t", samples)


def cpu_of_judging(windows: int) -> dict[str, float]:
    """CPU microseconds of judging one window with every check, and with the first rule alone."""
    spent = {
        "us": _judged(windows, 10),
        "moving_us": _judged(windows // 4, 1),
        "quiet_us": _judged(windows, windows),
    }
    history, rule, state = History("t"), AcceptanceLength(), None
    judged = [history.add([r], 15.0 * i).parts[0] for i, r in enumerate(weeks_readings(windows))]
    began = time.process_time()
    for i, window in enumerate(judged):
        state, _ = rule.step(state, window, 15.0 * i)
    alone = time.process_time() - began
    return {**spent, "rule_us": alone / windows * 1e6}


def _judged(windows: int, busy_every: int) -> float:
    targets = [{"url": "http://127.0.0.1:1", "name": "t"}]
    assessor = assessor_of(Settings.model_validate({"targets": targets}))
    began = time.process_time()
    for i, reading in enumerate(weeks_readings(windows, busy_every)):
        assessor.assess([reading], 15.0 * i)
    return (time.process_time() - began) / windows * 1e6


def judging() -> None:
    """One endpoint-year of 15 s windows through all checks and the alert book."""
    figures = apart(cpu_of_judging, 40_320)
    year = 365 * 86400 / 15 / 1e6
    print(f"\nJudging a week of 15 s windows of one engine: {figures['us']:.0f} CPU µs a window, "
          f"so {figures['us'] * year:.0f} CPU s a year ({figures['moving_us']:.0f} µs where every "
          f"window moves, {figures['quiet_us']:.0f} µs where none does); the dead drafter's rule "
          f"alone {figures['rule_us']:.1f} µs, {figures['rule_us'] * year:.0f} s; peak "
          f"{figures['peak_mb']:.0f} MB.")  # fmt: skip


def cpu_of_keeping(windows: int) -> dict[str, float]:
    """CPU microseconds of judging a busy window of one engine, and of keeping the round."""
    targets = [{"url": "http://127.0.0.1:1", "name": "t"}]
    assessor = assessor_of(Settings.model_validate({"targets": targets}))
    judged = kept = 0.0
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(Path(folder), Clock())
        busy = (r for i, r in enumerate(weeks_readings(10 * windows)) if i % 10 == 0)
        for i, reading in enumerate(busy):
            began = time.process_time()
            report = assessor.assess([reading], 15.0 * i)
            between = time.process_time()
            keeper.keep(assessor, report, [])
            judged += between - began
            kept += time.process_time() - between
        keeper.close()
    return {"judged_us": judged / windows * 1e6, "kept_us": kept / windows * 1e6}


def keeping() -> None:
    """What it costs that a round is on disk before anybody hears of it."""
    figures = apart(cpu_of_keeping, 4000)
    ratio = figures["kept_us"] / figures["judged_us"]
    print(f"\nKeeping a busy round of one engine, its fsync included: {figures['kept_us']:.0f} CPU "
          f"µs, {ratio:.2f} times its judging ({figures['judged_us']:.0f} µs).")  # fmt: skip


CASES = {case.__name__: case for case in (rounds, targets, daemon, judging, keeping)}


def main() -> None:
    """Run the named cases, or all."""
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    for name in sys.argv[1:] or CASES:
        CASES[name]()


if __name__ == "__main__":
    main()
