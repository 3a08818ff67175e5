"""The drop-in for an operator's vLLM unit, as shipped and run by a real systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.booted import Host
from tests.systemd.conftest import Installed
from tests.vllm_venv import SITE

GUARD = Path(__file__).parents[2] / "systemd" / "vllm-cache-guard.conf"
UNIT = "/etc/systemd/system/vllm.service"
DROP_IN = f"{UNIT}.d/cache-guard.conf"
LAUNCH = "/usr/local/bin/vllm-launch"
CACHES = "/var/cache/vllm"
CACHE = f"{CACHES}/qwen"
STAMP = ".serving-watchdog-stamp.json"
WROTE = f"{CACHE}/torch_compile_cache/0a1b2c3d4e/graph"
OPERATORS = """
[Service]
Type=exec
User=vllm
Restart=no
ExecStart=/opt/vllm/bin/vllm serve /models/other
"""
SERVER = f"""#!/opt/vllm/bin/python
mkdir -p {WROTE} && printf '%s\\n' "$@" >>{WROTE}/words
exec sleep 1000
"""


def launcher() -> str:
    """The script that the comments show, word for word."""
    lines = GUARD.read_text().splitlines()
    first = lines.index("#     #!/bin/sh")
    shown = [line[6:] for line in lines[first:] if line.startswith("#     ")]
    return "\n".join([*shown, ""])


def setting_aside() -> str:
    """The drop-in with its other choice: set aside, and go on."""
    lines = GUARD.read_text().splitlines()
    [verify] = [n for n, line in enumerate(lines) if line.startswith("ExecStartPre=/usr") and
                "verify" in line]  # fmt: skip
    [other] = [n for n, line in enumerate(lines) if line.startswith("#ExecStartPre=")]
    lines[verify], lines[other] = f"#{lines[verify]}", lines[other][1:]
    return "\n".join([*lines, ""])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("text", [GUARD.read_text(), setting_aside()], ids=["refuse", "set aside"])
def test_systemd_finds_nothing_wrong_with_either_choice(tmp_path: Path, text: str) -> None:
    unit = tmp_path / "vllm.service"
    unit.write_text(OPERATORS.replace("/opt/vllm/bin/vllm", "/bin/true"))
    unit.with_name("vllm.service.d").mkdir()
    drop_in = unit.with_name("vllm.service.d") / "guard.conf"
    drop_in.write_text(text.replace(LAUNCH, "/bin/true"))  # neither is on this machine
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


class Vllm:
    """An operator's unit on the host, with the drop-in of the release that is installed."""

    def __init__(self, host: Host) -> None:
        self.host = host
        for path, text in ((LAUNCH, launcher()), ("/opt/vllm/bin/vllm", SERVER)):
            host.path(path).parent.mkdir(parents=True, exist_ok=True)
            host.path(path).write_text(text)
            host.path(path).chmod(0o755)
        # What it installs says which versions run; the Python of this one is a shell.
        host.path("/opt/vllm/bin/python").symlink_to("/bin/sh")
        host.path("/opt/vllm/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
        host.path(f"/opt/vllm/{SITE}/vllm-0.32.0.dist-info").mkdir(parents=True)
        for folder in ("/models/qwen", "/models/draft"):
            host.path(folder).mkdir(parents=True)
            (host.path(folder) / "config.json").write_text('{"architectures": ["Qwen3"]}')
            (host.path(folder) / "model.bin").write_text("weights")
        host.path(UNIT).write_text(OPERATORS)
        host.path(DROP_IN).parent.mkdir()
        shutil.copy(host.path("/opt/serving-watchdog/share/vllm-cache-guard.conf"),
                    host.path(DROP_IN))  # fmt: skip
        host.ok("useradd", "--system", "vllm")
        host.ok("systemctl", "daemon-reload")

    def starts(self) -> bool:
        return self.host.run("systemctl", "restart", "vllm").returncode == 0

    def depth(self, tokens: int) -> None:
        """Change the depth of the drafts, where the words stand."""
        text = self.host.path(LAUNCH).read_text()
        changed = re.sub(r'(tokens": )\d+', rf"\g<1>{tokens}", text)
        self.host.path(LAUNCH).write_text(changed)

    def said(self) -> str:
        """What the journal has of the newest start."""
        unit = self.host.shows("vllm.service")
        lines = self.host.ok("journalctl", "-o", "cat", "--no-pager",
                             f"_SYSTEMD_INVOCATION_ID={unit['InvocationID']}")  # fmt: skip
        assert lines
        return lines

    def copies(self) -> list[str]:
        return sorted(p.name for p in self.host.path(CACHES).iterdir() if p.name != "qwen")


@pytest.fixture
def vllm(installed: Installed) -> Iterator[Vllm]:
    host = installed.host
    yield Vllm(host)
    host.run("systemctl", "stop", "vllm")
    for path in ("/models", "/opt/vllm", f"{UNIT}.d", CACHES):
        shutil.rmtree(host.path(path))
    for path in (LAUNCH, UNIT):
        host.path(path).unlink()
    host.ok("userdel", "vllm")
    host.ok("systemctl", "daemon-reload")


def test_a_changed_launch_is_refused_until_its_cache_is_set_aside(vllm: Vllm) -> None:
    assert vllm.starts(), vllm.said()  # there is nothing yet
    assert "safe" in vllm.said()
    assert vllm.host.path(WROTE).is_dir()
    assert vllm.starts(), vllm.said()  # the same launch again
    assert vllm.host.path(CACHE).stat().st_uid == int(vllm.host.ok("id", "-u", "vllm"))

    vllm.depth(3)
    vllm.host.ok("systemctl", "stop", "vllm")
    assert not vllm.starts()
    said = vllm.said()
    assert "speculative-config num_speculative_tokens 7 -> 3" in said
    line = f"cache set-aside --directory {CACHE}"
    assert line in said
    assert "is stamped" not in said

    vllm.host.ok("runuser", "-u", "vllm", "--", "/opt/serving-watchdog/bin/serving-watchdog",
                 *line.split())  # fmt: skip
    assert vllm.starts(), vllm.said()
    assert len(vllm.copies()) == 1
    vllm.depth(7)
    assert not vllm.starts()  # the new directory is that of the new launch


def test_files_without_a_stamp_are_refused_too(vllm: Vllm) -> None:
    assert vllm.starts()
    (vllm.host.path(CACHE) / STAMP).unlink()
    assert not vllm.starts()
    assert "no stamp says which launch made them" in vllm.said()


def test_the_other_choice_sets_a_stale_one_aside_and_goes_on(vllm: Vllm) -> None:
    vllm.host.path(DROP_IN).write_text(setting_aside())
    vllm.host.ok("systemctl", "daemon-reload")
    assert vllm.starts(), vllm.said()
    assert vllm.starts(), vllm.said()
    assert vllm.copies() == []

    vllm.depth(3)
    assert vllm.starts(), vllm.said()
    assert "num_speculative_tokens 7 -> 3" in vllm.said()
    [copy] = vllm.copies()
    assert copy.startswith("qwen.stale-")
    assert '"num_speculative_tokens": 3' in (vllm.host.path(WROTE) / "words").read_text()
    assert '"num_speculative_tokens": 7' not in (vllm.host.path(WROTE) / "words").read_text()

    (vllm.host.path(CACHE) / STAMP).unlink()
    assert not vllm.starts()  # unknown is refused
    assert len(vllm.copies()) == 1


def test_a_refused_start_is_tried_again_only_as_often_as_the_unit_says(vllm: Vllm) -> None:
    assert vllm.starts()
    vllm.depth(3)
    restarts = "[Unit]\nStartLimitBurst=3\nStartLimitIntervalSec=60\n[Service]\nRestart=always\n"
    vllm.host.path(f"{UNIT}.d/restart.conf").write_text(restarts)
    vllm.host.ok("systemctl", "daemon-reload")
    vllm.host.ok("systemctl", "stop", "vllm")
    assert not vllm.starts()
    deadline = time.monotonic() + 60
    while (shown := vllm.host.shows("vllm.service"))["ActiveState"] != "failed":
        assert time.monotonic() < deadline, shown["ActiveState"]
        time.sleep(0.2)
    assert shown["NRestarts"] == "3"
