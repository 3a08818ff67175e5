"""What `watchdog links` prints and exits with, over trees like /sys; what it proposes and not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest_httpserver import HTTPServer

from tests.bench_tree import Bench, behind_board_switch, geforce, on_amd_host, r9700, seeds_bench
from tests.test_daemon import free_port, get, running, until
from watchdog import cli, config, links
from watchdog.build import watchdog_of
from watchdog.domain.report import Report, as_json
from watchdog.errors import CommandError
from watchdog.round import rounds
from watchdog.settings import Settings

PORTS = ("0000:00:02.0", "0000:00:03.0", "0000:80:02.0", "0000:80:03.0")
DECLARED = {
    "0000:05:00.0": {"generation": 3, "width": 16},
    "0000:09:00.0": {"generation": 3, "width": 8, "note": "bifurcated, the NIC has the rest"},
    "0000:86:00.0": {"generation": 3, "width": 16},
    "0000:80:03.0": {"generation": 3, "width": 16},
}
TITLE = re.compile(r"serving-watchdog \S+ on \S+: (\w+) at \S+Z: ")


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def row(self, slot: str) -> str:
        """Return the first table's row of a slot."""
        return next(line for line in self.out.splitlines() if line.startswith(slot))

    def witnesses(self, slot: str) -> str:
        return [line for line in self.out.splitlines() if line.startswith(slot)][1]

    def why(self, word: str) -> list[str]:
        return [line for line in self.out.splitlines() if line.startswith(word.ljust(12))]


