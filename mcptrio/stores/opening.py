"""Opens stores by their URL. Other distributions add engines through the entry-point group ``mcptrio.stores``.

The name of an entry point is the scheme of the URLs, and its object a function like :class:`StoreOpener`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Final, Protocol

from attrs import asdict

from mcptrio.abc import Bus, Stores
from mcptrio.errors import ConfigError
from mcptrio.stores.memory import memory_stores
from mcptrio.stores.settings import StoreBounds, StoreSettings

__all__ = ["GROUP", "StoreOpener", "open_stores", "scheme_of"]

GROUP: Final = "mcptrio.stores"
# Engines whose distribution is not installed, with the command that installs it.
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
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class StoreOpener(Protocol):
    """Opens the stores of one engine."""

    def __call__(
        self, url: str, settings: StoreSettings, *, bus: Bus | None = None
    ) -> AbstractAsyncContextManager[Stores]:
        """
        Args:
            url: The URL as the operator wrote it.
            settings: Limits and settings.
            bus: Reaches the other replicas; ``None`` if the engine has to do it.

        Raises:
            ConfigError: The URL or a setting is invalid.
            StoreFailed: The engine cannot be used.
        """
        ...


@asynccontextmanager
async def open_stores(
    url: str, settings: StoreSettings | None = None, *, bus: Bus | None = None
) -> AsyncIterator[Stores]:
    """Open the stores of a server, and close them at the end of the block.

    Args:
        url: ``memory``, ``sqlite:PATH``, or the URL of an engine: ``redis://…``, ``postgresql://…``.
        settings: Limits and settings.
        bus: Reaches the other replicas instead of the engine.

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


def scheme_of(url: str) -> str:
    """Return the scheme of the URL of a store, in lower case.

    Raises:
        ConfigError: It has none, or the path of a file is missing.
    """
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found is not None else url
    if (scheme == "memory" and url != "memory") or (found is None and url != "memory") or url.lower() == "sqlite:":
        expected = "memory, sqlite:PATH, redis://HOST:PORT or postgresql://USER@HOST/DATABASE"
        raise ConfigError(f"store: expected {expected}, got {_without_password(url)!r}")
    return scheme


def _opener(scheme: str) -> StoreOpener:
    found = entry_points(group=GROUP)
    for each in found:
        if each.name == scheme:
            opener: StoreOpener = each.load()
            return opener
    if scheme in _EXTRAS:
        raise ConfigError(f"store: {scheme} needs a distribution that is not installed: pip install {_EXTRAS[scheme]}")
    known = ["memory", "sqlite", *_EXTRAS, *(each.name for each in found)]
    near = get_close_matches(scheme, known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(sorted(set(known)))}"
    raise ConfigError(f"store: no installed distribution has the scheme {scheme!r}{hint}")


def _without_password(url: str) -> str:
    return re.sub(r"(//[^/:@]*):[^/@]*@", r"\1:…@", url)
