from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.binaries import find
from tests.sinks.lab import alert, report, until
from watchdog.domain.exposition import Totals, expose
from watchdog.domain.report import Report
from watchdog.sinks import test_report as report_of_a_test
from watchdog.sinks.textfile import Textfile


def metrics(of: Report) -> bytes:
    return expose(of, Totals(), "1.0")


def send(to: Textfile, what: Report | None = None):
    (told,) = to.send(what or report(1000.0, alert()), 0.0)
    return told


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_what_promtool_calls_good_metrics(tmp_path):
    path = tmp_path / "serving_watchdog.prom"
    told = send(Textfile(path, metrics))
    assert (told.sink, told.instance, told.ok, told.detail) == (
        "textfile", str(path), True, "written",
    )  # fmt: skip
    with path.open("rb") as text:
        subprocess.run([find("promtool"), "check", "metrics"], stdin=text, check=True)
    assert 'watchdog_alert_state{alertname="SpecDecodeCollapsed"' in path.read_text()


def test_each_round_writes_the_file_anew_even_if_nothing_changed(tmp_path):
    path = tmp_path / "a.prom"
    to = Textfile(path, lambda _: b"a 1\n")
    send(to)
    os.utime(path, (0, 0))
    send(to)
    assert path.stat().st_mtime > 1e9


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_everybody_may_read_the_file_whatever_the_umask(tmp_path, umask):
    path = tmp_path / "a.prom"
    before = os.umask(umask)
    try:
        send(Textfile(path, metrics))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_reader_never_sees_a_part(tmp_path):
    """Pages of 1 MB, so that a part would be seen; each says how it ends."""
    path, written = tmp_path / "a.prom", iter(range(1000))
    to = Textfile(path, lambda _: b"%03d\n" % (n := next(written)) * 250_000 + b"end %03d\n" % n)
    send(to)
    seen, torn, over = set(), [], threading.Event()

    def hammer() -> None:
        while not over.is_set():
            text = path.read_bytes()
            first, last = text[:3], text[-8:]
            if last != b"end %s\n" % first or len(text) != 1_000_008:
                torn.append((first, last, len(text)))
            seen.add(first)

    reader = threading.Thread(target=hammer)
    reader.start()
    for _ in range(200):
        assert send(to).ok
    over.set()
    reader.join()
    assert torn == []
    assert len(seen) > 20
    assert names(tmp_path) == ["a.prom"]


# What goes wrong


def test_a_missing_folder_is_told(tmp_path):
    told = send(Textfile(tmp_path / "absent" / "a.prom", metrics))
    assert not told.ok
    assert told.detail == f"cannot write {tmp_path}/absent/a.prom: no such file or directory"


def mounted(folder: Path, *options: str) -> Path:
    """A small file system of its own; only root may mount, and the tests of CI run as root."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(("size=64k", *options)), "tmpfs", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    return folder


@pytest.fixture
def small(tmp_path):
    folder = mounted(tmp_path / "small")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_read_only_folder_is_told_and_the_file_stays(small):
    path = small / "a.prom"
    send(Textfile(path, lambda _: b"before 1\n"))
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    told = send(Textfile(path, lambda _: b"after 1\n"))
    assert (told.ok, told.detail) == (False, f"cannot write {path}: read-only file system")
    assert path.read_bytes() == b"before 1\n"


def test_a_folder_that_is_not_ours_is_told():
    """Another process, because root may write anywhere, and a folder that all may enter."""
    program = (
        "import sys; from pathlib import Path\n"
        "from watchdog.sinks.textfile import Textfile\n"
        "from watchdog.domain.report import Report\n"
        "import os\n"
        "os.getuid() or os.setuid(65534)\n"
        "told = Textfile(Path(sys.argv[1]), lambda _: b'a 1\\n').send(Report('h', '1', 0.0), 0.0)\n"
        "print(told[0].ok, told[0].detail)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755 if os.getuid() == 0 else 0o555)
        path = Path(folder, "a.prom")
        command = [sys.executable, "-c", program, path]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"False cannot write {path}: permission denied\n"


def test_a_full_disk_is_told_leaves_the_last_file_and_no_rest(small):
    path = small / "a.prom"
    send(Textfile(path, lambda _: b"before 1\n"))
    told = send(Textfile(path, lambda _: b"x 1\n" * 50_000))
    assert (told.ok, told.detail) == (False, f"cannot write {path}: no space left on device")
    assert path.read_bytes() == b"before 1\n"
    assert names(small) == ["a.prom"]
    assert send(Textfile(path, lambda _: b"after 1\n")).ok


def test_a_place_that_is_taken_by_a_folder_is_told_and_leaves_no_rest(tmp_path):
    path = tmp_path / "a.prom"
    path.mkdir()
    assert not send(Textfile(path, metrics)).ok
    assert names(tmp_path) == ["a.prom"]


def test_what_a_killed_run_left_is_overwritten_by_the_next(tmp_path):
    """Killed for real, in the middle of writing a big page."""
    path = tmp_path / "a.prom"
    program = (
        "import sys; from pathlib import Path\n"
        "from watchdog.sinks.textfile import Textfile\n"
        "from watchdog.domain.report import Report\n"
        "to = Textfile(Path(sys.argv[1]), lambda _: b'x 1\\n' * 10_000_000)\n"
        "while True: to.send(Report('h', '1', 0.0), 0.0)\n"
    )
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", program, path]) as process:
            until(lambda: set(names(tmp_path)) - {"a.prom"})
            process.send_signal(signal.SIGKILL)
        if rest := set(names(tmp_path)) - {"a.prom"}:
            break
    assert rest, "never killed in the middle of a write"
    assert all(name.startswith(".") and not name.endswith(".prom") for name in rest)
    send(Textfile(path, metrics))
    assert names(tmp_path) == ["a.prom"]


def test_a_link_that_others_laid_is_not_written_through(tmp_path):
    path, victim = tmp_path / "a.prom", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".a.prom.new").symlink_to(victim)
    assert send(Textfile(path, metrics)).ok
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


def test_a_test_alert_leaves_the_daemons_file_alone(tmp_path):
    path = tmp_path / "a.prom"
    send(Textfile(path, lambda _: b"daemon 1\n"))
    test = report_of_a_test("gpu-1", "1.0", time.time(), ())
    told = send(Textfile(path, metrics), test)
    assert (told.ok, told.detail) == (True, "can be written")
    assert path.read_bytes() == b"daemon 1\n"
    assert names(tmp_path) == ["a.prom"]
    assert not send(Textfile(tmp_path / "absent" / "a.prom", metrics), test).ok
