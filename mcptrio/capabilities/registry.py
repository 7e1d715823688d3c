"""The entries of one kind by name: tools, resources, templates, prompts or completions.

Plugins and programs add entries, and the capabilities list them and look them up. A name belongs to the plugin that has
added it first. Entries are listed in the order of their first registration, and a name keeps its position. A plugin
that restarts, even on one replica only, therefore neither moves its entries nor makes cursors skip any. Only a mount
reorders its entries, to follow the list of the mounted server.

Sync functions of plugins change the registry in threads while the event loop lists it, so each change and each
iteration over all entries holds a lock. Nothing else runs under the lock.
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

MAX_SPARE_POSITIONS = 1000
"""Positions of removed names that are kept, in addition to one for each entry."""
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
    """The name belongs to another entry, of ``owner``.

    Args:
        kind: The kind of the entries, such as ``tool``.
        defines_both: Whether the new entry has the same owner.
    """

    def __init__(self, kind: str, name: str, owner: Owner, *, defines_both: bool = False) -> None:
        problem = f"is already offered by {owner.plugin or 'the server itself'}"
        if defines_both and owner.plugin:
            problem = "is defined twice; rename one of the two"
        super().__init__(f"{kind} {quote_name(name)} {problem}")
        self.kind = kind
        self.name = name
        self.owner = owner


class Registry(Generic[E]):
    """The entries of one kind.

    Args:
        kind: The kind in messages, such as ``tool``.
        loop: The event loop in which tasks wait for free names.
    """

    def __init__(self, kind: str, loop: EventLoop) -> None:
        self._kind = kind
        self._loop = loop
        self._observers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.entries: dict[str, E] = {}
        """Entries by name, including hidden ones."""
        self._is_in_order = True
        """Whether ``entries`` are in the order of their positions."""
        self._positions: dict[str, int] = {}
        """The position of each name, including removed ones."""
        self._next_position = 0
        self._reserved: dict[str, Owner] = {}
        """The names of plugins that are restarting."""
        self._freed = trio.Event()
        self.version = 0
        """Increases with every visible change."""
        self.is_scoped = False
        """True once an entry has required scopes."""

    def on_change(self, observer: Callable[[], None]) -> None:
        """Call a function after every visible change, in the thread that made it."""
        self._observers.append(observer)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[E]:
        return iter([entry for _, entry in self._visible_positions()])

    def get(self, name: str) -> E | None:
        """Return an entry; ``None`` if there is none, or if its plugin's entries are hidden."""
        # No lock is needed, because a dict lookup is atomic.
        entry = self.entries.get(name)
        return None if entry is None or entry.owner.is_hidden else entry

    def find(self, name: str) -> E | None:
        """Return an entry, even if its plugin's entries are hidden."""
        return self.entries.get(name)

    def is_taken(self, name: str, owner: Owner) -> bool:
        """Return whether the name has an entry, or is reserved for a plugin other than ``owner``."""
        return name in self.entries or self._reserved.get(name, owner) is not owner

    async def wait_freed(self) -> None:
        """Wait until a name becomes free."""
        await self._freed.wait()

    def add(self, entry: E) -> None:
        """Add an entry. If its name was registered before, it gets the same position.

        Raises:
            Duplicate: The name is taken.
            ValueError: The plugin of the entry was withdrawn.
        """
        with self._lock:
            if entry.owner.is_withdrawn:
                # A thread of the plugin may still be running.
                raise ValueError(
                    f"{self._kind} {quote_name(entry.key)}: the plugin {entry.owner.plugin} has been stopped"
                )
            if self.is_taken(entry.key, entry.owner):
                taken = self.entries.get(entry.key)
                owner = self._reserved[entry.key] if taken is None else taken.owner
                raise Duplicate(self._kind, entry.key, owner, defines_both=owner is entry.owner)
            self.entries[entry.key] = entry
            if entry.key in self._positions:
                # The name was removed earlier, and its entry is now at the end of the dict.
                self._is_in_order = False
            else:
                self._forget_positions()
                self._positions[entry.key] = self._next_position
                self._next_position += 1
            self.is_scoped |= bool(entry.scopes)
            is_visible = self._count_change(entry.owner)
        if is_visible:
            # Outside of the lock, because observers may read the registry.
            self._notify_observers()

    def remove(self, name: str) -> bool:
        """Remove an entry. Returns whether it existed."""
        with self._lock:
            entry = self.entries.pop(name, None)
            if entry is None:
                return False
            is_visible = self._count_change(entry.owner)
        if is_visible:
            self._notify_observers()
        self._announce_freed()
        return True

    def announce(self) -> None:
        """Advertise the list even if it is empty. Does nothing if the list is already advertised."""
        with self._lock:
            is_new = not self.version
            self.version += is_new
        if is_new:
            self._notify_observers()

    def arrange(self, names: Iterable[str]) -> None:
        """Put entries in the order of these names, within the positions that these entries already have."""
        wanted = list(names)
        with self._lock:
            # An entry may have been removed in another thread since the caller made its list.
            present = [name for name in wanted if name in self.entries]
            positions = sorted(self._positions[name] for name in present)
            is_moved = positions != [self._positions[name] for name in present]
            if is_moved:
                self._positions.update(zip(present, positions, strict=True))
                self._is_in_order = False
            is_visible = is_moved and self._count_change(self.entries[present[0]].owner)
        if is_visible:
            self._notify_observers()

    def publish(self, owner: Owner) -> None:
        """Show the entries of a plugin whose lifespan has yielded."""
        with self._lock:
            is_visible = any(entry.owner is owner for entry in self.entries.values()) and self._count_change(owner)
        if is_visible:
            self._notify_observers()

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
            # Set under the lock, so that an entry that a thread adds now is either removed here or refused.
            owner.is_withdrawn = True
            is_visible = bool(names) and self._count_change(owner)
        if is_visible:
            self._notify_observers()
        if names:
            self._announce_freed()

    def release(self, owner: Owner) -> None:
        """Free the names that are reserved for a plugin."""
        with self._lock:
            names = [name for name, reserved in self._reserved.items() if reserved is owner]
            for name in names:
                del self._reserved[name]
        if names:
            self._announce_freed()

    def page(
        self, cursor: str | None, size: int, visible: Callable[[E], bool] | None = None
    ) -> tuple[list[E], str | None]:
        """Return one page of the list, and the cursor of the next page.

        A cursor contains the last name of its page and the position of that name, so it is valid on every replica, and
        after a change of the list.

        Args:
            visible: Returns whether the caller may see an entry; by default, it may see all.

        Raises:
            InvalidParams: The cursor is not one of this list.

        Source: MCP 2026-07-28, server/utilities/pagination.
        """
        last_position = -1
        if cursor is not None:
            position, name = _read_cursor(self._kind, cursor)
            # The name takes precedence, because positions may differ between replicas.
            last_position = self._positions.get(name, position)
        following = [(position, entry) for position, entry in self._visible_positions() if position > last_position]
        # Outside of the lock, because visible() calls authorizers of plugins.
        visible_entries = [(position, entry) for position, entry in following if visible is None or visible(entry)]
        entries = [entry for _, entry in visible_entries[:size]]
        if len(visible_entries) <= size:
            return entries, None
        return entries, _cursor_of(self._kind, visible_entries[size - 1][0], entries[-1].key)

    def _visible_positions(self) -> list[tuple[int, E]]:
        """Return all visible entries in order, each with its position."""
        with self._lock:
            # Sorted when it is read, because a name is rarely added again.
            if not self._is_in_order:
                in_order = sorted(self.entries, key=self._positions.__getitem__)
                self.entries = {name: self.entries[name] for name in in_order}
                self._is_in_order = True
            return [(self._positions[name], entry) for name, entry in self.entries.items() if not entry.owner.is_hidden]

    def _forget_positions(self) -> None:
        """Drop the positions of removed names if there are too many: a plugin may add a new name each time."""
        if len(self._positions) > 2 * len(self.entries) + MAX_SPARE_POSITIONS:
            self._positions = {name: position for name, position in self._positions.items() if name in self.entries}

    def _announce_freed(self) -> None:
        self._loop.hand_over(self._notify_freed)

    def _notify_observers(self) -> None:
        for observer in self._observers:
            observer()

    def _notify_freed(self) -> None:
        self._freed.set()
        self._freed = trio.Event()

    def _count_change(self, owner: Owner) -> bool:
        """Count a change of an owner's entries, under the lock. Returns whether clients can see it."""
        is_visible = not owner.is_hidden
        self.version += is_visible
        return is_visible


def _cursor_of(kind: str, position: int, name: str) -> str:
    """Return the cursor of the page after this entry."""
    # Base64 discourages clients from reading the cursor. NUL separates the parts, because it cannot occur in a name.
    return base64.urlsafe_b64encode(f"{kind}\0{position}\0{name}".encode()).decode().rstrip("=")


def _read_cursor(kind: str, cursor: str) -> tuple[int, str]:
    """Return the position and name in a cursor.

    Raises:
        InvalidParams: The cursor is not one of a list of this kind.
    """
    # The same message for all errors, because a cursor is opaque to clients.
    error = InvalidParams("expected a cursor given by this list at `cursor`")
    if len(cursor) > _MAX_CURSOR_CHARS:
        raise error
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        cursor_kind, number, name = text.split("\0", 2)
        position = int(number)
    except (binascii.Error, ValueError):
        raise error from None
    if cursor_kind != kind:
        raise error
    return position, name
