"""Python annotations as JSON Schema 2020-12, and JSON values as values of an annotation, both through msgspec.

Used by schemas and elicitation_forms. Both read the annotation as shapes rewrote it, so a value is accepted exactly if
the schema accepts it. An annotation without a JSON form is a ``TypeError`` when it is described, never in a call.

Source: MCP 2026-07-28, basic/index, "JSON Schema Usage"; msgspec, "JSON Schema".
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from enum import Enum, Flag
from typing import Any

import attrs
import msgspec

from mcptrio.errors import InvalidParams
from mcptrio.schema.docstrings import parse_docstring
from mcptrio.schema.encoding import encode_value
from mcptrio.schema.inlining import definition_name, references_in
from mcptrio.schema.pydantic_models import make_model, model_definitions, name_models, no_json_form
from mcptrio.schema.shapes import CHOICES, GeneratedStruct, Misfit, Shapes
from mcptrio.schema.validation_messages import describe_mismatch

__all__ = ["Description", "convert", "describe", "restore", "show_default"]

_MAX_DEPTH = 200
"""Levels that are searched for 1.0 instead of 1; no signature is as deep."""
_EXACT = 2**53
"""The largest magnitude at which a float stands for exactly one integer."""
_MAX_FLAGS = 6
"""Members of a Flag up to which all combinations are listed."""
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_EMPTY = (list, dict, set, frozenset)


@attrs.frozen(kw_only=True)
class Description:
    """Several annotations as schemas that share definitions."""

    schemas: tuple[dict[str, Any], ...]
    definitions: dict[str, Any]
    """``$defs`` for a document that holds the schemas; every local ``$ref`` points into it."""
    wires: tuple[Any, ...]
    """The annotations as msgspec reads them."""
    shapes: Shapes

    @property
    def has_models(self) -> bool:
        """Whether a pydantic model is involved, whose JSON form only pydantic knows."""
        return bool(self.shapes.models)

    def to_document(self) -> dict[str, Any]:
        """Return the first schema as a document: a ``$ref`` at its root is replaced by the definition, and ``$defs`` is
        added.
        """
        schema = dict(self.schemas[0])
        followed = 0
        # Each round follows another definition, so more rounds than definitions would be a cycle.
        while (reference := schema.pop("$ref", None)) is not None and followed < len(self.definitions):
            schema = {**self.definitions[definition_name(reference)], **schema}
            followed += 1
        needed: set[str] = set()
        queue = list(references_in(schema))
        while queue:
            name = queue.pop()
            # Data may look like a reference.
            if name not in needed and name in self.definitions:
                needed.add(name)
                queue.extend(references_in(self.definitions[name]))
        # Only the definitions that this schema reaches, in the order in which msgspec made them.
        if needed:
            schema["$defs"] = {name: self.definitions[name] for name in self.definitions if name in needed}
        return schema


def describe(annotations: Sequence[Any], *, output: bool = False) -> Description:
    """Describe annotations as JSON Schema.

    Args:
        output: Describe the values that are sent, not those that are accepted. They differ for fields that a class
            sets, and for pydantic's computed fields and aliases.

    Raises:
        TypeError: An annotation has no JSON form; the message names the type.
    """
    shapes = Shapes(output=output)
    try:
        wires = tuple(shapes.wire(annotation) for annotation in annotations)
    # `type Alias = list[Alias]` has no end when it is written out.
    except RecursionError:
        raise TypeError("a type alias refers to itself; use a class with fields instead") from None
    names = name_models(tuple(shapes.models))

    def describe_foreign(cls: type) -> dict[str, Any]:
        if cls in names:
            return {"$ref": f"#/$defs/{names[cls]}"}
        raise no_json_form(cls)

    # Generated structs and enums are described too, because only their schemas have the names that msgspec gave them.
    classes = [*shapes.generated, *shapes.enums]
    shown, made = msgspec.json.schema_components([*wires, *classes], schema_hook=describe_foreign)
    # A copy: msgspec may hand out one dict in several places.
    schemas, definitions = _ordered(list(shown)), _ordered(made)
    names_of = [definition_name(schema["$ref"]) for schema in schemas[len(wires) :]]
    if unknown := definitions.keys() - set(names_of):
        # msgspec would make instances of it without its __init__, and set its private fields.
        raise TypeError(f"the annotation leads to {min(unknown)} in an unsupported way")
    for cls, name in zip(classes, names_of, strict=True):
        definition = definitions[name]
        # msgspec titles each definition with the class's name, which the key of `$defs` says already.
        if definition.get("title") == cls.__name__:
            del definition["title"]
        if isinstance(generated := shapes.generated.get(cls), GeneratedStruct):
            _complete(generated, definition)
        else:
            # msgspec sorts the values of an enum; the order of the author's definition is the one that people expect.
            definition.pop("enum", None)
            definition.update(_choices_of(cls))
    for model in shapes.models:
        definitions.update(model_definitions(model, names[model], output=output))
    return Description(schemas=tuple(schemas[: len(wires)]), definitions=definitions, wires=wires, shapes=shapes)


def convert(value: Any, wire: Any, schema: Mapping[str, Any]) -> Any:
    """Convert a JSON value to the type ``wire``. Strict: only 1 becomes a float, and 1.0 an int.

    Args:
        wire: An annotation for msgspec; :func:`restore` makes instances of its classes.
        schema: The schema of the annotation, for the error.

    Raises:
        InvalidParams: The value does not fit; the message has the expected value, the actual one and the place.
    """
    try:
        return msgspec.convert(value, wire, str_keys=True, dec_hook=make_model)
    except msgspec.ValidationError as problem:
        # Kept instead of raised: the value may still fit with 1 for 1.0.
        first = problem
    except RecursionError:
        raise InvalidParams("expected a value that is not nested this deeply") from None
    # JSON has one kind of number, so JavaScript peers send 1.0 and JSON Schema calls it an integer; msgspec does not.
    # Looked for only after a refusal: the fast path is the usual one.
    integral = _with_integers(value, _MAX_DEPTH)
    if integral is not value:
        try:
            return msgspec.convert(integral, wire, str_keys=True, dec_hook=make_model)
        except msgspec.ValidationError as problem:
            first, value = problem, integral
    raise describe_mismatch(first, value, schema) from None


def restore(shapes: Shapes, converted: Any, value: Any, schema: Mapping[str, Any]) -> Any:
    """Replace the structs in a converted value by instances of the author's classes.

    Args:
        value: The JSON value, for the error.
        schema: The schema of the annotation, for the error.

    Raises:
        InvalidParams: A class refused its fields; the message has the place.
    """
    # Most signatures have no classes with fields.
    if not shapes.generated:
        return converted
    try:
        return shapes.restore(converted)
    except Misfit as misfit:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(misfit.path))
        first = msgspec.ValidationError(f"{misfit} - at `${path}`")
        raise describe_mismatch(first, value, schema) from misfit


def show_default(schema: dict[str, Any], default: Any) -> None:
    """Add a default to a schema, if it has a JSON form."""
    # orjson and msgspec would write null for NaN, which is another default.
    if default is msgspec.UNSET or (isinstance(default, float) and not math.isfinite(default)):
        return
    try:
        schema["default"] = msgspec.json.decode(msgspec.json.encode(encode_value(default)))
    except (TypeError, ValueError, RecursionError):
        return


# Private


def _ordered(schema: Any) -> Any:
    """Return a copy in which the choices of a ``Literal`` have their original order and a type."""
    if isinstance(schema, list):
        return [_ordered(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {key: value if key == CHOICES else _ordered(value) for key, value in schema.items()}
    if isinstance(choices := copied.pop(CHOICES, None), list):
        copied.pop("enum", None)
        copied.update(_enumeration(choices))
    return copied


def _enumeration(values: list[Any]) -> dict[str, Any]:
    """Return a list of choices with its type, which some model providers require."""
    kinds = list(dict.fromkeys(_TYPES[type(value)] for value in values if type(value) in _TYPES))
    kind = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    return {**kind, "enum": values}


def _choices_of(cls: type[Enum]) -> dict[str, Any]:
    values: list[Any] = [member.value for member in cls]
    if issubclass(cls, Flag):
        # Six members have 64 combinations; a longer list would fill the model's context.
        if len(values) > _MAX_FLAGS:
            return {"type": "integer", "minimum": 0}
        sets = itertools.chain.from_iterable(itertools.combinations(values, count) for count in range(len(values) + 1))
        values = sorted({functools.reduce(operator.or_, each, 0) for each in sets})
    return _enumeration(values)


def _complete(generated: GeneratedStruct, definition: dict[str, Any]) -> None:
    """Add the defaults and descriptions of the class behind a struct, which msgspec cannot know."""
    if definition.get("required") == []:
        del definition["required"]
    shown: Any = definition.get("prefixItems") or definition.get("properties", {})
    for number, field in enumerate(generated.fields):
        # Fields with defaults come last in an array, so both sequences are aligned at their ends.
        place = shown[field.key if isinstance(shown, dict) else number - len(generated.fields)]
        # A factory may make another value each time; only the empty ones are sure to stay.
        if field.default is not None and (not field.is_factory or field.default in _EMPTY):
            show_default(place, field.default())
    _describe_fields(definition)


def _describe_fields(definition: dict[str, Any]) -> None:
    """Add the descriptions of fields from the class's docstring to fields that have none."""
    documented = parse_docstring(definition.get("description"))
    if not documented.parameters:
        return
    for name, sentence in documented.parameters.items():
        if name in definition.get("properties", ()):
            definition["properties"][name].setdefault("description", sentence)
    if documented.description:
        definition["description"] = documented.description
    else:
        del definition["description"]


def _with_integers(value: Any, depth: int) -> Any:
    """Return the value with 1.0 replaced by 1 everywhere; the same object if there was none."""
    if isinstance(value, float):
        # Beyond this size the sender meant one of many integers, and which one is lost.
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if depth == 0 or not isinstance(value, (dict, list)):
        return value
    if isinstance(value, list):
        items = [_with_integers(item, depth - 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    entries = {key: _with_integers(item, depth - 1) for key, item in value.items()}
    return entries if any(entries[key] is not item for key, item in value.items()) else value
