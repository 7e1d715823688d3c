"""Converts values between JSON and PostgreSQL's text form.

Parameters of a call become text, whose type the server infers. A value of a result is a JSON value if JSON can
represent it exactly, otherwise the text that PostgreSQL prints.

Source: PostgreSQL 15 documentation, 8.15.6 "Array Input and Output Syntax"; RFC 8259 section 6 (integers beyond 2**53
are not safe).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from mcptrio import ToolError

__all__ = ["BYTEA", "Cell", "Value", "encode_parameters", "to_cell"]

# Object ids of built-in types; they never change. Source: pg_type.dat of PostgreSQL.
_BOOL: Final = 16
BYTEA: Final = 17
_INTEGERS: Final = frozenset({20, 21, 23, 26})
_FLOATS: Final = frozenset({700, 701})
_JSON: Final = frozenset({114, 3802})
_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that all JSON readers preserve."""

Cell: TypeAlias = bool | int | float | str | None
"""A value in a result."""

Item: TypeAlias = bool | int | float | str | dict[str, Any] | None
# Some models' APIs refuse the schema of a list without a type for its items, so lists do not nest. The text form of an
# array with several dimensions is a value as well.
Value: TypeAlias = bool | int | float | str | list[Item] | dict[str, Any] | None
"""A value of a call. A list is an array of PostgreSQL, or JSON if the server expects that."""


def to_cell(data: bytes | None, type: int) -> Cell:
    """Convert a value of a result.

    Args:
        data: The value in PostgreSQL's text form; ``None`` for NULL.
        type: The oid of the type of the value.
    """
    if data is None:
        return None
    # A database with the encoding SQL_ASCII sends any bytes.
    text = data.decode(errors="backslashreplace")
    if type == _BOOL:
        return text == "t"
    if type in _INTEGERS:
        number = int(text)
        return number if -_MAX_SAFE_INTEGER <= number <= _MAX_SAFE_INTEGER else text
    if type in _FLOATS:
        real = float(text)
        return real if math.isfinite(real) else text
    return text


def encode_parameters(values: Sequence[Value], types: Sequence[int], *, limit: int) -> list[str | None]:
    """Convert the values of a call.

    Args:
        types: The oids of the types that the statement expects.
        limit: Maximum size of all values together, in bytes.

    Raises:
        ToolError: There are too few or too many values, they are too long, or PostgreSQL cannot represent one.
    """
    if len(values) != len(types):
        expected = f"{len(types)} values in params, for $1 to ${len(types)}" if types else "no params"
        raise ToolError(f"expected {expected}, got {len(values)}")
    encoded = [_text(value, type, at) for at, (value, type) in enumerate(zip(values, types, strict=True))]
    size = sum(len(each.encode(errors="replace")) for each in encoded if each is not None)
    if size > limit:
        raise ToolError(f"expected params of at most {limit} bytes (max_query_bytes), got {size}")
    return encoded


def _text(value: Value, type: int, at: int) -> str | None:
    if value is None:
        return None
    if type in _JSON and not isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list):
        return _array(value, at)
    text = _scalar(value)
    # PostgreSQL cannot represent NUL, and UTF-8 cannot represent a lone surrogate.
    if "\0" in text or not _is_unicode(text):
        raise ToolError(f"expected text without NUL and lone surrogates at `params[{at}]`")
    return text


def _array(values: list[Item], at: int) -> str:
    parts = []
    for value in values:
        if value is None:
            parts.append("NULL")
        else:
            text = _text(value, 0, at) or ""
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'"{escaped}"')
    return "{" + ",".join(parts) + "}"


def _scalar(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
