"""The common part of the stores of one opening: keys, settings, and the queue of commands."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import trio

from mcptrio.errors import StoreFailed
from mcptrio.stores import BatchWriter, StoreSettings
from mcptrio_store_redis.batches import RedisBatches
from mcptrio_store_redis.commands import RedisCommand, RedisWork
from mcptrio_store_redis.keys import RedisKeys
from mcptrio_store_redis.links import RedisLink

__all__ = ["RedisEngine"]


class RedisEngine:
    """
    Args:
        link: The connections for commands.
        settings: The limits of the stores, and settings of the engine.

    Attributes:
        replica: The id of this opening among those that use the engine.
        has_lost_messages: Whether a message could not be published, so the other replicas have to look for themselves.
    """

    def __init__(self, link: RedisLink, settings: StoreSettings) -> None:
        self.keys = RedisKeys(settings.prefix)
        self.settings = settings
        self.replica = secrets.token_hex(8)
        self.has_lost_messages = False
        self.is_closed = False
        self.batches = RedisBatches(link, settings, self.lose_messages)
        self.writer: BatchWriter[RedisWork] = BatchWriter(link.place, self.batches, timeout=settings.timeout)

    @property
    def place(self) -> str:
        return self.batches.link.place

    @property
    def failing_since(self) -> float | None:
        """Seconds for which the engine has not answered."""
        since = self.batches.failing_since
        return None if since is None else time.monotonic() - since

    async def run(self) -> None:
        """Send commands until cancelled."""
        try:
            await self.writer.run()
        finally:
            self.is_closed = True

    async def ask(self, command: RedisCommand, *more: RedisCommand) -> Any:
        """Send commands that change nothing. Returns the answer, or the list of answers if there are more.

        Raises:
            StoreFailed: There was no answer in time, or an error.
        """
        return await self._send(RedisWork((command, *more)))

    async def change(self, command: RedisCommand, *more: RedisCommand) -> Any:
        """Send commands that write. As :meth:`ask`; after a failure they may have been done.

        Raises:
            StoreFailed: There was no answer in time, or an error.
        """
        return await self._send(RedisWork((command, *more), is_write=True))

    async def ask_each(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Send commands that do not depend on each other.

        Raises:
            StoreFailed: One of them had no answer in time, or an error.
        """
        answers: list[Any] = [None] * len(commands)

        async def ask(at: int) -> None:
            answers[at] = await self.ask(commands[at])

        failed: StoreFailed | None = None
        try:
            async with trio.open_nursery() as nursery:
                for at in range(len(commands)):
                    nursery.start_soon(ask, at)
        except* StoreFailed as group:
            failed = _first(group)
        if failed is not None:
            raise failed
        return answers

    def post(self, command: RedisCommand, *, is_message: bool = False) -> None:
        """Send a command without waiting. It is dropped if too many wait."""
        work = RedisWork((command,), is_message=is_message)
        if not self.writer.post(work, work.size) and is_message:
            self.lose_messages()

    def lose_messages(self) -> None:
        """Note that a message was not published. Called in any thread."""
        self.has_lost_messages = True

    async def _send(self, work: RedisWork) -> Any:
        answers = await self.writer.write(work, work.size)
        return answers[0] if len(answers) == 1 else answers


def _first(group: BaseExceptionGroup[StoreFailed]) -> StoreFailed:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, StoreFailed)
    return error
