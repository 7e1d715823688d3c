"""The targets of references: in ``$defs`` if necessary, otherwise in place.

The conversion of one schema fills it. A definition is converted once for all its references, so that a document of
references does not grow. One that is used once and does not contain itself is inlined, because not every model
follows references.

Source: JSON Schema 2020-12 core, 8.2.3.1 and 8.2.4.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from .keywords import ANNOTATIONS, MAPS
from .names import Names

__all__ = ["Definitions"]

_PREFIX = "#/$defs/"
_MAX_DEPTH = 30
"""Levels of JSON below which nothing is inlined; the validator's own bound is 64."""


class Definitions:
    def __init__(self) -> None:
        self._names = Names(dots=True)
        self._by_pointer: dict[str, str] = {}
        self._pending: deque[tuple[str, Any, str]] = deque()
        self._schemas: dict[str, dict[str, Any]] = {}

    def refer(self, pointer: str, text: str, target: Any) -> str:
        """A reference to a part of the document, which is converted later.

        Args:
            text: the basis of its name.
        """
        name = self._by_pointer.get(pointer)
        if name is None:
            name, _ = self._names.give(text.removeprefix("#/"))
            self._by_pointer[pointer] = name
            self._pending.append((name, target, pointer))
        return f"{_PREFIX}{name}"

    def next(self) -> tuple[str, Any, str] | None:
        """Return the next definition to convert: its name, its schema and its place."""
        return self._pending.popleft() if self._pending else None

    def put(self, name: str, schema: dict[str, Any]) -> None:
        self._schemas[name] = schema

    def finish(self, root: dict[str, Any]) -> dict[str, Any]:
        """The schema with its definitions."""
        uses = Counter(_references(root))
        for schema in self._schemas.values():
            uses.update(_references(schema))
        circular = self._circular()
        single = {name for name, count in uses.items() if count == 1 and name not in circular}
        used: set[str] = set()
        whole: dict[str, Any] = self._place(root, single, used, 0)
        definitions: dict[str, Any] = {}
        waiting = deque(sorted(used))
        while waiting:
            name = waiting.popleft()
            if name in definitions:
                continue
            more: set[str] = set()
            definitions[name] = self._place(self._schemas[name], single, more, 0)
            waiting.extend(sorted(more))
        return {**whole, "$defs": definitions} if definitions else whole

    def _place(self, node: Any, single: set[str], used: set[str], depth: int, *, is_map: bool = False) -> Any:
        if isinstance(node, list):
            return [self._place(each, single, used, depth + 1) for each in node]
        if not isinstance(node, dict):
            return node
        name = None if is_map else _referred(node)
        if name is None:
            return {
                key: value
                if not is_map and key in _VALUES
                else self._place(value, single, used, depth + 1, is_map=not is_map and key in MAPS)
                for key, value in node.items()
            }
        if name not in single or depth > _MAX_DEPTH:
            used.add(name)
            return node
        target: dict[str, Any] = self._place(self._schemas[name], single, used, depth)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**target, **beside}

    def _circular(self) -> set[str]:
        """The definitions that contain themselves (Tarjan's strongly connected components, without recursion)."""
        edges = {name: sorted(set(_references(schema))) for name, schema in self._schemas.items()}
        order: dict[str, int] = {}
        low: dict[str, int] = {}
        path: list[str] = []
        on_path: set[str] = set()
        found: set[str] = set()
        for start in edges:
            if start in order:
                continue
            work: list[tuple[str, Iterator[str]]] = [(start, iter(edges[start]))]
            order[start] = low[start] = len(order)
            path.append(start)
            on_path.add(start)
            while work:
                name, rest = work[-1]
                following = next(rest, None)
                if following is not None:
                    if following not in order:
                        order[following] = low[following] = len(order)
                        path.append(following)
                        on_path.add(following)
                        work.append((following, iter(edges[following])))
                    elif following in on_path:
                        low[name] = min(low[name], order[following])
                    continue
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    component: list[str] = []
                    while not component or component[-1] != name:
                        component.append(path.pop())
                    on_path.difference_update(component)
                    if len(component) > 1 or name in edges[name]:
                        found.update(component)
        return found


_VALUES = frozenset({"enum", "const", "required", *ANNOTATIONS})
"""Keywords whose values are data, which may look like a reference. A property may bear any of these names."""


def _referred(schema: dict[str, Any]) -> str | None:
    """The definition a schema refers to."""
    reference = schema.get("$ref")
    return reference.removeprefix(_PREFIX) if isinstance(reference, str) else None


def _references(node: Any, *, is_map: bool = False) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from _references(each)
    elif isinstance(node, dict):
        name = None if is_map else _referred(node)
        if name is not None:
            yield name
        for key, value in node.items():
            if is_map or key not in _VALUES:
                yield from _references(value, is_map=not is_map and key in MAPS)
