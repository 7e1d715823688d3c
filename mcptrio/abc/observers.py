"""Events of a server as values: the end of requests, tasks and sessions, and refused requests.

``Server.add_observer`` and ``PluginSetup.add_observer`` take an observer. The status of the server shows requests and
sessions that have not ended (:mod:`mcptrio.abc.status`).
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from attrs import frozen

__all__ = ["Observer", "Outcome", "RefusalReason", "RequestEnded", "SessionEnded", "TaskEnded"]

Outcome: TypeAlias = Literal["result", "question", "tool_error", "error", "timeout", "cancelled"]
"""``question``: the response asked the client, which sends the request again with its answer (2026-07-28);
``tool_error``: a result with ``isError``; ``timeout``: the error of a request whose deadline has passed; ``cancelled``:
no response was sent, because the client cancelled the request or disconnected, or the session ended."""

RefusalReason: TypeAlias = Literal["stopping", "requests", "session", "memory"]
"""``stopping``: the server is stopping; ``requests``: too many requests in the server; ``session``: too many in the
session; ``memory``: the params of all requests together are too large."""


@frozen(kw_only=True, slots=True)
class RequestEnded:
    """A request that has ended.

    Args:
        session: The number of the session in this process.
        channel: The session's transport, such as ``stdio`` or ``http``.
        label: The tool, prompt, resource or template that ran; the method if none of these ran.
        plugin: The plugin that handled the request; ``None`` for the server itself.
        client: The name that the client gives itself.
        principal: The subject of the authenticated client.
        seconds: The time from the request's arrival to its end.
        waited: The part of ``seconds`` in which the handler waited for answers of the client.
        code: The code of the error, for ``error`` and ``timeout``.
        message: The message of the error, or the reason of a cancellation.
        trace: The id of the request's trace in hexadecimal; ``None`` if it is not traced.
    """

    session: int
    channel: str
    id: str | int
    method: str
    label: str
    plugin: str | None
    revision: str
    client: str | None
    principal: str | None
    seconds: float
    waited: float
    outcome: Outcome
    code: int | None
    message: str | None
    trace: str | None = None


@frozen(kw_only=True, slots=True)
class TaskEnded:
    """A task that has ended in this process: a call that continued after its request was answered.

    The arguments are those of :class:`RequestEnded`, with these differences.

    Args:
        id: The beginning of the task's id, as in the log. The whole id would grant access to the task.
        seconds: The time for which this process ran the task.
        outcome: ``question`` does not occur.
    """

    id: str
    label: str
    plugin: str | None
    client: str | None
    principal: str | None
    seconds: float
    outcome: Outcome
    code: int | None
    message: str | None


@frozen(kw_only=True, slots=True)
class SessionEnded:
    """A session that has ended. In 2026-07-28, requests over HTTP have no session.

    Args:
        number: The number of the session in this process.
        channel: The session's transport, such as ``stdio`` or ``http``.
        revision: The protocol revision; ``None`` if the client named none.
        seconds: The time for which the session was open in this process.
        reason: The reason of the end; ``None`` if the client closed the session.
    """

    number: int
    channel: str
    revision: str | None
    client: str | None
    principal: str | None
    seconds: float
    reason: str | None


class Observer(Protocol):
    """Receives the events of a server.

    The server calls the methods in the task in which the event occurs, so they must not block. If a method raises, the
    error is logged and the observer is removed.
    """

    def request_ended(self, request: RequestEnded, /) -> None: ...

    def request_refused(self, method: str, reason: RefusalReason, /) -> None:
        """A limit was reached before the request began."""
        ...

    def session_ended(self, session: SessionEnded, /) -> None: ...

    def task_ended(self, task: TaskEnded, /) -> None: ...
