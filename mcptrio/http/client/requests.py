"""A client's requests to one HTTP server, with credentials, each on its own connection.

Each link makes one :class:`HTTPRequests`. If the server requires other credentials and they are available, the request
is sent again. That may happen a few times in a row: the server requires a token, then a proof with a nonce, then more
scopes.
"""

from __future__ import annotations

from typing import Final

from mcptrio.abc import ClientAuth
from mcptrio.errors import ConnectionClosed
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.connection_pool import ConnectionPool, RawHeaders
from mcptrio.http.client.dialer import Dialing
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.client.headers import secrets_in
from mcptrio.http.client.responses import read_refusal

__all__ = ["CLIENT_DISCONNECTED", "MAX_RETRIES", "HTTPRequests"]

MAX_RETRIES: Final = 4
"""Maximum retries of one request. The credentials have their own, lower limits."""
_AUTHORIZATION: Final = b"authorization"
CLIENT_DISCONNECTED: Final = "the client has closed the connection"


class HTTPRequests:
    """The requests of one client to one endpoint.

    Raises:
        ConfigError: The environment names a proxy that cannot be used.
    """

    def __init__(self, endpoint: HTTPEndpoint, dialing: Dialing, auth: ClientAuth | None) -> None:
        self._endpoint = endpoint
        self._connections = ConnectionPool(endpoint, dialing)
        self._auth = auth
        self._stopped = False

    async def request(
        self, method: str, headers: RawHeaders, body: bytes = b"", *, target: str | None = None
    ) -> HTTPResponse:
        """Send a request and return its response after the head. The caller closes the response.

        Args:
            target: Path and query, if not the endpoint's own.

        Raises:
            RequestFailed: There is no connection, it broke, the response is not HTTP, or the credentials do not
                suffice.
            AuthorizationError: The server requires credentials, and there are none.
            ConnectionClosed: :meth:`stop` or :meth:`close` was called before or during the request.
        """
        target = self._endpoint.target if target is None else target
        credentials = await self._credentials(method, target)
        for _ in range(MAX_RETRIES):
            response = await self._request_once(method, target, [*headers, *credentials], body)
            if self._auth is None or response.status not in (401, 403):
                return response
            # Read the refusal first, so that the connection is free. To get other credentials, the client may ask the
            # user, which may take minutes.
            refusal = await read_refusal(response)
            refused, credentials = credentials, await self._credentials(method, target)
            # Another refused request may have obtained new credentials in the meantime. Then use those.
            if _token(refused) == _token(credentials):
                if not await self._auth.challenged(self._endpoint.url, response.status, response.headers):
                    raise refusal
                credentials = await self._credentials(method, target)
        return await self._request_once(method, target, [*headers, *credentials], body)

    async def send_last(self, method: str, headers: RawHeaders) -> None:
        """Send a request after :meth:`stop`, and ignore its response. Raises the exceptions of :meth:`request`."""
        response = await self._connections.request(
            method, self._endpoint.target, [*headers, *await self._credentials(method, self._endpoint.target)]
        )
        response.close()

    def stop(self) -> None:
        """Abort all requests. They and all later requests raise ConnectionClosed."""
        self._stopped = True
        self._connections.abort()

    def close(self) -> None:
        """Abort all requests, and close every connection."""
        self._stopped = True
        self._connections.close(CLIENT_DISCONNECTED)

    async def _request_once(self, method: str, target: str, headers: RawHeaders, body: bytes) -> HTTPResponse:
        if self._stopped:
            raise ConnectionClosed(CLIENT_DISCONNECTED)
        response = await self._connections.request(method, target, headers, body)
        response.secrets = secrets_in(headers)
        return response

    async def _credentials(self, method: str, target: str) -> RawHeaders:
        if self._auth is None:
            return []
        # A DPoP proof contains the URL of the request, which differs from the endpoint's URL in HTTP with SSE.
        granted = await self._auth.headers(method, self._endpoint.origin + target)
        return [(name.encode(), value.encode()) for name, value in granted.items()]


def _token(credentials: RawHeaders) -> bytes | None:
    """Return the token, the part of the credentials that is equal in all requests. A DPoP proof differs each time."""
    return next((value for name, value in credentials if name.lower() == _AUTHORIZATION), None)
