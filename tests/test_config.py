"""A configuration file becomes settings, or every one of its faults in one go."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from watchdog import config
from watchdog.checks import CHECKS
from watchdog.domain.link import Slot
from watchdog.domain.sample import HOST
from watchdog.duration import format_duration, parse_duration
from watchdog.errors import ConfigError
from watchdog.faults import known_keys
from watchdog.settings import Settings

HERE = Path(__file__).parent
BAD = sorted((HERE / "config").glob("*.yaml"))
EXAMPLE = HERE.parent / "config" / "watchdog.yaml"


def write(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults_of(path):
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    return [fault.removeprefix(f"{path}:") for fault in caught.value.faults]


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_is_refused_with_every_fault_and_its_place(path):
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    counters = ", ".join(field.name for field in dataclasses.fields(CHECKS["counters"]))
    expected = expected.replace("known: CHECKS", f"known: {', '.join(CHECKS)}")
    expected = expected.replace("known: LIMITS_OF_COUNTERS", f"known: {counters}")

    assert faults_of(path) == expected.splitlines()


def test_every_expectation_has_its_file():
    assert {p.stem for p in (HERE / "config").glob("*.txt")} == {p.stem for p in BAD}


def test_a_fault_names_the_file_itself(tmp_path):
    path = write(tmp_path, "intervall: 15s\n")

    with pytest.raises(ConfigError) as caught:
        config.load(path)

    assert str(caught.value).startswith(
        f"{path}:1:1: intervall: unknown key; did you mean interval?"
    )


def test_a_secret_in_the_wrong_place_is_never_repeated(tmp_path):
    path = write(
        tmp_path,
        "targets:\n"
        "  - {url: 'http://u:hunter2@h:1', bearer_token_file: hunter2, password: hunter2}\n"
        "  - {url: 'http://u:hunter2@h:99999', bearer_token: hunter2, tls: {key_file: hunter2}}\n"
        "  - {url: 'u:hunter2@h'}\n",
    )

    told = "\n".join(faults_of(path))

    assert told.count("\n") >= 6
    assert "hunter2" not in told


def test_a_file_that_is_not_there_says_how_to_write_one(tmp_path):
    path = tmp_path / "none.yaml"

    with pytest.raises(ConfigError, match="does not exist; write one with `watchdog config init"):
        config.load(path)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="is no file"):
        config.load(tmp_path)


def test_a_pipe_is_not_waited_for():
    with pytest.raises(ConfigError, match="is no file"):
        config.load(Path("/dev/null"))


def test_a_link_in_a_circle_cannot_be_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.symlink_to(path)

    with pytest.raises(ConfigError, match="cannot be read: too many levels of symbolic links"):
        config.load(path)


def test_an_empty_file_is_refused(tmp_path):
    assert faults_of(write(tmp_path, ""))[0].startswith("1:1: the file is empty; the least is")


def test_a_file_above_one_mebibyte_is_refused_and_one_of_that_size_is_not(tmp_path):
    fits = "interval: 15s\n#".ljust(1 << 20, "x")
    assert config.load(write(tmp_path, fits)).interval == 15

    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        config.load(write(tmp_path, fits + "x"))


def test_a_file_that_is_not_utf_8_names_the_line(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"interval: 15s\nhost: caf\xe9\n")

    assert faults_of(path) == ["2:1: byte 0xe9 is not UTF-8; save the file as UTF-8"]


def test_a_byte_order_mark_is_no_fault(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes("\ufeffinterval: 20s\n".encode())

    assert config.load(path).interval == 20


def test_a_control_character_is_named(tmp_path):
    assert faults_of(write(tmp_path, 'host: a\nname: "\x07"\n')) == [
        "2:8: the character U+0007 is not allowed in YAML"
    ]


@pytest.mark.parametrize("text", ["targets: " + "[" * 3_000, "targets: " + "{a: " * 3_000])
def test_bottomless_nesting_is_refused(tmp_path, text):
    assert faults_of(write(tmp_path, text)) == ["1:1: nested too deeply"]


@pytest.mark.parametrize("layer", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_of_aliases_do_not_explode(tmp_path, layer):
    lines = ["k0: &a0 {x: null}"]
    lines += [f"k{i}: &a{i} {layer.format(','.join([f'*a{i - 1}'] * 10))}" for i in range(1, 30)]

    faults = faults_of(write(tmp_path, "\n".join(lines)))

    assert sum("unknown key" in fault for fault in faults) == 30


def test_an_anchor_may_be_used_again_and_merged(tmp_path):
    path = write(
        tmp_path,
        "targets:\n"
        "  - &first\n"
        "    url: http://gpu-1:8000\n"
        "    expect: &claims {depth: 7, method: dflash}\n"
        "  - url: http://gpu-2:8000\n"
        "    expect: *claims\n"
        "  - {<<: *first, url: http://gpu-3:8000}\n",
    )

    targets = config.load(path).targets

    assert [target.url[7:12] for target in targets] == ["gpu-1", "gpu-2", "gpu-3"]
    assert {target.expect.depth for target in targets} == {7}


def test_a_fault_in_a_merged_part_is_shown_where_it_stands(tmp_path):
    path = write(
        tmp_path,
        "targets:\n"
        "  - &first {url: http://gpu-1:8000, cache: {cold_start: 5}}\n"
        "  - {<<: *first, url: http://gpu-2:8000}\n",
    )

    assert [fault.partition(": ")[0] for fault in faults_of(path)] == ["2:57", "2:57"]


def test_without_a_file_one_target_is_watched():
    settings = config.default()

    assert [(t.url, t.name) for t in settings.targets] == [
        ("http://127.0.0.1:8000", "127.0.0.1:8000")
    ]
    assert settings.server.address == ("127.0.0.1", 19590)
    assert settings.interval == 15.0
    assert settings.host


def test_a_url_stands_for_a_file_with_one_target():
    (target,) = config.default("https://gpu-1/vllm/").targets

    assert (target.url, target.name) == ("https://gpu-1/vllm", "gpu-1:443")


def test_a_bad_url_names_the_option():
    with pytest.raises(ConfigError) as caught:
        config.default("gpu-1:8000")

    assert caught.value.faults == ["--url: must begin with http://, https:// or unix://"]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://gpu-1:8218", "gpu-1:8218"),
        ("http://gpu-1", "gpu-1:80"),
        ("http://[::1]:8000", "::1:8000"),
        ("http://nim:8000/v1/metrics", "nim:8000"),
        ("unix:///run/vllm/qwen.sock", "qwen"),
        ("unix:///run/my server.sock:/v1x", None),
        ("unix:///run/vllm/qwen.sock:/prefix", "qwen"),
    ],
)
def test_a_target_is_named_after_its_address(url, name):
    if name is None:
        with pytest.raises(ConfigError):
            config.default(url)
    else:
        assert config.default(url).targets[0].name == name


def test_no_targets_at_all_is_allowed_and_warned_of(tmp_path):
    settings = config.load(write(tmp_path, "targets: []\n"))

    assert settings.targets == ()
    assert config.warnings(settings) == ["targets: none; only the GPUs of this host are watched"]


@pytest.mark.parametrize(
    ("claims", "speculation"),
    [
        ("{method: EAGLE3}", True),
        ("{depth: 3}", True),
        ("{acceptance_length: 2}", True),
        ("{speculation: false}", False),
        ('{version: "0.27.1"}', None),
        ('{version: "0.27.1", speculation: false}', False),
        ("{}", None),
    ],
)
def test_a_claim_about_drafts_claims_speculation(tmp_path, claims, speculation):
    path = write(tmp_path, f"targets: [{{url: http://h:1, expect: {claims}}}]\n")

    settings = config.load(path)

    assert config.profile_of(settings, settings.targets[0]).speculation is speculation


def test_a_profile_holds_what_is_declared(tmp_path):
    path = write(
        tmp_path,
        "targets:\n"
        "  - url: http://h:1\n"
        "    expect: {method: EAGLE3, depth: 3, acceptance_length: 2.5, version: '0.27'}\n"
        "    routing: prefix-aware\n"
        "    cache: {cold_start: 1h30m, warm_start: 5m}\n"
        "    checks: {acceptance_length: {icc: 0.2}}\n",
    )
    settings = config.load(path)

    profile = config.profile_of(settings, settings.targets[0])

    claims = (True, "eagle3", 3, 2.5, 5400.0, 0.2, (), "prefix-aware", "0.27", 300.0)
    assert dataclasses.astuple(profile) == claims


def test_a_slot_is_declared_by_any_spelling_of_its_address(tmp_path):
    path = write(
        tmp_path,
        "gpus:\n"
        "  slots:\n"
        "    0000:05:00.0: {generation: 3, width: 16}\n"
        '    "09:00.0": {generation: 3, width: 8, note: bifurcated}\n'
        '    "0000:8A:00.0": {generation: 4, width: 16}\n',
    )

    assert config.host_profile(config.load(path)).slots == (
        Slot("0000:05:00.0", 3, 16, ""),
        Slot("0000:09:00.0", 3, 8, "bifurcated"),
        Slot("0000:8a:00.0", 4, 16, ""),
    )


def test_checks_of_the_host_are_made_for_the_host_alone():
    of_host = config.checks_for(config.default(), HOST)
    of_target = config.checks_for(config.default(), "127.0.0.1:8000")

    assert {name: type(check) for name, check in {**of_host, **of_target}.items()} == dict(CHECKS)
    assert {check.about for check in of_host.values()} == {"host", "gpu"}
    assert {check.about for check in of_target.values()} == {"target", "engine"}


def test_a_targets_own_limit_beats_the_common_one_which_beats_the_default(tmp_path):
    path = write(
        tmp_path,
        "targets:\n"
        "  - {url: http://a:1, checks: {progress: {after: 5m}}}\n"
        "  - {url: http://b:1}\n"
        "checks: {progress: {after: 3m}, counters: {slack: 0.5}}\n",
    )
    settings = config.load(path)

    a, b = config.checks_for(settings, "a:1"), config.checks_for(settings, "b:1")

    assert (a["progress"].after, b["progress"].after) == (300.0, 180.0)
    assert a["progress"].longest_prefill == CHECKS["progress"]().longest_prefill
    assert a["counters"].slack == b["counters"].slack == 0.5


@dataclasses.dataclass(frozen=True)
class Fussy(CHECKS["counters"]):
    def __post_init__(self):
        if self.slack >= 1:
            raise ValueError("slack must be below 1")


def test_limits_that_a_check_refuses_when_it_is_made_are_faults(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CHECKS", {**CHECKS, "counters": Fussy})
    path = write(
        tmp_path,
        "targets:\n"
        "  - {url: http://a:1, checks: {counters: {slack: 2}}}\n"
        "  - {url: http://b:1, checks: {counters: {slack: 0.5}}}\n"
        "checks:\n"
        "  counters: {slack: 1}\n",
    )

    assert faults_of(path) == [
        "2:42: targets.0.checks.counters: slack must be below 1",
        "5:13: checks.counters: slack must be below 1",
    ]


def test_settings_do_not_change():
    settings = config.default()

    with pytest.raises(ValidationError):
        settings.interval = 1.0


def test_a_file_below_the_credentials_directory_is_looked_for_there(tmp_path, monkeypatch):
    path = write(
        tmp_path,
        "alerting: {alertmanagers: [{url: http://h:1, username: me, "
        'password_file: "${CREDENTIALS_DIRECTORY}/am"}]}\n',
    )
    (manager,) = config.load(path).alerting.alertmanagers
    assert str(config.access_of(manager).password_file) == "$CREDENTIALS_DIRECTORY/am"

    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/x")

    access = config.access_of(manager)
    assert (access.username, access.password_file) == ("me", Path("/run/credentials/x/am"))


def test_alerts_that_would_reach_nobody_are_warned_of(tmp_path):
    token = tmp_path / "token"
    token.write_text("x")
    token.chmod(0o640)
    path = write(
        tmp_path,
        f"alerting:\n  heartbeat: true\n  webhooks: [{{url_file: {tmp_path}/hook.url}}]\n"
        f"  ping: {{url_file: {tmp_path}/ping.url}}\n"
        f"server: {{webhook_token_file: {token}}}\n",
    )

    assert config.warnings(config.load(path)) == [
        "alerting.heartbeat: no alertmanagers are given, so nobody hears it",
        f"webhook hook: url_file: {tmp_path}/hook.url does not exist",
        f"alerting.ping: url_file: {tmp_path}/ping.url does not exist",
    ]


def test_the_state_directory_is_the_one_that_systemd_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path}/a:{tmp_path}/b")
    assert config.default().state_dir == tmp_path / "a"
    monkeypatch.delenv("STATE_DIRECTORY")
    assert config.default().state_dir == Path("/var/lib/serving-watchdog")


def test_what_looks_like_a_slip_is_warned_of(tmp_path):
    token = tmp_path / "token"
    token.write_text("x")
    token.chmod(0o644)
    path = write(
        tmp_path,
        "targets:\n"
        f"  - {{url: http://gpu-2:1, name: a, bearer_token_file: {token}}}\n"
        f"  - {{url: http://gpu-2:1, name: b, bearer_token_file: {tmp_path}/none}}\n"
        "  - {url: https://gpu-3:1, name: c, tls: {insecure_skip_verify: true}}\n"
        "  - {url: http://127.0.0.1:1, name: d, tls: {server_name: d}}\n"
        "server: {listen: 0.0.0.0:19590}\n",
    )

    assert config.warnings(config.load(path)) == [
        f"target a: bearer_token_file: {token} can be read by every user; chmod o-r it",
        "target a: the secret travels unencrypted; use https",
        f"target b: bearer_token_file: {tmp_path}/none does not exist",
        "target b: the secret travels unencrypted; use https",
        "target c: tls.insecure_skip_verify accepts any certificate; name a ca_file instead",
        "target d: tls has no effect on a http:// url",
        "targets: http://gpu-2:1 is listed more than once",
        "server.listen: everybody who reaches 0.0.0.0 port 19590 can read the report",
        "server.webhook_token_file: without it other hosts may not post alerts",
    ]
    token.chmod(0o640)
    assert "chmod" not in "\n".join(config.warnings(config.load(path)))


def test_the_built_in_defaults_are_warned_of_nothing():
    assert config.warnings(config.default()) == []


FULL = """\
targets:
  - url: https://gpu-1:8000/prefix
    name: "1234"
    expect: {method: mtp, depth: 7, acceptance_length: 3}
    cache: {cold_start: 1h30m}
    bearer_token_file: $CREDENTIALS_DIRECTORY/token
    tls: {ca_file: /etc/ca.pem, server_name: gpu}
    checks: {progress: {after: 90s}, drafting: {most_share: 0}}
  - url: unix:///run/vllm/qwen.sock
