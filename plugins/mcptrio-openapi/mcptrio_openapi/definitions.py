"""The targets of references in a tool's schema.

``Schemas`` fills it. A target is converted once for all references to it, so that the schema does not grow with the
number of references. A target that is used only once and does not contain itself is inlined, because not every model
follows references. Other targets are in ``$defs``.

Source: JSON Schema 2020-12 core, 8.2.3.1 and 8.2.4.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from .keywords import ANNOTATION_KEYWORDS, SCHEMA_MAP_KEYWORDS
from .names import Names

__all__ = ["Definitions"]

_PREFIX = "#/$defs/"
_MAX_DEPTH = 30
"""Maximum depth at which a target is inlined. The validator accepts at most 64 levels."""


class Definitions:
    """The definitions of one schema, converted and pending."""

    def __init__(self) -> None:
        self._names = Names(dots=True)
        self._by_pointer: dict[str, str] = {}
        self._pending: deque[tuple[str, Any, str]] = deque()
        self._schemas: dict[str, dict[str, Any]] = {}

    def reference_to(self, pointer: str, text: str, target: Any) -> str:
        """Return a reference to a part of the document, which is converted later.

        Args:
            text: The text from which the name of the definition is made.
        """
        name = self._by_pointer.get(pointer)
        if name is None:
            name, _ = self._names.assign(text.removeprefix("#/"))
            self._by_pointer[pointer] = name
            self._pending.append((name, target, pointer))
        return f"{_PREFIX}{name}"

    def next(self) -> tuple[str, Any, str] | None:
        """Return the next definition to convert: its name, its schema and its pointer."""
        return self._pending.popleft() if self._pending else None

    def add(self, name: str, schema: dict[str, Any]) -> None:
        self._schemas[name] = schema

    def finish(self, root: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the definitions that it needs."""
        uses = Counter(_references(root))
        for schema in self._schemas.values():
            uses.update(_references(schema))
        recursive = self._recursive()
        inlinable = {name for name, count in uses.items() if count == 1 and name not in recursive}
        used: set[str] = set()
        finished: dict[str, Any] = self._inline(root, inlinable, used, 0)
        definitions: dict[str, Any] = {}
        waiting = deque(sorted(used))
        while waiting:
            name = waiting.popleft()
            if name in definitions:
                continue
            more: set[str] = set()
            definitions[name] = self._inline(self._schemas[name], inlinable, more, 0)
            waiting.extend(sorted(more))
        return {**finished, "$defs": definitions} if definitions else finished

    def _inline(self, node: Any, inlinable: set[str], used: set[str], depth: int, *, is_map: bool = False) -> Any:
        if isinstance(node, list):
            return [self._inline(each, inlinable, used, depth + 1) for each in node]
        if not isinstance(node, dict):
            return node
        name = None if is_map else _referenced_name(node)
        if name is None:
            return {
                key: value
                if not is_map and key in _DATA_KEYWORDS
                else self._inline(value, inlinable, used, depth + 1, is_map=not is_map and key in SCHEMA_MAP_KEYWORDS)
                for key, value in node.items()
            }
        if name not in inlinable or depth > _MAX_DEPTH:
            used.add(name)
            return node
        target: dict[str, Any] = self._inline(self._schemas[name], inlinable, used, depth)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**target, **beside}

    def _recursive(self) -> set[str]:
        """Return the definitions that contain themselves.

        These are found with Tarjan's algorithm for strongly connected components, without recursion.
        """
        edges = {name: sorted(set(_references(schema))) for name, schema in self._schemas.items()}
        order: dict[str, int] = {}
        low: dict[str, int] = {}
        path: list[str] = []
        on_path: set[str] = set()
        recursive: set[str] = set()
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
                        recursive.update(component)
        return recursive


_DATA_KEYWORDS = frozenset({"enum", "const", "required", *ANNOTATION_KEYWORDS})
"""Keywords whose values are data, which may look like a reference. A property may have one of these names, too."""


def _referenced_name(schema: dict[str, Any]) -> str | None:
    """Return the name of the definition that a schema refers to; ``None`` if it is not a reference."""
    reference = schema.get("$ref")
    return reference.removeprefix(_PREFIX) if isinstance(reference, str) else None


def _references(node: Any, *, is_map: bool = False) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from _references(each)
    elif isinstance(node, dict):
        name = None if is_map else _referenced_name(node)
        if name is not None:
            yield name
        for key, value in node.items():
            if is_map or key not in _DATA_KEYWORDS:
                yield from _references(value, is_map=not is_map and key in SCHEMA_MAP_KEYWORDS)
