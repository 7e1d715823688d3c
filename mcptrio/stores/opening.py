"""Opens stores by their URL. Other distributions add engines through the entry-point group ``mcptrio.stores``.

The name of an entry point is the scheme of the URLs; its object is a :class:`StoreOpener`. Entry points of the group
``mcptrio.store_tools`` are :class:`StoreTools`, which ``mcptrio store check`` and ``migrate`` call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol

from attrs import asdict

from mcptrio.abc import Bus, Stores
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.stores.checks import Check
from mcptrio.stores.memory import memory_stores
from mcptrio.stores.settings import StoreBounds, StoreSettings
from mcptrio.stores.urls import is_local_store, scheme_of

__all__ = ["StoreOpener", "StoreTools", "check_scheme", "find_tools", "open_stores"]

_GROUP: Final = "mcptrio.stores"
_TOOLS_GROUP: Final = "mcptrio.store_tools"
# The distributions of engines, for the error if one is not installed.
_EXTRAS: Final = {
    "redis": "mcptrio-store-redis",
    "rediss": "mcptrio-store-redis",
    "redis+sentinel": "mcptrio-store-redis",
    "redis+cluster": "mcptrio-store-redis",
    "valkey": "mcptrio-store-redis",
    "valkeys": "mcptrio-store-redis",
    "postgresql": "mcptrio-store-postgres",
    "postgres": "mcptrio-store-postgres",
}


class StoreOpener(Protocol):
    """Opens the stores of one engine."""

    def __call__(
        self, url: str, settings: StoreSettings, *, bus: Bus | None = None
    ) -> AbstractAsyncContextManager[Stores]:
        """Return a context manager that opens the stores and closes them.

        Args:
            url: The URL as the operator wrote it.
            settings: The limits of the stores, and settings of the engine.
            bus: Sends messages to the other replicas; ``None`` if the engine must send them.

        Raises:
            ConfigError: The URL or a setting is invalid.
            StoreFailed: The engine cannot be used.
        """
        ...


class StoreTools(Protocol):
    """Checks and migrates an engine. A module with these two functions implements it."""

    async def check(self, url: str, settings: StoreSettings) -> list[Check]:
        """Check whether the engine is suitable for a replica. An unreachable engine is a finding, not an error.

        Raises:
            ConfigError: The URL or a setting is invalid.
        """
        ...

    async def migrate(self, url: str, settings: StoreSettings) -> list[str]:
        """Bring the engine's tables up to date, and return what was done.

        Raises:
            ConfigError: The URL or a setting is invalid.
            StoreFailed: The engine cannot be reached, or refuses a change.
        """
        ...


@asynccontextmanager
async def open_stores(
    url: str, settings: StoreSettings | None = None, *, bus: Bus | None = None
) -> AsyncIterator[Stores]:
    """Open the stores of a server, and close them at the end of the block.

    Args:
        url: ``memory``, ``sqlite:PATH``, or the URL of an engine: ``redis://…``, ``postgresql://…``.
        settings: The limits of the stores, and settings of the engine.
        bus: Sends messages to the other replicas, in place of the engine.

    Raises:
        ConfigError: No installed distribution has the scheme, or the URL or a setting is invalid.
        StoreFailed: The engine cannot be used.
    """
    settings = settings or StoreSettings()
    scheme = scheme_of(url)
    if scheme == "memory":
        yield memory_stores(settings, bus=bus)
        return
    if scheme == "sqlite":
        # Imported here: most servers keep their sessions in memory.
        from mcptrio.stores.sqlite import SQLiteBounds, open_sqlite_stores

        bounds = SQLiteBounds(**{name: getattr(settings, name) for name in asdict(StoreBounds())})
        async with open_sqlite_stores(url.partition(":")[2], bounds, bus=bus) as stores:
            yield stores
        return
    async with _opener(scheme)(url, settings, bus=bus) as stores:
        yield stores


def check_scheme(url: str) -> None:
    """Check that :func:`open_stores` can open a URL, without opening it.

    Raises:
        ConfigError: No installed distribution has the scheme.
    """
    if not is_local_store(url):
        _find_entry_point(_GROUP, scheme_of(url))


def find_tools(url: str) -> StoreTools:
    """Return the tools for the engine of a URL.

    Raises:
        ConfigError: A store of this scheme has no tools, or no installed distribution has the scheme.
    """
    scheme = scheme_of(url)
    if is_local_store(url):
        raise ConfigError(f"store: expected the URL of an engine, got {scheme}, which is checked when it is opened")
    tools: StoreTools = _find_entry_point(_TOOLS_GROUP, scheme).load()
    return tools


def _opener(scheme: str) -> StoreOpener:
    opener: StoreOpener = _find_entry_point(_GROUP, scheme).load()
    return opener


def _find_entry_point(group: str, scheme: str) -> EntryPoint:
    points = entry_points(group=group)
    for each in points:
        if each.name == scheme:
            return each
    if scheme in _EXTRAS:
        raise ConfigError(f"store: {scheme} needs the distribution {_EXTRAS[scheme]}, which is not installed")
    known = sorted({"memory", "sqlite", *_EXTRAS, *(each.name for each in points)})
    raise ConfigError(f"store: no installed distribution has the scheme {quote_name(scheme)}{suggest(scheme, known)}")
