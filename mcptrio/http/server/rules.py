"""Decides what to do with an HTTP request, without I/O and without a clock.

``HTTPApp`` calls :func:`check_head` before it reads the body, then :func:`check_post` with the decoded body or
:func:`check_bodiless` for GET and DELETE. It calls :func:`check_upgrade` for a WebSocket and :func:`check_page` for
other pages. The first check that fails decides. The order is: head, parsing, envelope, headers against body, parameter
headers. By precedence, version, method and client capability come between the last two. The engine checks them later,
with the same result, because a tool whose method is not served has no parameter headers.

Source: MCP 2026-07-28, basic/transports/streamable-http; MCP 2025-11-25, basic/transports, "Streamable HTTP".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final, TypeAlias

from attrs import frozen

from mcptrio.errors import Code, HeaderMismatch, InvalidParams, InvalidRequest, MCPError, Overloaded, RateLimited
from mcptrio.ground.refusals import HTTPRefusalReason
from mcptrio.http.headers import EVENT_STREAM, JSON, JSON_AND_EVENTS, Headers, accepts, is_json
from mcptrio.http.param_headers import BASE64_PREFIX, NAME_PARAMS, check_method, check_parameters
from mcptrio.http.subprotocol import SUBPROTOCOL
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, Envelope
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
)
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, MODERN_VERSIONS

__all__ = [
    "SESSION_ID",
    "STREAMABLE",
    "VERSION",
    "AnswerMessage",
    "Decision",
    "Deliver",
    "EndSession",
    "HTTPRefusal",
    "Initialize",
    "Listen",
    "Resume",
    "check_bodiless",
    "check_head",
    "check_page",
    "check_post",
    "check_upgrade",
    "status_of",
]

VERSION: Final = "mcp-protocol-version"
SESSION_ID: Final = "mcp-session-id"
STREAMABLE: Final = ("POST", "GET", "DELETE")
"""The methods of the endpoint of Streamable HTTP."""
_LAST_EVENT_ID: Final = "last-event-id"

_STATUSES: Final[Mapping[int, int]] = {
    Code.PARSE_ERROR: 400,
    Code.INVALID_REQUEST: 400,
    Code.INVALID_PARAMS: 400,
    Code.HEADER_MISMATCH: 400,
    Code.MISSING_CLIENT_CAPABILITY: 400,
    Code.UNSUPPORTED_PROTOCOL_VERSION: 400,
    Code.METHOD_NOT_FOUND: 404,
}


@frozen
class HTTPRefusal:
    """The response to a request that is refused.

    Args:
        reason: The reason for metrics; ``None`` if the status tells it.
    """

    status: int
    error: ErrorResponse | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    reason: HTTPRefusalReason | None = None

    @classmethod
    def because(
        cls, status: int, message: str, *headers: tuple[bytes, bytes], reason: HTTPRefusalReason | None = None
    ) -> HTTPRefusal:
        """Return a refusal whose body is an error without an id."""
        # The code is not -32601 or -32022, from which clients conclude which revisions the server has.
        return cls(status, ErrorResponse(None, int(Code.INVALID_REQUEST), message), headers, reason)

    @classmethod
    def overloaded(cls, error: Overloaded, id: RequestId | None = None) -> HTTPRefusal:
        """Return a 503, or a 429 if the client sends too often, with the seconds after which to try again."""
        status = 429 if isinstance(error, RateLimited) else 503
        after = b"%d" % max(1, ceil(error.retry_after))
        return cls(status, ErrorResponse.of(id, error), ((b"retry-after", after),))


@frozen
class AnswerMessage:
    """A self-contained message of a per-request revision."""

    message: Request | Notification


@frozen
class Initialize:
    """A new session."""

    request: Request


@frozen
class Deliver:
    """A message or a batch for a session."""

    session: str
    incoming: Message | Batch


@frozen
class Listen:
    """Open the session's own stream."""

    session: str


@frozen
class Resume:
    """Resume a stream of the session after an event."""

    session: str
    event_id: str


@frozen
class EndSession:
    """End the session."""

    session: str


Decision: TypeAlias = HTTPRefusal | AnswerMessage | Initialize | Deliver | Listen | Resume | EndSession


def status_of(error: ErrorResponse) -> int:
    """Return the status of a response that consists of this error only, in a per-request revision."""
    # An error that a handler has raised gets 200, because the HTTP exchange has succeeded.
    return _STATUSES.get(error.code, 200)


