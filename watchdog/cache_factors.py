"""
What vLLM says that it compiled for: `cache_key_factors.json`, one for each rank and part.

The file holds three hashes and the environment as vLLM saw it, 249 variables of 0.32. It is
written before the compile, so a start that dies leaves it alone in its directory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.domain.masking import is_secret, masked_data
from watchdog.regular_files import LONGEST, OddFileError, json_object, shown

NAME: Final = "cache_key_factors.json"
HASHES: Final = ("config_hash", "code_hash", "compiler_hash")
MOST_BYTES: Final = 1 << 20  # the real one has 10.7 KB
MOST_VARIABLES: Final = 1024

VERSIONS: Final = {
    "cuda": "VLLM_MAIN_CUDA_VERSION",
    "build": "VLLM_BUILD_COMMIT",
    "device": "VLLM_TARGET_DEVICE",
}
"""What is told of versions; torch, triton and the GPU are within compiler_hash."""


class Factors(NamedTuple):
    """`hashes` and `versions` are short texts by name; `env` the variables, less secrets."""

    hashes: Mapping[str, str]
    versions: Mapping[str, str]
    env: Mapping[str, str]

    @property
    def env_digest(self) -> str:
        """Return 16 hexadecimal digits for the variables."""
        text = json.dumps(dict(self.env), sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def factors(path: Path) -> Factors:
    """Read one file. Raises OSError, with words for `regular_files.why`."""
    found = json_object(path, MOST_BYTES, follow=False)
    hashes = {k: shown(found[k], 64) for k in HASHES if isinstance(found.get(k), str)}
    if not hashes:
        raise OddFileError("holds none of vLLM's hashes")
    env = found.get("env")
    known = _public(env if isinstance(env, dict) else {})
    versions = {name: known[key] for name, key in VERSIONS.items() if key in known}
    return Factors(hashes, versions, known)


def joined(parts: Mapping[str, Factors]) -> tuple[dict[str, Any], Mapping[str, str]]:
    """
    Return what all parts of a directory tell together, and the variables; both may be empty.

    `mixed`: whether they were compiled for more than one configuration. vLLM's own key rules that
    out; a directory that somebody chose (`cache_dir`) has no key.
    """
    if not parts:
        return {}, {}
    first = parts[min(parts, key=lambda name: ("backbone" not in name, name))]
    told = {
        **first.hashes,
        "env": first.env_digest,
        "versions": dict(first.versions),
        "parts": {name: dict(part.hashes) for name, part in parts.items()},
        "mixed": len({_shared(part) for part in parts.values()}) > 1,
    }
    return told, first.env


def _shared(part: Factors) -> tuple[str | None, ...]:
    """
    Return what all parts of one start share.

    Not code_hash, which is of each part's own code; nor the variables, of which some name a rank.
    """
    return part.hashes.get("config_hash"), part.hashes.get("compiler_hash")


def _public(env: Mapping[str, Any]) -> dict[str, str]:
    """Return variables as short texts; one whose name says that it is a secret is left out."""
    if len(env) > MOST_VARIABLES:
        raise OddFileError(f"holds more than {MOST_VARIABLES} variables")
    return {shown(key): _value(value) for key, value in sorted(env.items()) if not is_secret(key)}


def _value(value: object) -> str:
    """Write a value as JSON does; a long one with its digest, since its end may tell it apart."""
    try:
        text = json.dumps(masked_data(value), sort_keys=True)
    except RecursionError:
        return "nested too deep"
    if len(text) <= LONGEST:
        return shown(text)
    return f"{shown(text, 90)} ({hashlib.sha256(text.encode('ascii')).hexdigest()[:8]})"
