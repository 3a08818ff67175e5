"""GPUs through whole rounds: real probes, checks, alert book and recording over a made-up /sys."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest

from tests.bench_tree import Bench, geforce, seeds_bench
from tests.telling_stories import Engine, shares
from watchdog.build import assessor_of, gpu_probes_now, watchdog_of
from watchdog.checking import record, replayed, settings_for
from watchdog.config import load
from watchdog.domain import series as s
from watchdog.domain.report import Report, as_json
from watchdog.domain.sample import HOST, Reading, Sample, labels
from watchdog.gpu_recording import GpuRecorder
from watchdog.recording import Recorder, Snapshot
from watchdog.redaction import redactor_of
from watchdog.settings import Settings
from watchdog.telling import for_people

X16 = {"generation": 3, "width": 16}
SLOTS = {
    "0000:05:00.0": X16,
    "0000:09:00.0": {"generation": 3, "width": 8, "note": "bifurcated"},
    "0000:86:00.0": X16,
    "0000:89:00.0": X16,
}
FIVE, NINE = "0000:00:02.0", "0000:00:03.0"


@pytest.fixture
def bench(tmp_path):
    return seeds_bench(tmp_path / "sys")


def settings_of(bench, targets=(), slots=SLOTS) -> Settings:
    return Settings.model_validate(
        {
            "targets": list(targets),
            "gpus": {"sysfs": str(bench.root), "slots": slots},
            "interval": "1s",
        }
    )


class Rounds:
    """Real rounds, at made-up times."""

    def __init__(self, settings: Settings) -> None:
        self.watchdog = watchdog_of(settings, [])
        self.now = 1_000_000.0

    def __call__(self, count=1, extra=()) -> Report:
        for _ in range(count):
            self.now += 15.0
            readings = [*self.watchdog.readers.read_all(5.0), *extra]
            report = self.watchdog.assessor.assess(readings, self.now)
        return report


def bad(report) -> dict[tuple[str, str], str]:
    return {
        (f.alertname, dict(f.subject).get("slot", "")): f.verdict.name
        for f in report.findings
        if f.verdict.name != "OK"
    }


def firing(report) -> set[tuple[str, str]]:
    return {
        (a.finding.alertname, dict(a.finding.subject)["slot"])
        for a in report.alerts
        if a.state.value == "firing"
    }


def test_the_bench_as_declared_is_well(bench):
    report = Rounds(settings_of(bench))(3)

    assert bad(report) == {}
    assert report.verdict.name == "OK"


def test_a_link_that_trained_down_fires_in_its_second_round_and_resolves_after_five_minutes(bench):
    rounds = Rounds(settings_of(bench))
    bench["09:00.0"].trained(1, 8)

    assert firing(rounds()) == set()
    assert firing(rounds()) == {("GpuLinkDegraded", NINE)}
    bench["09:00.0"].trained(3, 8)
    assert firing(rounds(20)) == {("GpuLinkDegraded", NINE)}
    assert firing(rounds(1)) == set()


def test_a_card_that_goes_while_the_watchdog_runs_is_missed_and_found_again(bench, tmp_path):
    rounds = Rounds(settings_of(bench))
    rounds(2)
    shutil.copytree(bench.root, tmp_path / "before", symlinks=True)
    bench["05:00.0"].gone()

    report = rounds(3)

    assert firing(report) == {("GpuMissing", FIVE)}
    assert {r.slot for r in report.readings} == {"", NINE, "0000:80:02.0", "0000:80:03.0"}
    shutil.rmtree(bench.root)
    shutil.copytree(tmp_path / "before", bench.root, symlinks=True)
    report = rounds(24)
    assert firing(report) == set()
    assert FIVE in {r.slot for r in report.readings}


def test_a_gpu_whose_files_cannot_be_read_is_blind_and_costs_only_itself(bench):
    for file in ("pp_dpm_pcie", "gpu_metrics"):
        bench["05:00.0"].fails(file, "EBUSY")
    for at in ("0000:00:02.0", "0000:03:00.0"):
        bench["05:00.0"].fails("current_link_speed", "EINVAL", at)
        bench["05:00.0"].fails("current_link_width", "EINVAL", at)

    rounds = Rounds(settings_of(bench))
    report = rounds(2)

    blind = {("GpuLinkDegraded", FIVE): "UNKNOWN", ("WatchdogBlind", FIVE): "UNKNOWN"}
    assert bad(report) == blind
    for found in report.findings:
        if found.verdict.name == "UNKNOWN":
            assert "EBUSY" in found.argument.summary
            assert "EINVAL" in found.argument.summary
    assert firing(rounds(18)) == set()
    assert firing(rounds(1)) == {("WatchdogBlind", FIVE)}


def test_link_errors_since_boot_are_told_to_people_though_they_are_no_fault(bench):
    bench["09:00.0"].errors(NINE, "correctable", BadTLP=6655)

    report = as_json(Rounds(settings_of(bench))(2))

    assert report["verdict"] == "OK"
    assert f"6,655 BadTLP at {NINE} since boot, none since the watchdog started" in for_people(
        report
    )
    assert "BadTLP at 0000:00:02.0" not in for_people(report)


def test_what_checks_keep_of_gpus_survives_json(bench):
    rounds = Rounds(settings_of(bench))
    bench["05:00.0"].trained(1, 16)
    bench["09:00.0"].errors(NINE, "correctable", BadTLP=6655)
    bench["86:00.0"].gone()
    rounds(3)

    [watch] = [w for t, w in rounds.watchdog.assessor.watches.items() if t == HOST]
    for states in watch.states.values():
        for name, state in states.items():
            assert as_tuples(json.loads(json.dumps(state))) == state, name


def as_tuples(value: Any) -> Any:
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def test_blindness_about_a_card_ends_when_the_card_leaves(bench):
    """Its absence is told then; the alert about its files would stand for ever."""
    rounds = Rounds(settings_of(bench))
    bench["05:00.0"].write("mem_info_vram_used", "many")
    assert ("WatchdogBlind", FIVE) in firing(rounds(21))

    bench["05:00.0"].gone()

    assert firing(rounds(2)) == {("GpuMissing", FIVE)}


def test_a_card_that_amdgpu_does_not_drive_is_no_blindness(bench):
    card = bench["05:00.0"]
    for file in ("mem_info_vram_used", "mem_info_vram_total", "pp_dpm_pcie", "gpu_metrics"):
        card.lacks(file)
    card.driven_by("vfio-pci")

    assert bad(Rounds(settings_of(bench))(21)) == {}


def test_alerts_of_an_only_gpu_end_an_hour_after_it_left(bench):
    for at in ("86:00.0", "89:00.0", "09:00.0"):
        bench[at].gone()
    rounds = Rounds(settings_of(bench, slots={}))
    card = bench["05:00.0"]
    for number in range(3):
        card.errors(FIVE, "correctable", BadTLP=1000 * number)
        report = rounds()
    assert firing(report) == {("GpuLinkErrors", FIVE)}

    card.gone()

    assert firing(rounds(239)) == {("GpuLinkErrors", FIVE)}
    assert firing(rounds(2)) == set()


def test_link_errors_resolve_after_the_card_was_mended_and_counts_from_zero(bench):
    rounds = Rounds(settings_of(bench))
    card = bench["05:00.0"]
    for number in range(3):
        card.errors(FIVE, "correctable", BadTLP=1000 * number)
        report = rounds()
    assert firing(report) == {("GpuLinkErrors", FIVE)}

    card.errors(FIVE, "correctable")

    assert firing(rounds(245)) == set()


# --- figures say on which links they were measured ------------------------------------------------


TARGET = {"url": "http://127.0.0.1:1", "name": "qwen"}


def page(engine, *held, holds_none=False) -> list[Reading]:
    subject = labels(target="qwen", engine="0", model_name="m")
    samples = tuple(Sample(subject, x.series, x.value) for x in engine.samples())
    gpus = [{"gpu": "0000:05:00.0", "slot": slot} for slot in held]
    facts = {"gpus": gpus} if held or holds_none else {}
    return [
        Reading("vllm_metrics", "qwen", samples, {"format": "text"}),
        Reading("launch", "qwen", facts=facts),
    ]


def decoded(bench, *held, dead=False, remote=False, before=lambda _: None, **also):
    target = {**TARGET, "url": "http://192.0.2.1:1"} if remote else TARGET
    assessor = assessor_of(settings_of(bench, [target]))
    probes = gpu_probes_now(settings_of(bench), 5.0)
    engine, now = Engine(), 1_000_000.0
    for number in range(12):
        before(number)
        now += 15.0
        engine.draft(300, shares(300, 0.05 if dead else 0.8, 0.5), requests=3)
        of_host = [p.read({}, time.monotonic() + 5) for p in probes]
        report = assessor.assess([*page(engine, *held, **also), *of_host], now)
    [found] = [f for f in report.findings if f.alertname == "SpecDecodeCollapsed"]
    return found.argument


def test_a_healthy_figure_says_that_its_links_were_as_declared(bench):
    assert decoded(bench).evidence["links"] == (
        "measured on 4 GPU link(s) as declared; no link errors counted in this window"
    )


def test_a_figure_of_a_degraded_link_says_so_and_is_suspected_first(bench):
    bench["05:00.0"].trained(1, 16)

    healthy, dead = decoded(bench), decoded(bench, dead=True)

    stamp = f"measured on a degraded link: {FIVE}; no link errors counted in this window"
    assert healthy.evidence["links"] == stamp
    assert dead.summary.endswith(stamp)
    assert dead.suspects[0].startswith("GpuLinkDegraded stands too: GPU 0000:05:00.0")


def test_a_dead_drafter_on_good_links_has_the_links_ruled_out(bench):
    assert any("GPU links: measured on 4" in line for line in decoded(bench, dead=True).ruled_out)


def test_errors_below_the_limit_are_on_the_stamp_of_their_window(bench):
    def errors(number):
        bench["05:00.0"].errors(FIVE, "correctable", BadTLP=number)

    stamp = decoded(bench, before=errors).evidence["links"]

    assert stamp == (f"measured on 4 GPU link(s) as declared; 1 BadTLP at {FIVE} in this window")


def test_only_the_links_that_the_server_holds_count_where_that_is_known(bench):
    bench["05:00.0"].trained(1, 16)

    assert decoded(bench, NINE).evidence["links"] == (
        "measured on 1 GPU link(s) as declared; no link errors counted in this window"
    )


def test_a_server_that_holds_no_gpu_is_measured_on_none(bench):
    bench["05:00.0"].trained(1, 16)

    assert "links" not in decoded(bench, holds_none=True).evidence


def test_a_server_on_another_host_says_nothing_of_our_links(bench):
    bench["05:00.0"].trained(1, 16)

    assert "links" not in decoded(bench, remote=True).evidence


def reloaded(rounds, settings) -> None:
    """Take over as the daemon does at SIGHUP."""
    new = watchdog_of(settings, [])
    new.assessor.take_over(rounds.watchdog.assessor)
    rounds.watchdog.readers.close()
    rounds.watchdog = new


def test_a_reload_that_only_notes_something_leaves_alerts_as_they_are(bench):
    rounds = Rounds(settings_of(bench))
    bench["05:00.0"].trained(1, 16)
    bench["86:00.0"].gone()
    standing = firing(rounds(2))
    assert len(standing) == 2
    noted = {**SLOTS, "0000:89:00.0": {**X16, "note": "second pair"}}

    reloaded(rounds, settings_of(bench, slots=noted))
    report = rounds()

    assert not report.changes
    assert firing(report) == standing


def test_a_reload_that_withdraws_a_declaration_ends_the_alerts_that_stood_on_it(bench):
    rounds = Rounds(settings_of(bench))
    bench["05:00.0"].trained(1, 16)
    bench["86:00.0"].gone()
    assert len(firing(rounds(2))) == 2
    rest = {key: SLOTS[key] for key in ("0000:09:00.0", "0000:89:00.0")}

    reloaded(rounds, settings_of(bench, slots=rest))

    assert firing(rounds()) == set()


# --- recorded folders -----------------------------------------------------------------------------


def snapshots(bench, folder, count=2):
    recorder = GpuRecorder(gpu_probes_now(settings_of(bench), 5.0))
    writer = Recorder(redactor_of([], [], []))
    for index in range(count):
        snapshot = Snapshot({}, recorder.take(10.0))
        writer.write(folder, index, 1_796_008_336.0 + 15 * index, snapshot)
    recorder.close()


def told(report) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (f["alertname"], f["subject"].get("slot", "")): (f["verdict"], f["summary"])
        for f in report["findings"]
    }


def test_a_recording_is_judged_as_the_host_was(bench, tmp_path):
    bench["05:00.0"].trained(1, 16)
    bench["09:00.0"].fell(3, 4)
    bench["86:00.0"].fails("pp_dpm_pcie", "EPERM")
    bench["89:00.0"].errors("0000:80:03.0", "correctable", BadTLP=6655)
    live = told(as_json(Rounds(settings_of(bench))(2)))

    snapshots(bench, tmp_path / "recorded")
    shutil.move(bench.root, tmp_path / "away")
    again = told(replayed(tmp_path / "recorded", settings_of(bench)))

    assert again == {key: said for key, said in live.items() if key in again}
    assert {key[0] for key in live} == {key[0] for key in again}
    assert again["GpuLinkDegraded", FIVE][0] == "WARNING"
    assert again["GpuLinkDegraded", NINE][0] == "WARNING"


def test_a_recording_keeps_links_files_and_failed_reads_as_they_were(bench, tmp_path):
    bench["86:00.0"].fails("pp_dpm_pcie", "EPERM")

    snapshots(bench, tmp_path / "recorded", 1)

    sys = tmp_path / "recorded/000/sys"
    devices = sys / "bus/pci/devices"
    link = devices / "0000:86:00.0"
    assert link.is_symlink()
    assert link.readlink() == (bench.root / "bus/pci/devices/0000:86:00.0").readlink()
    assert (link / "pp_dpm_pcie.errno").read_text() == "EPERM"
    assert (devices / "0000:05:00.0/pp_dpm_pcie").read_text().count("*") == 3
    assert not list(sys.rglob("pcie_bw"))


def test_a_recording_without_gpus_says_nothing_of_gpus(tmp_path):
    body = b'vllm:prompt_tokens_total{engine="0",model_name="m"} 1\n'
    writer = Recorder(redactor_of([], [], []))
    writer.write(tmp_path, 0, 1_796_008_336.0, Snapshot({"qwen": {"metrics.prom": body}}))

    report = replayed(tmp_path, settings_for(tmp_path))

    assert {f["alertname"][:3] for f in report["findings"]} == {"Ser", "Spe", "Wat"}


def test_the_recorded_tree_counts_and_not_the_one_of_the_config(bench, tmp_path):
    snapshots(bench, tmp_path / "recorded")
    bench["05:00.0"].trained(1, 16)

    report = replayed(tmp_path / "recorded", settings_of(bench))

    assert told(report)["GpuLinkDegraded", FIVE][0] == "OK"


def test_capture_of_a_host_with_gpus_alone_records_them(bench, tmp_path):
    assert record(settings_of(bench), tmp_path / "new", 1.0) == (0, 0, 4)
    assert (tmp_path / "new/001/sys/bus/pci/devices/0000:05:00.0/pp_dpm_pcie").exists()


def test_a_capture_is_judged_by_what_was_declared(bench, tmp_path):
    bench["05:00.0"].trained(1, 16)
    record(settings_of(bench), tmp_path / "new", 1.0)

    report = replayed(tmp_path / "new", load(tmp_path / "new/config.yaml"))

    assert told(report)["GpuLinkDegraded", FIVE][0] == "WARNING"


def test_snapshots_of_pages_alone_say_nothing_of_declared_slots(bench, tmp_path):
    body = b'vllm:prompt_tokens_total{engine="0",model_name="m"} 1\n'
    writer = Recorder(redactor_of([], [], []))
    writer.write(tmp_path, 0, 1_796_008_336.0, Snapshot({"qwen": {"metrics.prom": body}}))

    report = replayed(tmp_path, settings_of(bench, [TARGET]))

    assert not [f for f in report["findings"] if "slot" in f["subject"]]


@pytest.mark.parametrize(
    "gpus",
    [["0000:05:00.0", "0000:86:00.0"], [{"gpu": "0000:05:00.0"}, {"gpu": "0000:86:00.0"}],
     [{"gpu": "0000:05:00.0", "numa": [1], "pids": "all"}, "0000:86:00.0", 7]],
    ids=["addresses", "no place", "odd"],
)  # fmt: skip
def test_gpus_of_a_launch_may_be_told_by_address_alone(bench, tmp_path, gpus):
    snapshots(bench, tmp_path)
    for index in ("000", "001"):
        (tmp_path / index / "launch").mkdir()
        (tmp_path / index / "launch/qwen.json").write_text(json.dumps({"gpus": gpus}))

    report = replayed(tmp_path, settings_of(bench, [TARGET]))

    [found] = [f for f in report["findings"] if f["alertname"] == "TensorParallelCrossSocket"]
    assert (found["verdict"], "NUMA node 1" in found["summary"]) == ("WARNING", True)


def test_what_nvml_said_is_judged_again_from_its_file(tmp_path):
    folder = tmp_path / "000"
    folder.mkdir()
    (folder / "at").write_text("2026-11-30T03:12:16Z")
    answers = {"0000:01:00.0": {"lost": "GPU_IS_LOST"}, "0000:02:00.0": {"failed": "no driver"}}
    (folder / "nvml.json").write_text(json.dumps(answers))

    report = replayed(tmp_path, Settings.model_validate({"targets": []}))

    readings = {r["slot"]: r for r in report["readings"]}
    assert readings["0000:01:00.0"]["facts"]["lost"] == "NVML says GPU_IS_LOST"
    assert readings["0000:02:00.0"]["error"] == "no driver"


def test_an_address_as_nvml_writes_it_is_the_cards_own(tmp_path):
    card = geforce(Bench(tmp_path / "000/sys"))
    (tmp_path / "000/at").write_text("2026-11-30T03:12:16Z")
    answers = {f"0000{card.address.upper()}": {"lost": "GPU_IS_LOST"}}
    (tmp_path / "000/nvml.json").write_text(json.dumps(answers))

    report = replayed(tmp_path, Settings.model_validate({"targets": []}))

    slots = {r["slot"] for r in report["readings"]} - {""}
    assert slots == {card.slot}


def test_a_levels_word_is_no_counter():
    assert s.LINK_SPEED + s.PORT in s.LEVELS
    assert s.CORRECTABLE + "0000:00:02.0 BadTLP" not in s.LEVELS
