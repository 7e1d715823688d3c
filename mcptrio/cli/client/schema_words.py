"""Describes a schema in a few words: ``a|b``, ``an integer (1 to 10)``.

Used for lists, arguments, completions and errors. Time and output are limited for every schema: references are
followed a few times, and only the first few alternatives count.

Source: JSON Schema 2020-12, core and validation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcptrio.ground.quoting import printable
from mcptrio.schema.validation_messages import name_type

__all__ = [
    "alternatives",
    "choices",
    "describe",
    "items_of",
    "kind_of",
    "kinds",
    "properties",
    "required",
    "signature",
    "word",
    "words_of",
]

_COMBINING_KEYWORDS = ("$ref", "anyOf", "oneOf", "allOf")
_LIMIT_WORDS = (("exclusiveMinimum", "above"), ("exclusiveMaximum", "below"), ("multipleOf", "a multiple of"))
_MAX_REFERENCE_STEPS = 16
_MAX_ALTERNATIVES = 32
_MAX_LEVELS = 3
"""Levels of ``allOf`` that are followed."""
_MAX_SUBSCHEMAS = 300
"""Subschemas that are examined for one value."""
_MAX_ARGUMENTS = 40
"""Arguments of a tool that its signature shows."""
_MAX_NAMED_CHOICES = 8
"""Choices that are named."""
_MAX_CHOICE_CHARS = 40
"""Characters of one choice."""

JSONSchema = Mapping[str, Any]


def alternatives(schema: Any, root: JSONSchema) -> list[JSONSchema]:
    """Return the alternatives of a value as schemas without references and choices."""
    return _alternatives(schema, root, iter(range(_MAX_SUBSCHEMAS)), _MAX_LEVELS)


def _alternatives(schema: Any, root: JSONSchema, steps: Iterator[int], levels: int) -> list[JSONSchema]:
    schemas: list[JSONSchema] = []
    queue: list[Any] = [schema]
    # Schemas come from servers: a reference to the schema itself has no end.
    while queue and next(steps, None) is not None:
        each = queue.pop(0)
        if not isinstance(each, Mapping):
            # A boolean schema (2020-12, Core 4.3.2) has no words to show.
            schemas.append({})
            continue
        rest = {keyword: value for keyword, value in each.items() if keyword not in _COMBINING_KEYWORDS}
        options, together = each.get("anyOf") or each.get("oneOf"), each.get("allOf")
        if isinstance(each.get("$ref"), str):
            target = _resolve_reference(each["$ref"], root)
            # Other keywords next to a reference apply too (JSON Schema 2020-12).
            queue.insert(0, {**target, **rest} if isinstance(target, Mapping) else {})
        elif isinstance(options, list) and all(isinstance(option, Mapping) for option in options):
            # Keywords next to a choice, such as a description or a default, apply to each alternative.
            queue[:0] = [{**rest, **option} for option in options[:_MAX_ALTERNATIVES]]
        elif isinstance(together, list) and together and levels:
            parts = [_alternatives(part, root, steps, levels - 1)[0] for part in together[:_MAX_ALTERNATIVES]]
            schemas.append(_merge_all_of([rest, *parts]))
        else:
            schemas.append(each)
    return schemas[:_MAX_ALTERNATIVES] or [{}]


def kinds(schema: Any, root: JSONSchema) -> set[str]:
    """Return the JSON types that a value may have; empty if any type is allowed."""
    types: set[str] = set()
    for each in alternatives(schema, root):
        keyword = each.get("type")
        if isinstance(keyword, str):
            types.add(keyword)
        elif isinstance(keyword, list):
            types.update(name for name in keyword if isinstance(name, str))
        elif (values := _constants(each)) is not None:
            types.update(kind_of(value) for value in values)
        # Many object schemas declare properties and no type.
        elif "properties" in each:
            types.add("object")
        else:
            # One alternative of unknown type admits any value, whatever the others say.
            return set()
    return types


def choices(schema: Any, root: JSONSchema) -> list[Any] | None:
    """Return the values to choose from; ``None`` if other values are allowed."""
    allowed: list[Any] = []
    for each in alternatives(schema, root):
        values = _constants(each)
        if values is None:
            if each.get("type") == "null":
                values = [None]
            elif each.get("type") == "boolean":
                values = [True, False]
            else:
                return None
        # Booleans are not compared, because `True in [1]` is true in Python.
        allowed.extend(value for value in values if value not in allowed or isinstance(value, bool))
    return allowed


def properties(schema: Any, root: JSONSchema) -> dict[str, Any]:
    """Return the known members of all alternatives."""
    known: dict[str, Any] = {}
    for each in alternatives(schema, root):
        members = each.get("properties")
        if isinstance(members, Mapping):
            known.update({name: member for name, member in members.items() if name not in known})
    return known


def items_of(schema: Any, root: JSONSchema) -> Any:
    """Return the schema of the items of an array; an empty schema if there is none."""
    for each in alternatives(schema, root):
        if "items" in each:
            return each["items"]
    return {}


def required(schema: JSONSchema, root: JSONSchema) -> list[str]:
    """Return the required members, if there is only one alternative."""
    # With several alternatives, a member that one of them requires is optional.
    schemas = alternatives(schema, root)
    names = schemas[0].get("required") if len(schemas) == 1 else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def word(schema: Any, root: JSONSchema) -> str:
    """Return the type in one word: ``integer``, ``a|b``, ``string…`` for an array of strings."""
    values = choices(schema, root)
    if values is not None and not _is_type_enough(values):
        texts = [printable(each)[:_MAX_CHOICE_CHARS] for each in words_of(values[:_MAX_NAMED_CHOICES])]
        return "|".join(texts) + ("|…" if len(values) > _MAX_NAMED_CHOICES else "")
    types = kinds(schema, root)
    if types == {"array"}:
        items = kinds(items_of(schema, root), root)
        return f"{'|'.join(sorted(items, key=_rank)) or 'value'}…"
    return "|".join(sorted(types, key=_rank)) or "value"


def describe(schema: Any, root: JSONSchema) -> str:
    """Return the expected value: ``an integer (1 to 10)``, ``one of "a", "b"``."""
    values = choices(schema, root)
    if values is not None and not _is_type_enough(values):
        names = ", ".join(
            printable(json.dumps(value, ensure_ascii=False))[:_MAX_CHOICE_CHARS]
            for value in values[:_MAX_NAMED_CHOICES]
        )
        return f"one of {names}" + (", …" if len(values) > _MAX_NAMED_CHOICES else "")
    schemas = alternatives(schema, root)
    types = kinds(schema, root)
    if not types:
        return "any value"
    text = name_type(" | ".join(sorted(types, key=_rank)))
    if types == {"array"}:
        items = kinds(items_of(schema, root), root)
        text = f"an array of {next(iter(items))}s" if len(items) == 1 else text
    # The limits of one of several alternatives would seem to apply to all.
    limits = _describe_limits(schemas[0]) if len([each for each in schemas if each.get("type") != "null"]) == 1 else ""
    return f"{text} ({limits})" if limits else text


def signature(name: str, schema: JSONSchema) -> str:
    """Return a tool's name and arguments, optional ones in brackets."""
    needed = required(schema, schema)
    parts = [printable(name)]
    known = properties(schema, schema)
    for key, member in list(known.items())[:_MAX_ARGUMENTS]:
        part = f"{printable(key)}={word(member, schema)}"
        parts.append(part if key in needed else f"[{part}]")
    return " ".join([*parts, "…"] if len(known) > _MAX_ARGUMENTS else parts)


