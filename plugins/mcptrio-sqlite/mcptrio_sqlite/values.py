"""Converts values of SQLite to JSON and back without loss.

Every cell of a result and every parameter is converted here. A value that JSON can represent exactly is unchanged. Any
other value becomes an object, which a call can pass as a parameter to get the same value.

Source: sqlite.org/datatype3.html; RFC 8259 section 6 (integers beyond 2**53 are not safe).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypedDict

from mcptrio import ToolError

__all__ = [
    "BrokenText",
    "Cell",
    "Parameter",
    "Parameters",
    "Special",
    "Value",
    "checked_parameters",
    "decoded_text",
    "escaped_text",
    "to_cell",
    "to_sqlite",
]

_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that all JSON readers preserve."""


class Special(TypedDict, total=False):
    """A value that JSON cannot represent, or the beginning of a long value.

    It has exactly one of base64, integer, real and text.
    """

    base64: Annotated[str, "Bytes of a blob."]
    integer: Annotated[str, "An integer beyond 2^53, in decimal."]
    real: Annotated[str, "Infinity or -Infinity."]
    text: Annotated[str, "Beginning of a text."]
    bytes: Annotated[int, "Size of the whole value."]
    truncated: Annotated[bool, "Only the beginning is included; substr() returns the rest."]
    is_text: Annotated[bool, "The bytes are text that is not UTF-8."]


Cell: TypeAlias = int | float | str | Special | None
"""A value in a result."""

# to_sqlite() checks the members of an object. A schema for them would be repeated in the definition of each tool.
Parameter: TypeAlias = bool | int | float | str | dict[str, Any] | None
Parameters: TypeAlias = list[Parameter] | dict[str, Any]
"""Parameters by position or by name."""


class BrokenText(bytes):
    """The bytes of a text that is not UTF-8."""


Value: TypeAlias = "int | float | str | bytes | None"
"""A value as returned by sqlite3, including ``BrokenText``."""


def decoded_text(data: bytes) -> str | BrokenText:
    """Decode a text for ``Connection.text_factory``. Invalid UTF-8 must not make the query fail."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return BrokenText(data)


def escaped_text(value: Value) -> Value:
    """Return a value for display, with escapes instead of invalid UTF-8."""
    return value.decode(errors="backslashreplace") if isinstance(value, BrokenText) else value


def to_cell(value: Value, limit: int) -> Cell:
    """Convert a value for a result.

    Args:
        limit: Maximum number of bytes of a text or blob; the rest is cut.
    """
    if value is None:
        return None
    if isinstance(value, int):
        return value if -_MAX_SAFE_INTEGER <= value <= _MAX_SAFE_INTEGER else Special(integer=str(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else Special(real="Infinity" if value > 0 else "-Infinity")
    if isinstance(value, str):
        # A character has at most four bytes in UTF-8, so short texts need not be encoded.
        if len(value) * 4 <= limit or (size := len(value.encode())) <= limit:
            return value
        # "ignore" drops a character that the limit cuts in two.
        return Special(text=value.encode()[:limit].decode(errors="ignore"), bytes=size, truncated=True)
    cell = Special(base64=base64.b64encode(value[:limit]).decode(), bytes=len(value))
    if len(value) > limit:
        cell["truncated"] = True
    if isinstance(value, BrokenText):
        cell["is_text"] = True
    return cell


def checked_parameters(parameters: Parameters) -> Parameters | None:
    """Check the values of a call; return ``None`` if there are none.

    Raises:
        ToolError: A value is not valid; the message names its location.
    """
    to_sqlite(parameters)
    return parameters or None


def to_sqlite(parameters: Parameters | None) -> Sequence[Value] | Mapping[str, Value]:
    """Convert parameters for sqlite3.

    Raises:
        ToolError: An object is not a valid value; the message names its location.
    """
    if parameters is None:
        return ()
    if isinstance(parameters, dict):
        # Models write names with and without the prefix that they have in the SQL.
        return {name.lstrip(":@$"): _value(value, f"params.{name}") for name, value in parameters.items()}
    return [_value(value, f"params[{position}]") for position, value in enumerate(parameters)]


def _value(parameter: Any, where: str) -> Value:
    if parameter is None or isinstance(parameter, bool | int | float | str):
        return parameter
    if not isinstance(parameter, dict):
        raise ToolError(f"expected a string, a number, a boolean, null or an object, got a list at `{where}`")
    for name in ("base64", "integer", "real", "text"):
        if not isinstance(parameter.get(name, ""), str):
            raise ToolError(f"expected a string at `{where}.{name}`")
    try:
        if "base64" in parameter:
            return base64.b64decode(parameter["base64"], validate=True)
        if "integer" in parameter:
            return int(parameter["integer"])
        if "real" in parameter:
            return float(parameter["real"])
        if "text" in parameter:
            return str(parameter["text"])
    except (ValueError, binascii.Error) as error:
        raise ToolError(f"{error} at `{where}`") from error
    raise ToolError(f"expected one of base64, integer, real and text in the object, got none at `{where}`")
