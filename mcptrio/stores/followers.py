"""The followers of a bus in this process, by topic.

Each implementation of a bus has a :class:`Followers`, and delivers its messages to it.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Followers"]


class Followers:
    """The functions that receive the messages of each topic.

    Args:
        on_first: A function called with a topic that gets its first follower.
        on_last: A function called with a topic whose last follower has left.
    """

    def __init__(
        self, on_first: Callable[[str], None] | None = None, on_last: Callable[[str], None] | None = None
    ) -> None:
        self._on_first = on_first
        self._on_last = on_last
        # Tuples, because most topics have one follower, and because a follower may be added or removed during delivery.
        self._topics: dict[str, tuple[Callable[[bytes | None], None], ...]] = {}

    @property
    def topics(self) -> list[str]:
        return list(self._topics)

    def add(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        """Add a follower.

        Args:
            receive: Takes a message, or ``None`` if messages may have been lost. Must not block or raise.

        Returns:
            A function that removes the follower. Further calls do nothing.
        """
        others = self._topics.get(topic, ())
        self._topics[topic] = (*others, receive)
        if not others and self._on_first is not None:
            self._on_first(topic)
        return _Removal(self, topic, receive)

    def remove(self, topic: str, receive: Callable[[bytes | None], None]) -> None:
        """Remove a follower, if it is one."""
        followers = list(self._topics.get(topic, ()))
        if receive not in followers:
            return
        followers.remove(receive)
        if followers:
            self._topics[topic] = tuple(followers)
        else:
            del self._topics[topic]
            if self._on_last is not None:
                self._on_last(topic)

    def deliver(self, topic: str, message: bytes | None) -> None:
        """Pass a message to the followers of a topic."""
        for receive in self._topics.get(topic, ()):
            receive(message)

    def report_lost(self) -> None:
        """Tell all followers that messages may have been lost."""
        for topic in self.topics:
            self.deliver(topic, None)


class _Removal:
    """Removes one follower when called. Each session has one, and a closure would take 200 bytes more."""

    __slots__ = ("_followers", "_receive", "_topic")

    def __init__(self, followers: Followers, topic: str, receive: Callable[[bytes | None], None]) -> None:
        self._followers = followers
        self._topic = topic
        self._receive = receive

    def __call__(self) -> None:
        self._followers.remove(self._topic, self._receive)
