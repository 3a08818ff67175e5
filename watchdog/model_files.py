"""
What a model's folder holds, told without reading a weight: so that a swapped file is seen.

The path of a model stays the same when somebody puts other files there, and vLLM's own key holds
the path and the configuration, not the weights. Read are `config.json`, the quantization's
configuration and the headers of safetensors files (names, dtypes, shapes); of all weights and
code only size and time. Only the folder itself is looked at, as vLLM does.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.domain.masking import masked_text
from watchdog.regular_files import OddFileError, json_object, shown, why
from watchdog.safetensors import digest, tensors

MOST_FILES: Final = 4096
"""Entries of a folder; one with more is no folder of a model."""

MOST_CONFIG: Final = 2 << 20  # bytes of a configuration; as JSON it may need 27 times as much
MOST_TENSORS: Final = 1_000_000
MOST_TOLD: Final = 3
"""Faults of one part that are told by name."""

SAFETENSORS: Final = ".safetensors"
WEIGHTS: Final = frozenset({SAFETENSORS, ".bin", ".gguf", ".pt", ".pth"})
CODE: Final = ".py"
"""A model may bring its own code (`--trust-remote-code`): other code makes other graphs."""

CONFIGS: Final = ("config.json", "params.json")
"""The second one is Mistral's own format."""

QUANTIZATIONS: Final = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""Where the quantization stands that is not in the configuration: ModelOpt, GPTQ, AWQ."""

PARTS: Final = ("config", "quantization", "tensors", "files")
"""
Each is in the facts, or in what could not be read.

`architecture` goes with `config`, `bytes` and `count` with `files`.
"""

LATE: Final = "there was no time left to read it"


Find = Callable[[Path], Path]
"""Leads from a path to where it leads, links followed. Raises OSError."""


def _as_it_is(path: Path) -> Path:
    return path


class _Files(NamedTuple):
    """A model's folder with the names in it; the empty one where it is one file."""

    folder: Path
    names: list[str]
    find: Find

    def at(self, name: str) -> Path:
        """Return where one of them lies. Raises OSError."""
        return self.find(self.folder / name)


@dataclass(frozen=True)
class Identity:
    """
    What a model is, as far as its files tell; each part is in one of the two.

    `facts`: digests and short texts by part. `unread`: reasons by part.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**self.facts, "unread": dict(self.unread)}


def identity(folder: Path, deadline: float, find: Find = _as_it_is) -> Identity:
    """
    Tell what a model's folder holds, or its one file.

    `deadline`: of `time.monotonic()`; what was not read until then is in `unread`. `find` leads
    from what the folder names to what is read.
    """
    try:
        names = _names(folder)
    except OSError as error:
        return Identity(unread=dict.fromkeys(PARTS, f"{_named(folder)} {why(error)}"))
    facts: dict[str, Any] = {}
    unread: dict[str, str] = {}
    if time.monotonic() > deadline:
        return Identity(unread=dict.fromkeys(PARTS, LATE))
    files = _Files(folder, names, find)
    _add_config(files, facts, unread)
    _add_files(files, deadline, facts, unread)
    _add_tensors(files, deadline, facts, unread)
    return Identity(facts, unread)


def _names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; the empty name stands for a model that is one file."""
    if stat.S_ISREG(folder.stat().st_mode):
        return [""]
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, MOST_FILES + 1)]
    if len(names) > MOST_FILES:  # a list that was cut would hide what is behind
        raise OddFileError(f"has more than {MOST_FILES} entries")
    return sorted(names)


# --- configuration -------------------------------------------------------------------------------


def _add_config(files: _Files, facts: dict[str, Any], unread: dict[str, str]) -> None:
    name = next((name for name in CONFIGS if name in files.names), "")
    try:
        if not name:
            raise OddFileError("is not there")
        config = json_object(files.at(name), MOST_CONFIG)
        facts["config"] = digest(config)
    except (OSError, RecursionError) as error:
        reason = why(error) if isinstance(error, OSError) else "is nested too deep"
        reason = f"{name or CONFIGS[0]} {reason}"
        unread.update(dict.fromkeys(PARTS[:2], reason))
        return
    facts["architecture"] = _architecture(config)
    found = _nested(config, "quantization_config") or _nested(config, "compression_config")
    try:
        facts["quantization"] = _quantization(found or _beside(files), config)
    except OSError as error:
        unread["quantization"] = str(error)


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    listed = names if isinstance(names, list) else [config.get("model_type") or "not told"]
    return shown(", ".join(str(name)[:64] for name in listed[:8]))


