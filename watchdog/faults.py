"""What pydantic found wrong, in words for somebody who has the file open."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

import yaml
from pydantic import BaseModel, ValidationError

from watchdog.duration import format_duration
from watchdog.settings import Settings
from watchdog.yaml_marks import Document, Fault, Place

LATER: Final = frozenset({"targets.canary"})
"""Keys that the design has and this version has not."""

OTHER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "authorization_file": "bearer_token_file",
        "bearer_token": "bearer_token_file",
        "api_key": "bearer_token_file",
        "token": "bearer_token_file",
        "password": "password_file",
        "address": "url",
        "num_speculative_tokens": "depth",
    }
)
"""What others call our keys."""

_SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing": "is missing",
        "int_type": "must be a whole number",
        "float_type": "must be a number",
        "bool_type": "must be true or false",
        "string_type": "must be text",
        "finite_number": "must be a finite number",
        "model_type": "must be a section of `key: value` lines",
        "mapping_type": "must be a section of `key: value` lines",
        "tuple_type": "must be a list, each item after `- `",
    }
)


def faults_of(error: ValidationError, document: Document) -> Iterator[Fault]:
    """One fault for each of pydantic's, at the place in the document where it can be mended."""
    for part in error.errors(include_url=False, include_input=False):
        place: Place = tuple(part["loc"])
        kind, of_key = part["type"], part["loc"][-1:] == ("[key]",)
        if of_key:
            place = place[:-1]
        if kind == "extra_forbidden":
            yield Fault(document.mark(place, of_key=True), place, _unknown(place))
        elif kind == "value_error":
            what = str(part["ctx"]["error"])
            yield Fault(document.mark(place, of_key=of_key), place, what)
        elif kind in {"greater_than_equal", "less_than_equal"}:
            what = _bound(kind, part["ctx"], document, place)
            yield Fault(document.mark(place), place, what)
        else:
            what = _SENTENCES.get(kind, part["msg"][:1].lower() + part["msg"][1:])
            what += _misread(kind, document, place)
            yield Fault(document.mark(place), place, what)


def nothing_given(document: Document) -> Iterator[Fault]:
    """A fault for each key without a value: all lines below it may be commented out."""
    seen: set[int] = set()  # what aliases share is looked at once
    waiting: list[tuple[Place, Any]] = [((), document.data)]
    while waiting:
        place, data = waiting.pop()
        if data is None:
            what = "has no value; give it one or remove it"
            yield Fault(document.mark(place, of_key=True), place, what)
        elif isinstance(data, (dict, list)) and id(data) not in seen:
            seen.add(id(data))
            pairs = data.items() if isinstance(data, dict) else enumerate(data)
            waiting += [((*place, step), value) for step, value in pairs]


def _unknown(place: Place) -> str:
    key = str(place[-1])
    known = known_keys(place[:-1])
    if ".".join(str(step) for step in place if not isinstance(step, int)) in LATER:
        return f"not in this version yet; known: {', '.join(known)}"
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    meant = OTHER_WORDS.get(key, "")
    guess = meant if meant in known else (near[0] if near else "")
    return f"unknown key; {f'did you mean {guess}? ' if guess else ''}known: {', '.join(known)}"


def known_keys(place: Place) -> list[str]:
    """The keys of the section at `place`; none where it is no section of ours."""
    model: type[BaseModel] | None = Settings
    for step in place:
        if model is not None and isinstance(step, str):
            field = model.model_fields.get(step)
            model = None if field is None else _section(field.annotation)
    return [] if model is None else list(model.model_fields)


def _section(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section(part))), None)


def _bound(kind: str, context: Mapping[str, Any], document: Document, place: Place) -> str:
    """Name the limit as the file would write it: text that passed as a number is a duration."""
    low = kind == "greater_than_equal"
    bound = context["ge"] if low else context["le"]
    _, node = document.find(place)
    if node is not None and node.tag.endswith(":str"):
        bound = format_duration(bound)
    else:
        bound = f"{bound:g}"
    return f"must be {'at least' if low else 'at most'} {bound}"


def _misread(kind: str, document: Document, place: Place) -> str:
    """What YAML made of a value that somebody meant as something else."""
    _, node = document.find(place)
    if not isinstance(node, yaml.ScalarNode) or not document.has(place):
        return ""
    tag, text = node.tag.rpartition(":")[2], node.value
    if kind == "string_type":
        words = {"bool": "as yes or no", "int": "as a number", "float": "as a number"}
        read = words.get(tag, "as a date" if tag == "timestamp" else "as no text")
        return f'; YAML reads {text} {read}: put it in quotes, "{text}"'
    if kind in {"int_type", "float_type"} and tag == "str":
        return _as_number(text)
    return ""


def _as_number(text: str) -> str:
    try:
        return f"; YAML reads {text} as text: write {float(text):.15g} without quotes"
    except ValueError:
        return ", not text"
