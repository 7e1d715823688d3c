"""Stores the call of a task, and loads it in any process as a request for whose response no client waits.

Source: MCP extension io.modelcontextprotocol/tasks, "Task Status Notifications": a task has no progress and no log
messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from mcptrio.abc import Principal
from mcptrio.abc.tracing import trace_carrier
from mcptrio.errors import ConnectionClosed
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.shares import RefCountedShare
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import Peer, RequestReceived
from mcptrio.protocol.messages import Message, Notification
from mcptrio.protocol.model.lifecycle import ClientCapabilities, Implementation
from mcptrio.protocol.model.tasks import TASKS_EXTENSION
from mcptrio.protocol.model.tools import CallToolParams
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import TaskCreation
from mcptrio.runtime.callers import ForwardedCaller, decode_caller, encode_caller
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.settings import ServerSettings

__all__ = ["TRACE", "load_call", "new_scope", "owner_of", "store_call", "supports_tasks"]

_FORWARDED = "mcptrio/caller"
TRACE = "trace"
"""The member of a stored call with the trace context of its request."""


class _NoSink:
    """The sink of a task, which has no stream of messages. See :class:`mcptrio.abc.MessageSink`."""

    async def send(self, message: Message | Sequence[Message]) -> None:
        raise ConnectionClosed("cannot send: a task has no stream of messages")

    def send_latest(self, message: Notification, key: object) -> None:
        pass

    def close(self) -> None:
        pass

    def release(self, retry_ms: int) -> bool:
        return False


def supports_tasks(peer: Peer) -> bool:
    """Return whether the client has declared tasks in the form of its revision."""
    capabilities = peer.capabilities
    if peer.revision.tasks is TaskCreation.BY_CLIENT:
        return capabilities.tasks is not None
    is_declared = capabilities.extensions is not None and TASKS_EXTENSION in capabilities.extensions
    return is_declared and peer.revision.tasks is TaskCreation.BY_SERVER


def owner_of(scope: RequestScope) -> str:
    """Return the owner of the tasks of a request: its principal.

    The owner is empty for an anonymous request. The id of its task is then the only protection.
    """
    return scope.caller if scope.principal is not None else ""


def store_call(scope: RequestScope, params: CallToolParams) -> dict[str, Any]:
    """Return the document of a call for :func:`load_call`, without the token and the claims of the principal."""
    peer = scope.request.peer
    return {
        **({TRACE: trace} if (trace := trace_carrier()) else {}),
        "name": params.name,
        "arguments": params.arguments,
        "revision": peer.revision.version,
        "info": peer.revision.unstructure(peer.info) if peer.info is not None else None,
        "capabilities": peer.revision.unstructure(peer.capabilities),
        _FORWARDED: encode_caller(scope.principal, scope.caller),
    }


def load_call(stored: Mapping[str, Any], id: str) -> tuple[RequestReceived, Principal | None, str]:
    """Return the request of a stored call, its principal and its caller.

    Args:
        id: The id of the task.

    Raises:
        KeyError: This version does not speak the revision of the call.
    """
    revision = REVISIONS[stored["revision"]]
    info = stored["info"]
    peer = Peer(
        revision=revision,
        info=revision.structure(info, Implementation) if info is not None else None,
        capabilities=revision.structure(stored["capabilities"], ClientCapabilities),
    )
    params = CallToolParams(name=stored["name"], arguments=stored["arguments"])
    forwarded = decode_caller("tools/call", stored)
    request = RequestReceived(id, revision.server_methods["tools/call"], params, peer)
    return request, forwarded.principal, forwarded.caller


def new_scope(
    request: RequestReceived,
    principal: Principal | None,
    caller: str,
    *,
    settings: ServerSettings,
    deadlines: Deadlines,
    ttl: float,
    memory: RefCountedShare | None = None,
) -> RequestScope:
    """Return a request scope for a task: no client waits for its response.

    Args:
        ttl: Seconds until its deadline.
        memory: The memory of its parameters, if it is already counted.
    """
    session = Conversation(
        connection=Connection(serves=lambda capability: True, handshake=False),
        # This sets the idle timeout too: clients poll a task, so its handler need not report progress.
        settings=evolve(settings, timeouts=settings.timeouts.with_request(ttl)),
        name="task",
        principal=principal,
    )
    # The caller's timeout and progress token belong to the request that has been answered.
    request = evolve(request, params=evolve(request.params, meta=None), log_level=None)
    scope = RequestScope(request, _NoSink(), session, deadlines, memory)
    scope.forwarded_caller = ForwardedCaller(principal, caller)
    return scope
