"""`cache show` and `cache confirm`, asked of the daemon's port: what is printed, and exit codes."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.asking import Watched, get, serving
from tests.cached import (
    CHANGED,
    DAY,
    NEW,
    NOW,
    OLD,
    ROOT,
    answer,
    fill,
    outline,
    place,
    sign,
    start,
)
from tests.hostile import HostileServer, Visit
from watchdog import cli
from watchdog.domain.starts import REPLACED, SAME
from watchdog.errors import TryLater
from watchdog.views import make_app

LOGS = Path(__file__).parent / "probes/fixtures/server_log"
COLD_LOG, WARM_LOG = ((LOGS / f"mode3_noaot_{how}.txt").read_bytes() for how in ("cold", "warm"))


def logged(folder: Path, text: bytes, at: float = NOW) -> str:
    """A log that was written to last at this time."""
    log = folder / "qwen.log"
    log.write_bytes(text)
    os.utime(log, (at, at))
    return str(log)


class Port:
    """The daemon's port, of which a test says what is known; `ask` runs a command against it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.watched = Watched()
        self.known: dict[str, Any] = {"qwen": outline()}
        self.facts: dict[str, Any] = {}
        self.watched.board.known_targets = lambda: list(self.known)
        self.watched.board.caches = self.answer
        self.config, self.target = folder / "config.yaml", "{url: 'http://127.0.0.1:1', name: qwen}"
        self.listen, self._capsys = "", capsys

    def answer(self) -> dict[str, Any]:
        told = answer(self.known, **self.facts)
        return {key: told[key] for key in ("host", "at", "caches")}

    def ask(self, *argv: str) -> tuple[int, str, str]:
        self.config.write_text(f"targets: [{self.target}]\nserver: {{listen: '{self.listen}'}}\n")
        self._capsys.readouterr()
        code = cli.main(["cache", *argv, "--config", str(self.config)])
        return (code, *self._capsys.readouterr())


@pytest.fixture
def port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Port]:
    port = Port(tmp_path, capsys)
    with serving(port.watched.board) as server:
        port.listen = f"127.0.0.1:{server.port}"
        yield port


def refused(ran: tuple[int, str, str]) -> str:
    """One sentence on standard error, nothing on standard output, and a 3."""
    code, out, err = ran
    assert (code, out) == (3, "")
    assert err.startswith("serving-watchdog: ")
    assert err.count("\n") == 1
    return err


# --- the port ------------------------------------------------------------------------------------


def test_the_port_tells_of_every_target(port: Port) -> None:
    port.known["llama"] = None
    with serving(port.watched.board) as server:
        status, headers, body = get(server, "/api/v1/cache")
    told = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert (told["product"], told["host"]) == ("serving-watchdog", "gpu-1")
    assert told["version"]
    assert (told["targets"], told["at"]) == (["qwen", "llama"], "2026-11-30T12:00:00Z")
    assert [row["target"] for row in told["caches"]] == ["qwen", "llama"]


@pytest.mark.parametrize(("peer", "status"), [("127.0.0.1", 200), ("10.0.0.9", 403)])
def test_only_programs_of_this_host_may_ask(port: Port, peer: str, status: int) -> None:
    client = make_app(port.watched.board).test_client()
    asked = client.get("/api/v1/cache", environ_base={"REMOTE_ADDR": peer})
    assert asked.status_code == status


def test_a_long_round_may_be_waited_for_again(port: Port) -> None:
    def busy() -> dict[str, Any]:
        raise TryLater("a round takes long")

    port.watched.board.caches = busy
    assert refused(port.ask("show")) == "serving-watchdog: a round takes long\n"


# --- show ----------------------------------------------------------------------------------------


