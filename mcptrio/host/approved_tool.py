"""Obtains the user's approval of one tool call.

``Host.call_tool`` uses this. The user is shown the tool as the server lists it now, and an approval holds for that tool
alone: if the server changes it while the user decides, nothing is called.

Source: MCP 2026-07-28, index, "Security and Trust & Safety"; server/tools, "List Changed Notification".
"""

from __future__ import annotations

import orjson
import trio

from mcptrio.errors import NotApproved
from mcptrio.host.approval import Approval, ApprovalRequest
from mcptrio.host.audit import AuditEntry
from mcptrio.host.list_collection import find, find_fresh
from mcptrio.host.listing import own_item
from mcptrio.host.managed_server import ManagedServer
from mcptrio.protocol.model.tools import Tool

__all__ = ["approved_tool"]

_FRESH_SECONDS = 1.0
"""Seconds for a decision after which the tool is looked up again. A person takes longer, a policy does not."""


async def approved_tool(
    member: ManagedServer, name: str, arguments: bytes, entry: AuditEntry, *, approval: Approval
) -> tuple[Tool, bytes]:
    """Return the tool after the user has approved the call, and the arguments to send.

    Args:
        name: the tool's name in the host.
        arguments: JSON to send, unless the user edits it.

    Raises:
        InvalidParams: The server does not list the tool.
        NotApproved: The user did not approve, or the server has changed the tool in the meantime.
        MCPTrioError: The server's tools cannot be listed.
    """
    # Without a user the definition is not shown, so the last list is good enough and saves a request.
    if not approval.asks:
        known: Tool = own_item(await find(member, "tools", name))
        entry.name = known.name
        entry.approved()
        return known, arguments
    shown = await find_fresh(member, name)
    tool: Tool = own_item(shown)
    # In the record before the user decides, so that a refusal names the tool too.
    entry.name = tool.name
    asked = trio.current_time()
    edited = await approval.obtain(
        ApprovalRequest(
            server=member.name,
            where=member.where,
            kind="tool",
            name=tool.name,
            arguments=orjson.loads(arguments),
            tool=tool,
        )
    )
    # A quick decision is a policy's, and cannot have taken long enough for the tool to change.
    is_stale = trio.current_time() - asked > _FRESH_SECONDS or not member.knows("tools", name)
    if is_stale and await find_fresh(member, name) != shown:
        # The definition that the user read is gone; the caller may ask again with the new one.
        raise NotApproved(f"{member.name}: not approved: {tool.name}: the server changed it meanwhile")
    entry.approved(edited)
    return tool, arguments if edited is None else orjson.dumps(edited)
