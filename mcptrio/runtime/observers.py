"""Tells the observers of a server how requests, tasks and sessions have ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import trio

from mcptrio.abc.observers import Observer, Outcome, RefusalReason, RequestEnded, SessionEnded, TaskEnded
from mcptrio.errors import MCPError
from mcptrio.ground.guarded import Done, Failure, run_guarded_sync
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.handler_errors import Expired
from mcptrio.runtime.request import RequestScope

__all__ = ["Observers"]

_log = logging.getLogger("mcptrio.observers")


class Observers:
    """The observers of one server. An observer that raises is removed."""

    def __init__(self) -> None:
        self.listening: list[Observer] = []
        """All observers. The gate checks this list first, so that a server without observers makes no event objects."""

    def add(self, observer: Observer) -> Callable[[], None]:
        """Add an observer. Returns a function that removes it."""
        self.listening.append(observer)
        return partial(self._remove, observer)

    def request_ended(self, scope: RequestScope) -> None:
        reply, error = scope.reply, scope.error
        outcome: Outcome = "cancelled"
        code, message = None, scope.reason
        if isinstance(reply, ErrorResponse):
            outcome = "timeout" if isinstance(error, Expired) else "error"
            code, message = reply.code, reply.message
        elif reply is not None:
            result, message = reply.result, None
            asks = result.get("resultType") == "input_required"
            outcome = "question" if asks else "tool_error" if result.get("isError") else "result"
        session, peer = scope.session, scope.request.peer
        ended = RequestEnded(
            session=session.number,
            channel=session.name,
            id=scope.request.id,
            method=scope.request.method.name,
            label=scope.label,
            plugin=scope.owner,
            revision=peer.revision.version,
            client=peer.info.name if peer.info is not None else None,
            principal=scope.principal.subject if scope.principal is not None else None,
            seconds=trio.current_time() - scope.started,
            waited=scope.waited,
            outcome=outcome,
            code=code,
            message=message,
            trace=scope.request.trace_id,
        )
        self._notify(lambda observer: observer.request_ended(ended))

    def request_refused(self, method: str, reason: RefusalReason) -> None:
        self._notify(lambda observer: observer.request_refused(method, reason))

    def session_ended(self, session: Conversation, reason: str | None) -> None:
        peer = session.connection.peer
        ended = SessionEnded(
            number=session.number,
            channel=session.name,
            revision=peer.revision.version if peer is not None else None,
            client=peer.info.name if peer is not None and peer.info is not None else None,
            principal=session.principal.subject if session.principal is not None else None,
            seconds=trio.current_time() - session.started,
            reason=reason,
        )
        self._notify(lambda observer: observer.session_ended(ended))

    def task_ended(self, id: str, scope: RequestScope, result: Done[CallToolResult] | Failure | None) -> None:
        """Tell the observers how a task has ended.

        Args:
            result: The result of the task's handler; ``None`` if the handler was cancelled.
        """
        if not self.listening:
            return
        outcome: Outcome = "cancelled"
        code, message = None, scope.reason
        error = result.error if isinstance(result, Failure) else scope.error
        if isinstance(result, Done):
            outcome, message = "tool_error" if result.value.is_error else "result", None
        elif error is not None:
            outcome = "timeout" if isinstance(error, Expired) else "error"
            # The message of an unexpected exception is not for clients: they get only its id in the log.
            code, message = (error.code, error.message) if isinstance(error, MCPError) else (None, "it failed")
        info = scope.request.peer.info
        ended = TaskEnded(
            id=id,
            label=scope.label,
            plugin=scope.owner,
            client=info.name if info is not None else None,
            principal=scope.principal.subject if scope.principal is not None else None,
            seconds=trio.current_time() - scope.started,
            outcome=outcome,
            code=code,
            message=message,
        )
        self._notify(lambda observer: observer.task_ended(ended))

    def _notify(self, call: Callable[[Observer], None]) -> None:
        for observer in tuple(self.listening):
            outcome = run_guarded_sync(call, observer)
            if isinstance(outcome, Failure):
                # Removed, because each request would log the same error.
                log_failure(_log, outcome.error, "observer %s failed and was removed", type(observer).__qualname__)
                self._remove(observer)

    def _remove(self, observer: Observer) -> None:
        # Compared by identity, because an author's class may define equality.
        self.listening = [each for each in self.listening if each is not observer]
