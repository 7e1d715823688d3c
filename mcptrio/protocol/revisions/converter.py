"""Converts between the model and the JSON values of one revision.

Each revision has one converter, made from the history in the classes of ``mcptrio.protocol.model``. cattrs generates
its functions when a class is first used. Conversion is strict: a value of the wrong type is refused. Members that the
revision does not have are ignored when reading and omitted when writing. Open objects (schemas, ``_meta``, arguments)
are not changed.

Source: MCP ``schema/<revision>/schema.ts``; "Additional properties" of JSON Schema for ignored members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias, get_args

import attrs
from cattrs import Converter as HookRegistry
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from mcptrio.errors import InvalidParams, LocalProtocolError
from mcptrio.protocol.model.content import UnknownContent
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitParams, ElicitURLParams
from mcptrio.protocol.model.fields import class_history, exists_in, field_history
from mcptrio.protocol.model.resource_contents import BlobResourceContents, ResourceContents, TextResourceContents
from mcptrio.protocol.model.sampling import SamplingContent
from mcptrio.protocol.revisions.mismatch import Mismatch, show_place, show_value
from mcptrio.protocol.revisions.shapes import (
    SCALARS,
    camel,
    inner_type,
    is_array,
    is_literal,
    is_object,
    is_optional,
    is_plain,
    is_type,
    is_union,
    step,
)

__all__ = ["Converter", "FieldLowering", "Lowering", "Reader", "Writer"]

Reader: TypeAlias = Callable[[Any, Any], Any]
"""``read(value, cls)`` returns a model. It raises Mismatch, or KeyError with the wire name of a missing member."""

Writer: TypeAlias = Callable[[Any], Any]
"""``write(model)`` returns a JSON value."""

Lowering: TypeAlias = Callable[[Any], Any]
"""Changes a model of the newest revision to the form of an older one. It raises LocalProtocolError if there is none."""


@attrs.frozen
class FieldLowering:
    """Changes one field of a model to the form of an older revision, if the field differs from its default."""

    name: str
    lower: Callable[[Any], Any]


class Converter:
    """Reads and writes the model in one revision.

    Args:
        lowerings: Functions that change a model before it is written, by its class.
    """

    def __init__(self, version: str, lowerings: Mapping[type, Lowering | FieldLowering]) -> None:
        self._version = version
        self._lowerings = lowerings
        # Cached, because the lookup in cattrs takes longer than converting a small message.
        self._readers: dict[Any, Reader] = {}
        self._writers: dict[type, Writer] = {}

    def structure(self, value: Any, cls: Any) -> Any:
        """See :attr:`mcptrio.protocol.revisions.revision.Revision.structure`."""
        try:
            read = self._readers[cls]
        except KeyError:
            read = self._readers[cls] = self.reader(cls)
        try:
            return read(value, cls)
        except (Mismatch, KeyError):
            # Readers do not keep track of the path, so it is searched now; refused values are rare.
            path, expected, got = self._locate(value, cls, "$")
            raise InvalidParams(f"expected {expected}{show_place(path)}, got {got}") from None

    def unstructure(self, model: Any) -> dict[str, Any]:
        """See :attr:`mcptrio.protocol.revisions.revision.Revision.unstructure`."""
        try:
            write = self._writers[model.__class__]
        except KeyError:
            write = self._writers[model.__class__] = self._hooks.get_unstructure_hook(model.__class__)
        written: dict[str, Any] = write(model)
        return written

    def reader(self, cls: Any) -> Reader:
        """Return the function that reads a class, a union of classes, or any other type of a field."""
        reader: Reader = self._hooks.get_structure_hook(cls)
        return reader

    # The parts of a class that the revision has

    def _fields(self, cls: type) -> Iterator[tuple[attrs.Attribute[Any], str, bool]]:
        """Yield each field of a class, its wire name, and whether the revision has it."""
        # resolve_types() replaces annotations that are strings.
        for attribute in attrs.fields(attrs.resolve_types(cls)):
            history = field_history(attribute)
            has = exists_in(self._version, since=history.since, until=history.until)
            yield attribute, history.name_in(self._version) or camel(attribute.name), has

    def _has_class(self, cls: type) -> bool:
        return exists_in(self._version, since=class_history(cls).since)

    # Readers and writers by type

    @cached_property
    def _hooks(self) -> HookRegistry:
        # Made at first use, because a process uses one or two revisions, and all five take 2 % of the start-up time.
        # Detailed validation, which collects all errors, makes reading several times slower.
        hooks = HookRegistry(detailed_validation=False)
        for cls in SCALARS:
            hooks.register_structure_hook(cls, _scalar_reader(cls))
        for predicate, make_reader in (
            (is_union, self._union_reader),
            (is_optional, self._optional_reader),
            (is_literal, self._literal_reader),
            (is_array, self._array_reader),
            (is_type(SamplingContent), self._sampling_content_reader),
            (is_object, self._object_reader),
            (attrs.has, self._class_reader),
            (is_type(UnknownContent), lambda cls: _read_unknown),
        ):
            hooks.register_structure_hook_factory(predicate, make_reader)
        for predicate, make_writer in (
            (is_plain, lambda cls: identity),
            (is_union, lambda cls: self._write),
            (is_optional, self._optional_writer),
            (is_array, self._array_writer),
            (is_type(SamplingContent), self._sampling_content_writer),
            (is_object, self._object_writer),
            (attrs.has, self._class_writer),
            (is_type(UnknownContent), lambda cls: _write_unknown),
        ):
            hooks.register_unstructure_hook_factory(predicate, make_writer)
        return hooks

    def _class_reader(self, cls: type) -> Reader:
        overrides: dict[str, Any] = {
            attribute.name: override(rename=name) if has else override(omit=True)
            for attribute, name, has in self._fields(cls)
        }
        # The function that cattrs generates is about as fast as code written by hand.
        read_members: Callable[[Any, Any], Any] = make_dict_structure_fn(
            cls, self._hooks, _cattrs_detailed_validation=False, _cattrs_use_linecache=False, **overrides
        )

        def read_class(value: Any, cls: Any) -> Any:
            # All readers compare exact classes: values come from a JSON parser, which makes no subclasses.
            if value.__class__ is not dict:
                raise Mismatch("an object", value)
            return read_members(value, cls)

        return read_class

    def _class_writer(self, cls: type) -> Writer:
        lower = self._lowerings.get(cls)
        of_field = lower if isinstance(lower, FieldLowering) else None
        # This revision has no form for a class of a newer revision, and a part of it must not be sent.
        write_as_is = self._writer_as_is(cls, of_field) if self._has_class(cls) else self._refuse_to_write
        if lower is None or isinstance(lower, FieldLowering):
            return write_as_is

        def write_lowered(model: Any) -> Any:
            lowered = lower(model)
            # A lowering may return another class, such as text instead of audio.
            return write_as_is(lowered) if lowered.__class__ is cls else self._write(lowered)

        return write_lowered

    def _writer_as_is(self, cls: type, lowering: FieldLowering | None) -> Writer:
        overrides: dict[str, Any] = {
            # Members that equal their default are omitted, because some older clients refuse unknown members.
            attribute.name: override(
                rename=name,
                omit_if_default=not field_history(attribute).always,
                unstruct_hook=lowering.lower if lowering is not None and lowering.name == attribute.name else None,
            )
            if has
            else override(omit=True)
            for attribute, name, has in self._fields(cls)
        }
        write_members: Writer = make_dict_unstructure_fn(
            cls, self._hooks, _cattrs_omit_if_default=True, _cattrs_use_linecache=False, **overrides
        )
        history = class_history(cls)
        tag = getattr(cls, history.tag) if history.tag and exists_in(self._version, since=history.tag_since) else None
        if history.tag is None or tag is None:
            return write_members
        name = camel(history.tag)
        return lambda model: {name: tag, **write_members(model)}

    def _refuse_to_write(self, model: Any) -> Any:
        raise LocalProtocolError(f"revision {self._version} has no {type(model).__name__}")

    def _write(self, model: Any) -> Any:
        return self._hooks.get_unstructure_hook(model.__class__)(model)

    def _optional_reader(self, cls: Any) -> Reader:
        inner = inner_type(cls)
        read = self.reader(inner)
        # The function of cattrs would be slower, because it catches exceptions to collect them.
        return lambda value, _: None if value is None else read(value, inner)

    def _optional_writer(self, cls: Any) -> Writer:
        write = self._hooks.get_unstructure_hook(inner_type(cls))
        if write is identity:
            return identity
        return lambda model: None if model is None else write(model)

    def _array_reader(self, cls: Any) -> Reader:
        inner = get_args(cls)[0]
        read = self.reader(inner)

        def read_array(value: Any, _: Any) -> Any:
            if value.__class__ is not list:
                raise Mismatch("an array", value)
            return tuple([read(item, inner) for item in value])

        return read_array

    def _array_writer(self, cls: Any) -> Writer:
        write = self._hooks.get_unstructure_hook(get_args(cls)[0])
        if write is identity:
            # list() needs no call for each item.
            return list
        return lambda items: [write(item) for item in items]

    def _sampling_content_reader(self, cls: Any) -> Reader:
        inner = get_args(cls)[0]
        read_one = self.reader(inner)
        read_many = self._array_reader(cls)

        def read_content(value: Any, _: Any) -> Any:
            # Since 2025-11-25, both one block and an array are allowed. The model always has a tuple.
            return read_many(value, cls) if value.__class__ is list else (read_one(value, inner),)

        return read_content

    def _sampling_content_writer(self, cls: Any) -> Writer:
        write_many = self._array_writer(cls)

        def write_content(blocks: Any) -> Any:
            written = write_many(blocks)
            # Revisions before 2025-11-25 have no array, and later ones do not require it.
            return written[0] if len(written) == 1 else written

        return write_content

    def _object_reader(self, cls: Any) -> Reader:
        inner = get_args(cls)[1]
        read = None if inner is Any else self.reader(inner)

        def read_object(value: Any, _: Any) -> Any:
            if value.__class__ is not dict:
                raise Mismatch("an object", value)
            # An open object is not copied, because only the author's code uses it.
            return value if read is None else {name: read(member, inner) for name, member in value.items()}

        return read_object

    def _object_writer(self, cls: Any) -> Writer:
        write = self._hooks.get_unstructure_hook(get_args(cls)[1])
        if write is identity:
            return identity
        return lambda members: {name: write(member) for name, member in members.items()}

    def _literal_reader(self, cls: Any) -> Reader:
        # The literals of the schema are strings.
        values = frozenset(get_args(cls))
        expected = " or ".join(f'"{value}"' for value in get_args(cls))

        def read_literal(value: Any, _: Any) -> Any:
            if value.__class__ is not str or value not in values:
                raise Mismatch(expected, value)
            return value

        return read_literal

    def _union_reader(self, cls: Any) -> Reader:
        choose = self._chooser(cls)
        if choose is None:
            return _scalar_reader(*get_args(cls))

        def read_union(value: Any, _: Any) -> Any:
            member, read = choose(value)
            return read(value, member)

        return read_union

    def _chooser(self, cls: Any) -> Callable[[Any], tuple[type, Reader]] | None:
        """Return the function that chooses the class of a union for a value; ``None`` for a union of scalars."""
        members = get_args(cls)
        if not all(attrs.has(member) for member in members):
            return None
        # The readers are made at first use, because a union may contain itself (a tool result has content blocks).
        readers: dict[type, Reader] = {}

        def chosen(member: type) -> tuple[type, Reader]:
            try:
                return member, readers[member]
            # No lock is needed, although messages are being read: there is no checkpoint here.
            except KeyError:
                return member, readers.setdefault(member, self.reader(member))

        if cls == ResourceContents:
            return lambda value: chosen(_choose_contents(value))
        if cls == ElicitParams:
            has_modes = self._has_class(ElicitURLParams)
            return lambda value: chosen(_choose_mode(value) if has_modes else ElicitFormParams)
        tag, known = self._tags(members)
        expected = " or ".join(f'"{value}"' for value in known)
        is_open = UnknownContent in members

        def choose(value: Any) -> tuple[type, Reader]:
            if value.__class__ is not dict:
                raise Mismatch("an object", value)
            name = value[tag]
            if name.__class__ is not str:
                raise Mismatch("a string", name, f".{tag}")
            member = known.get(name)
            if member is None:
                if not is_open:
                    raise Mismatch(expected, name, f".{tag}")
                member = UnknownContent
            return chosen(member)

        return choose

    def _tags(self, members: tuple[type, ...]) -> tuple[str, dict[str, type]]:
        """Return the tag that distinguishes the classes of a union, and the revision's classes by its values."""
        known: dict[str, type] = {}
        tag = ""
        for member in members:
            # A class without a tag is the fallback for content of unknown types.
            history = class_history(member)
            if history.tag is None:
                continue
            tag = history.tag
            if self._has_class(member):
                known[getattr(member, tag)] = member
        return camel(tag), known

    # Locating an error, after a reader has refused a value

    def _locate(self, value: Any, cls: Any, path: str) -> tuple[str, str, str]:
        """Return the path, the expected value and the actual one of the innermost refused part."""
        try:
            parts = list(self._parts(value, cls))
        except (Mismatch, KeyError):
            parts = []  # the class of the value cannot be determined
        for at, part, part_cls in parts:
            try:
                self.reader(part_cls)(part, part_cls)
            except (Mismatch, KeyError):
                return self._locate(part, part_cls, path + at)
        try:
            self.reader(cls)(value, cls)
        except Mismatch as error:
            # The path of the error is relative to the value.
            return path + error.at, error.expected, show_value(error.got)
        except KeyError as error:
            return path, f'a member "{error.args[0]}"', "none"
        raise AssertionError(f"{cls} refused a value and accepted it the second time")

    def _parts(self, value: Any, cls: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield the parts of a value, each with its relative path and its type."""
        if is_optional(cls):
            yield from self._parts(value, inner_type(cls))
        elif cls == SamplingContent and value.__class__ is dict:
            yield "", value, get_args(cls)[0]
        elif is_array(cls) and value.__class__ is list:
            for index, item in enumerate(value):
                yield f"[{index}]", item, get_args(cls)[0]
        elif is_object(cls) and value.__class__ is dict:
            for name, member in value.items():
                yield step(name), member, get_args(cls)[1]
        elif is_union(cls) and (choose := self._chooser(cls)) is not None:
            yield "", value, choose(value)[0]
        elif attrs.has(cls) and cls is not UnknownContent and value.__class__ is dict:
            for attribute, name, has in self._fields(cls):
                if has and name in value:
                    yield step(name), value[name], attribute.type


def _scalar_reader(*types: type) -> Reader:
    """Return the reader of a scalar, or of a union of scalars, as strict as JSON Schema 2020-12, Core 4.2.1."""
    expected = " or ".join(SCALARS[each] for each in types)
    # Exact classes, because a bool is an int in Python. An integer is a valid number.
    classes = (float, int) if types == (float,) else types

    def read_scalar(value: Any, _: Any) -> Any:
        if value.__class__ not in classes:
            raise Mismatch(expected, value)
        return value

    return read_scalar


def _choose_contents(value: Any) -> type:
    if value.__class__ is not dict:
        raise Mismatch("an object", value)
    # Contents have no tag, so the member with the data distinguishes them.
    if "text" in value:
        return TextResourceContents
    if "blob" in value:
        return BlobResourceContents
    raise Mismatch('an object with a member "text" or "blob"', value)


def _choose_mode(value: Any) -> type:
    if value.__class__ is not dict:
        raise Mismatch("an object", value)
    # Without a mode, a form is meant.
    mode = value.get("mode", "form")
    if mode == "form":
        return ElicitFormParams
    if mode == "url":
        return ElicitURLParams
    raise Mismatch('"form" or "url"', mode, ".mode")


def _read_unknown(value: Any, _: Any) -> UnknownContent:
    return UnknownContent(type=value["type"], raw=value)


def _write_unknown(model: UnknownContent) -> Any:
    return model.raw
