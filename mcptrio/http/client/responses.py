"""Reads the response to a client's POST: the message, or the reason for a refusal.

:mod:`mcptrio.http.client.link` uses it for each request. Every read is bounded.

Source: MCP 2025-11-25, basic/transports, "Sending Messages to the Server"; MCP 2026-07-28,
basic/transports/streamable-http, "Receiving Responses".
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from time import time
from typing import Final, TypeAlias

import trio
from attrs import define, field

from mcptrio.abc.links import Receiver
from mcptrio.errors import ConnectionClosed, MCPError, RequestFailed
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.endpoint import shown_url
from mcptrio.http.client.event_stream import EventStream, StreamPosition
from mcptrio.http.headers import EVENT_STREAM, JSON
from mcptrio.protocol.jsonrpc import decode
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Request,
    RequestId,
    Response,
)

__all__ = ["MAX_ERROR_BODY_BYTES", "Answer", "AnswerReader", "finish", "read_refusal", "read_retry_after", "refusal"]

_log = logging.getLogger("mcptrio.http.client")

Answer: TypeAlias = Response | ErrorResponse

MAX_ERROR_BODY_BYTES: Final = 64 * 1024
"""Bytes of a refusal's body that are read."""
ERROR_BODY_TIMEOUT: Final = 5.0
"""Seconds for reading a refusal's body. Without the body, the status alone is reported."""
LINGER_TIMEOUT: Final = 1.0
"""Seconds for the rest of a response after the answer."""
_MAX_QUOTED_CHARS: Final = 200
"""Characters of a server's text that an error repeats."""


@define
class AnswerReader:
    """Reads the answer to one request from one or more HTTP responses.

    Attributes:
        batches: True if the revision has batches.
        position: The position at which an event stream that has ended without the answer is resumed.
    """

    request: Request
    receive: Receiver
    batches: bool
    limits: MessageLimits
    position: StreamPosition = field(factory=StreamPosition)
    _malformed: str = field(default="", init=False)
    """The error in the last message of a stream, if that message was malformed."""
    _warned: bool = field(default=False, init=False)

    async def read(self, response: HTTPResponse) -> Answer | str:
        """Return the answer, or the reason why the event stream has ended without one.

        Passes other messages to the receiver. Does not close the response.

        Args:
            response: A response with status 200.

        Raises:
            RequestFailed: The response contains no answer to this request.
            ConnectionClosed: The connection was closed here.
        """
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            raise _unreadable_error(f"expected a body without Content-Encoding, got {_one_line(encoding)}")
        media_type = response.media_type
        if media_type == EVENT_STREAM:
            return await self._read_events(response)
        if media_type == JSON:
            return await self._read_json(response)
        got = _one_line(media_type) or "no Content-Type"
        raise _unreadable_error(f"expected {JSON} or {EVENT_STREAM}, got {got}")

    async def _read_json(self, response: HTTPResponse) -> Answer:
        body = await _read_body(response, self.limits.bytes)
        if not body:
            raise _unreadable_error("the body is empty")
        incoming = decode(body, self.limits)
        if isinstance(incoming, Malformed):
            raise _unreadable_error(incoming.reply.message)
        answer = self._find_answer(incoming)
        if answer is None:
            raise _unreadable_error("there is no response among the messages")
        return answer

    async def _read_events(self, response: HTTPResponse) -> Answer | str:
        stream = EventStream(response, self.position, self.limits)
        while (messages := await stream.read()) is not None:
            for incoming in messages:
                answer = self._find_answer(incoming)
                if answer is not None:
                    return answer
        if self._malformed:
            raise _unreadable_error(self._malformed)
        return stream.end

    def _find_answer(self, incoming: Incoming) -> Answer | None:
        """Return the answer in a message or batch, if any, and pass other messages on.

        Raises:
            RequestFailed: The message is the response to another request.
        """
        if not isinstance(incoming, Batch):
            return self._read_message(incoming)
        # A revision without batches forbids them in responses as well.
        if not self.batches:
            raise _unreadable_error("a batch, which this protocol revision does not have")
        answer: Answer | None = None
        others: list[RequestId | None] = []
        for message in incoming.messages:
            if isinstance(message, Response | ErrorResponse) and not self._is_ours(message.id):
                others.append(message.id)
            else:
                answer = self._read_message(message) or answer
        if answer is None and others:
            raise self._misdirected_response(others[0])
        return answer

    def _read_message(self, message: Message | Malformed) -> Answer | None:
        if isinstance(message, Response):
            if not self._is_ours(message.id):
                raise self._misdirected_response(message.id)
            return Response(self.request.id, message.result)
        if isinstance(message, ErrorResponse):
            # Without an id, the server could not read the request. The POST contained no other request.
            if message.id is not None and not self._is_ours(message.id):
                raise self._misdirected_response(message.id)
            return ErrorResponse(self.request.id, message.code, message.message, message.data)
        if isinstance(message, Malformed):
            # This may be a notification, without which the answer is still complete. If it is the answer, nothing
            # follows, and the error is reported at the end.
            level = logging.DEBUG if self._warned else logging.WARNING
            self._warned = True
            self._malformed = message.reply.message
            _log.log(level, "%s: ignored a malformed message: %s", self.request.method, _one_line(self._malformed))
            return None
        self._malformed = ""
        self.receive(message)
        return None

    def _is_ours(self, id: RequestId | None) -> bool:
        # Some servers return a number as a string.
        return id == self.request.id or (type(id) is str and id == str(self.request.id))

    def _misdirected_response(self, id: RequestId | None) -> RequestFailed:
        return _unreadable_error(f"expected a response to {self.request.id!r}, got one to {_one_line(repr(id))}")


