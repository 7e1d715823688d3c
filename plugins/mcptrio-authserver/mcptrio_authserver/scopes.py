"""The scopes of tokens: those requested, limited to those offered and allowed.

Source: RFC 6749 section 3.3; RFC 6749 section 6 (refresh).
"""

from __future__ import annotations

from collections.abc import Iterable

from .config import Config
from .refusals import Refusal

__all__ = ["granted_scopes", "narrowed_scopes"]


def granted_scopes(config: Config, requested: str | None, *allowed: Iterable[str] | None) -> tuple[str, ...]:
    """Return the granted scopes; scopes that are not offered are left out.

    Args:
        requested: The ``scope`` parameter of the request; ``None`` for all offered scopes.
        allowed: Limits, for example those of the client and the user; ``None`` is no limit.

    Raises:
        Refusal: ``invalid_scope``: none of the requested scopes is granted.
    """
    candidates = list(dict.fromkeys(requested.split())) if requested is not None else list(config.scopes)
    granted = [scope for scope in candidates if scope in config.scopes]
    for bound in allowed:
        if bound is not None:
            granted = [scope for scope in granted if scope in {*bound}]
    if candidates and not granted and config.scopes:
        offered = " ".join(config.scopes)
        raise Refusal("invalid_scope", f"scope: expected some of {offered} that the client and the user are allowed")
    return tuple(granted)


def narrowed_scopes(requested: str | None, granted: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes of a refreshed token: all granted ones, or fewer if requested.

    Raises:
        Refusal: ``invalid_scope``: the request asks for more.
    """
    limit = tuple(granted)
    if requested is None:
        return limit
    scopes = tuple(dict.fromkeys(requested.split()))
    # RFC 6749 section 6: the refreshed scope must not exceed the granted one.
    if not {*scopes} <= {*limit}:
        raise Refusal("invalid_scope", "scope: expected only scopes of the grant")
    return scopes or limit
