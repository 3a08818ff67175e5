"""
A headless Chromium, driven over its DevTools protocol: what a person would see of a page.

    with browser() as chromium, chromium.tab(url, width=360, dark=True) as tab:
        tab.until("document.querySelector('h1').textContent.includes('CRITICAL')")
        assert tab.complaints == []
        tab.picture(path)
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import websocket

from tests.binaries import installed

NAMES = ("chromium", "chromium-browser", "google-chrome-stable")
PATIENCE = 30.0
"""Seconds that anything may take: a busy machine is no reason to fail."""

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-component-update", "--disable-background-networking",
    "--disable-sync", "--hide-scrollbars", "--no-proxy-server", "--force-color-profile=srgb",
    "--disable-lcd-text", "--remote-debugging-port=0", "--remote-allow-origins=*",
)  # fmt: skip

COMPLAINING = ("error", "warning", "assert")


class Tab:
    """One page; `complaints` are console errors, exceptions, blocked and failed loads, dialogs."""

    def __init__(self, address: str) -> None:
        self._line = websocket.create_connection(address, timeout=PATIENCE, suppress_origin=True)
        self._asked = 0
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask Chromium for something and wait for its answer."""
        self._asked += 1
        self._line.send(json.dumps({"id": self._asked, "method": method, "params": params}))
        while True:
            said = json.loads(self._line.recv())
            if said.get("id") == self._asked:
                if "error" in said:
                    raise AssertionError(f"{method}: {said['error']}")
                return said["result"]
            self._heard(said.get("method", ""), said.get("params", {}))

    def _heard(self, event: str, about: dict[str, Any]) -> None:
        if event == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {about['message']}")
            self.ask("Page.handleJavaScriptDialog", accept=False)
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(f"exception: {about['exceptionDetails']}")
        elif event == "Runtime.consoleAPICalled" and about["type"] in COMPLAINING:
            self.complaints.append(f"console: {about['args']}")
        elif event == "Log.entryAdded":  # what the policy blocks is told here
            self.complaints.append(f"log: {about['entry']['text']}")
        elif event == "Network.loadingFailed":
            self.complaints.append(f"not loaded: {about.get('errorText')}")

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        got = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise AssertionError(f"{script}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def until(self, script: str, seconds: float = PATIENCE) -> None:
        """Poll an expression until it is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(AssertionError):  # while a page loads there is nothing to ask
                if self.run(script):
                    return
            time.sleep(0.05)
        raise AssertionError(f"not true in {seconds:g} s: {script}\n{self.text()[:2000]}")

    def text(self) -> str:
        """Return the text that is seen."""
        return self.run("document.body ? document.body.innerText : ''") or ""

    def screen(
        self, width: int, height: int = 800, *, dark: bool = False, scale: float = 1
    ) -> None:
        """Be a screen of that many CSS pixels, in light or dark mode."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, height: float | None = None) -> None:
        """Save the whole page, or its upper `height` pixels, as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"]}
        got = self.ask(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True,
            clip={**clip, "scale": 1},
        )  # fmt: skip
        path.write_bytes(base64.b64decode(got["data"]))

    def close(self) -> None:
        self._line.close()


class Browser:
    """A process with a profile of its own, which is gone afterwards."""

    def __init__(self, program: str, profile: str) -> None:
        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._port = self._waited(Path(profile) / "DevToolsActivePort")

    def _waited(self, file: Path) -> int:
        """Wait for the port that Chromium chose and wrote down."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with suppress(OSError, ValueError, IndexError):
                return int(file.read_text().splitlines()[0])
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self.close()
        raise AssertionError("Chromium did not start")

    @contextmanager
    def tab(self, url: str, width: int = 1100, *, dark: bool = False) -> Iterator[Tab]:
        """Open a page in a tab of its own, and watch it from before its first byte."""
        made = self._told("new?about:blank", "PUT")
        tab = Tab(made["webSocketDebuggerUrl"])
        try:
            tab.screen(width, dark=dark)
            tab.open(url)
            yield tab
        finally:
            tab.close()
            self._told(f"close/{made['id']}")

    def _told(self, what: str, method: str = "GET") -> Any:
        asked = urllib.request.Request(f"http://127.0.0.1:{self._port}/json/{what}", method=method)
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            body = answer.read()
        return json.loads(body) if body.startswith(b"{") else None

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


@contextmanager
def browser() -> Iterator[Browser]:
    """Run Chromium for the length of a test, or of many."""
    program = installed(*NAMES, package="chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        chromium = Browser(program, profile)
        try:
            yield chromium
        finally:
            chromium.close()
