"""The URLs of the authorization server: issuer, endpoints, and paths to serve.

Source: RFC 8414 sections 2, 3 and 5; MCP 2026-07-28, basic/authorization/authorization-server-discovery; MCP
2025-03-26, basic/authorization, "Fallbacks for Servers without Metadata Discovery".
"""

from __future__ import annotations

from typing import Final, Self
from urllib.parse import urlsplit

from attrs import frozen

from mcptrio.auth.urls import canonical, check_url, is_loopback, origin
from mcptrio.errors import AuthorizationError

__all__ = ["ENDPOINTS", "PAGES", "Addresses"]

PAGES: Final = ("authorize", "login", "consent", "upstream", "logout", "grants")
"""The endpoints that users see."""
ENDPOINTS: Final = (*PAGES, "token", "register", "introspect", "revoke", "jwks")
"""All endpoints. If the issuer has no path, clients of 2025-03-26 find them without metadata."""

_WELL_KNOWN: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


@frozen(kw_only=True)
class Addresses:
    """The URLs of one issuer. Made by :meth:`of`."""

    issuer: str
    origin: str
    """Scheme, host and port of the issuer."""
    prefix: str
    """The path of the issuer without a trailing slash; empty for none."""
    is_https: bool

    @classmethod
    def of(cls, issuer: str) -> Self:
        """Return the URLs of an issuer.

        Raises:
            ValueError: The URL is not an issuer: https, or http on this machine, without query and fragment.
        """
        try:
            check_url(issuer, "issuer", query=False)
        except AuthorizationError as error:
            raise ValueError(str(error)) from None
        parts = urlsplit(issuer)
        if "?" in issuer or parts.path.endswith("/") or "//" in parts.path:
            raise ValueError(f"issuer: expected a URL without a query or a slash at its end, got {issuer!r}")
        if parts.path and not all(part and part not in (".", "..") for part in parts.path[1:].split("/")):
            raise ValueError(f"issuer: expected a plain path, got {issuer!r}")
        # The issuer unchanged: clients compare it character by character.
        return cls(
            issuer=issuer,
            origin=origin(canonical(issuer)),
            prefix=parts.path,
            is_https=parts.scheme == "https",
        )

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server."""
        return is_loopback(urlsplit(self.issuer).hostname or "")

    @property
    def default_resource(self) -> str:
        """The default audience of tokens: the MCP endpoint of the same host and port."""
        return f"{self.origin}/mcp"

    @property
    def documents(self) -> tuple[str, ...]:
        """The paths of the metadata."""
        inserted = tuple(f"{path}{self.prefix}" for path in _WELL_KNOWN)
        return (*inserted, f"{self.prefix}{_WELL_KNOWN[1]}") if self.prefix else inserted

    @property
    def routes(self) -> tuple[str, ...]:
        """The paths that the surrounding HTTP server passes to this one, with all paths below them."""
        below = (self.prefix,) if self.prefix else tuple(f"/{name}" for name in ENDPOINTS)
        return (*(path for path in self.documents if not self.prefix or not path.startswith(self.prefix)), *below)

    def path(self, endpoint: str) -> str:
        return f"{self.prefix}/{endpoint}"

    def url(self, endpoint: str) -> str:
        return f"{self.issuer}/{endpoint}"
