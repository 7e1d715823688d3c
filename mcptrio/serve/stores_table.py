"""The table ``[stores]``."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen

from mcptrio.stores.settings import StoreSettings

__all__ = ["PORTS", "SQLITE_STORE", "StoreName", "StoresTable"]

PORTS = ("sessions", "events", "bus", "effects", "replays", "quotas", "tasks")
"""The kinds of state, which are the fields of :class:`mcptrio.abc.Stores`."""
SQLITE_STORE = "sqlite:"
"""The prefix that names a store in a file; the path follows."""


class StoreName(str):
    """The URL of a store. A relative path in it starts at the folder of the configuration."""

    __slots__ = ()

    @classmethod
    def from_setting(cls, value: object, folder: Path) -> StoreName:
        if not isinstance(value, str):
            raise ValueError("Expected `str`")
        path = value.removeprefix(SQLITE_STORE)
        return cls(value if path in (value, "") else f"{SQLITE_STORE}{folder / Path(path).expanduser()}")


@frozen(kw_only=True)
class StoresTable(StoreSettings):
    """The table ``[stores]``: the stores of sessions, events, and the other state that replicas share.

    Args:
        url: ``memory``, ``sqlite:PATH``, or the URL of an engine whose distribution is installed.
        sessions, events, bus, effects, replays, quotas, tasks: The URL for one kind of state; ``None`` uses ``url``.
    """

    url: StoreName = field(default=StoreName("memory"))
    sessions: StoreName | None = None
    events: StoreName | None = None
    bus: StoreName | None = None
    effects: StoreName | None = None
    replays: StoreName | None = None
    quotas: StoreName | None = None
    tasks: StoreName | None = None

    @property
    def is_memory(self) -> bool:
        """True if all state is in the memory of the process."""
        return set(self.urls.values()) == {"memory"}

    @property
    def urls(self) -> dict[str, StoreName]:
        """The URL for each kind of state."""
        return {name: getattr(self, name) or self.url for name in PORTS}
