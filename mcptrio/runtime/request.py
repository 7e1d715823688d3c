"""One request in flight: its state, its deadline, its handler, and where its messages go.

The gate makes it, the session serves it, and Context holds it. Its states are those of
:mod:`mcptrio.runtime.request_lifecycle`; every end, from whatever side, is an event of that table.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from math import inf, isfinite
from typing import Any, Protocol, TypeAlias

import trio
from attrs import define, field

from mcptrio.abc import MessageSink, Principal
from mcptrio.abc.status import RequestStatus
from mcptrio.errors import ConnectionClosed, InternalError, MCPError, MethodNotFound, ToolError
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.ground.shares import SharedPlace
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.events import RequestReceived
from mcptrio.protocol.messages import ErrorResponse, Notification, Response
from mcptrio.protocol.revisions.revision import NegotiationStyle
from mcptrio.runtime.callers import ANONYMOUS, ForwardedCaller, caller_of_principal, decode_caller
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.progress import ProgressReporter
from mcptrio.runtime.request_lifecycle import TRANSITIONS, Action, RequestEvent, RequestState
from mcptrio.runtime.timeouts import CALL_TIMEOUT, Timeouts, call_timeout

__all__ = ["Handler", "MiddlewareProvider", "OpenRequest", "RequestScope", "Wrapper", "dispatch"]

_log = logging.getLogger("mcptrio.dispatch")


class OpenRequest(Protocol):
    """A request that stays open without a task."""

    def result(self) -> Any:
        """The result of the method, for when the server stops. Does not block or raise."""
        ...

    def on_closed(self) -> None:
        """Called once when the request has ended, however it ended. Does not block or raise."""
        ...


@define(eq=False, slots=True, weakref_slot=False)
class RequestScope:
    """
    Args:
        request: as received, in its revision.
        outlet: where everything about this request goes.
        session: the session that it came in.
        deadlines: told when :attr:`deadline` moves.
        memory: that its parameters take; ``None`` for little.
        owns_outlet: the outlet serves this request alone, and is closed with it.
    """

    request: RequestReceived
    outlet: MessageSink
    session: Conversation
    _deadlines: Deadlines
    memory: SharedPlace | None = None
    owns_outlet: bool = False
    state: RequestState = field(init=False, default=RequestState.WAITING)
    reply: Response | ErrorResponse | None = field(init=False, default=None)
    """The answer, once the handler has ended."""
    reason: str | None = field(init=False, default=None)
    """Why there is no answer."""
    error: MCPError | None = field(init=False, default=None)
    """Why the server ends it."""
    principal: Principal | None = field(init=False)
    """Who asked. With a later token of the same person, a later request of the session may do more, or less."""
    forwarded_caller: ForwardedCaller | None = field(init=False, default=None)
    """For whom the process that started this one asks; ``None`` for any other peer."""
    label: str = field(init=False)
    """The tool or the like, for messages."""
    owner: str | None = field(init=False, default=None)
    """The plugin that handles it."""
    progress: ProgressReporter | None = field(init=False, default=None)
    can_stay_open: bool = field(init=False, default=False)
    """Whether it may stay open without a task (:meth:`keep_open`)."""
    open: OpenRequest | None = field(init=False, default=None)
    on_cancelled: Callable[[], None] | None = field(init=False, default=None)
    """Closes the request while it is kept open."""
    started: float = field(init=False, factory=trio.current_time)
    deadline: float = field(init=False)
    """Trio time at which the request is ended."""
    _timeouts: Timeouts = field(init=False)
    _begun: float = field(init=False)
    _latest: float = field(init=False, default=inf)
    """The caller gives up then, whatever else holds."""
    _waiting: int = field(init=False, default=0)
    _cancel_scope: trio.CancelScope | None = field(init=False, default=None)
    _concluding: trio.CancelScope | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.label = self.request.method.name
        self.principal = self.session.principal
        meta = self.meta
        if self.session.trusts_forwarded_caller:
            self.forwarded_caller = decode_caller(self.label, meta)
            self.principal = self.forwarded_caller.principal
        self._timeouts = times = self.session.settings.timeouts
        self._begun = started = self.started
        if meta:
            if CALL_TIMEOUT in meta and (allowed := call_timeout(meta)) is not None:
                self._latest = started + allowed
            token = meta.get("progressToken")
            # A bool is an int to isinstance, and no token.
            if isinstance(token, str | int) and not isinstance(token, bool):
                self.progress = ProgressReporter(token, self.outlet, self.request.peer.revision)
        self.deadline = min(started + min(times.idle, times.request), self._latest)

    @property
    def scope(self) -> RequestScope:
        """See :class:`mcptrio.runtime.current.Working`."""
        return self

    @property
    def meta(self) -> dict[str, Any] | None:
        params = self.request.params
        return params.get("_meta") if type(params) is dict else params.meta

    @property
    def caller(self) -> str:
        """The caller as a text: the same for one principal (issuer and subject) in all sessions and processes.

        Without a principal it is the same for one session or connection. A request that has neither is
        :data:`mcptrio.ANONYMOUS`. Neither a name nor the id of a session can be read from it.
        """
        if self.principal is not None:
            return caller_of_principal(self.principal)
        if self.forwarded_caller is not None:
            return self.forwarded_caller.caller
        if self.session.is_shared or self.request.peer.revision.lifecycle is NegotiationStyle.HANDSHAKE:
            return self.session.caller
        return ANONYMOUS

    @property
    def log_level(self) -> str | None:
        """The least severe level the client wants to see of this request; ``None``: nothing."""
        return self.request.log_level or self.session.log_level_of(self.request.peer)

    @property
    def is_over(self) -> bool:
        """Whether nothing of its handler may be sent any more."""
        return self.state >= RequestState.CANCELLED

    # Its life

    def attach_cancel_scope(self, cancel_scope: trio.CancelScope) -> bool:
        """A task is about to run the handler, inside this scope.

        Returns:
            Whether the handler is still to be run.
        """
        if self._advance(RequestEvent.BEGIN) is Action.NONE:
            return False
        self._cancel_scope = cancel_scope
        return True

    def cancel(self, reason: str) -> None:
        """Stop the request: nothing more is sent for it. The first reason given is kept."""
        action = self._advance(RequestEvent.CANCEL)
        if self.state is RequestState.CANCELLED and self.reason is None:
            self.reason = reason
        self._do(action)

    def fail(self, error: MCPError) -> None:
        """Stop the request and answer with an error, unless its answer is on its way. The first one given is kept."""
        action = self._advance(RequestEvent.FAIL)
        if self.state is RequestState.FAILING and self.error is None:
            self.error = error
        elif action is Action.CLOSE_NOW:
            self.reason = error.message
        self._do(action)

    def expire(self) -> None:
        """The deadline has passed."""
        seconds = trio.current_time() - self.started
        self.fail(InternalError(f"{self.label} timed out after {seconds:.3g} s", data={"timeout": seconds}))

    def keep_open(self, open: OpenRequest) -> None:
        """Stay open without a task, where ``can_stay_open`` says so. The handler returns; its result is not sent."""
        self.remove_deadline()
        if self._advance(RequestEvent.KEEP_OPEN) is Action.DO:
            self.open = open
            self._cancel_scope = None
        else:
            open.on_closed()

    async def until_concluded(self) -> None:
        """Stay open with a task. Returns when it is time for the answer."""
        self.remove_deadline()
        with trio.CancelScope() as self._concluding:
            await self.session.closing.wait()
        self._concluding = None

    def conclude(self) -> None:
        """See :class:`mcptrio.runtime.work.Ending`."""
        if self._concluding is not None:
            self._concluding.cancel()

    def finish(self) -> Response | ErrorResponse | None:
        """The handler has ended: nothing but the answer is sent any more, and no event stops that.

        Returns:
            The answer, if there is one to be sent.
        """
        if self._advance(RequestEvent.FINISH) is Action.NONE:
            return None
        self._cancel_scope = None
        if self.reply is None and self.error is not None:
            self.reply = self.session.connection.error(self.request, self.error)
        if self.progress is not None:
            self.progress.flush()
        return self.reply

    def close(self) -> bool:
        """Let go of the request. Returns False if that was done before."""
        if self._advance(RequestEvent.CLOSE) is Action.NONE:
            return False
        self._cancel_scope = None
        self.on_cancelled = None
        if self.reply is None and self.reason is None:
            self.reason = "the session ended"
        if self.open is not None:
            self.open.on_closed()
            self.open = None
            self.owns_outlet = True
        return True

    # Time

    def begin(self, timeout: float | None) -> None:
        """Its turn has come, where it had to wait for one: idle time starts now.

        Args:
            timeout: a plugin's or a tool's own bound, in seconds from now.
        """
        if trio.current_time() >= self.deadline:
            # The alarm has not rung yet.
            self.expire()
            return
        if timeout is not None:
            self._timeouts = self._timeouts.with_request(timeout)
            self._begun = trio.current_time()
        self._set_deadline()

    def remove_deadline(self) -> None:
        """This request is meant to stay open (a subscription)."""
        self.deadline = inf

    def restart_idle_timeout(self) -> None:
        if not self._waiting:
            self._set_deadline()

    def wait_for_input(self) -> float:
        """The client is being asked: the idle time stops. Returns the seconds it may take."""
        self._waiting += 1
        self.deadline = min(self._begun + self._timeouts.request, self._latest)
        return self._timeouts.input

    def input_arrived(self) -> None:
        self._waiting -= 1
        self.restart_idle_timeout()

    # Messages

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress: restarts the idle time, and is sent if the client has asked for it.

        Raises:
            ValueError: not a finite number.
        """
        if not isfinite(progress) or (total is not None and not isfinite(total)):
            raise ValueError(f"expected finite numbers, got progress={progress!r}, total={total!r}")
        self.restart_idle_timeout()
        if self.progress is not None and not self.is_over:
            self.progress.report(progress, total, message)

    def notify(self, method: str, params: Any, *, key: object = None) -> bool:
        """Send a notification that belongs to this request, without waiting.

        Returns:
            Whether it was: the revision has it, and the answer is not on its way yet.
        """
        notification = self.session.connection.notification(method, params, peer=self.request.peer)
        if notification is None or self.is_over:
            return False
        self.outlet.offer(notification, object() if key is None else key)
        return True

    async def send(self, notification: Notification) -> None:
        """Send a notification in wire form; waits while the outlet is full.

        Raises:
            ConnectionClosed: the request is over.
        """
        self.check_open()
        await self.outlet.send(notification)

    def check_open(self) -> None:
        """
        Raises:
            ConnectionClosed: the request is over; on a channel shared by all, its outlet would still take messages.
        """
        if self.is_over:
            raise ConnectionClosed(f"cannot send: request {self.label} has ended")

    @property
    def status(self) -> RequestStatus:
        now = trio.current_time()
        return RequestStatus(
            id=self.request.id,
            method=self.request.method.name,
            label=self.label,
            plugin=self.owner,
            revision=self.request.peer.revision.version,
            age=now - self.started,
            deadline=None if self.deadline == inf else self.deadline - now,
            progress=self.progress.latest if self.progress else None,
            total=self.progress.total if self.progress else None,
            waiting_for_input=self._waiting > 0,
            cancelled=self.reason,
        )

    # Private

    def _advance(self, event: RequestEvent) -> Action:
        self.state, action = TRANSITIONS[self.state][event]
        return action

    def _do(self, action: Action) -> None:
        if action is Action.CANCEL_HANDLER and self._cancel_scope is not None:
            self._cancel_scope.cancel()
        elif action is Action.CLOSE_NOW and self.on_cancelled is not None:
            self.on_cancelled()

    def _set_deadline(self) -> None:
        times = self._timeouts
        self.deadline = min(trio.current_time() + times.idle, self._begun + times.request, self._latest)
        self._deadlines.moved(self)


