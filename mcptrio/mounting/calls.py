"""The calls in flight to a mounted server, and the client to which each question or log message belongs.

The relay registers each request that it forwards. A question or log message is passed on only to the client that it
belongs to. If that is ambiguous, a question is refused, and a log message is written to our own log.

- A question in a result belongs to the call of that result.
- A question that arrives on the HTTP stream of a call arrives in the task of that call.
- Any other question, especially over a pipe, does not name its call. It may belong to every call that the server may be
  working on: those in flight, and those that were abandoned on this connection, because a server may ignore a
  cancellation. The question is passed on only if all of these calls are of one client.

An ambiguous question is refused at once. It does not wait until other calls have ended, because the server may stop
waiting for the answer and end the call.

Source: MCP 2025-11-25, client/elicitation and client/sampling ("nested inside other MCP server features"),
basic/utilities/cancellation.
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import trio

from mcptrio.capabilities.catalog import catalog_of
from mcptrio.capabilities.context import Context, inputs_of
from mcptrio.capabilities.relayed_question import RelayedQuestion
from mcptrio.errors import InternalError, InvalidRequest, MCPError
from mcptrio.ground.guarded import Done, Failure, run_guarded, run_guarded_sync
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.elicitation import ElicitationCompleteParams, ElicitURLParams
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.current import CURRENT

__all__ = ["CLIENT", "Call", "CallsInFlight"]

_log = logging.getLogger("mcptrio.mounting.calls")

CLIENT = "mcptrio/client"
"""The key of ``params._meta`` with an opaque value, which differs between the calls of different clients."""
_SECRET = secrets.token_hex()
_MAX_URLS = 1000
"""URL elicitations whose completion may still be reported; when full, the oldest is evicted."""


class Call:
    """One request that is forwarded.

    Args:
        nursery: A nursery in the handler of the request, which runs the questions to the client; ``None`` if the server
            cannot ask during this request.

    Attributes:
        is_pending: True while the server may work on the request and send a question that does not name it.
    """

    def __init__(self, context: Context, nursery: trio.Nursery | None) -> None:
        self.context = context
        self._nursery = nursery
        self._open_questions = 0
        self._answered = trio.lowlevel.ParkingLot()
        self.is_pending = False

    @property
    def can_ask(self) -> bool:
        return self._nursery is not None

    @property
    def client(self) -> str:
        """A value that is equal for all calls of one client, and different for every other client.

        If the peer is a mount too, one session carries the calls of several clients, and ``_meta`` distinguishes them.
        """
        # The mounted server gets the value. A hash with a secret keeps session ids from it, and keeps a client from
        # choosing the value of another client.
        identity = f"{_SECRET}{inputs_of(self.context).scope.session.id} {self.context.meta.get(CLIENT)}"
        return sha256(identity.encode()).hexdigest()[:24]

    async def ask(self, question: RelayedQuestion) -> Result:
        """Ask the client of this call.

        Raises:
            MCPError: The client cannot be asked, has refused, has not answered in time, or has disconnected.
        """
        if self._nursery is None:
            raise InvalidRequest("the server asked for input during a request that cannot pass it to the client")
        outcomes: list[Done[Any] | Failure] = []
        answered = trio.Event()
        scope = trio.CancelScope()

        async def work() -> None:
            # This runs in the handler's nursery, because a question that waits for the client's next request suspends
            # the handler.
            try:
                with scope:
                    outcomes.append(await run_guarded(partial(inputs_of(self.context).ask, [question])))
            finally:
                answered.set()

        self._open_questions += 1
        self._nursery.start_soon(work)
        try:
            await answered.wait()
        finally:
            scope.cancel()
            self._open_questions -= 1
            self._answered.unpark_all()
        # The nursery was cancelled before the question was answered.
        if not outcomes:
            raise InternalError("the client of this call has disconnected")
        [outcome] = outcomes
        if isinstance(outcome, Done):
            # There was one question, so there is one answer.
            [answer] = outcome.value
            assert isinstance(answer, Result)
            return answer
        if isinstance(outcome.error, MCPError):
            raise outcome.error
        # This deadline says nothing about the mounted server, so it becomes an error of the question.
        if isinstance(outcome.error, trio.TooSlowError):
            raise InternalError("the client did not answer in time") from outcome.error
        raise InternalError("the client cannot be asked") from outcome.error

    async def until_answered(self) -> None:
        """Wait until the open questions are answered, because another call of the same client may need the answers."""
        while self._open_questions:
            await self._answered.park()


class CallsInFlight:
    """The calls in flight to one mounted server, and the clients that its questions belong to.

    Args:
        connection: Returns a value that differs for each connection to the server.
    """

    def __init__(self, name: str, connection: Callable[[], object]) -> None:
        self._name = name
        self._connection = connection
        self._calls: dict[Call, None] = {}
        """The calls in flight, the oldest first."""
        self._changed = trio.lowlevel.ParkingLot()
        self._abandoned: set[str] = set()
        """Clients with abandoned calls. Two are enough, because every question is then ambiguous."""
        self._abandoned_on: object = None
        """The connection on which these calls were made."""
        self._url_sessions: OrderedDict[str, Conversation] = OrderedDict()
        """The session that was asked to open a URL, by elicitation id."""

    @contextmanager
    def in_flight(self, call: Call) -> Iterator[None]:
        """Register the call during the block. If it is still pending at the end, it is abandoned."""
        self._calls[call] = None
        try:
            yield
        finally:
            del self._calls[call]
            if call.is_pending:
                # Calls are pending only in revisions whose servers ask with requests. A server that ignores the
                # cancellation may still ask.
                self._abandon(call)
            self._changed.unpark_all()

    async def wait_none(self) -> None:
        """Wait until no call is in flight."""
        while self._calls:
            await self._changed.park()

    async def ask(self, method: str, params: Any) -> Result:
        """Pass a question of the server on to the client that it belongs to.

        Raises:
            MCPError: No client can be asked, the client is ambiguous, or the client has not answered.
        """
        # Read before the call is looked up, so that an unknown method always gets its own error.
        question = RelayedQuestion.of_request(method, params)
        call = self._require_call()
        if isinstance(params, ElicitURLParams) and params.elicitation_id is not None:
            self.url_opened(params.elicitation_id, call.context)
        return await call.ask(question)

    def url_opened(self, elicitation_id: str, context: Context) -> None:
        """Remember which client opens a URL. Its completion may be reported after the call has ended."""
        self._url_sessions[elicitation_id] = inputs_of(context).scope.session
        # Without a bound, the table would grow forever if a server reports no completions.
        if len(self._url_sessions) > _MAX_URLS:
            self._url_sessions.popitem(last=False)

    def url_completed(self, elicitation_id: str) -> None:
        """Notify the client that opened the URL, if its revision has the notification."""
        # Removed, because each completion is reported once.
        session = self._url_sessions.pop(elicitation_id, None)
        if session is not None:
            method = "notifications/elicitation/complete"
            params = ElicitationCompleteParams(elicitation_id=elicitation_id)
            session.notify(method, params, key=(method, elicitation_id))

    def forward_log(self, message: LoggingMessageParams) -> None:
        """Pass a log message to the client of its call. If the call is ambiguous, write the message to our own log."""
        call = self._find_call()
        if call is None:
            _log.info("%s: %s: %s", self._name, message.level, message.data)
            return
        context = call.context
        emit = partial(
            catalog_of(context.server).logging.emit,
            inputs_of(context).scope,
            message.level,
            message.data,
            message.logger,
        )
        # Guarded, because an invalid level from the mounted server must not end the connection.
        outcome = run_guarded_sync(emit)
        if isinstance(outcome, Failure):
            _log.warning("%s: log message dropped: %s", self._name, outcome.error)

    # Private

    def _abandon(self, call: Call) -> None:
        # A new connection is a new process or session, which does not ask for calls of the previous one.
        connection = self._connection()
        if self._abandoned_on != connection:
            self._abandoned_on, self._abandoned = connection, set()
        # Two clients are enough to make every question ambiguous, so a flood of cancelled calls takes no more memory.
        if len(self._abandoned) < 2:
            self._abandoned.add(call.client)

    def _require_call(self) -> Call:
        """Return the call that a question of the server belongs to.

        Raises:
            InvalidRequest: No call is in flight, or the client is ambiguous.
        """
        call = self._find_call()
        if call is not None:
            return call
        if not self._calls:
            raise InvalidRequest("no call is in flight, so there is no client to ask")
        clients = {call.client for call in self._calls}
        if len(clients) > 1:
            why = f"{len(self._calls)} calls of several clients are in flight"
        else:
            why = "a call of another client was cancelled, and the server may still work on it; restart the server"
        _log.warning("%s: question of the server refused: %s", self._name, why)
        raise InvalidRequest(f"the call of this question is ambiguous: {why}")

    def _find_call(self) -> Call | None:
        current_work = CURRENT.get()
        # Over HTTP, this runs in the task that reads the stream of a call, so the context variable names the call.
        if current_work is not None:
            for call in self._calls:
                if inputs_of(call.context).scope is current_work.scope:
                    return call
        clients = {call.client for call in self._calls}
        # A question on this connection cannot belong to a call that was abandoned on an earlier one.
        if self._abandoned_on == self._connection():
            clients |= self._abandoned
        if len(clients) > 1:
            return None
        # All calls are of one client. Prefer a call that can ask, which a completion cannot.
        return max(self._calls, key=lambda call: call.can_ask, default=None)
