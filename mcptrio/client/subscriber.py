"""Keeps a client's subscriptions: asks for them, hands out what comes, asks again where a connection was lost.

Owned by the client. In handshake revisions a resource is subscribed to once, however many subscriptions want it, and
lists are told of unasked; otherwise each subscription has a request of its own that stays open.
The one rule: a subscription ends when its owner leaves it, or when the server will tell no more; a broken connection is
neither.

Source: MCP 2025-11-25, server/resources, "Subscriptions"; MCP 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from mcptrio.client.session import ClientSession
from mcptrio.client.subscriptions import Changes
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.errors import ConnectionClosed, MCPError, MCPTrioError, RequestFailed, RequestTimeout
from mcptrio.nurseries import open_hidden_nursery
from mcptrio.protocol.model.resources import ResourceUpdatedParams, SubscribeParams, UnsubscribeParams
from mcptrio.protocol.model.subscriptions import AcknowledgedParams, ListenParams, SubscriptionFilter
from mcptrio.protocol.revisions.revision import Changes as ChangesTrait

__all__ = ["Subscriber"]

_log = logging.getLogger("mcptrio.client.subscriber")

FIRST = 0.5
LONGEST = 30.0
"""Seconds before a stream that has ended is opened again: doubled from the first to the longest; one that lived for
that long starts anew."""
GOODBYE = 1.0
"""Seconds for unsubscribing."""


class Subscriber:
    """
    Args:
        send: sends a request and gives its result.
        patience: seconds a server has to acknowledge a stream.
    """

    def __init__(
        self, supervisor: ClientSupervisor, send: Callable[[str, Any], Awaitable[Any]], *, name: str, patience: float
    ) -> None:
        self._supervisor = supervisor
        self._send = send
        self._name = name
        self._patience = patience
        self._subscriptions: list[Changes] = []
        self._uris: Counter[str] = Counter()
        """Resources subscribed to on the session, and by how many subscriptions."""
        self._acknowledged: dict[Changes, trio.Event] = {}
        self._listening: dict[Changes, trio.CancelScope] = {}

    @asynccontextmanager
    async def open(self, wanted: SubscriptionFilter) -> AsyncIterator[Changes]:
        """Subscribe for as long as the context lasts.

        Raises:
            MCPError: the server does not tell of this.
        """
        changes = Changes(wanted)
        session = await self._supervisor.current()
        self._subscriptions.append(changes)
        try:
            if session.revision.changes is ChangesTrait.LISTEN_STREAM:
                async with open_hidden_nursery() as nursery:
                    failure = await nursery.start(self._listen, changes)
                    if failure is not None:
                        raise failure
                    yield changes
            else:
                async with self._subscribed(wanted.resource_subscriptions):
                    changes.honoured = wanted
                    yield changes
        finally:
            self._subscriptions.remove(changes)

    def hear(self, method: str, params: Any, id: object) -> None:
        """A notification has come.

        Args:
            id: of the stream it belongs to, or ``None``.
        """
        concerned = [changes for changes in self._subscriptions if id is None or changes.id == id]
        for changes in concerned:
            if isinstance(params, AcknowledgedParams):
                changes.honoured = params.notifications
                if changes in self._acknowledged:
                    self._acknowledged[changes].set()
            else:
                changes.take(method, params.uri if isinstance(params, ResourceUpdatedParams) else None)

    def ended_by_server(self, id: object) -> None:
        """The server has cancelled a stream."""
        for changes, scope in self._listening.items():
            if changes.id == id:
                scope.cancel()

    async def ask_again(self, session: ClientSession) -> None:
        """There is a new session in the place of one that was lost."""
        for uri in list(self._uris):
            try:
                await session.request("resources/subscribe", SubscribeParams(uri=uri))
            except (MCPError, RequestTimeout, RequestFailed) as error:
                _log.warning("%s: no longer subscribed to %s: %s", self._name, uri, error)
        for changes in self._subscriptions:
            changes.take_all()

    def end(self) -> None:
        """There will be no session any more."""
        for changes in self._subscriptions:
            changes.end(ConnectionClosed(f"{self._name}: the connection ended"))

    # On the session

    @asynccontextmanager
    async def _subscribed(self, uris: Sequence[str]) -> AsyncIterator[None]:
        taken: list[str] = []
        try:
            for uri in uris:
                if not self._uris[uri]:
                    await self._send("resources/subscribe", SubscribeParams(uri=uri))
                self._uris[uri] += 1
                taken.append(uri)
            yield
        finally:
            self._uris.subtract(taken)
            unused = [uri for uri in taken if not self._uris[uri]]
            for uri in unused:
                del self._uris[uri]
            with trio.move_on_after(GOODBYE, shield=True):
                for uri in unused:
                    await self._unsubscribe(uri)

    async def _unsubscribe(self, uri: str) -> None:
        if not self._supervisor.is_over:
            try:
                await self._send("resources/unsubscribe", UnsubscribeParams(uri=uri))
            except MCPTrioError as error:
                _log.debug("%s: %s is still subscribed to: %s", self._name, uri, error)

    # On a stream

    async def _listen(self, changes: Changes, *, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        """Keep a stream open; started when the server has acknowledged it, or with why it does not."""
        waiting: trio.TaskStatus[MCPTrioError | None] | None = task_status
        pause = FIRST
        while True:
            opened = trio.current_time()
            failure: MCPTrioError | None = None
            try:
                await self._listen_once(await self._supervisor.current(), changes, waiting)
            except MCPTrioError as error:
                failure = error
            if waiting is not None and changes.honoured is None:
                waiting.started(failure or ConnectionClosed(f"{self._name}: no changes are told"))
                return
            waiting = None
            if failure is not None and (isinstance(failure, MCPError) or self._supervisor.is_over):
                changes.end(failure)
                return
            if trio.current_time() - opened > LONGEST:
                pause = FIRST
            _log.info("%s: the stream of changes ended; opening it again in %g s", self._name, pause)
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST)

    async def _listen_once(
        self, session: ClientSession, changes: Changes, waiting: trio.TaskStatus[MCPTrioError | None] | None
    ) -> None:
        acknowledged = self._acknowledged[changes] = trio.Event()
        failure: MCPTrioError | None = None

        def begun(id: object) -> None:
            changes.id = id

        async def watch(scope: trio.CancelScope) -> None:
            with trio.move_on_after(self._patience):
                await acknowledged.wait()
                if waiting is not None:
                    waiting.started(None)
                else:
                    changes.take_all()
                return
            scope.cancel()

        try:
            async with trio.open_nursery() as nursery:
                self._listening[changes] = nursery.cancel_scope
                nursery.start_soon(watch, nursery.cancel_scope)
                try:
                    await session.open_stream("subscriptions/listen", ListenParams(notifications=changes.wanted), begun)
                except MCPTrioError as error:
                    failure = error
                nursery.cancel_scope.cancel()
        finally:
            del self._acknowledged[changes]
            del self._listening[changes]
        if failure is not None:
            raise failure
