"""Requests the lists of all servers of a host concurrently, and finds a tool or prompt by its name.

The host uses this. Each server has the same time, so a slow server delays the list, but loses only its own part. The
host does not wait for a server that is down. A tool is looked up again before each approval, so that the user approves
the tool that will run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, TypeAlias

import trio
from attrs import frozen

from mcptrio.client.client import Client
from mcptrio.client.listings import Listing
from mcptrio.errors import ConnectionClosed, InvalidParams, MCPTrioError, MethodNotFound
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.host.listing import HostList, HostTool, hosted
from mcptrio.host.managed_server import ManagedServer
from mcptrio.host.names import hosted_names

__all__ = ["ITEM_NOUNS", "ListKind", "NamedKind", "collect_lists", "find", "find_fresh", "list_one"]

_log = logging.getLogger("mcptrio.host.list_collection")

ListKind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]
NamedKind: TypeAlias = Literal["tools", "prompts"]
ITEM_NOUNS: dict[NamedKind, str] = {"tools": "tool", "prompts": "prompt"}
"""The kinds whose items have other names in the host, with the noun for one item."""


@frozen
class _Source:
    """The request for one kind of list.

    Args:
        listing: Returns the list of a client.
        capability: The capability that the server must declare.
        field: The field of a page that contains the items.
    """

    listing: Callable[[Client], Listing[Any]]
    capability: str
    field: str


_SOURCES: dict[ListKind, _Source] = {
    "tools": _Source(Client.tools, "tools", "tools"),
    "prompts": _Source(Client.prompts, "prompts", "prompts"),
    "resources": _Source(Client.resources, "resources", "resources"),
    "templates": _Source(Client.resource_templates, "resources", "resource_templates"),
}


async def collect_lists(members: Iterable[ManagedServer], kind: ListKind) -> HostList[Any]:
    """Return the lists of all servers, with the reasons of missing parts."""
    # The iterable may be a live view, and servers may be added while the lists are read.
    members = list(members)
    items: dict[str, tuple[Any, ...]] = {}
    missing: dict[str, str] = {}

    async def ask(member: ManagedServer) -> None:
        # Waiting for a server that is known to be down would delay every list by the timeout.
        if member.status.state != "ready" and not member.is_first_connecting:
            missing[member.name] = member.status.reason or "it is not connected"
            return
        if kind in member.late_kinds:
            # This list was late before. Until it has arrived, the last one is returned at once.
            items[member.name] = member.last_lists.get(kind, ())
            missing[member.name] = f"no answer within {member.options.ready_timeout:g} s; it is still awaited"
            return
        with trio.move_on_after(member.options.ready_timeout):
            outcome = await run_guarded(list_one, member, kind)
            if not isinstance(outcome, Failure):
                items[member.name], is_whole = outcome.value
                if not is_whole:
                    missing[member.name] = f"only the first {member.options.listed} are listed"
                return
            # If one server fails, its part is missing, and the list itself does not fail.
            missing[member.name] = str(outcome.error)
            if not isinstance(outcome.error, MCPTrioError):
                _log.error("%s: its %s cannot be listed", member.name, kind, exc_info=outcome.error)
                missing[member.name] = "its list cannot be read"
            return
        missing[member.name] = f"no answer within {member.options.ready_timeout:g} s"
        # A stale list is more useful to a model than none. `missing` reports that it is stale.
        items[member.name] = member.last_lists.get(kind, ())
        member.finish_late_list(kind, partial(list_one, member, kind))

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(ask, member)
    # In the order of the servers, not of their answers.
    in_order = {member.name: missing[member.name] for member in members if member.name in missing}
    return HostList(tuple(item for member in members for item in items.get(member.name, ())), in_order)


async def list_one(member: ManagedServer, kind: ListKind) -> tuple[tuple[Any, ...], bool]:
    """Return the list of one server, and whether it is complete. Stores the list, and tools and prompts by name.

    Raises:
        MCPTrioError: The server is not connected, or the request fails.
    """
    source = _SOURCES[kind]
    items, generation, is_whole = await member.ask(partial(_read, member, source))
    if kind not in ITEM_NOUNS:
        member.last_lists[kind] = tuple(hosted(item, member.name) for item in items)
        return member.last_lists[kind], is_whole
    own_names = {name: in_host for in_host, name in hosted_names(member.prefix, [item.name for item in items]).items()}
    known: dict[str, Any] = {}
    for item in items:
        if (name := own_names.get(item.name)) is not None:
            # Of two items with one name, the first is used, as in hosted_names().
            known.setdefault(name, hosted(item, member.name, name))
    if len(known) < len(items):
        _log.warning("%s: %d of its %s are left out: duplicate names", member.name, len(items) - len(known), kind)
    # A list that has changed while it was read must not be stored as current.
    if member.generation == generation:
        member.named_items[kind] = known
    member.last_lists[kind] = tuple(known.values())
    return member.last_lists[kind], is_whole


async def _read(member: ManagedServer, source: _Source, client: Client) -> tuple[list[Any], int, bool]:
    generation, limit = member.generation, member.options.listed
    items: list[Any] = []
    # The capability is checked first, because some servers answer an undeclared method with an error that ends the
    # session.
    if getattr(client.capabilities, source.capability) is None:
        return items, generation, True
    try:
        async for page in source.listing(client).pages():
            items += getattr(page, source.field)
            # A server may return any number of pages, so the number of items is bounded.
            if len(items) > limit:
                return items[:limit], generation, False
    except MethodNotFound:
        # The server declares the capability but lacks the method, such as the one for resource templates.
        pass
    return items, generation, True


async def find(member: ManagedServer, kind: NamedKind, name: str) -> Any:
    """Return an item by its name in the host, from the last list; or request the list if it lacks the name.

    Raises:
        InvalidParams: The server does not list the item.
        MCPTrioError: The server cannot be reached.
    """
    known = member.named_items.get(kind, {}).get(name)
    return known if known is not None else await _find_listed(member, kind, name)


async def find_fresh(member: ManagedServer, name: str) -> HostTool:
    """Return a tool as the server lists it now.

    If the server reports list changes without a subscription, the last list is current until a change arrives.
    Otherwise the list is requested again, unless the cache has a fresh one (``ttlMs``).

    Raises:
        InvalidParams: The server does not list the tool.
        MCPTrioError: The server cannot be reached.
    """
    tool: HostTool = await (find if member.reports_tool_changes else _find_listed)(member, "tools", name)
    return tool


async def _find_listed(member: ManagedServer, kind: NamedKind, name: str) -> Any:
    # The wait for a connection has its own timeout, so the server has the whole time below for its answer.
    await member.connected()
    with trio.move_on_after(member.options.ready_timeout):
        items, _ = await list_one(member, kind)
        listed = {each.name: each for each in items}
        if name not in listed:
            raise InvalidParams(f"no such {ITEM_NOUNS[kind]}: {quote_name(name)}{suggest(name, list(listed))}")
        return listed[name]
    raise ConnectionClosed(f"{member.name} did not list its {kind} within {member.options.ready_timeout:g} s")
