"""
Versions that somebody claims, beside those that something reports: a claim is not a measurement.

Claims are of the configuration, of environment variables and of an image's labels; reports of
the server's own page, its log's first lines and its installed packages. Two versions are compared
as far as the claim goes: `0.27` claims any 0.27.x.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

COMPONENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": ("VLLM_VERSION",),
    "radiance": ("RADIANCE_VERSION",),
    "torch": ("TORCH_VERSION", "PYTORCH_VERSION"),
    "triton": ("TRITON_VERSION", "PYTORCH_TRITON_VERSION"),
    "aiter": ("AITER_VERSION",),
    "transformers": ("TRANSFORMERS_VERSION",),
    "flashinfer": ("FLASHINFER_VERSION",),
    "rocm": ("ROCM_VERSION",),
}
"""
What may be claimed, and the environment variables that do so.

CUDA is none of them: CUDA_VERSION is the base image's toolkit, and torch brings a CUDA of its own
that need not be the same.
"""

MOST_TEXT: Final = 64
MOST_CLAIMS: Final = 32

PAGE: Final = "/version"
LOG: Final = "the log's start"
PACKAGE: Final = "installed package"
RANKS: Final = (PAGE, LOG, PACKAGE)
"""Where a report comes from, what is nearest to the running program first."""

_TITLES: Final = {
    **{name: name for name in COMPONENTS},
    "vllm-openai": "vllm",
    "pytorch": "torch",
}
"""What an image may be called, and the component that its version is then of."""

_STANDARD: Final = "org.opencontainers.image."
_LABEL: Final = re.compile(r"(?:^|[./])([a-z]+)[._-]version$")
_VERSION: Final = re.compile(
    r"v?(\d{1,6}(?:\.\d{1,8}){1,4})"
    r"((?:[-_.]?(?:a|b|rc|alpha|beta|dev|pre|post)(?:[-_.]?\d{1,9})?)*)"  # read in one way only
    r"(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)
_NOT_IN_A_SUFFIX: Final = re.compile(r"[-_.]")


class Version(NamedTuple):
    """One side: of which component, which version, and who says so."""

    component: str
    version: str
    by: str


class _Parts(NamedTuple):
    release: tuple[int, ...]
    suffix: str  # rc1, dev38
    local: tuple[str, ...] | None  # of 0.27.1+rocm714: rocm714


def claims_of(environ: Mapping[str, str] | None, labels: Mapping[str, str] | None) -> list[Version]:
    """Return what the environment and the labels of the image claim; what is no version is none."""
    found = []
    for component, variables in COMPONENTS.items():
        for variable in variables:
            value = (environ or {}).get(variable, "").strip()
            if is_version(value):
                found.append(Version(component, value, f"environment {variable}"))
    found += _of_labels(labels or {})
    return found[:MOST_CLAIMS]


def packages_of(versions: Mapping[str, str]) -> list[Version]:
    """Return what is installed as reports."""
    return [
        Version(component, version, PACKAGE)
        for component, version in sorted(versions.items())
        if component in COMPONENTS and is_version(version)
    ]


def as_rows(versions: Iterable[Version]) -> list[dict[str, str]]:
    """Return plain data."""
    return [one._asdict() for one in versions]


def from_rows(rows: Any) -> Iterator[Version]:
    """Read what `as_rows` wrote; what is odd is left out."""
    for row in rows[:MOST_CLAIMS] if isinstance(rows, (list, tuple)) else ():
        texts = [row.get(key) if isinstance(row, Mapping) else None for key in Version._fields]
        whole = [text for text in texts if isinstance(text, str) and text]
        if len(whole) == len(Version._fields):
            yield Version(*whole)


def is_version(text: str) -> bool:
    """Whether a text is a version that can be compared: a branch, a commit or `latest` is not."""
    return len(text) <= MOST_TEXT and _VERSION.fullmatch(text.lower()) is not None


def agree(claim: str, report: str) -> bool | None:
    """Whether a report is what is claimed, as far as both go; None where one is no version."""
    wanted, told = _parts(claim), _parts(report)
    if wanted is None or told is None:
        return None
    known = min(len(wanted.release), len(told.release))
    if told.release[:known] != wanted.release[:known]:
        return False
    if wanted.suffix and not told.suffix.startswith(wanted.suffix):
        return False
    return wanted.local is None or told.local is None or wanted.local == told.local


def best(reports: Iterable[Version]) -> Version | None:
    """Return the report that is nearest to the running program, of those of one component."""
    order = {by: rank for rank, by in enumerate(RANKS)}
    return min(reports, key=lambda one: order.get(one.by, len(order)), default=None)


def _of_labels(labels: Mapping[str, str]) -> Iterator[Version]:
    """
    Yield what labels claim.

    The standard label of a version is taken over from the base image (`22.04` of Ubuntu) where an
    image sets none, so it counts only beside a title that is a component's.
    """
    for key, value in sorted(labels.items()):
        match = _LABEL.search(key.lower())
        if key.startswith(_STANDARD) or match is None:
            continue
        component = _TITLES.get(match[1])
        if component is not None and is_version(value):
            yield Version(component, value, f"image label {key}")
    title = labels.get(f"{_STANDARD}title", "").lower().rpartition("/")[2]
    value = labels.get(f"{_STANDARD}version", "")
    if title in _TITLES and is_version(value):
        yield Version(_TITLES[title], value, f"image label {_STANDARD}version")


def _parts(text: str) -> _Parts | None:
    match = _VERSION.fullmatch(text.strip().lower()) if len(text) <= MOST_TEXT else None
    if match is None:
        return None
    release = tuple(int(part) for part in match[1].split("."))
    local = None if match[3] is None else tuple(_plain(x) for x in re.split(r"[-_.]", match[3]))
    suffix = _NOT_IN_A_SUFFIX.sub("", match[2]).replace("alpha", "a").replace("beta", "b")
    return _Parts(release, suffix, local)


def _plain(part: str) -> str:
    """Write a part of a local version in one way: 08 is 8."""
    return str(int(part)) if part.isdigit() else part
