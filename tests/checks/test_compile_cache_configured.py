"""Names that are configured to count, or not to: a change of the configuration is no launch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.checks import caches
from tests.checks.caches import Watch, entry, launch, place
from watchdog.domain.fingerprint import fingerprint_of

Configure = Callable[..., None]
ENV = {"MY_FAST": "1", "VLLM_LABEL": "a"}


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Set what the probe counts from now on."""

    def configured(**names: list[str]) -> None:
        monkeypatch.setattr(caches, "print_of", lambda told: fingerprint_of(told, **names))

    return configured


def filled(watch: Watch, how: dict[str, Any], **more: Any) -> dict[str, Any]:
    start = watch.now + 45.0
    made = place(entry(oldest=start + 20), **more)
    watch.runs(how, made, start=start)
    assert watch.verdict() == "OK"
    return made


def test_a_name_that_counts_only_since_then_is_unknown_and_no_alarm(configure: Configure) -> None:
    watch = Watch()
    lies = filled(watch, launch(env=ENV))
    configure(more=["MY_FAST"])
    assert watch.runs(launch(env=ENV), lies).verdict() == "thin"
    assert watch.again().runs(launch(env=ENV), lies).verdict() == "thin"
    assert watch.runs(launch(7, env=ENV), lies).verdict() == "WARNING"


def test_what_differs_by_that_name_alone_is_stale_once_it_was_counted(configure: Configure) -> None:
    configure(more=["MY_FAST"])
    watch = Watch()
    lies = filled(watch, launch(env=ENV))
    assert watch.again().runs(launch(env={**ENV, "MY_FAST": "2"}), lies).verdict() == "WARNING"
    assert "env MY_FAST 1 -> 2" in watch.text


def test_a_name_that_counts_no_longer_makes_no_other_launch(configure: Configure) -> None:
    watch = Watch()
    lies = filled(watch, launch(env=ENV))
    configure(less=["VLLM_LABEL"])
    assert watch.runs(launch(env={**ENV, "VLLM_LABEL": "b"}), lies).verdict() == "OK"


def now(watch: Watch) -> float:
    assert watch.state is not None
    assert watch.state.now is not None
    return watch.state.now.start


def test_a_name_that_counts_no_longer_ends_the_alarm_of_a_running_server(
    configure: Configure,
) -> None:
    watch = Watch()
    lies = filled(watch, launch(env=ENV))
    other = launch(env={**ENV, "VLLM_LABEL": "b"})
    assert watch.runs(other, lies).verdict() == "WARNING"
    configure(less=["VLLM_LABEL"])
    assert watch.told(now(watch), other, lies).verdict() == "OK"
    assert watch.runs(launch(env={**ENV, "VLLM_LABEL": "c"}), lies).verdict() == "OK"


def test_a_name_that_only_the_launch_before_had_ends_the_alarm_too(configure: Configure) -> None:
    watch = Watch()
    lies = filled(watch, launch(env=ENV))
    other = launch(env={"MY_FAST": "1"})
    assert watch.runs(other, lies).verdict() == "WARNING"
    configure(less=["VLLM_LABEL"])
    assert watch.told(now(watch), other, lies).verdict() == "OK"


def test_a_launch_that_was_seen_to_compile_is_safe_by_what_counts_later(
    configure: Configure,
) -> None:
    watch = Watch()
    lies = filled(watch, launch(env=ENV))
    configure(more=["MY_FAST"])
    assert watch.told(now(watch), launch(env=ENV), lies).verdict() == "OK"
    assert watch.runs(launch(env=ENV), lies).verdict() == "OK"
    assert watch.runs(launch(env={**ENV, "MY_FAST": "2"}), lies).verdict() == "WARNING"


def test_what_an_earlier_start_of_the_like_was_is_not_known_by_what_counts_later(
    configure: Configure,
) -> None:
    watch = Watch()
    lies = filled(watch, launch(env={**ENV, "MY_FAST": "7"}))
    assert watch.runs(launch(env=ENV), lies).verdict() == "OK"
    configure(more=["MY_FAST"])
    assert watch.told(now(watch), launch(env=ENV), lies).verdict() == "thin"


def test_to_shared_kernels_a_name_that_changes_none_makes_nothing_unknown(
    configure: Configure,
) -> None:
    watch = Watch()
    shared = {"kind": "aiter", "path": "/var/cache/aiter"}
    lies = filled(watch, launch(env=ENV), **shared)
    configure(more=["MY_FAST"])
    assert watch.runs(launch(env=ENV), lies).verdict() == "OK"