def test_a_cache_that_this_launch_filled_is_safe(port: Port) -> None:
    code, out, err = port.ask("show", "qwen")
    assert (code, err) == (0, "")
    first, _, target, *lines = out.splitlines()
    assert first == "serving-watchdog: compile caches at 2026-11-30T12:00:00Z: 1 safe"
    assert target == "qwen: safe"
    assert f"  running launch: {NEW}" in lines
    assert "  factors: model /models/qwen3; drafter /models/DFlash2-FP8" in lines
    assert f"  {ROOT} (vllm, from VLLM_CACHE_ROOT): safe" in lines
    size = "1,234 files, 1.2 GiB, compiled 2026-11-06 12:00Z to 2026-11-06 12:10Z"
    assert f"    {size}" in lines
    assert "  declared: cold floor 594 s, warm floor 320 s" in lines
    assert "  its files were looked at 2026-11-30 11:59Z" in lines
    assert lines[-1] == "  next: nothing to do"
    assert "does not answer" not in out


def test_a_stale_one_shows_who_filled_it_what_changed_and_what_to_do(port: Port) -> None:
    port.known["qwen"] = outline(
        place("stale", aside=[{"name": "qwen.stale-20261101T021500Z", "at": NOW - 86400}]),
        starts=[start("warm", after_aside="qwen.stale-20261101T021500Z")],
    )
    code, out, _ = port.ask("show", "qwen")
    assert code == 2
    assert out.splitlines()[0].endswith(": 1 stale")
    table = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    assert [OLD[:8], "2026-11-06 12:00Z", "2026-11-06 13:00Z", "compiled", "seen"] in table
    assert [NEW[:8], "2026-11-13 12:00Z", "2026-11-13 13:00Z", "loaded", "seen"] in table
    copy = "qwen.stale-20261101T021500Z"
    assert ["2026-11-13 12:00Z", "10 min", "warm", NEW[:8], copy] in table
    assert f"{OLD[:8]} differs by: {CHANGED}" in out
    assert f"2026-11-13 12:00Z changed: {CHANGED}" in out
    assert f"set aside 2026-11-29 12:00Z: {copy}" in out
    assert f"`watchdog cache set-aside --directory {ROOT}`" in out
    assert "`watchdog cache confirm qwen`" in out


def test_what_each_key_directory_was_made_for_is_told_as_vllm_noted_it(port: Port) -> None:
    made = {
        "path": "torch_compile_cache/bf36639200", "oldest": NOW - 24 * DAY,
        "newest": NOW - 24 * DAY + 600, "parts": ["backbone", "eagle_head"],
        "config": "config 0a1b2c3d4e, cuda 12.8",
    }  # fmt: skip
    port.known["qwen"] = outline(place(made=[made, {"path": "torch_compile_cache/0123456789"}]))
    _, out, _ = port.ask("show")
    assert (
        "torch_compile_cache/bf36639200: 2026-11-06 12:00Z to 2026-11-06 12:10Z, backbone, "
        "eagle_head; for config 0a1b2c3d4e, cuda 12.8"
    ) in " ".join(out.split())
    assert "torch_compile_cache/0123456789: - to -" in out


def test_a_stale_one_whose_directory_is_configured_is_set_aside_by_the_targets_name(
    port: Port,
) -> None:
    port.known["qwen"] = outline(place("stale"))
    port.target = f"{{url: 'http://127.0.0.1:1', name: qwen, cache: {{directory: '{ROOT}'}}}}"
    assert "`watchdog cache set-aside qwen`" in port.ask("show")[1]


