"""What there is of one kind, by name: tools, resources, templates, prompts.

Filled at registration and at run time; listed and looked up by the capabilities. A name belongs to the plugin that
offered it first. The order is that in which names were first registered, and a name keeps its place in it: a plugin
that is restarted, on one replica alone too, neither moves its entries nor makes cursors skip any.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Container, Iterator
from typing import Generic, Protocol, TypeVar

import trio

from mcptrio.errors import InvalidParams

__all__ = ["Duplicate", "Entry", "Registry"]

CURSOR_BYTES = 4096
SPARE_PLACES = 1000
"""Places that are kept for names that are gone, beside as many as there are entries."""


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
        """By name, in the order of their places unless something has come back."""
        self._is_in_order = True
        self._places: dict[str, int] = {}
        """Of every name, also of those that are gone."""
        self._next_place = 0
        self._reserved: dict[str, str] = {}
        """Names of plugins that are starting again: name to plugin."""
        self._freed = trio.Event()
        self.version = 0
        """Rises with every change."""
        self.is_scoped = False
        """Whether there was ever an entry that takes scopes."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[E]:
        if not self._is_in_order:
            self._entries = {name: self._entries[name] for name in sorted(self._entries, key=self._places.__getitem__)}
            self._is_in_order = True
        return (entry for entry in self._entries.values() if entry.owner not in self._entering)

    def get(self, name: str) -> E | None:
        entry = self._entries.get(name)
        return entry if entry is None or entry.owner not in self._entering else None

    def find(self, name: str) -> E | None:
        """The same, also of a plugin whose entries are kept back."""
        return self._entries.get(name)

    def is_taken(self, name: str, owner: str | None) -> bool:
        """Whether there is such an entry, or the name is reserved for another plugin than ``owner``."""
        return name in self._entries or self._reserved.get(name, owner) != owner

    async def wait_freed(self) -> None:
        """Wait until a name becomes free."""
        await self._freed.wait()

    def add(self, entry: E) -> None:
        """
        Raises:
            Duplicate: the name is taken.
        """
        if self.is_taken(entry.key, entry.owner):
            taken = self._entries.get(entry.key)
            raise Duplicate(self._kind, entry.key, self._reserved[entry.key] if taken is None else taken.owner)
        self._entries[entry.key] = entry
        if entry.key in self._places:
            self._is_in_order = False
        else:
            self._forget_places()
            self._places[entry.key] = self._next_place
            self._next_place += 1
        self.is_scoped |= bool(entry.scopes)
        self._touch(entry.owner)

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return False
        self._touch(entry.owner)
        self._free()
        return True

    def announce(self) -> None:
        """Advertise the list although it is empty, since entries will come. No effect once it is advertised."""
        if not self.version:
            self._touch(None)

    def publish(self, owner: str) -> None:
        """The plugin is no longer entering: what it offers can be seen."""
        if any(entry.owner == owner for entry in self._entries.values()):
            self._touch(owner)

    def withdraw(self, owner: str, *, reserve: bool = False) -> int:
        """Remove everything a plugin offered. Returns how many.

        Args:
            reserve: keep its names for it until :meth:`release`.
        """
        names = [name for name, entry in self._entries.items() if entry.owner == owner]
        for name in names:
            del self._entries[name]
        if reserve:
            self._reserved.update(dict.fromkeys(names, owner))
        if names:
            self._touch(owner)
            self._free()
        return len(names)

    def release(self, owner: str) -> None:
        """Let others have the names that are reserved for a plugin."""
        names = [name for name, reserved in self._reserved.items() if reserved == owner]
        for name in names:
            del self._reserved[name]
        if names:
            self._free()

    def page(
        self, cursor: str | None, size: int, visible: Callable[[E], bool] | None = None
    ) -> tuple[list[E], str | None]:
        """One page of the list, and the cursor of the next.

        Args:
            visible: which entries there are for this caller; by default all.

        A cursor holds the last name shown and its place, so it means the same on every replica and after a change of
        the list.

        Raises:
            InvalidParams: not a cursor of this list.

        Source: MCP 2026-07-28, server/utilities/pagination.
        """
        shown = -1
        if cursor is not None:
            place, name = _decode(self._kind, cursor)
            # Another replica may count differently, as far as it knows the name.
            shown = self._places.get(name, place)
        entries = [entry for entry in self if self._places[entry.key] > shown and (visible is None or visible(entry))]
        if len(entries) <= size:
            return entries, None
        last = entries[size - 1].key
        return entries[:size], _encode(self._kind, self._places[last], last)

    def _forget_places(self) -> None:
        """Of names that are gone, once there are too many: a plugin may make up new names for ever."""
        if len(self._places) > 2 * len(self._entries) + SPARE_PLACES:
            self._places = {name: place for name, place in self._places.items() if name in self._entries}

    def _free(self) -> None:
        self._freed.set()
        self._freed = trio.Event()

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