def check_head(
    method: str, headers: Headers, *, methods: tuple[str, ...] = STREAMABLE, header_bytes: int, body_bytes: int
) -> HTTPRefusal | None:
    """Check a request before its body is read; ``None`` accepts it.

    Args:
        methods: The methods of the path.
    """
    refusal = _check_headers(headers, header_bytes)
    if refusal is not None:
        return refusal
    length = headers.get("content-length")
    if method not in methods:
        allowed = ", ".join(methods)
        return HTTPRefusal.because(405, f"expected {allowed}, got {method[:20]}", (b"allow", allowed.encode("ascii")))
    accept = headers.get("accept")
    if method == "POST":
        # No real length has 19 digits, and int() of a long string takes quadratic time.
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 19):
            return HTTPRefusal.because(400, "Content-Length: expected an integer")
        if length is not None and int(length) > body_bytes:
            return HTTPRefusal.because(413, f"body of {length} bytes: the limit is {body_bytes} bytes")
        if (coding := headers.get("content-encoding", "identity").strip().lower()) != "identity":
            # RFC 9110 section 12.5.3: Accept-Encoding tells the client which codings it may use.
            message = f"Content-Encoding: expected none, got {coding[:20]}"
            return HTTPRefusal.because(415, message, (b"accept-encoding", b"identity"))
        media = headers.get("content-type")
        if media != JSON and not is_json(media):
            return HTTPRefusal.because(415, f"Content-Type: expected {JSON}, in UTF-8")
        if accept != JSON_AND_EVENTS and not accepts(accept, JSON) and not accepts(accept, EVENT_STREAM):
            return HTTPRefusal.because(406, f"Accept: expected {JSON} and {EVENT_STREAM}")
    elif method == "GET" and not (accept and accepts(accept, EVENT_STREAM)):
        return HTTPRefusal.because(406, f"Accept: expected {EVENT_STREAM}")
    return None


def check_page(method: str, methods: tuple[str, ...]) -> HTTPRefusal | None:
    """Return the response to ``OPTIONS`` and to a method that a page does not have."""
    if method in methods:
        return None
    return HTTPRefusal(
        # 204 with Allow answers a plain OPTIONS (RFC 9110 section 9.3.7).
        204 if method == "OPTIONS" else 405,
        None,
        ((b"allow", ", ".join((*methods, "OPTIONS")).encode()),),
    )


def check_upgrade(headers: Headers, subprotocols: Sequence[str], *, header_bytes: int) -> HTTPRefusal | None:
    """Return the refusal of a WebSocket; ``None`` accepts it.

    Args:
        subprotocols: The subprotocols that the client offers.
    """
    refusal = _check_headers(headers, header_bytes)
    if refusal is None and SUBPROTOCOL not in subprotocols:
        got = ", ".join(subprotocols)[:80] or "none"
        return HTTPRefusal.because(400, f"Sec-WebSocket-Protocol: expected {SUBPROTOCOL}, got {got}")
    return refusal


def check_post(
    headers: Headers, incoming: Incoming, param_headers: Callable[[str], Mapping[str, tuple[str, ...]]]
) -> Decision:
    """Decide about a POST.

    Args:
        param_headers: Returns the parameter headers of a tool; the engine's ``param_headers``.
    """
    if isinstance(incoming, Malformed):
        return HTTPRefusal(400, incoming.reply)
    modern = headers.get(VERSION) in MODERN_VERSIONS
    if isinstance(incoming, Request):
        if modern or (incoming.params and "_meta" in incoming.params and Envelope.is_present(incoming.params)):
            return _check_request(headers, incoming, param_headers)
        if incoming.method == "initialize":
            # A second initialize in a session is an error. Without this check, it would open a new session.
            if SESSION_ID in headers:
                return _invalid_request(
                    "initialize: expected no Mcp-Session-Id, a session has been initialized", incoming.id
                )
            return Initialize(incoming)
    elif isinstance(incoming, Notification):
        if modern or Envelope.is_present(incoming.params):
            return AnswerMessage(incoming)
    elif modern or (isinstance(incoming, Batch) and _has_modern_message(incoming)):
        kind = "a batch" if isinstance(incoming, Batch) else "a response"
        return _invalid_request(f"expected one request or notification, got {kind}")
    return _check_session(headers, incoming)


def check_bodiless(method: str, headers: Headers) -> Decision:
    """Decide about a GET or DELETE."""
    if headers.get(VERSION) in MODERN_VERSIONS:
        return HTTPRefusal.because(405, f"{method}: this revision has only POST", (b"allow", b"POST"))
    session = _session(headers)
    if isinstance(session, HTTPRefusal):
        return session
    if method == "DELETE":
        return EndSession(session)
    event_id = headers.get(_LAST_EVENT_ID)
    return Resume(session, event_id) if event_id else Listen(session)


