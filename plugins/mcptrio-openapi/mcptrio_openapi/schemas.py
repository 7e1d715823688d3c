"""Converts schemas of a document to self-contained JSON Schema 2020-12, for requests or for responses.

One converter for each tool and direction. Only known and well-formed keywords are kept, and levels, subschemas and
bytes are bounded.

- A request's schema keeps its rules, so that a model learns of a mistake before the API does; ``readOnly`` fields are
  dropped.
- A response's schema keeps only its shape (types, names, descriptions): APIs often break their own rules, and refusing
  the result of a completed call helps no one. ``writeOnly`` fields are dropped.
- ``oneOf`` becomes ``anyOf``: alternatives in documents overlap, and some models know only ``anyOf``.
- A list of types and ``nullable`` become ``anyOf`` too.

Source: OpenAPI 3.0.4, "Schema Object"; OpenAPI 3.1.1, "Schema Object"; JSON Schema 2020-12 core and validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import floor
from typing import Any

import orjson

from .definitions import Definitions
from .documents import Document
from .keywords import (
    ANNOTATIONS,
    ARRAYS,
    MAPS,
    OF_TYPE,
    PLAIN,
    SHAPE,
    SUBSCHEMAS,
    TYPES,
    check_plain,
)
from .patterns import is_supported
from .problems import DocumentError, DocumentProblem, join, name_kind, shorten

__all__ = ["Schemas"]

_MAX_DEPTH = 24
_MAX_SUBSCHEMAS = 1500
_SAMPLE_BYTES = 300
_ENUM_BYTES = 16_000
_COMPONENT = re.compile(r"#/components/schemas/(?P<name>[^/]+)\Z")


class Schemas:
    """Converts the schemas of one tool in one direction.

    Args:
        sending: for requests; otherwise for responses.
        most_text: maximum characters of a description.
        problems: gets the omitted patterns.
    """

    def __init__(self, document: Document, *, sending: bool, most_text: int, problems: list[DocumentProblem]) -> None:
        self._document = document
        self._sending = sending
        self._most_text = most_text
        self._problems = problems
        self._count = 0
        self._definitions = Definitions()

    def convert(self, schema: Any, pointer: str) -> dict[str, Any]:
        """A schema, whose references lead to definitions that :meth:`finish` adds.

        Raises:
            Misfit: something in it is wrong, or it is too large.
        """
        converted = self._convert(schema, pointer, 0)
        while (pending := self._definitions.next()) is not None:
            name, target, where = pending
            self._definitions.put(name, self._convert(target, where, 0))
        return converted

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The whole schema, with ``$defs`` for parts that are used twice or contain themselves."""
        return self._definitions.finish(schema)

    def root(self, schema: Any, pointer: str) -> tuple[Any, str]:
        """A schema without the references that stand for it as a whole.

        Raises:
            Misfit: they lead nowhere, out, or in a circle.
        """
        return self._document.follow(schema, pointer)

    def _convert(self, schema: Any, pointer: str, depth: int) -> dict[str, Any]:
        self._count += 1
        if self._count > _MAX_SUBSCHEMAS:
            raise DocumentError(pointer, f"expected at most {_MAX_SUBSCHEMAS} subschemas for one operation, got more")
        if depth > _MAX_DEPTH:
            raise DocumentError(pointer, f"expected at most {_MAX_DEPTH} levels of nesting, got more")
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if not isinstance(schema, Mapping):
            raise DocumentError(pointer, f"expected a schema, got {name_kind(schema)}")
        if "$ref" in schema:
            return self._reference(schema, pointer, depth)
        out: dict[str, Any] = {}
        for keyword, value in schema.items():
            if keyword in _SPECIAL:
                continue
            where = join(pointer, keyword)
            if keyword in ANNOTATIONS:
                self._annotate(out, keyword, value, where)
            elif not self._sending and keyword not in SHAPE:
                continue
            elif keyword in PLAIN:
                check_plain(keyword, value, where)
                if keyword == "pattern" and not is_supported(value):
                    text = "this pattern is too large, or needs look-around or back-references"
                    self._problems.append(DocumentProblem(pointer=where, text=text, lost="the pattern"))
                    continue
                out[keyword] = value
            elif keyword in SUBSCHEMAS:
                self._subschema(out, keyword, value, where, depth)
            elif keyword in ARRAYS:
                self._alternatives(out, keyword, value, where, depth)
            elif keyword in MAPS:
                self._members(out, keyword, value, where, depth)
        self._bound(out, schema, pointer)
        return self._typed(out, schema, pointer)

    def _reference(self, schema: Mapping[str, Any], pointer: str, depth: int) -> dict[str, Any]:
        target, where = self._document.at(schema["$ref"], pointer)
        target, where = self._document.follow(target, where) if _is_bare(target) else (target, where)
        match = _COMPONENT.match(where)
        text = match["name"].replace("~1", "/").replace("~0", "~") if match else where
        out: dict[str, Any] = {"$ref": self._definitions.refer(where, text, target)}
        if self._document.minor:
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            if beside and (more := self._convert(beside, pointer, depth + 1)):
                if set(more) <= ANNOTATIONS:
                    return {**out, **more}
                return {"allOf": [out, more]}
        elif schema.get("nullable") is True:
            return {"anyOf": [out, {"type": "null"}]}
        return out

    def _annotate(self, out: dict[str, Any], keyword: str, value: Any, where: str) -> None:
        """Add an annotation; an invalid one is dropped, because nothing depends on it."""
        if keyword in ("title", "description"):
            if isinstance(value, str) and value.strip():
                out[keyword] = shorten(value, self._most_text if keyword == "description" else 100)
        elif keyword == "deprecated":
            if value is True:
                out[keyword] = True
        elif keyword == "examples":
            if self._sending and isinstance(value, list):
                kept = [each for each in value[:3] if _size(each) <= _SAMPLE_BYTES]
                if kept:
                    out[keyword] = kept
        elif keyword == "example":
            if self._sending and _size(value) <= _SAMPLE_BYTES:
                out.setdefault("examples", [value])
        elif keyword == "default" and self._sending and _size(value) <= _SAMPLE_BYTES:
            out[keyword] = value

    def _subschema(self, out: dict[str, Any], keyword: str, value: Any, where: str, depth: int) -> None:
        if keyword == "items" and isinstance(value, list):
            out["prefixItems"] = [self._convert(each, join(where, at), depth + 1) for at, each in enumerate(value)]
            return
        if keyword == "additionalProperties" and isinstance(value, bool):
            if self._sending and not value:
                out[keyword] = False
            return
        out[keyword] = self._convert(value, where, depth + 1)

    def _alternatives(self, out: dict[str, Any], keyword: str, value: Any, where: str, depth: int) -> None:
        if not isinstance(value, list) or not value:
            raise DocumentError(
                where, f"expected an array of schemas, got {name_kind(value) if value != [] else 'none'}"
            )
        converted = [self._convert(each, join(where, at), depth + 1) for at, each in enumerate(value)]
        if keyword == "oneOf":
            keyword = "anyOf"
        if keyword in out:
            out.setdefault("allOf", []).append({keyword: converted})
        elif keyword == "allOf":
            out["allOf"] = [*converted, *out.get("allOf", ())]
        else:
            out[keyword] = converted

    def _members(self, out: dict[str, Any], keyword: str, value: Any, where: str, depth: int) -> None:
        if not isinstance(value, Mapping):
            raise DocumentError(where, f"expected an object, got {name_kind(value)}")
        members: dict[str, Any] = {}
        for name, each in value.items():
            place = join(where, name)
            if keyword == "properties" and self._is_hidden(each, place):
                continue
            if keyword == "patternProperties" and not is_supported(name):
                text = "this pattern is too large, or needs look-around or back-references"
                self._problems.append(DocumentProblem(pointer=place, text=text, lost="the pattern"))
                continue
            members[name] = self._convert(each, place, depth + 1)
        out[keyword] = members

    def _is_hidden(self, schema: Any, pointer: str) -> bool:
        """Whether a field does not exist in this direction."""
        keyword = "readOnly" if self._sending else "writeOnly"
        if isinstance(schema, Mapping) and schema.get(keyword) is True:
            return True
        target, _ = self._document.follow(schema, pointer)
        return isinstance(target, Mapping) and target.get(keyword) is True

    def _bound(self, out: dict[str, Any], schema: Mapping[str, Any], pointer: str) -> None:
        """Convert ``required`` (without hidden members) and the exclusive bounds, which were booleans in 3.0."""
        if not self._sending:
            return
        if (required := schema.get("required")) is not None:
            where = join(pointer, "required")
            if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
                raise DocumentError(where, f"expected an array of names, got {name_kind(required)}")
            declared = schema.get("properties")
            known = declared if isinstance(declared, Mapping) else {}
            kept = [name for name in required if name not in known or name in out.get("properties", {})]
            if kept:
                out["required"] = list(dict.fromkeys(kept))
        is_integer = schema.get("type") == "integer"
        for keyword, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if keyword not in schema:
                continue
            limit = schema[keyword]
            if isinstance(limit, bool):
                limit = out.pop(inclusive, None) if limit else None
            elif not isinstance(limit, int | float):
                raise DocumentError(join(pointer, keyword), f"expected a number, got {name_kind(limit)}")
            if limit is None:
                continue
            if is_integer:
                bound = floor(limit) + 1 if step > 0 else -floor(-limit) - 1
                both = (bound, out.get(inclusive, bound))
                out[inclusive] = max(both) if step > 0 else min(both)
            else:
                out[keyword] = limit

    def _typed(self, out: dict[str, Any], schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
        """Return the types, one for each alternative, with the values of each type."""
        types = _types(schema, pointer)
        nullable = schema.get("nullable") is True
        if nullable and types:
            types = list(dict.fromkeys([*types, "null"]))
        values = self._values(schema, pointer)
        if "format" in out and out["format"] == "byte":
            del out["format"]
            out["contentEncoding"] = "base64"
        if len(types) == 1:
            typed = {"type": types[0], **out}
            return {**typed, "enum": values} if values is not None else typed
        if not types:
            if values is not None:
                out["enum"] = [*values, None] if nullable and None not in values else values
            elif nullable and (set(out) - ANNOTATIONS):
                notes = {key: value for key, value in out.items() if key in ANNOTATIONS}
                rest = {key: value for key, value in out.items() if key not in ANNOTATIONS}
                return {**notes, "anyOf": [rest, {"type": "null"}]}
            return out
        notes = {key: value for key, value in out.items() if key in ANNOTATIONS}
        branches: list[dict[str, Any]] = []
        for name in types:
            branch: dict[str, Any] = {"type": name}
            if name != "null":
                own = OF_TYPE[name]
                others = frozenset().union(*(each for key, each in OF_TYPE.items() if key != name)) - own
                branch |= {key: value for key, value in out.items() if key not in notes and key not in others}
                if values is not None:
                    branch["enum"] = [value for value in values if _is_of(value, name)]
                    if not branch["enum"]:
                        continue
            branches.append(branch)
        return {**notes, "anyOf": branches} if len(branches) != 1 else {**branches[0], **notes}

    def _values(self, schema: Mapping[str, Any], pointer: str) -> list[Any] | None:
        """Return the values of ``enum`` or ``const``; ``None`` if there are none, or they do not count."""
        if not self._sending or not ("enum" in schema or "const" in schema):
            return None
        values = schema.get("enum", [schema.get("const")])
        if not isinstance(values, list) or not values:
            raise DocumentError(join(pointer, "enum"), f"expected an array of values, got {name_kind(values)}")
        if _size(values) > _ENUM_BYTES:
            text = f"expected values of at most {_ENUM_BYTES} bytes, got more"
            self._problems.append(DocumentProblem(pointer=join(pointer, "enum"), text=text, lost="the list of values"))
            return None
        unique = {orjson.dumps(value): value for value in values}
        return list(unique.values())


_SPECIAL = frozenset({"type", "nullable", "enum", "const", "required", "exclusiveMinimum", "exclusiveMaximum"})


def _types(schema: Mapping[str, Any], pointer: str) -> list[str]:
    given = schema.get("type")
    if given is None:
        return []
    names = given if isinstance(given, list) else [given]
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            raise DocumentError(join(pointer, "type"), f"expected one of {', '.join(TYPES)}, got {name_kind(name)}")
    return list(dict.fromkeys(names))


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    kinds: dict[str, Any] = {"string": str, "number": int | float, "array": list, "object": dict, "null": type(None)}
    return name in kinds and isinstance(value, kinds[name])


def _is_bare(schema: Any) -> bool:
    """Whether it only stands for another one."""
    return isinstance(schema, Mapping) and set(schema) == {"$ref"}


def _size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # JSONEncodeError, among others for nesting
        return 1 << 30
