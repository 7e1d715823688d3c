"""From a request to its result, and from an exception to the error that the client gets.

Called by the session for every request.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from mcptrio.errors import InternalError, MCPError, MethodNotFound, ToolError
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.messages import ErrorResponse, Response
from mcptrio.runtime.request_scope import RequestScope

__all__ = ["Around", "Handler", "Middlewares", "dispatch"]

Handler: TypeAlias = Callable[[RequestScope, Any], Awaitable[Any]]
"""Takes the scope and the method's params; gives the method's result."""

_log = logging.getLogger("mcptrio.dispatch")


Around: TypeAlias = Callable[[Handler, RequestScope, Any], Awaitable[Any]]
"""Calls the handler, and does something before or after."""


class Middlewares(Protocol):
    """All that is around handlers; false where that is nothing."""

    def __bool__(self) -> bool: ...
    async def around(self, handler: Handler, scope: RequestScope, params: Any) -> Any: ...


async def dispatch(
    handlers: Mapping[str, Handler], scope: RequestScope, around: Around | None = None
) -> Response | ErrorResponse | None:
    """The response that carries the result of the request; none where it stays open.

    Args:
        around: through which the handler is called.

    Raises:
        MCPError: to be sent to the peer.
    """
    request = scope.request
    handler = handlers.get(request.method.name)
    if handler is None:
        raise MethodNotFound(f"no such method: {request.method.name}")
    outcome = await run_guarded(_handle, handler, scope, around)
    if isinstance(outcome, Failure):
        raise _error_of(outcome.error, scope.label)
    return outcome.value


async def _handle(handler: Handler, scope: RequestScope, around: Around | None) -> Response | ErrorResponse | None:
    request = scope.request
    if around is None:
        result = await handler(scope, request.params)
    else:
        # Middleware is around a request until it ends.
        scope.may_stand = False
        result = await around(handler, scope, request.params)
    # Written here as well: a plugin can return what has no form on the wire.
    return scope.session.connection.result(request, result) if scope.standing is None else None


def _error_of(error: BaseException, label: str) -> MCPError:
    """The error to send for an exception, which is logged in full unless it was meant for the client."""
    if isinstance(error, MCPError):
        return error
    if isinstance(error, ToolError):
        return InternalError(str(error))
    failure_id = log_failure(_log, error, "%s failed", label)
    return InternalError(f"internal error in {label}: see id {failure_id} in the server's log")
