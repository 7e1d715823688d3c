"""Middleware of plugins around every request: ``async def limit(request, proceed)``.

Dispatch calls it. The middleware that was added first is the outermost, unless ``order`` differs. If a middleware
raises, its request fails, and the log names the middleware. Exceptions of the handler pass through unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any, TypeAlias

from attrs import define, frozen

from mcptrio.abc import Principal
from mcptrio.capabilities.owner import Owner
from mcptrio.errors import InternalError, MCPError
from mcptrio.ground.guarded import Failure, call_with_scope_check, run_guarded
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.messages import RequestId
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.revisions.revision import NegotiationStyle
from mcptrio.runtime.request import Handler, RequestScope, Wrapper
from mcptrio.runtime.work import WorkSet

__all__ = ["Middleware", "MiddlewareChain", "RequestView"]

_log = logging.getLogger("mcptrio.middleware")


@frozen(kw_only=True)
class RequestView:
    """A request, as middleware sees it.

    Args:
        id: The request's id in its session.
        method: The method, such as ``tools/call``.
        name: The tool, prompt or URI; ``None`` for other methods.
        arguments: The arguments of a tool or prompt, not validated yet.
        plugin: The plugin of the tool; ``None`` for the server's own and for other methods.
        principal: The authenticated user.
        caller: A string that identifies the caller; see :attr:`mcptrio.Context.caller`.
        session_id: The id of the handshake session, if there is one. Not a credential.
        client_info: Name and version that the client claims. Do not trust it.
        meta: The request's ``_meta``.
    """

    id: RequestId
    method: str
    name: str | None
    arguments: Mapping[str, Any] | None
    plugin: str | None
    principal: Principal | None
    caller: str
    session_id: str | None
    client_info: Implementation | None
    meta: Mapping[str, Any]


Middleware: TypeAlias = "Callable[[RequestView, Callable[[], Awaitable[Any]]], Awaitable[Any]]"
"""A function that returns the result of the request: that of ``proceed()`` or another one. To refuse the request, it
raises an MCPError."""


@define(eq=False, slots=True)
class _Link:
    function: Middleware
    owner: Owner
    order: int


class MiddlewareChain:
    """The middleware of all plugins, in the order in which each request passes through it.

    Args:
        owner_of: Returns the plugin of a tool.
        works: Counts the requests inside the middleware of each plugin.
    """

    def __init__(self, owner_of: Callable[[str], str | None], works: WorkSet) -> None:
        self._owner_of = owner_of
        self._works = works
        self._links: list[_Link] = []
        self.around: Wrapper | None = None
        """Calls a handler through all middleware; ``None`` without middleware."""

    def add(self, function: Middleware, owner: Owner, order: int) -> None:
        """Add a middleware.

        Args:
            order: Middleware with a lower order wraps middleware with a higher order. If the orders are equal, the
                middleware that was added first wraps the other.
        """
        if not callable(function):
            raise TypeError(f"middleware: expected an async function, got {type(function).__name__}")
        self._links.append(_Link(function, owner, order))
        # The sort is stable, so links with equal orders stay in the order in which they were added.
        self._links.sort(key=lambda link: link.order)
        self.around = self._run_with_middleware

    def withdraw(self, owner: Owner) -> None:
        """Remove the middleware of a plugin."""
        self._links = [link for link in self._links if link.owner is not owner]
        self.around = self._run_with_middleware if self._links else None

    async def _run_with_middleware(self, handler: Handler, scope: RequestScope, params: Any) -> Any:
        view = self._view(scope, params)

        async def handle() -> Any:
            return await handler(scope, params)

        proceed: Callable[[], Awaitable[Any]] = handle
        links = [link for link in self._links if not link.owner.is_hidden]
        for link in reversed(links):
            proceed = _Step(link, view, proceed)
        with ExitStack() as works:
            # All are entered at the start, because the plugin of an inner middleware must not be stopped in between.
            for owner in {link.owner.plugin for link in links}:
                works.enter_context(self._works.new(view.method, owner, scope))
            return await proceed()

    def _view(self, scope: RequestScope, params: Any) -> RequestView:
        request = scope.request
        # Tools and prompts have a name, resources a URI.
        name = getattr(params, "name", None) or getattr(params, "uri", None)
        return RequestView(
            id=request.id,
            method=request.method.name,
            name=name,
            arguments=getattr(params, "arguments", None),
            plugin=self._owner_of(str(name)) if request.method.name == "tools/call" else None,
            principal=scope.principal,
            caller=scope.caller,
            session_id=scope.session.id if request.peer.revision.lifecycle is NegotiationStyle.HANDSHAKE else None,
            client_info=request.peer.info,
            meta=scope.meta or {},
        )


class _Step:
    """The call of one middleware for one request."""

    def __init__(self, link: _Link, view: RequestView, inner: Callable[[], Awaitable[Any]]) -> None:
        self._link = link
        self._view = view
        self._inner = inner
        self._called = False
        self._inner_error: BaseException | None = None
        """The exception of the handler or of an inner middleware."""

    async def __call__(self) -> Any:
        outcome = await run_guarded(self._run)
        if isinstance(outcome, Failure):
            # An MCPError of the middleware itself is a refusal.
            if outcome.error is self._inner_error or isinstance(outcome.error, MCPError):
                raise outcome.error
            raise self._failure(outcome.error)
        # The author has probably written `await proceed()` without `return`.
        if outcome.value is None:
            raise self._failure(None)
        return outcome.value

    async def _run(self) -> Any:
        return await call_with_scope_check(self._link.function, self._view, self._proceed)

    async def _proceed(self) -> Any:
        if self._called:
            # A second call of the handler would repeat every side effect.
            raise RuntimeError("proceed: expected one call for each request, got a second one")
        self._called = True
        outcome = await run_guarded(self._inner)
        if isinstance(outcome, Failure):
            self._inner_error = outcome.error
            raise outcome.error
        return outcome.value

    def _failure(self, error: BaseException | None) -> InternalError:
        name = getattr(self._link.function, "__qualname__", repr(self._link.function))
        owner = self._link.owner.plugin or "the server"
        if error is None:
            _log.error("middleware %s of %s returned no result", name, owner)
            return InternalError(f"internal error in {self._view.method}")
        failure_id = log_failure(_log, error, "middleware %s of %s failed", name, owner)
        return InternalError(f"internal error in {self._view.method}: see id {failure_id} in the server's log")
