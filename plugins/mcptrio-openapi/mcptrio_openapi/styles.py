"""Encodes a value as a parameter, in one of seven styles.

It is called for each parameter of a request. All characters except the unreserved ones are percent-encoded; with
``allowReserved``, reserved characters without a meaning in a query are not encoded either. A value can never become a
second parameter, path segment or header.

The specification leaves some cases open. Here, an empty array, an empty object and null are omitted in a query, header
or cookie. In a path they are refused, as are ``.``, ``..`` and an empty string, because they would change the path.
``spaceDelimited`` and ``pipeDelimited`` with explode are encoded like ``form``. ``deepObject`` uses further brackets
for more than one level, and numbers the items of arrays.

Source: OpenAPI 3.1.1, 4.8.12.3 to 4.8.12.6 "Style Values", "Style Examples"; appendix C and E; RFC 6570, 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import orjson

from mcptrio.errors import ToolError

__all__ = ["STYLES", "Style", "cookie_pairs", "header_text", "path_text", "plain_text", "query_pairs"]

Style: TypeAlias = Literal["form", "simple", "label", "matrix", "spaceDelimited", "pipeDelimited", "deepObject"]

STYLES: Mapping[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles of parameters in each location; the first one is the default."""

_RESERVED = ":/?@!$'()*,;="
"""The reserved characters that ``allowReserved`` does not encode. These are missing: ``[ ] #`` are invalid in a query,
``&`` separates pairs, and ``+`` means a space."""
_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_MAX_DEPTH = 8


def path_text(name: str, value: Any, style: Style, *, explode: bool) -> str:
    """Return the text for ``{name}`` in the path.

    Raises:
        ToolError: The value is empty, or would change the path.
    """
    if value is None or value == "" or value == [] or value == {}:
        raise ToolError(f"expected a value that is not empty, since it is part of the path; got {value!r} at `{name}`")
    parts = _parts(name, value, quote_all)
    key = quote_all(name)
    if style == "matrix":
        if isinstance(value, Mapping) and explode:
            text = "".join(f";{field}={item}" for field, item in parts)
        elif isinstance(value, Sequence) and not isinstance(value, str) and explode:
            text = "".join(f";{key}={item}" for _, item in parts)
        else:
            text = f";{key}={_join_parts(parts, ',', value)}"
    elif style == "label":
        text = "." + _join_parts(parts, "." if explode else ",", value, explode=explode)
    else:
        text = _join_parts(parts, ",", value, explode=explode)
    if text in ("", ".", ".."):
        raise ToolError(f"expected a value other than '', '.' and '..' in the path, got {text!r} at `{name}`")
    return text


def query_pairs(name: str, value: Any, style: Style, *, explode: bool, reserved: bool = False) -> list[str]:
    """Return the ``name=value`` pairs of a query, encoded.

    Raises:
        ToolError: The value is nested deeper than the style can express.
    """
    if value is None:
        return []
    quoted = _quote_reserved if reserved else quote_all
    key = quote_all(name)
    if style == "deepObject" and isinstance(value, Mapping | list):
        return [
            f"{key}{''.join(f'%5B{quote_all(step)}%5D' for step in steps)}={quoted(text)}"
            for steps, text in _deep(name, value, ())
        ]
    if not isinstance(value, Mapping | list):
        return [f"{key}={quoted(plain_text(value))}"]
    parts = _parts(name, value, quoted)
    if not parts:
        return []
    if explode:
        return [f"{field or key}={text}" for field, text in parts]
    return [f"{key}={_join_parts(parts, _DELIMITERS.get(style, ','), value)}"]


def header_text(name: str, value: Any, *, explode: bool) -> str | None:
    """Return the value of a header, which is not percent-encoded; ``None`` if there is none.

    Raises:
        ToolError: The value contains a control character, which could end the header.
    """
    if value is None or value == [] or value == {}:
        return None
    text = _join_parts(_parts(name, value, str), ",", value, explode=explode)
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ToolError(f"expected a string without line ends and control characters at `{name}`")
    return text.strip()


def cookie_pairs(name: str, value: Any, *, explode: bool) -> list[str]:
    """Return the pairs of a ``Cookie`` header, encoded.

    Raises:
        ToolError: As ``query_pairs``.
    """
    return query_pairs(name, value, "form", explode=explode)


def plain_text(value: Any) -> str:
    """Return a scalar as text, and any other value as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return orjson.dumps(value).decode()


def quote_all(text: str) -> str:
    """Return the text with all characters percent-encoded except the unreserved ones."""
    return quote(text, safe="", errors="strict")


def _quote_reserved(text: str) -> str:
    return quote(text, safe=_RESERVED, errors="strict")


def _parts(name: str, value: Any, quoted: Any) -> list[tuple[str, str]]:
    """Return the encoded items of a value, each with its encoded name if it has one. Null items are omitted."""
    if isinstance(value, Mapping):
        return [
            (quoted(field), quoted(_flat(f"{name}.{field}", item))) for field, item in value.items() if item is not None
        ]
    if isinstance(value, list):
        return [("", quoted(_flat(f"{name}[{at}]", item))) for at, item in enumerate(value) if item is not None]
    return [("", quoted(plain_text(value)))]


def _flat(where: str, item: Any) -> str:
    if isinstance(item, Mapping | list):
        raise ToolError(
            f"expected a string, a number or a boolean, since this parameter has one level;"
            f" got {type(item).__name__} at `{where[:200]}`"
        )
    return plain_text(item)


def _join_parts(parts: list[tuple[str, str]], delimiter: str, value: Any, *, explode: bool = False) -> str:
    if not isinstance(value, Mapping):
        return delimiter.join(text for _, text in parts)
    if explode:
        return delimiter.join(f"{field}={text}" for field, text in parts)
    return delimiter.join(f"{field}{delimiter}{text}" for field, text in parts)


def _deep(name: str, value: Any, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if len(steps) > _MAX_DEPTH:
        raise ToolError(f"expected at most {_MAX_DEPTH} levels at `{name}`, got more")
    if isinstance(value, Mapping):
        for field, item in value.items():
            yield from _deep(name, item, (*steps, field))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _deep(name, item, (*steps, str(at)))
    elif value is not None:
        yield steps, plain_text(value)