def test_in_a_container_the_directory_of_this_host_is_named_or_said_to_be_unknown(
    port: Port,
) -> None:
    port.known["qwen"] = outline(place("stale"))
    port.facts = {"launch": {"container": "0a1b"}}
    out = port.ask("show")[1]
    assert "as its container sees it" in out
    assert f"set aside the directory of this host that its container has as {ROOT}" in out
    port.facts["cache"] = {"places": [{"path": ROOT, "here": "/mnt/my cache"}]}
    out = port.ask("show")[1]
    assert "on this host /mnt/my cache" in out
    assert "`watchdog cache set-aside --directory '/mnt/my cache'`" in out
    port.facts["cache"] = {"places": [{"path": ROOT, "here": f"/proc/4711/root{ROOT}"}]}
    for container in ("0a1b", None):  # a service may have a tree of mounts of its own, too
        port.facts["launch"] = {"container": container}
        assert "set aside the directory of this host that its" in port.ask("show")[1]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["safe", "safe"], 0),
        (["safe", "unknown"], 3),
        (["unknown", "stale"], 2),
        (["stale", "safe"], 2),
    ],
)
def test_the_worst_of_all_decides_and_stale_beats_unknown(
    port: Port, verdicts: list[str], code: int
) -> None:
    port.known = {f"t{i}": outline(place(word)) for i, word in enumerate(verdicts)}
    assert port.ask("show")[0] == code
    places = [place(word, f"/{i}") for i, word in enumerate(verdicts)]
    port.known = {"qwen": outline(*places)}
    assert port.ask("show")[0] == code


def test_what_is_not_known_is_no_safe_cache(port: Port) -> None:
    port.known["qwen"] = outline(unknown="the environment of process 4711 may not be read")
    code, out, _ = port.ask("show")
    assert code == 3
    assert "  not known: the environment of process 4711 may not be read" in out
    port.known["qwen"] = None
    code, out, _ = port.ask("show", "qwen")
    assert code == 3
    assert "`watchdog doctor`" in out


def test_a_server_on_another_host_is_asked_about_there(port: Port) -> None:
    told = port.answer()
    told["caches"] = [{**told["caches"][0], "here": False, "places": [], "starts": []}]
    port.watched.board.caches = lambda: told
    code, out, _ = port.ask("show")
    assert code == 3
    assert "next: ask on the host where it runs: `watchdog cache show`" in out
    assert (
        "on the host where it runs: `watchdog cache confirm qwen`" in port.ask("confirm", "qwen")[1]
    )


def test_where_nobody_knows_who_filled_it_the_next_step_would_make_it_sure(port: Port) -> None:
    port.known["qwen"] = outline(place("unknown", why="traces"))
    code, out, _ = port.ask("show")
    assert code == 3
    assert "next: if its drafts are not accepted: stop the server," in out
    assert f"`watchdog cache set-aside --directory {ROOT}`" in out


def test_what_speaks_against_the_configuration_is_told(port: Port) -> None:
    port.facts = {"cache": {"note": "cache.directory is /a, and the server uses /b"}}
    assert "  note: cache.directory is /a, and the server uses /b" in port.ask("show")[1]


def test_a_configured_directory_that_is_another_one_is_not_what_is_set_aside(port: Port) -> None:
    port.known["qwen"] = outline(place("stale"))
    port.target = "{url: 'http://127.0.0.1:1', name: qwen, cache: {directory: /srv/other}}"
    assert f"`watchdog cache set-aside --directory {ROOT}`" in port.ask("show")[1]


def test_what_could_not_be_read_is_listed(port: Port) -> None:
    seen = {"path": ROOT, "cut": "it took longer than 5 s", "unread": [["rank_0_0", "not allowed"]]}
    port.facts = {"cache": {"places": [seen]}}
    gaps = [{"part": "environ", "reason": "that of process 4711 may not be read"}]
    now = {"digest": NEW, "partial": True, "factors": [], "unread": gaps}
    port.known["qwen"] = outline(
        place("unknown", files=0, why="partial", stamp="the daemon may not write"), now=now
    )
    code, out, _ = port.ask("show")
    assert code == 3
    for words in (
        f"running launch: {NEW}, partial: it can show a change and prove no sameness",
        "could not be read: environ: that of process 4711 may not be read",
        "no files were seen in it",
        "not all of it was seen: it took longer than 5 s",
        "could not be read: rank_0_0: not allowed",
        "stamp: the daemon may not write",
        'docs/install.md, "More sight"',
    ):
        assert words in out


