"""Elicitation forms: makes a flat JSON Schema of the schema argument of ``ctx.elicit``, and converts the answer.

The Context uses this. An answer is validated against the schema that was sent, and then converted. A schema that a form
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

from mcptrio.schema.annotations import add_default, convert, describe, restore
from mcptrio.schema.exact_values import ExactValues
from mcptrio.schema.structs import Field, fields_of
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
# Keywords that are not sent, because schema.ts does not have them. They are checked when the answer arrives.
_CHECKED_KEYWORDS = frozenset({"pattern", "uniqueItems", "$defs", "additionalProperties"})
_ANNOTATION_KEYWORDS = ("title", "description", "default")
_MAX_CHOICES = 1_000
"""More choices than a person reads. A client may show all of them in one menu."""
# Clients show the title as the label of the field; without one they would show its name, `value`.
_SCALAR_TITLE = "Answer"


@attrs.frozen(kw_only=True, eq=False)
class ElicitationForm:
    """A form: the schema that is sent, and the conversion of the answer."""

    schema: dict[str, Any]
    """``requestedSchema``: an object of primitive fields."""
    _restore: Callable[[dict[str, Any]], Any] = attrs.field(alias="restore")
    _validator: Validator = attrs.field(alias="validator")

    @classmethod
    def of(cls, schema: Any) -> ElicitationForm:
        """Make a form.

        Args:
            schema: A class with flat fields (attrs, dataclass, TypedDict, msgspec, pydantic); ``str``, ``int``,
                ``float``, ``bool``, a date, an ``Enum``, ``Literal[...]`` or a list of one of these two; a list of
                choices, or a dict from choice to title; or a JSON Schema, which is used unchanged.

        Raises:
            TypeError: A form cannot show a field; the message names it.
        """
        # A mapping with `properties` is a JSON Schema; any other mapping has choices.
        if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
            return _of_json_schema(dict(schema))
        if isinstance(schema, Mapping) or (isinstance(schema, Sequence) and not isinstance(schema, str)):
            return _choices(schema)
        if isinstance(schema, type) and not issubclass(schema, Enum) and fields_of(schema) is not None:
            return _of_class(schema)
        return _of_scalar(schema)

    def convert(self, content: Any) -> Any:
        """Convert the content of an answer to an instance of the class, a scalar, a choice, or a dict.

        Raises:
            InvalidParams: The answer does not match the form; the message has the expected value, the actual one and
                the place.
        """
        self._validator.validate(content)
        return self._restore(content)


def _form(properties: dict[str, Any], required: list[str], restore: Callable[[dict[str, Any]], Any]) -> ElicitationForm:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return _make_form(schema, restore)


def _make_form(schema: dict[str, Any], restore: Callable[[dict[str, Any]], Any]) -> ElicitationForm:
    try:
        # Formats are checked, because the client shows them to the user.
        validator = Validator(schema, formats=True)
    except ValueError as error:
        raise TypeError(f"a form cannot ask for this: {error}") from error
    return ElicitationForm(schema=schema, restore=restore, validator=validator)


def _of_json_schema(schema: dict[str, Any]) -> ElicitationForm:
    if schema.get("type") != "object":
        raise TypeError(f'form: expected a schema of type "object", got {show_value(schema.get("type"))}')
    for name, field in schema["properties"].items():
        if not isinstance(field, Mapping):
            raise TypeError(f"field `{name}`: expected a schema, got {show_value(field)}")
        _check_kind(str(name), field)
    return _make_form(schema, lambda content: content)


def _check_kind(name: str, field: Mapping[str, Any]) -> None:
    """Check that a client can show a field of a JSON Schema. Its other keywords may be any."""
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
    # Equal choices could not be distinguished in the answer.
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
        # The content of a form is always an object, so the scalar becomes the only field of a class.
        form = _of_class(dataclasses.make_dataclass("Form", [("value", annotation)]))
    except TypeError as error:
        if str(error).startswith("field "):
            raise
        raise TypeError(f"field `value`: {error}") from error
    value = {"title": _SCALAR_TITLE, **form.schema["properties"]["value"]}
    schema = {**form.schema, "properties": {"value": value}}
    return attrs.evolve(form, schema=schema, restore=lambda content: form._restore(content).value)


def _of_class(cls: Any) -> ElicitationForm:
    description = describe([cls])
    (generated,) = [each for each in description.mapper.generated.values() if each.cls is cls] or (None,)
    fields = generated.fields if generated is not None else tuple(fields_of(cls) or ())
    document = description.to_document()
    exact = ExactValues.of(document)
    is_array = "prefixItems" in document
    member_schemas = document.get("properties", {})
    required = list(document.get("required", ()))
    if is_array:
        member_schemas = dict(zip((field.key for field in fields), document["prefixItems"], strict=True))
        required = [field.key for field in fields if field.is_required]
    properties: dict[str, Any] = {}
    absent: dict[str, None] = {}
    for field in fields:
        schema = _with_default(member_schemas[field.key], field)
        properties[field.key], is_optional = _field(field.name, field.hint, schema, document)
        if is_optional and field.key in required:
            required.remove(field.key)
            absent[field.key] = None
    if not properties:
        raise TypeError(f"{cls.__qualname__}: a form needs at least one field")

    def convert_content(content: dict[str, Any]) -> Any:
        known = {key: value for key, value in content.items() if key in properties}
        values: Any = {**absent, **known}
        if is_array:  # the form has named fields, but the class is converted from an array
            values = [
                values[field.key] if field.key in values or field.default is None else field.default()
                for field in fields
            ]
        converted = convert(values, description.msgspec_types[0], document)
        if exact is not None:
            exact.check(values)
        return restore(description.mapper, converted, values, document)

    return _form(properties, required, convert_content)


def _with_default(schema: Mapping[str, Any], field: Field) -> dict[str, Any]:
    """Return the schema with the default of the field. A factory may be called, because a form is shown only once."""
    filled = dict(schema)
    if field.default is not None and "default" not in filled:
        add_default(filled, field.default())
    return filled


def _field(name: str, hint: Any, schema: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return one field of the form, and whether its annotation accepts None. The form expresses None by omission."""
    schema, is_optional = _flatten(name, schema, document)
    choices = _enum_in(hint)
    if schema.get("type") == "array":
        items, _ = _flatten(name, schema.get("items") or {}, document)
        field = _form_field(name, schema, "array", also=frozenset({"items"}))
        field["items"] = _shown_choices(name, items, choices, is_multiple=True)
        return field, is_optional
    if "enum" in schema or "const" in schema:
        field = {"type": "string", **_shown_choices(name, schema, choices, is_multiple=False)}
        field.update({note: schema[note] for note in _ANNOTATION_KEYWORDS if note in schema})
        return field, is_optional
    kind = schema.get("type")
    if kind not in _KEYWORDS:
        raise TypeError(
            f"field `{name}`: a form shows text, numbers, yes or no, and choices; {_describe(schema)} is none of them"
        )
    return _form_field(name, schema, kind), is_optional


