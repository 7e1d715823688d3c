"""One request in flight: its state, deadline, handler and sink.

The gate makes the scope of a request, the session serves it, and Context refers to it.
:mod:`mcptrio.runtime.request_lifecycle` has the table of its states and events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from math import inf, isfinite
from typing import Any, TypeAlias

import trio
from attrs import define, field

from mcptrio.abc import MessageSink, Principal
from mcptrio.abc.status import RequestStatus, WaitsFor
from mcptrio.abc.tracing import trace_notification
from mcptrio.errors import ConnectionClosed, MCPError, MethodNotFound
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.ground.shares import RefCountedShare
from mcptrio.protocol.events import RequestReceived
from mcptrio.protocol.messages import ErrorResponse, Notification, Response
from mcptrio.protocol.revisions.revision import NegotiationStyle
from mcptrio.runtime.callers import ANONYMOUS, ForwardedCaller, caller_of_principal, decode_caller
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.handler_errors import Expired, error_for
from mcptrio.runtime.long_work import LongWork, TaskPlan
from mcptrio.runtime.open_request import OpenRequest
from mcptrio.runtime.progress import ProgressReporter, ProgressSink
from mcptrio.runtime.request_lifecycle import TRANSITIONS, Action, RequestEvent, RequestState
from mcptrio.runtime.timeouts import CALL_TIMEOUT, Timeouts, call_timeout

__all__ = ["Handler", "RequestScope", "Wrapper", "dispatch"]


@define(eq=False, slots=True, weakref_slot=False)
class RequestScope:
    """A request from its arrival to its answer.

    Args:
        request: The request as it was received, in its revision.
        sink: The sink for all messages of this request.
        session: The session of the request.
        deadlines: The deadlines of all requests of the server, :attr:`deadline` among them.
        memory: The memory that its parameters use; ``None`` if they are small.
        owns_sink: Whether the sink serves only this request and is closed with it.
    """

    request: RequestReceived
    sink: MessageSink
    session: Conversation
    _deadlines: Deadlines
    memory: RefCountedShare | None = None
    owns_sink: bool = False
    state: RequestState = field(init=False, default=RequestState.WAITING)
    reply: Response | ErrorResponse | None = field(init=False, default=None)
    reason: str | None = field(init=False, default=None)
    """The reason why the request has no answer."""
    error: MCPError | None = field(init=False, default=None)
    """The error with which the server ends the request."""
    principal: Principal | None = field(init=False)
    """The principal of this request. A later request of the session may have a token with other scopes."""
    forwarded_caller: ForwardedCaller | None = field(init=False, default=None)
    """The caller that the parent of an isolated plugin forwards; ``None`` for any other peer."""
    label: str = field(init=False)
    """The name of the tool or other feature, for messages."""
    owner: str | None = field(init=False, default=None)
    progress: ProgressSink | None = field(init=False, default=None)
    plan: TaskPlan | None = field(init=False, default=None)
    """Can make the request a task while its handler runs; ``None`` if it must be answered with its result."""
    task: LongWork | None = field(init=False, default=None)
    """The task that the request has become; the client's request has then been answered."""
    waits_for: WaitsFor | None = field(init=False, default=None)
    in_thread: bool = field(init=False, default=False)
    store_waits: int = field(init=False, default=0)  # operations of stores for which the request waits
    is_resumable: bool = field(init=False, default=False)  # by another process, once the request is a task
    can_stay_open: bool = field(init=False, default=False)
    """Whether :meth:`keep_open` may keep it open without a task."""
    open: OpenRequest | None = field(init=False, default=None)
    on_cancelled: Callable[[], None] | None = field(init=False, default=None)
    """Closes the request if it is cancelled while it is kept open."""
    on_lost_result: Callable[[], None] | None = field(init=False, default=None)
    """Called when the request ends without its result having been sent. Does not block or raise."""
    started: float = field(init=False, factory=trio.current_time)
    deadline: float = field(init=False)
    """Trio clock time at which the request is ended with an error."""
    _timeouts: Timeouts = field(init=False)
    _turn_start: float = field(init=False)
    _caller_deadline: float = field(init=False, default=inf)
    """The caller's own deadline, which nothing extends."""
    waited: float = field(init=False, default=0.0)  # seconds for which the client was asked, without an open question
    _open_questions: int = field(init=False, default=0)
    _asked_at: float = field(init=False, default=0.0)
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
        self._turn_start = started = self.started
        if meta:
            if CALL_TIMEOUT in meta and (allowed := call_timeout(meta)) is not None:
                self._caller_deadline = started + allowed
            token = meta.get("progressToken")
            # A bool is an int in Python, but not a valid token.
            if isinstance(token, str | int) and not isinstance(token, bool):
                self.progress = ProgressReporter(token, self.sink, self.request.peer.revision)
        self.deadline = min(started + min(times.idle, times.request), self._caller_deadline)

    @property
    def scope(self) -> RequestScope:
        """The request itself. See :class:`mcptrio.runtime.current.HasRequestScope`."""
        return self

    @property
    def meta(self) -> dict[str, Any] | None:
        params = self.request.params
        return params.get("_meta") if type(params) is dict else params.meta

    @property
    def caller(self) -> str:
        """A string that is the same for one principal (issuer and subject) in all sessions and processes.

        Without a principal, it is the same in one session or connection. Without either, it is
        :data:`mcptrio.ANONYMOUS`. It reveals neither a name nor the id of a session.
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
        """The minimum level of log messages for this request; ``None`` if it gets no messages."""
        return self.request.log_level or self.session.log_level_of(self.request.peer)

    @property
    def has_ended(self) -> bool:
        """True once the handler can no longer send messages."""
        return self.state >= RequestState.CANCELLED

    # Lifecycle

    def attach_cancel_scope(self, cancel_scope: trio.CancelScope) -> bool:
        """Begin the request in the current task. Returns False if it was cancelled, so that no handler may run."""
        if self._advance(RequestEvent.BEGIN) is Action.NONE:
            return False
        self._cancel_scope = cancel_scope
        return True

    def cancel(self, reason: str) -> None:
        """Cancel the request, without an answer. The first reason is kept."""
        action = self._advance(RequestEvent.CANCEL)
        if self.state is RequestState.CANCELLED and self.reason is None:
            self.reason = reason
        self._do(action)

    def fail(self, error: MCPError) -> None:
        """End the request with an error, unless it is being answered. The first error is kept."""
        action = self._advance(RequestEvent.FAIL)
        if self.state is RequestState.FAILING and self.error is None:
            self.error = error
        elif action is Action.CLOSE_NOW:
            self.reason = error.message
        self._do(action)

    def expire(self) -> None:
        """End the request with an error, because its deadline has passed."""
        seconds = trio.current_time() - self.started
        self.fail(Expired(f"{self.label} timed out after {seconds:.3g} s", data={"timeout": seconds}))

    def keep_open(self, open: OpenRequest) -> None:
        """Keep the request open without a task. Call this only if :attr:`can_stay_open`. The result is ignored."""
        self.remove_deadline()
        if self._advance(RequestEvent.KEEP_OPEN) is Action.PROCEED:
            self.open = open
            self._cancel_scope = None
        else:
            open.on_closed()

    async def until_concluded(self) -> None:
        """Keep the request open with a task. Returns when it should be answered."""
        self.remove_deadline()
        with trio.CancelScope() as self._concluding:
            await self.session.closing.wait()
        self._concluding = None

    def conclude(self) -> None:
        """See :class:`mcptrio.runtime.work.EndableRequest`."""
        if self._concluding is not None:
            self._concluding.cancel()

    def finish(self) -> Response | ErrorResponse | None:
        """Begin to answer the request, because its handler has ended. From now on it cannot be cancelled.

        Returns:
            The answer to send; ``None`` if the request has none.
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
        """Close the request. Returns ``False`` if it was closed before."""
        if self._advance(RequestEvent.CLOSE) is Action.NONE:
            return False
        self._cancel_scope = None
        self.on_cancelled = None
        if self.reply is None and self.reason is None:
            self.reason = "the session ended"
        if self.open is not None:
            # Called however the request has ended, so that a subscription never outlives it.
            self.open.on_closed()
            self.open = None
            self.owns_sink = True
        return True

    # Time

    def begin(self, timeout: float | None) -> None:
        """Start the timeouts when the request has its places in limiters. ``timeout`` is that of the tool or plugin."""
        if trio.current_time() >= self.deadline:
            # The task that watches the deadlines has not run yet.
            self.expire()
            return
        if timeout is not None:
            self._timeouts = self._timeouts.with_request(timeout)
            self._turn_start = trio.current_time()
        self.restart_idle_timeout()

    def remove_deadline(self) -> None:
        """Remove the deadline, because the request stays open (a subscription)."""
        self.deadline = inf

    def restart_idle_timeout(self) -> None:
        if not self._open_questions:
            self._set_deadline()

    def wait_for_input(self) -> float:
        """Stop all timeouts but the caller's while the client is asked. Returns the seconds for its answer."""
        # In 2026-07-28 each answer arrives with a new request, whose time starts again. So a user's time to answer does
        # not count there, and must not count in the other revisions.
        if not self._open_questions:
            self._asked_at = trio.current_time()
        self._open_questions += 1
        self.deadline = self._caller_deadline
        return self._timeouts.input

    def input_arrived(self) -> None:
        self._open_questions -= 1
        if not self._open_questions:
            now = trio.current_time()
            self.waited += now - self._asked_at
            self._turn_start += now - max(self._asked_at, self._turn_start)
        self.restart_idle_timeout()

    # Messages

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress: restart the idle timeout, and notify the client if it has sent a progress token.

        Raises:
            ValueError: A number is not finite.
        """
        if not isfinite(progress) or (total is not None and not isfinite(total)):
            raise ValueError(f"expected finite numbers, got progress={progress!r}, total={total!r}")
        self.restart_idle_timeout()
        if self.progress is not None and not self.has_ended:
            self.progress.report(progress, total, message)

    def notify(self, method: str, params: Any, *, key: object = None) -> bool:
        """Send a notification that belongs to this request, without waiting.

        Returns:
            False if the revision has no such notification, or if the request has ended.
        """
        notification = self.session.connection.notification(method, params, peer=self.request.peer)
        if notification is None or self.has_ended:
            return False
        trace_notification(notification)
        self.sink.send_latest(notification, object() if key is None else key)
        return True

    async def send(self, notification: Notification) -> None:
        """Send a notification in wire form; waits while the sink is full. Raises as :meth:`check_open` does."""
        self.check_open()
        trace_notification(notification)
        await self.sink.send(notification)

    def check_open(self) -> None:
        """Raise ConnectionClosed if the request has ended. Called before a message is sent for it."""
        # The sink of a shared channel would still accept messages.
        if self.has_ended:
            raise ConnectionClosed(f"cannot send: request {self.label} has ended")

    @property
    def status(self) -> RequestStatus:
        now, peer = trio.current_time(), self.request.peer
        return RequestStatus(
            id=self.request.id,
            method=self.request.method.name,
            label=self.label,
            plugin=self.owner,
            client=peer.info.name if peer.info is not None else None,
            principal=self.principal.subject if self.principal is not None else None,
            revision=peer.revision.version,
            age=now - self.started,
            deadline=None if self.deadline == inf else self.deadline - now,
            progress=self.progress.latest if self.progress else None,
            total=self.progress.total if self.progress else None,
            waiting_for_input=self._open_questions > 0,
            waits_for=self.waits_for or ("store" if self.store_waits else None),
            in_thread=self.in_thread,
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
        self.deadline = min(trio.current_time() + times.idle, self._turn_start + times.request, self._caller_deadline)
        if self.deadline < self._deadlines.next:
            self._deadlines.moved(self)


Handler: TypeAlias = Callable[[RequestScope, Any], Awaitable[Any]]
"""A function that takes the scope of a request and the method's params, and returns the method's result."""

Wrapper: TypeAlias = Callable[[Handler, RequestScope, Any], Awaitable[Any]]
"""A function that calls a handler, and may work before and after the call."""


async def dispatch(
    handlers: Mapping[str, Handler], scope: RequestScope, around: Wrapper | None = None
) -> Response | ErrorResponse | None:
    """Run the handler of a request, and return the response; ``None`` if the request stays open.

    Args:
        around: The middleware, which calls the handler.

    Raises:
        MCPError: The error to send to the client.
    """
    handler = handlers.get(scope.label)
    if handler is None:
        raise MethodNotFound(f"no such method: {scope.label}")
    outcome = await run_guarded(_handle, handler, scope, around)
    if isinstance(outcome, Failure):
        raise error_for(outcome.error, scope.label)
    return outcome.value


async def _handle(handler: Handler, scope: RequestScope, around: Wrapper | None) -> Response | ErrorResponse | None:
    request = scope.request
    if around is None:
        result = await handler(scope, request.params)
    else:
        # Middleware must run until the request ends, so the request needs its task.
        scope.can_stay_open = False
        result = await around(handler, scope, request.params)
    # Converted within run_guarded() too, because a plugin may return a value that cannot be encoded.
    return scope.session.connection.result(request, result) if scope.open is None else None
