"""
The fingerprint of a launch that is still to come: of its command line, not of a process.

Known then are the words, the environment that it will inherit, the models' files, this host's
GPUs, and the versions of what is installed for the Python that the words start; where that one
is not found, they are listed as not read. Where the server runs in a container, its image stands
for all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from watchdog import yaml_marks
from watchdog.domain.command_line import masked, options
from watchdog.domain.fingerprint import Fingerprint, fingerprint_of
from watchdog.domain.launch_factors import public_environ
from watchdog.errors import CommandError
from watchdog.launch_gpus import gpu_facts
from watchdog.launch_models import Seen, models_of
from watchdog.launch_pythons import Server
from watchdog.launch_versions import versions_of
from watchdog.regular_files import content
from watchdog.tree import Tree

MOST_CONFIG: Final = 65_536  # bytes of a file of options
MOST_DEPTH: Final = 20

NAME_LENGTH: Final = 48
"""Characters of a directory's name before the fingerprint."""

_BEGINS: Final = (
    yaml.BlockMappingStartToken, yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken,
)  # fmt: skip
_ENDS: Final = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
_IMAGE: Final = re.compile(r"(?:.*@)?(?:sha256:)?([0-9a-f]{64})")
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._]+")


class Configured(NamedTuple):
    """Names that are configured to count as factors, and such that are configured not to."""

    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()


NOT_CONFIGURED: Final = Configured()


def fingerprint(
    words: Sequence[str],
    environ: Mapping[str, str],
    image: str | None,
    deadline: float,
    configured: Configured = NOT_CONFIGURED,
) -> Fingerprint:
    """
    Return the fingerprint of `vllm serve ...` in this environment.

    `deadline` in monotonic seconds; files of models that could not be read until then are told.
    An image stands for the versions in it.
    """
    launch = facts(words, environ, image, deadline, configured.more)
    found = fingerprint_of(launch, configured.more, configured.less)
    if image is None:
        return found
    return replace(found, unread=tuple(row for row in found.unread if row[0] != "versions"))


def facts(
    words: Sequence[str],
    environ: Mapping[str, str],
    image: str | None,
    deadline: float,
    more: Sequence[str] = (),
) -> dict[str, Any]:
    """
    Return the facts of a launch, as `fingerprint_of` takes them, without secrets.

    Raises CommandError of an image that is no digest.
    """
    unread: dict[str, str] = {}
    argv = with_config_file(words)
    told: dict[str, Any] = {"argv": masked(argv), "unread": unread}
    told["gpu"] = gpu_facts(Tree(), Path("/proc"), unread)
    whole = {**environ, **_assigned(words)}
    if image is not None:
        told["image"] = _digest_of(image)
    else:
        told["versions"] = versions_of(Server(words, whole), unread)
    kept, why = public_environ(whole, more)
    if kept is None:
        unread["environ"] = why
    else:
        told["environ"] = kept
    told["models"] = models_of(options(argv), Seen(whole), deadline, unread)
    return told


def with_config_file(words: Sequence[str]) -> list[str]:
    """
    Return the words with the options of a `--config` file in its place.

    What stands on the command line wins, as in vLLM. A file that cannot be read stays what it
    is, and the fingerprint then says that it lacks its options.
    """
    given = options(words)
    name = given.pop("config", None)
    if name is None:
        return list(words)
    try:
        text = content(Path(name), MOST_CONFIG).decode()
        if not _is_simple(text):
            return list(words)
        document = yaml_marks.read(text)
    except (OSError, ValueError, yaml.YAMLError):
        return list(words)
    if document.faults or not isinstance(document.data, dict):
        return list(words)
    of_file = [word for key, value in document.data.items() for word in _option(str(key), value)]
    whole = {**options(["vllm", "serve", *of_file]), **given}
    return ["vllm", "serve", *(f"--{option}={value}" for option, value in whole.items())]


def _is_simple(text: str) -> bool:
    """Whether it can be read and written out in little time: no aliases, and not nested deep."""
    depth = 0
    for token in yaml.scan(text):  # lazy: what is too deep is not read to its end
        depth += isinstance(token, _BEGINS) - isinstance(token, _ENDS)
        if depth > MOST_DEPTH or isinstance(token, yaml.AliasToken):
            return False
    return True


def _option(key: str, value: Any) -> list[str]:
    if value is None or isinstance(value, bool):
        return [f"--{'no-' if value is False else ''}{key}"]
    if isinstance(value, dict):
        return [f"--{key}", json.dumps(value, sort_keys=True)]
    return [f"--{key}", *map(str, value if isinstance(value, list) else [value])]


def directory_name(words: Sequence[str], found: Fingerprint) -> str:
    """
    Return a directory's name for this launch: the model, for people, and the fingerprint.

    Raises CommandError where no model is named: then other launches would get the same directory.
    """
    if not any(factor.name == "model" for factor in found.factors):
        raise CommandError(
            "these words name no model, so that another launch would get the same directory: give "
            "the words of vLLM itself, vllm serve MODEL ..., not those of a script"
        )
    model = options(masked(with_config_file(words))).get("model", "")
    bare = _NOT_IN_A_NAME.sub("-", model.rstrip("/").rpartition("/")[2]).strip("-.")
    return f"{bare[:NAME_LENGTH] or 'vllm'}-{found.digest}"


def root_of(environ: Mapping[str, str]) -> Path:
    """
    Return where directories by launch lie if nobody says: beside vLLM's own default.

    Not in it: whoever looks through that one would find those of all launches. Raises CommandError.
    """
    home = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '')}/.cache"
    if not home.startswith("/") or home == "/.cache":
        raise CommandError("there is no HOME: say by --root where the directory shall be")
    return Path(home) / "vllm-launches"


def _digest_of(image: str) -> str:
    """Return `sha256:...`; the same name or tag may be another image tomorrow."""
    match = _IMAGE.fullmatch(image)
    if match is None:
        raise CommandError(
            "--image wants a digest, sha256: and 64 hex digits: "
            "docker image inspect --format {{.Id}} NAME"
        )
    return f"sha256:{match[1]}"


def _assigned(words: Sequence[str]) -> dict[str, str]:
    """Return what stands before the program, as in `env VLLM_X=1 vllm serve`."""
    first = words[1:] if Path(words[0] if words else "").name == "env" else words
    found = {}
    for word in first:
        match = _ASSIGNED.fullmatch(word)
        if match is None:
            break
        found[match[1]] = match[2]
    return found