def words_of(values: Sequence[Any]) -> list[str]:
    """Return values as a user types them: strings unchanged, others as JSON."""
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


_ORDER = ["string", "integer", "number", "boolean", "array", "object", "null"]


def _is_type_enough(values: list[Any]) -> bool:
    """Return whether all values are booleans or null, so that the name of the type describes them."""
    return all(value is None or isinstance(value, bool) for value in values)


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _resolve_reference(reference: str, root: JSONSchema) -> Any:
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        # A reference to another document is not followed: a server could make the client fetch any URL.
        return None
    target: Any = root
    for step in reference[2:].split("/")[:_MAX_REFERENCE_STEPS]:
        # ~1 first: in the other order, ~01 would become a slash (RFC 6901 section 4).
        step = step.replace("~1", "/").replace("~0", "~")
        target = target.get(step) if isinstance(target, Mapping) else None
    return target


def _merge_all_of(schemas: Sequence[JSONSchema]) -> JSONSchema:
    """Merge the schemas of an ``allOf`` for a description: all members, and the first value of other keywords."""
    merged: dict[str, Any] = {}
    members: dict[str, Any] = {}
    needed: list[Any] = []
    for schema in schemas:
        if isinstance(more := schema.get("properties"), Mapping):
            members.update(more)
        if isinstance(names := schema.get("required"), list):
            needed.extend(names)
        merged = {**schema, **merged}
    return {**merged, **({"properties": members} if members else {}), **({"required": needed} if needed else {})}


def _constants(schema: JSONSchema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    # Before int, because bool is a subclass of it.
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "null"


def _describe_limits(schema: JSONSchema) -> str:
    parts = [
        *_describe_range(schema, "minimum", "maximum", ""),
        *_describe_range(schema, "minLength", "maxLength", " characters"),
        *_describe_range(schema, "minItems", "maxItems", " items"),
        *(f"{words} {schema[keyword]}" for keyword, words in _LIMIT_WORDS if _is_number(schema.get(keyword))),
    ]
    for keyword, words in (("format", "format"), ("pattern", "matching")):
        if isinstance(schema.get(keyword), str):
            parts.append(f"{words} {printable(schema[keyword])[:_MAX_CHOICE_CHARS]}")
    return ", ".join(parts)


def _describe_range(schema: JSONSchema, low: str, high: str, unit: str) -> Iterator[str]:
    least, most = schema.get(low), schema.get(high)
    if _is_number(least) and _is_number(most):
        yield f"{least} to {most}{unit}"
    elif _is_number(least):
        yield f"at least {least}{_in_number(unit, least)}"
    elif _is_number(most):
        yield f"at most {most}{_in_number(unit, most)}"


def _in_number(unit: str, number: object) -> str:
    """Return a unit in the plural, such as `` items``, in the singular if the number is 1."""
    return unit.removesuffix("s") if number == 1 else unit


def _is_number(value: Any) -> bool:
    # In Python, a boolean is an int.
    return isinstance(value, int | float) and not isinstance(value, bool)
