"""Converts an API's response to the result of a tool: structured content, text, an image, audio or other bytes.

``OperationCaller`` calls it at the end of each call. A response is not corrected: one that is too large is cut, and one
that does not match its document is marked as an error.

Source: MCP 2026-07-28, server/tools, "Tool Result"; RFC 9110, 8.3 and 15; RFC 6839.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson
from attrs import field, frozen

from mcptrio import Blob
from mcptrio.errors import InvalidParams, ToolError
from mcptrio.types import CallToolResult, TextContent

from .operations import Operation
from .problems import shorten

__all__ = ["APIResponse", "result_of"]

_MAX_ERROR_CHARS = 4000
"""Maximum number of characters of an error response's body that a model reads."""
_REPORTED_HEADERS = frozenset(
    {"location", "link", "retry-after", "content-range", "x-total-count", "deprecation", "sunset"}
)
"""Headers that are reported even if the document does not mention them."""
_NEVER_REPORTED_HEADERS = frozenset({"set-cookie", "authorization", "proxy-authenticate", "www-authenticate"})
_MAX_HEADERS = 30
_MAX_DEPTH = 48
"""Maximum depth of a response as structured content. By default, mcptrio refuses messages of more than 64 levels."""
_TEXTUAL = re.compile(
    r"text/.*|application/(?:.*\+)?(?:xml|yaml|x-yaml|javascript|ecmascript|graphql|x-ndjson|ndjson|jsonl|sql|toml"
    r"|x-www-form-urlencoded|csv|x-sh)|image/svg\+xml|.*\+(?:xml|yaml)"
)
_JSON = re.compile(r"(?:application|text)/(?:.*\+)?json|application/json-.*")
_CODECS = re.compile(
    r"utf-(?:8|16|32).*|ascii|iso8859-.*|cp125.|latin.*|shift_jis.*|euc_.*|gb.*|big5.*|koi8-.|cp932|mac-roman"
)
"""The text encodings of the web. Python has others; decoding one of them takes quadratic time."""


