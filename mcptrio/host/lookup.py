"""Finds the tool or prompt with a name in the host.

The host calls this before it sends a request. It looks a tool up again before each approval, so that the user approves
the tool that will run.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import trio

from mcptrio.errors import ConnectionClosed, InvalidParams
from mcptrio.host.list_collection import list_one
from mcptrio.host.listing import HostTool
from mcptrio.host.managed_server import ManagedServer
from mcptrio.schema.validation_messages import suggest

__all__ = ["HOSTED", "Hosted", "find", "find_fresh"]

Hosted: TypeAlias = Literal["tools", "prompts"]
HOSTED: dict[Hosted, str] = {"tools": "tool", "prompts": "prompt"}


async def find(member: ManagedServer, kind: Hosted, name: str) -> Any:
    """Return what the server last listed under this name in the host; ask the server if it has not listed it yet.

    Raises:
        InvalidParams: the server does not list it.
        MCPTrioError: the server cannot be reached.
    """
    known = member.known.get(kind, {}).get(name)
    return known if known is not None else await _listed(member, kind, name)


async def find_fresh(member: ManagedServer, name: str) -> HostTool:
    """Return a tool as the server lists it now.

    If the server sends list changes unasked, the last list is current until a change arrives. Otherwise the server is
    asked, unless its list says that it may be kept longer (``ttlMs``).

    Raises:
        InvalidParams: the server does not list it.
        MCPTrioError: the server cannot be reached.
    """
    if member.knows("tools", name) and member.tells_of_tools:
        known: HostTool = await find(member, "tools", name)
        return known
    listed: HostTool = await _listed(member, "tools", name)
    return listed


async def _listed(member: ManagedServer, kind: Hosted, name: str) -> Any:
    # The wait for a connection has its own time: what follows is the server's alone.
    await member.connected()
    with trio.move_on_after(member.options.ready_timeout):
        items, _ = await list_one(member, kind)
        listed = {each.name: each for each in items}
        if name not in listed:
            raise InvalidParams(f"no such {HOSTED[kind]}: {name[:80]!r}{suggest(name, list(listed))}")
        return listed[name]
    raise ConnectionClosed(f"{member.name} did not list its {kind} within {member.options.ready_timeout:g} s")
