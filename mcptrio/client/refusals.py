"""The exception for a request that an HTTP server refused with a JSON-RPC error in the body.

ClientSession raises it.

Source: MCP 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

from mcptrio.errors import MCPError, Overloaded, RateLimited, RequestFailed
from mcptrio.protocol.client_connection import RequestSent
from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.remote_errors import server_error

__all__ = ["refusal_error"]


def refusal_error(failed: RequestFailed, reply: MCPError, sent: RequestSent) -> MCPError:
    """Return the exception for ``reply``, the JSON-RPC error of a refused request."""
    error = server_error(ErrorResponse.of(sent.message.id, reply), sent.revision, sent.message.params)
    if failed.status not in (429, 503) or isinstance(error, Overloaded):
        return error
    # mcptrio servers send an error code of their own for this; others send only the status and Retry-After.
    cls = RateLimited if failed.status == 429 else Overloaded
    busy: MCPError = cls(reply.message, retry_after=1.0 if failed.retry_after is None else failed.retry_after)
    busy.code, busy.data = reply.code, reply.data
    return busy
