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

from .addresses import PAGES
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
    from quart import request
    from quart_trio import QuartTrio
    from werkzeug.exceptions import HTTPException

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

    def route(endpoint: str, handler: Callable[[], Awaitable[Response]], method: str) -> None:
        name, path = f"{method} {endpoint}", addresses.path(endpoint)
        app.add_url_rule(path, name, handler, methods=[method], provide_automatic_options=False)

    # Documents and endpoints for clients

    for path in addresses.documents:
        answer = partial(clients.metadata, openid="openid" in path)
        app.add_url_rule(path, path, answer, methods=["GET"], provide_automatic_options=False)
    route("jwks", clients.jwks, "GET")
    route("token", clients.token, "POST")
    route("register", clients.register, "POST")
    route("introspect", clients.introspect, "POST")
    route("revoke", clients.revoke, "POST")
    for path in (*addresses.documents, *map(addresses.path, _CORS_ENDPOINTS)):
        methods = ["OPTIONS"]
        app.add_url_rule(path, f"preflight {path}", clients.preflight, methods=methods, provide_automatic_options=False)

    # Pages

    route("authorize", pages.authorize, "GET")
    route("login", pages.log_in, "POST")
    route("consent", pages.consent, "POST")
    if service.config.upstream is not None:
        route("upstream", pages.upstream, "GET")
    else:
        # With a provider, no session is kept here.
        route("logout", pages.logout, "GET")
        route("logout", pages.log_out, "POST")
        route("grants", pages.grants, "GET")
        route("grants", pages.end_grant, "POST")

    # Errors

    is_page = set(map(addresses.path, PAGES))

    async def refused(error: Refusal) -> Response:
        if error.is_alarming:
            _log.warning("%s (asked by %s)", error.description, request.remote_addr)
        if request.path in is_page:
            return await pages.problem(error)
        return json_response(
            {"error": error.error, "error_description": error.description}, error.status, error.headers
        )

    async def failed(error: StoreFailed | ConfigError) -> Response:
        _log.error("%s", error)
        return await refused(
            Refusal("temporarily_unavailable", "the server cannot process this request now", status=503)
        )

    async def http_failed(error: HTTPException) -> Response:
        status = error.code or 500
        return await refused(Refusal("invalid_request", error.name.lower(), status=status))

    async def broken(error: Exception) -> Response:
        return await refused(Refusal("server_error", "the server failed; its log has the details", status=500))

    async def finish(response: Response) -> Response:
        headers = response.headers
        # Responses contain tokens and forms; only metadata and keys set another value.
        headers.setdefault("Cache-Control", "no-store")
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "same-origin"
        headers["X-Frame-Options"] = "DENY"
        if request.path in is_page:
            headers.setdefault("Content-Security-Policy", policy())
        else:
            headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
            if request.path in addresses.documents or request.path in map(addresses.path, _CORS_ENDPOINTS):
                headers["Access-Control-Allow-Origin"] = "*"
                headers["Access-Control-Expose-Headers"] = "DPoP-Nonce, WWW-Authenticate, Retry-After"
        return response

    app.register_error_handler(Refusal, refused)
    app.register_error_handler(StoreFailed, failed)
    app.register_error_handler(ConfigError, failed)
    app.register_error_handler(HTTPException, http_failed)
    app.register_error_handler(500, broken)
    app.after_request(finish)
    return app
