"""The page ``/metrics`` as an ASGI application, on its own port or on that of the MCP endpoint.

:mod:`mcptrio.serve.served_metrics` serves it. On its own port, the page needs no credentials, because by default other
machines cannot reach that port. On the port of the endpoint, the guard of the endpoint protects it.

Source: Prometheus exposition formats; RFC 6750.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcptrio.abc import Guard
from mcptrio.errors import AuthorizationError, Overloaded
from mcptrio.http.server.asgi import ASGIExchange, Receive, Send
from mcptrio.http.server.exchange import Exchange, read_headers
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.request_auth import refusal_of, request_head
from mcptrio.http.server.rules import HTTPRefusal, check_page

__all__ = ["PATH", "MetricsPage"]

PATH: Final = "/metrics"
_LIMITS: Final = HTTPLimits()


class MetricsPage:
    """The page ``/metrics`` as an ASGI application.

    Args:
        text: Returns the page.
        media: The media type of the page.
        guard: Verifies access tokens; without one, the page needs no token.
        scope: The scope that a token needs.
    """

    def __init__(self, text: Callable[[], bytes], media: str, guard: Guard | None = None, scope: str = "") -> None:
        self._text = text
        self._media = media
        self._guard = guard
        self._scope = scope

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(read_headers(scope["headers"]), _LIMITS, ASGIExchange(receive, send, _LIMITS.write_timeout))
        refusal = await self._check(scope, exchange)
        if refusal is not None:
            await exchange.refuse(refusal)
        else:
            await exchange.respond(200, self._text(), media=self._media)

    async def _check(self, scope: Any, exchange: Exchange) -> HTTPRefusal | None:
        if scope["path"].rstrip("/") != PATH:
            return HTTPRefusal(404, reason="path")
        # Prometheus is not a browser, and no web page has a reason to read the metrics.
        if "origin" in exchange.headers:
            return HTTPRefusal.because(403, "Origin: not allowed", reason="origin")
        if (refusal := check_page(scope["method"], ("GET", "HEAD"))) is not None or self._guard is None:
            return refusal
        head = request_head(scope, exchange.headers, is_outside_endpoint=True)
        scopes = frozenset({self._scope})
        try:
            principal = await self._guard.admit(head)
        except AuthorizationError as error:
            return refusal_of(error)
        except Overloaded as error:
            return HTTPRefusal.overloaded(error)
        if principal is None:
            return HTTPRefusal(401)
        if not scopes <= principal.scopes:
            return refusal_of(self._guard.insufficient_scope(head, principal, scopes), scopes=scopes)
        return None
