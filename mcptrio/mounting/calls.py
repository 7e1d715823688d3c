"""Calls of a mounted server that are in flight, and which of them a question or a log message belongs to.

Entered by the relay for each request it carries on.
The one rule: nobody is asked, or told, what may be somebody else's. Where it cannot be told whose a question is, it is
refused.

How it is told. Where a question comes in a result, there is nothing to find out. Where it comes as a request, over HTTP
it arrives in the task that reads the answer to the call, so it is known. Over a pipe it is only known to belong to one
of the calls in flight: so if there is one, or all are of one client, that is who is asked. Otherwise the question waits
a little for the other calls to end: the one that asks cannot.

Source: MCP 2025-11-25, client/elicitation and client/sampling, which are requests of the session's.
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import trio

from mcptrio.capabilities.context import Context
from mcptrio.errors import InternalError, InvalidRequest, MCPError
from mcptrio.mounting.questions import RelayedQuestion
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.elicitation import ElicitationCompleteParams, ElicitURLParams
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.dispatch import Done, Failure, contain, contain_sync
from mcptrio.runtime.session import Session

__all__ = ["CLIENT", "Call", "Calls"]

_log = logging.getLogger("mcptrio.mounting.calls")

CLIENT = "mcptrio/client"
"""``params._meta`` key: tells the calls of one client from those of others, and nothing else."""
_SECRET = secrets.token_hex()
_MOST_PAGES = 1000
"""Pages of which it is told that the user is done with them; of more, the oldest is forgotten."""

PATIENCE = 2.0
"""Seconds a question waits for it to become clear whose it is."""


class Call:
    """One request that is carried on.

    Args:
        nursery: below the handler of the request, where its client can be asked; ``None``: it need not be.
    """

    def __init__(self, context: Context, nursery: trio.Nursery | None) -> None:
        self.context = context
        self._nursery = nursery
        self._open = 0
        self._answered = trio.Event()

    @property
    def client(self) -> str:
        """Whose it is: calls of one client have the same, as long as they are in flight.

        Where a conversation carries the calls of several clients, because the peer is a mount too, that says whose.
        """
        said = f"{_SECRET}{id(self.context.inputs.scope.session)} {self.context.meta.get(CLIENT)}"
        return sha256(said.encode()).hexdigest()[:24]

    async def ask(self, question: RelayedQuestion) -> Result:
        """Ask its client.

        Raises:
            MCPError: it cannot be asked, refused, did not answer in time, or has left.
        """
        if self._nursery is None:
            raise InvalidRequest("what this server asks stands in its results")
        outcomes: list[Done[Any] | Failure] = []
        answered = trio.Event()
        scope = trio.CancelScope()

        async def work() -> None:
            # Here, below the handler, since a question that waits for another request suspends that.
            try:
                with scope:
                    outcomes.append(await contain(partial(self.context.ask, question)))
            finally:
                answered.set()

        self._open += 1
        self._nursery.start_soon(work)
        try:
            await answered.wait()
        finally:
            scope.cancel()
            self._open -= 1
            self._answered.set()
        if not outcomes:
            raise InternalError("the client whose call this is has left")
        [outcome] = outcomes
        if isinstance(outcome, Done):
            [answer] = outcome.value
            assert isinstance(answer, Result)
            return answer
        if isinstance(outcome.error, MCPError):
            raise outcome.error
        if isinstance(outcome.error, trio.TooSlowError):
            raise InternalError("the client did not answer in time") from outcome.error
        raise InternalError("the client cannot be asked") from outcome.error

    async def until_answered(self) -> None:
        """Wait for what is being asked through it: it may be another call of the same client that needs the answer."""
        while self._open:
            self._answered = trio.Event()
            await self._answered.wait()


class Calls:
    """
    Args:
        name: of the mount.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: dict[Call, None] = {}
        """In flight, the oldest first."""
        self._changed = trio.Event()
        self._pages: OrderedDict[str, Session] = OrderedDict()
        """Who was to open a page."""

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def entered(self, call: Call) -> Iterator[None]:
        """While inside, the call is in flight."""
        self._calls[call] = None
        try:
            yield
        finally:
            del self._calls[call]
            self._changed.set()
            self._changed = trio.Event()

    async def wait_none(self) -> None:
        """Wait until no call is in flight."""
        while self._calls:
            await self._changed.wait()

    async def ask(self, method: str, params: Any) -> Result:
        """Ask the client that a question of the server's is for.

        Raises:
            MCPError: it is nobody's, it cannot be told whose it is, or the client did not answer it.
        """
        question = RelayedQuestion.of_request(method, params)
        call = await self._whose()
        if isinstance(params, ElicitURLParams) and params.elicitation_id is not None:
            self.page_asked(params.elicitation_id, call.context)
        return await call.ask(question)

    def page_asked(self, elicitation_id: str, context: Context) -> None:
        """A client is to open a page; that the user is done with it is told later, when the call may be over."""
        self._pages[elicitation_id] = context.inputs.scope.session
        if len(self._pages) > _MOST_PAGES:
            self._pages.popitem(last=False)

    def page_done(self, elicitation_id: str) -> None:
        """Tell the client that was to open a page, where its revision has a word for that."""
        session = self._pages.pop(elicitation_id, None)
        if session is not None:
            method = "notifications/elicitation/complete"
            params = ElicitationCompleteParams(elicitation_id=elicitation_id)
            session.notify(method, params, key=(method, elicitation_id))

    def hear(self, message: LoggingMessageParams) -> None:
        """Hand a log message to the client whose it is; where that is not known, it goes into our own log."""
        call = self._found()
        if call is None:
            _log.info("%s: %s: %s", self._name, message.level, message.data)
            return
        context = call.context
        emit = partial(context.server.logging.emit, context.inputs.scope, message.level, message.data, message.logger)
        outcome = contain_sync(emit)
        if isinstance(outcome, Failure):
            _log.warning("%s: a log message was dropped: %s", self._name, outcome.error)

    # Private

    async def _whose(self) -> Call:
        call = self._found()
        with trio.move_on_after(PATIENCE):
            while call is None and self._calls:
                await self._changed.wait()
                call = self._found()
        if call is not None:
            return call
        if not self._calls:
            raise InvalidRequest("no call is in flight, so there is no client to ask")
        several = f"{len(self._calls)} of several clients are in flight"
        raise InvalidRequest(f"it cannot be told which call this question belongs to: {several}")

    def _found(self) -> Call | None:
        working = CURRENT.get()
        if working is not None:
            for call in self._calls:
                if call.context.inputs.scope is working.scope:
                    return call
        if len({call.client for call in self._calls}) == 1:
            return next(reversed(self._calls))
        return None
