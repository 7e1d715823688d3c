"""Commands to the engine, and operations: the commands of one caller."""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen

from mcptrio.errors import StoreFailed
from mcptrio_store_redis.scripts import LuaScript

__all__ = ["Argument", "OpenStream", "RedisCommand", "RedisFull", "RedisOperation", "RedisRefused", "command", "run"]

Argument: TypeAlias = "str | bytes | int | float"


class RedisRefused(StoreFailed):
    """The engine has answered with an error. The same command would get the same answer again."""


class RedisFull(RedisRefused):
    """The engine has reached its ``maxmemory``."""


@frozen
class RedisCommand:
    """One command.

    Args:
        key: The key that selects the node of a cluster.
        words: The name of the command, and its arguments.
        script: The script that the command runs, if any.
    """

    key: str
    words: tuple[Argument, ...] = field(repr=False)
    script: LuaScript | None = None


@frozen
class OpenStream:
    """A member of the set of streams that a replica has begun and not completed.

    Args:
        tag: The hash tag of the session.
        stream: The name of the stream.
        session: The id of the session if another bus needs it to wake the readers; otherwise empty.
    """

    tag: str
    stream: str
    session: str = ""

    def write(self) -> str:
        return f"{self.tag} {self.session} {self.stream}"

    @classmethod
    def read(cls, member: bytes) -> OpenStream:
        tag, session, stream = member.decode("utf-8", "surrogatepass").split(" ", 2)
        return cls(tag, stream, session)


@frozen
class RedisOperation:
    """The commands of one caller. In a cluster, each command is sent after the one before it was answered.

    Args:
        is_write: True if replicas of the engine have to confirm it.
        is_message: True if it publishes a message, whose loss is reported to the other replicas.
    """

    commands: tuple[RedisCommand, ...]
    is_write: bool = False
    is_message: bool = False

    @property
    def size(self) -> int:
        """The approximate number of bytes."""
        return sum(len(word) if isinstance(word, str | bytes) else 8 for each in self.commands for word in each.words)


def command(key: str, *words: Argument) -> RedisCommand:
    return RedisCommand(key, words)


def run(script: LuaScript, key: str, *arguments: Argument, keys: tuple[str, ...] = ()) -> RedisCommand:
    """Return the command that runs a script.

    Args:
        keys: Further keys, with the hash tag of the first.
    """
    return RedisCommand(key, ("EVALSHA", script.sha, 1 + len(keys), key, *keys, *arguments), script)
