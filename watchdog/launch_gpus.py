"""Which GPUs a launch runs on: their architecture and their driver, as far as this host tells."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from watchdog.kfd import kfd_archs
from watchdog.pci import gpus
from watchdog.tree import Tree, errno_name

MOST_CARDS: Final = 64
MOST_TEXT: Final = 4096

_MODEL: Final = re.compile(r"^Model:\s*(\S[^\n]{0,80})$", re.MULTILINE)
_MODULE: Final = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d[\w.]{0,40})")
_RELEASE: Final = re.compile(r"[\w.+~-]{1,80}")


def gpu_facts(tree: Tree, proc: Path, unread: dict[str, str]) -> dict[str, str]:
    """
    Return `arch` and `driver`, where there are GPUs; what could not be read goes into `unread`.

    `arch` is AMD's gfx number; of NVIDIA's it is the model, which has one architecture.
    """
    archs = [*_amd(tree, unread), *_nvidia(tree, proc, unread)]
    found = {}
    if archs:
        found["arch"] = ", ".join(sorted(set(archs)))
    drivers = list(_drivers(tree, proc, unread, amd=any(a.startswith("gfx") for a in archs)))
    if drivers:
        found["driver"] = ", ".join(drivers)
    return found


def _amd(tree: Tree, unread: dict[str, str]) -> list[str]:
    try:
        return kfd_archs(tree)
    except FileNotFoundError:
        return []  # no AMD compute driver: nothing that is missing
    except (OSError, ValueError) as error:
        unread["gpu"] = errno_name(error) if isinstance(error, OSError) else str(error)
        return []


def _nvidia(tree: Tree, proc: Path, unread: dict[str, str]) -> list[str]:
    try:
        cards = [gpu.address for gpu in gpus(tree) if gpu.vendor == "nvidia"]
    except OSError:  # without a PCI bus there are none
        return []
    models = []
    for address in cards[:MOST_CARDS]:
        with contextlib.suppress(OSError):
            text = _text(proc / "driver/nvidia/gpus" / address / "information")
            models += _MODEL.findall(text)[:1]
    if len(models) < len(cards):
        unread["gpu"] = "NVIDIA's driver does not tell the model of each GPU"
    return [model.strip() for model in models]


def _drivers(tree: Tree, proc: Path, unread: dict[str, str], *, amd: bool) -> Iterator[str]:
    """Yield each driver with its version; that of the kernel's own amdgpu is the kernel's."""
    if amd:
        try:
            own = tree.has("module/amdgpu/version")
            version = (
                tree.text("module/amdgpu/version", 128)
                if own
                else _text(proc / "sys/kernel/osrelease")
            ).strip()
        except OSError as error:
            unread["gpu driver"] = f"amdgpu: {errno_name(error)}"
        else:
            if _RELEASE.fullmatch(version):
                yield f"amdgpu {version}" if own else f"amdgpu of kernel {version}"
            else:
                unread["gpu driver"] = "amdgpu: what it tells is no version"
    try:
        found = _MODULE.search(_text(proc / "driver/nvidia/version"))
    except FileNotFoundError:
        return  # not loaded
    except OSError as error:
        unread["gpu driver"] = f"nvidia: {errno_name(error)}"
        return
    if found is None:
        unread["gpu driver"] = "nvidia: what it tells is no version"
    else:
        yield f"nvidia {found[1]}"


def _text(path: Path) -> str:
    return Tree(path.parent).text(path.name, MOST_TEXT)
