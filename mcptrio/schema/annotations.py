"""Describes Python annotations as JSON Schema 2020-12, and converts JSON values to values of an annotation.

Used for signatures and elicitation forms. Schema and conversion use the same types, which
:mod:`mcptrio.schema.structs` makes for msgspec, so a value is accepted exactly if the schema accepts it. An annotation
without a JSON form raises ``TypeError`` when it is described, never in a call.

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
from mcptrio.schema.structs import CHOICES, ConstructionError, GeneratedStruct, StructMapper
from mcptrio.schema.validation_messages import describe_mismatch

__all__ = ["Description", "add_default", "convert", "describe", "restore"]

_MAX_DEPTH = 200
"""Levels of a value in which 1.0 is replaced by 1; no signature is as deep."""
_EXACT = 2**53
"""The largest magnitude up to which each integer has its own float."""
_MAX_FLAGS = 6
"""Members of a Flag up to which all combinations are listed."""
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_EMPTY = (list, dict, set, frozenset)


@attrs.frozen(kw_only=True)
class Description:
    """Several annotations as schemas that share definitions."""

    schemas: tuple[dict[str, Any], ...]
    definitions: dict[str, Any]
    """The ``$defs`` to which the schemas refer."""
    msgspec_types: tuple[Any, ...]
    """The types into which msgspec converts values of the annotations."""
    mapper: StructMapper

    @property
    def has_models(self) -> bool:
        """True if an annotation contains a pydantic model, whose JSON form only pydantic knows."""
        return bool(self.mapper.models)

    def to_document(self) -> dict[str, Any]:
        """Return the first schema as a document with its own ``$defs``, and without a ``$ref`` at its root."""
        schema = dict(self.schemas[0])
        followed = 0
        # Bounded, because the references may form a cycle.
        while (reference := schema.pop("$ref", None)) is not None and followed < len(self.definitions):
            schema = {**self.definitions[definition_name(reference)], **schema}
            followed += 1
        needed: set[str] = set()
        queue = list(references_in(schema))
        while queue:
            name = queue.pop()
            # A name without a definition is data that looks like a reference.
            if name not in needed and name in self.definitions:
                needed.add(name)
                queue.extend(references_in(self.definitions[name]))
        if needed:
            schema["$defs"] = {name: self.definitions[name] for name in self.definitions if name in needed}
        return schema


def describe(annotations: Sequence[Any], *, output: bool = False) -> Description:
    """Describe annotations as JSON Schema.

    Args:
        output: Describe the values that are sent instead of those that are accepted. They differ for fields with
            ``init=False``, and for pydantic's computed fields and aliases.

    Raises:
        TypeError: An annotation has no JSON form; the message names the type.
    """
    mapper = StructMapper(output=output)
    try:
        msgspec_types = tuple(mapper.to_msgspec(annotation) for annotation in annotations)
    except RecursionError:
        # `type Alias = list[Alias]` is infinite.
        raise TypeError("a type alias refers to itself; use a class with fields instead") from None
    names = name_models(tuple(mapper.models))

    def describe_foreign(cls: type) -> dict[str, Any]:
        if cls in names:
            return {"$ref": f"#/$defs/{names[cls]}"}
        raise no_json_form(cls)

    # Generated structs and enums are described too, to learn the names that msgspec gives to their definitions.
    classes = [*mapper.generated, *mapper.enums]
    shown, msgspec_definitions = msgspec.json.schema_components(
        [*msgspec_types, *classes], schema_hook=describe_foreign
    )
    # _with_ordered_choices() copies, because msgspec may use one dict in several places.
    schemas, definitions = _with_ordered_choices(list(shown)), _with_ordered_choices(msgspec_definitions)
    names_of = [definition_name(schema["$ref"]) for schema in schemas[len(msgspec_types) :]]
    if unknown := definitions.keys() - set(names_of):
        # msgspec would make instances of this class without calling __init__, and set its private fields.
        raise TypeError(f"the annotation contains the class {min(unknown)} in an unsupported way")
    for cls, name in zip(classes, names_of, strict=True):
        definition = definitions[name]
        # The title that msgspec adds is the name of the class, which is already the key in `$defs`.
        if definition.get("title") == cls.__name__:
            del definition["title"]
        if isinstance(generated := mapper.generated.get(cls), GeneratedStruct):
            _add_defaults(generated, definition)
        else:
            # msgspec sorts the values of an enum. They are put back in the order of the author's definition.
            definition.pop("enum", None)
            definition.update(_choices_of(cls))
    for model in mapper.models:
        definitions.update(model_definitions(model, names[model], output=output))
    return Description(
        schemas=tuple(schemas[: len(msgspec_types)]),
        definitions=definitions,
        msgspec_types=msgspec_types,
        mapper=mapper,
    )


def convert(value: Any, msgspec_type: Any, schema: Mapping[str, Any]) -> Any:
    """Convert a JSON value to the type ``msgspec_type``, strictly, except that 1 is a float and 1.0 an int.

    Args:
        msgspec_type: A type of :class:`Description`; :func:`restore` makes instances of the author's classes.
        schema: The schema of the annotation, for the error.

    Raises:
        InvalidParams: The value does not match; the message has the expected value, the actual one and the place.
    """
    try:
        return msgspec.convert(value, msgspec_type, str_keys=True, dec_hook=make_model)
    except msgspec.ValidationError as problem:
        # Not raised yet, because the value may match with 1 instead of 1.0.
        first = problem
    except RecursionError:
        raise InvalidParams("expected a value that is not nested this deeply") from None
    # For JSON Schema, 1.0 is an integer, and a peer may send it; msgspec refuses it. It is replaced only after a
    # refusal, so that the usual case is fast.
    integral = _with_integers(value, _MAX_DEPTH)
    if integral is not value:
        try:
            return msgspec.convert(integral, msgspec_type, str_keys=True, dec_hook=make_model)
        except msgspec.ValidationError as problem:
            first, value = problem, integral
    raise describe_mismatch(first, value, schema) from None


def restore(mapper: StructMapper, converted: Any, value: Any, schema: Mapping[str, Any]) -> Any:
    """Replace the structs in a converted value by instances of the author's classes.

    Args:
        value: The JSON value, for the error.
        schema: The schema of the annotation, for the error.

    Raises:
        InvalidParams: A class refused its fields; the message has the place.
    """
    if not mapper.generated:
        return converted
    try:
        return mapper.restore(converted)
    except ConstructionError as error:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(error.path))
        first = msgspec.ValidationError(f"{error} - at `${path}`")
        raise describe_mismatch(first, value, schema) from error


def add_default(schema: dict[str, Any], default: Any) -> None:
    """Add a default to a schema, if the default has a JSON form."""
    # NaN and infinity would be encoded as null, which is another default.
    if default is msgspec.UNSET or (isinstance(default, float) and not math.isfinite(default)):
        return
    try:
        schema["default"] = msgspec.json.decode(msgspec.json.encode(encode_value(default)))
    except (TypeError, ValueError, RecursionError):
        return


# Private


def _with_ordered_choices(schema: Any) -> Any:
    """Return a copy in which the choices of a ``Literal`` have their original order and a type."""
    if isinstance(schema, list):
        return [_with_ordered_choices(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {key: value if key == CHOICES else _with_ordered_choices(value) for key, value in schema.items()}
    if isinstance(choices := copied.pop(CHOICES, None), list):
        copied.pop("enum", None)
        copied.update(_enumeration(choices))
    return copied


def _enumeration(values: list[Any]) -> dict[str, Any]:
    """Return the keywords for a list of choices. Some model providers require the type."""
    kinds = list(dict.fromkeys(_TYPES[type(value)] for value in values if type(value) in _TYPES))
    kind = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    return {**kind, "enum": values}


def _choices_of(cls: type[Enum]) -> dict[str, Any]:
    values: list[Any] = [member.value for member in cls]
    if issubclass(cls, Flag):
        # Six members have 64 combinations. A longer list would fill the model's context.
        if len(values) > _MAX_FLAGS:
            return {"type": "integer", "minimum": 0}
        sets = itertools.chain.from_iterable(itertools.combinations(values, count) for count in range(len(values) + 1))
        values = sorted({functools.reduce(operator.or_, each, 0) for each in sets})
    return _enumeration(values)


def _add_defaults(generated: GeneratedStruct, definition: dict[str, Any]) -> None:
    """Add the defaults and descriptions of the class for which a struct was generated; the struct has neither."""
    if definition.get("required") == []:
        del definition["required"]
    members: Any = definition.get("prefixItems") or definition.get("properties", {})
    for number, field in enumerate(generated.fields):
        # An array may have fewer items than fields. Fields with defaults are last, so both are aligned at their ends.
        place = members[field.key if isinstance(members, dict) else number - len(generated.fields)]
        # A factory may return another value each time, so its default is added only if it is an empty container.
        if field.default is not None and (not field.is_factory or field.default in _EMPTY):
            add_default(place, field.default())
    _describe_fields(definition)


def _describe_fields(definition: dict[str, Any]) -> None:
    """Move the descriptions of fields from the class's docstring to fields that have none."""
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
    """Return the value with each 1.0 replaced by 1; the same object if there is none."""
    if isinstance(value, float):
        # A larger float may stand for several integers.
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if depth == 0 or not isinstance(value, (dict, list)):
        return value
    if isinstance(value, list):
        items = [_with_integers(item, depth - 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    entries = {key: _with_integers(item, depth - 1) for key, item in value.items()}
    return entries if any(entries[key] is not item for key, item in value.items()) else value