class Host:
    """A tree, a configuration that points at it, and the command."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.bench = Bench(folder / "sys")

    def config(self, slots: dict = {}, port: int = 1) -> Path:  # noqa: B006  (not changed)
        file = self.folder / "c.yaml"
        gpus = json.dumps({"sysfs": str(self.bench.root), "slots": slots})
        listen = f"{{listen: '127.0.0.1:{port}'}}"
        file.write_text(f"targets: []\ninterval: 1s\nserver: {listen}\ngpus: {gpus}\n")
        return file

    def links(self, *argv: str, slots: dict = {}) -> Said:  # noqa: B006
        self.capsys.readouterr()
        code = cli.main(["links", *argv, "--config", str(self.config(slots))])
        return Said(code, *self.capsys.readouterr())


@pytest.fixture
def host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Host:
    return Host(tmp_path, capsys)


@pytest.fixture
def seeds(host: Host) -> Host:
    host.bench = seeds_bench(host.bench.root)
    return host


def round_of(settings: Settings, count: int) -> Report:
    """Return the report of the last of some rounds, as a daemon makes them."""
    with closing(watchdog_of(settings, [])) as watchdog:
        return list(islice(rounds(watchdog), count))[-1]


def pasted(folder: Path, section: str):
    """Load what --propose printed, below an empty list of targets."""
    file = folder / "pasted.yaml"
    file.write_text(f"targets: []\n{section}")
    return config.load(file).gpus.slots


# --- the table -----------------------------------------------------------------------------------


def test_the_bench_as_declared_is_ok_and_its_x8_is_as_well(seeds: Host) -> None:
    said = seeds.links(slots=DECLARED)

    assert said.code == 0
    assert TITLE.match(said.out)[1] == "OK"
    assert "4 GPUs (looked at for 1 s)" in said.out.splitlines()[0]
    for port in PORTS:
        assert said.row(port).endswith("  OK")
    assert re.search(r"0000:09:00.0 AMD 1002:7551 +0 +Gen3 x8 +Gen3 x8 ", said.row(PORTS[1]))
    assert "as declared (Gen3 x8 (bifurcated, the NIC has the rest))" in said.out


def test_what_lspci_shows_is_labelled_inside_the_card_and_fools_nothing(seeds: Host) -> None:
    seeds.bench["09:00.0"].trained(1, 8)

    said = seeds.links(slots=DECLARED)

    assert re.fullmatch(
        rf"{PORTS[1]}  Gen1 x8 +Gen1 x8 +Gen1 x8 +not asked +Gen5 x16", said.witnesses(PORTS[1])
    )
    assert said.code == 1
    assert "inside the card: what lspci shows" in said.out
    assert re.search(r"slot +slot's port +card's end +starred row .* inside the card", said.out)


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ((1, 16), "the slot's link runs Gen1 x16, declared is Gen3 x16: slower than declared"),
        ((3, 4), "the slot's link runs Gen3 x4, declared is Gen3 x16: narrower than declared"),
    ],
)
def test_a_degraded_link_is_a_warning_with_its_sentence_and_next_step(
    seeds: Host, link: tuple[int, int], sentence: str
) -> None:
    seeds.bench["86:00.0"].trained(*link)

    said = seeds.links(slots=DECLARED)

    assert said.code == 1
    assert said.row(PORTS[2]).endswith("  WARNING")
    assert sum("  WARNING" in said.row(port) for port in PORTS) == 1
    [line] = said.why("WARNING")
    assert sentence in line
    lines = said.out.splitlines()
    assert lines[lines.index(line) + 1].startswith("  next       ")


def test_a_link_that_fell_after_the_driver_loaded_shows_its_missing_star(seeds: Host) -> None:
    seeds.bench["86:00.0"].fell(1, 16)

    said = seeds.links(slots=DECLARED)

    assert said.code == 1
    assert "it changed after the driver loaded" in said.why("WARNING")[0]
    assert re.search(r"Gen1 x16 +Gen1 x16 +no starred row +Gen1 x16 ", said.witnesses(PORTS[2]))


def test_a_row_without_a_star_is_unknown_to_that_witness_alone(seeds: Host) -> None:
    rows = "0: 2.5GT/s, x1 81Mhz \n1: 16.0GT/s, x8 306Mhz \n"
    seeds.bench["86:00.0"].write("pp_dpm_pcie", rows)

    said = seeds.links(slots=DECLARED)

    assert said.code == 0
    assert said.row(PORTS[2]).endswith("  OK")
    assert "the starred row of pp_dpm_pcie is UNKNOWN" in said.out


def test_errors_since_boot_are_shown_where_they_were_counted_and_raise_nothing(
    seeds: Host,
) -> None:
    card = seeds.bench["05:00.0"]
    card.errors(card.slot, "correctable", BadTLP=6655)

    said = seeds.links(slots=DECLARED)

    assert said.code == 0
    assert re.search(r" 6,655 BadTLP +0 +OK$", said.row(PORTS[0]))
    assert re.search(r"idle +0 +0 +OK$", said.row(PORTS[1]))
    [line] = said.why("errors")
    assert f"6,655 BadTLP at {PORTS[0]} since boot" in line


def test_several_kinds_of_errors_are_counted_in_the_row_and_spelled_below(seeds: Host) -> None:
    card = seeds.bench["05:00.0"]
    card.errors(card.slot, "correctable", BadTLP=9, Timeout=3)
    card.errors(card.end, "nonfatal", UnsupReq=1)

    said = seeds.links(slots=DECLARED)

    assert " 9 BadTLP and 2 more " in said.row(PORTS[0])
    assert f"1 nonfatal UnsupReq at {card.end}" in said.why("errors")[0]


def test_counters_that_cannot_be_read_are_not_zero(seeds: Host) -> None:
    card = seeds.bench["05:00.0"]
    for address in card.chain:
        for kind in ("correctable", "nonfatal", "fatal"):
            card.lacks(f"aer_dev_{kind}", address)

    said = seeds.links(slots=DECLARED)

    assert re.search(r" not read +not read +OK$", said.row(PORTS[0]))


@pytest.mark.parametrize("key", ["0000:80:03.0", "0000:89:00.0"])
def test_a_declared_slot_without_its_card_is_a_row_and_critical(seeds: Host, key: str) -> None:
    seeds.bench["89:00.0"].gone()
    slots = {**DECLARED, key: DECLARED["0000:80:03.0"]}
    slots = {k: v for k, v in slots.items() if k == key or k != "0000:80:03.0"}

    said = seeds.links(slots=slots)

    assert said.code == 2
    assert "3 GPUs, 1 missing" in said.out.splitlines()[0]
    assert re.fullmatch(
        rf"{key}  - +- +Gen3 x16 +no card +- +not read +not read +CRITICAL", said.row(key)
    )
    assert f"GpuMissing: declared slot {key}: no GPU for 2 rounds" in said.why("CRITICAL")[0]


def test_an_undeclared_gpu_is_unknown_by_word_and_points_at_the_proposal(seeds: Host) -> None:
    said = seeds.links(slots={"0000:09:00.0": DECLARED["0000:09:00.0"]})

    assert said.code == 0  # its finding is OK, without evidence
    assert re.search(r"undeclared +Gen3 x16 .* UNKNOWN$", said.row(PORTS[0]))
    assert said.row(PORTS[1]).endswith("  OK")
    assert len(said.why("UNKNOWN")) == 3
    assert "`watchdog links --propose`" in said.out.splitlines()[-1]


def test_an_idle_link_where_it_slows_down_on_purpose_is_no_evidence(host: Host) -> None:
    on_amd_host(host.bench).trained(1, 16)

    said = host.links(slots={"0000:43:00.0": {"generation": 4, "width": 16}})

    assert said.code == 0
    assert re.search(r"Gen4 x16 +Gen1 x16 +idle .* no evidence$", said.row("0000:40:01.1"))
    assert "judged when busy" in said.why("no evidence")[0]


def test_a_narrow_link_above_the_slot_has_a_column_of_its_own(host: Host) -> None:
    host.bench.card(
        "0000:00:03.0 8086:6f08", "0000:03:00.0 10b5:8747", "0000:04:08.0 10b5:8747",
        "0000:05:00.0 1002:1478", "0000:06:00.0 1002:1479", "0000:07:00.0 1002:7551",
        above=(3, 8),
    )  # fmt: skip

    said = host.links(slots={"0000:07:00.0": {"generation": 3, "width": 16}})

    assert said.code == 1
    assert " links above " in said.out
    assert re.search(r"0000:04:08.0  Gen3 x16 .* Gen3 x8 +Gen5 x16$", said.witnesses("0000:04:08"))


def test_no_line_of_the_tables_is_wider_than_120_or_breaks_an_address(seeds: Host) -> None:
    card = seeds.bench["05:00.0"]
    card.errors(card.slot, "correctable", BadTLP=1234567, Timeout=3)

    said = seeds.links()

    tables, _, rest = said.out.partition("\ninside the card:")
    assert rest
    assert max(len(line) for line in tables.splitlines()) <= 120
    for found in seeds.bench.cards:
        assert re.search(rf"^{found.slot}  {found.address} ", tables, re.MULTILINE)
    assert "\x1b" not in said.out


def test_a_host_without_gpu_says_so_in_one_line(host: Host) -> None:
    said = host.links()

    assert said.code == 0
    assert said.out.count("\n") == 1
    assert TITLE.match(said.out)[1] == "OK"
    assert "no AMD or NVIDIA GPU on this host and none declared" in said.out


def test_json_is_one_document_of_links_alone(seeds: Host) -> None:
    seeds.bench["86:00.0"].trained(1, 16)

    said = seeds.links("--json", slots=DECLARED)
    report = json.loads(said.out)

    assert said.code == 1
    assert report["verdict"] == "WARNING"
    names = {f["alertname"] for f in report["findings"]}
    assert names == {
        "GpuLinkDegraded", "GpuLinkWitnessesDisagree", "GpuLinkErrors", "GpuMissing",
        "WatchdogBlind",
    }  # fmt: skip
    assert {r["target"] for r in report["readings"]} == {""}
    assert report["declared"]["0000:09:00.0"]["width"] == 8
    assert report["could"][PORTS[1]]["card"] == {"speed": 32.0, "width": 8}


def test_in_a_process_of_its_own_it_prints_the_same_without_colours(seeds: Host) -> None:
    file = seeds.config(DECLARED)
    command = [sys.executable, "-m", "watchdog", "links", "--config", str(file)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert TITLE.match(done.stdout)[1] == "OK"
    assert "\x1b" not in done.stdout


# --- the daemon's word ---------------------------------------------------------------------------


def test_a_running_daemon_is_asked_where_it_judges_by_the_same_declarations(
    seeds: Host,
) -> None:
    port = free_port()
    file = seeds.config(DECLARED, port)
    card = seeds.bench["05:00.0"]
    with running(file):
        until(lambda: get(port, "/-/ready")[0] == 200)
        until(lambda: links.links(config.load(file))["source"] == "daemon")
        card.errors(card.slot, "correctable", BadTLP=5)
        until(lambda: "5 BadTLP" in links.table(links.links(config.load(file))))
        same = links.table(links.links(config.load(file)))
        seeds.config({**DECLARED, "0000:09:00.0": {"generation": 4, "width": 8}}, port)
        other = links.links(config.load(file))

    assert "(said by the running daemon)" in same.splitlines()[0]
    assert "errors since start" in same
    row = next(line for line in same.splitlines() if line.startswith(PORTS[0]))
    assert re.search(r" 5 BadTLP +5 BadTLP +OK$", row)
    assert other["source"] == "rounds"
    assert other["verdict"] == "WARNING"


@pytest.mark.parametrize(
    ("late", "other", "source"),
    [
        (0, {}, "daemon"),
        (12, {}, "daemon"),  # three intervals and ten seconds
        (14, {}, "rounds"),
        (0, {"product": "another"}, "rounds"),
        (0, {"readings": []}, "rounds"),
    ],
)
def test_a_report_that_is_old_or_of_something_else_is_not_taken(
    seeds: Host, httpserver: HTTPServer, late: float, other: dict, source: str
) -> None:
    settings = config.load(seeds.config(DECLARED, httpserver.port))
    report = as_json(round_of(settings, 2))
    now = datetime.now(timezone.utc) - timedelta(seconds=late)
    report |= {"at": now.isoformat(timespec="seconds").replace("+00:00", "Z"), **other}
    httpserver.expect_request("/api/v1/report").respond_with_json(report)

    assert links.links(settings)["source"] == source


def test_a_report_of_other_gpus_is_not_taken(seeds: Host, httpserver: HTTPServer) -> None:
    settings = config.load(seeds.config(port=httpserver.port))
    httpserver.expect_request("/api/v1/report").respond_with_json(as_json(round_of(settings, 2)))
    assert links.links(settings)["source"] == "daemon"

    seeds.bench["89:00.0"].gone()

    assert links.links(settings)["source"] == "rounds"


def test_a_daemon_that_has_not_yet_decided_is_not_taken(
    seeds: Host, httpserver: HTTPServer
) -> None:
    settings = config.load(seeds.config(DECLARED, httpserver.port))
    seeds.bench["86:00.0"].trained(1, 16)
    httpserver.expect_request("/api/v1/report").respond_with_json(as_json(round_of(settings, 1)))

    report = links.links(settings)

    assert (report["source"], report["verdict"]) == ("rounds", "WARNING")


# --- the proposal --------------------------------------------------------------------------------


def test_what_is_proposed_loads_and_judges_the_bench_ok(seeds: Host) -> None:
    said = seeds.links("--propose")
    slots = pasted(seeds.folder, said.out)

    assert said.code == 0
    assert {k: (s.generation, s.width) for k, s in slots.items()} == {
        PORTS[0]: (3, 16), PORTS[1]: (3, 8), PORTS[2]: (3, 16), PORTS[3]: (3, 16),
    }  # fmt: skip
    again = seeds.links(slots={k: s.model_dump(exclude_none=True) for k, s in slots.items()})
    assert again.code == 0
    assert all(again.row(port).endswith("  OK") for port in PORTS)


def test_a_proposal_says_what_both_ends_could_do_and_takes_it_for_no_expectation(
    seeds: Host,
) -> None:
    seeds.bench["86:00.0"].trained(1, 16)

    said = seeds.links("--propose")

    assert pasted(seeds.folder, said.out)[PORTS[2]].generation == 1
    block = said.out.partition("0000:86:00.0 AMD 1002:7551, NUMA node 1")[2].partition(PORTS[3])[0]
    assert "could do Gen3 x16 (the port), Gen5 x16 (the card)" in block
    assert "runs Gen1 x16 where both ends could do Gen3 x16: degraded, or by design?" in block
    assert said.out.count("degraded, or by design?") == 1


def test_declared_slots_stay_as_declared_and_say_where_they_differ(seeds: Host) -> None:
    seeds.bench["86:00.0"].trained(1, 16)
    seeds.bench["89:00.0"].gone()
    note = 'it\'s "split": # x8 über NIC'
    slots = {**DECLARED, "0000:09:00.0": {"generation": 3, "width": 8, "note": note}}
    del slots["0000:05:00.0"]

    said = seeds.links("--propose", slots=slots)
    found = pasted(seeds.folder, said.out)

    assert set(found) == {*slots, PORTS[0]}
    assert found["0000:09:00.0"].note == note
    assert found["0000:86:00.0"].generation == 3
    assert "kept as declared, although it runs Gen1 x16 now" in said.out
    assert "0000:80:03.0: no card is seen in it now" in said.out


@pytest.mark.parametrize(
    ("at", "kind", "name"),
    [
        (0, "correctable", "BadTLP"),
        (1, "correctable", "Timeout"),
        (2, "nonfatal", "CmpltTO"),
        (3, "fatal", "DLP"),
    ],
)
def test_nothing_is_proposed_from_a_boot_with_errors_on_a_chain_unless_told_to(
    seeds: Host, at: int, kind: str, name: str
) -> None:
    card = seeds.bench["86:00.0"]
    card.errors(card.chain[at], kind, **{name: 7})

    report = links.links(config.load(seeds.config()))

    with pytest.raises(CommandError) as refused:
        links.proposal(report)
    assert f"slot {PORTS[2]}: 7 " in str(refused.value)
    assert f"{name} at {card.chain[at]} since boot" in str(refused.value)
    assert "--despite-errors" in str(refused.value)
    told = links.proposal(report, with_errors=True)
    assert set(pasted(seeds.folder, told)) == set(PORTS)
    assert told.count("WARNING, proposed despite 7 ") == 1


def test_the_refusal_exits_3_and_prints_nothing_to_paste(seeds: Host) -> None:
    card = seeds.bench["86:00.0"]
    card.errors(card.slot, "correctable", BadTLP=6655)

    said = seeds.links("--propose")

    assert (said.code, said.out) == (3, "")
    assert said.err.startswith(f"serving-watchdog: slot {PORTS[2]}: 6,655 BadTLP")
    assert seeds.links("--propose", "--despite-errors").code == 0


def test_correctable_errors_that_are_not_of_a_link_stop_no_proposal(seeds: Host) -> None:
    card = seeds.bench["86:00.0"]
    card.errors(card.slot, "correctable", NonFatalErr=2)

    assert seeds.links("--propose").code == 0


def test_an_idle_link_is_no_proposal_where_it_slows_down_and_is_one_when_busy(
    host: Host,
) -> None:
    r9700(host.bench, "0000:00:02.0 8086:6f04", 0x03, numa=0)
    card = on_amd_host(host.bench)

    idle = host.links("--propose")
    card.busy(90)
    busy = host.links("--propose")

    assert idle.code == 0
    assert set(pasted(host.folder, idle.out)) == {"0000:00:02.0"}
    assert '    # "0000:40:01.1": {generation: ?, width: 16}\n' in idle.out
    assert "slows down on purpose when idle" in idle.out
    assert pasted(host.folder, busy.out)["0000:40:01.1"].generation == 4


def test_a_geforce_of_which_no_load_is_known_is_left_out(host: Host) -> None:
    geforce(host.bench)

    said = host.links("--propose")

    assert (said.code, said.out) == (3, "")
    assert "no slot can be proposed now: 0000:00:01.0: the card is not known to be busy" in said.err


@pytest.mark.parametrize("where", ["ends", "row"])
def test_a_slot_whose_witnesses_disagree_is_left_out(seeds: Host, where: str) -> None:
    card = seeds.bench["86:00.0"]
    if where == "row":
        card.linked(2, 16)  # the row still says Gen3
    else:
        seeds.bench.link(card.folder(card.slot), 2, 16)

    said = seeds.links("--propose")

    assert said.code == 0
    assert set(pasted(seeds.folder, said.out)) == set(PORTS) - {PORTS[2]}
    assert "left out: its witnesses disagree (port Gen2 x16, " in said.out


def test_a_slot_whose_link_nobody_tells_is_left_out(seeds: Host) -> None:
    card = seeds.bench["86:00.0"]
    for end in (card.slot, card.end):
        card.write("current_link_width", "63\n", end)
    card.write("pp_dpm_pcie", "\n")
    card.lacks("gpu_metrics")

    said = seeds.links("--propose")

    assert set(pasted(seeds.folder, said.out)) == set(PORTS) - {PORTS[2]}
    assert "left out: no witness tells its link whole" in said.out


def test_a_sleeping_card_is_left_out(seeds: Host) -> None:
    seeds.bench["86:00.0"].suspended()

    said = seeds.links("--propose")

    assert set(pasted(seeds.folder, said.out)) == set(PORTS) - {PORTS[2]}
    assert "left out: the card is asleep" in said.out


def test_the_way_above_the_slot_counts_for_a_proposal_as_it_counts_for_the_check(
    host: Host,
) -> None:
    for card in behind_board_switch(host.bench):
        card.driven_by("")
    report = links.links(config.load(host.config()))
    for finding in report["findings"]:
        finding["evidence"] |= {"busy": True, "width": 8.0, "narrow_above_the_slot": True}

    told = links.proposal(report)

    assert all(slot.width == 8 for slot in pasted(host.folder, told).values())
    assert told.count("the narrow link is above the slot") == 2


def test_a_strangers_name_stays_in_its_comment(seeds: Host) -> None:
    report = links.links(config.load(seeds.config()))
    for finding in report["findings"]:
        finding["evidence"]["card"] = "odd\n    x: {generation: 1}\u2028#"
    report["host"] = "h\ntargets: []"

    assert set(pasted(seeds.folder, links.proposal(report))) == set(PORTS)


def test_without_a_gpu_there_is_nothing_to_propose(host: Host) -> None:
    said = host.links("--propose")

    assert (said.code, said.out) == (3, "")
    assert "nothing to propose" in said.err


@pytest.mark.parametrize("argv", [["--json", "--propose"], ["--despite-errors"]])
def test_options_that_exclude_each_other_exit_3(host: Host, argv: list[str]) -> None:
    said = host.links(*argv)

    assert (said.code, said.out) == (3, "")
    assert argv[0] in said.err
