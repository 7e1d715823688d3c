"""The interface through which a user logs in at an authorization server and is redirected to the program.

:mod:`mcptrio.auth.client.oauth` uses it. :class:`mcptrio.auth.LoopbackRedirects` is for programs on the user's machine,
:class:`OwnRedirects` for others that can show a page, such as web applications.

Source: MCP 2026-07-28, basic/authorization/security-considerations, "Open Redirection"; RFC 8252 section 7.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from typing import Literal, Protocol
from urllib.parse import urlsplit

from attrs import field, frozen

from mcptrio.auth.urls import check_url, is_loopback

__all__ = ["OwnRedirects", "Redirect", "Redirects", "issuer_mark"]


def issuer_mark(issuer: str) -> str:
    """Return 16 characters that identify an authorization server in a redirect URI."""
    return sha256(issuer.encode()).hexdigest()[:16]


class Redirect(Protocol):
    """One login in progress, with its redirect URI."""

    @property
    def uri(self) -> str:
        """The redirect URI."""
        ...

    async def authorize(self, url: str) -> str:
        """Send the user to a URL and wait for the redirect.

        Returns:
            The whole URL to which the browser was redirected.

        Raises:
            AuthorizationError: No redirect arrived.
        """
        ...


class Redirects(Protocol):
    """How users are sent to an authorization server and redirected to the program."""

    @property
    def application_type(self) -> Literal["native", "web"]:
        """The application type for client registration."""
        ...

    def open(self, registered: Sequence[str], issuer: str | None) -> AbstractAsyncContextManager[Redirect]:
        """Open a redirect URI for one login.

        Args:
            registered: The redirect URIs already registered at the authorization server; one of them is used if
                possible.
            issuer: The authorization server. It gets its own redirect URI, so that a redirect from another server is
                not accepted as one from it (RFC 9700 section 4.4.2.2). ``None`` if the redirect URI was agreed on in
                advance.
        """
        ...


@frozen(kw_only=True)
class OwnRedirects:
    """Redirects that your program handles.

    Args:
        uri: The redirect URI: an https URL that you serve, or one that the system passes to you. ``{issuer}`` in it is
            replaced by 16 characters for the authorization server, so a redirect from another server is not accepted as
            its own.
        send: Sends the user to a URL, waits for the redirect, and returns the whole URL of the redirect. Called once
            per login, with an ``http`` or ``https`` URL. Raises AuthorizationError if no redirect arrives.
    """

    uri: str
    send: Callable[[str], Awaitable[str]] = field(repr=False)

    @property
    def application_type(self) -> Literal["native", "web"]:
        there = urlsplit(self.uri)
        return "web" if there.scheme in ("http", "https") and not is_loopback(there.hostname or "") else "native"

    @asynccontextmanager
    async def open(self, registered: Sequence[str], issuer: str | None) -> AsyncIterator[Redirect]:
        yield _OwnRedirect(self.uri.replace("{issuer}", "" if issuer is None else issuer_mark(issuer)), self.send)


@frozen
class _OwnRedirect:
    uri: str
    _send: Callable[[str], Awaitable[str]]

    async def authorize(self, url: str) -> str:
        # The URL comes from a metadata document: a javascript or file URL must not reach a browser.
        return await self._send(check_url(url, "authorization_endpoint"))
