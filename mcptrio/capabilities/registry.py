"""What there is of one kind, by name: tools, resources, templates, prompts.

Filled at registration and at run time; listed and looked up by the capabilities.
The one rule: a name belongs to whoever offered it first; the order is that of registration, on every replica the same.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Container, Iterator
from typing import Generic, Protocol, TypeVar

from mcptrio.errors import InvalidParams

__all__ = ["Duplicate", "Entry", "Registry"]

CURSOR_BYTES = 4096


class Entry(Protocol):
    """What a registry holds."""

    @property
    def key(self) -> str: ...

    @property
    def owner(self) -> str | None:
        """The plugin that offered it."""
        ...

    @property
    def scopes(self) -> frozenset[str]:
        """What it takes to use it."""
        ...


E = TypeVar("E", bound=Entry)


class Duplicate(ValueError):
    """The name is taken; ``owner`` has it."""

    def __init__(self, kind: str, name: str, owner: str | None) -> None:
        super().__init__(f"{kind} {name!r} is already offered by {owner or 'the server itself'}")
        self.kind = kind
        self.name = name
        self.owner = owner


class Registry(Generic[E]):
    """
    Args:
        kind: for messages: ``tool``.
        changed: called after every change that can be seen.
        entering: the plugins whose lifespan has not yielded yet. Their entries are kept back until :meth:`publish`.
    """

    def __init__(self, kind: str, changed: Callable[[], None], entering: Container[str | None] = frozenset()) -> None:
        self._kind = kind
        self._changed = changed
        self._entering = entering
        self._entries: dict[str, E] = {}
        self.version = 0
        """Rises with every change."""
        self.is_scoped = False
        """Whether there was ever an entry that takes scopes."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[E]:
        return (entry for entry in self._entries.values() if entry.owner not in self._entering)

    def get(self, name: str) -> E | None:
        entry = self._entries.get(name)
        return entry if entry is None or entry.owner not in self._entering else None

    def find(self, name: str) -> E | None:
        """The same, also of a plugin whose entries are kept back."""
        return self._entries.get(name)

    def add(self, entry: E) -> None:
        """
        Raises:
            Duplicate: the name is taken.
        """
        taken = self._entries.get(entry.key)
        if taken is not None:
            raise Duplicate(self._kind, entry.key, taken.owner)
        self._entries[entry.key] = entry
        self.is_scoped |= bool(entry.scopes)
        self._touch(entry.owner)

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return False
        self._touch(entry.owner)
        return True

    def announce(self) -> None:
        """Somebody will fill it: it counts as one that has been changed, and so its list is advertised."""
        self._touch(None)

    def publish(self, owner: str) -> None:
        """The plugin is no longer entering: what it offers can be seen."""
        if any(entry.owner == owner for entry in self._entries.values()):
            self._touch(owner)

    def withdraw(self, owner: str) -> int:
        """Remove everything a plugin offered. Returns how many."""
        names = [name for name, entry in self._entries.items() if entry.owner == owner]
        for name in names:
            del self._entries[name]
        if names:
            self._touch(owner)
        return len(names)

    def page(
        self, cursor: str | None, size: int, visible: Callable[[E], bool] | None = None
    ) -> tuple[list[E], str | None]:
        """One page of the list, and the cursor of the next.

        Args:
            visible: which entries there are for this caller; by default all.

        A cursor holds the last name shown, so it means the same on every replica and after a change of the list.

        Raises:
            InvalidParams: not a cursor of this list.

        Source: MCP 2026-07-28, server/utilities/pagination.
        """
        names = [entry.key for entry in self if visible is None or visible(entry)]
        start = 0 if cursor is None else self._after(cursor, names)
        end = start + size
        entries = [self._entries[name] for name in names[start:end]]
        return entries, _encode(self._kind, end, names[end - 1]) if end < len(names) else None

    def _after(self, cursor: str, names: list[str]) -> int:
        position, name = _decode(self._kind, cursor)
        try:
            return names.index(name) + 1
        except ValueError:
            # What was shown last is gone: go on where it was.
            return min(max(position - 1, 0), len(names))

    def _touch(self, owner: str | None) -> None:
        if owner not in self._entering:
            self.version += 1
            self._changed()


def _encode(kind: str, position: int, name: str) -> str:
    return base64.urlsafe_b64encode(f"{kind}\0{position}\0{name}".encode()).decode().rstrip("=")


def _decode(kind: str, cursor: str) -> tuple[int, str]:
    error = InvalidParams("expected a cursor given by this list @ $.cursor")
    if len(cursor) > CURSOR_BYTES:
        raise error
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        found, position, name = text.split("\0", 2)
        place = int(position)
    except (binascii.Error, ValueError):
        raise error from None
    if found != kind:
        raise error
    return place, name
