"""Makes the request of a tool call: its URL, headers and body.

``OperationCaller`` calls it once for each call. The URL always begins with the base URL, and no argument can change the
segments of the path template.

Source: OpenAPI 3.1.1, 4.8.12 and appendix E; RFC 3986, 3.3; RFC 6265, 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson
from attrs import field, frozen

from mcptrio.errors import ToolError

from .bodies import Part, encode_form, encode_parts, encode_whole
from .operations import Operation
from .parameters import Parameter
from .styles import cookie_pairs, header_text, path_text, query_pairs

__all__ = ["Draft", "draft_request"]

_MAX_URL_CHARS = 32_768
_VARIABLE = re.compile(r"\{([^{}]*)\}")


@frozen(kw_only=True)
class Draft:
    """A request without credentials."""

    method: str
    url: str
    """The URL without a query."""
    query: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[str, ...] = ()
    content: bytes | None = field(default=None, repr=False)
    parts: tuple[Part, ...] | None = field(default=None, repr=False)


def draft_request(operation: Operation, arguments: Mapping[str, Any], max_bytes: int) -> Draft:
    """Return the request for a call.

    Args:
        arguments: The arguments, which match the input schema.
        max_bytes: Maximum size of the body.

    Raises:
        ToolError: An argument cannot be sent.
    """
    path: dict[str, str] = {}
    query: list[str] = []
    headers: list[tuple[str, str]] = []
    cookies: list[str] = []
    for parameter in operation.parameters:
        if parameter.argument not in arguments:
            continue
        value = arguments[parameter.argument]
        if parameter.is_json:
            value = orjson.dumps(value).decode()
        try:
            _add_parameter(parameter, value, path, query, headers, cookies)
        except UnicodeEncodeError as error:
            raise ToolError(f"expected a string without lone surrogates at `{parameter.argument}`") from error
    filled = _VARIABLE.sub(lambda match: path[match[1]], operation.path)
    if any(segment.replace("%2E", ".").replace("%2e", ".") in (".", "..") for segment in filled.split("/")):
        # path_text() checks single values, but a segment may consist of several values and texts.
        raise ToolError("expected arguments that make no path segment '.' or '..', got one in the path of the request")
    url = operation.base_url + filled
    if len(url) + sum(map(len, query)) > _MAX_URL_CHARS:
        raise ToolError(f"expected arguments that make a URL of at most {_MAX_URL_CHARS} characters, got more")
    content, parts, content_type = _body(operation, arguments, max_bytes)
    if content_type is not None:
        headers.append(("Content-Type", content_type))
    return Draft(
        method=operation.method,
        url=url,
        query=tuple(query),
        headers=tuple(headers),
        cookies=tuple(cookies),
        content=content,
        parts=parts,
    )


def _add_parameter(
    parameter: Parameter,
    value: Any,
    path: dict[str, str],
    query: list[str],
    headers: list[tuple[str, str]],
    cookies: list[str],
) -> None:
    name, explode = parameter.name, parameter.explode
    if parameter.location == "path":
        path[name] = path_text(name, value, parameter.style, explode=explode)
    elif parameter.location == "query":
        query += query_pairs(name, value, parameter.style, explode=explode, reserved=parameter.reserved)
    elif parameter.location == "header":
        text = header_text(name, value, explode=explode)
        if text is not None:
            headers.append((name, text))
    else:
        cookies += cookie_pairs(name, value, explode=explode)


def _body(
    operation: Operation, arguments: Mapping[str, Any], max_bytes: int
) -> tuple[bytes | None, tuple[Part, ...] | None, str | None]:
    body = operation.body
    if body is None or body.argument not in arguments:
        return None, None, None
    value = arguments[body.argument]
    parts: tuple[Part, ...] | None = None
    content: bytes | None = None
    try:
        if body.kind == "multipart":
            parts = tuple(encode_parts(body, value))
            size = sum(len(data) for _, (_, data, _) in parts)
        else:
            content = encode_form(body, value) if body.kind == "form" else encode_whole(body, value)
            size = len(content)
    except (UnicodeEncodeError, TypeError) as error:  # orjson's error is a TypeError
        raise ToolError(f"expected a JSON value without lone surrogates at `{body.argument}`") from error
    if size > max_bytes:
        raise ToolError(f"expected a body of at most {max_bytes} bytes at `{body.argument}`, got {size}")
    # httpx2 sets the media type of multipart, because it chooses the boundary.
    return content, parts, body.media_type if parts is None else None
