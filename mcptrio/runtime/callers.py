"""Identifies callers by strings, and reads the caller that the parent of an isolated plugin forwards.

Requests use it. The process of an isolated plugin receives the requests of all clients from its parent, which names the
caller of each in ``_meta``. The name is trusted only on the pipe from the parent. A caller string is not a credential:
access depends on the principal.

Source: MCP 2026-07-28, basic, "_meta".
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from attrs import frozen

from mcptrio.abc import Principal

__all__ = [
    "ANONYMOUS",
    "CALLER",
    "PARENT",
    "ForwardedCaller",
    "caller_of_principal",
    "caller_of_session_id",
    "decode_caller",
    "encode_caller",
]

ANONYMOUS: Final = "anonymous"
"""The caller of anonymous requests over HTTP in 2026-07-28, whose clients cannot be distinguished."""

CALLER: Final = "mcptrio/caller"
"""``params._meta`` key of the forwarded caller. The parent removes it from requests of clients."""

PARENT: Final = Principal(subject="the parent of this process", issuer="mcptrio")
"""The principal of the parent's own requests. It may list every entry, and makes no calls."""

# The methods that a parent calls for itself. A request with another method always has a caller.
_PARENT_METHODS: Final = frozenset(
    {
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/subscribe",
        "subscriptions/listen",
    }
)
_MAX_SCOPES = 1000


@frozen
class ForwardedCaller:
    """The caller that a parent process forwards.

    Args:
        principal: The caller's principal in the parent.
        caller: The caller's string in the parent.
        is_from_parent: Whether this is a request of the parent itself, without a caller.
    """

    principal: Principal | None = None
    caller: str = ANONYMOUS
    is_from_parent: bool = False


def caller_of_principal(principal: Principal) -> str:
    """Return the caller string of a principal. It is the same in all sessions and processes."""
    issuer = principal.issuer or ""
    # Without the issuer's length, two different pairs of issuer and subject could have the same text.
    return "principal:" + _digest(f"{len(issuer)} {issuer} {principal.subject}")


def caller_of_session_id(id: str) -> str:
    """Return the caller string of an anonymous session or connection. It does not reveal the id."""
    return f"session:{_digest(id)}"


def encode_caller(principal: Principal | None, caller: str) -> dict[str, Any]:
    """Return a caller as the value for ``_meta``, without the token and its claims."""
    forwarded: dict[str, Any] = {"caller": caller}
    if principal is not None:
        forwarded["principal"] = {
            "subject": principal.subject,
            "issuer": principal.issuer,
            "clientId": principal.client_id,
            "scopes": sorted(principal.scopes),
        }
    return forwarded


def decode_caller(method: str, meta: Mapping[str, Any] | None) -> ForwardedCaller:
    """Return the caller that :func:`encode_caller` has written.

    The caller is anonymous if the value is invalid, and the parent itself if it is missing.
    """
    forwarded = meta.get(CALLER) if meta else None
    if forwarded is None:
        return ForwardedCaller(PARENT if method in _PARENT_METHODS else None, is_from_parent=True)
    if not isinstance(forwarded, dict) or not isinstance(forwarded.get("caller"), str):
        # Anonymous, because an invalid value must not give the rights of the parent.
        return ForwardedCaller()
    principal = forwarded.get("principal")
    return ForwardedCaller(None if principal is None else _principal(principal), forwarded["caller"])


# Private


def _principal(data: Any) -> Principal | None:
    if not isinstance(data, dict) or not isinstance(data.get("subject"), str):
        return None
    issuer, client_id, scopes = data.get("issuer"), data.get("clientId"), data.get("scopes")
    if not isinstance(issuer, str | None) or not isinstance(client_id, str | None):
        return None
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes[:_MAX_SCOPES]):
        return None
    return Principal(
        subject=data["subject"], issuer=issuer, client_id=client_id, scopes=frozenset(scopes[:_MAX_SCOPES])
    )


def _digest(text: str) -> str:
    # Subjects and session ids may contain any characters, including surrogates.
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
