"""The credentials of a request, and the error for credentials that are rejected.

:mod:`mcptrio.auth.server.resource_server` uses them. A request has one token in one header, or none; anything ambiguous
is rejected.

Source: RFC 6750 sections 2 and 3.1; RFC 9110 sections 11.4 and 11.6.2; RFC 9449 section 7.1; RFC 7800 (``cnf``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from mcptrio.abc import Principal, RequestHead

__all__ = ["SCHEMES", "CredentialsRefused", "binding_of", "credentials_in", "invalid_token", "scheme_of"]

SCHEMES: Final[Mapping[str, str]] = {"bearer": "Bearer", "dpop": "DPoP"}
"""The schemes that carry a token, by name in lower case, with their usual spelling."""

# A scheme and a token68 (RFC 9110 section 11.4); other forms carry no token.
_CREDENTIALS: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)(?: +([A-Za-z0-9._~+/-]+=*))?")
# Query parameters that may contain a token, in lower case.
_IN_QUERY: Final = frozenset({"access_token", "authorization", "token"})
# A SHA-256 in base64url: of a key (RFC 9449 section 6.1), of a certificate (RFC 8705 section 3.1).
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_BINDINGS: Final = frozenset({"jkt", "x5t#S256"})


class CredentialsRefused(Exception):
    """A request was not authenticated. The resource server makes the HTTP response from it.

    Args:
        reason: The reason, for the client and the log.
        error: The code for the challenge (RFC 6750 section 3.1); ``None`` if the request had no credentials.
        scope: The scopes to request; by default those that every request needs.
        scheme: The scheme that the error concerns, in its usual spelling.
        counts: True if it counts as a failed authentication of the address.
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


def invalid_token(reason: str, scheme: str | None = None) -> CredentialsRefused:
    """Return the error for a token that is not accepted, sent with this scheme in its usual spelling."""
    return CredentialsRefused(reason, error="invalid_token", counts=True, scheme=scheme)


def credentials_in(request: RequestHead) -> tuple[str, str]:
    """Return the scheme in lower case and the token; both empty if the request has none.

    Raises:
        CredentialsRefused: The request has several ``Authorization`` headers, a malformed one, or a token in its URL.
    """
    # MCP, basic/authorization, "Token Requirements": access tokens must not be in the query, which logs and caches
    # record.
    if not _IN_QUERY.isdisjoint(name.lower() for name, _ in _query(request.query)):
        raise _malformed_request(
            "expected the access token in the header Authorization, got one in the URL, where logs keep it"
        )
    values = request.headers.get("authorization", ())
    if not values:
        return "", ""
    # A proxy and this server might each use another of the values.
    if len(values) > 1:
        raise _malformed_request("expected one header Authorization, got several")
    text = values[0].strip(" \t")
    match = _CREDENTIALS.fullmatch(text)
    scheme = match[1].lower() if match else text.partition(" ")[0].lower()
    if scheme in SCHEMES and match is not None and match[2] is None:
        raise _malformed_request(
            f"expected a token after {SCHEMES[scheme]} in the header Authorization, got nothing", SCHEMES[scheme]
        )
    if scheme in SCHEMES and match is None:
        raise _malformed_request("expected a scheme, a space and a token in the header Authorization", SCHEMES[scheme])
    if match is None and "\t" in text:
        raise _malformed_request("expected a space after the scheme in the header Authorization")
    return scheme, (match[2] or "") if match else ""


def scheme_of(request: RequestHead) -> str | None:
    """Return the scheme of an authenticated request in its usual spelling; ``None`` if it has no token."""
    values = request.headers.get("authorization", ())
    return SCHEMES.get(values[0].strip(" \t").partition(" ")[0].lower()) if values else None


def binding_of(principal: Principal) -> Mapping[str, str]:
    """Return the thumbprints to which a token is bound, by kind; empty if it is not bound.

    Raises:
        CredentialsRefused: The token is bound in a way that cannot be checked.
    """
    bound = principal.claims.get("cnf")
    if bound is None:
        return {}
    # An unknown binding must be rejected: ignoring it would accept a stolen token.
    is_known = isinstance(bound, Mapping) and len(bound) > 0 and set(bound) <= _BINDINGS
    if not is_known or not all(isinstance(each, str) and _THUMBPRINT.fullmatch(each) for each in bound.values()):
        raise invalid_token("the access token is bound by an unknown method (cnf)")
    known: Mapping[str, str] = bound
    return known


def _malformed_request(problem: str, scheme: str | None = None) -> CredentialsRefused:
    return CredentialsRefused(problem, status=400, error="invalid_request", counts=True, scheme=scheme)


def _query(query: str) -> Sequence[tuple[str, str]]:
    if not query:
        return ()
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        # No client needs so many parameters, and the unread ones could contain a token: refuse the query as if it did.
        return [("access_token", "")]
