"""
A server's launch that is full of secrets, and everybody who looks at it: what comes out of them.

The server is a real process that looks like vLLM (tests/fake_vllm.py), the daemon and all commands
are the real ones.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from tests import fake_vllm
from tests.serving import repeated
from tests.sinks.receiver import Receiver
from tests.test_daemon import free_port, get, until

HEALTHY = ("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy")
DEAD = ("g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy")
PATHS = (
    *("/", "/metrics", "/api/v1/report", "/api/v1/baseline", "/api/v1/cache"),
    *("/-/healthy", "/-/ready", "/api/v1/nothing"),
)


class Seeds:
    """Secrets, each of its own, by the place that it is planted in."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        """A secret as services make them; what is in the middle survives any spelling."""
        assert place not in self.planted
        self.planted[place] = f"Kq+{secrets.token_hex(8)}/w"
        return self.planted[place]

    def found_in(self, data: bytes) -> list[str]:
        """The places whose secret is in these bytes: as it is, encoded, or as a digest."""
        small = data.lower()
        return [
            f"{place}: {shape}"
            for place, secret in self.planted.items()
            for shape, look in _shapes(secret)
            if look in (small if look.islower() else data)
        ]


def _shapes(secret: str) -> Iterator[tuple[str, bytes]]:
    whole, core = secret.encode(), secret[3:-2].encode()
    yield "plain", core  # percent-encoded, in JSON and in HTML it is the same
    yield "hex", core.hex().encode()
    for text, skipped in itertools.product((whole, core), range(3)):
        # By where it begins in three bytes; its first and last characters hang on what is beside.
        coded = base64.b64encode(bytes(skipped) + text)
        yield "base64", coded[4 if skipped else 0 : len(coded) // 4 * 4 - 4]
    for text in (whole, core):
        yield "digest", hashlib.sha256(text).hexdigest()[:16].encode()
        yield "digest", hashlib.blake2b(text, digest_size=8).hexdigest().encode()


class Story:
    """`out`: everything that came out, by what it came from."""

    def __init__(self, folder: Path, hook: Receiver, alerts: Receiver) -> None:
        self.folder, self.hook, self.alerts = folder, hook, alerts
        self.seeds = Seeds()
        self.out: dict[str, bytes] = {}
        self.port, self.server_port = free_port(), free_port()
        self.cache = folder / "cache"
        self.server_log = folder / "planted" / "server.log"
        self.program = folder / "planted" / "vllm"
        self.program.parent.mkdir()
        shutil.copy(str(fake_vllm.__file__), self.program)
        self.config = self._configured()
        for life, pages in (("healthy", HEALTHY), ("dead", DEAD)):
            (folder / "planted" / life).mkdir()
            for i, page in enumerate(repeated(*pages, 240)):
                (folder / "planted" / life / f"{i:03d}.prom").write_text(page)

    def _configured(self) -> Path:
        token = self.folder / "planted" / "token"
        token.write_text(self.seeds("bearer token of the target"))
        hook = self.folder / "planted" / "hook"
        hook.write_text(self.seeds("bearer token of a web hook"))
        config = self.folder / "config.yaml"
        config.write_text(
            f"targets:\n"
            f"  - url: http://127.0.0.1:{self.server_port}\n"
            f"    name: tiny\n"
            f"    bearer_token_file: {token}\n"
            f"    expect: {{method: draft_model, depth: 4, version: '0.27.1'}}\n"
            f"    launch: {{log: {self.server_log}}}\n"
            f"    cache: {{directory: {self.cache}, cold_start: 20s, warm_start: 5s}}\n"
            f"interval: 1s\n"
            f"state_dir: {self.folder / 'state'}\n"
            f"server: {{listen: '127.0.0.1:{self.port}'}}\n"
            f"alerting:\n"
            f"  alertmanagers: [{{url: '{self.alerts.url}'}}]\n"
            f"  webhooks: [{{url: '{self.hook.url}/hook', bearer_token_file: {hook}}}]\n"
            f"  textfile: {self.folder / 'state' / 'watchdog.prom'}\n"
        )
        return config

    # --- the server --------------------------------------------------------------------------

    def model(self, life: str, part: str) -> Path:
        """A model's folder, with a secret in its configuration."""
        place = self.folder / "planted" / f"{life}-{part}"
        place.mkdir()
        config = {"architectures": ["Llama"], "token": self.seeds(f"{life}: config.json, {part}")}
        (place / "config.json").write_text(json.dumps(config))
        (place / "model.bin").write_text(life)
        return place

    def words(self, life: str, depth: int) -> list[str]:
        """The launch behind `python`: secrets in all places of a command line."""
        seed = lambda place: self.seeds(f"{life}: {place}")  # noqa: E731
        drafter = {
            "method": "draft_model", "model": str(self.model(life, "draft")),
            "num_speculative_tokens": depth, "token": seed("speculative-config"),
        }  # fmt: skip
        at = quote(seed("password in a URL"), safe="")
        return [
            str(self.program), "serve", str(self.model(life, "target")),
            "--port", str(self.server_port), "--served-model-name", "tiny",
            "--api-key", seed("--api-key X"),
            f"--api_key={seed('--api_key=X')}",
            f"--hf-token={seed('--hf-token')}",
            "--speculative-config", json.dumps(drafter),
            "--hf-overrides", json.dumps({"deep": [{"token": seed("hf-overrides")}], "n": depth}),
            "--additional-config.client_secret", seed("dotted key"),
            "--weights-source", f"https://me:{at}@store.example/w?depth={depth}",
            "--otlp-traces-endpoint", f"http://otel.example/x?api_key={seed('query of a URL')}",
        ]  # fmt: skip

    def environ(self, life: str) -> dict[str, str]:
        seed = lambda place: self.seeds(f"{life}: {place}")  # noqa: E731
        return {
            "PAGES": str(self.folder / "planted" / life),
            "VLLM_CACHE_ROOT": str(self.cache),
            "VLLM_API_KEY": seed("VLLM_API_KEY"),
            "HF_TOKEN": seed("HF_TOKEN"),
            "AWS_SECRET_ACCESS_KEY": seed("AWS_SECRET_ACCESS_KEY"),
            "VLLM_REMOTE_STORE": f"redis://me:{quote(seed('URL in a variable'), safe='')}@h:6379/0",
            "RADIANCE_OPTIONS": f'fast=1 --auth-token "{seed("option in a variable")}"',
            "TORCHINDUCTOR_REMOTE": json.dumps({"password": seed("JSON in a variable"), "x": life}),
        }

    def logged(self, life: str, depth: int, words: list[str]) -> None:
        """What vLLM writes of its launch: in the clear, as it does."""
        args = {
            "api_key": [self.seeds(f"{life}: non-default args, list")],
            "hf_token": self.seeds(f"{life}: non-default args"),
            "speculative_config": {
                "method": "draft_model", "num_speculative_tokens": depth,
                "token": self.seeds(f"{life}: non-default args, deep"),
            },
        }  # fmt: skip
        graphs = f"{self.cache}/torch_compile_cache/0a1b2c3d4e/rank_0_0/backbone"
        at = time.strftime("%m-%d %H:%M:%S")
        lines = [
            f"(APIServer pid=1) INFO {at} [api_utils.py:347]  version 0.32.0",
            f"(APIServer pid=1) INFO {at} [api_utils.py:286] non-default args: {args!r}",
            f"(EngineCore pid=2) INFO {at} [core.py:133] Initializing a V1 LLM engine (v0.32.0) "
            f"with config: model='{words[2]}', speculative_config=SpeculativeConfig("
            f"method='draft_model', model='draft', num_spec_tokens={depth}), "
            f"additional_config={{'token': '{self.seeds(f'{life}: engine config')}'}}",
            f"(Worker pid=3) INFO {at} [backends.py:1] Using cache directory: {graphs} for "
            f"vLLM's torch.compile",
            f"(Worker pid=3) INFO {at} [backends.py:2] Directly load the compiled graph(s) for "
            f"compile range (1, 2048) from the cache, took 2.675 s",
            f"(EngineCore pid=2) INFO {at} [core.py:402] init engine (profile, create kv cache, "
            f"warmup model) took 7.76 s (compilation: 6.17 s)",
        ]
        with self.server_log.open("a") as log:
            log.write("".join(f"{line}\n" for line in lines))

    @contextmanager
    def serving(self, life: str, depth: int) -> Iterator[tuple[list[str], dict[str, str]]]:
        """One life of the server; its words as the commands are given them, and its variables."""
        words, variables = self.words(life, depth), self.environ(life)
        environ = {**os.environ, **variables}
        graphs = self.cache / "torch_compile_cache" / "0a1b2c3d4e" / "rank_0_0" / "backbone"
        graphs.mkdir(parents=True, exist_ok=True)
        factors = {"env": {**variables, "VLLM_PORT": 1}, "config_hash": life}
        (graphs / "cache_key_factors.json").write_text(json.dumps(factors))
        process = subprocess.Popen([sys.executable, *words], env=environ)
        try:
            until(lambda: get(self.server_port, "/version")[0] == 200)
            self.logged(life, depth, words)
            yield words, environ
        finally:
            process.kill()
            process.wait(10)

    # --- who looks at it ---------------------------------------------------------------------

    @contextmanager
    def daemon(self) -> Iterator[None]:
        said, logged = (self.folder / f"daemon.{end}" for end in ("stdout", "stderr"))
        command = [sys.executable, "-m", "watchdog", "run", "--config", str(self.config)]
        with said.open("w") as out, logged.open("w") as log:
            process = subprocess.Popen(command, stdout=out, stderr=log)
        try:
            yield
            process.send_signal(signal.SIGHUP)
            time.sleep(1)
        finally:
            process.terminate()
            process.wait(30)
        self.out["daemon, standard output"] = said.read_bytes()
        self.out["daemon, log"] = logged.read_bytes()

    def report(self) -> dict[str, object]:
        return dict(json.loads(get(self.port, "/api/v1/report")[1]))

    def alerted(self, name: str) -> bool:
        return name in get(self.port, "/api/v1/report")[1] and any(
            name.encode() in asked.body for asked in list(self.hook.asked)
        )

    def pages(self, when: str) -> None:
        for path in PATHS:
            status, body = get(self.port, path)
            self.out[f"{when}: {path}"] = f"{status}\n{body}".encode()

    def command(self, when: str, *argv: str, environ: dict[str, str]) -> None:
        """Run a command as people do, in the environment of a launcher; keep its two outputs."""
        done = subprocess.run(
            [sys.executable, "-m", "watchdog", *argv],
            capture_output=True, check=False, timeout=120, env=environ,
        )  # fmt: skip
        name = f"{when}: {' '.join(argv[:3])} ({done.returncode}, {len(self.out)})"
        self.out[f"{name}, standard output"] = done.stdout
        self.out[f"{name}, standard error"] = done.stderr

    def commands(self, when: str, words: list[str], environ: dict[str, str]) -> None:
        """Ask about this life with every command; of the first one only what differs later."""
        config = ("--config", str(self.config))
        short = ("--window", "2s", *config)
        launch = ("--", "vllm", *words[1:])
        place, log, folder = str(self.cache), str(self.server_log), self.folder / f"capture-{when}"
        hidden = f"http://me:{self.seeds(f'{when}: --url')}@127.0.0.1:9"
        always: list[tuple[str, ...]] = [
            ("status", "--json", "--all", *config),
            ("cache", "show", "tiny", "--json", *config),
            ("cache", "confirm", "tiny", "--log", log, "--json", *config),
            ("capture", str(folder), *short),
            ("cache", "verify", place, *launch),
        ]
        once: list[tuple[str, ...]] = [
            ("check", *short),
            ("check", "--json", *short),
            ("check", "--all", *short),
            ("check", "--nagios", *short),
            ("check", "--fresh", "--json", *short),
            ("check", "--url", hidden, "--fresh", "--window", "1s"),
            ("check", "--replay", str(folder), "--json"),
            ("status", *config),
            ("doctor", *config),
            ("config", "show", *config),
            ("baseline", "show", *config),
            ("cache", "show", *config),
            ("cache", "confirm", "tiny", *config),
            ("cache", "set-aside", "tiny", "--dry-run", *config),
            ("cache", "prune", "--list", *config),
            ("alert", "test", *config),
            ("cache", "key", "--root", "/x", *launch),
            ("cache", "verify", place, *launch[:2], "--no-such-thing", *launch[2:]),
            ("cache", "stamp", place, *launch),
            ("cache", "stamp", "/nowhere/at/all", *launch),
        ]
        for argv in always + (once if when == "dead" else []):
            self.command(when, *argv, environ=environ)

    def told(self) -> None:
        """All that was sent and all that was written, the state and the stamp included."""
        for name, receiver in (("web hook", self.hook), ("Alertmanager", self.alerts)):
            for i, asked in enumerate(receiver.asked):
                self.out[f"{name}, {i}"] = b"\n".join((asked.path.encode(), asked.body))
        skipped = {
            self.folder / "planted",
            self.config,
            *self.cache.rglob("cache_key_factors.json"),
        }
        for path in self.folder.rglob("*"):
            if path.is_file() and skipped.isdisjoint({path, *path.parents}):
                self.out[str(path.relative_to(self.folder))] = path.read_bytes()
        for path in self.folder.rglob("*.db"):
            with closing(sqlite3.connect(path)) as store:
                self.out[f"{path.name}, as text"] = "\n".join(store.iterdump()).encode()