def test_of_many_factors_the_first_are_printed_and_all_are_in_the_json(port: Port) -> None:
    factors = [{"name": f"env VLLM_{n:02}", "shown": "1"} for n in range(40)]
    port.known["qwen"] = outline(
        now={"digest": NEW, "partial": False, "unread": [], "factors": factors}
    )
    out = " ".join(port.ask("show")[1].split())
    assert "env VLLM_23 1; 16 more (--json has all)" in out
    assert "VLLM_24" not in out
    told = json.loads(port.ask("show", "--json")[1])
    assert told["caches"][0]["now"]["factors"] == factors


def test_json_is_one_document_with_the_same_exit_code(port: Port) -> None:
    port.known = {"qwen": outline(place("stale")), "llama": outline()}
    code, out, err = port.ask("show", "qwen", "--json")
    told = json.loads(out)
    assert (code, err) == (2, "")
    assert (told["product"], told["targets"]) == ("serving-watchdog", ["qwen"])
    [row] = told["caches"]
    assert (row["target"], row["places"][0]["verdict"]) == ("qwen", "stale")
    assert port.ask("show", "llama", "--json")[0] == 0


@pytest.mark.parametrize(
    ("columns", "widest"), [("60", 80), ("80", 80), ("120", 120), ("300", 120)]
)
def test_a_text_fits_its_terminal_but_for_paths_and_commands(
    port: Port, monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("watchdog.cli_cache_target._is_terminal", lambda: True)
    port.known["qwen"] = outline(
        place("stale", words="word " * 100), starts=[start(changed="x " * 99)]
    )
    for argv in (("show",), ("confirm", "qwen")):
        lines = port.ask(*argv)[1].splitlines()
        assert max(map(len, lines)) <= widest
    assert max(len(line) for line in port.ask("show")[1].splitlines()) > widest - 20


def test_a_command_is_never_broken_over_two_lines(port: Port) -> None:
    port.known["qwen"] = outline(place("stale", "/srv/" + "a" * 90))
    out = port.ask("show")[1]
    assert f"`watchdog cache set-aside --directory /srv/{'a' * 90}`" in out


def test_words_of_others_steer_no_terminal(port: Port) -> None:
    odd = place("stale", "/c/\x1b[2Jx\n[red]", words="\x1b[31mred\r\n", stamp="\x07")
    port.known["qwen"] = outline(odd)
    out = port.ask("show")[1]
    assert all(letter.isprintable() for line in out.split("\n") for letter in line)
    assert "[red]" in out


@pytest.mark.parametrize("verdict", ["stale", "unknown"])
def test_a_place_that_is_missing_is_not_to_be_set_aside(port: Port, verdict: str) -> None:
    port.known["qwen"] = outline(place(verdict), starts=[start("warm")])
    port.facts = {"cache": {"places": [{"path": ROOT, "missing": True}]}}
    anew = f"the next start makes {ROOT} anew, and then `watchdog cache confirm qwen`"
    for argv in (("show",), ("confirm", "qwen")):
        out = " ".join(port.ask(*argv)[1].split())
        assert anew in out
        assert "`watchdog cache set-aside" not in out
    there = place(verdict, "/srv/there")
    port.known["qwen"] = outline(place(verdict), there)
    assert "`watchdog cache set-aside --directory /srv/there`" in port.ask("show")[1]


def test_a_launch_that_differs_in_nothing_that_counts_here_is_told_so(port: Port) -> None:
    alike = fill(OLD, 24, changed="nothing that counts here")
    port.known["qwen"] = outline(place(fills=[alike]))
    assert f"{OLD[:8]} differs by nothing that counts here" in port.ask("show")[1]


@pytest.mark.parametrize("verdict", ["safe", "unknown", "stale"])
def test_a_cache_dir_that_was_chosen_is_named_whatever_its_verdict(
    port: Port, verdict: str
) -> None:
    port.known["qwen"] = outline(place(verdict, kind="chosen", by="cache_dir", chosen=True))
    line = f"  {ROOT} (chosen, from cache_dir: bypasses vLLM's key): {verdict}\n"
    assert line in port.ask("show")[1]
    port.known["qwen"] = outline(place(verdict))
    assert "bypasses" not in port.ask("show")[1]


# --- confirm -------------------------------------------------------------------------------------


def test_a_cold_start_is_confirmed_with_each_sign(port: Port) -> None:
    took = "it took 600 s; declared floors: a cold start takes about 594 s, a warm one 320 s"
    signs = [
        sign("log", "unclear", "no log was read"),
        sign("artifacts", "cold", f"{ROOT} was filled by this start"),
        sign("time", "cold", took),
    ]
    copy = "qwen.stale-20261113T115000Z"
    port.known["qwen"] = outline(starts=[start(signs=signs, after_aside=copy)])
    code, out, err = port.ask("confirm", "qwen")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == ("serving-watchdog: qwen: the last start was cold: it compiled for itself")
    whole = " ".join(out.split())
    assert f"started 2026-11-13 12:00Z, answered after 600 s, after {copy} was set aside" in whole
    table = [re.split(r"  +", line.strip(), maxsplit=2) for line in lines]
    assert ["log", "unclear", "no log was read"] in table
    assert ["artifacts", "cold", f"{ROOT} was filled by this start"] in table
    assert ["time", "cold", took] in table
    assert lines[-1].startswith("  next: nothing to do; ")


@pytest.mark.parametrize(("warm", "told"), [(None, "not known"), (600.0, "600 s")])
def test_a_start_is_not_held_against_the_floors_that_were_learned_from_it(
    port: Port, warm: float | None, told: str
) -> None:
    unclear = sign("time", "unclear", "it took 600 s; floors are not known")
    port.known["qwen"] = outline(
        starts=[start(signs=[unclear])], floors={"cold": 600.0, "warm": warm, "by": "learned"}
    )
    out = port.ask("confirm", "qwen")[1]
    assert "answered after 600 s\n" in out
    assert "learned" not in out
    assert f"learned: cold floor 600 s, warm floor {told}" in port.ask("show")[1]


@pytest.mark.parametrize(("hours", "told"), [(0, "its stamp"), (1, "its stamp, and seen since")])
def test_a_start_that_was_seen_after_its_stamp_is_not_said_to_be_of_the_stamp(
    port: Port, hours: int, told: str
) -> None:
    at = NOW - 17 * DAY
    stamped = fill(NEW, 17, origin="stamp", first=at, last=at + hours * 3600)
    port.known["qwen"] = outline(place(fills=[stamped]))
    [line] = [x.strip() for x in port.ask("show")[1].splitlines() if f"    {NEW[:8]}  " in x]
    assert re.split(r"  +", line)[-1] == told


def test_a_warm_start_after_a_set_aside_says_where_to_look(port: Port) -> None:
    port.known["qwen"] = outline(starts=[start("warm", after_aside="qwen.stale-20261113T115000Z")])
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 2
    assert "the last start was not cold: it loaded what had been compiled before" in out
    assert "what it loaded is still there: `watchdog cache show qwen`" in " ".join(out.split())


def test_a_directory_that_was_replaced_counts_as_set_aside_and_is_called_so(port: Port) -> None:
    port.known["qwen"] = outline(starts=[start("warm", after_aside=REPLACED)])
    out = " ".join(port.ask("confirm", "qwen")[1].split())
    assert "after its directory was replaced by another one" in out
    assert "what it loaded is still there" in out


def test_a_warm_start_without_a_set_aside_is_nothing_bad(port: Port) -> None:
    port.known["qwen"] = outline(starts=[start("warm")])
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 2
    assert "next: nothing, unless it was to compile anew: then stop the server" in out


@pytest.mark.parametrize("copy", [None, "qwen.stale-20261113T115000Z"])
def test_a_warm_start_on_a_stale_place_has_the_next_step_of_that_place(
    port: Port, copy: str | None
) -> None:
    begun = start("warm", after_aside=copy)
    port.known["qwen"] = outline(place(), place("stale", "/c/x"), starts=[begun])
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 2
    assert "next: stop the server, `watchdog cache set-aside --directory /c/x`" in out
    assert out.splitlines()[-2:] == port.ask("show")[1].splitlines()[-2:]


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("this launch compiles no graph (enforce-eager)", "(enforce-eager)"),
        ("the server's log says that it is switched off",) * 2,
    ],
)
def test_of_a_launch_that_uses_no_cache_there_is_nothing_to_confirm(
    port: Port, tmp_path: Path, why: str, told: str
) -> None:
    signs = [sign("launch", "unclear", why), sign("log", "unclear", "no log was read")]
    port.known["qwen"] = outline(starts=[start("unknown", signs=signs)])
    for more in ((), ("--log", logged(tmp_path, b"nothing of it\n"))):
        code, out, _ = port.ask("confirm", "qwen", *more)
        assert code == 3
        assert "next: nothing to confirm: this launch uses no compile cache (" in out
        assert told in out.splitlines()[-1]


