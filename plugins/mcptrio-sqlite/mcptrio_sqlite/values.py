"""Values of SQLite as JSON and back, without losing any of them.

Called for every cell of an answer, and every parameter. The one rule: what JSON can hold exactly is itself; anything
else is an object that says what it is. The same object as a parameter means the same value.

Source: sqlite.org/datatype3.html; RFC 8259 section 6 (integers beyond 2**53 are not safe).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypeAlias, TypedDict

from mcptrio import ToolError

__all__ = [
    "BrokenText",
    "Cell",
    "Parameter",
    "Parameters",
    "Special",
    "Value",
    "bound",
    "decoded_text",
    "readable",
    "shown",
]

_SAFE: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps."""


class Special(TypedDict, total=False):
    """A value that JSON has no form for, or only the beginning of one. Exactly one of base64, integer, real, text."""

    base64: Annotated[str, "The bytes of a blob."]
    integer: Annotated[str, "An integer beyond 2^53, in decimal."]
    real: Annotated[str, "Infinity or -Infinity."]
    text: Annotated[str, "The beginning of a text."]
    bytes: Annotated[int, "The size of the whole value."]
    truncated: Annotated[bool, "Only the beginning is here; substr() gets the rest."]
    is_text: Annotated[bool, "The bytes are a text that is not UTF-8."]


Cell: TypeAlias = int | float | str | Special | None
"""A value in an answer."""

Parameter: TypeAlias = bool | int | float | str | Special | None
Parameters: TypeAlias = list[Parameter] | dict[str, Parameter]
"""By position, or by name."""


class BrokenText(bytes):
    """A text that is not UTF-8, as the bytes that it is."""


Value: TypeAlias = "int | float | str | bytes | None"
"""What sqlite3 hands out; ``BrokenText`` included."""


def decoded_text(data: bytes) -> str | BrokenText:
    """For ``Connection.text_factory``: a text that is not UTF-8 must not fail the query."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return BrokenText(data)


def readable(value: Value) -> Value:
    """A value to be read by people: a text that is not UTF-8 with escapes for what is not."""
    return value.decode(errors="backslashreplace") if isinstance(value, BrokenText) else value


def shown(value: Value, limit: int) -> Cell:
    """A value as it is answered.

    Args:
        limit: bytes of a text or blob that are shown; the rest is cut off.
    """
    if value is None:
        return None
    if isinstance(value, int):
        return value if -_SAFE <= value <= _SAFE else Special(integer=str(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else Special(real="Infinity" if value > 0 else "-Infinity")
    if isinstance(value, str):
        if len(value) * 4 <= limit or (size := len(value.encode())) <= limit:
            return value
        return Special(text=value.encode()[:limit].decode(errors="ignore"), bytes=size, truncated=True)
    cell = Special(base64=base64.b64encode(value[:limit]).decode(), bytes=len(value))
    if len(value) > limit:
        cell["truncated"] = True
    if isinstance(value, BrokenText):
        cell["is_text"] = True
    return cell


def bound(parameters: Parameters | None) -> Sequence[Value] | Mapping[str, Value]:
    """Parameters as sqlite3 takes them.

    Raises:
        ToolError: an object does not say a value; the message says where.
    """
    if parameters is None:
        return ()
    if isinstance(parameters, dict):
        # Models write the names as they stand in the SQL, and without the sign.
        return {name.lstrip(":@$"): _value(value, f"params.{name}") for name, value in parameters.items()}
    return [_value(value, f"params[{position}]") for position, value in enumerate(parameters)]


def _value(parameter: Parameter, where: str) -> Value:
    if not isinstance(parameter, dict):
        return parameter
    try:
        if "base64" in parameter:
            return base64.b64decode(parameter["base64"], validate=True)
        if "integer" in parameter:
            return int(parameter["integer"])
        if "real" in parameter:
            return float(parameter["real"])
        if "text" in parameter:
            return parameter["text"]
    except (ValueError, binascii.Error) as error:
        raise ToolError(f"{error} @ {where}") from error
    raise ToolError(f"expected one of base64, integer, real and text in the object @ {where}")
