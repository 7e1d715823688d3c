"""The owners that exchanges of the HTTP endpoint count for, see :mod:`mcptrio.ground.shares`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from mcptrio.abc import Principal
from mcptrio.ground.networks import network_of
from mcptrio.http.client_address import address_of

__all__ = ["address_owner", "principal_owner"]


def address_owner(scope: MutableMapping[str, Any]) -> str | None:
    """The owner that an unauthenticated request counts for: its address, or its /64 network for IPv6.

    ``None`` where requests have no address, on a Unix socket.
    """
    address = address_of(scope)
    return None if address is None else network_of(address)


def principal_owner(principal: Principal) -> str:
    """The owner that an authenticated request counts for."""
    return repr(principal.identity)
