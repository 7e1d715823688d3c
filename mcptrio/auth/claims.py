"""Checks of a signed token's claims: audience, expiry and validity times.

The resource server checks access tokens with it, authorization servers check assertions. The caller has verified the
signature.

Source: RFC 7519 section 4.1; RFC 7523 section 3; RFC 8725 section 3.9.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from mcptrio.auth.jose import BadToken, ExpiredToken

__all__ = ["EXPIRED", "check_claims"]

EXPIRED: Final = "the access token has expired: get a new one"
"""The message to the sender of a genuine token that has expired."""


def check_claims(
    claims: Mapping[str, Any],
    *,
    audience: Collection[str],
    now: float,
    skew: float,
    expires: bool = True,
    max_lifetime: float = math.inf,
    sole_audience: bool = False,
) -> None:
    """Check that a token is meant for this server and valid now.

    Args:
        claims: The payload of a token with a valid signature.
        audience: The names of this server; the token has to name one of them. If empty, any audience is accepted.
        now: Seconds since 1970.
        skew: Seconds by which the issuer's clock may differ.
        expires: True if the token must have an ``exp`` claim.
        max_lifetime: The longest remaining lifetime in seconds.
        sole_audience: True if the token may name no other audience.

    Raises:
        BadToken: The token is for another audience or not valid yet, lives too long, or a claim has the wrong type.
        ExpiredToken: The token has expired.
    """
    # RFC 7519 section 4.1.3: a string or a list. A token for another server must fail even if its signature is valid.
    if audience:
        aud = claims.get("aud")
        named = aud if isinstance(aud, list) else [aud]
        fits = any(isinstance(each, str) and each in audience for each in named)
        if not fits or (sole_audience and len(named) != 1):
            only = " alone" if sole_audience else ""
            raise BadToken(f"aud: expected {' or '.join(sorted(audience))}{only}, got {str(aud)[:200]!r}")
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if value is None and not (name == "exp" and expires):
            continue
        # bool is a subclass of int. A NaN would make every comparison below false, so the token would pass.
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise BadToken(f"{name}: expected seconds since 1970, got {type(value).__name__}")
        if name == "exp" and value + skew <= now:
            raise ExpiredToken("exp: the token has expired")
        if name == "exp" and value - skew > now + max_lifetime:
            raise BadToken(
                f"exp: expected a time within {max_lifetime:g} seconds, got {value - now:g} seconds from now"
            )
        if name != "exp" and value - skew > now:
            raise BadToken(f"{name}: the token is not valid yet; compare the clocks of the issuer and the server")
