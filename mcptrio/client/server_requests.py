"""Answers the requests that a server sends to the client, each in its own task.

ClientSession uses it while its link is open. Limits on tasks and unsent answers protect the client from a server that
sends requests without end or accepts no answers.

Source: MCP 2025-11-25, client/; MCP 2026-07-28 has no such requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from mcptrio.abc.links import Link
from mcptrio.abc.tracing import AnsweredRequest, trace_answer
from mcptrio.client.consent import with_consent
from mcptrio.errors import MCPError, MCPTrioError, Overloaded
from mcptrio.protocol.client_connection import ClientConnection
from mcptrio.protocol.events import RequestReceived
from mcptrio.protocol.messages import ErrorResponse, Response
from mcptrio.protocol.model.base import EmptyResult
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["ServerRequests"]

_log = logging.getLogger("mcptrio.client.server_requests")

MAX_SERVER_REQUESTS = 64
"""Requests that are answered concurrently. The next one is refused."""
MAX_UNSENT_ANSWERS = 256
"""Answers that are being sent. The next one is dropped. Over HTTP, each answer is a separate request, which the server
may not accept."""


class ServerRequests:
    """Answers the requests of one server.

    Args:
        nursery: Runs the tasks, and ends with the link.
        answer: Answers a request, given its method and params.
        send_timeout: Seconds to send an answer.
    """

    def __init__(
        self,
        link: Link,
        nursery: trio.Nursery,
        connection: ClientConnection,
        answer: Callable[[str, Any], Awaitable[Any]],
        send_timeout: float,
    ) -> None:
        self._link = link
        self._nursery = nursery
        self._connection = connection
        self._answer = answer
        self._send_timeout = send_timeout
        self._scopes: dict[object, trio.CancelScope] = {}
        self._unsent_count = 0

    def start(self, request: RequestReceived) -> None:
        """Start answering a request. Does not block."""
        # A ping is answered without a task, even beyond the limit, because it only checks that the client reads.
        if request.method.name == "ping":
            self.send(self._connection.answer(request, EmptyResult()), request.peer.revision)
        elif len(self._scopes) >= MAX_SERVER_REQUESTS:
            error = Overloaded(f"at most {MAX_SERVER_REQUESTS} requests are answered at once")
            self.send(self._connection.refuse(request, error), request.peer.revision)
        else:
            self._scopes[request.id] = trio.CancelScope()
            self._nursery.start_soon(self._serve, request)

    def cancel(self, id: object) -> bool:
        """Cancel the handler of a request. Return ``False`` if no such request is being answered."""
        scope = self._scopes.get(id)
        if scope is not None:
            scope.cancel()
        return scope is not None

    def send(self, message: Response | ErrorResponse, revision: Revision) -> None:
        """Start sending an answer. Does not block."""
        if self._unsent_count >= MAX_UNSENT_ANSWERS:
            _log.debug("%s: answer dropped, too many are unsent: limit=%d", self._link.name, MAX_UNSENT_ANSWERS)
        else:
            self._unsent_count += 1
            self._nursery.start_soon(self._send, message, revision)

    async def _serve(self, request: RequestReceived) -> None:
        served = AnsweredRequest(request)
        try:
            with self._scopes[request.id], trace_answer(served):
                try:
                    result = await self._answer(request.method.name, request.params)
                    served.reply = self._connection.answer(request, result)
                except MCPError as error:
                    served.reply = self._connection.refuse(request, error)
        finally:
            del self._scopes[request.id]
            self._connection.drop_response(request)
        if served.reply is not None:
            self.send(served.reply, request.peer.revision)

    async def _send(self, message: Response | ErrorResponse, revision: Revision) -> None:
        # The deadline is inside with_consent, so that it does not include the time in which the user decides.
        async def send() -> None:
            with trio.fail_after(self._send_timeout):
                await self._link.send(message, revision)

        try:
            await with_consent(send)
        except (MCPTrioError, trio.TooSlowError) as error:
            _log.warning("%s: answer not sent: %s", self._link.name, error)
        finally:
            self._unsent_count -= 1
