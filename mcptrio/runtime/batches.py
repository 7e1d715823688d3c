"""The responses to a JSON-RPC batch, collected into one array.

The session puts this sink between the requests of a batch and the sink of the session. Only 2025-03-26 has batches.
Responses are collected; progress and requests to the client are sent immediately.

Source: JSON-RPC 2.0 section 6; MCP 2025-03-26, basic/index, "Batching".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcptrio.abc import MessageSink
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.messages import Batch, ErrorResponse, Message, Notification, Response

__all__ = ["BatchSink"]


class BatchSink:
    """A message sink that collects the responses of one batch, and sends them when all its users have closed it.

    Args:
        batch: The batch. Each message of it closes this sink once.
        sink: The sink to which everything is sent.
        start: Starts a task of the session.
        closes: Whether to close ``sink`` at the end.
    """

    def __init__(self, batch: Batch, sink: MessageSink, *, start: Callable[..., Any], closes: bool) -> None:
        self._open = len(batch.messages)
        self._sink = sink
        self._start = start
        self._closes = closes
        self._answers: list[Message] = []

    async def send(self, message: Message | Sequence[Message]) -> None:
        if isinstance(message, Response | ErrorResponse):
            # JSON-RPC 2.0 section 6: the responses of a batch are sent in one array.
            self._answers.append(message)
        else:
            await self._sink.send(message)

    def send_latest(self, message: Notification, key: object) -> None:
        self._sink.send_latest(message, key)

    def close(self) -> None:
        self._open -= 1
        if self._open == 0:
            # close() must not block, so a task of the session sends the array.
            self._start(self._finish)

    def release(self, retry_ms: int) -> bool:
        return self._sink.release(retry_ms)

    async def _finish(self) -> None:
        try:
            # A batch of notifications gets no response, not even an empty array.
            if self._answers:
                await self._sink.send(self._answers)
        except ConnectionClosed:
            pass  # The peer has disconnected, so nothing receives the responses.
        finally:
            if self._closes:
                self._sink.close()
