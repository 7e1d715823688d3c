"""Converts values of authors to plain JSON types. Private fields of classes are omitted.

Used for structured content and for text that is made from a value. msgspec converts dates, enums, UUIDs and bytes. This
module first replaces the values that msgspec refuses (subclasses of text and numbers, other collections) and those of
which it would send private fields (attrs classes and dataclasses).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping
from enum import Enum
from functools import lru_cache
from inspect import iscoroutine
from typing import Any

import msgspec

from mcptrio.ground.tracebacks import type_name
from mcptrio.schema.pydantic_models import dump_model, is_model
from mcptrio.schema.structs import sent_names

__all__ = ["encode_value"]

_PLAIN_TYPES = frozenset({str, int, bool, type(None)})
_PLAIN_FIELD_TYPES = _PLAIN_TYPES | {type(msgspec.UNSET)}
_TEXT_TYPES = frozenset({str})
_BYTES = (bytes, bytearray, memoryview)


def encode_value(value: Any) -> Any:
    """Convert a value to plain JSON types.

    The value may contain attrs classes, dataclasses, enums, dates, sets, msgspec structs and pydantic models. NaN and
    the infinities become null. A tuple may remain a tuple, which is an array for every encoder and validator.

    Raises:
        TypeError: A part of the value has no JSON form; the message has its type and place.
    """
    # The usual case: a tool returns text or a number.
    if type(value) in _PLAIN_TYPES:
        return value
    try:
        plain = _to_plain(value)
        try:
            return _to_builtins(plain)
        except TypeError as error:
            # The error of msgspec does not contain the place.
            raise _find_error(plain) or error from None
    except RecursionError:
        raise TypeError("expected a value that is not nested this deeply") from None


def _to_builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=dump_model)


def _find_error(value: Any, path: str = "$") -> TypeError | None:
    """Return the error for the first part that has no JSON form; ``None`` if all parts have one."""
    if isinstance(value, dict):
        for key, item in value.items():
            # Each key is tried alone, because msgspec encodes only some types as keys, such as UUIDs.
            if not _is_encodable({key: None}):
                return TypeError(f"{path}: expected keys that are strings, got {_type_with_article(key)}")
            step = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
            if (error := _find_error(item, f"{path}{step}")) is not None:
                return error
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            if (error := _find_error(item, f"{path}[{number}]")) is not None:
                return error
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            item = getattr(value, name)
            if item is not msgspec.UNSET and (error := _find_error(item, f"{path}.{name}")) is not None:
                return error
    elif not _is_encodable(value):
        where = "" if path == "$" else f"{path}: "
        return TypeError(f"{where}{_type_with_article(value)} cannot be sent as JSON; {_hint_for(value)}")
    return None


def _is_encodable(value: Any) -> bool:
    try:
        _to_builtins(value)
    except TypeError:
        return False
    return True


def _type_with_article(value: Any) -> str:
    name = type_name(type(value))
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _hint_for(value: Any) -> str:
    if iscoroutine(value):
        # Otherwise Python would warn that it was never awaited, at a line of mcptrio.
        value.close()
        return f"write `await {value.__name__}(…)`"
    return "return a string, a number, a list, a dict, a dataclass, or another class with declared fields"


def _to_plain(value: Any) -> Any:
    """Return the value in a form that msgspec converts correctly."""
    kind: Any = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if kind is float:
        # JSON has no NaN and no infinities.
        return value if math.isfinite(value) else None
    if kind is dict:
        # Returned without a copy, which would double the cost of a large result.
        if _PLAIN_TYPES.issuperset(map(type, value.values())) and _TEXT_TYPES.issuperset(map(type, value)):
            return value
        return {_key(key): _to_plain(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return value if _PLAIN_TYPES.issuperset(map(type, value)) else [_to_plain(item) for item in value]
    if issubclass(kind, msgspec.Struct):
        return _struct(value)
    names = _sent_fields(kind)
    if names is not None:
        # An attribute may be missing, for example a slot or a field with init=False that was never set.
        members = ((name, getattr(value, name, msgspec.UNSET)) for name in names)
        return {name: _to_plain(item) for name, item in members if item is not msgspec.UNSET}
    return _to_plain_other(value, kind)


def _to_plain_other(value: Any, kind: type) -> Any:
    # msgspec and pydantic convert these.
    if isinstance(value, (Enum, *_BYTES)) or is_model(kind):
        return value
    # The methods of the base class are called, because a subclass may override them.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return _to_plain(float.__float__(value))
    if isinstance(value, Mapping):
        return {_key(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, Collection):
        return [_to_plain(item) for item in value]
    return value


def _key(key: Any) -> Any:
    return str.__str__(key) if isinstance(key, str) and not isinstance(key, Enum) else key


def _struct(value: msgspec.Struct) -> msgspec.Struct:
    """Return a struct with plain fields. It remains a struct, because that has the names of its fields in JSON."""
    # Fast for the usual struct, whose fields are all plain: a result may have thousands of structs.
    if _PLAIN_FIELD_TYPES.issuperset([type(getattr(value, name)) for name in value.__struct_fields__]):
        return value
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        item = getattr(value, name)
        plain = item if item is msgspec.UNSET else _to_plain(item)
        if plain is not item:
            changed[name] = plain
    if not changed:
        return value
    copied = copy.copy(value)
    for name, plain in changed.items():
        msgspec.structs.force_setattr(copied, name, plain)
    return copied


@lru_cache(maxsize=1024)
def _sent_fields(kind: Any) -> tuple[str, ...] | None:
    """Return the fields of an attrs class or dataclass that are sent; ``None`` for any other type."""
    if not (hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__dataclass_fields__")):
        return None
    return sent_names(kind)
