"""Converts an API's response to content: JSON as structured content, text as text, images and audio as such, the rest
embedded.

Called at the end of each call. The result shows the response unchanged; one that is too large or does not match its
document is cut and marked as an error, but not corrected.

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

__all__ = ["Answer", "result_of"]

_ERROR_TEXT = 4000
"""Characters of a refusal's body that a model reads."""
_REPORTED_HEADERS = frozenset(
    {"location", "link", "retry-after", "content-range", "x-total-count", "deprecation", "sunset"}
)
"""Headers that are reported even if the document does not mention them."""
_NEVER_REPORTED_HEADERS = frozenset({"set-cookie", "authorization", "proxy-authenticate", "www-authenticate"})
_MAX_HEADERS = 30
_MAX_DEPTH = 48
"""Levels of a response. A whole message may have 64 by default, and receivers drop deeper ones."""
_TEXTUAL = re.compile(
    r"text/.*|application/(?:.*\+)?(?:xml|yaml|x-yaml|javascript|ecmascript|graphql|x-ndjson|ndjson|jsonl|sql|toml"
    r"|x-www-form-urlencoded|csv|x-sh)|image/svg\+xml|.*\+(?:xml|yaml)"
)
_JSON = re.compile(r"(?:application|text)/(?:.*\+)?json|application/json-.*")
_CODECS = re.compile(
    r"utf-(?:8|16|32).*|ascii|iso8859-.*|cp125.|latin.*|shift_jis.*|euc_.*|gb.*|big5.*|koi8-.|cp932|mac-roman"
)
"""The text encodings of the web. Python has others, one of which takes quadratic time."""


@frozen(kw_only=True)
class Answer:
    """One response of an API, read to its end or to a limit."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    is_cut: bool
    """The response exceeds the limit."""
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
        """``404 Not Found``; the server's own phrase is not used, for it may be anything."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)


def result_of(operation: Operation, answer: Answer, hide: Callable[[str], str]) -> CallToolResult:
    """The result of a call.

    Args:
        hide: takes secrets out of a text.

    Raises:
        ToolError: the API refused; the message has its reasons.
    """
    if answer.status >= 400:
        raise ToolError(_refusal(operation, answer, hide))
    note = _note(operation, answer, hide)
    if not answer.body:
        text = note or answer.phrase
        if operation.output_schema is not None:
            # Nothing in it is required, so nothing at all fits as well.
            return _fitting(operation, {}, text, None)
        return CallToolResult(content=(TextContent(text=text),))
    kind = answer.media_type
    if _JSON.fullmatch(kind) or _TEXTUAL.fullmatch(kind) or (not kind and _is_text(answer.body)):
        text = _decoded(answer)
        if answer.is_cut:
            return _cut(operation, answer, hide(text), note)
        value = _parsed(text) if _JSON.fullmatch(kind) or not kind else _NOT_JSON
        value, text = _hidden(value, text, hide)
        return _fitting(operation, _NOT_JSON if _is_deep(value, text) else value, text, note)
    if answer.is_cut:
        raise ToolError(
            f"{operation.label}: {answer.phrase}, but its {kind or 'binary'} answer has more than {len(answer.body)} "
            "bytes (max_response_bytes)"
        )
    valid = kind if re.fullmatch(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", kind, re.ASCII) else "application/octet-stream"
    blob = Blob(answer.body, valid, uri=answer.url).block()
    if operation.output_schema is not None:
        explanation = f"the API answered {answer.phrase} with {valid}, where its document has JSON"
        return CallToolResult(content=(TextContent(text=explanation), blob), is_error=True)
    return CallToolResult(content=(blob, TextContent(text=note)) if note else (blob,))


_NOT_JSON: Any = object()


def _fitting(operation: Operation, value: Any, text: str, note: str | None) -> CallToolResult:
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
        # Null for a field that is not there is what most APIs that break their schema do.
        for attempt in (value, _without_nulls(value)):
            try:
                operation.output_validator.validate(attempt)
                return CallToolResult(content=content, structured_content=attempt)
            except InvalidParams as error:
                problem = error.message
    explanation = f"the API answered with success, but not as its document says: {problem}. Its answer follows."
    return CallToolResult(content=(TextContent(text=explanation), *content), is_error=True)


def _cut(operation: Operation, answer: Answer, text: str, note: str | None) -> CallToolResult:
    """Return the beginning of a text that is too long. A cut JSON text is no JSON."""
    explanation = (
        f"[the first {len(answer.body)} bytes (max_response_bytes) of the answer; for the rest, ask for less with "
        "arguments for paging or choosing fields, if the operation has them]"
    )
    is_error = operation.output_schema is not None
    texts = (explanation, note, text) if note else (explanation, text)
    return CallToolResult(content=tuple(TextContent(text=each) for each in texts), is_error=is_error)


def _refusal(operation: Operation, answer: Answer, hide: Callable[[str], str]) -> str:
    text = f"{operation.label}: {answer.phrase}"
    if (later := answer.header("retry-after")) is not None:
        text += f" (retry after {shorten(later, 60)})"
    if answer.body and _is_text(answer.body[:2000]):
        decoded = _decoded(answer)
        body = shorten(_hidden(_parsed(decoded), decoded, hide)[1], _ERROR_TEXT)
        if body:
            text += f": {body}"
    return text


def _note(operation: Operation, answer: Answer, hide: Callable[[str], str]) -> str | None:
    """Return the status if it is not 200, and the meaningful headers; ``None`` if there are none."""
    headers: list[str] = []
    for name, value in answer.headers:
        key = name.lower()
        is_reported = key in _REPORTED_HEADERS or key in operation.headers or operation.method == "HEAD"
        if is_reported and key not in _NEVER_REPORTED_HEADERS and len(headers) < _MAX_HEADERS:
            headers.append(f"{name}: {shorten(hide(value), 1000)}")
    if answer.status == 200 and not headers:
        return None
    return "\n".join([answer.phrase, *headers])


def _decoded(answer: Answer) -> str:
    match = re.search(r"charset\s*=\s*\"?([\w.:-]{1,40})", answer.header("content-type") or "", re.ASCII)
    name = "utf-8"
    if match is not None:
        try:
            found = codecs.lookup(match[1]).name
            name = found if _CODECS.fullmatch(found) else name
        except LookupError:
            pass
    text = answer.body.decode(name, errors="replace")
    if answer.is_cut:
        text = text.rstrip("\ufffd")  # half a character
    return text.removeprefix("\ufeff")


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)  # half a character at the end is none of an error
    except UnicodeDecodeError:
        return False
    return True


def _parsed(text: str) -> Any:
    try:
        value = orjson.loads(text)
        orjson.dumps(value)  # it reads deeper nesting than it writes
    except (orjson.JSONDecodeError, TypeError):
        return _NOT_JSON
    return value


def _is_deep(value: Any, text: str) -> bool:
    """Whether a JSON value is nested deeper than a message may be; as a text it is not nested at all."""
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


def _hidden(value: Any, text: str, hide: Callable[[str], str]) -> tuple[Any, str]:
    """A JSON value and its text without secrets; in JSON a secret may be written in many ways."""
    if value is _NOT_JSON:
        return value, hide(text)
    clean = _walked(value, hide)
    return (value, text) if clean == value else (clean, orjson.dumps(clean).decode())


def _walked(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide(key): _walked(item, hide) for key, item in value.items()}
    if isinstance(value, list):
        return [_walked(item, hide) for item in value]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
