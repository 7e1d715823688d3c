"""Sending a person to an authorization server, and getting back what their browser brings: the port.

Used by :mod:`mcptrio.auth.client.oauth`. For programs on the person's own machine there is
:class:`mcptrio.auth.LoopbackRedirects`; :class:`OwnRedirects` is for everything else that can show somebody a page, as
a web application can.
The one rule: nobody is sent to anything but an http or https URL.

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
    """What stands for an authorization server in a redirect URI: 16 characters, always the same for one issuer."""
    return sha256(issuer.encode()).hexdigest()[:16]


class Redirect(Protocol):
    """A way back, open while a person is away."""

    @property
    def uri(self) -> str:
        """Where their browser is to be sent back to."""
        ...

    async def authorize(self, url: str) -> str:
        """Send them there.

        Returns:
            The URL their browser came back to.

        Raises:
            AuthorizationError: they did not come back.
        """
        ...


class Redirects(Protocol):
    """How a person is sent away and comes back."""

    @property
    def application_type(self) -> Literal["native", "web"]:
        """What authorization servers are told that we are."""
        ...

    def open(self, registered: Sequence[str], issuer: str | None) -> AbstractAsyncContextManager[Redirect]:
        """A way back.

        Args:
            registered: those that the authorization server knows already, of which one is taken if it can be.
            issuer: the authorization server that gets a redirect URI of its own, so that what another one sends back is
                not taken for its answer (RFC 9700 section 4.4.2.2); ``None`` where the redirect URI is agreed on.
        """
        ...


@frozen(kw_only=True)
class OwnRedirects:
    """A way back of your own.

    Args:
        uri: where browsers are to be sent back to: an https URL that you serve, or one that the system gives to you.
            Where it has ``{issuer}`` in it, each authorization server that registers clients gets a URI of its own,
            with 16 characters in this place, which keeps answers of one from being taken for those of another.
        send: send somebody to a URL, wait until they are back, and return the whole URL they came back to. Called once
            an attempt, with an ``http`` or ``https`` URL. Raises AuthorizationError where they do not come back.
    """

    uri: str
    send: Callable[[str], Awaitable[str]] = field(repr=False)

    @property
    def application_type(self) -> Literal["native", "web"]:
        there = urlsplit(self.uri)
        return "web" if there.scheme in ("http", "https") and not is_loopback(there.hostname or "") else "native"

    @asynccontextmanager
    async def open(self, registered: Sequence[str], issuer: str | None) -> AsyncIterator[Redirect]:
        yield _Own(self.uri.replace("{issuer}", "" if issuer is None else issuer_mark(issuer)), self.send)


@frozen
class _Own:
    uri: str
    _send: Callable[[str], Awaitable[str]]

    async def authorize(self, url: str) -> str:
        return await self._send(check_url(url, "authorization_endpoint"))
