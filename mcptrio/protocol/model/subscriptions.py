"""Subscriptions: a request that stays open and receives changes (2026-07-28).

Every message of a subscription contains its id in ``_meta``.

Source: MCP 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

from mcptrio.protocol.model.base import Params, Result
from mcptrio.protocol.model.fields import field, model

__all__ = ["AcknowledgedParams", "ListenParams", "ListenResult", "SubscriptionFilter"]


@model
class SubscriptionFilter:
    """The changes that a client requests or a server accepts."""

    tools_list_changed: bool = field(default=False)
    prompts_list_changed: bool = field(default=False)
    resources_list_changed: bool = field(default=False)
    resource_subscriptions: tuple[str, ...] = field(default=())
    """URIs of resources."""
    task_ids: tuple[str, ...] = field(default=())
    """Ids of tasks of the extension ``io.modelcontextprotocol/tasks``."""


@model
class ListenParams(Params):
    """The parameters of ``subscriptions/listen``."""

    notifications: SubscriptionFilter = field()


@model
class ListenResult(Result):
    """The answer to ``subscriptions/listen``, sent when the subscription ends. Its id is in ``_meta``."""


@model
class AcknowledgedParams(Params):
    """The accepted part of a subscription, sent before the first change."""

    notifications: SubscriptionFilter = field()
