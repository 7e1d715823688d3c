"""Keys of sessions and topics. They are hashes, because a dump of the database must not contain session ids."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import Final

from mcptrio.abc import session_topic

__all__ = ["SessionKeys", "key_of", "topic_key"]

_KEY_CHARACTERS: Final = 32
_SESSION_TOPIC: Final = session_topic("")
# Session ids that this process remembers.
_MAX_KNOWN: Final = 100_000


def key_of(*parts: str) -> str:
    """Return the key of a name of several parts, which may be any text."""
    # With the lengths, ("a", "bc") has another key than ("ab", "c").
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARACTERS]


def topic_key(topic: str) -> str:
    """Return the key of a topic; the topic of a session has the key of the session."""
    if topic.startswith(_SESSION_TOPIC):
        return key_of(topic[len(_SESSION_TOPIC) :])
    return "t" + key_of(topic)


class SessionKeys:
    """The keys of sessions, and the ids of the sessions that this process has used recently."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, str] = OrderedDict()

    def key(self, id: str) -> str:
        key = key_of(id)
        self._ids[key] = id
        self._ids.move_to_end(key)
        if len(self._ids) > _MAX_KNOWN:
            self._ids.popitem(last=False)
        return key

    def id(self, key: str) -> str | None:
        return self._ids.get(key)

    def forget(self, key: str) -> str | None:
        return self._ids.pop(key, None)
