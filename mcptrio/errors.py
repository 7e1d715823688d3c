"""The exceptions of mcptrio, and the JSON-RPC error codes by name.

Every exception derives from :class:`MCPTrioError`. A subclass of :class:`MCPError` crosses the wire: the peer raises
the same class with the same attributes. Any other exception of a handler
reaches the peer as an :class:`InternalError` without details, and the log in full.

Source: JSON-RPC 2.0 section 5.1; MCP 2026-07-28, basic/index, "Error Codes"; MCP 2025-11-25, client/elicitation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Any

__all__ = [
    "AuthorizationError",
    "Code",
    "ConfigError",
    "ConnectionClosed",
    "ConsentNeeded",
    "HeaderMismatch",
    "InputFailed",
    "InsufficientScope",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "MCPError",
    "MCPTrioError",
    "MethodNotFound",
    "MissingClientCapability",
    "NotApproved",
    "Overloaded",
    "ParseError",
    "PluginError",
    "ProtocolError",
    "RateLimited",
    "RemoteProtocolError",
    "RequestFailed",
    "RequestTimeout",
    "ResourceNotFound",
    "SessionLost",
    "StoreFailed",
    "ToolError",
    "URLElicitationRequired",
    "UnsupportedProtocolVersion",
]


class Code(IntEnum):
    """JSON-RPC error codes by name."""

    NOT_APPROVED = -1
    """From a client; MCP 2025-11-25, client/sampling, "Error Handling"."""
    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    RESOURCE_NOT_FOUND = -32002
    """Handshake revisions only; 2026-07-28 uses INVALID_PARAMS."""
    HEADER_MISMATCH = -32020
    MISSING_CLIENT_CAPABILITY = -32021
    UNSUPPORTED_PROTOCOL_VERSION = -32022
    URL_ELICITATION_REQUIRED = -32042
    """2025-11-25 only."""


class MCPTrioError(Exception):
    """The root of every exception raised by mcptrio itself."""


class MCPError(MCPTrioError):
    """An error that crosses the wire as a JSON-RPC error object.

    Args:
        message: one line; the peer reads it.
        code: the JSON-RPC code. A subclass has its own, the same in every revision; a revision may send another
            number for it.
        data: any JSON value, sent as ``error.data``; ``None`` leaves the member out.
    """

    code: int = Code.INTERNAL_ERROR

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.data = data


class ParseError(MCPError):
    """The bytes are not JSON."""

    code = Code.PARSE_ERROR


class InvalidRequest(MCPError):
    """The JSON is not a JSON-RPC message that is legal here."""

    code = Code.INVALID_REQUEST


class MethodNotFound(MCPError):
    """No such method in this revision, or its capability was not advertised."""

    code = Code.METHOD_NOT_FOUND


class InvalidParams(MCPError):
    """The parameters do not fit; the message says what was expected, what came, and where."""

    code = Code.INVALID_PARAMS


class InternalError(MCPError):
    """A handler failed. The message names no details; the log of the failing side has them."""

    code = Code.INTERNAL_ERROR


class InputFailed(InternalError):
    """A handler of the client failed to answer the server's question; its exception is the cause."""


class NotApproved(MCPError):
    """The user did not agree, so nothing was sent."""

    code = Code.NOT_APPROVED


class InsufficientScope(MCPError):
    """The caller's token is valid but lacks scopes. Over HTTP, the status is 403, with a challenge.

    Args:
        scopes: all scopes that the request needs.
    """

    code = Code.INVALID_REQUEST

    def __init__(self, message: str, *, scopes: frozenset[str]) -> None:
        super().__init__(message, data={"scopes": sorted(scopes)})
        self.scopes = scopes


class Overloaded(MCPError):
    """A limit is reached; try again later.

    Args:
        retry_after: seconds after which a retry is worth while; HTTP sends it as ``Retry-After`` beside status 503.
    """

    code = Code.INTERNAL_ERROR

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, data={"retryAfter": retry_after})
        self.retry_after = retry_after


