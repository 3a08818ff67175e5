"""What a container's engine tells, over a real Unix socket; and engines that behave badly."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import HEAD, Behaviour, HostileServer, answer
from watchdog.container_images import MOST_BYTES, NotTold, container, with_image

OWN = "0123456789abcdef" * 4
IMAGE = "bebc00145d7d" + "0" * 52
SECRET = "sk-seeded-0123456789"
TITLE, VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"
ANSWER: dict[str, Any] = {
    "Id": OWN,
    "Image": f"sha256:{IMAGE}",
    "State": {"Running": True, "Pid": 4711},
    "Config": {
        "Image": "radiance:0.9.3",
        "Env": [f"VLLM_API_KEY={SECRET}"],
        "Labels": {TITLE: "radiance", VERSION: "0.9.3", "maintainer": "somebody"},
    },
}


@contextmanager
def engine(folder: Path, what: object = None, behaviour: Behaviour | None = None) -> Iterator[Any]:
    """Docker, as far as a GET of one container goes; `what` is its answer."""
    body = json.dumps(ANSWER if what is None else what).encode()
    with HostileServer(behaviour or (lambda visit: visit.send(answer(body))), folder / "s") as it:
        yield it


def asked(folder: Path, name: str = OWN[:12], seconds: float = 5.0) -> Any:
    return container(name, time.monotonic() + seconds, [folder / "s"])


def reason(folder: Path, name: str = "qwen", seconds: float = 5.0) -> str:
    with pytest.raises(NotTold) as told:
        asked(folder, name, seconds)
    return str(told.value)


def test_image_name_process_and_labels_are_told(tmp_path: Path) -> None:
    with engine(tmp_path) as docker:
        found = asked(tmp_path)
    assert found == (
        OWN, f"sha256:{IMAGE}", "radiance:0.9.3", 4711, {TITLE: "radiance", VERSION: "0.9.3"}
    )  # fmt: skip
    [visit] = docker.visits
    assert visit.request.startswith(b"GET /containers/0123456789ab/json ")


def test_nothing_of_its_environment_is_kept(tmp_path: Path) -> None:
    labels = {"version.url": f"https://me:{SECRET}@host/", "api_key_version": SECRET}
    whole = {**ANSWER, "Config": {**ANSWER["Config"], "Labels": labels}}
    with engine(tmp_path, whole):
        found = asked(tmp_path)
    assert SECRET not in repr(found)
    assert found.labels["version.url"] == "https://...@host/"


def test_a_digest_without_its_kind_is_one_too(tmp_path: Path) -> None:
    with engine(tmp_path, {**ANSWER, "Image": IMAGE}):
        assert asked(tmp_path).image == f"sha256:{IMAGE}"


def test_labels_are_bounded(tmp_path: Path) -> None:
    labels = {f"version.{n:03}": "1" * 1500 for n in range(500)} | {"version" * 99: "1"}
    with engine(tmp_path, {**ANSWER, "Config": {"Labels": labels}}):
        found = asked(tmp_path)
    assert len(found.labels) == 32
    assert all(len(key) <= 120 and len(value) <= 200 for key, value in found.labels.items())


@pytest.mark.parametrize(
    "what",
    [
        [], "text", 7, {}, {"Id": OWN}, {"Image": f"sha256:{IMAGE}"},
        {**ANSWER, "Image": "radiance:0.9.3"}, {**ANSWER, "Image": None}, {**ANSWER, "Id": 7},
        {**ANSWER, "Id": "../../x"}, {**ANSWER, "Image": [IMAGE]},
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_is_no_container(tmp_path: Path, what: object) -> None:
    with engine(tmp_path, what):
        assert "its answer" in reason(tmp_path)


@pytest.mark.parametrize("state", [None, [], {"Pid": "4711"}, {"Pid": True}, {"Pid": -1}, {}])
def test_parts_of_another_shape_are_left_out(tmp_path: Path, state: object) -> None:
    config = {"Image": 7, "Labels": {"version": 7, "a.version": ["1"]}}
    with engine(tmp_path, {**ANSWER, "State": state, "Config": config}):
        found = asked(tmp_path)
    assert (found.image, found.name, found.pid, found.labels) == (f"sha256:{IMAGE}", "", 0, {})


def test_no_json_and_json_without_end_are_said(tmp_path: Path) -> None:
    with engine(tmp_path, behaviour=lambda visit: visit.send(answer(b"<html>"))):
        assert "no JSON" in reason(tmp_path)
    (tmp_path / "s").unlink()
    with engine(tmp_path, behaviour=lambda visit: visit.send(answer(b"[" * 100_000))):
        assert "no JSON" in reason(tmp_path)


def test_an_answer_beyond_the_bound_is_not_read_to_its_end(tmp_path: Path) -> None:
    def huge(visit: Any) -> None:
        visit.send(HEAD + b"\r\n")
        for _ in range(100):
            visit.send(b" " * 100_000)

    with engine(tmp_path, behaviour=huge):
        assert f"more than {MOST_BYTES}" in reason(tmp_path)


@pytest.mark.parametrize("drips", [True, False])
def test_an_engine_that_hangs_costs_two_seconds_at_most(tmp_path: Path, drips: bool) -> None:
    def slow(visit: Any) -> None:
        if drips:
            visit.drip(HEAD + b"X-Slow: " + b"x" * 10_000, 0.05)
        else:
            visit.server.stopping.wait(20)

    with engine(tmp_path, behaviour=slow):
        began = time.monotonic()
        assert "deadline" in reason(tmp_path, seconds=60)
        assert time.monotonic() - began < 6
        began = time.monotonic()
        reason(tmp_path, seconds=0.2)
        assert time.monotonic() - began < 1.5


@pytest.mark.parametrize(
    ("status", "said"),
    [("404 Not Found", "knows no container qwen"), ("403 Forbidden", "answered 403")],
)
def test_a_refusal_is_told(tmp_path: Path, status: str, said: str) -> None:
    with engine(tmp_path, behaviour=lambda visit: visit.send(answer(b"{}", status))):
        assert said in reason(tmp_path)


def test_without_an_engine_or_with_a_file_in_its_place_the_reason_is_told(tmp_path: Path) -> None:
    assert "no engine's socket is here" in reason(tmp_path)
    (tmp_path / "s").write_text("")
    assert "is no socket" in reason(tmp_path)
    (tmp_path / "s").unlink()
    os.mkfifo(tmp_path / "s")
    assert "is no socket" in reason(tmp_path)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a?b", "a b", "x" * 129, "a\r\nHost: b"])
def test_a_name_that_no_container_has_is_not_sent(tmp_path: Path, name: str) -> None:
    with engine(tmp_path) as docker:
        assert "no name" in reason(tmp_path, name)
    assert docker.visits == []


def test_of_two_engines_the_one_that_knows_it_tells(tmp_path: Path) -> None:
    for folder in ("docker", "podman"):
        (tmp_path / folder).mkdir()
    none = answer(b"{}", "404 Not Found")
    with engine(tmp_path / "docker", behaviour=lambda visit: visit.send(none)):
        with engine(tmp_path / "podman"):
            sockets = [tmp_path / "gone/s", tmp_path / "docker/s", tmp_path / "podman/s"]
            assert container("qwen", time.monotonic() + 5, sockets).id == OWN


# --- as a part of a launch -----------------------------------------------------------------------


def launch(started_at: float = 1.0, **more: Any) -> dict[str, Any]:
    unread = {"image": "not asked for"}
    return {"container": OWN[:12], "started_at": started_at, "unread": unread, **more}


def test_a_launch_is_given_its_image_and_it_is_asked_once_a_launch(tmp_path: Path) -> None:
    with engine(tmp_path) as docker:
        first, again, other = launch(), launch(), launch(2.0)
        with_image(first, None, time.monotonic() + 5, [tmp_path / "s"])
        with_image(again, first, time.monotonic() + 5, [tmp_path / "s"])
        assert len(docker.visits) == 1
        with_image(other, again, time.monotonic() + 5, [tmp_path / "s"])
        assert len(docker.visits) == 2
    for one in (first, again, other):
        assert one["image"] == f"sha256:{IMAGE}"
        assert one["image_labels"][VERSION] == "0.9.3"
        assert one["unread"] == {}
        assert json.loads(json.dumps(one)) == one


def test_what_was_not_told_stays_unread_with_its_reason_and_is_asked_again(tmp_path: Path) -> None:
    first = launch()
    with_image(first, None, time.monotonic() + 5, [tmp_path / "s"])
    assert OWN[:12] in first["unread"]["image"]
    assert "no engine's socket" in first["unread"]["image"]
    assert "image" not in first
    with engine(tmp_path):
        again = launch()
        with_image(again, first, time.monotonic() + 5, [tmp_path / "s"])
    assert again["image"] == f"sha256:{IMAGE}"


def test_a_container_whose_name_only_looks_like_the_id_is_another_one(tmp_path: Path) -> None:
    with engine(tmp_path):
        told = {**launch(), "container": "abcdef012345"}
        with_image(told, None, time.monotonic() + 5, [tmp_path / "s"])
    assert "image" not in told
    assert "image_labels" not in told
    assert "another container" in told["unread"]["image"]


def test_a_server_in_no_container_has_no_image_to_ask_for(tmp_path: Path) -> None:
    with engine(tmp_path) as docker:
        told: dict[str, Any] = {"unread": {}}
        with_image(told, None, time.monotonic() + 5, [tmp_path / "s"])
    assert told == {"unread": {}}
    assert docker.visits == []
