"""The exceptions of mcptrio, and the JSON-RPC error codes by name.

Every exception derives from :class:`MCPTrioError`. A subclass of :class:`MCPError` is sent to the peer, which raises
the same class with the same attributes. Any other exception of a handler reaches the peer as an :class:`InternalError`
without details; the log has the traceback.

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
    "TaskCancelled",
    "ToolError",
    "URLElicitationRequired",
    "UnsupportedProtocolVersion",
]


class Code(IntEnum):
    """JSON-RPC error codes by name."""

    NOT_APPROVED = -1
    """Sent by clients; MCP 2025-11-25, client/sampling, "Error Handling"."""
    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    # Inside the range that JSON-RPC reserves, which later revisions avoid.
    RESOURCE_NOT_FOUND = -32002
    """Handshake revisions only; 2026-07-28 uses INVALID_PARAMS."""
    HEADER_MISMATCH = -32020
    MISSING_CLIENT_CAPABILITY = -32021
    UNSUPPORTED_PROTOCOL_VERSION = -32022
    URL_ELICITATION_REQUIRED = -32042
    """2025-11-25 only."""


class MCPTrioError(Exception):
    """Base class of every exception that mcptrio raises."""


class MCPError(MCPTrioError):
    """An error that is sent to the peer as a JSON-RPC error object.

    Args:
        message: One line for the peer to read.
        code: The JSON-RPC code. Each subclass has its own; a revision may send another number for it.
        data: Any JSON value, sent as ``error.data``; ``None`` omits the member.
    """

    # The code of the class; only an error of a peer may have another one.
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
    """The JSON is not a JSON-RPC message, or not one that is valid in this state of the connection."""

    code = Code.INVALID_REQUEST


class MethodNotFound(MCPError):
    """The method does not exist in this revision, or its capability is not declared."""

    code = Code.METHOD_NOT_FOUND


class InvalidParams(MCPError):
    """The parameters are invalid; the message states the expected value, the actual value and its location."""

    code = Code.INVALID_PARAMS


class InternalError(MCPError):
    """A handler failed. The message has no details; they are in the log of the failing side."""

    code = Code.INTERNAL_ERROR


class InputFailed(InternalError):
    """A handler of the client failed to answer a question of the server; ``__cause__`` is its exception."""


class NotApproved(MCPError):
    """The user did not approve the request, so it was not carried out."""

    code = Code.NOT_APPROVED


class InsufficientScope(MCPError):
    """The caller's token is valid but lacks scopes. Over HTTP: status 403 with a challenge.

    Args:
        scopes: All scopes that the request requires.
    """

    code = Code.INVALID_REQUEST

    def __init__(self, message: str, *, scopes: frozenset[str]) -> None:
        super().__init__(message, data={"scopes": sorted(scopes)})
        self.scopes = scopes


class Overloaded(MCPError):
    """A limit was reached; try again later.

    Args:
        retry_after: Seconds to wait before a retry. Over HTTP: status 503 with ``Retry-After``.
    """

    code = Code.INTERNAL_ERROR

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        # In `data`, because JSON-RPC has no member for it. HTTP repeats it in Retry-After.
        super().__init__(message, data={"retryAfter": retry_after})
        self.retry_after = retry_after


class RateLimited(Overloaded):
    """The caller sends requests too often, independent of the server's load. Over HTTP: status 429."""

    # The code is that of the base class, so `data` has to tell the two apart.
    REASON = "rateLimited"
    """The value of ``data.reason`` in the error."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, retry_after=retry_after)
        self.data = {**self.data, "reason": self.REASON}


class ResourceNotFound(MCPError):
    """No resource has this URI. The handshake revisions send -32002, 2026-07-28 sends -32602.

    Args:
        uri: The URI of the request.
    """

    code = Code.RESOURCE_NOT_FOUND

    def __init__(self, uri: str) -> None:
        super().__init__(f"resource not found: {uri}", data={"uri": uri})
        self.uri = uri


class HeaderMismatch(MCPError):
    """An HTTP header is missing, malformed or different from the body (2026-07-28)."""

    code = Code.HEADER_MISMATCH


class MissingClientCapability(MCPError):
    """The request needs a capability that the client did not declare.

    Args:
        required: The missing capabilities in wire form, for example ``{"sampling": {}}``.
    """

    code = Code.MISSING_CLIENT_CAPABILITY

    def __init__(self, message: str, *, required: dict[str, Any]) -> None:
        super().__init__(message, data={"requiredCapabilities": required})
        self.required = required


class UnsupportedProtocolVersion(MCPError):
    """The server does not support the requested revision.

    Args:
        requested: The revision of the request.
        supported: The revisions that the server supports.
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
    """The user must first open one or more URLs (2025-11-25).

    Args:
        elicitations: Parameters of URL elicitations in wire form, each with an ``elicitationId``.
    """

    code = Code.URL_ELICITATION_REQUIRED

    def __init__(self, message: str, *, elicitations: list[dict[str, Any]]) -> None:
        super().__init__(message, data={"elicitations": elicitations})
        self.elicitations = elicitations


