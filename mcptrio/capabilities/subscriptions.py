"""Change notifications for the subscribers of every revision.

In 2026-07-28, changes are sent to ``subscriptions/listen`` streams. In handshake revisions, changes of lists are sent
to all sessions, and changes of resources to the subscribers of ``resources/subscribe``. The bus carries changes between
replicas. Each stream receives a change once, and a change replaces an equal one that is still queued.

Source: MCP 2026-07-28, basic/patterns/subscriptions; MCP 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import orjson
import trio
from attrs import define

from mcptrio.abc import Bus
from mcptrio.capabilities.access import Access
from mcptrio.capabilities.resource_index import MAX_URI_CHARS
from mcptrio.capabilities.tasks import TaskMethods
from mcptrio.errors import InvalidParams, Overloaded, ResourceNotFound
from mcptrio.protocol.envelope import SUBSCRIPTION_ID
from mcptrio.protocol.model.base import EmptyParams, EmptyResult
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.lifecycle import ServerCapabilities
from mcptrio.protocol.model.resources import ResourceUpdatedParams, SubscribeParams, UnsubscribeParams
from mcptrio.protocol.model.subscriptions import AcknowledgedParams, ListenParams, ListenResult, SubscriptionFilter
from mcptrio.protocol.revisions.revision import ChangeDelivery
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.state import RuntimeState

__all__ = ["TOPIC", "Subscriptions"]

_log = logging.getLogger("mcptrio.subscriptions")

TOPIC: Final = "changes"
"""The topic of changes on the bus."""
_LISTS = {"tools": "tools_list_changed", "prompts": "prompts_list_changed", "resources": "resources_list_changed"}


@define(eq=False, slots=True)
class _ListenStream:
    """An open ``subscriptions/listen`` request. See :class:`mcptrio.runtime.open_request.OpenRequest`."""

    subscriptions: Subscriptions
    scope: RequestScope
    wanted: SubscriptionFilter
    uris: frozenset[str]
    stop_following: Callable[[], None]
    """Ends the notifications of the tasks to which it is subscribed."""

    def result(self) -> ListenResult:
        return ListenResult(meta={SUBSCRIPTION_ID: self.scope.request.id})

    def on_closed(self) -> None:
        self.subscriptions.end(self)


class Subscriptions:
    """The subscriptions of all sessions, and the delivery of change notifications to them.

    Args:
        tasks: Reports changes to tasks.
        advertised: Returns the advertised capabilities.
    """

    def __init__(
        self,
        state: RuntimeState,
        access: Access,
        tasks: TaskMethods,
        advertised: Callable[[], ServerCapabilities],
    ) -> None:
        self._state = state
        self._access = access
        self._tasks = tasks
        self._advertised = advertised
        state.on_subscriptions = self.note_change
        state.on_missed_changes = self._report_missed_changes
        self._bus: Bus | None = None
        """The bus of the replicas while the server is open; ``None`` for a single process."""
        self._replica = secrets.token_urlsafe(6)
        self._listens: set[_ListenStream] = set()
        self._watched_changed = trio.Event()
        self._nursery: trio.Nursery | None = None
        """Open while the server is open."""
        self._changed: set[str] = set()
        """Lists that have changed and whose notifications have not been sent yet."""
        self.handlers: dict[str, Handler] = {
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "subscriptions/listen": self._listen,
        }

    # Notify

    def changed(self, what: str) -> None:
        """Report a changed list: ``tools``, ``prompts`` or ``resources``."""
        if self._nursery is not None:
            self._state.loop.hand_over(partial(self._schedule_change, what))

    def updated(self, uri: str, caller: str | None = None) -> None:
        """Report a changed resource, to all subscribers or to those of one caller."""
        if self._nursery is not None:
            change = {"uri": uri} if caller is None else {"uri": uri, "caller": caller}
            self._state.loop.hand_over(partial(self._publish, change))

    def _schedule_change(self, what: str) -> None:
        if self._nursery is None:  # The server may have closed since a thread handed this over.
            return
        # A task sends the changes, so that each session gets one notification if a plugin adds many entries at once.
        if not self._changed:
            self._nursery.start_soon(self._send_changes)
        self._changed.add(what)

    async def _send_changes(self) -> None:
        changed, self._changed = self._changed, set()
        for what in sorted(changed):
            self._publish({"list": what})

    def _publish(self, change: dict[str, str]) -> None:
        if self._nursery is None:
            return
        # Local subscribers do not wait for the bus.
        self._deliver(change)
        if self._bus is not None:
            self._bus.publish(TOPIC, orjson.dumps({**change, "from": self._replica}))

    async def run(self) -> None:
        """Exchange changes with the other replicas. Runs while the server is open."""
        stores = self._state.stores
        self._bus = stores.bus if stores is not None else None
        stop_following = self._bus.follow(TOPIC, self._receive) if self._bus is not None else None
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._tasks.run)
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None
                if stop_following is not None:
                    stop_following()

    def _receive(self, message: bytes | None) -> None:
        if message is None:
            self._report_all_changed()
            return
        try:
            change = orjson.loads(message)
        except orjson.JSONDecodeError:
            change = None
        # Another version of mcptrio may publish a message that this one does not know.
        if not isinstance(change, dict):
            _log.warning("message of another replica ignored, its format is unknown: bytes=%d", len(message))
        elif change.pop("from", None) != self._replica:
            self._deliver(change)

    def _report_all_changed(self) -> None:
        """Report all lists and subscribed resources as changed, because messages of other replicas may be lost."""
        for what in _LISTS:
            self._deliver({"list": what})
        for uri in self.watched():
            self._deliver({"uri": uri})

    def _report_missed_changes(self, conversation: Conversation) -> None:
        """Report all lists, and the resources to which it is subscribed, to one client as changed."""
        capabilities = self._advertised()
        for what in _LISTS:
            if getattr(capabilities, what) is not None:
                _notify_list_changed(conversation, f"notifications/{what}/list_changed", EmptyParams(), what)
        for uri in conversation.subscriptions:
            _notify_resource_updated(conversation, uri)

    def _deliver(self, change: dict[str, Any]) -> None:
        what, uri = change.get("list"), change.get("uri")
        if isinstance(what, str) and what in _LISTS:
            method = f"notifications/{what}/list_changed"
            self._send_to_listeners(
                method, EmptyParams, what, lambda listen: bool(getattr(listen.wanted, _LISTS[what]))
            )
        elif isinstance(uri, str):
            self._send_updated(uri, change.get("caller"))

    def _send_to_listeners(
        self, method: str, params: Callable[..., Any], key: str, wants: Callable[[_ListenStream], bool]
    ) -> None:
        # The subscription id tells the client which of its streams the change belongs to.
        for listen in self._listens:
            if wants(listen):
                meta = {SUBSCRIPTION_ID: listen.scope.request.id}
                listen.scope.notify(method, params(meta=meta), key=(method, key, listen))
        for session in self._state.sessions:
            _notify_list_changed(session, method, params(), key)

    def _send_updated(self, uri: str, caller: str | None) -> None:
        method = "notifications/resources/updated"
        for listen in self._listens:
            if uri in listen.uris and caller in (None, listen.scope.caller):
                meta = {SUBSCRIPTION_ID: listen.scope.request.id}
                listen.scope.notify(method, ResourceUpdatedParams(uri=uri, meta=meta), key=(method, uri, listen))
        for session in self._state.sessions:
            if uri in session.subscriptions and caller in (None, session.caller):
                _notify_resource_updated(session, uri)

    # Subscribers

    def watched(self) -> frozenset[str]:
        """Return the URIs to which clients of this process are subscribed."""
        uris: set[str] = set()
        for listen in self._listens:
            uris |= listen.uris
        for session in self._state.sessions:
            uris |= session.subscriptions
        return frozenset(uris)

    async def wait_changed(self) -> None:
        """Wait for the next change to the subscriptions."""
        await self._watched_changed.wait()

    def note_change(self) -> None:
        """Wake the waiting tasks, after a subscription was added or removed."""
        self._watched_changed.set()
        self._watched_changed = trio.Event()

    async def _subscribe(self, scope: RequestScope, params: SubscribeParams) -> EmptyResult:
        limit = scope.session.settings.limits.subscriptions
        subscriptions = scope.session.subscriptions
        if len(params.uri) > MAX_URI_CHARS:
            raise InvalidParams(f"expected a URI of at most {MAX_URI_CHARS} characters at `uri`, got {len(params.uri)}")
        if not self._access.may_watch(params.uri, scope.principal):
            raise ResourceNotFound(params.uri)
        if params.uri not in subscriptions and len(subscriptions) >= limit:
            raise InvalidParams(f"expected at most {limit} subscriptions in one session, got one more at `uri`")
        scope.session.set_subscriptions(subscriptions | {params.uri})
        self.note_change()
        return EmptyResult()

    async def _unsubscribe(self, scope: RequestScope, params: UnsubscribeParams) -> EmptyResult:
        scope.session.set_subscriptions(scope.session.subscriptions - {params.uri})
        self.note_change()
        return EmptyResult()

    async def _listen(self, scope: RequestScope, params: ListenParams) -> ListenResult:
        limits = scope.session.settings.limits
        if len(self._listens) >= limits.listen_streams:
            raise Overloaded(f"too many subscriptions: {limits.listen_streams} streams are open", retry_after=10.0)
        wanted = params.notifications
        if len(wanted.resource_subscriptions) > limits.subscriptions:
            raise InvalidParams(
                f"expected at most {limits.subscriptions} URIs at `notifications.resourceSubscriptions`, "
                f"got {len(wanted.resource_subscriptions)}"
            )
        if len(wanted.task_ids) > limits.subscriptions:
            raise InvalidParams(
                f"expected at most {limits.subscriptions} ids at `notifications.taskIds`, got {len(wanted.task_ids)}"
            )
        accepted = await self._accepted_part(wanted, scope)
        meta = {SUBSCRIPTION_ID: scope.request.id}
        scope.remove_deadline()
        acknowledged = AcknowledgedParams(notifications=accepted, meta=meta)
        notification = scope.session.connection.notification(
            "notifications/subscriptions/acknowledged", acknowledged, peer=scope.request.peer
        )
        assert notification is not None, "a revision with this request has the acknowledgement"
        # send() waits while the outbox is full. send_latest() could drop the acknowledgement, which must be sent first.
        await scope.send(notification)
        stop_following = self._tasks.follow(scope, accepted.task_ids)
        listen = _ListenStream(self, scope, accepted, frozenset(accepted.resource_subscriptions), stop_following)
        self._listens.add(listen)
        self.note_change()
        if scope.can_stay_open:
            # Thousands of streams may be open in one process, and a task for each would take most of the memory.
            scope.keep_open(listen)
        else:
            try:
                await scope.until_concluded()
            finally:
                listen.on_closed()
        return listen.result()

    def end(self, listen: _ListenStream) -> None:
        """Stop sending changes to this stream."""
        self._listens.discard(listen)
        listen.stop_following()
        self.note_change()

    async def _accepted_part(self, wanted: SubscriptionFilter, scope: RequestScope) -> SubscriptionFilter:
        """Return the part of the filter that this server supports. The rest is omitted, which is not an error."""
        capabilities = self._advertised()
        watched = tuple(uri for uri in wanted.resource_subscriptions if self._access.may_watch(uri, scope.principal))
        return evolve(
            wanted,
            tools_list_changed=wanted.tools_list_changed and capabilities.tools is not None,
            prompts_list_changed=wanted.prompts_list_changed and capabilities.prompts is not None,
            resources_list_changed=wanted.resources_list_changed and capabilities.resources is not None,
            resource_subscriptions=watched if capabilities.resources is not None else (),
            task_ids=await self._tasks.known(scope, wanted.task_ids) if wanted.task_ids else (),
        )


def _notify_list_changed(conversation: Conversation, method: str, params: Any, key: str) -> None:
    peer = conversation.connection.peer
    if peer is not None and peer.revision.changes is ChangeDelivery.UNSOLICITED:
        conversation.notify(method, params, key=(method, key))


def _notify_resource_updated(conversation: Conversation, uri: str) -> None:
    method = "notifications/resources/updated"
    conversation.notify(method, ResourceUpdatedParams(uri=uri), key=(method, uri))