def _nested(config: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """Find an object in a configuration, or in its part for text where a model has several."""
    for holder in (config, config.get("text_config"), config.get("llm_config")):
        if isinstance(holder, dict) and isinstance(holder.get(key), dict):
            return dict(holder[key])
    return None


def _beside(files: _Files) -> dict[str, Any] | None:
    """Read a quantization that has a file of its own. Raises OddFileError with a sentence."""
    name = next((name for name in QUANTIZATIONS if name in files.names), "")
    if not name:
        return None
    try:
        return json_object(files.at(name), MOST_CONFIG)
    except OSError as error:
        raise OddFileError(f"{name} {why(error)}") from error


def _quantization(found: Mapping[str, Any] | None, config: Mapping[str, Any]) -> str:
    """Name a quantization for people; the digest at the end tells the rest of it apart."""
    if found is None:
        text = config.get("text_config")
        holders = (config, text if isinstance(text, dict) else {})
        keys = ("dtype", "torch_dtype")
        told = next((h[k] for h in holders for k in keys if isinstance(h.get(k), str)), "")
        return shown(f"none, {told}" if told else "none")
    inner = found.get("quantization")
    holder = {**found, **inner} if isinstance(inner, dict) else found
    words = [holder.get("quant_method") or holder.get("quant_algo") or "unnamed"]
    bits, group = (holder.get(key) for key in ("bits", "group_size"))
    words += [f"{bits} bits"] if isinstance(bits, int) else []
    words += [f"groups of {group}"] if isinstance(group, int) else []
    return f"{shown(', '.join(str(word)[:64] for word in words), 90)} ({digest(found)[:8]})"


# --- files ---------------------------------------------------------------------------------------


def _add_files(
    files: _Files, deadline: float, facts: dict[str, Any], unread: dict[str, str]
) -> None:
    rows: list[tuple[str, int, int]] = []
    weights, faults = 0, []
    for name in _counting(files):
        if time.monotonic() > deadline:
            unread["files"] = LATE
            return
        try:
            known = files.at(name).stat()
        except OSError as error:
            faults.append(f"{shown(name)} {why(error)}")
            continue
        if not stat.S_ISREG(known.st_mode):
            faults.append(f"{shown(name)} is no regular file")
            continue
        rows.append((name, known.st_size, known.st_mtime_ns))
        weights += not name.endswith(CODE)
    if faults:
        unread["files"] = _together(faults)
    elif not weights:
        unread["files"] = f"{_named(files.folder)} holds no weights"
    else:
        facts["files"] = digest(rows)
        facts["bytes"] = sum(size for _, size, _ in rows)
        facts["count"] = len(rows)


def _counting(files: _Files) -> list[str]:
    """Return the names of weights and code."""
    if files.names == [""]:
        return files.names
    return [n for n in files.names if Path(n).suffix.lower() in WEIGHTS or n.endswith(CODE)]


# --- headers of safetensors ----------------------------------------------------------------------


def _add_tensors(
    files: _Files, deadline: float, facts: dict[str, Any], unread: dict[str, str]
) -> None:
    folder = files.folder
    names = [name for name in files.names if (folder / name).suffix.lower() == SAFETENSORS]
    rows: list[str] = []
    faults: list[str] = []
    for name in names:
        if time.monotonic() > deadline:
            unread["tensors"] = LATE
            return
        try:
            rows.extend(islice(tensors(files.at(name)), MOST_TENSORS + 1 - len(rows)))
        except OSError as error:
            faults.append(f"{shown(name) or folder.name} {why(error)}")
        if len(rows) > MOST_TENSORS:
            faults.append(f"there are more than {MOST_TENSORS} tensors")
            break
    if faults:
        unread["tensors"] = _together(faults)
    elif names:
        facts["tensors"] = digest(sorted(rows))
    elif "files" in facts:
        facts["tensors"] = "none"  # such as GGUF: it has files, and none of this kind
    else:
        unread["tensors"] = unread["files"]


def _named(folder: Path) -> str:
    return shown(masked_text(str(folder)))


def _together(faults: list[str]) -> str:
    more = len(faults) - MOST_TOLD
    return "; ".join([*faults[:MOST_TOLD], *([f"and {more} more"] if more > 0 else [])])
