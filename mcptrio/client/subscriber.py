"""A client's subscriptions to changes, which are renewed after a connection is lost.

Client owns one Subscriber. Each subscription has a task. In 2026-07-28, the task keeps a ``subscriptions/listen``
stream open. In older revisions, it subscribes to resources on the session. A subscription ends when its block ends or
the server refuses it. A lost connection does not end it.

Source: MCP 2025-11-25, server/resources, "Subscriptions"; MCP 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from attrs import define, field

from mcptrio.client.consent import with_consent
from mcptrio.client.options import ClientOptions
from mcptrio.client.session import ClientSession
from mcptrio.client.session_uris import SessionURIs
from mcptrio.client.subscriptions import Change, Changes
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.errors import AuthorizationError, ConnectionClosed, MCPError, MCPTrioError, MethodNotFound, SessionLost
from mcptrio.ground.backoff import MAX_PAUSE_SECONDS, Backoff
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.model.lifecycle import ServerCapabilities
from mcptrio.protocol.model.subscriptions import AcknowledgedParams, ListenParams, SubscriptionFilter
from mcptrio.protocol.revisions.revision import ChangeDelivery as ChangesTrait

__all__ = ["Subscriber", "distinct_uris"]

_log = logging.getLogger("mcptrio.client.subscriber")


@define(eq=False)
class _Stream:
    """An open ``subscriptions/listen`` request."""

    acknowledged: trio.Event = field(factory=trio.Event)
    scope: trio.CancelScope = field(factory=trio.CancelScope)


def distinct_uris(uris: Sequence[str]) -> tuple[str, ...]:
    """Return each URI once.

    Raises:
        TypeError: The argument is one string, whose characters would be taken as URIs.
    """
    if isinstance(uris, str):
        raise TypeError(f"uris: expected a sequence of URIs, such as [{uris!r}], got a string")
    return tuple(dict.fromkeys(uris))


class Subscriber:
    """The subscriptions of one client.

    Args:
        changed: Called with each watched change when a subscription starts, because the cache may have missed earlier
            ones.
    """

    def __init__(self, supervisor: ClientSupervisor, changed: Callable[[Change], None], options: ClientOptions) -> None:
        self._supervisor = supervisor
        self._changed = changed
        self._name = options.name
        self._ack_timeout = options.timeouts.idle
        self._subscriptions: list[Changes] = []
        # The generation of the session, and the resources to which the session is subscribed.
        self._uris: tuple[int, SessionURIs] | None = None
        self._streams: dict[Changes, _Stream] = {}

    @asynccontextmanager
    async def open(self, wanted: SubscriptionFilter) -> AsyncIterator[Changes]:
        """Subscribe during the block.

        Raises:
            MCPError: The server reports none of these changes.
        """
        changes = Changes(wanted)
        self._subscriptions.append(changes)
        try:
            async with open_hidden_nursery() as nursery:
                failure = await nursery.start(self._run, changes)
                if failure is not None:
                    raise failure
                yield changes
        finally:
            self._subscriptions.remove(changes)

    def notify(self, params: Any, change: Change | None, id: object) -> None:
        """Pass a notification to the subscriptions that it concerns.

        Args:
            change: The change that the notification reports, or ``None``.
            id: The id of the ``subscriptions/listen`` stream, or ``None``.
        """
        concerned = [changes for changes in self._subscriptions if id is None or changes.id == id]
        for changes in concerned:
            if change is not None:
                changes.take(change)
            elif isinstance(params, AcknowledgedParams):
                changes.honoured = params.notifications
                if changes in self._streams:
                    self._streams[changes].acknowledged.set()

    def cancelled_by_server(self, id: object) -> None:
        """End the stream with this id."""
        for changes, stream in self._streams.items():
            if changes.id == id:
                stream.scope.cancel()

    def end(self) -> None:
        """End all subscriptions, because no session will follow."""
        for changes in self._subscriptions:
            changes.end(ConnectionClosed(f"{self._name}: the connection ended"))

    # One subscription

    async def _run(self, changes: Changes, *, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        """Keep one subscription alive. Reports ``None`` to ``task_status`` once it exists, or the exception."""
        pending_status: trio.TaskStatus[MCPTrioError | None] | None = task_status

        def begun() -> None:
            nonlocal pending_status
            for change in changes.everything():
                self._changed(change)
            if pending_status is None:
                # Changes between the old subscription and this one were not reported.
                changes.take_all()
                return
            if changes.reports_nothing:
                raise MethodNotFound(f"{self._name} reports none of these changes: {', '.join(changes.missing)}")
            pending_status.started(None)
            pending_status = None

        backoff = Backoff()
        while True:
            began = trio.current_time()
            failure: MCPTrioError | None = None
            generation = self._supervisor.generation
            try:
                session = await self._supervisor.current()
                generation = self._supervisor.generation
                if session.revision.changes is ChangesTrait.LISTEN_STREAM:
                    await with_consent(partial(self._listen, session, changes, begun))
                else:
                    await self._watch(session, generation, changes, begun)
                    continue
            except SessionLost:
                await self._supervisor.until_lost(generation)
                continue
            except MCPTrioError as error:
                failure = error
            if pending_status is not None:
                pending_status.started(
                    failure or ConnectionClosed(f"{self._name}: the server ended the stream of changes")
                )
                return
            # A refusal is final. Another failure may be temporary.
            if failure is not None and (
                isinstance(failure, MCPError | AuthorizationError) or self._supervisor.has_ended
            ):
                changes.end(failure)
                return
            # A subscription that lasted longer than the longest pause was a success.
            if trio.current_time() - began > MAX_PAUSE_SECONDS:
                backoff.reset()
            pause = backoff.next_pause()
            _log.info("%s: the subscription ended; subscribing again in %.2g s", self._name, pause)
            await trio.sleep(pause)

    async def _watch(
        self, session: ClientSession, generation: int, changes: Changes, begun: Callable[[], None]
    ) -> None:
        """Subscribe on the session (handshake revisions), until the session is lost."""
        server = session.server
        assert server is not None
        changes.id = None
        changes.honoured = _changes_without_stream(changes.wanted, server.capabilities)
        if self._uris is None or self._uris[0] != generation:
            self._uris = generation, SessionURIs(session, lambda: self._supervisor.generation == generation)
        async with self._uris[1].subscribed(changes.honoured.resource_subscriptions):
            # Notifications arrive on the GET stream, and would be lost before it is open.
            await session.link.until_listening()
            begun()
            await self._supervisor.until_lost(generation)

    async def _listen(self, session: ClientSession, changes: Changes, begun: Callable[[], None]) -> None:
        """Open a ``subscriptions/listen`` stream and read it until it ends."""
        stream = self._streams[changes] = _Stream()
        failure: MCPTrioError | None = None

        def sent(id: object) -> None:
            changes.id = id

        async def watch() -> None:
            nonlocal failure
            # The stream itself may stay open for days, so only the acknowledgement has a deadline.
            with trio.move_on_after(self._ack_timeout):
                await stream.acknowledged.wait()
                try:
                    begun()
                    return
                except MCPError as error:
                    failure = error
            stream.scope.cancel()

        try:
            with stream.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch)
                    params = ListenParams(notifications=changes.wanted)
                    try:
                        await session.open_stream("subscriptions/listen", params, sent)
                    except MCPTrioError as error:
                        failure = error
                    nursery.cancel_scope.cancel()
        finally:
            del self._streams[changes]
        if failure is not None:
            raise failure


def _changes_without_stream(wanted: SubscriptionFilter, capabilities: ServerCapabilities) -> SubscriptionFilter:
    """Return the changes that a server reports without a stream, according to its capabilities."""
    tools, prompts, resources = capabilities.tools, capabilities.prompts, capabilities.resources
    return SubscriptionFilter(
        tools_list_changed=wanted.tools_list_changed and tools is not None and tools.list_changed,
        prompts_list_changed=wanted.prompts_list_changed and prompts is not None and prompts.list_changed,
        resources_list_changed=wanted.resources_list_changed and resources is not None and resources.list_changed,
        resource_subscriptions=wanted.resource_subscriptions if resources is not None and resources.subscribe else (),
    )
