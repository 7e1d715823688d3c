"""The three formats of configuration files, with a check of each edit.

:mod:`mcptrio.cli.install.plans` uses them. The old and the new text are parsed and compared; only our entry may differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal, TypeAlias

from mcptrio.cli.install import json_text, toml_text, yaml_text
from mcptrio.cli.install.edits import Keys, Uneditable, Unreadable

__all__ = ["FormatName", "entry_at", "parse", "put", "remove"]

FormatName: TypeAlias = Literal["json", "toml", "yaml"]


_FORMATS: Mapping[FormatName, ModuleType] = {"json": json_text, "toml": toml_text, "yaml": yaml_text}


def parse(name: FormatName, text: str) -> Any:
    """Parse a configuration file's text in the given format.

    Raises:
        Unreadable: The text is not in this format.
    """
    return _FORMATS[name].parse(text)


def put(name: FormatName, text: str, keys: Keys, entry: Mapping[str, Any]) -> str:
    """Return the text with the entry under these keys.

    Raises:
        Unreadable: The text is not in this format.
        Uneditable: The edit would change more than the entry.
    """
    format = _FORMATS[name]
    before = format.parse(text)
    after = format.put(text, keys, entry)
    # The editors work on text. Parsing the result finds any mistake before the file is written.
    return _check(format, after, _with_entry(before, keys, entry), keys)


def remove(name: FormatName, text: str, keys: Keys) -> str:
    """Return the text without the entry under these keys; unchanged if there is none.

    Raises:
        Unreadable, Uneditable: As for :func:`put`.
    """
    format = _FORMATS[name]
    before = format.parse(text)
    # There is nothing to remove, so not a byte changes.
    if entry_at(before, keys) is None:
        return text
    return _check(format, format.remove(text, keys), _with_entry(before, keys, None), keys)


def entry_at(value: Any, keys: Keys) -> Any:
    """Return the value under these keys; ``None`` if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _check(format: ModuleType, text: str, expected: Any, keys: Keys) -> str:
    try:
        got = format.parse(text)
    except Unreadable:
        raise Uneditable(
            "expected a file that can be edited in place, got one that would be invalid afterwards"
        ) from None
    if not _is_same(_prune_empty_tables(got, keys), _prune_empty_tables(expected, keys)):
        raise Uneditable("expected a file that can be edited in place, got one in which other entries would change")
    return text


def _with_entry(value: Any, keys: Keys, entry: Mapping[str, Any] | None) -> Any:
    """Return a copy with the entry; ``None`` removes it."""
    key, *rest = keys
    copy = dict(value) if isinstance(value, Mapping) else {}
    if rest:
        copy[key] = _with_entry(copy.get(key), tuple(rest), entry)
    elif entry is None:
        copy.pop(key, None)
    else:
        copy[key] = entry
    return copy


def _prune_empty_tables(value: Any, keys: Keys) -> Any:
    """Remove empty tables around the entry: TOML has none, and YAML may write them as null."""
    if not isinstance(value, Mapping) or len(keys) < 2 or keys[0] not in value:
        return value
    inner = _prune_empty_tables(value[keys[0]], keys[1:])
    copy = {**value, keys[0]: inner}
    if inner is None or inner == {}:
        del copy[keys[0]]
    return copy


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of the same type: 1 differs from true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    # NaN differs from itself, and TOML and YAML can contain it.
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)
