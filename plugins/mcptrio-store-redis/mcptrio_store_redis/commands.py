"""Commands to the engine, and works: the commands of one caller."""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen

from mcptrio.errors import StoreFailed
from mcptrio_store_redis.scripts import LuaScript

__all__ = ["Argument", "OpenStream", "RedisCommand", "RedisFull", "RedisRefused", "RedisWork", "command", "run"]

Argument: TypeAlias = "str | bytes | int | float"


class RedisRefused(StoreFailed):
    """The engine has answered, with an error. Sending the command again would give the same answer."""


class RedisFull(RedisRefused):
    """The engine has reached its limit of memory."""


@frozen
class RedisCommand:
    """One command.

    Args:
        key: Selects the node of a cluster.
        words: The name of the command, and its arguments.
        script: The script that the command runs, if any.
    """

    key: str
    words: tuple[Argument, ...] = field(repr=False)
    script: LuaScript | None = None


@frozen
class OpenStream:
    """A stream that a replica has begun, as the engine keeps it.

    Args:
        tag: The hash tag of the session.
        stream: The name of the stream.
        session: The id of the session if another bus needs it to reach the readers; otherwise empty.
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
class RedisWork:
    """Commands of one caller. In a cluster the second is sent once the first has its answer.

    Args:
        is_write: Whether replicas of the engine have to confirm it.
        is_message: Whether it is a message whose loss other replicas should know of.
    """

    commands: tuple[RedisCommand, ...]
    is_write: bool = False
    is_message: bool = False

    @property
    def size(self) -> int:
        """Return the approximate number of bytes."""
        return sum(len(word) if isinstance(word, str | bytes) else 8 for each in self.commands for word in each.words)


def command(key: str, *words: Argument) -> RedisCommand:
    return RedisCommand(key, words)


def run(script: LuaScript, key: str, *arguments: Argument, keys: tuple[str, ...] = ()) -> RedisCommand:
    """Return the command that runs a script.

    Args:
        keys: Further keys, with the hash tag of the first.
    """
    return RedisCommand(key, ("EVALSHA", script.sha, 1 + len(keys), key, *keys, *arguments), script)
