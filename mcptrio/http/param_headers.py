"""Headers that repeat parameters of a request, so that intermediaries can route without parsing the body.

The server compares them with the body (:func:`check_method`, :func:`check_parameters`), and the client writes them
(:func:`encode_value`). If header and body differ, the server refuses the request with HeaderMismatch. It uses only the
values of the body.

Source: MCP 2026-07-28, basic/transports/streamable-http, "Standard Headers", "Custom Headers from Tool Parameters",
"Value Encoding" (SEP-2243).
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from mcptrio.errors import HeaderMismatch
from mcptrio.http.headers import Headers
from mcptrio.protocol.messages import Request

__all__ = [
    "BASE64_PREFIX",
    "NAME_PARAMS",
    "check_method",
    "check_parameters",
    "decode_value",
    "encode_value",
    "value_at",
]

NAME_PARAMS: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""By method, the member of ``params`` that the header ``Mcp-Name`` repeats."""

BASE64_PREFIX: Final = "=?base64?"
"""The beginning of a header value in Base64."""
_BASE64_SUFFIX: Final = "?="
_LEGAL: Final = re.compile(r"[\t\x20-\x7e]*")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
"""A decimal number. Its length is limited because comparing huge numbers takes long."""
_MAX_QUOTED_CHARS: Final = 80
"""Characters of a peer's value that an error message repeats."""


def encode_value(value: str | int | bool) -> str:
    """Return the header value for a parameter: plain if possible, otherwise Base64 in ``=?base64?`` and ``?=``."""
    # First, because bool is a subclass of int.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith(BASE64_PREFIX) and value.endswith(_BASE64_SUFFIX)):
        return value
    return BASE64_PREFIX + b64encode(value.encode()).decode("ascii") + _BASE64_SUFFIX


def decode_value(name: str, value: str) -> str:
    """Return the text of a header value. Only a value with both markers is decoded.

    Raises:
        HeaderMismatch: The value has an illegal character, Base64 that is not canonical, or bytes that are not UTF-8.
    """
    if _LEGAL.fullmatch(value) is None:
        raise HeaderMismatch(f"header {name}: expected printable ASCII, got {_quote(value)}")
    if not (
        value.startswith(BASE64_PREFIX)
        and value.endswith(_BASE64_SUFFIX)
        and len(value) >= len(BASE64_PREFIX) + len(_BASE64_SUFFIX)
    ):
        return value
    inner = value[len(BASE64_PREFIX) : -len(_BASE64_SUFFIX)]
    try:
        raw = b64decode(inner, validate=True)
        text = raw.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise HeaderMismatch(f"header {name}: expected Base64 of UTF-8, got {_quote(value)}") from error
    if b64encode(raw).decode("ascii") != inner:
        # b64decode ignores trailing bits. With two spellings of one value, a router and this server could disagree.
        raise HeaderMismatch(f"header {name}: expected canonical Base64, got {_quote(value)}")
    return text


def check_method(headers: Headers, request: Request) -> None:
    """Compare ``Mcp-Method`` and ``Mcp-Name`` with the body.

    Raises:
        HeaderMismatch: A header is missing, repeated or malformed, or differs from the body.
    """
    method = headers.single("mcp-method")
    if method != request.method:
        raise _mismatch("Mcp-Method", method, request.method)
    member = NAME_PARAMS.get(request.method)
    if member is None:
        return
    header = headers.single("mcp-name")
    expected = (request.params or {}).get(member)
    if not isinstance(expected, str):
        # The validation of the params reports the error in the body. Only the header is checked here.
        if header is not None:
            raise _mismatch("Mcp-Name", header, None)
        return
    if header is None or decode_value("Mcp-Name", header) != expected:
        raise _mismatch("Mcp-Name", header, expected)


def check_parameters(headers: Headers, arguments: Any, param_headers: Mapping[str, tuple[str, ...]]) -> None:
    """Compare the ``Mcp-Param-*`` headers of one tool with the arguments of the call.

    Args:
        arguments: The member ``arguments`` of the params, which is not validated yet.
        param_headers: Maps each header name, in lower case and without ``mcp-param-``, to the path of its argument.

    Raises:
        HeaderMismatch: A header is repeated or malformed, differs from the body, or is missing although the body has
            a value.
    """
    for name, path in param_headers.items():
        header_name = f"mcp-param-{name}"
        header = headers.single(header_name)
        expected = value_at(arguments, path)
        if header is None:
            if expected is not None:
                raise _mismatch(header_name, None, expected)
            continue
        text = decode_value(header_name, header)
        if expected is not None and not _is_equal(text, expected):
            raise _mismatch(header_name, header, expected)


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path of properties; ``None`` if it is missing."""
    for member in path:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    return value


def _is_equal(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # "integers SHOULD be compared numerically": 42.0 and 42 are equal.
        return _DECIMAL.fullmatch(text) is not None and Decimal(text) == Decimal(repr(value))
    if isinstance(value, str):
        return text == value
    # A list or an object instead of a scalar. The validation of the arguments refuses it with a better message.
    return True


def _mismatch(name: str, header: str | None, body: Any) -> HeaderMismatch:
    got = "no header" if header is None else _quote(header)
    return HeaderMismatch(f"header mismatch: {name} is expected to be {_quote(body)} as in the body, got {got}")


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "…"
