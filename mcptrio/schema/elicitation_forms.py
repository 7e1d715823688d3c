"""Elicitation forms: from the schema argument of ``ctx.elicit`` to a flat JSON Schema, and from the answer to a value.

The context uses this. An answer is validated against the schema that was sent, and then converted. A schema that a form
cannot show is refused before the user is asked.

Source: MCP 2026-07-28, client/elicitation, "Requested Schema"; schema.ts, PrimitiveSchemaDefinition.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

import attrs

from mcptrio.schema.annotations import convert, describe, restore, show_default
from mcptrio.schema.exact_values import ExactValues
from mcptrio.schema.shapes import Field, fields_of
from mcptrio.schema.validation import Validator
from mcptrio.schema.validation_messages import show_value

__all__ = ["ElicitationForm"]

_FORMATS = frozenset({"email", "uri", "date", "date-time"})
_KEYWORDS = {
    "string": frozenset({"minLength", "maxLength", "format"}),
    "number": frozenset({"minimum", "maximum"}),
    "integer": frozenset({"minimum", "maximum"}),
    "boolean": frozenset[str](),
    "array": frozenset({"minItems", "maxItems"}),
}
# Enforced when the answer comes, not shown: the page knows `pattern`, schema.ts does not; the rest is part of a type.
_QUIET = frozenset({"pattern", "uniqueItems", "$defs", "additionalProperties"})
_NOTES = ("title", "description", "default")
# More choices than a person reads; a client may show them in one menu.
_MAX_CHOICES = 1_000
# Clients show the title as the label of the field; without one they would show its name, `value`.
_SCALAR_TITLE = "Answer"


@attrs.frozen(kw_only=True, eq=False)
class ElicitationForm:
    """A form: the schema to ask with, and the way back from the answer's content."""

    schema: dict[str, Any]
    """``requestedSchema``: an object of primitive fields."""
    _restore: Callable[[dict[str, Any]], Any] = attrs.field(alias="restore")
    _validator: Validator = attrs.field(alias="validator")

    @classmethod
    def of(cls, schema: Any) -> ElicitationForm:
        """Make a form.

        Args:
            schema: A class with flat fields (attrs, dataclass, TypedDict, msgspec, pydantic); ``str``, ``int``,
                ``float``, ``bool``, a date, an ``Enum``, ``Literal[...]`` or a list of these two; a list of strings or
                a dict value -> title to choose from; or a JSON Schema, which is used unchanged.

        Raises:
            TypeError: A form cannot show a field; the message names it.
        """
        # With `properties` it is a JSON Schema; a mapping without is a table of choices.
        if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
            return _ready(dict(schema))
        if isinstance(schema, Mapping) or (isinstance(schema, Sequence) and not isinstance(schema, str)):
            return _choices(schema)
        if isinstance(schema, type) and not issubclass(schema, Enum) and fields_of(schema) is not None:
            return _of_class(schema)
        return _of_scalar(schema)

    def convert(self, content: Any) -> Any:
        """Convert the content of an answer to an instance of the class, the plain value, or the dict.

        Raises:
            InvalidParams: The answer does not fit the form; the message has the expected value, the actual one and the
                place.
        """
        self._validator.validate(content)
        return self._restore(content)


def _form(properties: dict[str, Any], required: list[str], restore: Callable[[dict[str, Any]], Any]) -> ElicitationForm:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return _checked(schema, restore)


def _checked(schema: dict[str, Any], restore: Callable[[dict[str, Any]], Any]) -> ElicitationForm:
    try:
        # With formats: the page shows `format`, so an answer that ignores it is refused.
        validator = Validator(schema, formats=True)
    except ValueError as error:
        raise TypeError(f"a form cannot ask for this: {error}") from error
    return ElicitationForm(schema=schema, restore=restore, validator=validator)


def _ready(schema: dict[str, Any]) -> ElicitationForm:
    if schema.get("type") != "object":
        raise TypeError(f'form: expected a schema of type "object", got {show_value(schema.get("type"))}')
    for name, field in schema["properties"].items():
        if not isinstance(field, Mapping):
            raise TypeError(f"field `{name}`: expected a schema, got {show_value(field)}")
        _check_kind(str(name), field)
    return _checked(schema, lambda content: content)


