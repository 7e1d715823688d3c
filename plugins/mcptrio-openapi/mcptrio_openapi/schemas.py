"""Converts schemas of a document to self-contained JSON Schema 2020-12, for requests or for responses.

Each tool has a converter for its requests and one for its responses. Only known and well-formed keywords are kept, and
the numbers of levels, subschemas and bytes are limited.

- The schema of a request keeps its constraints, so that a model learns of a mistake before the API is called.
  ``readOnly`` fields are dropped.
- The schema of a response keeps only types, names and descriptions: APIs often violate their own constraints, and the
  result of a completed call must not be refused for that. ``writeOnly`` fields are dropped.
- ``oneOf`` becomes ``anyOf``, because alternatives in documents often overlap, and some models support only ``anyOf``.
- A list of types and ``nullable`` become ``anyOf`` as well.

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
    ANNOTATION_KEYWORDS,
    KEYWORDS_BY_TYPE,
    RESPONSE_KEYWORDS,
    SCHEMA_ARRAY_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
    SIMPLE_KEYWORDS,
    SUBSCHEMA_KEYWORDS,
    TYPES,
    check_simple_keyword,
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
        sending: True for requests, False for responses.
        max_description_chars: Maximum length of a description.
        problems: A list to which problems with omitted patterns are appended.
    """

    def __init__(
        self, document: Document, *, sending: bool, max_description_chars: int, problems: list[DocumentProblem]
    ) -> None:
        self._document = document
        self._sending = sending
        self._max_description_chars = max_description_chars
        self._problems = problems
        self._count = 0
        self._definitions = Definitions()

    def convert(self, schema: Any, pointer: str) -> dict[str, Any]:
        """Convert a schema. :meth:`finish` adds the definitions to which its references lead.

        Raises:
            DocumentError: The schema is invalid or too large.
        """
        converted = self._convert(schema, pointer, 0)
        while (pending := self._definitions.next()) is not None:
            name, target, where = pending
            self._definitions.add(name, self._convert(target, where, 0))
        return converted

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the whole schema, with ``$defs`` for parts that are used twice or contain themselves."""
        return self._definitions.finish(schema)

    def root(self, schema: Any, pointer: str) -> tuple[Any, str]:
        """Return a schema, or the target of the references that stand for it as a whole.

        Raises:
            DocumentError: A reference has no target, leads out of the document, or is part of a circle.
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
            if keyword in ANNOTATION_KEYWORDS:
                self._annotate(out, keyword, value, where)
            elif not self._sending and keyword not in RESPONSE_KEYWORDS:
                continue
            elif keyword in SIMPLE_KEYWORDS:
                check_simple_keyword(keyword, value, where)
                if keyword == "pattern" and not is_supported(value):
                    text = "this pattern is too large, or needs look-around or back-references"
                    self._problems.append(DocumentProblem(pointer=where, text=text, lost="the pattern"))
                    continue
                out[keyword] = value
            elif keyword in SUBSCHEMA_KEYWORDS:
                self._convert_subschema(out, keyword, value, where, depth)
            elif keyword in SCHEMA_ARRAY_KEYWORDS:
                self._convert_array(out, keyword, value, where, depth)
            elif keyword in SCHEMA_MAP_KEYWORDS:
                self._convert_members(out, keyword, value, where, depth)
        self._convert_bounds(out, schema, pointer)
        return self._with_types(out, schema, pointer)

    def _reference(self, schema: Mapping[str, Any], pointer: str, depth: int) -> dict[str, Any]:
        target, where = self._document.at(schema["$ref"], pointer)
        target, where = self._document.follow(target, where) if _is_reference_only(target) else (target, where)
        match = _COMPONENT.match(where)
        text = match["name"].replace("~1", "/").replace("~0", "~") if match else where
        out: dict[str, Any] = {"$ref": self._definitions.reference_to(where, text, target)}
        if self._document.minor:
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            if beside and (more := self._convert(beside, pointer, depth + 1)):
                if set(more) <= ANNOTATION_KEYWORDS:
                    return {**out, **more}
                return {"allOf": [out, more]}
        elif schema.get("nullable") is True:
            return {"anyOf": [out, {"type": "null"}]}
        return out

    def _annotate(self, out: dict[str, Any], keyword: str, value: Any, where: str) -> None:
        """Add an annotation. An invalid one is dropped, because no check depends on it."""
        if keyword in ("title", "description"):
            if isinstance(value, str) and value.strip():
                out[keyword] = shorten(value, self._max_description_chars if keyword == "description" else 100)
        elif keyword == "deprecated":
            if value is True:
                out[keyword] = True
        elif keyword == "examples":
            if self._sending and isinstance(value, list):
                examples = [each for each in value[:3] if _size(each) <= _SAMPLE_BYTES]
                if examples:
                    out[keyword] = examples
        elif keyword == "example":
            if self._sending and _size(value) <= _SAMPLE_BYTES:
                out.setdefault("examples", [value])
        elif keyword == "default" and self._sending and _size(value) <= _SAMPLE_BYTES:
            out[keyword] = value

    def _convert_subschema(self, out: dict[str, Any], keyword: str, value: Any, where: str, depth: int) -> None:
        if keyword == "items" and isinstance(value, list):
            out["prefixItems"] = [self._convert(each, join(where, at), depth + 1) for at, each in enumerate(value)]
            return
        if keyword == "additionalProperties" and isinstance(value, bool):
            if self._sending and not value:
                out[keyword] = False
            return
        out[keyword] = self._convert(value, where, depth + 1)

    def _convert_array(self, out: dict[str, Any], keyword: str, value: Any, where: str, depth: int) -> None:
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

    def _convert_members(self, out: dict[str, Any], keyword: str, value: Any, where: str, depth: int) -> None:
        if not isinstance(value, Mapping):
            raise DocumentError(where, f"expected an object, got {name_kind(value)}")
        members: dict[str, Any] = {}
        for name, each in value.items():
            location = join(where, name)
            if keyword == "properties" and self._is_hidden(each, location):
                continue
            if keyword == "patternProperties" and not is_supported(name):
                text = "this pattern is too large, or needs look-around or back-references"
                self._problems.append(DocumentProblem(pointer=location, text=text, lost="the pattern"))
                continue
            members[name] = self._convert(each, location, depth + 1)
        out[keyword] = members

    def _is_hidden(self, schema: Any, pointer: str) -> bool:
        """Return whether a field does not occur in this direction."""
        keyword = "readOnly" if self._sending else "writeOnly"
        if isinstance(schema, Mapping) and schema.get(keyword) is True:
            return True
        target, _ = self._document.follow(schema, pointer)
        return isinstance(target, Mapping) and target.get(keyword) is True

    def _convert_bounds(self, out: dict[str, Any], schema: Mapping[str, Any], pointer: str) -> None:
        """Convert ``required``, without dropped fields, and the exclusive bounds, which are booleans in OpenAPI 3.0."""
        if not self._sending:
            return
        if (required := schema.get("required")) is not None:
            where = join(pointer, "required")
            if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
                raise DocumentError(where, f"expected an array of names, got {name_kind(required)}")
            declared = schema.get("properties")
            known = declared if isinstance(declared, Mapping) else {}
            required_names = [name for name in required if name not in known or name in out.get("properties", {})]
            if required_names:
                out["required"] = list(dict.fromkeys(required_names))
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

    def _with_types(self, out: dict[str, Any], schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
        """Return the schema with its types, as one alternative for each type if there are several."""
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
            elif nullable and (set(out) - ANNOTATION_KEYWORDS):
                notes = {key: value for key, value in out.items() if key in ANNOTATION_KEYWORDS}
                rest = {key: value for key, value in out.items() if key not in ANNOTATION_KEYWORDS}
                return {**notes, "anyOf": [rest, {"type": "null"}]}
            return out
        notes = {key: value for key, value in out.items() if key in ANNOTATION_KEYWORDS}
        branches: list[dict[str, Any]] = []
        for name in types:
            branch: dict[str, Any] = {"type": name}
            if name != "null":
                own = KEYWORDS_BY_TYPE[name]
                others = frozenset().union(*(each for key, each in KEYWORDS_BY_TYPE.items() if key != name)) - own
                branch |= {key: value for key, value in out.items() if key not in notes and key not in others}
                if values is not None:
                    branch["enum"] = [value for value in values if _has_type(value, name)]
                    if not branch["enum"]:
                        continue
            branches.append(branch)
        return {**notes, "anyOf": branches} if len(branches) != 1 else {**branches[0], **notes}

    def _values(self, schema: Mapping[str, Any], pointer: str) -> list[Any] | None:
        """Return the values of ``enum`` or ``const``; ``None`` if there are none, or for responses."""
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
    declared_types = schema.get("type")
    if declared_types is None:
        return []
    names = declared_types if isinstance(declared_types, list) else [declared_types]
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            raise DocumentError(join(pointer, "type"), f"expected one of {', '.join(TYPES)}, got {name_kind(name)}")
    return list(dict.fromkeys(names))


def _has_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    kinds: dict[str, Any] = {"string": str, "number": int | float, "array": list, "object": dict, "null": type(None)}
    return name in kinds and isinstance(value, kinds[name])


def _is_reference_only(schema: Any) -> bool:
    """Return whether a schema is nothing but a reference."""
    return isinstance(schema, Mapping) and set(schema) == {"$ref"}


def _size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # JSONEncodeError, among others for nesting
        return 1 << 30
