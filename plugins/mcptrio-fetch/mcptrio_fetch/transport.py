"""Sends one request, over a connection to an address that the gate allows.

The downloader calls it; no other module opens connections. TCP connects to an address from the gate, while TLS and Host
use the name. Only idle connections are kept between requests: no cookies, no credentials, and no settings from the
environment. The module is imported with the first request, because importing httpx2 is slow.

Source: httpcore2, ``AsyncNetworkBackend``; RFC 9110.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import httpcore2
import httpx2
import trio

from mcptrio import ToolError

from .config import Config
from .errors import Unreachable, printable
from .gate import AddressGate

__all__ = ["FAILURES", "FetchTransport", "describe_failure"]

FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    httpx2.DecodingError,
)
"""Exceptions of a request or a response, apart from the gate's refusals."""

_MAX_ADDRESSES = 4
"""Addresses of one name that are tried."""

_MAX_CONNECTIONS = 100
_MAX_IDLE_CONNECTIONS = 10
_IDLE_SECONDS = 15.0


class FetchTransport:
    """A pool of connections. The caller must close it."""

    def __init__(self, config: Config, gate: AddressGate) -> None:
        self._timeouts = {
            "connect": config.connect_timeout,
            "read": config.request_timeout,
            "write": config.request_timeout,
            "pool": config.request_timeout,
        }
        context = _ssl_context(config)
        if config.proxy is None:
            self._gate = None
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=context,
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=_CheckedBackend(gate, config.connect_timeout),
            )
        else:
            self._gate = gate
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=context,
                proxy=_proxy(config.proxy.reveal()),
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            )

    async def send(self, method: str, url: httpx2.URL, headers: Mapping[str, str]) -> httpx2.Response:
        """Send a request and return the response, with its body unread. The caller must close it.

        Raises:
            FetchRefused, Unreachable: The gate refuses the host, or cannot resolve it.
            One of FAILURES: The request could not be sent, or was not answered.
        """
        request = httpx2.Request(method, url, headers=headers)
        if self._gate is not None:
            await self._gate.check_addresses(url.raw_host.decode("ascii"), url.port or 0)
        response = await self._pool.handle_async_request(
            httpcore2.Request(
                method=method,
                url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                extensions={"timeout": self._timeouts},
            )
        )
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response.stream),
            request=request,
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def describe_failure(error: Exception, url: str) -> ToolError:
    """Return the error for a failed request, without details that are only for the operator."""
    match error:
        case httpcore2.ConnectTimeout():
            reason = "connecting took too long"
        case httpcore2.TimeoutException():
            reason = "the site took too long"
        case httpcore2.ProxyError():
            reason = f"the proxy refused: {printable(str(error), 100)}"
        case httpcore2.ConnectError():
            reason = f"connecting failed: {_reason(error)}"
        case httpx2.DecodingError():
            reason = "the content is not compressed as its Content-Encoding says"
        case httpcore2.ProtocolError():
            reason = f"the site does not speak HTTP properly: {_reason(error)}"
        case _:
            reason = f"the connection broke: {_reason(error)}"
    return Unreachable(f"Failed to fetch {printable(url)}: {reason}")


class _Body(httpx2.AsyncByteStream):
    """Adapts the body of an httpcore2 response to httpx2."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        stream: AsyncIterator[bytes] = self._stream.__aiter__()
        return stream

    async def aclose(self) -> None:
        await self._stream.aclose()


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects only to the addresses that the gate returns, never to a host name.

    The pool starts TLS later with the host name of the URL, so SNI contains the name, and the certificate must be valid
    for it.
    """

    def __init__(self, gate: AddressGate, timeout: float) -> None:
        self._gate = gate
        self._timeout = timeout
        # pyright uses the second definition of the class, which is for programs without Trio.
        self._inner: httpcore2.AsyncNetworkBackend = httpcore2.TrioBackend()  # pyright: ignore[reportAttributeAccessIssue]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        deadline = trio.current_time() + (self._timeout if timeout is None else timeout)
        addresses = (await self._gate.addresses(host, port))[:_MAX_ADDRESSES]
        # The addresses left share the remaining time, so an unreachable one does not use it up.
        for left in range(len(addresses), 0, -1):
            share = max((deadline - trio.current_time()) / left, 0.0)
            try:
                return await self._inner.connect_tcp(addresses[-left], port, share, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if left == 1:
                    raise
        raise httpcore2.ConnectError("no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.UnsupportedProtocol("expected an address, got the path of a socket")

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


def _ssl_context(config: Config) -> ssl.SSLContext:
    if config.ca_file is not None:
        return ssl.create_default_context(cafile=config.ca_file.expanduser())
    return httpx2.create_ssl_context(trust_env=False)


def _proxy(text: str) -> httpcore2.Proxy:
    # Desktop settings use socks://, but the pool expects socks5://.
    url = httpx2.URL(re.sub(r"(?i)^socks://", "socks5://", text))
    auth = (url.username, url.password) if url.userinfo else None
    return httpcore2.Proxy(
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"), auth=auth
    )


def _reason(error: BaseException) -> str:
    """Return the innermost message: the pool wraps Trio's exception, which wraps OpenSSL's."""
    inner: Any = error
    while (cause := inner.__cause__ or inner.__context__) is not None:
        inner = cause
    return printable(str(inner) or str(error) or type(error).__name__, 150)