@frozen(kw_only=True)
class APIResponse:
    """A response of an API, read to its end or to a limit."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    is_cut: bool
    """True if the response exceeds the limit."""
    url: str
    """The URL of the response, without its query."""

    def header(self, name: str) -> str | None:
        """Return the first header with this name, which is in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def media_type(self) -> str:
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def phrase(self) -> str:
        """The status with the standard reason phrase, such as ``404 Not Found``. The server's phrase is not trusted."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)


def result_of(operation: Operation, response: APIResponse, redact: Callable[[str], str]) -> CallToolResult:
    """Return the result of a call.

    Args:
        redact: A function that removes secrets from a text.

    Raises:
        ToolError: The status is an error; the message contains the body.
    """
    if response.status >= 400:
        raise ToolError(_error_message(operation, response, redact))
    note = _status_note(operation, response, redact)
    if not response.body:
        text = note or response.phrase
        if operation.output_schema is not None:
            # The schemas of responses have no required fields, so an empty object is valid.
            return _validated_result(operation, {}, text, None)
        return CallToolResult(content=(TextContent(text=text),))
    kind = response.media_type
    if _JSON.fullmatch(kind) or _TEXTUAL.fullmatch(kind) or (not kind and _is_text(response.body)):
        text = _decoded_text(response)
        if response.is_cut:
            return _cut_result(operation, response, redact(text), note)
        value = _parsed_json(text) if _JSON.fullmatch(kind) or not kind else _NOT_JSON
        value, text = _redact(value, text, redact)
        return _validated_result(operation, _NOT_JSON if _is_deep(value, text) else value, text, note)
    if response.is_cut:
        raise ToolError(
            f"{operation.label}: {response.phrase}, but its {kind or 'binary'} response has more than "
            f"{len(response.body)} bytes (max_response_bytes)"
        )
    valid = kind if re.fullmatch(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", kind, re.ASCII) else "application/octet-stream"
    blob = Blob(response.body, valid, uri=response.url).block()
    if operation.output_schema is not None:
        explanation = f"the API answered {response.phrase} with {valid}, where its document has JSON"
        return CallToolResult(content=(TextContent(text=explanation), blob), is_error=True)
    return CallToolResult(content=(blob, TextContent(text=note)) if note else (blob,))


_NOT_JSON: Any = object()


def _validated_result(operation: Operation, value: Any, text: str, note: str | None) -> CallToolResult:
    # The server cuts texts at the end of a result, so the headers, which may lead to the next page, come first.
    content = (TextContent(text=note), TextContent(text=text)) if note else (TextContent(text=text),)
    if operation.output_validator is None:
        if isinstance(value, dict):
            return CallToolResult(content=content, structured_content=value)
        if isinstance(value, list):
            return CallToolResult(content=content, structured_content={"items": value})
        return CallToolResult(content=content)
    problem = "it is not JSON"
    if value is not _NOT_JSON:
        # Most responses that do not match their schema have null instead of a missing field.
        for attempt in (value, _without_nulls(value)):
            try:
                operation.output_validator.validate(attempt)
                return CallToolResult(content=content, structured_content=attempt)
            except InvalidParams as error:
                problem = error.message
    explanation = f"the API answered with success, but not as its document says: {problem}. Its answer follows."
    return CallToolResult(content=(TextContent(text=explanation), *content), is_error=True)


def _cut_result(operation: Operation, response: APIResponse, text: str, note: str | None) -> CallToolResult:
    """Return the beginning of a text that is too long. It is never structured content, because cut JSON is invalid."""
    explanation = (
        f"[the first {len(response.body)} bytes (max_response_bytes) of the answer; for the rest, ask for less with "
        "arguments for paging or choosing fields, if the operation has them]"
    )
    is_error = operation.output_schema is not None
    texts = (explanation, note, text) if note else (explanation, text)
    return CallToolResult(content=tuple(TextContent(text=each) for each in texts), is_error=is_error)


def _error_message(operation: Operation, response: APIResponse, redact: Callable[[str], str]) -> str:
    text = f"{operation.label}: {response.phrase}"
    if (later := response.header("retry-after")) is not None:
        text += f" (retry after {shorten(later, 60)})"
    if response.body and _is_text(response.body[:2000]):
        decoded = _decoded_text(response)
        body = shorten(_redact(_parsed_json(decoded), decoded, redact)[1], _MAX_ERROR_CHARS)
        if body:
            text += f": {body}"
    return text


def _status_note(operation: Operation, response: APIResponse, redact: Callable[[str], str]) -> str | None:
    """Return the status if it is not 200, and the meaningful headers; ``None`` if there are none."""
    headers: list[str] = []
    for name, value in response.headers:
        key = name.lower()
        is_reported = key in _REPORTED_HEADERS or key in operation.headers or operation.method == "HEAD"
        if is_reported and key not in _NEVER_REPORTED_HEADERS and len(headers) < _MAX_HEADERS:
            headers.append(f"{name}: {shorten(redact(value), 1000)}")
    if response.status == 200 and not headers:
        return None
    return "\n".join([response.phrase, *headers])


def _decoded_text(response: APIResponse) -> str:
    match = re.search(r"charset\s*=\s*\"?([\w.:-]{1,40})", response.header("content-type") or "", re.ASCII)
    name = "utf-8"
    if match is not None:
        try:
            encoding = codecs.lookup(match[1]).name
            name = encoding if _CODECS.fullmatch(encoding) else name
        except LookupError:
            pass
    text = response.body.decode(name, errors="replace")
    if response.is_cut:
        text = text.rstrip("\ufffd")  # an incomplete character at the cut
    return text.removeprefix("\ufeff")


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)  # an incremental decoder accepts an incomplete character at the end
    except UnicodeDecodeError:
        return False
    return True


def _parsed_json(text: str) -> Any:
    try:
        value = orjson.loads(text)
        orjson.dumps(value)  # raises for deep nesting, which orjson can read but not write
    except (orjson.JSONDecodeError, TypeError):
        return _NOT_JSON
    return value


def _is_deep(value: Any, text: str) -> bool:
    """Return whether a JSON value is nested too deeply for structured content. It is then sent only as text."""
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return False
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def _redact(value: Any, text: str, redact: Callable[[str], str]) -> tuple[Any, str]:
    """Return a JSON value and its text without secrets.

    The strings of the value are redacted, because escapes in JSON text can spell a secret in many ways.
    """
    if value is _NOT_JSON:
        return value, redact(text)
    redacted = _redacted_value(value, redact)
    return (value, text) if redacted == value else (redacted, orjson.dumps(redacted).decode())


def _redacted_value(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): _redacted_value(item, redact) for key, item in value.items()}
    if isinstance(value, list):
        return [_redacted_value(item, redact) for item in value]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
