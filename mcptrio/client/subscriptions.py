"""Changes a server tells of, as something to iterate over.

Given out by the client; one API over ``resources/subscribe`` with unasked notifications, and ``subscriptions/listen``.
The one rule: between the beginning and the end of a subscription no change goes unnoticed: where messages may have been
lost, because the connection was, everything subscribed to counts as changed.

Source: MCP 2025-11-25, server/resources, "Subscriptions"; MCP 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, TypeAlias

import trio
from attrs import frozen

from mcptrio.protocol.model.subscriptions import SubscriptionFilter

__all__ = ["Change", "Changes", "Kind"]

Kind: TypeAlias = Literal["tools", "prompts", "resources", "resource"]

_WAITING = 1000
"""Different changes that wait to be read; of more, the oldest is dropped and its list counts as changed."""

_NOTIFICATIONS: dict[str, Kind] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
    "notifications/resources/updated": "resource",
}


@frozen
class Change:
    """A list has changed, or a resource has.

    Args:
        kind: ``tools``, ``prompts`` or ``resources`` for a list; ``resource`` for the contents of one.
        uri: of the resource; it may lie below the one subscribed to.
    """

    kind: Kind
    uri: str | None = None


class Changes:
    """``async for change in changes``; ends when the connection does. Made by ``Client.subscribe``.

    A change that is told again before it has been read is read once.
    """

    def __init__(self, wanted: SubscriptionFilter) -> None:
        self.wanted = wanted
        self.honoured: SubscriptionFilter | None = None
        """What the server tells of; ``None`` until it has said so. In handshake revisions what is wanted."""
        self.id: object = None
        """Of the request that stays open, where there is one."""
        self._waiting: dict[Change, None] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self._ended: BaseException | None = None

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        """
        Raises:
            ConnectionClosed: the connection ended, and everything has been read.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._waiting:
            if self._ended is not None:
                raise self._ended
            await self._lot.park()
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change

    # For the client

    def take(self, method: str, uri: str | None) -> None:
        """A notification has come."""
        kind = _NOTIFICATIONS.get(method)
        if kind is not None and self._wants(kind, uri):
            self._put(Change(kind, uri))

    def take_all(self) -> None:
        """Anything may have changed."""
        wanted = self.wanted
        for kind, is_wanted in (
            ("tools", wanted.tools_list_changed),
            ("prompts", wanted.prompts_list_changed),
            ("resources", wanted.resources_list_changed),
        ):
            if is_wanted:
                self._put(Change(kind))  # type: ignore[arg-type]
        for uri in wanted.resource_subscriptions:
            self._put(Change("resource", uri))

    def end(self, error: BaseException) -> None:
        """Nothing more will come."""
        if self._ended is None:
            self._ended = error
            self._lot.unpark_all()

    # Private

    def _wants(self, kind: Kind, uri: str | None) -> bool:
        wanted = self.wanted
        if kind == "resource":
            return uri is not None and any(
                uri == each or uri.startswith(each.rstrip("/") + "/") for each in wanted.resource_subscriptions
            )
        return bool(getattr(wanted, f"{kind}_list_changed"))

    def _put(self, change: Change) -> None:
        if change not in self._waiting and len(self._waiting) >= _WAITING:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            change = Change("resources")
        self._waiting[change] = None
        self._lot.unpark()
