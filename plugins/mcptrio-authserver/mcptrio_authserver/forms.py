"""Request parameters: parsed from a query, a form or a JSON body.

Source: RFC 6749 sections 3.1 and 3.2 (not more than once; without a value it is omitted); RFC 8707 section 2
(``resource`` may come more often; here a token has one audience).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from .refusals import Refusal

__all__ = ["MAX_BODY_BYTES", "body_of_request", "read_form", "read_json", "read_query"]

MAX_BODY_BYTES: Final = 64 * 1024
"""Largest body in bytes."""
# Longest query in bytes.
_MAX_QUERY_BYTES: Final = 16 * 1024
# Parameters of one request.
_MAX_FIELDS: Final = 50
_FORM: Final = "application/x-www-form-urlencoded"


async def body_of_request() -> bytes:
    """Return the whole body. Quart rejects one that is too large or too slow."""
    from quart import request

    body = await request.get_data()
    return body.encode() if isinstance(body, str) else body


def read_query(query: bytes) -> Mapping[str, str]:
    """Return the parameters of a query.

    Raises:
        Refusal: The query is too long, or repeats a parameter.
    """
    if len(query) > _MAX_QUERY_BYTES:
        raise Refusal("invalid_request", f"expected a query of at most {_MAX_QUERY_BYTES} bytes, got {len(query)}")
    return _read(query)


def read_form(body: bytes, content_type: str | None) -> Mapping[str, str]:
    """Return the parameters of a form.

    Raises:
        Refusal: The body is not a form, or repeats a parameter.
    """
    if (content_type or "").partition(";")[0].strip().lower() != _FORM:
        raise Refusal("invalid_request", f"expected a body of {_FORM}", status=415)
    return _read(body)


def read_json(body: bytes, content_type: str | None) -> Mapping[str, Any]:
    """Return the JSON object of a body.

    Raises:
        Refusal: The body is not a JSON object.
    """
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal("invalid_client_metadata", "expected a body of application/json", status=415)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise Refusal("invalid_client_metadata", "expected a JSON object")
    return document


def _read(text: bytes) -> Mapping[str, str]:
    try:
        # A name without a value counts as omitted (RFC 6749 section 3.1).
        pairs = parse_qsl(text.decode("utf-8"), max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        raise Refusal("invalid_request", f"expected at most {_MAX_FIELDS} parameters of UTF-8 text") from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        # Two readers could use different values of a repeated parameter.
        if name in parameters:
            error = "invalid_target" if name == "resource" else "invalid_request"
            raise Refusal(error, f"{name[:40]}: expected once, got twice")
        parameters[name] = value
    return parameters
