"""
The seed incident on a real vLLM: a launcher is changed, and its compile cache keeps its name.

One test, since each start takes a minute or two and rests on the one before: a launch fills a
cache, another is started on it, the cache is set aside, and once it only seems to be.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .programs import HOST, JSON, eventually, free_port, say
from .servers import Lab, Launch, Server, vllm
from .watchers import Daemon, configured, watchdog

NAME: Final = "tiny"
STALE: Final = "CompileCacheStale"
INEFFECTIVE: Final = "CompileCacheInvalidationIneffective"

TO_KNOW: Final = 150.0
"""Seconds for the daemon to look at a new process, and a minute later once more."""

FIRST: Final = Launch("draft-same", 4, "cache-incident")
DEEPER: Final = Launch("draft-same", 7, "cache-incident")
RE_PINNED: Final = Launch("draft-other", 7, "cache-incident")

DEPTH: Final = "speculative-config num_speculative_tokens 4 -> 7"


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@dataclass
class Story:
    """The server's place and port, and the watchdog's configuration."""

    lab: Lab
    scratch: Path
    port: int
    listen: str

    @property
    def cache(self) -> Path:
        return FIRST.cache_root(self.lab)

    @property
    def config(self) -> Path:
        return self.scratch / "watchdog.yaml"

    @property
    def log(self) -> Path:
        return self.scratch / "server.log"

    def configure(self, floors: str = "") -> None:
        """Write the configuration; the floors are known after two starts."""
        self.config.write_text(
            f"targets:\n"
            f"  - url: http://{HOST}:{self.port}\n"
            f"    name: {NAME}\n"
            f"    launch: {{log: {self.log}}}\n"
            f"    cache: {{directory: {self.cache}{floors}}}\n"
            f"interval: 2s\n"
            f"state_dir: {self.scratch / 'state'}\n"
            f"server: {{listen: '{self.listen}'}}\n"
        )

    def run(self, *words: str, launch: Launch | None = None) -> Ran:
        """Run `watchdog cache`, about a launch that is still to come where one is given."""
        behind = () if launch is None else ("--", *launch.words(self.lab, self.port))
        command = watchdog("cache", *words, *(behind or ("--config", str(self.config))))
        environ = None if launch is None else launch.environ(self.lab)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=environ
        )
        say(f"cache {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return Ran(done.returncode, done.stdout, done.stderr)

    def verify(self, launch: Launch) -> Ran:
        return self.run("verify", str(self.cache), launch=launch)

    def stamp(self, launch: Launch) -> None:
        assert self.run("stamp", str(self.cache), launch=launch).code == 0

    def confirmed(self, server: Server) -> tuple[int, JSON]:
        """Wait until the daemon has looked at this start; what `cache confirm` says of it."""

        def answer() -> tuple[int, JSON] | None:
            ran = self.run("confirm", NAME, "--json")
            return (ran.code, json.loads(ran.out)) if ran.code != 3 else None

        return eventually(answer, TO_KNOW, f"a verdict on the start of {server.drafter}", 10)


def about(watching: Daemon, alertname: str, verdict: str) -> JSON | None:
    """Return the daemon's finding, once it has this verdict and is sure of it."""
    found = [f for f in watching.report()["findings"] if f["alertname"] == alertname]
    return next((f for f in found if f["verdict"] == verdict and f["conclusive"]), None)


def waited(watching: Daemon, alertname: str, verdict: str) -> JSON:
    found = eventually(
        lambda: about(watching, alertname, verdict), TO_KNOW, f"{alertname} {verdict}", 3
    )
    say(f"{alertname} {verdict}: {found['summary']}")
    return found


def test_a_stale_cache_is_seen_set_aside_and_the_repair_is_proved(lab: Lab, tmp_path: Path) -> None:
    story = Story(lab, tmp_path, free_port(), f"{HOST}:{free_port()}")
    story.configure()
    with configured(story.config, story.listen) as watching:
        assert story.verify(FIRST).code == 0  # there is nothing yet
        story.stamp(FIRST)
        with vllm(lab, FIRST, story.port, story.log) as cold:
            waited(watching, STALE, "OK")
        assert story.verify(FIRST).code == 0

        # The launcher is changed, and the directory keeps its name.
        verified = story.verify(RE_PINNED)
        assert verified.code == 2
        assert DEPTH in verified.out
        assert f"drafter {lab.models}/draft-same -> {lab.models}/draft-other" in verified.out
        assert f"cache set-aside --directory {story.cache}" in verified.out

        # vLLM's own key does not have the depth: what the other launch compiled is used.
        with vllm(lab, DEEPER, story.port, story.log) as warm:
            stale = waited(watching, STALE, "WARNING")
            assert DEPTH in json.dumps(stale)
            shown = story.run("show", NAME)
            assert shown.code == 2
            assert DEPTH in shown.out
            refused = story.run("set-aside", NAME)
            assert refused.code == 3
            assert "in use" in refused.err
            assert story.cache.is_dir()
        say(f"a cold start took {cold.start_seconds:.0f} s, a warm one {warm.start_seconds:.0f} s")
        assert cold.start_seconds > 1.25 * warm.start_seconds, "the floors are too near to tell"
        story.configure(
            f", cold_start: {cold.start_seconds:.0f}s, warm_start: {warm.start_seconds:.0f}s"
        )
        watching.reload()

        # It is set aside, and the start that follows is proved to be cold.
        assert story.run("set-aside", NAME).code == 0
        assert story.verify(RE_PINNED).code == 0
        story.stamp(RE_PINNED)
        with vllm(lab, RE_PINNED, story.port, story.log) as again:
            code, said = story.confirmed(again)
            assert (code, said["verdict"]) == (0, "cold")
            assert "warm" in json.dumps(said)  # the floor that it was measured against
            waited(watching, STALE, "OK")
            waited(watching, INEFFECTIVE, "OK")

        # It only seems to be set aside: the copy is another directory, and the cache stays.
        name = time.strftime(f"{story.cache.name}.stale-%Y%m%dT%H%M%SZ", time.gmtime())
        story.cache.with_name(name).mkdir()
        with vllm(lab, RE_PINNED, story.port, story.log) as pretended:
            ineffective = waited(watching, INEFFECTIVE, "WARNING")
            assert ineffective["next_step"]
            code, said = story.confirmed(pretended)
            assert (code, said["verdict"]) == (2, "warm")
        say(
            f"cold {cold.start_seconds:.0f} s and {again.start_seconds:.0f} s, "
            f"warm {warm.start_seconds:.0f} s and {pretended.start_seconds:.0f} s"
        )
