"""The HTTP handlers of the endpoints for programs: metadata, keys, tokens, registration, introspection, revocation.

:mod:`.web` routes to them. None of them reads a cookie, so web pages of other origins may call them.

Source: RFC 6749 section 5.1; RFC 7591 section 3; RFC 7662 section 2; RFC 7009 section 2; RFC 8414 section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from .forms import body_of_request, read_form, read_json
from .server_metadata import server_metadata
from .service import Service

if TYPE_CHECKING:
    from quart import Response

__all__ = ["ClientHandlers", "json_response"]


class ClientHandlers:
    """The handlers of the endpoints that have no page."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def metadata(self, *, openid: bool) -> Response:
        return json_response(server_metadata(self._service.config, openid=openid), public=True)

    async def jwks(self) -> Response:
        return json_response(await self._service.keys(), public=True)

    async def token(self) -> Response:
        from quart import request

        form = read_form(await body_of_request(), request.content_type)
        proofs = request.headers.getlist("DPoP")
        authorization = request.headers.get("Authorization")
        body, headers = await self._service.token(form, authorization, proofs, request.remote_addr)
        return json_response(body, headers=headers)

    async def register(self) -> Response:
        from quart import request

        document = read_json(await body_of_request(), request.content_type)
        return json_response(await self._service.register(document, request.remote_addr), status=201)

    async def introspect(self) -> Response:
        from quart import request

        form = read_form(await body_of_request(), request.content_type)
        authorization = request.headers.get("Authorization")
        return json_response(await self._service.introspect(form, authorization, request.remote_addr))

    async def revoke(self) -> Response:
        from quart import request

        form = read_form(await body_of_request(), request.content_type)
        await self._service.revoke(form, request.headers.get("Authorization"), request.remote_addr)
        return json_response({})

    async def preflight(self) -> Response:
        from quart import Response

        headers = {
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": "Authorization, Content-Type, DPoP, MCP-Protocol-Version",
            "Access-Control-Max-Age": "3600",
        }
        return Response(b"", status=204, headers=headers)


def json_response(
    body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None, *, public: bool = False
) -> Response:
    """Return a JSON response.

    Args:
        body: The JSON object.
        status: The HTTP status.
        headers: Headers in addition to ``Content-Type``.
        public: True if caches may store it.
    """
    from quart import Response

    response = Response(orjson.dumps(dict(body)), status=status, content_type="application/json")
    response.headers.update(dict(headers or {}))
    if public:
        response.headers["Cache-Control"] = "public, max-age=300"
    else:
        response.headers["Pragma"] = "no-cache"
    return response
