"""Where the tokens for a server come from.

Run by :mod:`mcptrio.auth.client.oauth` and the other grants after a server has refused a request.
The one rule: a document counts only where it belongs. A resource's has to name the server it is about, an authorization
server's the issuer it was looked for by, letter by letter; otherwise there is nothing to go on with, however good the
rest looks.

Source: MCP 2026-07-28, basic/authorization/authorization-server-discovery; RFC 9728 section 3.3; RFC 8414 section 3.3;
MCP 2025-03-26, basic/authorization, "Server Metadata Discovery" and "Fallbacks".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.flows import Flow
from mcptrio.auth.metadata import ResourceMetadata, ServerMetadata
from mcptrio.auth.urls import (
    at_host_of,
    check_url,
    covers,
    is_loopback,
    origin,
    resource_metadata_urls,
    server_metadata_urls,
    shown,
)
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.protocol.revisions import v2025_03_26

__all__ = ["TokenSource", "discover", "discover_server"]

_MAX_ISSUERS: Final = 20
"""Authorization servers of a resource that are looked at."""
_ACCEPT: Final = {"accept": "application/json"}
_OLD: Final = {**_ACCEPT, "mcp-protocol-version": v2025_03_26.REVISION.version}
"""Only the revision whose servers are their own authorization servers has such a header here."""


@frozen(kw_only=True)
class TokenSource:
    """Where the tokens for a server come from.

    Args:
        resource: what they are for, exactly as the server publishes it.
        server: whom to ask.
        metadata: of the resource; ``None`` where it has none and is its own authorization server.
    """

    resource: str
    server: ServerMetadata
    metadata: ResourceMetadata | None = None

    @property
    def dpop_required(self) -> bool:
        return self.metadata is not None and self.metadata.dpop_bound_access_tokens_required


def discover(url: str, *, metadata_url: str | None = None, preferred: Sequence[str] = ()) -> Flow[TokenSource]:
    """Find out where the tokens for a server come from.

    Args:
        url: the server's, canonical.
        metadata_url: what its challenge said about where its metadata is.
        preferred: issuers we have credentials of; the first that the server names is taken, otherwise its first.

    Raises:
        AuthorizationError: there is no document, or a wrong one.
        RequestFailed: nobody answers there.
    """
    metadata = yield from _discover_resource(url, metadata_url)
    if metadata is None:
        return TokenSource(resource=url, server=(yield from _discover_old(url)))
    issuers = (metadata.authorization_servers or ())[:_MAX_ISSUERS]
    if not issuers:
        raise AuthorizationError(f"authorization_servers: expected at least one, got none for {shown(url)}")
    issuer = next((each for each in preferred if each in issuers), issuers[0])
    return TokenSource(resource=metadata.resource, server=(yield from discover_server(issuer)), metadata=metadata)


def discover_server(issuer: str) -> Flow[ServerMetadata]:
    """The metadata of an authorization server.

    Raises:
        AuthorizationError: there is none, or it is not of this issuer.
        RequestFailed: nobody answers there.
    """
    check_url(issuer, "issuer", query=False)
    tried = []
    for where in server_metadata_urls(issuer):
        response = yield FetchRequest(url=where, headers=_ACCEPT)
        if response.status == 200:
            return _of_issuer(response, where, issuer)
        tried.append(f"{shown(where)} (HTTP {response.status})")
    raise AuthorizationError(f"expected metadata of the authorization server {shown(issuer)} at {', '.join(tried)}")


def _discover_resource(url: str, metadata_url: str | None) -> Flow[ResourceMetadata | None]:
    """The metadata of a server, ``None`` where it has none."""
    places = list(resource_metadata_urls(url))
    if metadata_url is not None:
        places.insert(0, check_url(metadata_url, "resource_metadata"))
    failed: str | None = None
    for where in dict.fromkeys(places):
        response = yield FetchRequest(url=where, headers=_ACCEPT)
        if response.status == 200:
            metadata = ResourceMetadata.read(response.body, where)
            if not covers(metadata.resource, url):
                there = at_host_of(url, metadata.resource)
                advice = f": connect to {shown(there)}" if there and covers(metadata.resource, there) else ""
                raise AuthorizationError(
                    f"resource: expected the server's own URL {shown(url)} or a parent of it, "
                    f"got {shown(metadata.resource)} @ {shown(where)}{advice}"
                )
            return metadata
        # That there is none only one says who says so: a server that is out of order has not become one of 2025.
        if not 400 <= response.status < 500 or where == metadata_url:
            failed = failed or f"expected metadata of the resource, got HTTP {response.status} @ {shown(where)}"
    if failed is not None:
        raise AuthorizationError(failed)
    return None


def _discover_old(url: str) -> Flow[ServerMetadata]:
    """The metadata of a server that is its own authorization server, or what stands for it."""
    issuer = check_url(origin(url), "url")
    for where in server_metadata_urls(issuer):
        try:
            response = yield FetchRequest(url=where, headers=_OLD)
        except RequestFailed as failure:
            raise AuthorizationError(f"no metadata of {shown(url)}, and {failure}") from failure
        if response.status == 200:
            # Nobody has named the issuer, we make it of the origin; and many write that with its slash.
            return _of_issuer(response, where, issuer, f"{issuer}/")
    return ServerMetadata(
        issuer=issuer,
        # Says nothing of PKCE, which that revision requires of all.
        code_challenge_methods_supported=("S256",),
        authorization_endpoint=f"{issuer}/authorize",
        token_endpoint=f"{issuer}/token",
        registration_endpoint=f"{issuer}/register",
    )


def _of_issuer(response: FetchResponse, where: str, issuer: str, *spelled: str) -> ServerMetadata:
    """
    Args:
        spelled: how else the same issuer may be written.
    """
    metadata = ServerMetadata.read(response.body, where)
    if metadata.issuer not in (issuer, *spelled):
        is_same_machine = at_host_of(issuer, metadata.issuer) is not None
        advice = ": both are this machine, so the two servers have to be configured with one spelling"
        raise AuthorizationError(
            f"issuer: expected {issuer[:200]!r}, by which it was looked for, "
            f"got {metadata.issuer[:200]!r} @ {shown(where)}{advice if is_same_machine else ''}"
        )
    if not _is_here(issuer):
        for name, url in metadata.endpoints().items():
            # A browser would be sent to whatever listens on the machine of the person.
            if _is_here(url):
                raise AuthorizationError(f"{name}: expected a URL elsewhere, got {shown(url)} @ {shown(where)}")
    return metadata


def _is_here(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")
