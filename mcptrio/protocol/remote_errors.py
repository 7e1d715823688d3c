"""Makes an exception from an error response of the peer.

The connections of both sides and the HTTP client use it. If ``data`` lacks the attributes of the class for a code, the
error becomes a plain :class:`MCPError` with this code, because the peer may use the code for something else.

Source: MCP 2026-07-28, basic/index, "Error Codes"; MCP 2025-11-25, client/elicitation and client/sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, TypeAlias

from mcptrio.errors import (
    HeaderMismatch,
    InsufficientScope,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MCPError,
    MethodNotFound,
    MissingClientCapability,
    NotApproved,
    Overloaded,
    ParseError,
    RateLimited,
    ResourceNotFound,
    UnsupportedProtocolVersion,
    URLElicitationRequired,
)
from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["client_error", "server_error"]

_Read: TypeAlias = Callable[[str, Mapping[str, Any]], "MCPError | None"]


def server_error(answer: ErrorResponse, revision: Revision, params: Mapping[str, Any] | None = None) -> MCPError:
    """Return the exception for an error of a server.

    Args:
        revision: The revision of the request.
        params: The parameters of the request, for the URI if ``data`` does not contain it.
    """
    data = answer.data
    # The revisions before 2026-07-28 send no URI in `data`.
    if answer.code == ResourceNotFound.code and params is not None:
        data = {"uri": params.get("uri"), **(data if isinstance(data, dict) else {})}
    return _error(answer, data, revision, _FROM_SERVER)


def client_error(answer: ErrorResponse, revision: Revision) -> MCPError:
    """Return the exception for the error response of a client to a request of the server."""
    return _error(answer, answer.data, revision, _FROM_CLIENT)


def _error(answer: ErrorResponse, data: Any, revision: Revision, readers: Mapping[type[MCPError], _Read]) -> MCPError:
    members = data if isinstance(data, dict) else {}
    for cls, read in readers.items():
        # Some servers send the code of another revision.
        if answer.code in (cls.code, revision.codes.get(cls.code)):
            error = read(answer.message, members)
            if error is not None:
                # The class makes its own message from the data. The peer's message replaces it.
                error.message, error.args, error.data = answer.message, (answer.message,), answer.data
                return error
    return MCPError(answer.message, code=answer.code, data=answer.data)


def _message_reader(cls: type[MCPError]) -> _Read:
    return lambda message, _: cls(message)


def _insufficient_scope(message: str, data: Mapping[str, Any]) -> MCPError | None:
    scopes = _strings(data.get("scopes"))
    return InsufficientScope(message, scopes=frozenset(scopes)) if scopes is not None else None


def _overload_error(message: str, data: Mapping[str, Any]) -> MCPError | None:
    seconds = data.get("retryAfter")
    # A bool is an int in Python, but no valid time.
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < inf:
        return None
    cls = RateLimited if data.get("reason") == RateLimited.REASON else Overloaded
    return cls(message, retry_after=float(seconds))


def _resource_not_found(_: str, data: Mapping[str, Any]) -> MCPError | None:
    uri = data.get("uri")
    return ResourceNotFound(uri) if isinstance(uri, str) else None


def _missing_capability(message: str, data: Mapping[str, Any]) -> MCPError | None:
    required = data.get("requiredCapabilities")
    return MissingClientCapability(message, required=required) if isinstance(required, dict) else None


def _unsupported_version(_: str, data: Mapping[str, Any]) -> MCPError | None:
    requested, supported = data.get("requested"), _strings(data.get("supported"))
    if not isinstance(requested, str) or supported is None:
        return None
    return UnsupportedProtocolVersion(requested, supported)


def _url_required_error(message: str, data: Mapping[str, Any]) -> MCPError | None:
    elicitations = data.get("elicitations")
    if not isinstance(elicitations, list) or not all(isinstance(each, dict) for each in elicitations):
        return None
    return URLElicitationRequired(message, elicitations=elicitations)


def _strings(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


_PLAIN: Final = (ParseError, InvalidRequest, MethodNotFound, InvalidParams, InternalError, HeaderMismatch)
_FROM_SERVER: Final[Mapping[type[MCPError], _Read]] = {
    ResourceNotFound: _resource_not_found,
    InsufficientScope: _insufficient_scope,
    Overloaded: _overload_error,
    MissingClientCapability: _missing_capability,
    UnsupportedProtocolVersion: _unsupported_version,
    URLElicitationRequired: _url_required_error,
    **{cls: _message_reader(cls) for cls in _PLAIN},
}
"""The first class whose code and data match is used."""
_FROM_CLIENT: Final[Mapping[type[MCPError], _Read]] = {**_FROM_SERVER, NotApproved: _message_reader(NotApproved)}
