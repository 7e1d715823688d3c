"""Events of a server, as values: requests, tasks and sessions that have ended, and requests that were refused.

``Server.add_observer`` and ``PluginSetup.add_observer`` take an observer. The status of the server shows
the requests and sessions that have not ended (:mod:`mcptrio.abc.status`).
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from attrs import frozen

__all__ = ["Observer", "Outcome", "RefusalReason", "RequestEnded", "SessionEnded", "TaskEnded"]

Outcome: TypeAlias = Literal["result", "question", "tool_error", "error", "timeout", "cancelled"]
"""``question``: the client was asked in the response (2026-07-28), and sends the request again with its answer;
``tool_error``: a result with ``isError``; ``timeout``: the error of a request whose deadline has passed; ``cancelled``:
no response was sent, because the client or the session has left."""

RefusalReason: TypeAlias = Literal["stopping", "requests", "session", "memory"]
"""``requests``: too many in the server; ``session``: too many in the session; ``memory``: too much for all params."""


@frozen(kw_only=True, slots=True)
class RequestEnded:
    """A request that has ended.

    Args:
        session: Number of the session in this process.
        channel: The session's transport, such as ``stdio`` or ``http``.
        label: The tool, prompt, resource or template that has run; the method, if nothing has.
        plugin: The plugin that has handled the request; ``None`` for the server itself.
        client: The name that the client gives itself.
        principal: The subject of the authenticated client.
        seconds: The time from the request's arrival to its end, in seconds.
        waited: The seconds of these in which its handler waited for answers of the client.
        code: The code of the error, for ``error`` and ``timeout``.
        message: The message of the error, or the reason of a cancellation.
        trace: The id of its trace in hexadecimal; ``None`` if it is not traced.
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
    """A call that has gone on after its request was answered with a task, and has ended in this process.

    The arguments are those of :class:`RequestEnded`, with these differences.

    Args:
        id: The beginning of the task's id, as in the log. The whole id would grant access to the task.
        seconds: For which this process has run it.
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
        revision: ``None`` if the client never said it.
        seconds: The time for which the session was open in this process, in seconds.
        reason: ``None`` if the client has closed it in order.
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

    The methods are called in the task in which it happens, and so must not block. If one raises, the error is logged,
    and the observer is removed.
    """

    def request_ended(self, request: RequestEnded, /) -> None: ...

    def request_refused(self, method: str, reason: RefusalReason, /) -> None:
        """A limit was reached before the request began."""
        ...

    def session_ended(self, session: SessionEnded, /) -> None: ...

    def task_ended(self, task: TaskEnded, /) -> None: ...
