"""One request in flight: its cancel scope, its deadline, where its messages go.

Made by the session (or by the supervisor, for a request that stands alone), handed to dispatch, held by Context.
The one rule: cancellation has one door, :meth:`RequestScope.cancel`; a notification, a disconnect, the end of the
session, shutdown all knock there, and the deadline is the scope's own.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Protocol

import trio

from mcptrio.abc import Outlet, Principal
from mcptrio.abc.status import RequestStatus
from mcptrio.errors import ConnectionClosed, InternalError, MCPError, Overloaded
from mcptrio.ground.shares import Place, Places
from mcptrio.protocol.events import RequestReceived
from mcptrio.protocol.messages import ErrorResponse, Notification, Response
from mcptrio.runtime.callers import Stated, read_stated
from mcptrio.runtime.progress import Progress
from mcptrio.runtime.timeouts import Timeouts, call_timeout

if TYPE_CHECKING:
    from mcptrio.runtime.session import Session

__all__ = ["RequestScope", "Standing"]


class Standing(Protocol):
    """A request that stays open and does nothing; it needs no task for that."""

    def result(self) -> Any:
        """Of the method, when the server stops. Never waits, never raises."""
        ...

    def over(self) -> None:
        """It is open no more, however it ended. Never waits, never raises."""
        ...


class RequestScope:
    """
    Attributes:
        request: what was received, in its revision.
        outlet: where everything about this request goes.
        session: the conversation it came in.
        deadline: trio time at which the request is given up, as things are now; watched by the supervisor.
        closes: whether the outlet is the request's own, and is closed at its end.
        reply: what the handler came to.
        reason: why it was cancelled, where somebody said.
        fault: what is told where it was not its client that ended it.
        started: trio time.
        stated: for whom the process that started this one asks; ``None`` where the peer is anybody else.
        may_stand: whether it may stay open without a task (:meth:`stand`).
        standing: what is open while it does.
    """

    __slots__ = (
        "_begun",
        "_concluding",
        "_latest",
        "_lent",
        "_place",
        "_timeouts",
        "_users",
        "_waiting",
        "closes",
        "deadline",
        "ended",
        "fault",
        "label",
        "may_stand",
        "outlet",
        "owner",
        "principal",
        "progress",
        "reason",
        "released",
        "reply",
        "request",
        "session",
        "standing",
        "started",
        "stated",
    )

    def __init__(
        self, request: RequestReceived, outlet: Outlet, session: Session, timeouts: Timeouts, *, closes: bool = False
    ) -> None:
        self.request = request
        self.outlet = outlet
        self.session = session
        self.principal: Principal | None = session.principal
        """Who asked. With a later token of the same person, a later request of the session may do more, or less."""
        self.started = trio.current_time()
        self.reason: str | None = None
        self.ended = False
        """The answer is on its way: nothing else of this request may be sent any more."""
        self.label = request.method.name
        self.owner: str | None = None
        self._waiting = 0
        meta = self.meta
        allowed = call_timeout(meta)
        self._latest = inf if allowed is None else self.started + allowed
        """The caller gives up then, whatever else holds."""
        self._timeouts = timeouts
        self._begun = self.started
        self.deadline = min(self.started + min(timeouts.idle, timeouts.request), self._latest)
        self.closes = closes
        self.reply: Response | ErrorResponse | None = None
        self.fault: MCPError | None = None
        self.released = False
        self.may_stand = False
        self.standing: Standing | None = None
        self._lent: trio.CancelScope | None = None
        self._concluding: trio.CancelScope | None = None
        self._place: Place | None = None
        self._users = 0
        self.stated: Stated | None = None
        if session.believes:
            self.stated = read_stated(request.method.name, meta)
            self.principal = self.stated.principal
        token = meta.get("progressToken") if meta else None
        # A bool is an int to isinstance, and no token.
        if not isinstance(token, str | int) or isinstance(token, bool):
            self.progress: Progress | None = None
        else:
            self.progress = Progress(token, outlet, request.peer.revision)

    @property
    def scope(self) -> RequestScope:
        return self

    @property
    def stands(self) -> bool:
        """Whether it is open without a task."""
        return self.standing is not None and self.reply is None

    @property
    def meta(self) -> dict[str, Any] | None:
        params = self.request.params
        return params.get("_meta") if type(params) is dict else params.meta

    @property
    def log_level(self) -> str | None:
        """The least severe level the client wants to see of this request; ``None``: nothing."""
        return self.request.log_level or self.session.log_level_of(self.request.peer)

    def hold(self, places: Places) -> None:
        """The request begins, and takes bytes of memory for its parameters. Call :meth:`let_go` once at its end.

        Raises:
            Overloaded: all requests, or those of its client, hold too many already.
        """
        weight, owner = self.request.weight, self.request.owner
        self._place = places.take(self.session if owner is None else owner, weight) if weight else None
        if weight and self._place is None:
            raise Overloaded(
                f"too much to hold: the parameters take about {weight} bytes of memory, those of all requests at work"
                f" {places.taken}; the limit is {places.limit}, and half of it for one client"
            )
        self.use()

    def use(self) -> None:
        """One more holds the parameters: the request, or code of a plugin, which may outlive it."""
        self._users += 1

    def let_go(self) -> None:
        """One less; the last one gives the place back."""
        self._users -= 1
        if not self._users and self._place is not None:
            self.session.supervisor.held.give_back(self._place)
            self._place = None

    def cancel(self, reason: str) -> None:
        """Stop the request: nothing more is sent for it. The first reason given is kept."""
        if self.reason is None:
            self.reason = reason
        self.ended = True
        if self._lent is not None:
            self._lent.cancel()
        elif self.standing is not None:
            self.session.release(self)

    def expire(self) -> None:
        """The deadline has passed: stop, and say so."""
        seconds = trio.current_time() - self.started
        self.give_up(InternalError(f"{self.label} timed out after {seconds:.3g} s", data={"timeout": seconds}))

    def give_up(self, fault: MCPError) -> None:
        """Stop the request and answer with an error, unless its answer is on its way. The first one given is kept."""
        if not self.ended and self.fault is None:
            self.fault = fault
            if self._lent is not None:
                self._lent.cancel()

    def lend(self, cancel_scope: trio.CancelScope) -> bool:
        """The scope around the handler, for as long as that runs.

        Returns:
            Whether the request is still wanted.
        """
        if self.reason is not None or self.fault is not None:
            return False
        self._lent = cancel_scope
        return True

    def stand(self, standing: Standing) -> None:
        """Stay open, where ``may_stand`` says so; the handler returns, and what it returns is not sent."""
        self.unbounded()
        if self.reason is None:
            self.standing = standing
            self._lent = None
        else:
            standing.over()

    async def until_concluded(self) -> None:
        """Stay open, where ``may_stand`` does not say so. Returns when it is time for the answer."""
        self.unbounded()
        with trio.CancelScope() as self._concluding:
            await self.session.closing.wait()
        self._concluding = None

    def conclude(self) -> None:
        """See :class:`mcptrio.runtime.work.Ending`."""
        if self._concluding is not None:
            self._concluding.cancel()

    def settle(self) -> None:
        """The handler is done: nothing is cancelled through this request any more, and nothing but the answer sent."""
        self._lent = None
        self.ended = True

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
            self._timeouts = self._timeouts.stated(timeout)
            self._begun = trio.current_time()
        self._set_deadline()

    def unbounded(self) -> None:
        """This request is meant to stay open (a subscription)."""
        self.deadline = inf

    def touch(self) -> None:
        """There is life in the request: the idle time starts again."""
        if not self._waiting:
            self._set_deadline()

    def wait_for_input(self) -> float:
        """The client is being asked: the idle time stops. Returns the seconds it may take."""
        self._waiting += 1
        self.deadline = min(self._begun + self._timeouts.request, self._latest)
        return self._timeouts.input

    def input_arrived(self) -> None:
        self._waiting -= 1
        self.touch()

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress: pushes the idle deadline, and is told where the client asked for it.

        Raises:
            ValueError: not a finite number.
        """
        if not isfinite(progress) or (total is not None and not isfinite(total)):
            raise ValueError(f"expected finite numbers, got progress={progress!r}, total={total!r}")
        self.touch()
        if self.progress is not None and not self.ended:
            self.progress.report(progress, total, message)

    def notify(self, method: str, params: Any, *, key: object = None) -> bool:
        """Send a notification that belongs to this request, without waiting.

        Returns:
            Whether it was: the revision has it, and the answer is not on its way yet.
        """
        notification = self.session.connection.notification(method, params, peer=self.request.peer)
        if notification is None or self.ended:
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
        if self.ended:
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

    def _set_deadline(self) -> None:
        times = self._timeouts
        deadline = min(trio.current_time() + times.idle, self._begun + times.request, self._latest)
        self.deadline = deadline
        self.session.supervisor.deadlines.moved(self)
