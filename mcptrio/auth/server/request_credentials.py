"""What a request shows of who sends it, and why it is refused where that is not right.

Used by :mod:`mcptrio.auth.server.resource_server`.
The one rule: there is one token in one field, or none. What could be read in two ways is refused, and not read.

Source: RFC 6750 sections 2 and 3.1; RFC 9110 sections 11.4 and 11.6.2; RFC 9449 section 7.1; RFC 7800 (``cnf``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from mcptrio.abc import Principal, RequestHead

__all__ = ["SCHEMES", "CredentialsRefused", "binding_of", "credentials_in", "scheme_of"]

SCHEMES: Final[Mapping[str, str]] = {"bearer": "Bearer", "dpop": "DPoP"}
"""Those that carry a token, in lower case, and as they are written."""

_CREDENTIALS: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)(?: +([A-Za-z0-9._~+/-]+=*))?")
"""Scheme and token68; what follows in any other way is nothing we can read."""
_IN_QUERY: Final = frozenset({"access_token", "authorization", "token"})
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""SHA-256 in base64url: of a key (RFC 9449 section 6.1), of a certificate (RFC 8705 section 3.1)."""
_BINDINGS: Final = frozenset({"jkt", "x5t#S256"})


class CredentialsRefused(Exception):
    """Why a request is not let in, before it is put into words for HTTP.

    Args:
        error: for the challenge (RFC 6750 section 3.1); ``None`` where no credentials came.
        scope: to ask for; by default what everybody needs.
        scheme: that the error is about, as it is written.
        counts: whether it is a failure of the address.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int = 401,
        error: str | None = None,
        scope: str = "",
        scheme: str | None = None,
        counts: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.error = error
        self.scope = scope
        self.scheme = scheme
        self.counts = counts


def credentials_in(request: RequestHead) -> tuple[str, str]:
    """The scheme, in lower case, and the token; both empty where there are none.

    Raises:
        Refused: there is more than one, a token in the URL, or something malformed.
    """
    if not _IN_QUERY.isdisjoint(name.lower() for name, _ in _query(request.query)):
        raise _malformed(
            "expected the access token in the header Authorization, got one in the URL, where logs keep it"
        )
    values = request.headers.get("authorization", ())
    if not values:
        return "", ""
    if len(values) > 1:
        raise _malformed("expected one field Authorization, got several")
    text = values[0].strip(" \t")
    found = _CREDENTIALS.fullmatch(text)
    scheme = found[1].lower() if found else text.partition(" ")[0].lower()
    if scheme in SCHEMES and found is not None and found[2] is None:
        raise _malformed(
            f"expected a token after {SCHEMES[scheme]} in the field Authorization, got nothing", SCHEMES[scheme]
        )
    if scheme in SCHEMES and found is None:
        raise _malformed("expected a scheme, a blank and a token in the field Authorization", SCHEMES[scheme])
    if found is None and "\t" in text:
        raise _malformed("expected a blank after the scheme in the field Authorization")
    return scheme, (found[2] or "") if found else ""


def scheme_of(request: RequestHead) -> str | None:
    """The scheme of a request that was let in, as it is written; ``None`` where it has none of ours."""
    values = request.headers.get("authorization", ())
    return SCHEMES.get(values[0].strip(" \t").partition(" ")[0].lower()) if values else None


def binding_of(principal: Principal) -> Mapping[str, str]:
    """What the token is bound to: by kind the thumbprint; empty where to nothing.

    Raises:
        Refused: in a way that cannot be checked here.
    """
    bound = principal.claims.get("cnf")
    if bound is None:
        return {}
    is_known = isinstance(bound, Mapping) and len(bound) > 0 and set(bound) <= _BINDINGS
    if not is_known or not all(isinstance(each, str) and _THUMBPRINT.fullmatch(each) for each in bound.values()):
        raise CredentialsRefused(
            "the access token is bound in a way that is not known here", error="invalid_token", counts=True
        )
    known: Mapping[str, str] = bound
    return known


def _malformed(problem: str, scheme: str | None = None) -> CredentialsRefused:
    return CredentialsRefused(problem, status=400, error="invalid_request", counts=True, scheme=scheme)


def _query(query: str) -> Sequence[tuple[str, str]]:
    if not query:
        return ()
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        # Nobody needs that many; what is in them is not known.
        return [("access_token", "")]
