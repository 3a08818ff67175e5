"""
YAML text to plain data, with the line and column of every part of it.

PyYAML builds a tree of nodes with marks and then data without them; and on that second step it
drops duplicate keys and turns `no` into False without a word. So the tree is walked here:
keys are always text, duplicate keys are faults, and a place in the data can be found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

Place = tuple[int | str, ...]
"""The way to a part of the data: keys and list positions, as pydantic's `loc`."""

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_NUMBER: Final = frozenset("0123456789.+-eE")
_MOST_DIGITS: Final = 40

QUOTES: Final = "a value that holds any of [ ] { } # & * ! | > % @ ` or `: ` needs quotes"


class Mark(NamedTuple):
    """A line and a column of the file, from 1."""

    line: int
    column: int


class Fault(NamedTuple):
    """One thing that is wrong: where in the file, which part of the data, and what."""

    mark: Mark
    place: Place
    what: str


class Misread:
    """Stands for a scalar that YAML reads as something we have no use for: a date, bad base 64."""


@dataclass
class Document:
    """A YAML document as data, what was wrong with it, and where each part of it stands."""

    data: Any = None
    faults: list[Fault] = field(default_factory=list)
    root: yaml.Node | None = None

    def find(self, place: Place) -> tuple[yaml.Node | None, yaml.Node | None]:
        """Return the key's node (None in lists) and the value's node of the nearest part there."""
        key: yaml.Node | None = None
        node = self.root
        for step in place:
            found = _child(node, step)
            if found is None:
                break
            key, node = found
        return key, node

    def has(self, place: Place) -> bool:
        """Whether the document holds this part itself; what it leaves out has a default."""
        node = self.root
        for step in place:
            found = _child(node, step)
            if found is None:
                return False
            node = found[1]
        return True

    def mark(self, place: Place, *, of_key: bool = False) -> Mark:
        """Where the value at `place` stands (or its key), or the nearest part around it."""
        key, node = self.find(place)
        chosen = key if of_key and key is not None else node
        return _mark(chosen)


def read(text: str) -> Document:
    """Parse one YAML document; never raises, all that is wrong is in `faults`."""
    document = Document()
    try:
        document.root = yaml.compose(text, Loader=yaml.SafeLoader)
        document.data = _Builder(document.faults).build(document.root, ())
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
        what = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        document.faults.append(Fault(mark, (), what))
    except yaml.MarkedYAMLError as error:
        mark = Mark(1, 1)
        if error.problem_mark is not None:
            mark = Mark(error.problem_mark.line + 1, error.problem_mark.column + 1)
        document.faults.append(Fault(mark, (), _syntax(error)))
    except RecursionError:
        document.faults.append(Fault(Mark(1, 1), (), "nested too deeply"))
    return document


def _syntax(error: yaml.MarkedYAMLError) -> str:
    """A sentence of ours for the usual slips, PyYAML's own words for the others."""
    problem = error.problem or "cannot be read"
    if "'\\t'" in problem:
        return "a tab cannot be used here; indent with spaces"
    if "found undefined alias" in problem:
        name = problem.split("'")[1]
        return f"*{name} has no anchor &{name} before it; for text that begins with *, use quotes"
    if "expected a single document" in (error.context or ""):
        return "a second document begins here; one file holds one configuration"
    if "mapping values are not allowed here" in problem:
        return (
            "not valid YAML: a second `:` in one line, or wrong indentation; a value with `: ` "
            "in it needs quotes"
        )
    return f"not valid YAML: {problem}; {QUOTES}"


def _mark(node: yaml.Node | None) -> Mark:
    if node is None or node.start_mark is None:
        return Mark(1, 1)
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


def _child(node: yaml.Node | None, step: int | str) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return (None, node.value[step]) if step < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        return next((pair for pair in _pairs(node) if pair[0].value == step), None)
    return None


def _pairs(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """The pairs that count: the mapping's own first, then those that `<<` brings in."""
    waiting = [node]
    seen = set()
    while waiting:
        mapping = waiting.pop(0)
        if mapping in seen:
            continue
        seen.add(mapping)
        for key, value in mapping.value:
            if key.tag != _TAG + "merge":
                yield key, value
                continue
            parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
            waiting += [part for part in parts if isinstance(part, yaml.MappingNode)]


@dataclass
class _Builder:
    """Nodes to data. A node that several aliases name is built once, so none can explode."""

    faults: list[Fault]
    built: dict[yaml.Node, Any] = field(default_factory=dict)
    open: set[yaml.Node] = field(default_factory=set)

    def build(self, node: yaml.Node | None, place: Place) -> Any:
        if node is None:
            return None
        if node in self.open:
            self._fault(node, place, "an alias that holds itself")
            return None
        if node not in self.built:
            self.open.add(node)
            self.built[node] = self._make(node, place)
            self.open.discard(node)
        return self.built[node]

    def _make(self, node: yaml.Node, place: Place) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.build(item, (*place, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag.startswith(_TAG):
            return self._scalar(node, place)
        self._fault(node, place, f"the tag {node.tag.replace(_TAG, '!!')} is not used here")
        return Misread()

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        first: dict[str, Mark] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                self._fault(key, place, "a key must be plain text")
            elif key.tag == _TAG + "merge":
                for part in self._merged(value, place):
                    merged = {**part, **merged}
            elif key.value in first:
                what = f"duplicate key, already in line {first[key.value].line}"
                self._fault(key, (*place, key.value), what)
            else:
                first[key.value] = _mark(key)
                made[key.value] = self.build(value, (*place, key.value))
        return {**merged, **made}

    def _merged(self, node: yaml.Node, place: Place) -> Sequence[dict[str, Any]]:
        parts = self.build(node, (*place, "<<"))
        parts = parts if isinstance(parts, list) else [parts]
        if all(isinstance(part, dict) for part in parts):
            return parts
        self._fault(node, (*place, "<<"), "must name a section (`<<: *anchor`)")
        return []

    def _scalar(self, node: yaml.ScalarNode, place: Place) -> Any:
        kind, text = node.tag[len(_TAG) :], node.value
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in yaml.SafeLoader.bool_values:
            return yaml.SafeLoader.bool_values[text.lower()]
        if kind in {"int", "float"}:
            return self._number(node, place, kind)
        return Misread()

    def _number(self, node: yaml.ScalarNode, place: Place, kind: str) -> Any:
        """A number, unless YAML reads another one than a person does: 0777 is 511, 1:30 is 90."""
        text = node.value
        octal = kind == "int" and text.lstrip("+-").startswith("0") and text.strip("+-0")
        number = _to_number(text, kind)
        if octal or number is None:
            plain = "a duration as 1m30s" if ":" in text else "a plain number"
            self._fault(
                node, place, f"{text} is another number to YAML; write {plain}, text in quotes"
            )
            return Misread()
        return number

    def _fault(self, node: yaml.Node, place: Place, what: str) -> None:
        self.faults.append(Fault(_mark(node), place, what))


def _to_number(text: str, kind: str) -> int | float | None:
    try:
        if kind == "float" and text.lower().lstrip("+-") in {".inf", ".nan"}:
            return float(text.replace(".", ""))
        plain = set(text) <= _PLAIN_NUMBER and len(text) <= _MOST_DIGITS
        return (int(text) if kind == "int" else float(text)) if plain else None
    except ValueError:
        return None
