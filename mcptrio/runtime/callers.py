"""Callers as strings, and the caller that the parent of an isolated plugin forwards.

Requests use it. The process of an isolated plugin gets the requests of all clients from its parent, which names the
caller in ``_meta``; this is trusted only on the pipe from the parent. A caller is not a credential: the principal
decides on access.

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
"""The caller of requests whose clients cannot be distinguished: anonymous ones over HTTP in 2026-07-28."""

CALLER: Final = "mcptrio/caller"
"""``params._meta`` key with the forwarded caller. Removed from requests of other clients before they are forwarded."""

PARENT: Final = Principal(subject="the parent of this process", issuer="mcptrio")
"""The principal of the parent's own requests. Lists show it every entry. It makes no calls."""

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
        is_from_parent: Whether this is a request of the parent itself, which reads lists.
    """

    principal: Principal | None = None
    caller: str = ANONYMOUS
    is_from_parent: bool = False


def caller_of_principal(principal: Principal) -> str:
    """Return the string for one issuer and subject, equal in all sessions and processes."""
    issuer = principal.issuer or ""
    # The issuer's length prevents that another pair of issuer and subject makes the same string.
    return "principal:" + _digest(f"{len(issuer)} {issuer} {principal.subject}")


def caller_of_session_id(id: str) -> str:
    """Return the string for a session or connection without a login. It does not reveal the id."""
    return f"session:{_digest(id)}"


def encode_caller(principal: Principal | None, caller: str) -> dict[str, Any]:
    """Encode a caller for ``_meta``, without its token and claims."""
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
        # Reading lists for all clients is the parent's own work; a call always has a caller.
        return ForwardedCaller(PARENT if method in _PARENT_METHODS else None, is_from_parent=True)
    if not isinstance(forwarded, dict) or not isinstance(forwarded.get("caller"), str):
        # Anonymous and not the parent: an invalid value must not give more rights than none.
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
