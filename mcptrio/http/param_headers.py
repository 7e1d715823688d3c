"""Parameter headers repeat request parameters, so that intermediaries can route without parsing the body.

The server compares them (:func:`check_method`, :func:`check_parameters`), and the client writes them
(:func:`encode_value`). If header and body differ, the request is refused with HeaderMismatch; the server never uses the
header's value.

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

__all__ = ["ENCODED", "NAMES", "check_method", "check_parameters", "decode_value", "encode_value", "follow"]

NAMES: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods whose ``Mcp-Name`` mirrors a member of ``params``."""

ENCODED: Final = "=?base64?"
"""The beginning of a value in Base64."""
_SUFFIX: Final = "?="
_LEGAL: Final = re.compile(r"[\t\x20-\x7e]*")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
"""A decimal number. Its length is limited because the comparison of huge numbers takes long."""
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
    if plain and not (value.startswith(ENCODED) and value.endswith(_SUFFIX)):
        return value
    return ENCODED + b64encode(value.encode()).decode("ascii") + _SUFFIX


def decode_value(name: str, value: str) -> str:
    """Return the text of a header value. Only a value with both markers is decoded.

    Raises:
        HeaderMismatch: An illegal character, Base64 that is not canonical, or bytes that are not UTF-8.
    """
    if _LEGAL.fullmatch(value) is None:
        raise HeaderMismatch(f"header {name}: expected printable ASCII, got {_shown(value)}")
    if not (value.startswith(ENCODED) and value.endswith(_SUFFIX) and len(value) >= len(ENCODED) + len(_SUFFIX)):
        return value
    inner = value[len(ENCODED) : -len(_SUFFIX)]
    try:
        raw = b64decode(inner, validate=True)
        text = raw.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise HeaderMismatch(f"header {name}: expected Base64 of UTF-8, got {_shown(value)}") from error
    if b64encode(raw).decode("ascii") != inner:
        # b64decode ignores trailing bits. With two spellings of one value, a router and this server could disagree.
        raise HeaderMismatch(f"header {name}: expected canonical Base64, got {_shown(value)}")
    return text


def check_method(headers: Headers, request: Request) -> None:
    """Compare ``Mcp-Method`` and ``Mcp-Name`` with the body.

    Raises:
        HeaderMismatch: Missing, repeated, malformed or different.
    """
    method = headers.routing("mcp-method")
    if method != request.method:
        raise _mismatch("Mcp-Method", method, request.method)
    member = NAMES.get(request.method)
    if member is None:
        return
    header = headers.routing("mcp-name")
    expected = (request.params or {}).get(member)
    if not isinstance(expected, str):
        # The validation of the method reports what is wrong with the body; here only the header is checked.
        if header is not None:
            raise _mismatch("Mcp-Name", header, None)
        return
    if header is None or decode_value("Mcp-Name", header) != expected:
        raise _mismatch("Mcp-Name", header, expected)


def check_parameters(headers: Headers, arguments: Any, param_headers: Mapping[str, tuple[str, ...]]) -> None:
    """Compare the ``Mcp-Param-*`` headers of one tool with the arguments of the call.

    Args:
        arguments: ``params.arguments``, not validated.
        param_headers: Header name in lower case, without ``mcp-param-``, to the path of the argument.

    Raises:
        HeaderMismatch: Missing while the body has a value, repeated, malformed or different.
    """
    for name, path in param_headers.items():
        full = f"mcp-param-{name}"
        header = headers.routing(full)
        expected = follow(arguments, path)
        if header is None:
            if expected is not None:
                raise _mismatch(full, None, expected)
            continue
        text = decode_value(full, header)
        if expected is not None and not _agrees(text, expected):
            raise _mismatch(full, header, expected)


def follow(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path of properties; ``None`` if it is missing."""
    for member in path:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    return value


def _agrees(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # "integers SHOULD be compared numerically": 42.0 and 42 are equal.
        return _DECIMAL.fullmatch(text) is not None and Decimal(text) == Decimal(repr(value))
    if isinstance(value, str):
        return text == value
    # A list or an object instead of a scalar: the validation of the arguments refuses it with a better message.
    return True


def _mismatch(name: str, header: str | None, body: Any) -> HeaderMismatch:
    got = "no header" if header is None else _shown(header)
    return HeaderMismatch(f"header mismatch: {name} is expected to be {_shown(body)} as in the body, got {got}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "…"