Handler: TypeAlias = Callable[[RequestScope, Any], Awaitable[Any]]
"""Takes the scope and the method's params; gives the method's result."""

Wrapper: TypeAlias = Callable[[Handler, RequestScope, Any], Awaitable[Any]]
"""Calls the handler, and does something before or after."""


class MiddlewareProvider(Protocol):
    """All middleware of a server."""

    around: Wrapper | None
    """``None`` while there is no middleware."""


async def dispatch(
    handlers: Mapping[str, Handler], scope: RequestScope, around: Wrapper | None = None
) -> Response | ErrorResponse | None:
    """Return the response with the result of a request; ``None`` if it stays open.

    Args:
        around: middleware that calls the handler.

    Raises:
        MCPError: to be sent to the client.
    """
    handler = handlers.get(scope.label)
    if handler is None:
        raise MethodNotFound(f"no such method: {scope.label}")
    outcome = await run_guarded(_handle, handler, scope, around)
    if isinstance(outcome, Failure):
        raise _error_of(outcome.error, scope.label)
    return outcome.value


async def _handle(handler: Handler, scope: RequestScope, around: Wrapper | None) -> Response | ErrorResponse | None:
    request = scope.request
    if around is None:
        result = await handler(scope, request.params)
    else:
        # Middleware is around a request until it ends.
        scope.can_stay_open = False
        result = await around(handler, scope, request.params)
    # Written here as well: a plugin can return what has no form on the wire.
    return scope.session.connection.result(request, result) if scope.open is None else None


def _error_of(error: BaseException, label: str) -> MCPError:
    """The error to send for an exception, which is logged in full unless it was meant for the client."""
    if isinstance(error, MCPError):
        return error
    if isinstance(error, ToolError):
        return InternalError(str(error))
    failure_id = log_failure(_log, error, "%s failed", label)
    return InternalError(f"internal error in {label}: see id {failure_id} in the server's log")