async def read_refusal(response: HTTPResponse) -> RequestFailed:
    """Return the reason for a refusal, and close its response.

    Raises:
        ConnectionClosed: The connection was closed here.
    """
    body = bytearray()
    try:
        with trio.move_on_after(ERROR_BODY_TIMEOUT):
            while len(body) < MAX_ERROR_BODY_BYTES and (data := await response.read()):
                body += data
    except RequestFailed:
        pass  # the connection broke, and the status is enough
    finally:
        response.close()
    return refusal(response.status, response.headers, body, response.secrets)


def refusal(
    status: int, headers: Mapping[str, str], body: bytes | bytearray, secrets: Sequence[str] = ()
) -> RequestFailed:
    """Return the exception for a refusal.

    Args:
        headers: Names in lower case.
        body: The body, or its beginning.
        secrets: Secrets of the request, the longest first, which are replaced in the server's text.
    """
    if status in (301, 302, 303, 307, 308):
        location = shown_url(headers.get("location", ""))
        return RequestFailed(f"HTTP {status}: the server redirects to {location}; use that URL", status=status)
    if status < 300:
        return RequestFailed(f"HTTP {status}: expected an answer, got none", status=status)
    reply = _error_in(body)
    text = reply.message if reply is not None else body.decode(errors="replace")
    for secret in secrets:
        text = text.replace(secret, "***")
    if reply is not None and text != reply.message:
        reply = MCPError(text, code=reply.code, data=reply.data)
    problem = _one_line(text)
    # The markup of a web page would hide its text. The title says the same in a few words.
    if reply is None and "<html" in text[:_MAX_QUOTED_CHARS].lower():
        title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        # Express uses the title "Error" for every error, and has the reason in the text.
        is_telling = title is not None and title[1].strip().lower() not in ("", "error")
        page = _one_line(title[1] if title is not None and is_telling else re.sub(r"<[^<>]*>", " ", text))
        problem = f"expected an answer of an MCP server, got a web page: {page}"
    message = f"HTTP {status}: {problem}" if problem else f"HTTP {status}"
    return RequestFailed(message, status=status, reply=reply, retry_after=read_retry_after(headers))


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a ``Retry-After`` header; ``None`` if there is no readable value.

    Source: RFC 9110, section 10.2.3.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, OverflowError):
        return None


async def finish(response: HTTPResponse) -> None:
    """Read and drop the rest of a response, so that its connection can be reused."""
    try:
        with trio.move_on_after(LINGER_TIMEOUT):
            while await response.read():
                pass
    except (RequestFailed, ConnectionClosed):
        pass  # the connection cannot be reused
    finally:
        response.close()


async def _read_body(response: HTTPResponse, max_bytes: int) -> bytes:
    """Return a whole body.

    Raises:
        RequestFailed: The body is larger than ``max_bytes``, or the connection broke.
    """
    length = response.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 19 and int(length) > max_bytes:
        raise _unreadable_error(f"a body of {length} bytes: the limit is {max_bytes} bytes")
    parts = []
    size = 0
    while data := await response.read():
        parts.append(data)
        size += len(data)
        if size > max_bytes:
            raise _unreadable_error(f"a body of more than {max_bytes} bytes: that is the limit")
    return b"".join(parts)


def _error_in(body: bytes | bytearray) -> MCPError | None:
    """Return the JSON-RPC error in a refusal's body; of a batch, the first one."""
    incoming = decode(body, DEFAULT)
    messages = incoming.messages if isinstance(incoming, Batch) else (incoming,)
    for message in messages:
        if isinstance(message, ErrorResponse):
            return MCPError(message.message, code=message.code, data=message.data)
    return None


def _unreadable_error(message: str) -> RequestFailed:
    return RequestFailed(f"the answer cannot be read: {message}", status=200)


def _one_line(text: str) -> str:
    """Return a text of the server for an error message: bounded, on one line, without control characters."""
    words = " ".join(text[: 4 * _MAX_QUOTED_CHARS].split())
    line = "".join(each if each.isprintable() else "\ufffd" for each in words)
    return line[:_MAX_QUOTED_CHARS] + "…" if len(line) > _MAX_QUOTED_CHARS else line
