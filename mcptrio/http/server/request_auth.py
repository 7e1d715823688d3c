"""The part of a request that a guard checks, and the response to a request that the guard refuses.

:mod:`mcptrio.http.server.app` uses this for every request to the endpoint. A token is accepted only in the header, and
it is neither stored nor repeated here.

Source: RFC 6750 sections 2.3 and 3; RFC 9728 section 3; ASGI 3.0, TLS extension.
"""

from __future__ import annotations

import ssl

from mcptrio.abc import Principal, RequestHead
from mcptrio.errors import AuthorizationError, InsufficientScope, InvalidRequest
from mcptrio.http.client_address import address_of
from mcptrio.http.headers import Headers
from mcptrio.http.server.asgi import Scope
from mcptrio.http.server.rules import HTTPRefusal
from mcptrio.protocol.messages import ErrorResponse

__all__ = ["is_same_principal", "refusal_of", "request_head"]


def request_head(scope: Scope, headers: Headers, *, is_outside_endpoint: bool = False) -> RequestHead:
    """Return the part of a request that precedes its body.

    Args:
        is_outside_endpoint: True if the path is not the endpoint.
    """
    chain = scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or ()
    scheme = "https" if scope.get("scheme") in ("https", "wss") else "http"
    return RequestHead(
        method=scope.get("method", "GET"),
        # DPoP proofs name the URL that the client used (RFC 9449 section 4.3), which Host and scheme give.
        url=f"{scheme}://{headers.get('host', '')}{scope['path']}",
        headers=headers.all_values(),
        query=scope.get("query_string", b"").decode("latin-1"),
        address=address_of(scope),
        is_outside_endpoint=is_outside_endpoint,
        # For tokens bound to a client certificate (RFC 8705 section 3): their hash is of the DER form.
        certificate=ssl.PEM_cert_to_DER_cert(chain[0]) if chain else None,
    )


def refusal_of(error: AuthorizationError, *, scopes: frozenset[str] = frozenset()) -> HTTPRefusal:
    """Return the response to a request that a guard has refused.

    Args:
        scopes: The scopes that the request needs, if the token lacks one of them.
    """
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in error.headers.items()]
    if error.challenge:
        headers.append((b"www-authenticate", error.challenge.encode("latin-1")))
    body = InsufficientScope(str(error), scopes=scopes) if scopes else InvalidRequest(str(error))
    return HTTPRefusal(error.status, ErrorResponse.of(None, body), tuple(headers))


def is_same_principal(one: Principal | None, other: Principal | None) -> bool:
    """Return whether both have the same identity: subject, issuer and client."""
    # Scopes are not compared: a client that has stepped up its token keeps its session.
    if one is None or other is None:
        return one is other
    return one.identity == other.identity
