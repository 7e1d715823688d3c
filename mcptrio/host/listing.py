"""Common lists of all servers of a host. Each item names its server, and missing parts are reported.

The host returns these. A list takes at most the host's ``ready_timeout``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import attrs

from mcptrio.protocol.model.fields import field, model
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool

__all__ = [
    "HostList",
    "HostListing",
    "HostPrompt",
    "HostResource",
    "HostResourceTemplate",
    "HostTool",
    "hosted",
    "own_item",
]

T = TypeVar("T")

_NOTHING: Mapping[str, str] = MappingProxyType({})


@model
class HostTool(Tool):
    """A tool of one of the servers. ``name`` is its name in the host: ``fs_read_file``.

    Args:
        server: The name of the server in the host.
        own_name: The name of the tool on its server.
    """

    server: str = field()
    own_name: str = field()


@model
class HostPrompt(Prompt):
    """A prompt of one of the servers. ``name`` is its name in the host.

    Args:
        server: The name of the server in the host.
        own_name: The name of the prompt on its server.
    """

    server: str = field()
    own_name: str = field()


@model
class HostResource(Resource):
    """A resource of one of the servers.

    Args:
        server: The name of the server in the host.
    """

    server: str = field()


@model
class HostResourceTemplate(ResourceTemplate):
    """A resource template of one of the servers.

    Args:
        server: The name of the server in the host.
    """

    server: str = field()


_HOSTED: Mapping[type, type] = {
    Tool: HostTool,
    Prompt: HostPrompt,
    Resource: HostResource,
    ResourceTemplate: HostResourceTemplate,
}


def hosted(item: Any, server: str, name: str | None = None) -> Any:
    """Return an item of a server's list as an item of the host's.

    Args:
        server: The name of the server in the host.
        name: The name of a tool or prompt in the host.
    """
    values = {each.name: getattr(item, each.name) for each in attrs.fields(type(item))}
    if name is not None:
        values |= {"own_name": item.name, "name": name}
    return _HOSTED[type(item)](**values, server=server)


def own_item(item: Any) -> Any:
    """Return an item of the host's list as its server lists it."""
    # The item's class in the host is derived directly from the protocol's class.
    base: Any = type(item).__base__
    values = {each.name: getattr(item, each.name) for each in attrs.fields(base)}
    return base(**values | ({"name": item.own_name} if hasattr(item, "own_name") else {}))


@attrs.frozen
class HostList(Generic[T]):
    """A list at one moment.

    Args:
        items: The items in the order of the servers and of each server's list.
        missing: The servers whose part is missing or incomplete, with the reason.
    """

    items: tuple[T, ...]
    missing: Mapping[str, str] = attrs.field(factory=dict)


class HostListing(Generic[T]):
    """A list over all servers: ``async for each in listing``, or ``await listing.all()``.

    Each use requests the lists again, from all servers concurrently.
    """

    def __init__(self, fetch: Callable[[], Awaitable[HostList[T]]]) -> None:
        self._fetch = fetch
        self.missing = _NOTHING
        """The missing parts of the last list."""

    async def all(self) -> HostList[T]:
        """Return the whole list."""
        whole_list = await self._fetch()
        self.missing = whole_list.missing
        return whole_list

    def __aiter__(self) -> AsyncIterator[T]:
        # Not a generator, which a caller that leaves the loop early would have to close.
        return _Items(self)


class _Items(Generic[T]):
    def __init__(self, listing: HostListing[T]) -> None:
        self._listing = listing
        self._items: list[T] | None = None

    def __aiter__(self) -> _Items[T]:
        return self

    async def __anext__(self) -> T:
        if self._items is None:
            # Reversed, so that the next item is popped from the end in constant time.
            self._items = list(reversed((await self._listing.all()).items))
        if not self._items:
            raise StopAsyncIteration
        return self._items.pop()
