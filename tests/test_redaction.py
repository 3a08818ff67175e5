"""What a recording must not tell, and what it must go on telling."""

from __future__ import annotations

import pytest

from watchdog.redaction import HIDDEN, redactor_of


@pytest.mark.parametrize(
    "token", ["Bearer abcdefgh123", "hf_abcdefgh1234", "sk-abcdefgh1234", "sk_abcdefgh1234"]
)
def test_what_looks_like_a_token_is_hidden(token: str) -> None:
    told = redactor_of((), (), ()).text(f"with {token} inside")
    assert token not in told
    assert HIDDEN in told


@pytest.mark.parametrize(
    "option", ["--hf-overrides", "--hf_overrides", "--skip-tokenizer-init", "--hf-config-path"]
)
def test_an_option_is_no_token(option: str) -> None:
    assert redactor_of((), (), ()).text(option) == option
