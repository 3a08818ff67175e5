"""What holds for the project as a whole: its names, its set-up, and documents that cannot drift."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points, metadata
from pathlib import Path

import pytest

import watchdog

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "watchdog"
PYPROJECT = (ROOT / "pyproject.toml").read_text()
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


def test_both_commands_go_through_the_boot_module() -> None:
    ours = {
        entry.name: entry.value
        for entry in entry_points(group="console_scripts")
        if entry.dist is not None and entry.dist.name == "serving-watchdog"
    }
    assert ours == {
        "watchdog": "serving_watchdog_boot:main",
        "serving-watchdog": "serving_watchdog_boot:main",
    }


def test_no_dependency_brings_the_other_watchdog() -> None:
    required = metadata("serving-watchdog").get_all("Requires-Dist") or []
    names = {re.split(r"[^\w-]", line)[0].lower() for line in required}
    assert {"apscheduler", "prometheus-client", "requests", "structlog"} <= names
    assert not names & {"watchdog", "pynvml"}


def test_every_ignored_lint_rule_has_its_reason_beside_it() -> None:
    section = PYPROJECT.split("[tool.ruff.lint]")[1].split("[tool.ruff.lint.pylint]")[0]
    ignored = re.findall(r'^(?: {2}|"\S+ = \[)"[A-Z]+\d*".*$', section, re.MULTILINE)
    assert len(ignored) > 15
    assert [line for line in ignored if "#" not in line and not re.search('"D10[2-7]"', line)] == []


def test_every_file_begins_with_what_it_is_for() -> None:
    assert [path for path in MODULES if not path.read_text().startswith('"""')] == []


def test_the_architecture_page_names_every_file() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    names = [str(path.relative_to(PACKAGE)) for path in MODULES if path.name != "__init__.py"]
    assert [name for name in names if f"| `{name}`" not in page] == []


def test_the_architecture_page_names_no_file_that_is_gone() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for name in re.findall(r"^\| `([\w/]+\.py)`", page, re.MULTILINE):
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


def test_the_changelog_knows_this_version() -> None:
    assert watchdog.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_the_licence_is_apache_2() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert metadata("serving-watchdog")["License-Expression"] == "Apache-2.0"


def test_make_help_tells_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    told = set(re.findall(r"@echo 'make ([a-z-]+)", makefile))
    assert targets - told == {"help", "run-setup", "dev-setup", "binaries"}
    assert told <= targets


def run_setup(root: Path, python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(root / "tools" / "setup.sh"), *arguments],
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has its tools and nothing set up."""
    (tmp_path / "tools").mkdir()
    for name in ("setup.sh", "debian.sh", "binaries.sh"):
        (tmp_path / "tools" / name).write_text((ROOT / "tools" / name).read_text())
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    return tmp_path


def fake(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_setup_refuses_a_python_that_is_too_old_and_names_the_way_out(checkout: Path) -> None:
    python = fake(checkout / "python3.9", 'case "$2" in *print*) echo 3.9 ;; *) exit 1 ;; esac')
    done = run_setup(checkout, str(python), ".venv", "dev")
    assert done.returncode == 1
    assert "Python 3.9" in done.stderr
    assert "make PYTHON=" in done.stderr
    assert not (checkout / ".venv").exists()


def test_setup_refuses_a_python_that_is_not_there(checkout: Path) -> None:
    done = run_setup(checkout, "python3.0-of-nobody", ".venv", "dev")
    assert done.returncode == 1
    assert "python3.0-of-nobody" in done.stderr


@pytest.mark.parametrize(
    ("made_for", "wanted", "kept"),
    [("dev", "dev", True), ("dev", "run", True), ("run", "run", True), ("run", "dev", False)],
)
def test_setup_leaves_an_environment_that_is_up_to_date(
    checkout: Path, made_for: str, wanted: str, *, kept: bool
) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    pip = fake(
        checkout / ".venv" / "bin" / "python", f'echo "$@" >>"{checkout}/asked"; echo {version}'
    )
    assert pip.exists()
    # a first run writes the stamp, with a stand-in for the environment's python
    assert run_setup(checkout, sys.executable, ".venv", made_for).returncode == 0
    (checkout / "asked").unlink()
    assert run_setup(checkout, sys.executable, ".venv", wanted).returncode == 0
    assert (checkout / "asked").exists() is not kept


def test_setup_installs_again_when_the_requirements_changed(checkout: Path) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    fake(checkout / ".venv" / "bin" / "python", f'echo "$@" >>"{checkout}/asked"; echo {version}')
    assert run_setup(checkout, sys.executable, ".venv", "dev").returncode == 0
    (checkout / "asked").unlink()
    (checkout / "pyproject.toml").write_text(PYPROJECT + "\n# another dependency\n")
    assert run_setup(checkout, sys.executable, ".venv", "dev").returncode == 0
    assert "install --editable .[dev]" in (checkout / "asked").read_text()


def test_a_failed_install_is_not_taken_for_a_good_one(checkout: Path) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    fake(
        checkout / ".venv" / "bin" / "python",
        f'case "$*" in *install*) exit 1 ;; *) echo {version} ;; esac',
    )
    done = run_setup(checkout, sys.executable, ".venv", "dev")
    assert done.returncode == 1
    assert "package index" in done.stderr
    assert run_setup(checkout, sys.executable, ".venv", "dev").returncode == 1


def test_binaries_on_path_are_not_fetched_again(checkout: Path) -> None:
    for name in ("prometheus", "promtool", "prometheus-alertmanager", "openssl"):
        fake(checkout / "bin" / name, "exit 0")
    fake(checkout / "bin" / "apt-get", f'touch "{checkout}/fetched"')
    done = subprocess.run(
        ["sh", str(checkout / "tools" / "binaries.sh"), str(checkout / "into")],
        env={"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (checkout / "fetched").exists()
    assert not (checkout / "into").exists()
