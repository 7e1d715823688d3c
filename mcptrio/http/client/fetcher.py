"""Small HTTP requests to URLs that a server names: metadata, keys, tokens.

The flows of :mod:`mcptrio.auth` get a :class:`Fetcher` as their :class:`mcptrio.abc.Fetch`. Responses are limited in
size and time, and redirects are not followed. No cookie and no connection is kept between requests.

Source: RFC 9110; RFC 9112; RFC 9728 section 7.7; RFC 8414 section 6.2.
"""

from __future__ import annotations

import ssl
from typing import Final

import trio

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.errors import RequestFailed
from mcptrio.http.client.address_policy import AddressPolicy, check_url
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.connection_pool import ConnectionPool
from mcptrio.http.client.dialer import Dialing
from mcptrio.http.client.endpoint import HTTPEndpoint

__all__ = ["Fetcher"]

_MAX_BODY_BYTES: Final = 256 * 1024
_FETCH_TIMEOUT: Final = 10.0
_AGENT: Final = (b"User-Agent", b"mcptrio")
"""Some firewalls reject requests without a User-Agent."""


class Fetcher:
    """Sends small requests.

    Args:
        policy: The allowed addresses.
        tls: The TLS context; by default, one with the system's authorities.
        trust_env: True to use proxies and certificates of the environment.
        max_bytes: Maximum bytes of a response's body. A longer body is an error.
        seconds: The time for a whole request, from name resolution to the last byte, in seconds.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        tls: ssl.SSLContext | None = None,
        trust_env: bool = True,
        max_bytes: int = _MAX_BODY_BYTES,
        seconds: float = _FETCH_TIMEOUT,
    ) -> None:
        self._policy = policy
        self._dialing = Dialing(connect_timeout=seconds, trust_env=trust_env, tls=tls, policy=policy)
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def __call__(self, request: FetchRequest) -> FetchResponse:
        """See :class:`mcptrio.abc.Fetch`.

        Raises:
            RequestFailed: There is no response, it is too large, or the address is not allowed.
            ConfigError: The environment names a proxy that cannot be used.
        """
        try:
            endpoint = HTTPEndpoint.parse(request.url)
        except ValueError as error:
            raise RequestFailed(str(error), delivered=False) from error
        check_url(self._policy, endpoint)
        with trio.move_on_after(self._seconds):
            return await self._fetch(endpoint, request)
        raise RequestFailed(f"expected an answer from {endpoint.name} within {self._seconds:g} seconds, got none")

    async def _fetch(self, endpoint: HTTPEndpoint, request: FetchRequest) -> FetchResponse:
        connections = ConnectionPool(endpoint, self._dialing)
        try:
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
            response = await connections.request(request.method, endpoint.target, [_AGENT, *headers], request.body)
            return FetchResponse(
                status=response.status,
                headers=dict(response.headers),
                body=await self._body(endpoint, response),
            )
        finally:
            connections.close("the answer was read")

    async def _body(self, endpoint: HTTPEndpoint, response: HTTPResponse) -> bytes:
        if (coding := response.headers.get("content-encoding", "identity").lower()) != "identity":
            # The request did not allow a coding, and a small compressed body can become a huge one.
            raise RequestFailed(
                f"expected an answer without Content-Encoding from {endpoint.name}, got {coding[:32]!r}"
            )
        body = bytearray()
        while data := await response.read():
            body += data
            if len(body) > self._max_bytes:
                raise RequestFailed(f"expected at most {self._max_bytes} bytes from {endpoint.name}, got more")
        return bytes(body)