class ToolError(MCPTrioError):
    """A tool failed for a reason that the model may read: the message becomes the text of a result with ``isError``."""


class ProtocolError(MCPTrioError):
    """A peer violated the protocol."""


class LocalProtocolError(ProtocolError):
    """This side was about to violate the protocol: a bug in mcptrio or in code that uses it."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol in a way that no JSON-RPC error can report."""


class ConnectionClosed(MCPTrioError):
    """The channel or stream is closed, so nothing can be received or sent."""


class RequestFailed(MCPTrioError):
    """One request of a client could not be delivered, or its answer is unreadable. The connection remains usable.

    Args:
        status: The HTTP status of the response; ``None`` without one.
        reply: The JSON-RPC error in the body of the response, if it has one.
        delivered: False if the server certainly did not serve the request, so that it is safe to send it again.
        retry_after: Seconds to wait before a retry, as requested by the server (``Retry-After``).
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
    """The server has forgotten the session; the request was not served."""

    def __init__(self, message: str) -> None:
        # A server sends 404 before it serves the request, so it is safe to send it again.
        super().__init__(message, status=404, delivered=False)


# Also a TimeoutError, which callers that do not know mcptrio catch.
class RequestTimeout(MCPTrioError, TimeoutError):
    """No answer arrived in time. The client has asked the server to cancel the request.

    Args:
        seconds: The time for which the client waited, in seconds.
    """

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class TaskCancelled(MCPTrioError):
    """The task of a call was cancelled, by this client or by another program of its user."""


class PluginError(MCPTrioError):
    """A plugin could not be imported, registered or started.

    Args:
        plugin: The name of its entry point, or the path of its file.
        distribution: The distribution that installed it, if any.
    """

    def __init__(self, message: str, *, plugin: str, distribution: str | None = None) -> None:
        where = f"{plugin} (from {distribution})" if distribution else plugin
        # The distribution tells an operator which package to remove or downgrade.
        super().__init__(f"plugin {where}: {message}")
        self.plugin = plugin
        self.distribution = distribution


class ConfigError(MCPTrioError):
    """The configuration is invalid; the message names file, line and key."""


class StoreFailed(MCPTrioError, OSError):
    """An operation of a store failed. The message has the reason, for the log. Later operations may succeed."""


class AuthorizationError(MCPTrioError):
    """A principal is not authorized, or no credentials are available.

    Args:
        challenge: The value of ``WWW-Authenticate`` for a response over HTTP; several challenges are separated by
            commas.
        status: Status of the HTTP response. 401: a token is missing or invalid; 403: the token is valid but
            insufficient; 400: the request is malformed (RFC 6750 section 3.1).
        headers: Further headers of the HTTP response, for example ``DPoP-Nonce``.
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
    """The request needs credentials that only the user can provide. The server has not served the request.

    Raised from the request, so that none of its deadlines runs while the user decides. The client calls ``ask`` and
    sends the request again; code that uses a link without a client must do the same.

    Args:
        ask: Asks the user, once for all requests that wait for it. Raises AuthorizationError if the user refuses or
            does not answer, RequestFailed if the authorization server is unreachable.
    """

    def __init__(self, message: str, *, ask: Callable[[], Awaitable[None]]) -> None:
        super().__init__(message)
        self.ask = ask
