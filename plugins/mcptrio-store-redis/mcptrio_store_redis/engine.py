"""The parts that all stores of one opening share: the keys, the settings, and the queue of commands."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import trio

from mcptrio.errors import StoreFailed
from mcptrio.stores import BatchWriter, StoreSettings
from mcptrio_store_redis.batches import RedisBatches
from mcptrio_store_redis.commands import RedisCommand, RedisOperation
from mcptrio_store_redis.keys import RedisKeys
from mcptrio_store_redis.links import RedisLink

__all__ = ["RedisEngine"]


class RedisEngine:
    """The engine as the stores use it.

    Args:
        link: The connections for commands.
        settings: The limits of the stores, and settings of the engine.

    Attributes:
        replica: The id of this opening among those that use the engine.
        has_lost_messages: True if a message could not be published, which must be reported to the other replicas.
    """

    def __init__(self, link: RedisLink, settings: StoreSettings) -> None:
        self.keys = RedisKeys(settings.prefix)
        self.settings = settings
        self.replica = secrets.token_hex(8)
        self.has_lost_messages = False
        self.is_closed = False
        self.batches = RedisBatches(link, settings, self.note_lost_message)
        self.writer: BatchWriter[RedisOperation] = BatchWriter(link.label, self.batches, timeout=settings.timeout)

    @property
    def label(self) -> str:
        return self.batches.link.label

    @property
    def failing_since(self) -> float | None:
        """Seconds for which the engine has not answered; ``None`` while it answers."""
        since = self.batches.failing_since
        return None if since is None else time.monotonic() - since

    async def run(self) -> None:
        """Send commands until cancelled."""
        try:
            await self.writer.run()
        finally:
            self.is_closed = True

    async def read(self, command: RedisCommand, *more: RedisCommand) -> Any:
        """Send commands that change nothing. Return the answer, or the list of answers to several commands.

        Raises:
            StoreFailed: There was no answer in time, or an error.
        """
        return await self._send(RedisOperation((command, *more)))

    async def write(self, command: RedisCommand, *more: RedisCommand) -> Any:
        """Send commands that change data. Return the answer, or the list of answers to several commands.

        Raises:
            StoreFailed: There was no answer in time, or an error. The commands may have been executed.
        """
        return await self._send(RedisOperation((command, *more), is_write=True))

    async def read_each(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Send independent commands, and return their answers.

        Raises:
            StoreFailed: One of them had no answer in time, or an error.
        """
        answers: list[Any] = [None] * len(commands)

        async def read(at: int) -> None:
            answers[at] = await self.read(commands[at])

        failed: StoreFailed | None = None
        try:
            async with trio.open_nursery() as nursery:
                for at in range(len(commands)):
                    nursery.start_soon(read, at)
        except* StoreFailed as group:
            failed = _first(group)
        if failed is not None:
            raise failed
        return answers

    def post(self, command: RedisCommand, *, is_message: bool = False) -> None:
        """Queue a command whose answer is not needed. Does not block; the command is dropped if the queue is full."""
        work = RedisOperation((command,), is_message=is_message)
        if not self.writer.post(work, work.size) and is_message:
            self.note_lost_message()

    def note_lost_message(self) -> None:
        """Note that a message was not published. May be called in any thread."""
        self.has_lost_messages = True

    async def _send(self, work: RedisOperation) -> Any:
        answers = await self.writer.write(work, work.size)
        return answers[0] if len(answers) == 1 else answers


def _first(group: BaseExceptionGroup[StoreFailed]) -> StoreFailed:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, StoreFailed)
    return error