def test_where_nothing_shows_it_the_next_step_would_decide(port: Port, tmp_path: Path) -> None:
    heard = [sign("log", "unclear", "no log was read"),
             sign("time", "unclear", "how long it took was not seen")]  # fmt: skip
    unclear = start("unknown", up_seconds=None, signs=heard)
    port.known["qwen"] = outline(starts=[unclear], floors={"cold": None, "warm": None, "by": ""})
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 3
    assert "unknown: nothing shows whether the last start was cold" in out
    assert "log        unclear  no log was read" in out
    assert "time       unclear  how long it took was not seen" in out
    assert "`journalctl -u vllm -b | watchdog cache confirm qwen --log -`" in out

    port.target = "{url: 'http://127.0.0.1:1', name: qwen, launch: {systemd_unit: q.service}}"
    assert "journalctl -u q.service -b" in port.ask("confirm", "qwen")[1]

    log = logged(tmp_path, b"nothing of it\n")
    code, out, _ = port.ask("confirm", "qwen", "--log", log)
    assert code == 3
    assert "declare how many seconds both kinds of start take" in out

    port.target = (
        "{url: 'http://127.0.0.1:1', name: qwen, cache: {warm_start: 320s, cold_start: 594s}}"
    )
    code, out, _ = port.ask("confirm", "qwen", "--log", log)
    assert code == 3
    assert "let the daemon watch the next start" in out


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (COLD_LOG, 0, "1 graph(s) compiled, 0 loaded"),
        (WARM_LOG, 2, "0 graph(s) compiled, 1 loaded"),
    ],
)
def test_a_log_that_is_given_is_the_strongest_sign(
    port: Port, tmp_path: Path, text: bytes, code: int, words: str
) -> None:
    """The daemon's own signs contradict it, and both are shown."""
    other = {0: "warm", 2: "cold"}[code]
    port.known["qwen"] = outline(starts=[start(other)])
    log = logged(tmp_path, text)
    found, out, _ = port.ask("confirm", "qwen", "--log", log)
    assert found == code
    assert words in out
    assert re.search(rf"(artifacts|time) +{other}", out)


