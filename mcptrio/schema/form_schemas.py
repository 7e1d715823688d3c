"""Makes fields from the schema of a form that a server has sent, or refuses the schema.

:mod:`mcptrio.client.forms` uses this. The schema is not trusted: the type and size of each keyword are checked.

Keywords may be missing, because older revisions have no defaults and no multiple choice. Additions of libraries are
accepted: ``"null"`` as a second type, and keywords that forms do not have. A schema that could be misunderstood as
another question is refused.

Source: MCP 2025-06-18, 2025-11-25 and 2026-07-28, client/elicitation, "Requested Schema"; schema.ts,
PrimitiveSchemaDefinition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from mcptrio.ground.quoting import quote, quote_name
from mcptrio.schema.form_fields import Choice, FieldKind, FormField
from mcptrio.schema.validation_messages import show_value

__all__ = ["ElicitationLimits", "check_text", "read_fields"]


@frozen(kw_only=True)
class ElicitationLimits:
    """Limits of a question. A larger question is refused, because cutting it would change its meaning."""

    fields: int = 100
    choices: int = 1_000
    """Choices of one field."""
    text: int = 10_000
    """Characters of one text: the message, a name, title, description, choice, default or pattern."""
    url: int = 8_000
    """Characters of a URL."""


def read_fields(schema: Mapping[str, Any], limits: ElicitationLimits) -> Iterator[FormField]:
    """Yield the fields of a form, in the server's order.

    Raises:
        ValueError: The schema is not a flat object of primitives, cannot be filled in, or exceeds a limit.
    """
    if schema.get("type", "object") != "object":
        raise ValueError(f'requestedSchema: expected the type "object", got {show_value(schema["type"])}')
    properties = {} if schema.get("properties") is None else schema["properties"]
    if not isinstance(properties, Mapping):
        raise ValueError(f"requestedSchema: expected `properties` to be an object, got {show_value(properties)}")
    if len(properties) > limits.fields:
        raise ValueError(f"requestedSchema: expected at most {limits.fields} fields, got {len(properties)}")
    required = schema.get("required") or []
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ValueError("requestedSchema: expected `required` to be an array of strings, got something else")
    names = frozenset(required)
    # The user could not enter a required value without a field.
    for name in required:
        if name not in properties:
            raise ValueError(f"requestedSchema: {quote_name(name)} is required, but is not a field")
    for name, definition in properties.items():
        try:
            check_text("name", name, limits)
            yield _read_field(name, definition, is_required=name in names, limits=limits)
        except ValueError as error:
            raise ValueError(f"field {quote_name(name)}: {error}") from error


def check_text(what: str, text: str, limits: ElicitationLimits) -> None:
    """Check the length of a text.

    Raises:
        ValueError: The text is too long; the message begins with ``what``.
    """
    if len(text) > limits.text:
        raise ValueError(f"{what}: expected at most {limits.text} characters, got {len(text)}")


def _read_field(name: str, definition: Any, *, is_required: bool, limits: ElicitationLimits) -> FormField:
    if not isinstance(definition, Mapping):
        raise ValueError(f"expected a schema, got {show_value(definition)}")
    keywords = _Definition(_without_null(definition), limits)
    kind, choices = keywords.kind()
    # `items` without choices would be a list of free texts, which forms do not have.
    if kind == "choices" and not choices:
        raise ValueError("expected choices in `items`, as `enum` or `anyOf`, got none")
    unfilled = FormField(
        name=name,
        title=keywords.text("title") or name,
        description=keywords.text("description"),
        kind=kind,
        required=is_required,
        format=keywords.text("format") if kind == "string" else None,
        pattern=keywords.text("pattern") if kind == "string" else None,
        min_length=keywords.size("minLength") if kind == "string" else None,
        max_length=keywords.size("maxLength") if kind == "string" else None,
        minimum=keywords.number("minimum") if kind in ("number", "integer") else None,
        maximum=keywords.number("maximum") if kind in ("number", "integer") else None,
        min_items=keywords.size("minItems") if kind == "choices" else None,
        max_items=keywords.size("maxItems") if kind == "choices" else None,
        choices=choices,
    )
    _check_order("minLength", unfilled.min_length, "maxLength", unfilled.max_length)
    _check_order("minimum", unfilled.minimum, "maximum", unfilled.maximum)
    _check_order("minItems", unfilled.min_items, "maxItems", unfilled.max_items)
    # The user cannot select more items than there are choices.
    _check_order("minItems", unfilled.min_items, "the choices", len(choices) if kind == "choices" else None)
    default = keywords.get("default")
    if default is None:
        return unfilled
    if isinstance(default, str):
        check_text("default", default, limits)
    try:
        checked = unfilled.check(default)
    except ValueError:
        # An invalid default is dropped, because the field is usable without it.
        return unfilled
    return attrs.evolve(unfilled, default=tuple(checked) if kind == "choices" else checked)


@frozen
class _Definition:
    """The schema of one field. A keyword whose value is null counts as absent, because some libraries write all
    keywords."""

    _keywords: Mapping[str, Any]
    _limits: ElicitationLimits

    def get(self, keyword: str) -> Any:
        return self._keywords.get(keyword)

    def kind(self) -> tuple[FieldKind, tuple[Choice, ...]]:
        kind = self.get("type")
        if kind == "array":
            items = self.get("items")
            if not isinstance(items, Mapping):
                raise ValueError(f"expected `items` to be a schema, got {show_value(items)}")
            return "choices", _Definition(_without_null(items), self._limits).choices()
        if kind in ("number", "integer", "boolean"):
            if self.get("enum") is not None:
                raise ValueError(f"expected choices that are strings, got `enum` of the type {quote(kind)}")
            return kind, ()
        # Schemas that are written by hand often have an enum without a type.
        choices = self.choices()
        if kind not in ("string", None) or (kind is None and not choices):
            got = "none" if kind is None else show_value(kind)
            raise ValueError(f"expected the type string, number, integer, boolean or array, got {got}")
        return ("choice", choices) if choices else ("string", ())

    def choices(self) -> tuple[Choice, ...]:
        # In 2025-11-25, titled choices are in oneOf, and in `items` in anyOf.
        for keyword in ("oneOf", "anyOf"):
            if self.get(keyword) is not None:
                return tuple(self._titled_choice(option) for option in self._list(keyword))
        if self.get("const") is not None:
            return (Choice(value=self._choice(self.get("const"))),)
        if self.get("enum") is None:
            return ()
        values = self._list("enum")
        # In 2025-06-18, titles are in enumNames. A choice without a title has its value as the title.
        titles = self.get("enumNames")
        titles = titles if isinstance(titles, Sequence) and not isinstance(titles, str) else ()
        choices = [Choice(value=self._choice(value)) for value in values]
        for index, title in enumerate(titles[: len(choices)]):
            choices[index] = Choice(value=choices[index].value, title=self._choice(title) or choices[index].value)
        return tuple(choices)

    def text(self, keyword: str) -> str | None:
        value = self.get(keyword)
        if value is None:
            return None
        if not isinstance(value, str):
            raise ValueError(f"expected `{keyword}` to be a string, got {show_value(value)}")
        check_text(keyword, value, self._limits)
        return value

    def number(self, keyword: str) -> float | None:
        value = self.get(keyword)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise ValueError(f"expected `{keyword}` to be a number, got {show_value(value)}")
        return value

    def size(self, keyword: str) -> int | None:
        value = self.number(keyword)
        if value is None:
            return None
        # 3.0 is accepted, because some libraries write it for 3.
        if value < 0 or value != int(value):
            raise ValueError(f"expected `{keyword}` to be a whole number that is not negative, got {show_value(value)}")
        return int(value)

    def _list(self, keyword: str) -> list[Any]:
        values = self.get(keyword)
        if not isinstance(values, list) or not 0 < len(values) <= self._limits.choices:
            got = len(values) if isinstance(values, list) else show_value(values)
            raise ValueError(f"expected `{keyword}` to be an array of 1 to {self._limits.choices} choices, got {got}")
        return values

    def _titled_choice(self, option: Any) -> Choice:
        if not isinstance(option, Mapping) or "const" not in option:
            raise ValueError(f"expected a choice with `const`, got {show_value(option)}")
        value = self._choice(option["const"])
        return Choice(value=value, title=self._choice(option.get("title") or value))

    def _choice(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected choices that are strings, got {show_value(value)}")
        check_text("a choice", value, self._limits)
        return value


def _without_null(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without "null", which libraries add to optional fields. Omitting the field means the same."""
    kind, options = definition.get("type"), definition.get("anyOf")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        return {**definition, "type": kinds[0]} if len(kinds) == 1 else definition
    if isinstance(options, list) and {"type": "null"} in options:
        others = [option for option in options if option != {"type": "null"}]
        if len(others) == 1 and isinstance(others[0], Mapping):
            return {**others[0], **{keyword: value for keyword, value in definition.items() if keyword != "anyOf"}}
    return definition


def _check_order(low: str, least: float | None, high: str, most: float | None) -> None:
    if least is not None and most is not None and least > most:
        raise ValueError(f"expected {low} to be at most {high}, got {least} and {most}")


def _is_finite(number: float) -> bool:
    return isinstance(number, int) or math.isfinite(number)
