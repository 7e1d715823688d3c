"""The responses to a JSON-RPC batch, collected into one array.

The session puts this between the messages of a batch and their sink. Only 2025-03-26 has batches. Responses wait for
each other; progress and requests to the client are sent immediately.

Source: JSON-RPC 2.0 section 6; MCP 2025-03-26, basic/index, "Batching".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcptrio.abc import MessageSink
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.messages import Batch, ErrorResponse, Message, Notification, Response

__all__ = ["BatchOutlet"]


class BatchOutlet:
    """Collects the responses of one batch.

    Args:
        batch: The batch; each request in it closes this sink once.
        start: Starts a task of the session.
        closes: Whether to close the sink below at the end.
    """

    def __init__(self, batch: Batch, outlet: MessageSink, *, start: Callable[..., Any], closes: bool) -> None:
        self._open = len(batch.messages)
        self._outlet = outlet
        self._start = start
        self._closes = closes
        self._answers: list[Message] = []

    async def send(self, message: Message | Sequence[Message]) -> None:
        if isinstance(message, Response | ErrorResponse):
            # JSON-RPC 2.0 section 6: one array with all responses of a batch.
            self._answers.append(message)
        else:
            await self._outlet.send(message)

    def send_latest(self, message: Notification, key: object) -> None:
        self._outlet.send_latest(message, key)

    def close(self) -> None:
        self._open -= 1
        if self._open == 0:
            # close() must not block, so a task of the session sends the array.
            self._start(self._finish)

    def release(self, retry_ms: int) -> bool:
        return self._outlet.release(retry_ms)

    async def _finish(self) -> None:
        try:
            # A batch of notifications gets no response, not even an empty array.
            if self._answers:
                await self._outlet.send(self._answers)
        except ConnectionClosed:
            pass  # The peer has disconnected, so nothing receives the responses.
        finally:
            if self._closes:
                self._outlet.close()
