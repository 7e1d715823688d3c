"""Expansion of URI templates with values, as in a client.

The expansions of a client must match the template.

Source: RFC 6570, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote

from mcptrio.schema.uri_encoding import encode
from mcptrio.schema.uri_parts import Expression, Literal, Operator, Variable, parse

__all__ = ["Value", "expand"]

Value: TypeAlias = (
    "str | int | float | bool | Sequence[str | int | float | bool] | Mapping[str, str | int | float | bool] | None"
)
"""The value of a variable; ``None`` and empty lists are omitted (RFC 6570, 2.3)."""


def expand(template: str, values: Mapping[str, Value]) -> str:
    """Return the URI of a template with these values; variables without a value are left out.

    Raises:
        TypeError: A value is nested, or a list has a prefix modifier.
    """
    return "".join(part.text if isinstance(part, Literal) else _expand(part, values) for part in parse(template))


def _expand(part: Expression, values: Mapping[str, Value]) -> str:
    """Return the text of an expression; empty if none of its variables has a value.

    Raises:
        TypeError: A value is nested, or a list has a prefix modifier.
    """
    operator = part.operator
    pieces: list[str] = []
    for variable in part.variables:
        pieces.extend(_expand_variable(operator, variable, values.get(variable.name)))
    return operator.first + operator.separator.join(pieces) if pieces else ""


def _expand_variable(operator: Operator, variable: Variable, value: Value) -> list[str]:
    keep = operator.keeps_reserved
    if value is None:
        return []
    if isinstance(value, (str, int, float)):
        text = _text(variable.name, value)
        if variable.max_length is not None:
            text = text[: variable.max_length]
        return [_with_name(operator, variable.name, _encode(text, keep))]
    if variable.max_length is not None:
        raise TypeError(
            f"variable {variable.name!r}: a prefix can be taken of a string only, got {type(value).__name__}"
        )
    if isinstance(value, Mapping):
        pairs = [(_encode(key, keep), _encode(_text(variable.name, item), keep)) for key, item in value.items()]
        if not pairs:
            return []
        if variable.explodes:
            return [f"{key}={item}" for key, item in pairs]
        return [_with_name(operator, variable.name, ",".join(f"{key},{item}" for key, item in pairs))]
    items = [_encode(_text(variable.name, item), keep) for item in value]
    if not items:
        return []
    if variable.explodes:
        return [_with_name(operator, variable.name, item) for item in items]
    return [_with_name(operator, variable.name, ",".join(items))]


def _with_name(operator: Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else f"{name}{'=' if operator.first in '?&' else ''}"


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"variable {name!r}: expected a string or number, got {type(value).__name__}")


def _encode(text: str, keep_reserved: bool) -> str:
    return encode(text) if keep_reserved else quote(text, safe="-._~")
