"""The cost of a schema: its size, and the number of evaluations for an instance of a given depth.

Validation uses this before it compiles a schema. The cost is computed from the schema alone; nothing is evaluated or
fetched.

The number of subschemas does not suffice. Twenty definitions, each with two references to the next one, cause a million
evaluations (2 ** 20), and a recursive ``anyOf`` multiplies them with every level of the instance. The cost counts both.

Source: MCP 2026-07-28, basic/index, "JSON Schema Usage" (bound depth, subschemas and time; never fetch a ``$ref``);
JSON Schema 2020-12 core, sections 8.2 and 10; draft-07 core, section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import orjson
from attrs import define, field, frozen

__all__ = ["SchemaCost", "SchemaLimits"]

_APPLIES_TO = {
    **dict.fromkeys(("not", "if", "then", "else", "contentSchema", "allOf", "anyOf", "oneOf"), "here"),
    **dict.fromkeys(("dependentSchemas", "dependencies"), "here"),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "propertyNames"), "member"),
    **dict.fromkeys(("properties", "patternProperties"), "member"),
    **dict.fromkeys(("prefixItems", "items", "additionalItems", "unevaluatedItems", "contains"), "item"),
    **dict.fromkeys(("$defs", "definitions"), "store"),
}
"""The instances to which the subschemas of a keyword apply: the same instance, a member of an object, an item of an
array, or (``store``) none unless there is a reference."""
_MAPS = frozenset({"dependentSchemas", "dependencies", "properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose values map names to subschemas."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_CHAIN_LENGTH = 256
"""References and combinators that may follow each other for the same instance."""


@frozen(kw_only=True)
class SchemaLimits:
    """The limits on schemas of unknown origin, and on their instances."""

    depth: int = 64
    """Levels of nesting in the schema as JSON."""
    subschemas: int = 2_000
    bytes: int = 256 * 1024
    """Size of the schema as JSON."""
    instance_depth: int = 128
    """Levels of nesting in an instance; the limit of the validator is 255."""
    evaluations: int = 20_000_000
    """Estimated evaluations for one instance: at most about a quarter of a second."""


@define(eq=False)
class _Node:
    """A subschema, with the subschemas that the validator evaluates after it: for the same instance, for its members
    and for its items."""

    here: list[_Node] = field(factory=list)
    members: list[_Node] = field(factory=list)
    items: list[_Node] = field(factory=list)


class _EvaluationCounter:
    """Counts the evaluations of each node for one value, from the counts for values that are one level less deep.

    Members of an object and items of an array are counted separately, because a value has only one of the two.
    """

    def __init__(self, max_count: int, previous: dict[int, int] | None) -> None:
        self._max = max_count
        self._previous = previous
        self._pairs: dict[int, tuple[int, int]] = {}
        self._chain: set[int] = set()

    def count(self, node: _Node) -> tuple[int, int]:
        key = id(node)
        if key in self._pairs:
            return self._pairs[key]
        if key in self._chain:
            return 0, 0  # a circular reference, at which the validator stops too
        if len(self._chain) >= _MAX_CHAIN_LENGTH:
            raise ValueError(
                f"schema: more than {_MAX_CHAIN_LENGTH} references and combinators lead from one to the next"
            )
        if self._previous is None:
            members = items = 1
        else:
            members = max((self._previous[id(child)] for child in node.members), default=0)
            items = max((self._previous[id(child)] for child in node.items), default=0)
        self._chain.add(key)
        for other in node.here:
            more_members, more_items = self.count(other)
            members, items = members + more_members, items + more_items
        self._chain.discard(key)
        # Capped, because the numbers grow exponentially with the depth.
        self._pairs[key] = min(members, self._max), min(items, self._max)
        return self._pairs[key]


class SchemaCost:
    """The cost of a schema that is within its limits.

    Args:
        schema: Any JSON object.
        ref_overrides: Whether keywords next to ``$ref`` are ignored, as up to draft-07.

    Raises:
        ValueError: The schema exceeds a limit, is not JSON, or refers to another document.
    """

    def __init__(self, schema: Mapping[str, Any], limits: SchemaLimits, *, ref_overrides: bool = False) -> None:
        self._subschemas = limits.subschemas
        self._max = limits.evaluations + 1
        self._ref_overrides = ref_overrides
        _check_size(schema, limits)
        self._document = schema
        self._nodes: dict[int, _Node] = {}
        self._resources: dict[str, Any] = {}
        self._anchors: dict[str, list[Any]] = {}
        self._bases: dict[int, str] = {}
        self._index(schema)
        self._root = self._build(schema)
        self._levels: list[int] = []
        self._costs: dict[int, int] | None = None
        self.at_depth(0)  # raises for a chain that is too long, which should not happen in a call

    def at_depth(self, depth: int) -> int:
        """Return the evaluations for one value ``depth`` levels below the root, at most the limit plus one."""
        # A level is computed when an instance needs it, because most instances are flat.
        while len(self._levels) <= depth:
            counter = _EvaluationCounter(self._max, self._costs)
            self._costs = {id(node): max(counter.count(node)) for node in self._nodes.values()}
            self._levels.append(self._costs[id(self._root)])
        return self._levels[depth]

    def _index(self, schema: Any) -> None:
        """Record every ``$id`` and anchor, and the base URI of every subschema."""
        dialect = schema.get("$schema")
        queue: list[tuple[Any, str]] = [(schema, "")]
        self._resources[""] = schema
        while queue:
            subschema, base = queue.pop()
            if not isinstance(subschema, Mapping):
                continue
            identifier = subschema.get("$id")
            if isinstance(identifier, str) and not (self._ref_overrides and "$ref" in subschema):
                if identifier.startswith("#"):  # an anchor, in draft-07
                    self._anchors.setdefault(f"{base}{identifier}", []).append(subschema)
                else:
                    base = urldefrag(urljoin(base, identifier)).url
                    self._resources[base] = subschema
            if subschema.get("$schema", dialect) != dialect:
                raise ValueError(
                    "schema: expected the dialect of the whole schema in all subschemas, got another `$schema`"
                )
            self._bases[id(subschema)] = base
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := subschema.get(keyword), str):
                    self._anchors.setdefault(f"{base}#{name}", []).append(subschema)
                    if keyword == "$dynamicAnchor":
                        self._anchors.setdefault(f"dynamic#{name}", []).append(subschema)
            queue.extend((child, base) for _, child in _children(subschema))

    def _build(self, schema: Any) -> _Node:
        root = self._nodes[id(schema)] = _Node()
        queue = [(schema, root)]
        while queue:
            subschema, node = queue.pop()
            if len(self._nodes) > self._subschemas:
                raise ValueError(f"schema: expected at most {self._subschemas} subschemas, got more")
            if not isinstance(subschema, Mapping):
                continue
            edges = [(applies_to, child) for applies_to, child in _children(subschema)]
            if self._ref_overrides and "$ref" in subschema:
                # Keywords next to $ref are ignored, but definitions there can be the target of a reference.
                edges = [(applies_to, child) for applies_to, child in edges if applies_to == "store"]
            edges.extend(("here", target) for target in self._targets(subschema))
            for applies_to, child in edges:
                # A schema that is written in Python may use one object in several places. It is one subschema.
                key = id(child)
                if isinstance(child, Mapping) and key in self._nodes:
                    other = self._nodes[key]
                else:
                    other = _Node()
                    # True and False are single objects in Python, but each use is a subschema of its own.
                    self._nodes[key if isinstance(child, Mapping) else id(other)] = other
                    queue.append((child, other))
                if applies_to != "store":
                    {"here": node.here, "member": node.members, "item": node.items}[applies_to].append(other)
        return root

    def _targets(self, subschema: Mapping[str, Any]) -> Iterator[Any]:
        base = self._bases.get(id(subschema), "")
        for keyword in _REFERENCES:
            reference = subschema.get(keyword)
            if not isinstance(reference, str):
                continue
            target = self._resolve(base, reference)
            if target is _MISSING:
                raise ValueError(
                    f"schema: {keyword} {reference[:200]!r} leads out of the schema; nothing is ever fetched"
                )
            yield target
            if keyword == "$dynamicRef":
                # The target depends on the evaluation path, so all candidates are counted.
                yield from self._anchors.get(f"dynamic#{urldefrag(reference).fragment}", ())

    def _resolve(self, base: str, reference: str) -> Any:
        url, fragment = urldefrag(urljoin(base, reference)) if not reference.startswith("#") else (base, reference[1:])
        resource = self._resources.get(url, _MISSING)
        if resource is _MISSING:
            return _MISSING
        if fragment and not fragment.startswith("/"):
            return next(iter(self._anchors.get(f"{url}#{fragment}", ())), _MISSING)
        target = resource
        for token in unquote(fragment).split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and token in target:
                target = target[token]
            elif isinstance(target, list) and token.isdecimal() and int(token) < len(target):
                target = target[int(token)]
            else:
                return _MISSING
            if isinstance(target, Mapping) and id(target) not in self._bases:
                self._bases[id(target)] = url
        return target


_MISSING: Any = object()


def _children(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the subschemas of a schema, each with the instance to which it applies."""
    for keyword, value in schema.items():
        if (applies_to := _APPLIES_TO.get(keyword)) is None:
            continue
        if keyword in _MAPS:
            parts: Iterable[Any] = value.values() if isinstance(value, Mapping) else ()
        else:
            parts = value if isinstance(value, list) else (value,)
        yield from ((applies_to, part) for part in parts)


def _check_size(schema: Any, limits: SchemaLimits) -> None:
    level: list[Any] = [schema]
    for _ in range(limits.depth):
        # One level at a time, up to the limit, because a schema in Python may contain itself.
        following: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                following.extend(value for value in item.values() if isinstance(value, (Mapping, list)))
            elif isinstance(item, list):
                following.extend(value for value in item if isinstance(value, (Mapping, list)))
        # Each item takes at least one byte, so the schema can be refused before it is encoded.
        if len(following) > limits.bytes:
            raise ValueError(f"schema: expected at most {limits.bytes} bytes, got more")
        if not following:
            break
        level = following
    else:
        raise ValueError(f"schema: expected at most {limits.depth} levels of nesting, got more")
    try:
        size = len(orjson.dumps(schema))
    except orjson.JSONEncodeError as error:
        raise ValueError(f"schema: expected JSON, got something else: {error}") from error
    if size > limits.bytes:
        raise ValueError(f"schema: expected at most {limits.bytes} bytes, got {size}")