def test_a_log_may_come_through_a_pipe(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    port.known["qwen"] = outline(starts=[start("unknown", signs=[])])
    pipe = io.TextIOWrapper(io.BytesIO(COLD_LOG))
    monkeypatch.setattr("sys.stdin", pipe)
    assert port.ask("confirm", "qwen", "--log", "-")[0] == 0


def test_a_log_that_was_not_written_to_since_the_start_is_not_of_it(
    port: Port, tmp_path: Path
) -> None:
    port.known["qwen"] = outline(starts=[start("unknown", signs=[])])
    log = logged(tmp_path, WARM_LOG, NOW - 40 * 86400)
    code, out, _ = port.ask("confirm", "qwen", "--log", log)
    assert code == 3
    assert "nothing was written to it since the process began: it is not this start's" in " ".join(
        out.split()
    )


def test_a_log_that_cannot_be_read_is_refused_by_name(port: Port, tmp_path: Path) -> None:
    said = refused(port.ask("confirm", "qwen", "--log", str(tmp_path / "none")))
    assert f"{tmp_path / 'none'} is not there" in said
    assert "is a directory" in refused(port.ask("confirm", "qwen", "--log", str(tmp_path)))


def test_json_of_a_confirmation_is_one_document(port: Port) -> None:
    code, out, _ = port.ask("confirm", "qwen", "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["product"], told["target"], told["verdict"]) == (
        "serving-watchdog",
        "qwen",
        "cold",
    )
    assert (told["start"], told["up_seconds"]) == ("2026-11-13T12:00:00Z", 600.0)
    assert [one["name"] for one in told["signs"]] == ["log", "artifacts", "time"]
    assert told["floors"] == {"cold": 594.0, "warm": 320.0, "by": "declared"}
    assert told["next_step"].startswith("nothing to do")


def test_a_start_that_is_not_the_last_one_confirms_nothing(port: Port) -> None:
    """The server was started again, and the daemon has not looked at that start yet."""
    port.known["qwen"] = outline(starts=[start(start=NOW - 20 * 86400)])
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 3
    assert "it runs since 2026-11-13T12:00:00Z, and this start was not looked at yet" in " ".join(
        out.split()
    )
    assert "next: ask again in a minute" in out


def test_a_start_whose_signs_were_not_heard_yet_is_not_said_to_have_none(port: Port) -> None:
    port.known["qwen"] = outline(starts=[start(start=NOW - 17 * 86400, signs=[])])
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 3
    assert "this start was not looked at yet" in " ".join(out.split())
    assert "was not seen" not in out
    assert "next: ask again in a minute" in out


@pytest.mark.parametrize(("apart", "code"), [(SAME, 0), (SAME + 0.1, 3)])
def test_two_words_on_one_start_may_differ_by_some_seconds(
    port: Port, apart: float, code: int
) -> None:
    port.known["qwen"] = outline(starts=[start(start=NOW - 17 * 86400 - apart)])
    assert port.ask("confirm", "qwen")[0] == code


def test_while_the_server_is_silent_nothing_is_confirmed(port: Port) -> None:
    told = port.answer()
    told["caches"][0]["answers"] = False
    port.watched.board.caches = lambda: told
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 3
    assert "it does not answer now and may be starting" in " ".join(out.split())
    assert out.endswith("  next: ask again once it answers\n")
    out = port.ask("show")[1]
    assert "  it does not answer now: this is of its last process\n" in out
    assert f"  last launch: {NEW}\n" in out
    assert "running launch" not in out


def test_without_a_start_nothing_is_confirmed_and_the_reason_is_told(port: Port) -> None:
    port.known["qwen"] = outline(starts=[])
    code, out, _ = port.ask("confirm", "qwen")
    assert code == 3
    assert "qwen: unknown: no start of it is known yet" in out
    port.known["qwen"] = None
    assert "no round has looked at its compile cache yet" in port.ask("confirm", "qwen")[1]


def test_of_several_starts_the_last_one_counts_in_whatever_order_they_come(port: Port) -> None:
    earlier = start("warm", start=NOW - 30 * 86400)
    for starts in ([earlier, start()], [start(), earlier]):
        port.known["qwen"] = outline(starts=starts)
        assert port.ask("confirm", "qwen")[0] == 0


# --- who answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [("show", "qwem"), ("confirm", "qwem")])
def test_an_unknown_target_is_answered_with_the_known_ones(
    port: Port, argv: tuple[str, ...]
) -> None:
    assert refused(port.ask(*argv)) == "serving-watchdog: unknown target; known: qwen\n"


@pytest.mark.parametrize("argv", [("show",), ("confirm", "qwen")])
def test_without_a_daemon_it_says_how_to_start_one(port: Port, argv: tuple[str, ...]) -> None:
    port.listen = "127.0.0.1:9"
    said = refused(port.ask(*argv))
    assert said.startswith("serving-watchdog: no daemon at 127.0.0.1:9: ")
    assert said.endswith("start it with `watchdog run`\n")


def answered(body: bytes, status: str = "200 OK") -> Any:
    def behaviour(visit: Visit) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        visit.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    return behaviour


GOOD = answer({"qwen": outline()})
[SEEN] = GOOD["caches"][0]["places"]
LONG = {"factors": [{"name": "x", "shown": ""}] * 2000, "digest": "", "partial": True, "unread": []}


def with_row(**changes: Any) -> dict[str, Any]:
    [row] = GOOD["caches"]
    return {**GOOD, "caches": [{**row, **changes}]}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "another program answers there"),
        ([], "another program answers there"),
        ({**GOOD, "product": "grafana"}, "another program answers there"),
        ({**GOOD, "caches": None}, "is not understood: caches: "),
        ({**GOOD, "targets": [1]}, "is not understood: targets.0: "),
        ({**GOOD, "version": 7}, "is not understood: version: "),
        (with_row(places=[{"path": "/x"}]), "is not understood: caches.0.places.0.verdict: "),
        (with_row(places=[{**SEEN, "verdict": "fine"}]), "caches.0.places.0.verdict: "),
        (with_row(now=LONG), "caches.0.now.factors: List should have at most 1024 items"),
        (with_row(starts=[start(start="x" * 99)]), "caches.0.starts.0.start: "),
        (with_row(starts=[start(start="2026-11-13T12:00:00Z", up_seconds=-1)]), "up_seconds: "),
        (with_row(starts=[start(start=None, verdict="tepid")]), "caches.0.starts.0.verdict: "),
        (with_row(floors={"cold": 1e999}), "caches.0.floors.cold: "),
    ],
)
@pytest.mark.parametrize("argv", [("show",), ("confirm", "qwen")])
def test_an_answer_that_makes_no_sense_is_refused_by_name(
    port: Port, argv: tuple[str, ...], told: Any, words: str
) -> None:
    with HostileServer(answered(json.dumps(told).encode())) as server:
        port.listen = f"127.0.0.1:{server.port}"
        said = refused(port.ask(*argv))
    assert words in said
    assert port.listen in said
    assert len(said) < 500


def test_keys_that_a_newer_daemon_adds_are_no_trouble(port: Port) -> None:
    newer = with_row(colour="blue", places=[{**SEEN, "smell": 1}])
    with HostileServer(answered(json.dumps(newer).encode())) as server:
        port.listen = f"127.0.0.1:{server.port}"
        assert port.ask("show")[0] == 0


def test_an_older_daemon_is_named_as_such(port: Port) -> None:
    body = b'{"error": "The requested URL was not found on the server.", "status": 404}'
    with HostileServer(answered(body, "404 NOT FOUND")) as server:
        port.listen = f"127.0.0.1:{server.port}"
        assert "restart it, so that it is the version of this command" in refused(port.ask("show"))


def test_a_daemon_that_leaves_out_the_target_is_no_crash(port: Port) -> None:
    with HostileServer(answered(json.dumps({**GOOD, "caches": []}).encode())) as server:
        port.listen = f"127.0.0.1:{server.port}"
        assert "says nothing of qwen" in refused(port.ask("confirm", "qwen"))
        assert port.ask("show", "qwen")[0] == 3