def _check_kind(name: str, field: Mapping[str, Any]) -> None:
    """A ready field may carry keywords we do not write, but it has to be one of the kinds a client can show."""
    kind = field.get("type")
    if kind == "array":
        items = field.get("items")
        # The specification's multi-select is an array whose items are an enum or titled constants.
        if not isinstance(items, Mapping) or not ("enum" in items or "anyOf" in items):
            raise TypeError(f"field `{name}`: a form's array is a choice of several; its items need `enum` or `anyOf`")
    elif kind not in ("string", "number", "integer", "boolean"):
        got = show_value(kind) if "type" in field else "none"
        raise TypeError(f"field `{name}`: expected the type string, number, integer, boolean or array, got {got}")


def _choices(choices: Mapping[Any, Any] | Sequence[Any]) -> ElicitationForm:
    values = list(choices)
    titles = list(choices.values()) if isinstance(choices, Mapping) else None
    for value in [*values, *(titles or ())]:
        if not isinstance(value, str):
            raise TypeError(f"field `value`: expected choices that are strings, got {show_value(value)}")
    # Two equal choices could not be distinguished in the answer.
    if not 0 < len(values) <= _MAX_CHOICES or len(set(values)) != len(values):
        raise TypeError(f"field `value`: expected 1 to {_MAX_CHOICES} different choices, got {len(values)}")
    field: dict[str, Any] = {"type": "string", "title": _SCALAR_TITLE}
    if titles is None:
        field["enum"] = values
    else:
        field["oneOf"] = [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]
    return _form({"value": field}, ["value"], lambda content: content["value"])


def _of_scalar(annotation: Any) -> ElicitationForm:
    try:
        # A form's content is always an object, so the scalar is the only field of a class.
        form = _of_class(dataclasses.make_dataclass("Form", [("value", annotation)]))
    except TypeError as error:
        message = str(error)
        raise TypeError(message if message.startswith("field ") else f"field `value`: {message}") from error
    value = {"title": _SCALAR_TITLE, **form.schema["properties"]["value"]}
    schema = {**form.schema, "properties": {"value": value}}
    return attrs.evolve(form, schema=schema, restore=lambda content: form._restore(content).value)


def _of_class(cls: Any) -> ElicitationForm:
    description = describe([cls])
    (generated,) = [each for each in description.shapes.generated.values() if each.cls is cls] or (None,)
    fields = generated.fields if generated is not None else tuple(fields_of(cls) or ())
    document = description.to_document()
    exact = ExactValues.of(document)
    is_row = "prefixItems" in document
    shown = document.get("properties", {})
    required = list(document.get("required", ()))
    if is_row:
        shown = dict(zip((field.key for field in fields), document["prefixItems"], strict=True))
        required = [field.key for field in fields if field.is_required]
    properties: dict[str, Any] = {}
    absent: dict[str, None] = {}
    for field in fields:
        schema = _with_default(shown[field.key], field)
        properties[field.key], is_optional = _field(field.name, field.hint, schema, document)
        if is_optional and field.key in required:
            required.remove(field.key)
            absent[field.key] = None
    if not properties:
        raise TypeError(f"{cls.__qualname__}: a form needs at least one field")

    def made(content: dict[str, Any]) -> Any:
        known = {key: value for key, value in content.items() if key in properties}
        given: Any = {**absent, **known}
        if is_row:  # it travels as an array; the form is by name
            given = [
                given[field.key] if field.key in given or field.default is None else field.default() for field in fields
            ]
        converted = convert(given, description.wires[0], document)
        if exact is not None:
            exact.check(given)
        return restore(description.shapes, converted, given, document)

    return _form(properties, required, made)


def _with_default(schema: Mapping[str, Any], field: Field) -> dict[str, Any]:
    """Return the schema with the field's default, also that of a factory, because a form is shown only once."""
    filled = dict(schema)
    if field.default is not None and "default" not in filled:
        show_default(filled, field.default())
    return filled


