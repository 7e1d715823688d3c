"""The answers to a JSON-RPC batch, collected into one array.

Put by the session between a batch's messages and their outlet; 2025-03-26 only.
The one rule: responses wait for each other, everything else (progress, requests of ours) passes at once.

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
    """
    Args:
        batch: what is being answered; every part of it closes this outlet once.
        start: runs a task of the session.
        closes: whether the outlet below is closed at the end.
    """

    def __init__(self, batch: Batch, outlet: MessageSink, *, start: Callable[..., Any], closes: bool) -> None:
        self._open = len(batch.messages)
        self._outlet = outlet
        self._start = start
        self._closes = closes
        self._answers: list[Message] = []

    async def send(self, message: Message | Sequence[Message]) -> None:
        if isinstance(message, Response | ErrorResponse):
            self._answers.append(message)
        else:
            await self._outlet.send(message)

    def offer(self, message: Notification, key: object) -> None:
        self._outlet.offer(message, key)

    def close(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._start(self._finish)

    def release(self, retry_ms: int) -> bool:
        return self._outlet.release(retry_ms)

    async def _finish(self) -> None:
        try:
            if self._answers:
                await self._outlet.send(self._answers)
        except ConnectionClosed:
            pass
        finally:
            if self._closes:
                self._outlet.close()
