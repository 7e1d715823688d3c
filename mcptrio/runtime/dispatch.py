"""From a request to its result; the one place where an exception becomes an error.

Called by the session for every request; plugins' code is called through :func:`contain` wherever it is called.
The one rule: an MCPError is for the peer, anything else is for the log, and ``Cancelled`` is for trio.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import frozen

from mcptrio.errors import InternalError, MCPError, MCPTrioError, MethodNotFound, ToolError
from mcptrio.runtime.request_scope import RequestScope

__all__ = ["Done", "Failure", "Handler", "as_error", "contain", "contain_sync", "dispatch"]

T = TypeVar("T")

Handler: TypeAlias = Callable[[RequestScope, Any], Awaitable[Any]]
"""Takes the scope and the method's params; gives the method's result."""

_log = logging.getLogger("mcptrio.dispatch")


@frozen
class Failure:
    """What foreign code raised, unwrapped from groups of one."""

    error: BaseException

    @property
    def spoken(self) -> bool:
        """Whether the exception was meant for the peer."""
        return isinstance(self.error, MCPError | ToolError)


@frozen
class Done(Generic[T]):
    value: T


async def dispatch(handlers: Mapping[str, Handler], scope: RequestScope) -> Any:
    """The result of the request.

    Raises:
        MCPError: to be sent to the peer.
    """
    request = scope.request
    handler = handlers.get(request.method.name)
    if handler is None:
        raise MethodNotFound(f"no such method: {request.method.name}")
    try:
        return await handler(scope, request.params)
    except MCPError:
        raise
    except Exception as error:
        raise as_error(error, scope.label) from error


def as_error(error: Exception, label: str) -> MCPError:
    """The error to send for an exception, which is logged in full unless it was meant for the peer."""
    failure = Failure(_unwrap(error))
    if isinstance(failure.error, MCPError):
        return failure.error
    if isinstance(failure.error, ToolError):
        return InternalError(str(failure.error))
    _log.error("%s failed", label, exc_info=error)
    return InternalError(f"internal error in {label}")


async def contain(work: Callable[[], Awaitable[T]]) -> Done[T] | Failure:
    """Run foreign code; what it raises comes back as a value, be it the wish to end the process (``sys.exit()``).

    Cancellation passes through.
    """
    try:
        return Done(await work())
    except (Exception, SystemExit) as error:
        return Failure(_unwrap(error))


def contain_sync(work: Callable[[], T]) -> Done[T] | Failure:
    """The same for a plain call."""
    try:
        return Done(work())
    except (Exception, SystemExit) as error:
        return Failure(_unwrap(error))


def _unwrap(error: BaseException) -> BaseException:
    """An error raised inside the author's own nursery arrives in a group; alone there, it is the error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        spoken = [e for e in error.exceptions if isinstance(e, MCPTrioError)]
        if len(spoken) == 1:
            return spoken[0]
    return error
