"""The user's approval of tool calls, of servers' questions and of the model's replies to servers.

The host asks before each of these actions. Only an explicit approval counts: an exception, a timeout or any other
answer is a refusal.

Source: MCP 2026-07-28, index, "Security and Trust & Safety"; server/tools, "List Changed Notification"; client/sampling
and client/elicitation, "Security Considerations"; MCP 2025-11-25, client/sampling, "Error Handling" (code -1).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import orjson
import trio
from attrs import field, frozen

from mcptrio.client.forms import Form, OpenURL
from mcptrio.errors import InvalidParams, NotApproved
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.ground.quoting import printable
from mcptrio.host.audit import AuditEntry
from mcptrio.host.list_collection import find, find_fresh
from mcptrio.host.listing import own_item
from mcptrio.host.managed_server import ManagedServer
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult
from mcptrio.protocol.model.tools import Tool
from mcptrio.protocol.revisions.registry import LATEST

__all__ = ["Approval", "ApprovalRequest", "Approve", "Decision"]

_log = logging.getLogger("mcptrio.host.approval")

ApprovalKind: TypeAlias = Literal["tool", "form", "url", "sampling", "reply"]
"""The kind of action: a tool call, a form, a URL, sampling, or (``reply``) the model's reply."""

_VERBS: dict[ApprovalKind, str] = {
    "tool": "call the tool {name} of {server}",
    "form": "let {server} ask you",
    "url": "let {server} ask you to open a URL",
    "sampling": "let {server} use the model",
    "reply": "send the reply of the model to {server}",
}

_FRESH_SECONDS = 1.0
"""Seconds. After a slower decision, which a person has made, the tool is looked up again. A policy decides faster."""
# The user answers a form or a URL in person, so there are no arguments to edit.
_EDITABLE: dict[ApprovalKind, Any] = {"tool": None, "sampling": CreateMessageParams, "reply": CreateMessageResult}
"""The type of edited arguments; ``None`` for those of a tool, which the server checks."""


@frozen(kw_only=True)
class Decision:
    """The user's decision, with a reason or with edited arguments.

    Args:
        allowed: True if the action is approved.
        reason: The reason of a refusal. The caller of a tool receives it; servers do not.
        arguments: JSON that replaces the request's ``arguments``, edited by the user: the arguments of a ``tool``, the
            messages of a ``sampling`` or the message of a ``reply``. A form or a URL cannot be edited.
    """

    allowed: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class ApprovalRequest:
    """The action that the user is asked to approve.

    Args:
        server: The name that the host gave the server.
        where: The server's program or URL, without parts that may be secret.
        kind: ``tool``: call a tool with ``arguments``. ``form``: show the user a form. ``url``: ask the user to open a
            URL. ``sampling``: send ``arguments`` to the model. ``reply``: send the model's message to the server.
        name: The tool's own name on its server; empty for other kinds.
        arguments: A copy of the data to send to the tool, the user, the model or the server. To change it, use
            ``Decision.arguments``.
        tool: The server's definition of the tool: description, schema, annotations. Do not trust it.
        question: The form, the URL, or the sampling request.
    """

    server: str
    where: str
    kind: ApprovalKind
    name: str = ""
    arguments: Mapping[str, Any] = field(factory=dict)
    tool: Tool | None = None
    question: Form | OpenURL | CreateMessageParams | None = None

    @property
    def fingerprint(self) -> str:
        """A digest that changes with the server's definition of the tool. It is the key for remembering decisions.

        For a question, it depends only on the server and the kind.
        """
        # Description, schema and annotations are included: a decision about a tool must not apply to a changed one.
        definition = LATEST.unstructure(self.tool) if self.tool is not None else None
        parts = [self.server, self.where, self.kind, self.name, definition]
        # Sorted, so that the order of keys in the server's JSON does not matter.
        return sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def __str__(self) -> str:
        """Return one complete line for a terminal, with control characters and invisible characters escaped."""
        verb = _VERBS[self.kind].format(name=printable(self.name), server=printable(self.server))
        return f"{verb} ({printable(self.where)}): {printable(orjson.dumps(self.arguments).decode())}"


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | Decision]]
"""Asks the user. The function may remember decisions."""


