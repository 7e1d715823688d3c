"""Python annotations as JSON Schema 2020-12, and JSON values as what an annotation says, both through msgspec.

Used by schemas and elicitation_forms. The one rule: what :func:`convert` takes is what :func:`describe` shows; an
annotation that has no JSON form is a ``TypeError`` when it is described, never a surprise in a call.

msgspec does the work; three things are added here: a plain string in ``Annotated`` is a description, a ``datetime``
says its format, and pydantic models take part where pydantic was imported by whoever wrote them.

Source: MCP 2026-07-28, basic/index, "JSON Schema Usage"; msgspec, "JSON Schema".
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
import msgspec

from mcptrio.capabilities.docstrings import parse_docstring
from mcptrio.capabilities.problems import describe_mismatch
from mcptrio.capabilities.pydantic_models import dump_model, is_model, make_model, model_definitions, name_models
from mcptrio.errors import InvalidParams

__all__ = ["Description", "convert", "describe", "encode_value", "fields_of"]

_DATE_TIME = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
_QUALIFIERS = (typing.Required, typing.NotRequired, typing.Final)
_DEEPEST = 200
"""Levels at which looking for 1.0 in the place of 1 gives up: far more than any signature has."""


@attrs.frozen(kw_only=True)
class Description:
    """Several annotations as schemas that share definitions."""

    schemas: tuple[dict[str, Any], ...]
    definitions: dict[str, Any]
    """``$defs`` for a document that holds the schemas; every local ``$ref`` points into it."""
    has_models: bool
    """Whether a pydantic model is reached, whose JSON form only pydantic knows."""

    def stand_alone(self, index: int = 0) -> dict[str, Any]:
        """One schema as a document of its own: a ``$ref`` at the root replaced by what it points to, ``$defs`` kept."""
        schema = dict(self.schemas[index])
        followed = 0
        while (reference := schema.pop("$ref", None)) is not None and followed < len(self.definitions):
            schema = {**self.definitions[_definition_name(reference)], **schema}
            followed += 1
        needed: dict[str, Any] = {}
        queue = _references(schema)
        while queue:
            name = queue.pop()
            if name not in needed:
                needed[name] = self.definitions[name]
                queue.extend(_references(needed[name]))
        if needed:
            schema["$defs"] = {name: self.definitions[name] for name in self.definitions if name in needed}
        return schema


def describe(annotations: Sequence[Any], *, output: bool = False) -> Description:
    """Describe annotations as JSON Schema.

    Args:
        output: describe what is sent rather than what is taken; they differ for pydantic's computed fields and aliases.

    Raises:
        TypeError: an annotation has no JSON form; the message names the type.
    """
    roots = [_rewrite(annotation) for annotation in annotations]
    classes = _reachable_classes(roots)
    models = [cls for cls in classes if is_model(cls)]
    plain = [cls for cls in classes if not is_model(cls)]
    names = name_models(models)

    def describe_foreign(cls: type) -> dict[str, Any]:
        if cls in names:
            return {"$ref": f"#/$defs/{names[cls]}"}
        raise TypeError(f"{getattr(cls, '__qualname__', cls)} has no JSON form")

    changed = [(cls, name, hint) for cls in plain for name, hint in classes[cls].items()]
    wanted = [*roots, *plain, *(hint for _, _, hint in changed)]
    shown, definitions = msgspec.json.schema_components(wanted, schema_hook=describe_foreign)
    schemas = [_writable(schema) for schema in shown]
    definitions = {name: _writable(schema) for name, schema in definitions.items()}
    own = {
        cls: definitions[_definition_name(schema["$ref"])]
        for cls, schema in zip(plain, schemas[len(roots) :], strict=False)
        if "$ref" in schema
    }
    for cls, definition in own.items():
        _complete(cls, definition)
    for (cls, name, _), schema in zip(changed, schemas[len(roots) + len(plain) :], strict=True):
        _replace_field(cls, own.get(cls, {}), name, schema)
    for cls, definition in own.items():
        _describe_fields(cls, definition)
    for cls in models:
        definitions.update(model_definitions(cls, names[cls], output=output))
    return Description(schemas=tuple(schemas[: len(roots)]), definitions=definitions, has_models=bool(models))


def convert(value: Any, annotation: Any, schema: Mapping[str, Any]) -> Any:
    """Make of a JSON value what ``annotation`` says, strictly: nothing is coerced but 1 for a float and 1.0 for an int.

    Args:
        schema: of the annotation, for the error's sake.

    Raises:
        InvalidParams: the value does not fit; the message says what was expected, what came, and where.
    """
    try:
        return msgspec.convert(value, annotation, str_keys=True, dec_hook=make_model)
    except msgspec.ValidationError as problem:
        first = problem
    except RecursionError:
        raise InvalidParams("expected a value that is not nested this deeply @ $") from None
    # JSON has one kind of number, so JavaScript peers send 1.0 and JSON Schema calls it an integer; msgspec does not.
    # Looked for only after a refusal: the fast path is the usual one.
    integral = _with_integers(value, _DEEPEST)
    if integral is not value:
        try:
            return msgspec.convert(integral, annotation, str_keys=True, dec_hook=make_model)
        except msgspec.ValidationError as problem:
            first, value = problem, integral
    raise describe_mismatch(first, value, schema) from None


def encode_value(value: Any) -> Any:
    """Make plain JSON types of a value: attrs, dataclasses, enums, dates, sets, msgspec structs, pydantic models.

    A tuple stays one; to every encoder and validator it is an array.

    Raises:
        TypeError: something in it has no JSON form.
    """
    return msgspec.to_builtins(value, str_keys=True, enc_hook=dump_model)


def fields_of(cls: type) -> dict[str, Any] | None:
    """The fields of a class that has some, as written, name -> annotation; ``None`` for any other type.

    Raises:
        TypeError: a field's annotation names something that cannot be found.
    """
    names: Sequence[str]
    if attrs.has(cls):
        names = [field.name for field in attrs.fields(cls) if field.init]
    elif dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls) if field.init]
    elif issubclass(cls, msgspec.Struct):
        names = cls.__struct_fields__
    elif is_model(cls):
        names = list(cls.model_fields)  # type: ignore[attr-defined]
    elif typing.is_typeddict(cls):
        names = list(cls.__annotations__)
    elif issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        names = cls._fields  # type: ignore[attr-defined]
    else:
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(f"{cls.__qualname__}: the annotation names {error.name!r}, which cannot be found") from error
    return {name: _unqualified(hints.get(name, Any)) for name in names}


# --- before msgspec: annotations


def _unqualified(hint: Any) -> Any:
    """The type inside ``Required[...]`` and its like, which say something about the field and not about its value."""
    while get_origin(hint) in _QUALIFIERS:
        (hint,) = get_args(hint)
    return hint


def _rewrite(annotation: Any) -> Any:
    """The annotation in msgspec's words; the very same object where nothing had to change."""
    if annotation is datetime:
        return _DATE_TIME
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal or not arguments:
        return annotation
    if origin is Annotated:
        base, metadata = arguments[0], arguments[1:]
        rewritten = _rewrite(base)
        metas = [_as_meta(item) for item in metadata]
        if rewritten is base and all(new is old for new, old in zip(metas, metadata, strict=True)):
            return annotation
        for meta in metas:
            if isinstance(meta, msgspec.Meta):
                rewritten = Annotated[rewritten, meta]
        return rewritten
    if any(isinstance(argument, list) for argument in arguments):  # Callable[[int], str]; msgspec will refuse it
        return annotation
    replaced = tuple(_rewrite(argument) for argument in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[replaced]  # noqa: UP007 - a union of as many members as there are
    generic: Any = origin
    return generic[replaced]


def _as_meta(item: Any) -> Any:
    if isinstance(item, str):
        return msgspec.Meta(description=item)
    if type(item).__module__.partition(".")[0] == "pydantic":
        # Silence here would drop a limit the author relies on.
        raise TypeError(f"{type(item).__name__} of pydantic in Annotated is not understood; use msgspec.Meta(...)")
    return item


def _reachable_classes(annotations: Sequence[Any]) -> dict[type, dict[str, Any]]:
    """Every class with fields, and every enum, in reach -> its fields whose annotation was rewritten."""
    found: dict[type, dict[str, Any]] = {}
    queue = list(annotations)
    while queue:
        annotation = queue.pop()
        arguments = get_args(annotation)
        if get_origin(annotation) is Literal:
            continue
        if arguments:
            # Of Annotated only the type is one; the fields of a generic class are msgspec's to fill in.
            queue.extend(arguments[:1] if get_origin(annotation) is Annotated else arguments)
            continue
        if hasattr(annotation, "__supertype__"):
            queue.append(annotation.__supertype__)
            continue
        if hasattr(annotation, "__value__"):  # type Alias = ...
            queue.append(annotation.__value__)
            continue
        if not isinstance(annotation, type) or annotation in found or _is_generic(annotation):
            continue
        if issubclass(annotation, Enum):
            found[annotation] = {}
            continue
        fields = fields_of(annotation)
        if fields is None:
            continue
        rewritten = {name: _rewrite(hint) for name, hint in fields.items()} if not is_model(annotation) else {}
        found[annotation] = {name: hint for name, hint in rewritten.items() if hint is not fields[name]}
        queue.extend(rewritten.values())
    return found


def _is_generic(cls: Any) -> bool:
    return bool(getattr(cls, "__parameters__", None))


# --- after msgspec: definitions


def _definition_name(reference: str) -> str:
    return reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")


def _references(schema: Any) -> list[str]:
    found: list[str] = []
    queue = [schema]
    while queue:
        item = queue.pop()
        if isinstance(item, dict):
            for key, value in item.items():
                if key == "$ref" and isinstance(value, str):
                    found.append(_definition_name(value))
                elif key not in ("default", "const", "enum", "examples"):
                    queue.append(value)
        elif isinstance(item, list):
            queue.extend(item)
    return found


def _writable(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy of two levels: msgspec may hand out one dict in several places."""
    copied = dict(schema)
    if "properties" in copied:
        copied["properties"] = {name: dict(field) for name, field in copied["properties"].items()}
    return copied


def _complete(cls: type, definition: dict[str, Any]) -> None:
    """Drop what says nothing, a title that repeats the class's name, and private fields, which are never sent."""
    if definition.get("title") == cls.__name__:
        del definition["title"]
    if definition.get("required") == []:
        del definition["required"]
    if not (attrs.has(cls) or dataclasses.is_dataclass(cls)):
        return
    for name in [name for name in definition.get("properties", ()) if name.startswith("_")]:
        if name in definition.get("required", ()):
            raise TypeError(
                f"{cls.__qualname__}: the field `{name}` is private and has no default, so it cannot be sent"
            )
        del definition["properties"][name]


def _replace_field(cls: type, definition: dict[str, Any], name: str, schema: dict[str, Any]) -> None:
    """Put the schema of a rewritten annotation in the place of the one msgspec made; the default stays."""
    if "prefixItems" in definition:
        position = cls._fields.index(name)  # type: ignore[attr-defined]
        definition["prefixItems"] = [*definition["prefixItems"]]
        definition["prefixItems"][position] = {**definition["prefixItems"][position], **schema}
        return
    key = name
    if issubclass(cls, msgspec.Struct):
        key = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))[name]
    properties = definition.get("properties", {})
    if key in properties:
        default = {"default": properties[key]["default"]} if "default" in properties[key] else {}
        properties[key] = {**schema, **default}


def _describe_fields(cls: type, definition: dict[str, Any]) -> None:
    """Take descriptions of fields from the class's docstring, where it has them and the field has none."""
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
    """The value with 1.0 replaced by 1 everywhere; the very same object where there was none."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if depth == 0 or not isinstance(value, (dict, list)):
        return value
    if isinstance(value, list):
        items = [_with_integers(item, depth - 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    entries = {key: _with_integers(item, depth - 1) for key, item in value.items()}
    return entries if any(entries[key] is not item for key, item in value.items()) else value