def _flatten(name: str, schema: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a schema without references and without null, and whether it accepted null."""
    flat, is_optional = dict(schema), False
    # Bounded, because aliases can refer to each other.
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


def _form_field(
    name: str, schema: Mapping[str, Any], kind: str, *, also: frozenset[str] = frozenset()
) -> dict[str, Any]:
    field: dict[str, Any] = {"type": kind}
    for keyword, value in schema.items():
        if keyword in _ANNOTATION_KEYWORDS or keyword in _KEYWORDS[kind]:
            # A client might refuse a form with another format.
            if keyword != "format" or value in _FORMATS:
                field[keyword] = value
        elif keyword == "exclusiveMinimum" and kind == "integer":
            # Forms have no exclusive bounds, but an integer has an equivalent inclusive one.
            field["minimum"] = value + 1
        elif keyword == "exclusiveMaximum" and kind == "integer":
            field["maximum"] = value - 1
        elif keyword not in _CHECKED_KEYWORDS and keyword not in also and keyword != "type":
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
    # Titles are omitted if they would only repeat the values.
    if choices is None or all(member.name == member.value for member in choices):
        return {"type": "string", "enum": list(values)}
    titled = [{"const": member.value, "title": _title_of(member.name)} for member in choices]
    return {"anyOf": titled} if is_multiple else {"oneOf": titled}


def _enum_in(hint: Any) -> type[Enum] | None:
    """Return the Enum in an annotation: the annotation itself, or inside of Annotated, Optional or a list."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return None
    if origin is Annotated:
        return _enum_in(arguments[0])
    # Unions and containers
    if origin in (typing.Union, types.UnionType, list, tuple, set, frozenset) or hasattr(origin, "__iter__"):
        return next((enum for argument in arguments if (enum := _enum_in(argument))), None)
    return None


def _title_of(name: str) -> str:
    return name.replace("_", " ").strip().capitalize()


def _describe(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    return f"`{kind}`" if isinstance(kind, str) else "this type"