class RateLimited(Overloaded):
    """The caller asks too often, whatever else the server has to do; HTTP sends status 429 instead of 503."""

    REASON = "rateLimited"
    """``data.reason`` of the error, beside ``retryAfter``."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, retry_after=retry_after)
        self.data = {**self.data, "reason": self.REASON}


class ResourceNotFound(MCPError):
    """No resource at this URI. The handshake revisions send -32002, 2026-07-28 sends -32602.

    Args:
        uri: the URI of the request.
    """

    code = Code.RESOURCE_NOT_FOUND

    def __init__(self, uri: str) -> None:
        super().__init__(f"resource not found: {uri}", data={"uri": uri})
        self.uri = uri


class HeaderMismatch(MCPError):
    """An HTTP header is missing, malformed, or says something else than the body (2026-07-28)."""

    code = Code.HEADER_MISMATCH


class MissingClientCapability(MCPError):
    """The request cannot go on without a capability the client did not declare.

    Args:
        required: a ClientCapabilities object in wire form, e.g. ``{"sampling": {}}``.
    """

    code = Code.MISSING_CLIENT_CAPABILITY

    def __init__(self, message: str, *, required: dict[str, Any]) -> None:
        super().__init__(message, data={"requiredCapabilities": required})
        self.required = required


class UnsupportedProtocolVersion(MCPError):
    """The server does not support the requested revision.

    Args:
        requested: the revision of the request.
        supported: the revisions that the server supports.
    """

    code = Code.UNSUPPORTED_PROTOCOL_VERSION

    def __init__(self, requested: str, supported: list[str]) -> None:
        super().__init__(
            f"unsupported protocol version: expected one of {', '.join(supported)}, got {requested!r}",
            data={"supported": supported, "requested": requested},
        )
        self.requested = requested
        self.supported = supported


class URLElicitationRequired(MCPError):
    """The request waits for the user to open one or more URLs first (2025-11-25).

    Args:
        elicitations: URL-mode elicitation parameters in wire form, each with an ``elicitationId``.
    """

    code = Code.URL_ELICITATION_REQUIRED

    def __init__(self, message: str, *, elicitations: list[dict[str, Any]]) -> None:
        super().__init__(message, data={"elicitations": elicitations})
        self.elicitations = elicitations


class ToolError(MCPTrioError):
    """A tool failed in a way the model may read: the message becomes the result's text, with ``isError``."""


class ProtocolError(MCPTrioError):
    """The protocol was violated."""


class LocalProtocolError(ProtocolError):
    """We were about to violate the protocol; a bug on this side."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol in a way that cannot be answered by a JSON-RPC error."""


class ConnectionClosed(MCPTrioError):
    """The channel or stream has ended; nothing more will be received or sent."""


class RequestFailed(MCPTrioError):
    """One request of a client could not be delivered, or its answer not be read; the connection is usable.

    Args:
        status: the HTTP status it was refused with; ``None`` where no answer came.
        reply: the JSON-RPC error in the body of the refusal, where there is one.
        delivered: whether the server may have served it; ``False`` makes it safe to send again.
        retry_after: seconds after which the server wants it to be sent again (``Retry-After``).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reply: MCPError | None = None,
        delivered: bool = True,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reply = reply
        self.delivered = delivered
        self.retry_after = retry_after


class SessionLost(RequestFailed):
    """The server no longer knows the session; the request was not served."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=404, delivered=False)


class RequestTimeout(MCPTrioError, TimeoutError):
    """No answer in time; the server has been told that nobody waits any more.

    Args:
        seconds: how long was waited.
    """

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class PluginError(MCPTrioError):
    """A plugin could not be imported, registered or started.

    Args:
        plugin: the entry point's name, or the path of a file.
        distribution: the installed distribution it came from, where there is one.
    """

    def __init__(self, message: str, *, plugin: str, distribution: str | None = None) -> None:
        where = f"{plugin} (from {distribution})" if distribution else plugin
        super().__init__(f"plugin {where}: {message}")
        self.plugin = plugin
        self.distribution = distribution


class ConfigError(MCPTrioError):
    """The configuration is wrong; the message names file, line and key."""


class StoreFailed(MCPTrioError, OSError):
    """A store could not do what it was asked; the message says what is wrong with it, for the log.

    Only that one operation has failed: the next one is tried anew.
    """


class AuthorizationError(MCPTrioError):
    """The principal may not do this.

    Args:
        challenge: the value of ``WWW-Authenticate``, where HTTP carries the refusal; several challenges with commas.
        status: of the HTTP response. 401: a (better) token is wanted; 403: it is good and does not suffice; 400: the
            request is wrong (RFC 6750 section 3.1).
        headers: of the HTTP response beside that, ``DPoP-Nonce`` for example.
    """

    def __init__(
        self,
        message: str,
        *,
        challenge: str | None = None,
        status: int = 401,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.challenge = challenge
        self.status = status
        self.headers = dict(headers or {})


class ConsentNeeded(AuthorizationError):
    """There are no credentials for a request before the user has been asked.

    Raised out of the request, so that no deadline of it runs while the user decides. The server has not served the
    request: the client asks the user and sends it again. Code that uses a link without a client does the same.

    Args:
        ask: has them asked, once for all requests that wait for it. Raises AuthorizationError where they say no or do
            not answer, RequestFailed where the authorization server cannot be reached.
    """

    def __init__(self, message: str, *, ask: Callable[[], Awaitable[None]]) -> None:
        super().__init__(message)
        self.ask = ask
