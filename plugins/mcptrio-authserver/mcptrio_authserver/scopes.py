"""What a token is good for: what was asked for, as far as it is offered and allowed.

The one rule: what is not offered is left out, and the answer says what was granted; where nothing is left, that is an
error.

Source: RFC 6749 section 3.3; RFC 6749 section 6 (refresh).
"""

from __future__ import annotations

from collections.abc import Iterable

from .config import Config
from .refusals import Refusal

__all__ = ["granted_scopes", "narrowed_scopes"]


def granted_scopes(config: Config, asked: str | None, *allowed: Iterable[str] | None) -> tuple[str, ...]:
    """
    Args:
        asked: ``scope`` of a request; ``None`` for all there are.
        allowed: bounds, e.g. the client's; ``None`` is none.

    Raises:
        Refusal: ``invalid_scope``.
    """
    wanted = list(dict.fromkeys(asked.split())) if asked is not None else list(config.scopes)
    granted = [scope for scope in wanted if scope in config.scopes]
    for bound in allowed:
        if bound is not None:
            granted = [scope for scope in granted if scope in {*bound}]
    if wanted and not granted and config.scopes:
        offered = " ".join(config.scopes)
        raise Refusal("invalid_scope", f"scope: expected of {offered}, as far as this client and user may have them")
    return tuple(granted)


def narrowed_scopes(asked: str | None, granted: Iterable[str]) -> tuple[str, ...]:
    """Those of a refreshed token: all that were granted, or fewer.

    Raises:
        Refusal: ``invalid_scope``: it asks for more.
    """
    held = tuple(granted)
    if asked is None:
        return held
    wanted = tuple(dict.fromkeys(asked.split()))
    if not {*wanted} <= {*held}:
        raise Refusal("invalid_scope", "scope: expected no more than was granted")
    return wanted or held
