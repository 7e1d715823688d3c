"""Requests to the client: sent, awaited with a deadline, and cancelled when their caller stops waiting.

The back channel, the keepalive and plugins' own requests use this. If the ``await`` ends early, the client gets
``notifications/cancelled``, sent under a short shield.

Source: MCP 2025-11-25, basic/utilities/cancellation; basic/lifecycle, "Timeouts".
"""

from __future__ import annotations

from typing import Any

import trio
from attrs import define

from mcptrio.abc import MessageSink
from mcptrio.abc.status import QuestionStatus
from mcptrio.abc.tracing import sending, trace_notification
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import Peer, ResponseReceived
from mcptrio.protocol.messages import Request, RequestId
from mcptrio.protocol.model.cancellation import CancelledParams
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["Outgoing"]

CANCEL_NOTICE_TIMEOUT = 1.0
"""Seconds for sending a cancellation. A peer that has not read it by then has stopped reading."""


@define(slots=True, eq=False)
class _Waiter:
    method: str
    since: float
    arrived: trio.Event
    answer: ResponseReceived | None = None


class Outgoing:
    def __init__(self, connection: Connection, timeouts: Timeouts) -> None:
        self._connection = connection
        self._timeouts = timeouts
        self._waiters: dict[RequestId, _Waiter] = {}
        self._closed: str | None = None

    async def request(
        self, method: str, params: Any, *, peer: Peer, outlet: MessageSink, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send a request and return its result in wire form.

        Args:
            params: An instance of the method's params; a dict for a method outside the specification; or ``None``.
            timeout: Seconds; by default ``timeouts.input``.

        Raises:
            MCPError: The client responded with an error; ``code`` and ``data`` are the client's.
            MethodNotFound: The revision has no such request.
            trio.TooSlowError: No response in time; the request is cancelled on the client.
            ConnectionClosed: The session ended first.
        """
        # A cancelled caller must not ask the user.
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None:
            raise ConnectionClosed(self._closed)
        connection = self._connection
        if isinstance(params, dict):
            message = connection.own_request(method, params, peer=peer)
        else:
            message = connection.request(method, params, peer=peer)
        waiter = self._waiters[message.id] = _Waiter(method, trio.current_time(), trio.Event())
        with sending(message, revision=peer.revision.version):
            await self._exchange(message, waiter, peer, outlet, self._timeouts.input if timeout is None else timeout)
            answer = waiter.answer
            if answer is None:
                raise ConnectionClosed(self._closed or "the session ended")
            if answer.error is not None:
                raise answer.error
        return answer.result or {}

    def settle(self, event: ResponseReceived) -> None:
        """Pass a response to the waiting caller."""
        waiter = self._waiters.get(event.id)
        if waiter is not None:
            waiter.answer = event
            waiter.arrived.set()

    def close(self, reason: str) -> None:
        """Raise ConnectionClosed in all waiting callers."""
        self._closed = reason
        for waiter in self._waiters.values():
            waiter.arrived.set()

    @property
    def status(self) -> tuple[QuestionStatus, ...]:
        now = trio.current_time()
        return tuple(QuestionStatus(id=id, method=w.method, age=now - w.since) for id, w in self._waiters.items())

    async def _exchange(
        self, message: Request, waiter: _Waiter, peer: Peer, outlet: MessageSink, timeout: float
    ) -> None:
        sent = False
        try:
            with trio.fail_after(timeout):
                await outlet.send(message)
                sent = True
                await waiter.arrived.wait()
        finally:
            del self._waiters[message.id]
            if waiter.answer is None:
                self._connection.abandon(message.id)
                # A request that was never sent needs no cancellation, and a request with a response has ended.
                if sent and not waiter.arrived.is_set():
                    with trio.move_on_after(CANCEL_NOTICE_TIMEOUT, shield=True):
                        await self._take_back(message, peer, outlet)

    async def _take_back(self, message: Request, peer: Peer, outlet: MessageSink) -> None:
        params = CancelledParams(request_id=message.id, reason="no longer needed")
        notice = self._connection.notification("notifications/cancelled", params, peer=peer)
        if notice is not None:
            trace_notification(notice, peer.revision.version)
            try:
                await outlet.send(notice)
            except ConnectionClosed:
                pass  # The peer cancels the request anyway, because its connection has ended.
