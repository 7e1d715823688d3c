"""Discovery of the authorization server that issues tokens for an MCP server.

:mod:`mcptrio.auth.client.oauth` and the other grants run it after a server rejected a request. Resource metadata must
name the server, and authorization server metadata must name the exact issuer; other documents are rejected.

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

# Further authorization servers of a resource are ignored.
_MAX_ISSUERS: Final = 20
_ACCEPT: Final = {"accept": "application/json"}
# Only in 2025-03-26 can a server be its own authorization server. Clients send the revision when they request its
# metadata.
_ACCEPT_AT_ORIGIN: Final = {**_ACCEPT, "mcp-protocol-version": v2025_03_26.REVISION.version}


@frozen(kw_only=True)
class TokenSource:
    """The authorization server for a resource.

    Args:
        resource: The resource identifier, exactly as the server publishes it.
        metadata: Metadata of the resource; ``None`` if the server has none and is its own authorization server.
    """

    resource: str
    server: ServerMetadata
    metadata: ResourceMetadata | None = None

    @property
    def dpop_required(self) -> bool:
        return self.metadata is not None and self.metadata.dpop_bound_access_tokens_required


def discover(url: str, *, metadata_url: str | None = None, preferred: Sequence[str] = ()) -> Flow[TokenSource]:
    """Discover the authorization server of an MCP server.

    Args:
        url: The canonical URL of the server.
        metadata_url: The URL of the resource metadata in the server's challenge, if it has one.
        preferred: Issuers for which the client has credentials. The first that the server names is used, otherwise the
            first issuer of the server.

    Raises:
        AuthorizationError: No metadata exists, or a document is invalid.
        RequestFailed: A metadata server is unreachable.
    """
    metadata = yield from _discover_resource(url, metadata_url)
    if metadata is None:
        return TokenSource(resource=url, server=(yield from _discover_at_origin(url)))
    issuers = (metadata.authorization_servers or ())[:_MAX_ISSUERS]
    if not issuers:
        raise AuthorizationError(f"authorization_servers: expected at least one, got none for {shown(url)}")
    issuer = next((each for each in preferred if each in issuers), issuers[0])
    return TokenSource(resource=metadata.resource, server=(yield from discover_server(issuer)), metadata=metadata)


def discover_server(issuer: str) -> Flow[ServerMetadata]:
    """Return the metadata of an authorization server.

    Raises:
        AuthorizationError: No metadata exists, or it names another issuer.
        RequestFailed: The authorization server is unreachable.
    """
    check_url(issuer, "issuer", query=False)
    tried = []
    for where in server_metadata_urls(issuer):
        response = yield FetchRequest(url=where, headers=_ACCEPT)
        if response.status == 200:
            return _read_metadata(response, where, issuer)
        tried.append(f"{shown(where)} (HTTP {response.status})")
    raise AuthorizationError(f"expected metadata of the authorization server {shown(issuer)} at {', '.join(tried)}")


def _discover_resource(url: str, metadata_url: str | None) -> Flow[ResourceMetadata | None]:
    """Return the resource metadata of a server, or ``None`` if it publishes none."""
    places = list(resource_metadata_urls(url))
    if metadata_url is not None:
        places.insert(0, check_url(metadata_url, "resource_metadata"))
    failed: str | None = None
    for where in dict.fromkeys(places):
        response = yield FetchRequest(url=where, headers=_ACCEPT)
        if response.status == 200:
            metadata = ResourceMetadata.read(response.body, where)
            # RFC 9728 section 3.3: a document of another resource could direct the client to an attacker's
            # authorization server.
            if not covers(metadata.resource, url):
                there = at_host_of(url, metadata.resource)
                advice = f": connect to {shown(there)}" if there and covers(metadata.resource, there) else ""
                raise AuthorizationError(
                    f"resource: expected the server's own URL {shown(url)} or a parent of it, "
                    f"got {shown(metadata.resource)} at {shown(where)}{advice}"
                )
            return metadata
        # Only a 4xx at a guessed URL means that no metadata exists. After a 5xx, the fallback to 2025-03-26 would ask a
        # broken server for authorization endpoints that it does not have.
        if not 400 <= response.status < 500 or where == metadata_url:
            failed = failed or f"expected metadata of the resource, got HTTP {response.status} at {shown(where)}"
    if failed is not None:
        raise AuthorizationError(failed)
    return None


def _discover_at_origin(url: str) -> Flow[ServerMetadata]:
    """Return the metadata of a server that is its own authorization server, or the defaults of 2025-03-26."""
    issuer = check_url(origin(url), "url")
    for where in server_metadata_urls(issuer):
        try:
            response = yield FetchRequest(url=where, headers=_ACCEPT_AT_ORIGIN)
        except RequestFailed as failure:
            raise AuthorizationError(f"no metadata of {shown(url)}, and {failure}") from failure
        if response.status == 200:
            # The issuer is derived from the origin, and many servers write it with a trailing slash.
            return _read_metadata(response, where, issuer, f"{issuer}/")
    return ServerMetadata(
        issuer=issuer,
        # The fallback has no document that declares PKCE, but 2025-03-26 requires PKCE of every server.
        code_challenge_methods_supported=("S256",),
        authorization_endpoint=f"{issuer}/authorize",
        token_endpoint=f"{issuer}/token",
        registration_endpoint=f"{issuer}/register",
    )


def _read_metadata(response: FetchResponse, where: str, issuer: str, *spellings: str) -> ServerMetadata:
    """Read a metadata document, and check its issuer and endpoints.

    Args:
        spellings: Other accepted spellings of the issuer.
    """
    metadata = ServerMetadata.read(response.body, where)
    # RFC 8414 section 3.3: character by character; otherwise one issuer could impersonate another (mix-up attack).
    if metadata.issuer not in (issuer, *spellings):
        is_same_machine = at_host_of(issuer, metadata.issuer) is not None
        advice = ": both names are of this machine; configure both servers with the same one"
        raise AuthorizationError(
            f"issuer: expected {issuer[:200]!r}, got {metadata.issuer[:200]!r} at {shown(where)}"
            f"{advice if is_same_machine else ''}"
        )
    if not _is_loopback_url(issuer):
        for name, url in metadata.endpoints().items():
            # A remote document with a loopback endpoint would send the user's browser to any program that listens
            # there.
            if _is_loopback_url(url):
                raise AuthorizationError(
                    f"{name}: expected a URL that is not on the loopback interface, got {shown(url)} at {shown(where)}"
                )
    return metadata


def _is_loopback_url(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")