def _check_headers(headers: Headers, header_bytes: int) -> HTTPRefusal | None:
    # 4 for the colon, the space and the line end, so that many empty headers are counted too.
    size = sum([len(name) + len(value) + 4 for name, value in headers.items()])
    if headers.repeated:
        # A joined value lacks the repeated names, and has ", " instead of a colon, a space and a line end.
        size += sum([(len(name) + 2) * (len(values) - 1) for name, values in headers.repeated.items()])
    if size > header_bytes:
        return HTTPRefusal.because(431, f"headers of {size} bytes: the limit is {header_bytes} bytes")
    if headers.repeated:
        try:
            # A proxy may route by the first of two values, and this server by the second.
            headers.check_singular()
        except InvalidRequest as error:
            return HTTPRefusal(400, ErrorResponse.of(None, error))
    if "transfer-encoding" in headers and "content-length" in headers:
        # RFC 9112 section 6.3 treats this as an error, because it allows request smuggling.
        return HTTPRefusal.because(
            400, "expected Transfer-Encoding or Content-Length, got both", (b"connection", b"close")
        )
    return None


def _check_request(
    headers: Headers, request: Request, param_headers: Callable[[str], Mapping[str, tuple[str, ...]]]
) -> Decision:
    try:
        params = request.params or {}
        if not _headers_repeat_body(headers, request, params):
            envelope = Envelope.read(params)
            # Proxies route by the header, and the engine uses the body, so the two must agree.
            version = headers.single(VERSION)
            if version != envelope.version:
                raise HeaderMismatch(_version_mismatch(version, envelope.version))
            check_method(headers, request)
        if request.method == "tools/call" and headers.get(VERSION) in MODERN_VERSIONS:
            tool = params.get("name")
            if isinstance(tool, str) and (paths := param_headers(tool)):
                check_parameters(headers, params.get("arguments"), paths)
    except (InvalidParams, HeaderMismatch) as error:
        return HTTPRefusal(400, ErrorResponse.of(request.id, error))
    return AnswerMessage(request)


def _headers_repeat_body(headers: Headers, request: Request, params: Mapping[str, Any]) -> bool:
    """Return whether the envelope is complete and the headers literally repeat the body, as in most requests.

    Another request may still be valid: its name may be in Base64, for example.
    """
    meta, member, version = params.get("_meta"), NAME_PARAMS.get(request.method), headers.get(VERSION)
    name = None if member is None else params.get(member)
    return (
        not headers.repeated
        and type(meta) is dict
        and version is not None
        and version == meta.get(PROTOCOL_VERSION)
        and type(meta.get(CLIENT_CAPABILITIES)) is dict
        and type(meta.get(CLIENT_INFO, {})) is dict
        and type(meta.get(LOG_LEVEL, "")) is str
        and headers.get("mcp-method") == request.method
        and headers.get("mcp-name") == name
        and (name is None or (name.isascii() and name.isprintable() and not name.startswith(BASE64_PREFIX)))
    )


def _check_session(headers: Headers, incoming: Message | Batch) -> Decision:
    id = incoming.id if isinstance(incoming, Request) else None
    session = _session(headers, id)
    return session if isinstance(session, HTTPRefusal) else Deliver(session, incoming)


def _session(headers: Headers, id: RequestId | None = None) -> str | HTTPRefusal:
    version = headers.get(VERSION)
    # A missing header means 2025-03-26, which has none (2025-06-18, "Protocol Version Header").
    if version is not None and version not in HANDSHAKE_VERSIONS:
        served = ", ".join([*HANDSHAKE_VERSIONS, *MODERN_VERSIONS])
        return _invalid_request(f"MCP-Protocol-Version: expected one of {served}, got {version[:40]!r}", id)
    session = headers.get(SESSION_ID)
    if not session:
        return _invalid_request(
            "expected Mcp-Session-Id, or initialize, or a request with its own envelope in _meta", id
        )
    return session


def _has_modern_message(batch: Batch) -> bool:
    return any(isinstance(m, (Request, Notification)) and Envelope.is_present(m.params) for m in batch.messages)


def _version_mismatch(header: str | None, body: str) -> str:
    got = "no header" if header is None else repr(header[:40])
    return f"header mismatch: MCP-Protocol-Version is expected to be {body[:40]!r} as in the body, got {got}"


def _invalid_request(message: str, id: RequestId | None = None) -> HTTPRefusal:
    error: MCPError = InvalidRequest(message)
    return HTTPRefusal(400, ErrorResponse.of(id, error))
