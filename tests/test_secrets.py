"""
No secret of a server's launch comes out anywhere: the whole story, with the real daemon.

A process that looks like vLLM is started with seeded secrets wherever people put them, is watched
healthy, is started anew with other words and other secrets, is watched dead, and every command is
asked about it. Then all bytes that came out are searched.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.proc_tree import Proc
from tests.secret_story import Seeds, Story
from tests.sinks.receiver import Receiver
from tests.test_container_images import ANSWER, IMAGE, OWN, engine
from tests.test_daemon import until
from watchdog.probes.launch import Launch
from watchdog.tree import Tree


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    hook, alerts = Receiver(), Receiver()
    told = Story(tmp_path_factory.mktemp("secrets"), hook, alerts)
    try:
        with told.daemon():
            with told.serving("healthy", 4) as (words, environ):
                told.command("first", "cache", "stamp", str(told.cache), "--", "vllm", *words[1:],
                             environ=environ)  # fmt: skip
                until(lambda: '"conclusive": true' in json.dumps(told.report()), 60)
                told.pages("healthy")
                told.commands("healthy", words, environ)
            time.sleep(1.5)
            with told.serving("dead", 7) as (words, environ):
                until(lambda: told.alerted("SpecDecodeCollapsed"), 60)
                time.sleep(3)  # what the launch says is joined to it
                told.pages("dead")
                told.commands("dead", words, environ)
        told.told()
        yield told
    finally:
        hook.close()
        alerts.close()


def test_no_seeded_secret_comes_out_anywhere(story: Story) -> None:
    found = {
        name: places for name, data in story.out.items() if (places := story.seeds.found_in(data))
    }

    assert not found


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("web hook", b"SpecDecodeCollapsed"),
        ("Alertmanager", b"SpecDecodeCollapsed"),
        ("state.db, as text", b"num_speculative_tokens"),
        ("capture-dead/000/launch", b"--api-key"),
        ("capture-dead/000/launch", b'"..."'),
        ("cache/.serving-watchdog-stamp.json", b"num_speculative_tokens"),
        ("dead: check --json", b"num_speculative_tokens 4 -> 7"),
        ("dead: cache verify", b"num_speculative_tokens 4 -> 7"),
        ("dead: cache key", b"/x/"),
        ("dead: cache show", b"num_speculative_tokens 4 -> 7"),
        ("dead: cache confirm", b"1 loaded from the cache"),
        ("dead: /api/v1/cache", b"num_speculative_tokens"),
        ("web hook", b"CompileCacheStale"),
        ("capture-dead/000/cache", b"backbone"),
        ("capture-dead/000/log", b"example_hit"),
        ("dead: /", b"tiny"),
        ("daemon, log", b"tiny"),
    ],
)
def test_the_launch_was_read_and_told_so_the_search_is_no_empty_one(
    story: Story, where: str, words: bytes
) -> None:
    assert any(words in data for name, data in story.out.items() if name.startswith(where)), where


def test_no_secret_of_an_image_is_kept_where_its_engine_tells_of_it(tmp_path: Path) -> None:
    """In process, since a test makes no /var/run/docker.sock."""
    seeds = Seeds()
    labels = {
        "ai.radiance.version": "0.9.3",
        "version.of.api-token": seeds("label"),
        "version.source": f"https://me:{quote(seeds('URL in a label'), safe='')}@host/x",
        "build.version": f"--api-key {seeds('option in a label')}",
        "org.opencontainers.image.version": json.dumps({"token": seeds("JSON in a label")}),
    }
    environ = [f"HF_TOKEN={seeds('environment of the image')}"]
    told = {**ANSWER, "Config": {"Image": "radiance:0.9.3", "Env": environ, "Labels": labels}}
    proc = Proc(tmp_path / "proc")
    group = f"/system.slice/docker-{OWN}.scope"
    words = ["vllm", "serve", "/m", "--api-key", seeds("--api-key")]
    proc.add(500, words, group=group, opens=[("socket:[42]", "")])
    proc.listen(8000, 42)
    url, tree = "http://127.0.0.1:8000", Tree(tmp_path / "sys")
    probe = Launch("qwen", url, tree, proc.root, sockets=[tmp_path / "s"])
    with engine(tmp_path, told):
        facts = probe.read({"answered": True, "version": "0.32.0"}, time.monotonic() + 30).facts

    launch: Any = facts["launch"]
    assert launch["image"] == f"sha256:{IMAGE}"
    assert launch["image_labels"]["ai.radiance.version"] == "0.9.3"
    assert seeds.found_in(json.dumps(facts).encode()) == []


@pytest.mark.parametrize("spelling", [str, quote, lambda text: text.encode().hex()])
@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_the_search_finds_a_secret_however_it_is_spelt(
    spelling: Callable[[str], str], before: str
) -> None:
    seeds = Seeds()
    text = f"{before}{spelling(seeds('here'))} and more"

    assert seeds.found_in(text.encode())
    assert spelling is not str or seeds.found_in(base64.b64encode(text.encode()))
    assert not seeds.found_in(b"nothing of that kind")
