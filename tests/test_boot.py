"""The way in: a mixed installation is refused, and no failure of ours reads as a verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import serving_watchdog_boot as boot
import watchdog

BOOT = Path(boot.__file__)
OURS = '"""Ours."""\n\n__product__ = "serving-watchdog"\n'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder as pip leaves it: the boot module, our package, and what each test adds."""
    package = tmp_path / "watchdog"
    package.mkdir()
    (package / "__init__.py").write_text(OURS)
    (tmp_path / BOOT.name).write_text(BOOT.read_text())
    return tmp_path


def run(site: Path, cli: str | None, *, stdout: int = subprocess.PIPE) -> tuple[int, str]:
    """Start the command as pip's script does, with `cli` as its cli.py: exit code and stderr."""
    if cli is not None:
        (site / "watchdog" / "cli.py").write_text(cli)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); "
        "from serving_watchdog_boot import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


RUNS = "def main():\n    return 0\n"


def test_the_package_of_this_checkout_is_ours() -> None:
    assert watchdog.__product__ == boot.PRODUCT
    boot.verify(Path(watchdog.__file__).parent)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_a_verdict_passes_through_as_the_exit_code(site: Path, code: int) -> None:
    assert run(site, f"def main():\n    return {code}\n") == (code, "")


@pytest.mark.parametrize("name", ["events.py", "version.py", "watchmedo.py"])
def test_a_file_of_the_other_watchdog_beside_ours_is_refused(site: Path, name: str) -> None:
    (site / "watchdog" / name).write_text("")
    code, said = run(site, RUNS)
    assert code == 3
    assert name in said
    assert "virtual environment of its own" in said


@pytest.mark.parametrize("name", ["observers", "tricks", "utils"])
def test_a_folder_of_the_other_watchdog_inside_ours_is_refused(site: Path, name: str) -> None:
    (site / "watchdog" / name).mkdir()
    code, said = run(site, RUNS)
    assert code == 3
    assert name in said


@pytest.mark.parametrize("record", ["watchdog-7.1.0.dist-info", "watchdog-0.10.2-py3.8.egg-info"])
def test_the_record_of_the_other_distribution_is_refused(site: Path, record: str) -> None:
    (site / record).mkdir()
    code, said = run(site, RUNS)
    assert code == 3
    assert record in said


def test_our_own_record_and_plugins_of_the_other_are_no_offence(site: Path) -> None:
    (site / "serving_watchdog-0.1.0.dist-info").mkdir()
    (site / "watchdog_gevent-0.1.1.dist-info").mkdir()
    assert run(site, RUNS) == (0, "")


def test_an_overwritten_init_is_refused_without_running_it(site: Path) -> None:
    (site / "watchdog" / "__init__.py").write_text("raise SystemExit('ran foreign code')\n")
    code, said = run(site, RUNS)
    assert code == 3
    assert "not ours" in said
    assert "ran foreign code" not in said


def test_a_package_that_lost_its_init_is_refused(site: Path) -> None:
    # what `pip uninstall watchdog` leaves of a mixed installation
    (site / "watchdog" / "__init__.py").unlink()
    code, said = run(site, RUNS)
    assert code == 3
    assert "__init__.py" in said


def test_a_missing_package_is_refused(site: Path) -> None:
    (site / "watchdog" / "__init__.py").unlink()
    (site / "watchdog").rmdir()
    assert run(site, None)[0] == 3


@pytest.mark.parametrize(
    "body",
    [
        "    raise RuntimeError('broke')\n",
        "    raise RecursionError('broke')\n",
        "    raise SystemExit('broke')\n",
        "    import module_that_broke\n",
    ],
)
def test_a_failure_of_our_own_is_unknown_and_never_a_warning(site: Path, body: str) -> None:
    code, said = run(site, f"def main():\n{body}")
    assert code == 3
    assert said.startswith("serving-watchdog: ")
    assert "broke" in said


def test_a_syntax_error_in_the_package_is_unknown(site: Path) -> None:
    code, said = run(site, "def main(:\n")
    assert code == 3
    assert "SyntaxError" in said


def test_control_c_is_unknown(site: Path) -> None:
    assert run(site, "def main():\n    raise KeyboardInterrupt\n")[0] == 3


def test_a_number_in_system_exit_is_kept(site: Path) -> None:
    assert run(site, "def main():\n    raise SystemExit(2)\n") == (2, "")
    assert run(site, "def main():\n    raise SystemExit\n") == (0, "")


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_reader_that_has_gone_makes_it_unknown_and_not_120(
    site: Path, size: int, closed_pipe: int
) -> None:
    code, said = run(
        site, f"def main():\n    print('x' * {size})\n    return 0\n", stdout=closed_pipe
    )
    assert code == 3
    assert said == ""


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_python_dash_m_goes_the_same_way() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "watchdog", "no-such-command"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "no-such-command" in done.stderr
