"""What counts by the command line or the configuration: in `cache key`, `stamp` and `verify`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_cache_commands import Commands, Ran, cache, launch, refused
from tests.vllm_venv import vllm_on_path

__all__ = ["cache", "launch", "vllm_on_path"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "factors.yaml"
    path.write_text(
        "targets:\n"
        "  - {url: 'http://127.0.0.1:1', name: qwen, cache: {factors: {add: [MY_KERNELS_*],"
        " ignore: [VLLM_MY_LABEL, seed]}}}\n"
        "  - {url: 'http://127.0.0.1:2', name: bare}\n"
    )
    return path


def key(ran: Ran) -> str:
    code, out, err = ran
    assert (code, err) == (0, "")
    return out


def test_a_variable_that_is_given_counts(
    cache: Commands, launch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = key(cache("key", *launch))
    monkeypatch.setenv("MY_KERNELS_FAST", "1")
    assert key(cache("key", *launch)) == plain
    counted = key(cache("key", "--factor", "MY_KERNELS_*", *launch))
    assert counted != plain
    monkeypatch.setenv("MY_KERNELS_FAST", "2")
    assert key(cache("key", "--factor", "MY_KERNELS_*", *launch)) != counted


def test_an_option_that_is_given_counts_no_longer(cache: Commands, launch: list[str]) -> None:
    def of(length: str) -> str:
        words = (*launch, "--max-model-len", length)
        return key(cache("key", "--ignore", "max_model_len", "--ignore", "VLLM_X", *words))

    assert of("8") == of("9") == key(cache("key", *launch))


def test_the_configuration_of_a_target_says_the_same(
    cache: Commands, launch: list[str], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KERNELS_FAST", "1")
    monkeypatch.setenv("VLLM_MY_LABEL", "a")
    of_target = key(cache("key", "--config", config, "--target", "qwen", *launch))
    given = ("--factor", "MY_KERNELS_*", "--ignore", "VLLM_MY_LABEL")
    assert of_target == key(cache("key", *given, *launch))
    bare = key(cache("key", "--config", config, "--target", "bare", *launch))
    assert bare == key(cache("key", *launch)) != of_target
    both = ("--config", config, "--target", "bare", *given)
    assert key(cache("key", *both, *launch)) == of_target


def test_a_target_that_is_not_configured_is_refused(
    cache: Commands, launch: list[str], config: Path
) -> None:
    said = refused(cache("key", "--config", config, "--target", "llama", *launch))
    assert "no target llama; it has qwen, bare" in said
    assert "--config goes with --target" in refused(cache("key", "--config", config, *launch))


@pytest.mark.parametrize("names", [[""], ["x" * 121], ["--"], [f"N{i}" for i in range(129)]])
def test_names_that_cannot_be_kept_are_refused(
    cache: Commands, launch: list[str], names: list[str]
) -> None:
    given = [f"--factor={name}" for name in names]
    assert "names of factors" in refused(cache("key", *given, *launch))


def test_what_counts_is_stamped_and_verified(
    cache: Commands, launch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = (cache.cache, "--factor", "MY_KERNELS_FAST")
    monkeypatch.setenv("MY_KERNELS_FAST", "1")
    assert cache("stamp", *counted, *launch)[0] == 0
    assert cache("verify", *counted, *launch)[0] == 0
    monkeypatch.setenv("MY_KERNELS_FAST", "2")
    code, out, _ = cache("verify", *counted, *launch)
    assert code == 2
    assert "env MY_KERNELS_FAST 1 -> 2" in out
    assert cache("verify", cache.cache, *launch)[0] == 0  # it counts no longer


def test_a_stamp_from_before_a_name_counted_is_unknown_and_says_which(
    cache: Commands, launch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KERNELS_FAST", "1")
    assert cache("stamp", cache.cache, *launch)[0] == 0
    said = refused(cache("verify", cache.cache, "--factor", "MY_KERNELS_FAST", *launch))
    assert "not known: env MY_KERNELS_FAST" in said
    assert cache("verify", cache.cache, "--factor", "tensor-parallel-size", *launch)[0] == 0


def test_no_secret_counts(
    cache: Commands, launch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = key(cache("key", *launch))
    monkeypatch.setenv("MY_API_KEY", "geheim")
    assert key(cache("key", "--factor", "MY_API_KEY", *launch)) == plain


def test_versions_that_nobody_could_read_are_no_sameness_unless_they_are_ignored(
    cache: Commands, launch: list[str], tmp_path: Path
) -> None:
    """`uv run` says not which Python it starts; another torch would look the same."""
    place = tmp_path / "filled"
    (place / "torch_compile_cache").mkdir(parents=True)
    hidden = ("--", "uv", "run", *launch[1:])
    assert cache("stamp", place, *hidden)[0] == 0
    code, _, err = cache("verify", place, *hidden)
    assert code == 3
    assert "not known: versions" in err
    assert "--ignore 'version *'" in err
    ignoring = ("--ignore", "version *")
    assert cache("stamp", place, "--same", *ignoring, *hidden)[0] == 0
    (place / "torch_compile_cache/graph").write_text("x")
    code, out, err = cache("verify", place, *ignoring, *hidden)
    assert (code, err) == (0, "")
    assert "safe" in out
