"""A form for a tool, made from its schema, and the arguments that a browser sends with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from attrs import frozen

from .text import cut

__all__ = ["PREFIX", "ToolField", "arguments_of", "fields_of"]

PREFIX: Final = "argument."
"""The prefix of the names of the form's fields."""
_MAX_FIELDS: Final = 100
_MAX_CHOICES: Final = 200
_MAX_VALUE_CHARS: Final = 64 * 1024


@frozen
class ToolField:
    """One field of a form.

    Args:
        kind: ``text``, ``number``, ``choice`` or ``json``.
        about: The description of the parameter.
        choices: The values of a ``choice``, as JSON texts.
        value: The text that was sent with the form before.
    """

    name: str
    kind: str
    required: bool
    about: str
    choices: tuple[str, ...]
    value: str


def fields_of(schema: Mapping[str, Any], values: Mapping[str, str]) -> list[ToolField]:
    """Return the fields of a schema. A parameter of another type than text, number and choice is entered as JSON.

    Args:
        given: The values that were sent with the form before; empty for a new form.
    """
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return []
    needed = set(map(str, required)) if isinstance(required, list) else set()
    return list(_fields(properties, needed, values))


def _fields(properties: Mapping[str, Any], needed: set[str], values: Mapping[str, str]) -> Iterator[ToolField]:
    for name, schema in list(properties.items())[:_MAX_FIELDS]:
        each = schema if isinstance(schema, Mapping) else {}
        kind, choices = "json", tuple[str, ...]()
        enum = each.get("enum")
        if isinstance(enum, list) and len(enum) <= _MAX_CHOICES:
            kind, choices = "choice", tuple(orjson.dumps(value).decode() for value in enum)
        elif each.get("type") == "boolean":
            kind, choices = "choice", ("true", "false")
        elif each.get("type") == "string":
            kind = "text"
        elif each.get("type") in ("integer", "number"):
            kind = "number"
        default = each.get("default")
        about = str(each.get("description") or "")
        if default is not None:
            about = f"{about} Default: {cut(orjson.dumps(default).decode(), 100)}.".strip()
        if kind == "json":
            about = f"{about} As JSON.".strip()
        yield ToolField(name, kind, name in needed, cut(about), choices, values.get(f"{PREFIX}{name}", ""))


def arguments_of(fields: list[ToolField]) -> dict[str, Any]:
    """Return the arguments that the fields contain. An empty field that is not required is left out.

    Raises:
        ValueError: A value has the wrong type. The message names the field.
    """
    arguments: dict[str, Any] = {}
    for field in fields:
        if len(field.value) > _MAX_VALUE_CHARS:
            raise ValueError(f"{cut(field.name, 60)}: expected at most {_MAX_VALUE_CHARS} characters")
        if field.kind == "text":
            if field.value or field.required:
                arguments[field.name] = field.value
        elif field.value.strip():
            try:
                arguments[field.name] = orjson.loads(field.value)
            except orjson.JSONDecodeError:
                expected = "a number" if field.kind == "number" else "JSON"
                raise ValueError(f"{cut(field.name, 60)}: expected {expected}, got {cut(field.value, 60)}") from None
    return arguments
