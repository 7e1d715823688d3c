"""The ASGI application: its routes, error responses and headers.

:mod:`.authorization_server` creates it when it opens, which imports Quart. The logic is in :mod:`.service`;
:mod:`.client_handlers` and :mod:`.page_handlers` convert requests and responses.

Source: OAuth 2.1 sections 3.2.3 and 7.9 (clickjacking); RFC 6749 section 5; RFC 7591 section 3.2; RFC 9700 section 2.6
(CORS); Fetch standard, "CORS protocol".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mcptrio.errors import ConfigError, StoreFailed

from .addresses import PAGES, Addresses
from .client_handlers import ClientHandlers, json_response
from .forms import MAX_BODY_BYTES
from .page_handlers import PageHandlers
from .pages import STYLE, policy
from .refusals import Refusal
from .service import Service

if TYPE_CHECKING:
    from quart import Response
    from quart_trio import QuartTrio

__all__ = ["make_app"]

# Seconds for the body to arrive, and for the response to be sent.
_REQUEST_TIMEOUT: Final = 20.0
# Endpoints that web pages of other origins may call, because clients run in browsers too. None of them reads a cookie.
_CORS_ENDPOINTS: Final = ("token", "register", "revoke", "jwks")

_log = logging.getLogger("mcptrio.authserver")


def make_app(service: Service) -> QuartTrio:
    """Return the ASGI application."""
    from quart_trio import QuartTrio

    addresses = service.config.addresses
    app = QuartTrio("mcptrio_authserver", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
        BODY_TIMEOUT=_REQUEST_TIMEOUT,
        RESPONSE_TIMEOUT=_REQUEST_TIMEOUT,
        PROPAGATE_EXCEPTIONS=False,
    )
    # Templates embed the style; the Content-Security-Policy allows it by its hash.
    app.jinja_env.globals.update(server=service.config.name, style=STYLE)
    clients, pages = ClientHandlers(service), PageHandlers(service)
    _add_client_routes(app, addresses, clients)
    _add_page_routes(app, addresses, pages, has_upstream=service.config.upstream is not None)
    _add_error_handlers(app, addresses, pages)
    _add_headers(app, addresses)
    return app


def _add_route(app: QuartTrio, path: str, name: str, handler: Callable[[], Awaitable[Response]], method: str) -> None:
    app.add_url_rule(path, f"{method} {name}", handler, methods=[method], provide_automatic_options=False)


def _add_client_routes(app: QuartTrio, addresses: Addresses, clients: ClientHandlers) -> None:
    for path in addresses.documents:
        _add_route(app, path, path, partial(clients.metadata, openid="openid" in path), "GET")
    for endpoint, handler, method in (
        ("jwks", clients.jwks, "GET"),
        ("token", clients.token, "POST"),
        ("register", clients.register, "POST"),
        ("introspect", clients.introspect, "POST"),
        ("revoke", clients.revoke, "POST"),
    ):
        _add_route(app, addresses.path(endpoint), endpoint, handler, method)
    for path in (*addresses.documents, *map(addresses.path, _CORS_ENDPOINTS)):
        _add_route(app, path, path, clients.preflight, "OPTIONS")


def _add_page_routes(app: QuartTrio, addresses: Addresses, pages: PageHandlers, *, has_upstream: bool) -> None:
    routes = [
        ("authorize", pages.authorize, "GET"),
        ("login", pages.log_in, "POST"),
        ("consent", pages.consent, "POST"),
    ]
    if has_upstream:
        routes.append(("upstream", pages.upstream, "GET"))
    else:
        # With an upstream provider, no session is kept here.
        routes += [("logout", pages.logout, "GET"), ("logout", pages.log_out, "POST")]
        routes += [("grants", pages.grants, "GET"), ("grants", pages.end_grant, "POST")]
    for endpoint, handler, method in routes:
        _add_route(app, addresses.path(endpoint), endpoint, handler, method)


def _add_error_handlers(app: QuartTrio, addresses: Addresses, pages: PageHandlers) -> None:
    from quart import request
    from werkzeug.exceptions import HTTPException

    page_paths = set(map(addresses.path, PAGES))

    async def refused(error: Refusal) -> Response:
        if error.is_alarming:
            _log.warning("%s: client=%s", error.description, request.remote_addr)
        if request.path in page_paths:
            return await pages.problem(error)
        return json_response(
            {"error": error.error, "error_description": error.description}, error.status, error.headers
        )

    async def unavailable(error: StoreFailed | ConfigError) -> Response:
        _log.error("%s", error)
        return await refused(
            Refusal("temporarily_unavailable", "the server cannot process this request now", status=503)
        )

    async def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        return await refused(Refusal("invalid_request", error.name.lower(), status=status))

    async def internal_error(error: Exception) -> Response:
        return await refused(Refusal("server_error", "the server failed; its log has the details", status=500))

    app.register_error_handler(Refusal, refused)
    app.register_error_handler(StoreFailed, unavailable)
    app.register_error_handler(ConfigError, unavailable)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(500, internal_error)


def _add_headers(app: QuartTrio, addresses: Addresses) -> None:
    from quart import request

    page_paths = set(map(addresses.path, PAGES))
    cors_paths = {*addresses.documents, *map(addresses.path, _CORS_ENDPOINTS)}

    async def add_headers(response: Response) -> Response:
        headers = response.headers
        # Responses contain tokens and forms; only metadata and keys set another value.
        headers.setdefault("Cache-Control", "no-store")
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "same-origin"
        headers["X-Frame-Options"] = "DENY"
        if request.path in page_paths:
            headers.setdefault("Content-Security-Policy", policy())
        else:
            headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
            if request.path in cors_paths:
                headers["Access-Control-Allow-Origin"] = "*"
                headers["Access-Control-Expose-Headers"] = "DPoP-Nonce, WWW-Authenticate, Retry-After"
        return response

    app.after_request(add_headers)