def _field(name: str, hint: Any, schema: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return one field of the form, and whether its annotation accepts None, which the form expresses by omission."""
    schema, is_optional = _flatten(name, schema, document)
    choices = _enum_in(hint)
    if schema.get("type") == "array":
        items, _ = _flatten(name, schema.get("items") or {}, document)
        field = _kept(name, schema, "array", also=frozenset({"items"}))
        field["items"] = _shown_choices(name, items, choices, is_multiple=True)
        return field, is_optional
    if "enum" in schema or "const" in schema:
        field = {"type": "string", **_shown_choices(name, schema, choices, is_multiple=False)}
        field.update({note: schema[note] for note in _NOTES if note in schema})
        return field, is_optional
    kind = schema.get("type")
    if kind not in _KEYWORDS:
        raise TypeError(
            f"field `{name}`: a form shows text, numbers, yes or no, and choices; {_describe(schema)} is none of them"
        )
    return _kept(name, schema, kind), is_optional


def _flatten(name: str, schema: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Follow references and remove "or null", together with a default of null."""
    flat, is_optional = dict(schema), False
    # Bounded, because aliases of aliases can refer to each other.
    for _ in range(8):
        if isinstance(reference := flat.pop("$ref", None), str):
            flat = {**document.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {}), **flat}
        elif "anyOf" in flat:
            options = [option for option in flat.pop("anyOf") if option != {"type": "null"}]
            if len(options) != 1:
                raise TypeError(f"field `{name}`: expected one type, got a union; a form field has exactly one type")
            is_optional = True
            flat = {**options[0], **flat}
        elif isinstance(choices := flat.get("enum"), list) and None in choices:
            is_optional = True
            flat["enum"] = [choice for choice in choices if choice is not None]
        else:
            break
    if flat.get("default", ...) is None:
        del flat["default"]
    flat.pop("$defs", None)
    return flat, is_optional


def _kept(name: str, schema: Mapping[str, Any], kind: str, *, also: frozenset[str] = frozenset()) -> dict[str, Any]:
    field: dict[str, Any] = {"type": kind}
    for keyword, value in schema.items():
        if keyword in _NOTES or keyword in _KEYWORDS[kind]:
            # Other formats are for validators; a client might refuse a form with an unknown one.
            if keyword != "format" or value in _FORMATS:
                field[keyword] = value
        elif keyword == "exclusiveMinimum" and kind == "integer":
            # Forms have no exclusive bounds; for integers the inclusive bound is one further in.
            field["minimum"] = value + 1
        elif keyword == "exclusiveMaximum" and kind == "integer":
            field["maximum"] = value - 1
        elif keyword not in _QUIET and keyword not in also and keyword != "type":
            raise TypeError(f"field `{name}`: a form cannot express `{keyword}` of {_describe(schema)}")
    return field


def _shown_choices(
    name: str, schema: Mapping[str, Any], choices: type[Enum] | None, *, is_multiple: bool
) -> dict[str, Any]:
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is None:
        raise TypeError(f"field `{name}`: a form's list is a choice of several; its items must be an Enum or a Literal")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"field `{name}`: expected choices that are strings, got {show_value(value)}")
    # If names equal values, titles would only repeat them.
    if choices is None or all(member.name == member.value for member in choices):
        return {"type": "string", "enum": list(values)}
    titled = [{"const": member.value, "title": _words(member.name)} for member in choices]
    return {"anyOf": titled} if is_multiple else {"oneOf": titled}


def _enum_in(hint: Any) -> type[Enum] | None:
    """The Enum an annotation is about: itself, or inside Annotated, Optional or a list."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return None
    if origin is Annotated:
        return _enum_in(arguments[0])
    # Containers and unions; the Enum in them gives the titles.
    if origin in (typing.Union, types.UnionType, list, tuple, set, frozenset) or hasattr(origin, "__iter__"):
        return next((found for argument in arguments if (found := _enum_in(argument))), None)
    return None


def _words(name: str) -> str:
    return name.replace("_", " ").strip().capitalize()


def _describe(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    return f"`{kind}`" if isinstance(kind, str) else "this type"
