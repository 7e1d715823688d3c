"""Changes that a server reports, as an async iterator.

The Subscriber fills a Changes object, in the same way for ``resources/subscribe`` (handshake revisions) and
``subscriptions/listen`` (2026-07-28). No change is missed: after a gap, each watched list and resource is reported as
changed.

Source: MCP 2025-11-25, server/resources, "Subscriptions"; MCP 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, TypeAlias

import trio
from attrs import frozen

from mcptrio.protocol.model.resources import ResourceUpdatedParams
from mcptrio.protocol.model.subscriptions import SubscriptionFilter

__all__ = ["Change", "ChangeKind", "Changes"]

ChangeKind: TypeAlias = Literal["tools", "prompts", "resources", "resource"]
"""The kind of a change: one of the lists, or the contents of one resource (``resource``)."""

MAX_UNREAD_CHANGES = 1000
"""Distinct unread changes. After one more, each watched list and resource is reported as changed."""

_KINDS: dict[str, ChangeKind] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
    "notifications/resources/updated": "resource",
}

_LISTS: tuple[ChangeKind, ...] = ("tools", "prompts", "resources")


@frozen
class Change:
    """A changed list, or a changed resource.

    Args:
        kind: ``tools``, ``prompts`` or ``resources`` for a list; ``resource`` for the contents of one resource.
        uri: The resource, which may be below the subscribed URI.
    """

    kind: ChangeKind
    uri: str | None = None

    @classmethod
    def of(cls, method: str, params: Any) -> Change | None:
        """Return the change that a notification reports, or ``None`` if it reports none."""
        kind = _KINDS.get(method)
        if kind is None:
            return None
        return cls(kind, params.uri if isinstance(params, ResourceUpdatedParams) else None)

    def concerns(self, uri: str) -> bool:
        """Return whether this change is about the resource ``uri`` or one below it."""
        return self.uri is not None and (self.uri == uri or self.uri.startswith(uri.rstrip("/") + "/"))


class Changes:
    """The changes of one subscription: ``async for change in changes``. Made by ``Client.subscribe``.

    A change that the server reports twice before it is read is returned once. The iteration ends with
    ConnectionClosed when the client's connection ends for good.
    """

    def __init__(self, wanted: SubscriptionFilter) -> None:
        self.wanted = wanted
        self.honoured: SubscriptionFilter | None = None
        """The changes that the server reports; ``None`` until it has confirmed them."""
        self.id: object = None
        """Id of the ``subscriptions/listen`` request; ``None`` in revisions without it."""
        self._waiting: dict[Change, None] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self._ended: BaseException | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The wanted changes that the server does not report: ``tools``, ``prompts``, ``resources``, or URIs."""
        wanted, honoured = self.wanted, self.honoured or SubscriptionFilter()
        lists = (kind for kind in _LISTS if _has_kind(wanted, kind) and not _has_kind(honoured, kind))
        return *lists, *(uri for uri in wanted.resource_subscriptions if uri not in honoured.resource_subscriptions)

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        """Return the next change.

        Raises:
            ConnectionClosed: The connection has ended, and all changes were read.
        """
        # Not a full checkpoint, so that a queued change is returned without giving other tasks a turn.
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._waiting:
            if self._ended is not None:
                raise self._ended
            await self._lot.park()
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change

    # For the client

    def take(self, change: Change) -> None:
        """Queue a reported change, if it is wanted."""
        if change.kind == "resource":
            is_wanted = any(change.concerns(uri) for uri in self.wanted.resource_subscriptions)
        else:
            is_wanted = _has_kind(self.wanted, change.kind)
        if not is_wanted:
            return
        if change not in self._waiting and len(self._waiting) >= MAX_UNREAD_CHANGES:
            self.take_all()
        else:
            self._waiting[change] = None
            self._lot.unpark_all()

    def take_all(self) -> None:
        """Queue every wanted change, because reports may have been lost."""
        self._waiting = dict.fromkeys(self.everything())
        self._lot.unpark_all()

    def everything(self) -> Iterator[Change]:
        """Return every wanted change."""
        yield from (Change(kind) for kind in _LISTS if _has_kind(self.wanted, kind))
        yield from (Change("resource", uri) for uri in self.wanted.resource_subscriptions)

    def end(self, error: BaseException) -> None:
        """End the iteration with ``error`` after the queued changes."""
        if self._ended is None:
            self._ended = error
            self._lot.unpark_all()

    @property
    def reports_nothing(self) -> bool:
        """True if changes are wanted and the server reports none of them."""
        return self.wanted != SubscriptionFilter() and self.honoured in (None, SubscriptionFilter())


def _has_kind(filter: SubscriptionFilter, kind: ChangeKind) -> bool:
    return bool(getattr(filter, f"{kind}_list_changed"))