alerting:
  alertmanagers: [{url: http://am:9093, username: "no", password_file: /etc/password}]
  labels: {site: "007"}
server: {listen: "[::1]:19590"}
checks: {progress: {after: 1m500ms}}
interval: 2m30s
host: gpu-1
"""


def test_what_is_shown_is_a_file_that_means_the_same(tmp_path):
    settings = config.load(write(tmp_path, FULL))

    shown = config.as_yaml(settings)

    assert shown.startswith("# serving-watchdog")
    assert config.load(write(tmp_path, shown)) == settings
    assert settings.server.address == ("::1", 19590)
    assert yaml.safe_load(shown)["checks"]["progress"]["after"] == "1m500ms"
    assert yaml.safe_load(shown)["targets"][0]["checks"] == {
        "drafting": {"most_share": 0.0},
        "progress": {"after": "1m30s"},
    }


def test_the_example_file_is_the_defaults(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-1")

    assert config.load(EXAMPLE) == config.default()


def test_the_example_file_names_every_key_there_is():
    text = EXAMPLE.read_text(encoding="utf-8")
    bare = re.sub(r"^( *)# ?(?=[ -]*\w+:)", r"\1", text, flags=re.MULTILINE)

    missing = [key for key in keys_of(Settings) if not re.search(rf"\b{key}:", bare)]

    assert missing == []


def test_the_example_file_says_every_limit_with_its_default():
    written = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["checks"]

    shown = yaml.safe_load(config.as_yaml(config.default()))["checks"]
    assert written == shown


def keys_of(model: type[BaseModel], place=()):
    for key in known_keys(place):
        yield key
        yield from keys_of(model, (*place, key))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("15s", 15.0),
        ("5m", 300.0),
        ("6h", 21600.0),
        ("2d", 172800.0),
        ("1h30m", 5400.0),
        ("1d2h3m4s5ms", 93784.005),
        ("0s", 0.0),
    ],
)
def test_a_duration_reads_and_writes_the_same(text, seconds):
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "text", ["", "15", "s", "1.5h", "30m1h", "5m5m", "-5s", "5 m", "5M", "٣s", "9" * 400 + "s"]
)
def test_what_is_no_duration_is_refused_with_the_hint(text):
    with pytest.raises(ValueError, match="write a duration as 500ms, 15s"):
        parse_duration(text)
