"""Whether the claims of a signed token are meant for here and now.

Called by everything that judges tokens: the resource server for access tokens, an authorization server for assertions.
The one rule: a token whose signature is good may still be for another audience, or for another time.

Source: RFC 7519 section 4.1; RFC 7523 section 3; RFC 8725 section 3.9.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from mcptrio.auth.jose import BadToken, ExpiredToken

__all__ = ["EXPIRED", "check_claims"]

EXPIRED: Final = "the access token has expired: get a new one"
"""For the sender of a token that is genuine otherwise."""


def check_claims(
    claims: Mapping[str, Any],
    *,
    audience: Collection[str],
    now: float,
    skew: float,
    expires: bool = True,
    within: float = math.inf,
    alone: bool = False,
) -> None:
    """
    Args:
        audience: the names of this server, any of which the token has to name; empty for any token.
        now: seconds since 1970.
        skew: seconds that the clock of the issuer may differ.
        expires: whether the token has to expire.
        within: seconds after which it has to have expired.
        alone: whether the token may name no other audience.

    Raises:
        BadToken: the token is for another audience or another time, or does not say so as it should.
    """
    if audience:
        aud = claims.get("aud")
        named = aud if isinstance(aud, list) else [aud]
        fits = any(isinstance(each, str) and each in audience for each in named)
        if not fits or (alone and len(named) != 1):
            only = " alone" if alone else ""
            raise BadToken(f"aud: expected {' or '.join(sorted(audience))}{only}, got {str(aud)[:200]!r}")
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if value is None and not (name == "exp" and expires):
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise BadToken(f"{name}: expected seconds since 1970")
        if name == "exp" and value + skew <= now:
            raise ExpiredToken("it has expired")
        if name == "exp" and value - skew > now + within:
            raise BadToken(f"exp: expected it to expire within {within:g} seconds")
        if name != "exp" and value - skew > now:
            raise BadToken(f"{name}: it is not good yet")
