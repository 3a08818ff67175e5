"""What is installed under our name is told from files as pip and Debian leave them."""

from __future__ import annotations

import base64
import hashlib
import sys
from importlib.metadata import Distribution

import pytest

from watchdog import installation
from watchdog.domain.finding import Verdict

SCRIPT = "#!/opt/serving-watchdog/bin/python\nfrom serving_watchdog_boot import main\n"


@pytest.fixture
def site(tmp_path):
    """Our distribution as pip leaves it, with hashes."""
    package = tmp_path / "watchdog"
    package.mkdir()
    (package / "__init__.py").write_text('__product__ = "serving-watchdog"\n')
    (package / "cli.py").write_text("def main(): ...\n")
    info = tmp_path / "serving_watchdog-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: serving-watchdog\nVersion: 0.1.0\n"
        "Requires-Dist: pyyaml<7,>=6\nRequires-Dist: no-such-library\n"
        "Requires-Dist: ruff>=0.8; extra == 'dev'\n"
    )
    lines = [f"{info.name}/RECORD,,", "watchdog/__pycache__/cli.cpython-311.pyc,,"]
    for file in package.iterdir():
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest())
        hashed = digest.rstrip(b"=").decode()
        lines.append(f"watchdog/{file.name},sha256={hashed},{file.stat().st_size}")
    (info / "RECORD").write_text("\n".join(lines) + "\n")
    return tmp_path


def ours(site):
    return Distribution.at(site / "serving_watchdog-0.1.0.dist-info")


def program(folder, text, mode=0o755):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "watchdog"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(mode)
    return file


def test_a_whole_installation_is_whole(site):
    (line,) = installation.integrity(ours(site))

    assert (line.verdict, line.detail) == (Verdict.OK, "2 files are as installed")


@pytest.mark.parametrize("change", [lambda f: f.write_text("x"), lambda f: f.unlink()])
def test_a_file_that_was_changed_or_lost_is_named(site, change):
    change(site / "watchdog" / "cli.py")

    (line,) = installation.integrity(ours(site))

    assert line.verdict is Verdict.CRITICAL
    assert f"1 of 2 files are not as installed: {site}/watchdog/cli.py" in line.detail
    assert "--force-reinstall" in line.next_step


def test_a_file_that_pip_did_not_put_there_is_named(site):
    (site / "watchdog" / "events.py").write_text("")
    (site / "watchdog" / "__pycache__").mkdir()
    (site / "watchdog" / "__pycache__" / "cli.cpython-313.pyc").write_text("")

    (line,) = installation.integrity(ours(site))

    assert line.verdict is Verdict.WARNING
    assert line.detail.endswith("in our folder: " + str(site / "watchdog" / "events.py"))


def test_an_editable_install_has_no_hashes_to_compare(site):
    info = site / "serving_watchdog-0.1.0.dist-info"
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    (site / "watchdog" / "cli.py").write_text("changed")

    (line,) = installation.integrity(ours(site))

    assert (line.verdict, line.detail[:19]) == (Verdict.OK, "an editable install")


def test_a_source_folder_has_none_either():
    (line,) = installation.integrity(None)

    assert (line.verdict, line.detail[:20]) == (Verdict.OK, "runs from a source f")


def test_a_missing_library_is_named_and_an_extra_one_is_not_missed(site):
    (line,) = installation.dependencies(ours(site))

    assert line.verdict is Verdict.CRITICAL
    assert line.detail == "missing: no-such-library"


def test_pypis_watchdog_in_this_environment_is_a_warning_and_beside_us_a_catastrophe(
    site, tmp_path, monkeypatch
):
    (line,) = installation.clashes(ours(site))
    assert line.verdict is Verdict.OK

    elsewhere = tmp_path / "dist-packages"
    info = elsewhere / "watchdog-7.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: watchdog\nVersion: 7.1.0\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(elsewhere)])
    (line,) = installation.clashes(ours(site))
    assert line.verdict is Verdict.WARNING
    assert f"7.1.0 is in {elsewhere}" in line.detail

    info.rename(site / info.name)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    (line,) = installation.clashes(ours(site))
    assert line.verdict is Verdict.CRITICAL
    assert "mixed" in line.detail


def test_ours_first_on_the_path_is_fine(tmp_path):
    program(tmp_path / "a", SCRIPT)
    program(tmp_path / "b", "#!/bin/sh\n")

    lines = list(installation.commands(f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/a", tmp_path / "no"))

    assert [(line.verdict, line.detail) for line in lines] == [
        (Verdict.OK, "ours"),
        (Verdict.OK, "another program of this name"),
    ]


def test_debians_watchdog_before_ours_is_told_with_what_it_would_do(tmp_path):
    debians = program(tmp_path / "sbin", b"\x7fELF")
    program(tmp_path / "bin", SCRIPT)

    first, second = installation.commands(f"{tmp_path}/sbin:{tmp_path}/bin", debians)

    assert first.verdict is Verdict.WARNING
    assert "hardware watchdog" in first.detail
    assert "exits 0" in first.detail
    assert "serving-watchdog" in first.next_step
    assert second.detail == "ours, not first on PATH"


def test_debians_watchdog_is_named_although_it_is_not_on_this_path(tmp_path):
    debians = program(tmp_path / "sbin", b"\x7fELF")
    program(tmp_path / "bin", SCRIPT)

    mine, other = installation.commands(f"{tmp_path}/bin", debians)

    assert (mine.verdict, other.verdict) == (Verdict.OK, Verdict.OK)
    assert other.what == str(debians)
    assert "of sudo and root" in other.detail
    assert "full path" in other.next_step


def test_what_cannot_be_run_is_no_command(tmp_path):
    program(tmp_path / "a", SCRIPT, mode=0o644)

    (line,) = installation.commands(str(tmp_path / "a"), tmp_path / "no")

    assert line.detail == "no `watchdog` on PATH"
