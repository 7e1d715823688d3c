"""One-line errors about JSON values: ``expected an integer at `after`, got "x"``.

Used for all values of a peer: arguments, elicitation answers, schemas. A message states the expected value, the place
and the actual value. It is short: long values are cut, and objects and arrays are only named.

Source: the messages of msgspec 0.20+ ("Expected `int`, got `str` - at `$.after`"), which are translated here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mcptrio.errors import InvalidParams
from mcptrio.ground.suggestions import suggest
from mcptrio.protocol.revisions.mismatch import show_place, show_value
from mcptrio.schema.anchors import remove_anchors

__all__ = ["describe_mismatch", "name_type", "place_of", "show_value"]

_NOUNS = {
    "int": "an integer",
    "integer": "an integer",
    "str": "a string",
    "string": "a string",
    "float": "a number",
    "number": "a number",
    "bool": "a boolean",
    "boolean": "a boolean",
    "null": "null",
    "array": "an array",
    "object": "an object",
    "bytes": "a Base64 string",
    "datetime": "a date and time (RFC 3339)",
    "date": "a date (YYYY-MM-DD)",
    "time": "a time",
    "duration": "a duration (ISO 8601)",
    "uuid": "a UUID",
    "decimal": "a decimal number",
    "any": "any value",
}
_LOCATED = re.compile(r"(?P<text>.*?)(?: - at (?P<key>`key` in )?`(?P<path>\$.*)`)?\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<type>[^`]*)`(?P<limit>.*?)(?:, got (?P<got>[^,]*))?\Z", re.DOTALL)
_FIELD = re.compile(r"Object (?P<kind>missing required|contains unknown) field `(?P<name>.*)`\Z", re.DOTALL)
_INVALID = re.compile(r"Invalid (?P<what>RFC3339 encoded )?(?P<type>[A-Za-z0-9]+)\b(?: string)?\Z")
_SEGMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


def describe_mismatch(error: msgspec.ValidationError, value: Any, schema: Mapping[str, Any]) -> InvalidParams:
    """Translate an error of msgspec.

    Args:
        value: The JSON value that msgspec has refused.
        schema: The schema of ``value``, for the choices of an enumeration and the known names of an object.
    """
    located = _LOCATED.match(str(error))
    assert located is not None  # every part of the pattern is optional
    text, path, is_key = located["text"], located["path"] or "$", bool(located["key"])
    is_found, part, expected = _follow(path, value, schema)
    where = f" in a key{show_place(_clip(path))}" if is_key else show_place(_clip(path))
    got = "" if is_key or not is_found else f", got {show_value(part)}"
    if field := _FIELD.match(text):
        noun = "argument" if path == "$" else "field"
        known = tuple(expected.get("properties", ()))
        name = _clip(field["name"])
        if field["kind"] == "missing required":
            return InvalidParams(f"missing required {noun} `{name}`{where}")
        return InvalidParams(f"unknown {noun} `{name}`{where}{suggest(field['name'], known)}")
    if text.startswith("Invalid enum value"):
        choices = expected.get("enum") or [option.get("const") for option in expected.get("oneOf", ())]
        expected_values = f"one of {_join(map(show_value, choices[:20]))}" if choices else "one of the allowed values"
        return InvalidParams(f"expected {expected_values}{where}{got}")
    if match := _EXPECTED.match(text):
        limit = remove_anchors(match["limit"].replace("that's ", "that is "))
        if " length " in limit and not is_key:
            # The length is shown instead of the value, which may be long.
            got = f", got length {len(part)}" if is_found and hasattr(part, "__len__") else ""
        if is_found and isinstance(part, float) and part.is_integer() and "int" in match["type"].split(" | "):
            got += ", which is beyond 2**53 and may be rounded"
        return InvalidParams(f"expected {name_type(match['type'])}{limit}{where}{got}")
    if (match := _INVALID.match(text)) and match["type"].lower() in _NOUNS:
        return InvalidParams(f"expected {_NOUNS[match['type'].lower()]}{where}{got}")
    return InvalidParams(f"{_clip(text, 400)}{where}{got}")


def name_type(names: str) -> str:
    """Return a description of types: ``an integer or null`` for ``int | null``."""
    return _join([_NOUNS.get(name.strip(), name.strip()) for name in names.split("|")])


def place_of(steps: Iterable[str | int]) -> str:
    """Return the place of a value for an error message; see :func:`mcptrio.protocol.revisions.mismatch.show_place`."""
    text = "$"
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _SEGMENT.match(step):
            text += f".{step}"
        else:
            text += f"[{json.dumps(step)}]"
        if len(text) > 200:
            return show_place(f"{text[:200]}…")
    return show_place(text)


def _join(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} or {last}" if head else last


def _clip(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _follow(path: str, value: Any, schema: Mapping[str, Any]) -> tuple[bool, Any, Mapping[str, Any]]:
    """Follow a path of msgspec through a value and its schema.

    msgspec does not quote names, so the longest key that matches is taken: a name may contain a dot.

    Returns:
        Whether the path was found, the value at its end, and the schema at its end.
    """
    root, rest = schema, path[1:]
    schema = _dereference(schema, root)
    while rest:
        if rest.startswith("["):
            index, _, rest = rest[1:].partition("]")
            if not index.isdigit() or not isinstance(value, (list, tuple)) or int(index) >= len(value):
                return False, None, {}
            value = value[int(index)]
            prefix = schema.get("prefixItems", ())
            schema = prefix[int(index)] if int(index) < len(prefix) else schema.get("items", {})
        else:
            keys = [key for key in value if rest.startswith(f".{key}")] if isinstance(value, dict) else []
            if not keys:
                return False, None, {}
            key = max(keys, key=len)
            value, rest = value[key], rest[len(key) + 1 :]
            schema = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
        schema = _dereference(schema, root)
    return True, value, schema


def _dereference(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a local ``$ref``, or the alternative to null, leads to; ``{}`` if that is not clear."""
    # Bounded, because a definition may refer to itself.
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            schema = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
        elif options := [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]:
            if len(options) != 1:
                return {}
            schema = options[0]
        else:
            return schema
    return {}
