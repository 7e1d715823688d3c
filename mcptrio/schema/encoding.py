"""Values of authors as plain JSON types, with the public fields of classes only.

Used for structured content and for text that is made of a value. msgspec knows dates, enums, UUIDs and bytes; this
module replaces what msgspec refuses or would send in full: subclasses of text and numbers, other collections, and
attrs classes and dataclasses.
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
from mcptrio.schema.shapes import sent_names

__all__ = ["encode_value"]

_SAFE = frozenset({str, int, bool, type(None)})
_SAFE_FIELDS = _SAFE | {type(msgspec.UNSET)}
_TEXT = frozenset({str})
_BYTES = (bytes, bytearray, memoryview)


def encode_value(value: Any) -> Any:
    """Make plain JSON types of a value: attrs, dataclasses, enums, dates, sets, msgspec structs, pydantic models.

    NaN and the infinities become null, as in JSON. A tuple may stay one; to every encoder and validator it is an array.

    Raises:
        TypeError: A value in it has no JSON form; the message names its type and place.
    """
    # Nothing to look into: the usual case for a tool that returns text or a number.
    if type(value) in _SAFE:
        return value
    try:
        plain = _plain(value)
        try:
            return _to_builtins(plain)
        except TypeError as error:
            # msgspec's own error does not say where in the value the problem is.
            raise _refused(plain) or error from None
    except RecursionError:
        raise TypeError("expected a value that is not nested this deeply") from None


def _to_builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=dump_model)


def _refused(value: Any, path: str = "$") -> TypeError | None:
    """Return the error for the first part that has no JSON form; ``None`` if all parts have one."""
    if isinstance(value, dict):
        for key, item in value.items():
            # Each key is tried by itself, since msgspec writes some types as keys, such as UUIDs, and others not.
            if not _is_sent({key: None}):
                return TypeError(f"{path}: expected keys that are strings, got {_named(key)}")
            step = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
            if (found := _refused(item, f"{path}{step}")) is not None:
                return found
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            if (found := _refused(item, f"{path}[{number}]")) is not None:
                return found
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            item = getattr(value, name)
            if item is not msgspec.UNSET and (found := _refused(item, f"{path}.{name}")) is not None:
                return found
    elif not _is_sent(value):
        where = "" if path == "$" else f"{path}: "
        return TypeError(f"{where}{_named(value)} cannot be sent as JSON; {_remedy(value)}")
    return None


def _is_sent(value: Any) -> bool:
    try:
        _to_builtins(value)
    except TypeError:
        return False
    return True


def _named(value: Any) -> str:
    name = type_name(type(value))
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _remedy(value: Any) -> str:
    if iscoroutine(value):
        # Without this, Python would warn "never awaited" at a line of ours.
        value.close()
        return f"write `await {value.__name__}(…)`"
    return "return a string, a number, a list, a dict, a dataclass, or another class with declared fields"


def _plain(value: Any) -> Any:
    """Return the value with all parts replaced that msgspec would send wrongly."""
    kind: Any = type(value)
    if kind in _SAFE:
        return value
    if kind is float:
        # JSON has no NaN and no infinities.
        return value if math.isfinite(value) else None
    if kind is dict:
        # The dict needs no change; copying large results would double their cost.
        if _SAFE.issuperset(map(type, value.values())) and _TEXT.issuperset(map(type, value)):
            return value
        return {_key(key): _plain(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return value if _SAFE.issuperset(map(type, value)) else [_plain(item) for item in value]
    if issubclass(kind, msgspec.Struct):
        return _struct(value)
    names = _public(kind)
    if names is not None:
        # Attributes can be missing: a slot that was never set, or a field with init=False.
        found = ((name, getattr(value, name, msgspec.UNSET)) for name in names)
        return {name: _plain(item) for name, item in found if item is not msgspec.UNSET}
    return _other(value, kind)


def _other(value: Any, kind: type) -> Any:
    # msgspec and pydantic know these themselves.
    if isinstance(value, (Enum, *_BYTES)) or is_model(kind):
        return value
    # The methods of the base: a subclass may have its own.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return _plain(float.__float__(value))
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Collection):
        return [_plain(item) for item in value]
    return value


def _key(key: Any) -> Any:
    return str.__str__(key) if isinstance(key, str) and not isinstance(key, Enum) else key


def _struct(value: msgspec.Struct) -> msgspec.Struct:
    """A struct knows its names in JSON, so it is sent as one, with its fields made plain."""
    # A list of thousands of small structs is common, and almost all of their fields are plain.
    if _SAFE_FIELDS.issuperset([type(getattr(value, name)) for name in value.__struct_fields__]):
        return value
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        item = getattr(value, name)
        plain = item if item is msgspec.UNSET else _plain(item)
        if plain is not item:
            changed[name] = plain
    if not changed:
        return value
    copied = copy.copy(value)
    for name, plain in changed.items():
        msgspec.structs.force_setattr(copied, name, plain)
    return copied


# One entry per class of the program; classes are few, and made once.
@lru_cache(maxsize=1024)
def _public(kind: Any) -> tuple[str, ...] | None:
    """The fields of an attrs class or dataclass that are sent; ``None`` for other types."""
    if not (hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__dataclass_fields__")):
        return None
    return sent_names(kind)
