"""The status page in a real browser: as an operator meets it, on a desk and on a phone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench_tree import seeds_bench
from tests.browser import Browser, Tab, browser
from tests.page.boards import NOW, board, dead, engine, finding, hostile, incident, trace
from watchdog.board import Board
from watchdog.clock import Clock
from watchdog.daemon import Daemon
from watchdog.demo.server import SimulatedServer
from watchdog.demo.simulation import BROKEN, HEALTHY, Life
from watchdog.server import Server
from watchdog.settings import Settings

PHONE, DESK = 360, 1100

FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
BANNER = "!document.getElementById('stale').hidden"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@contextmanager
def put_up(shown: Board, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """Serve a board for the length of a test; the URL of its page."""
    server = Server(listen, shown)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        server.stop()


@contextmanager
def watching(url: str, tmp_path: Path, speed: float) -> Iterator[str]:
    """Let the real daemon watch a server and the seeds' GPUs, a round each two seconds of its."""
    bench = seeds_bench(tmp_path / "sys")
    settings = Settings.model_validate(
        {
            "targets": [{"url": url, "name": "qwen", "expect": {"acceptance_length": 3.0}}],
            "gpus": {"sysfs": str(bench.root)},
            "server": {"listen": "127.0.0.1:0"},
            "interval": "2s",
        }
    )
    daemon = Daemon(settings, lambda: settings, Clock(speed))
    thread = threading.Thread(target=daemon.run, name="daemon", daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not daemon.server.port and time.monotonic() < deadline:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{daemon.server.port}/"
    finally:
        daemon.stop()
        thread.join(30)


def each_second() -> Board:
    """The incident, watched each second."""
    shown = incident()
    shown.age, shown.interval = (lambda: 0.0), 1.0
    return shown


def has(words: str) -> str:
    """Return the expression that is true when the page shows these words."""
    return f"document.querySelector('main').innerText.includes({words!r})"


# It follows what happens


def test_the_real_daemons_page_shows_a_collapse_and_its_end_by_itself(chromium, tmp_path):
    clock = Clock(10.0)
    server = SimulatedServer(clock)
    with contextlib.closing(server), watching(server.url, tmp_path, clock.speed) as url:
        server.serve(Life(clock.now() - 700, clock.now() - 600, HEALTHY))
        with chromium.tab(url) as tab:
            tab.run("window.loaded = 1")
            tab.until(has("acceptance length"))
            tab.until("document.querySelector('h1').innerText.includes('OK')")

            server.stop()
            server.serve(Life(clock.now() - 5, clock.now(), BROKEN))
            tab.until("document.querySelector('h1').innerText.includes('CRITICAL')")
            tab.until(has("SpecDecodeCollapsed critical"))
            tab.until("document.title.startsWith('CRITICAL')")
            assert "Now CRITICAL" in tab.run("document.getElementById('said').textContent")
            tab.until("document.querySelector('path.line') !== null")
            assert tab.run("document.querySelectorAll('.wide tbody tr').length") == 4

            server.stop()
            server.serve(Life(clock.now() - 5, clock.now(), HEALTHY))
            tab.until(has("Lately resolved"), 60)
            tab.until("document.querySelector('h1').innerText.includes('OK')")
            assert "SpecDecodeCollapsed critical, resolved" in tab.text()
            assert tab.run("window.loaded") == 1  # it was never loaded as a whole again
            assert tab.complaints == []


def test_it_says_stale_after_the_daemon_was_killed(chromium, tmp_path):
    config = tmp_path / "c.yaml"
    port = free_port()
    config.write_text(
        f"targets: []\ninterval: 1s\nserver: {{listen: '127.0.0.1:{port}'}}\n"
        f"gpus: {{sysfs: '{seeds_bench(tmp_path / 'sys').root}'}}\n"
    )
    with running(config) as daemon:
        url = f"http://127.0.0.1:{port}/"
        answers(url)
        with chromium.tab(url) as tab:
            tab.until(has("No alert fires"))
            assert not tab.run(BANNER)

            daemon.send_signal(signal.SIGKILL)
            tab.until(BANNER)
            banner = tab.run("document.getElementById('stale').innerText")
            for words in (
                "STALE. The watchdog does not answer.", "All below is as of", "UTC,", "ago.",
                "systemctl status serving-watchdog",
            ):  # fmt: skip
                assert words in banner
            assert tab.run("document.title").startswith("STALE · ")
            assert has_banner_in_view(tab)
            tab.complaints.clear()  # Chromium notes each refused connection

            with running(config):
                tab.until(f"!({BANNER})")
                assert "STALE" not in tab.run("document.title")


def free_port() -> int:
    with put_up(Board()) as url:
        return int(url.rstrip("/").rpartition(":")[2])


@contextmanager
def running(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "watchdog", "run", "--config", str(config)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def answers(url: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if b"data-age" in answer.read():
                return
        time.sleep(0.05)
    pytest.fail("the daemon shows no round")


def has_banner_in_view(tab: Tab) -> bool:
    tab.run("scrollTo(0, document.body.scrollHeight)")
    return bool(tab.run("document.getElementById('stale').getBoundingClientRect().top >= 0"))


def test_it_says_stale_when_rounds_stop_while_the_port_answers(chromium):
    shown = incident()
    began = time.monotonic()
    shown.age, shown.interval = (lambda: time.monotonic() - began), 1.0
    with put_up(shown) as url, chromium.tab(url) as tab:
        assert not tab.run(BANNER)
        tab.until(BANNER)
        assert "The last round was at 12:00:00 UTC" in tab.text()
        shown.age = lambda: 0.0
        tab.until(f"!({BANNER})")
        assert tab.complaints == []


def test_an_error_of_the_port_is_told_as_stale(chromium):
    shown = each_second()
    with put_up(shown) as url, chromium.tab(url) as tab:
        shown.notes = None  # type: ignore[assignment]  # a bug of ours
        tab.until(BANNER)
        assert "answers with an error (500)" in tab.text()
        assert "SpecDecodeCollapsed" in tab.text()


def test_before_the_first_round_it_waits_for_it(chromium):
    shown = Board(interval=1.0)
    with put_up(shown) as url, chromium.tab(url) as tab:
        assert "The first round is under way" in tab.text()
        full = incident()
        shown.age, shown.report = (lambda: 0.0), full.report
        tab.until("document.querySelector('h1').innerText.includes('CRITICAL')")
        assert tab.complaints == []


def test_without_a_script_it_loads_itself_again(chromium):
    shown = each_second()
    with put_up(shown) as url, chromium.tab("about:blank#") as tab:
        tab.ask("Emulation.setScriptExecutionDisabled", value=True)
        tab.open(url)
        assert "Last round at 12:00:00 UTC" in tab.text()
        assert shown.report is not None
        shown.report = replace(shown.report, now=NOW + 15)
        tab.until(has("Last round at 12:00:15 UTC"))
        assert tab.complaints == []


def test_what_somebody_opened_or_marked_stays(chromium):
    shown = board(dead(engine()), finding(engine(), alertname="SpecDecodeCliff"))
    shown.age, shown.interval = (lambda: 0.0), 1.0
    first = shown.report
    assert first is not None
    with put_up(shown) as url, chromium.tab(url) as tab:
        tab.run("document.querySelector('article.engine details').open = true")
        tab.run("document.querySelector('article.engine summary').focus()")
        shown.report = replace(first, now=NOW + 1)
        tab.until(has("12:00:01 UTC"))
        assert tab.run("document.querySelector('article.engine details').open")
        assert tab.run("document.activeElement.tagName") == "SUMMARY"

        tab.run("getSelection().selectAllChildren(document.querySelector('.lines'))")
        shown.report = replace(first, now=NOW + 2)
        time.sleep(2.5)  # nothing may happen, for more than two intervals
        assert "12:00:01 UTC" in tab.text()
        tab.run("getSelection().removeAllRanges()")
        tab.until(has("12:00:02 UTC"))


# It fits, in light and in dark


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, PHONE, 768, DESK])
@pytest.mark.parametrize("made", [incident, hostile], ids=["incident", "hostile"])
def test_nothing_is_wider_than_the_screen(chromium, made, width, dark):
    with put_up(made()) as url, chromium.tab(url, width, dark=dark) as tab:
        assert tab.run(FITS)
        assert tab.run("getComputedStyle(document.body).backgroundColor") == (
            "rgb(16, 19, 22)" if dark else "rgb(255, 255, 255)"
        )
        assert tab.complaints == []


CONTRAST = """
(() => {
  const parsed = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => {
    const [r, g, b] = parsed(c).map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (parsed(c)[3] !== 0) return c;
    }
  };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    if (e.closest("svg, script, noscript, .unseen") || !e.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(e.className + " " + e.textContent.slice(0, 40) + " " + ratio);
  }
  return poor;
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_its_ground(chromium, dark):
    subjects = [engine(str(i)) for i in range(3)]
    shown = board(*map(dead, subjects), finding(engine("x"), conclusive=False))
    shown.report = replace(shown.report, alerts=incident().report.alerts)  # type: ignore[type-var,union-attr]
    shown.age = lambda: 500.0
    with put_up(shown) as url, chromium.tab(url, dark=dark) as tab:
        assert tab.run(CONTRAST) == []


def test_who_does_not_see_is_told_what_is_drawn(chromium):
    with put_up(incident()) as url, chromium.tab(url) as tab:
        nodes = tab.ask("Accessibility.getFullAXTree")["nodes"]
        told = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes
                if "role" in n and not n.get("ignored")]  # fmt: skip
        images = [name for role, name in told if role in ("image", "img")]
        assert images == [
            "Acceptance length of engine 0, model qwen3",
            "Acceptance by position of engine 0, model qwen3",
        ]
        described = " ".join(n.get("description", {}).get("value", "") for n in nodes)
        described += " ".join(name for _, name in told)
        assert "between 1.08 and 3.80, last 1.08" in described
        assert ("main", "") in told
        assert [name for role, name in told if role == "heading"][:2] == [
            "CRITICAL", "Active alerts",
        ]  # fmt: skip


# It does what it is told by nobody


def test_hostile_names_and_texts_do_nothing(chromium):
    with put_up(hostile()) as url, chromium.tab(url, PHONE) as tab:
        tab.until("document.querySelectorAll('article').length > 8")
        assert tab.run("window.hacked === undefined")
        assert tab.run("document.querySelectorAll('script').length") == 1
        assert tab.run("document.querySelectorAll('img, iframe, main b[onclick]').length") == 0
        assert "<script>window.hacked=1;alert(1)</script>" in tab.text()
        assert "\\u202egpj.exe" in tab.text()
        assert tab.complaints == []


def test_nothing_runs_that_is_not_ours_even_if_it_came_in(chromium):
    with put_up(incident()) as url, chromium.tab(url) as tab:
        tab.run(
            "(() => { const s = document.createElement('script'); s.textContent = 'window.x = 1';"
            " document.querySelector('main').append(s);"
            " const d = document.createElement('div'); d.setAttribute('style', 'color: red');"
            " d.setAttribute('onclick', 'window.x = 1'); document.body.append(d); d.click(); })()"
        )
        assert tab.run("window.x === undefined")
        assert any("Content Security Policy" in text for text in tab.complaints)


# It bears what is there


def test_a_thousand_engines_are_bounded_and_quick(chromium):
    subjects = [engine(f"t{i % 20}", str(i)) for i in range(1000)]
    shown = board(*map(finding, subjects))
    shown.traces = lambda: {subject: trace(*(3.8, 3.7) * 120) for subject in subjects}
    with put_up(shown) as url:
        began = time.monotonic()
        with chromium.tab(url, PHONE) as tab:
            assert tab.run("document.querySelectorAll('figure.curve').length") == 50
            assert "as only 50 engines of this page are" in tab.text()
            assert tab.run(FITS)
        assert time.monotonic() - began < 20


def test_it_prints(chromium):
    with put_up(incident()) as url, chromium.tab(url) as tab:
        assert len(tab.ask("Page.printToPDF")["data"]) > 10_000


def test_the_picture_of_the_readme_is_small():
    picture = Path(__file__).parents[1] / "docs" / "images" / "status-page.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
