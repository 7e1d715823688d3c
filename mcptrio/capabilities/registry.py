"""The entries of one kind by name: tools, resources, templates or prompts.

Plugins and programs fill it, and the capabilities list it and look names up. A name belongs to the plugin that
offered it first. Entries are listed in the order of first registration, and a name keeps its place: a plugin
that restarts, even on one replica only, neither moves its entries nor makes cursors skip any. Only a mount
rearranges its entries, to follow the list of the server that it mounts.

Sync functions of plugins change it in threads while the event loop lists it, so a lock is held for each change
and each walk over all entries. Nothing else runs under the lock.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, Protocol, TypeVar

import trio

from mcptrio.capabilities.owner import Owner
from mcptrio.errors import InvalidParams
from mcptrio.ground.quoting import quote_name
from mcptrio.runtime.event_loop import EventLoop

__all__ = ["Duplicate", "Entry", "Registry"]

SPARE_PLACES = 1000
"""Positions kept for names that are removed, in addition to one for each entry."""
_MAX_CURSOR_CHARS: Final = 4096


class Entry(Protocol):
    """An entry of a registry."""

    @property
    def key(self) -> str: ...

    @property
    def owner(self) -> Owner: ...

    @property
    def scopes(self) -> frozenset[str]:
        """The required scopes."""
        ...


E = TypeVar("E", bound=Entry)


class Duplicate(ValueError):
    """The name is taken; ``owner`` has it."""

    def __init__(self, kind: str, name: str, owner: Owner) -> None:
        super().__init__(f"{kind} {quote_name(name)} is already offered by {owner.plugin or 'the server itself'}")
        self.kind = kind
        self.name = name
        self.owner = owner


class Registry(Generic[E]):
    """The entries of one kind.

    Args:
        kind: The kind in messages, such as ``tool``.
        loop: The event loop in which waiting tasks learn of free names.
    """

    def __init__(self, kind: str, loop: EventLoop) -> None:
        self._kind = kind
        self._loop = loop
        self._observers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.entries: dict[str, E] = {}
        """Entries by name, including hidden ones, in the order of their positions unless one was added again."""
        self._is_in_order = True
        self._places: dict[str, int] = {}
        """The position of each name, including removed ones."""
        self._next_place = 0
        self._reserved: dict[str, Owner] = {}
        """The names of plugins that are restarting."""
        self._freed = trio.Event()
        self.version = 0
        """Grows with every change."""
        self.is_scoped = False
        """Whether an entry has ever required scopes."""

    def on_change(self, observer: Callable[[], None]) -> None:
        """Call a function after every visible change, in the thread that made it."""
        self._observers.append(observer)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[E]:
        return iter([entry for _, entry in self._placed()])

    def get(self, name: str) -> E | None:
        # One dict lookup without the lock: it is atomic, and every call makes it.
        entry = self.entries.get(name)
        return None if entry is None or entry.owner.is_kept_back else entry

    def find(self, name: str) -> E | None:
        """Return an entry as :meth:`get` does, even if its plugin's entries are held back."""
        return self.entries.get(name)

    def is_taken(self, name: str, owner: Owner) -> bool:
        """Return whether the name has an entry, or is reserved for another plugin than ``owner``."""
        return name in self.entries or self._reserved.get(name, owner) is not owner

    async def wait_freed(self) -> None:
        """Wait until a name becomes free."""
        await self._freed.wait()

    def add(self, entry: E) -> None:
        """Add an entry, in the earlier place of its name if it was registered before.

        Raises:
            Duplicate: The name is taken.
            ValueError: The plugin of the entry was withdrawn.
        """
        with self._lock:
            if entry.owner.has_left:
                # A thread of a plugin that was withdrawn may still be adding entries.
                raise ValueError(f"{self._kind} {quote_name(entry.key)}: {entry.owner.plugin} offers nothing any more")
            if self.is_taken(entry.key, entry.owner):
                taken = self.entries.get(entry.key)
                raise Duplicate(self._kind, entry.key, self._reserved[entry.key] if taken is None else taken.owner)
            self.entries[entry.key] = entry
            # The name was removed earlier and returns to its place.
            if entry.key in self._places:
                self._is_in_order = False
            else:
                self._forget_places()
                self._places[entry.key] = self._next_place
                self._next_place += 1
            self.is_scoped |= bool(entry.scopes)
            is_seen = self._count(entry.owner)
        if is_seen:
            # Outside the lock: observers may read the registry.
            self._changed()

    def remove(self, name: str) -> bool:
        """Remove an entry. Returns whether it existed."""
        with self._lock:
            entry = self.entries.pop(name, None)
            if entry is None:
                return False
            is_seen = self._count(entry.owner)
        if is_seen:
            self._changed()
        self._free()
        return True

    def announce(self) -> None:
        """Advertise the list although it is empty, because entries will follow. No effect once it is advertised."""
        with self._lock:
            is_new = not self.version
            self.version += is_new
        if is_new:
            self._changed()

    def arrange(self, names: Iterable[str]) -> None:
        """Put entries in the order of these names. They share the places that they already have."""
        wanted = list(names)
        with self._lock:
            # An entry may have been removed in another thread since the caller made its list.
            present = [name for name in wanted if name in self.entries]
            places = sorted(self._places[name] for name in present)
            is_moved = places != [self._places[name] for name in present]
            if is_moved:
                self._places.update(zip(present, places, strict=True))
                self._is_in_order = False
            is_seen = is_moved and self._count(self.entries[present[0]].owner)
        if is_seen:
            self._changed()

    def publish(self, owner: Owner) -> None:
        """Show the entries of a plugin whose lifespan has yielded."""
        with self._lock:
            is_seen = any(entry.owner is owner for entry in self.entries.values()) and self._count(owner)
        if is_seen:
            self._changed()

    def withdraw(self, owner: Owner, *, reserve: bool = False) -> None:
        """Remove all entries of a plugin, and refuse new ones from it.

        Args:
            reserve: Keep the plugin's names reserved until :meth:`release`.
        """
        with self._lock:
            names = [name for name, entry in self.entries.items() if entry.owner is owner]
            for name in names:
                del self.entries[name]
            if reserve:
                self._reserved.update(dict.fromkeys(names, owner))
            # Under the lock: a thread that adds an entry now either comes before the removal or is refused.
            owner.has_left = True
            is_seen = bool(names) and self._count(owner)
        if is_seen:
            self._changed()
        if names:
            self._free()

    def release(self, owner: Owner) -> None:
        """Free the names that are reserved for a plugin."""
        with self._lock:
            names = [name for name, reserved in self._reserved.items() if reserved is owner]
            for name in names:
                del self._reserved[name]
        if names:
            self._free()

    def page(
        self, cursor: str | None, size: int, visible: Callable[[E], bool] | None = None
    ) -> tuple[list[E], str | None]:
        """Return one page of the list, and the cursor of the next page.

        Args:
            visible: Returns whether this caller may see an entry; by default all.

        A cursor holds the last name shown and its place, so it means the same on every replica and after a change to
        the list.

        Raises:
            InvalidParams: The cursor is not one of this list.

        Source: MCP 2026-07-28, server/utilities/pagination.
        """
        shown = -1
        if cursor is not None:
            place, name = _read_cursor(self._kind, cursor)
            # The name takes precedence: the place may be from a replica that counts differently.
            shown = self._places.get(name, place)
        following = [(place, entry) for place, entry in self._placed() if place > shown]
        # Outside the lock, because it calls authorizers of plugins.
        found = [(place, entry) for place, entry in following if visible is None or visible(entry)]
        entries = [entry for _, entry in found[:size]]
        if len(found) <= size:
            return entries, None
        return entries, _cursor_of(self._kind, found[size - 1][0], entries[-1].key)

    def _placed(self) -> list[tuple[int, E]]:
        """Return all visible entries in order, each with its place."""
        with self._lock:
            # Sorted on demand: a list is read far more often than a name is added again.
            if not self._is_in_order:
                in_order = sorted(self.entries, key=self._places.__getitem__)
                self.entries = {name: self.entries[name] for name in in_order}
                self._is_in_order = True
            return [(self._places[name], entry) for name, entry in self.entries.items() if not entry.owner.is_kept_back]

    def _forget_places(self) -> None:
        """Drop positions of removed names when there are too many; a plugin may use new names without end."""
        if len(self._places) > 2 * len(self.entries) + SPARE_PLACES:
            self._places = {name: place for name, place in self._places.items() if name in self.entries}

    def _free(self) -> None:
        self._loop.hand_over(self._notify_freed)

    def _changed(self) -> None:
        for observer in self._observers:
            observer()

    def _notify_freed(self) -> None:
        self._freed.set()
        self._freed = trio.Event()

    def _count(self, owner: Owner) -> bool:
        """Count a change, under the lock. Returns whether it is visible."""
        is_seen = not owner.is_kept_back
        self.version += is_seen
        return is_seen


def _cursor_of(kind: str, position: int, name: str) -> str:
    """Return the cursor of the page after this entry."""
    # Base64, so that clients do not take the cursor apart; NUL cannot occur in a name.
    return base64.urlsafe_b64encode(f"{kind}\0{position}\0{name}".encode()).decode().rstrip("=")


def _read_cursor(kind: str, cursor: str) -> tuple[int, str]:
    """Return the position and name in a cursor.

    Raises:
        InvalidParams: It is not one of a list of this kind.
    """
    # One message for all errors: a cursor is opaque to clients.
    error = InvalidParams("expected a cursor given by this list at `cursor`")
    if len(cursor) > _MAX_CURSOR_CHARS:
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
