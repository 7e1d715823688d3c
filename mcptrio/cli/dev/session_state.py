"""The state of a client's session, with which another worker can continue it.

The relay of ``mcptrio dev`` keeps it. The client sends its handshake, its log level and its subscriptions once, and
each new worker receives them again. This module has no tasks, no clock and no I/O.

Source: MCP 2025-11-25, basic/lifecycle, server/resources "Subscriptions", server/utilities/logging; MCP 2026-07-28,
basic/patterns/subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final, Generic, TypeVar

from mcptrio.protocol.envelope import SUBSCRIPTION_ID
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.registry import REVISIONS

__all__ = ["OWN", "SessionState"]

OWN: Final = "mcptrio-dev-"
"""The prefix of the ids of the relay's own requests."""

_INITIALIZE: Final = "initialize"
_INITIALIZED: Final = "notifications/initialized"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_SET_LEVEL: Final = "logging/setLevel"
_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"
_LISTEN: Final = "subscriptions/listen"
_LISTS: Final = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
"""The lists, with their members in a ``subscriptions/listen`` request."""

_W = TypeVar("_W")
"""A worker."""


class SessionState(Generic[_W]):
    """The state of one client, over all workers."""

    def __init__(self) -> None:
        self.waiting: dict[RequestId, tuple[Request, _W]] = {}
        """The client's requests without a response, with their worker."""
        self.batches = False
        """True if the negotiated revision has batches."""
        self._initialize_request: Request | None = None
        """The answered ``initialize`` request."""
        self._is_initialized = False
        self._level: Request | None = None
        self._subscribed: dict[object, Request] = {}
        self._acknowledged: set[RequestId] = set()
        self._numbers = count(1)

    # Messages of the client

    def add_request(self, request: Request, worker: _W) -> None:
        """Record the worker that has to answer a request."""
        self.waiting[request.id] = (request, worker)

    def cancel_request(self, id: object) -> _W | None:
        """Remove a request that the client has cancelled, and return its worker, if any."""
        if not isinstance(id, str | int) or id not in self.waiting:
            return None
        self._acknowledged.discard(id)
        return self.waiting.pop(id)[1]

    def handle_notification(self, notification: Notification) -> None:
        if notification.method == _INITIALIZED:
            self._is_initialized = True

    # Messages of the workers

    def handle_response(self, answer: Response | ErrorResponse, worker: _W) -> bool:
        """Record a response. Return whether the client was waiting for it from this worker."""
        if answer.id is None or answer.id not in self.waiting or self.waiting[answer.id][1] is not worker:
            return False
        request, _ = self.waiting.pop(answer.id)
        self._acknowledged.discard(answer.id)
        # A request that was refused has changed nothing, so it is not replayed.
        if isinstance(answer, Response):
            self._record_response(request, answer.result)
        return True

    def remove_request(self, request: Request) -> None:
        """Undo :meth:`add_request` for a request that the worker has not accepted."""
        self.waiting.pop(request.id, None)

    def is_repeated(self, notification: Notification) -> bool:
        """Return whether the client has received this acknowledgement before."""
        if notification.method != _ACKNOWLEDGED:
            return False
        id = _meta(notification.params).get(SUBSCRIPTION_ID)
        # Each worker acknowledges the same subscription, but for the client it was opened once.
        if not isinstance(id, str | int) or id in self._acknowledged:
            return True
        self._acknowledged.add(id)
        return False

    # Another worker

    def replay(self, worker: _W) -> list[Message]:
        """Return the first messages for a new worker, in order. The worker takes over the open subscriptions."""
        messages: list[Message] = []
        if self._initialize_request is not None:
            messages.append(self._repeat_request(self._initialize_request))
        # An initialize request without a response moves to the new worker.
        messages += self._requests_to_move(_INITIALIZE, worker)
        if self._is_initialized and messages:
            messages.append(Notification(_INITIALIZED))
        messages += [
            self._repeat_request(each) for each in (self._level, *self._subscribed.values()) if each is not None
        ]
        messages += self._requests_to_move(_LISTEN, worker)
        return messages

    def list_changes(self) -> list[Notification]:
        """Return notifications, in the client's revision, that all lists may have changed."""
        notifications: list[Notification] = []
        # MCP 2025-11-25, basic/lifecycle: with "initialized", the client reports that it is ready.
        if self._initialize_request is not None and self._is_initialized:
            notifications += [Notification(_change_notification(what)) for what in _LISTS]
        for request, _ in self.waiting.values():
            if request.method == _LISTEN:
                lists = (request.params or {}).get("notifications")
                notifications += [
                    # In 2026-07-28 a notification names its subscription, and covers only the lists that the
                    # subscription requests.
                    Notification(_change_notification(what), {"_meta": {SUBSCRIPTION_ID: request.id}})
                    for what, member in _LISTS.items()
                    if isinstance(lists, dict) and lists.get(member) is True
                ]
        return notifications

    def unanswered(self, worker: _W | None = None) -> list[RequestId]:
        """Return the ids of requests without a response, of one worker or of all. Subscriptions do not count."""
        return [
            id
            for id, (request, owner) in self.waiting.items()
            # A subscription gets its response only when it ends, so nothing can wait for it.
            if request.method != _LISTEN and (worker is None or owner is worker)
        ]

    def abandon(self, worker: _W) -> list[RequestId]:
        """Forget the requests of a worker, and return their ids. Subscriptions stay, for another worker."""
        lost = self.unanswered(worker)
        for id in lost:
            del self.waiting[id]
        return lost

    # Private

    def _record_response(self, request: Request, result: dict[str, Any]) -> None:
        params = request.params or {}
        if request.method == _INITIALIZE:
            self._initialize_request = request
            revision = REVISIONS.get(str(result.get("protocolVersion")))
            self.batches = revision is not None and revision.batches
        elif request.method == _SET_LEVEL:
            self._level = request
        elif request.method == _SUBSCRIBE:
            self._subscribed[params.get("uri")] = request
        elif request.method == _UNSUBSCRIBE:
            self._subscribed.pop(params.get("uri"), None)

    def _repeat_request(self, request: Request) -> Request:
        # With the client's id, the client would take the response for the answer to its own request.
        return Request(f"{OWN}{next(self._numbers)}", request.method, request.params)

    def _requests_to_move(self, method: str, worker: _W) -> Iterator[Request]:
        for id, (request, _) in tuple(self.waiting.items()):
            if request.method == method:
                self.waiting[id] = (request, worker)
                yield request


def _change_notification(what: str) -> str:
    return f"notifications/{what}/list_changed"


def _meta(params: dict[str, Any] | None) -> dict[str, Any]:
    meta = (params or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}