class Approval:
    """Asks the user for approval, with a timeout.

    Args:
        approve: Asks the user; ``None`` approves everything.
        timeout: Seconds for the user to answer.
    """

    def __init__(self, approve: Approve | None, timeout: float) -> None:
        self._approve = approve
        self._timeout = timeout

    async def obtain(self, request: ApprovalRequest) -> dict[str, Any] | None:
        """Wait until the user approves.

        Returns:
            A copy of the arguments that the user has edited; ``None`` if the user has edited none.

        Raises:
            NotApproved: The user has not approved, or has not answered in time.
        """
        if self._approve is None:
            return None
        # The text has only the name or kind, because the model reads it, and arguments may have text of another server.
        refusal = f"{request.server}: not approved: {request.name or request.kind}"
        with trio.move_on_after(self._timeout):
            outcome = await run_guarded(self._approve, request)
            if isinstance(outcome, Failure):
                _log.error("the callback for approval failed", exc_info=outcome.error)
                raise NotApproved(refusal) from outcome.error
            answer = outcome.value
            # Only True itself approves, because another truthy object, such as a coroutine, is a mistake.
            if answer is True:
                return None
            if isinstance(answer, Decision) and answer.allowed is True:
                try:
                    return _edited_arguments(request, answer)
                # What the user has approved cannot be sent, so nothing is sent.
                except (TypeError, ValueError, InvalidParams) as error:
                    _log.exception("the edited arguments cannot be used")
                    raise NotApproved(f"{refusal}: {error}") from error
            reason = answer.reason if isinstance(answer, Decision) else ""
            raise NotApproved(f"{refusal}: {reason}" if reason else refusal)
        raise NotApproved(f"{refusal}: no answer within {self._timeout:g} s")

    async def obtain_for_tool(
        self, member: ManagedServer, name: str, arguments: bytes, entry: AuditEntry
    ) -> tuple[Tool, bytes]:
        """Return a tool after the user has approved the call, and the arguments to send.

        The user is shown the tool as the server lists it now. The approval applies only to this definition: if the
        server changes the tool while the user decides, nothing is called.

        Args:
            name: The tool's name in the host.
            arguments: JSON to send, unless the user edits it.

        Raises:
            InvalidParams: The server does not list the tool.
            NotApproved: The user did not approve, or the server has changed the tool in the meantime.
            MCPTrioError: The server's tools cannot be listed.
        """
        # No user reads the definition, so the last list is sufficient and saves a request.
        if self._approve is None:
            known: Tool = own_item(await find(member, "tools", name))
            entry.name = known.name
            entry.approved()
            return known, arguments
        item = await find_fresh(member, name)
        tool: Tool = own_item(item)
        # Recorded before the user decides, so that a refusal names the tool too.
        entry.name = tool.name
        began = trio.current_time()
        edited = await self.obtain(
            ApprovalRequest(
                server=member.name,
                where=member.where,
                kind="tool",
                name=tool.name,
                arguments=orjson.loads(arguments),
                tool=tool,
            )
        )
        # After a quick decision, which a policy has made, the tool is looked up again only if its list has changed.
        is_stale = trio.current_time() - began > _FRESH_SECONDS or not member.knows("tools", name)
        if is_stale and await find_fresh(member, name) != item:
            # The definition that the user has read is outdated. The caller may ask again with the new one.
            raise NotApproved(f"{member.name}: not approved: {tool.name}: the server has changed it in the meantime")
        entry.approved(edited)
        return tool, arguments if edited is None else orjson.dumps(edited)


def _edited_arguments(request: ApprovalRequest, decision: Decision) -> dict[str, Any] | None:
    """Return a copy of the arguments that the user has edited; ``None`` if the user has edited none.

    Raises:
        TypeError, ValueError, InvalidParams: The arguments are not a JSON object or do not match their type, or the
            kind of request has no arguments to edit.
    """
    if decision.arguments is None:
        return None
    if request.kind not in _EDITABLE:
        raise ValueError(f"arguments: expected none for a {request.kind}, got some")
    # A copy through JSON: the callback cannot change it afterwards, and all of it can be sent.
    arguments: dict[str, Any] = orjson.loads(orjson.dumps(dict(decision.arguments)))
    if (model := _EDITABLE[request.kind]) is not None:
        LATEST.structure(arguments, model)
    return arguments
