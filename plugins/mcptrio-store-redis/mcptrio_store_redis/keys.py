"""The names of keys and channels in the engine.

All keys of one session have the same hash tag, so scripts about a session work in a cluster too. Session ids, topics
and the names of calls are hashed, so a dump of the engine shows none of them.
"""

from __future__ import annotations

from hashlib import sha256

from attrs import field, frozen

from mcptrio.abc import session_topic

__all__ = ["RedisKeys", "tag_of"]

_SESSION_TOPIC = session_topic("")


def tag_of(name: str) -> str:
    """Return the hash of a name as 32 hexadecimal digits."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@frozen
class RedisKeys:
    """The keys of one service.

    Attributes:
        prefix: The first part of each key.
        replicas: The sorted set of replicas, by the expiry of their leases in milliseconds.
        sessions: The sorted set of the tags of all sessions, by the time in milliseconds after which they may expire.
        tasks: The prefix of all keys of tasks.
        schema: The key with the version of this layout.
        broadcast: The channel of all replicas.
    """

    prefix: str
    replicas: str = field(init=False)
    sessions: str = field(init=False)
    tasks: str = field(init=False)
    schema: str = field(init=False)
    broadcast: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        # attrs' way to set attributes of a frozen class.
        for name, value in (
            ("replicas", f"{self.prefix}:{{replicas}}"),
            ("sessions", f"{self.prefix}:{{sessions}}"),
            ("tasks", f"{self.prefix}:{{tasks}}"),
            ("schema", f"{self.prefix}:{{schema}}"),
            ("broadcast", f"{self.prefix}:{{replicas}}:news"),
        ):
            object.__setattr__(self, name, value)

    def base(self, tag: str) -> str:
        """Return the prefix of all keys of a session."""
        return f"{self.prefix}:{{{tag}}}"

    def record(self, session: str) -> str:
        return f"{self.base(tag_of(session))}:r"

    def open_streams(self, replica: str) -> str:
        """Return the key of the set of streams that a replica has begun and not completed."""
        return f"{self.replicas}:{replica}"

    def entry(self, replica: str) -> str:
        """Return the key with the start time, process and host of a replica."""
        return f"{self.replicas}:who:{replica}"

    def wake(self, replica: str) -> str:
        """Return the channel that wakes the listener of a replica, to apply changed subscriptions."""
        return f"{self.replicas}:wake:{replica}"

    def channel(self, topic: str) -> str:
        """Return the channel of a topic. That of a session has the session's hash tag."""
        if topic.startswith(_SESSION_TOPIC):
            return self.channel_of(tag_of(topic.removeprefix(_SESSION_TOPIC)))
        return f"{self.prefix}:{{{tag_of(topic)}}}:topic"

    def channel_of(self, tag: str) -> str:
        return f"{self.base(tag)}:news"

    def effect(self, call: str, key: str) -> str:
        return f"{self.base(tag_of(call))}:f:{tag_of(key)}"

    def replay(self, name: str) -> str:
        return f"{self.base(tag_of(name))}:u"

    def quota(self, name: str) -> str:
        return f"{self.base(tag_of(name))}:q"
