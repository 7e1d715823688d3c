"""Sends requests to the client, and waits for their responses with a deadline.

The back channel, the keepalive and plugins' own requests use this. If the caller stops waiting, the client receives
``notifications/cancelled``, sent under a short shield.

Source: MCP 2025-11-25, basic/utilities/cancellation; basic/lifecycle, "Timeouts".
"""

from __future__ import annotations

from typing import Any

import trio
from attrs import define

from mcptrio.abc import MessageSink
from mcptrio.abc.status import QuestionStatus
from mcptrio.abc.tracing import trace_notification, trace_sending
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import Peer, ResponseReceived
from mcptrio.protocol.messages import Request, RequestId
from mcptrio.protocol.model.cancellation import CancelledParams
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["Outgoing"]

CANCEL_NOTICE_TIMEOUT = 1.0
"""Seconds for sending a cancellation. A peer that does not read it in this time has probably stopped reading."""


@define(slots=True, eq=False)
class _PendingRequest:
    """A request that was sent to the client and has no response yet."""

    method: str
    since: float
    arrived: trio.Event
    answer: ResponseReceived | None = None


class Outgoing:
    """The requests of one session to its client."""

    def __init__(self, connection: Connection, timeouts: Timeouts) -> None:
        self._connection = connection
        self._timeouts = timeouts
        self._pending: dict[RequestId, _PendingRequest] = {}
        self._closed: str | None = None

    async def request(
        self, method: str, params: Any, *, peer: Peer, sink: MessageSink, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send a request and return its result in wire form.

        Args:
            params: An instance of the method's params; a dict for a method outside the specification; or ``None``.
            timeout: Seconds; by default ``timeouts.input``.

        Raises:
            MCPError: The client responded with an error; ``code`` and ``data`` are the client's.
            MethodNotFound: The revision has no such request.
            trio.TooSlowError: No response in time; the client is told to cancel the request.
            ConnectionClosed: The session ended before the response arrived.
        """
        # If the caller is already cancelled, the user must not be asked.
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None:
            raise ConnectionClosed(self._closed)
        connection = self._connection
        if isinstance(params, dict):
            message = connection.custom_request(method, params, peer=peer)
        else:
            message = connection.request(method, params, peer=peer)
        waiter = self._pending[message.id] = _PendingRequest(method, trio.current_time(), trio.Event())
        with trace_sending(message, revision=peer.revision.version):
            await self._exchange(message, waiter, peer, sink, self._timeouts.input if timeout is None else timeout)
            answer = waiter.answer
            if answer is None:
                raise ConnectionClosed(self._closed or "the session ended")
            if answer.error is not None:
                raise answer.error
        return answer.result or {}

    def settle(self, event: ResponseReceived) -> None:
        """Pass a response to the waiting caller."""
        waiter = self._pending.get(event.id)
        if waiter is not None:
            waiter.answer = event
            waiter.arrived.set()

    def close(self, reason: str) -> None:
        """Raise ConnectionClosed in all waiting callers."""
        self._closed = reason
        for waiter in self._pending.values():
            waiter.arrived.set()

    @property
    def status(self) -> tuple[QuestionStatus, ...]:
        now = trio.current_time()
        return tuple(QuestionStatus(id=id, method=w.method, age=now - w.since) for id, w in self._pending.items())

    async def _exchange(
        self, message: Request, waiter: _PendingRequest, peer: Peer, sink: MessageSink, timeout: float
    ) -> None:
        sent = False
        try:
            with trio.fail_after(timeout):
                await sink.send(message)
                sent = True
                await waiter.arrived.wait()
        finally:
            del self._pending[message.id]
            if waiter.answer is None:
                self._connection.abandon(message.id)
                # A request that was not sent completely, or that has ended, needs no cancellation.
                if sent and not waiter.arrived.is_set():
                    with trio.move_on_after(CANCEL_NOTICE_TIMEOUT, shield=True):
                        await self._send_cancellation(message, peer, sink)

    async def _send_cancellation(self, message: Request, peer: Peer, sink: MessageSink) -> None:
        params = CancelledParams(request_id=message.id, reason="no longer needed")
        notice = self._connection.notification("notifications/cancelled", params, peer=peer)
        if notice is not None:
            trace_notification(notice, peer.revision.version)
            try:
                await sink.send(notice)
            except ConnectionClosed:
                pass  # The peer cancels the request anyway, because its connection has ended.
