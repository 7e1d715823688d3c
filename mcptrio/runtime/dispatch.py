"""From a request to its result; the one place where an exception becomes an error.

Called by the session for every request; plugins' code is called through :func:`contain` wherever it is called.
The one rule: an MCPError is for the peer, anything else is for the log, and ``Cancelled`` is for trio, alone: whatever
left a cancel scope beside it would end the nursery around, and with it everybody else's requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import trio
from attrs import frozen

from mcptrio.errors import InternalError, MCPError, MCPTrioError, MethodNotFound, ToolError
from mcptrio.ground.tracebacks import log_failure, single
from mcptrio.protocol.messages import ErrorResponse, Response
from mcptrio.runtime.request_scope import RequestScope

__all__ = ["Around", "Done", "Failure", "Handler", "Middlewares", "as_error", "contain", "contain_sync", "dispatch"]

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
    try:
        if around is None:
            result = await handler(scope, request.params)
        else:
            # Whoever is around a request is there to its end.
            scope.may_stand = False
            result = await around(handler, scope, request.params)
        # Written here as well: a plugin can return what has no form on the wire.
        return scope.session.connection.result(request, result) if scope.standing is None else None
    except MCPError:
        raise
    except BaseException as error:
        # _foreign lets Cancelled through.
        raise as_error(_foreign(error), scope.label) from error  # noqa: ASYNC104


def as_error(error: BaseException, label: str) -> MCPError:
    """The error to send for an exception, which is logged in full unless it was meant for the peer."""
    failure = Failure(_unwrap(error))
    if isinstance(failure.error, MCPError):
        return failure.error
    if isinstance(failure.error, ToolError):
        return InternalError(str(failure.error))
    failure_id = log_failure(_log, error, "%s failed", label)
    return InternalError(f"internal error in {label}: see id {failure_id} in the server's log")


async def contain(work: Callable[[], Awaitable[T]]) -> Done[T] | Failure:
    """Run foreign code; what it raises comes back as a value, be it the wish to end the process (``sys.exit()``).

    Cancellation passes through, and so does KeyboardInterrupt, which is the user's.
    """
    try:
        return Done(await work())
    except BaseException as error:  # noqa: ASYNC103 - _foreign lets Cancelled through
        return Failure(_foreign(error))  # noqa: ASYNC104


def contain_sync(work: Callable[[], T]) -> Done[T] | Failure:
    """The same for a plain call."""
    try:
        return Done(work())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: ASYNC103 - a plain call is no place where Cancelled comes up
        return Failure(_unwrap(error))  # noqa: ASYNC104


def _foreign(error: BaseException) -> BaseException:
    """What the foreign code has to answer for, unwrapped from groups of one.

    Raises:
        trio.Cancelled, KeyboardInterrupt: those parts of it, which go on.
    """
    if isinstance(error, BaseExceptionGroup):
        passing, failed = error.split(_passes)
        if passing is not None:
            if failed is not None:
                _log.error("failed while it was cancelled", exc_info=failed)
            raise passing
    elif _passes(error):
        raise error
    error = _unwrap(error)
    if isinstance(error, trio.Cancelled):
        stray = RuntimeError("trio.Cancelled was raised where nothing is cancelled")
        stray.__cause__ = error
        return stray
    return error


def _passes(error: BaseException) -> bool:
    """Whether it is not the foreign code's own: a cancellation from above, or Ctrl-C.

    An author can keep a Cancelled and raise it later. Where nothing is cancelled, it would go up to the nursery of all
    requests and end that without a word.
    """
    if isinstance(error, trio.Cancelled):
        return trio.current_effective_deadline() == -inf
    return isinstance(error, KeyboardInterrupt)


def _unwrap(error: BaseException) -> BaseException:
    """An error raised inside the author's own nursery arrives in a group; alone there, it is the error."""
    error = single(error)
    if isinstance(error, BaseExceptionGroup):
        spoken = [e for e in error.exceptions if isinstance(e, MCPTrioError)]
        if len(spoken) == 1:
            return spoken[0]
    return error
