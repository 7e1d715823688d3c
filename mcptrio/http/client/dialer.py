"""Connects a client to an HTTP server, directly or through a proxy, with or without TLS.

:mod:`mcptrio.http.client.connection_pool` uses it for each new connection. If connecting fails, no request was sent, so
the errors are marked as safe to retry.

The environment names the proxy (``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in either case). No
proxy is used for servers on this machine. The environment also names the certificate authorities for TLS
(``SSL_CERT_FILE`` and ``SSL_CERT_DIR``); by default, they are those of the system.

Source: RFC 9110 section 9.3.6 (CONNECT); RFC 9112 section 3.2.2 (absolute-form); RFC 2818 section 3.1.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import h11
import trio
from attrs import frozen

from mcptrio.errors import ConfigError, RequestFailed
from mcptrio.http.client.address_policy import AddressPolicy, check_proxied, resolve
from mcptrio.http.client.endpoint import HTTPEndpoint, shown_url
from mcptrio.http.client.tls import system_trust

__all__ = ["DEFAULT_DIALING", "Dialer", "Dialing", "find_proxy"]

_LOOPBACK: Final = "localhost"
_MAX_READ_BYTES: Final = 16 * 1024
_MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of the head of a proxy's response."""
_NEXT_ADDRESS_INTERVAL: Final = 2.0
"""Seconds until the next of several checked addresses is tried, for example because IPv6 does not work. Without an
address policy, Trio tries the addresses concurrently."""
_PROBES: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""TCP keepalive options that detect a dead connection below an idle stream within about two minutes."""


@frozen(kw_only=True)
class Dialing:
    """Settings for connecting."""

    connect_timeout: float = 30.0
    """Seconds for name resolution, connecting, the proxy and TLS together."""
    trust_env: bool = True
    """True to use proxies and certificates of the environment. ``~/.netrc`` is never used."""
    tls: ssl.SSLContext | None = None
    """A context for a private authority or a client certificate; ``None`` for the authorities of the system."""
    policy: AddressPolicy | None = None
    """The allowed addresses; ``None`` allows any, because the user has named the server."""


DEFAULT_DIALING: Final = Dialing()


class Dialer:
    """Connects to one endpoint's host.

    Args:
        tunnels: True to tunnel through a proxy even without TLS, for a protocol other than HTTP.

    Raises:
        ConfigError: The environment names a proxy that cannot be used.
    """

    def __init__(self, endpoint: HTTPEndpoint, dialing: Dialing, *, tunnels: bool = False) -> None:
        self._endpoint = endpoint
        self._dialing = dialing
        self._tunnels = tunnels or endpoint.scheme == "https"
        self._tls = dialing.tls
        self._proxy = find_proxy(endpoint, os.environ) if dialing.trust_env else None

    @property
    def forwarded(self) -> HTTPEndpoint | None:
        """The proxy that gets whole requests; ``None`` without a proxy or with a tunnel."""
        return None if self._tunnels else self._proxy

    async def dial(self) -> tuple[trio.abc.Stream, trio.SocketStream]:
        """Return a new connection, ready for HTTP, and the socket below all layers.

        Raises:
            RequestFailed: The connection could not be made; nothing was delivered.
        """
        peer = self._proxy or self._endpoint
        with trio.move_on_after(self._dialing.connect_timeout):
            socket_stream = await self._connect(peer)
            ready = False
            try:
                stream = await self._wrap_stream(socket_stream)
                ready = True
            finally:
                if not ready:
                    # This also runs when the deadline cancels the handshake.
                    socket_stream.socket.close()
            return stream, socket_stream
        raise _failure(f"no connection to {peer.authority} within {self._dialing.connect_timeout:g} seconds")

    async def _connect(self, peer: HTTPEndpoint) -> trio.SocketStream:
        policy = self._dialing.policy
        hosts = [peer.host]
        if policy is not None and self._proxy is not None:
            await check_proxied(policy, self._endpoint)
        elif policy is not None:
            hosts = await resolve(policy, peer)
        try:
            stream = await _open_stream(hosts, peer.port)
        except OSError as error:
            raise _failure(f"cannot connect to {peer.authority}: {_reason(error)}") from error
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES:
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return stream

    async def _wrap_stream(self, socket_stream: trio.SocketStream) -> trio.abc.Stream:
        """Add the layers above TCP: TLS to the proxy, the tunnel, TLS to the server."""
        stream: trio.abc.Stream = socket_stream
        if self._proxy is not None:
            if self._proxy.scheme == "https":
                stream = await self._secure(stream, self._proxy)
            if self._tunnels:
                await _tunnel(stream, self._proxy, self._endpoint)
        if self._endpoint.scheme == "https":
            stream = await self._secure(stream, self._endpoint)
        return stream

    async def _secure(self, stream: trio.abc.Stream, peer: HTTPEndpoint) -> trio.abc.Stream:
        if self._tls is None:
            self._tls = system_trust(trust_env=self._dialing.trust_env)
        # https_compatible, because most servers send no closing message of TLS. HTTP itself marks the end of a message.
        secured = trio.SSLStream(stream, self._tls, server_hostname=peer.host, https_compatible=True)
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError as error:
            raise _failure(f"no TLS with {peer.authority}: {_reason(error.__cause__ or error)}") from error
        return secured


def find_proxy(endpoint: HTTPEndpoint, environment: Mapping[str, str]) -> HTTPEndpoint | None:
    """Return the proxy that an environment names for an endpoint.

    Raises:
        ConfigError: The value is not an http or https URL.
    """
    variable, url = _proxy_variable(endpoint.scheme, environment)
    if not url or _is_local(endpoint.host) or _is_exempt(endpoint, environment):
        return None
    try:
        return HTTPEndpoint.parse(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise ConfigError(f"{variable}: expected an http or https URL, got {shown_url(url)}") from error


def _proxy_variable(scheme: str, environment: Mapping[str, str]) -> tuple[str, str]:
    for name in (f"{scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            # In a CGI program, HTTP_PROXY is the Proxy header of the HTTP client (CVE-2016-5385).
            forged = variable == "HTTP_PROXY" and "REQUEST_METHOD" in environment
            if (url := environment.get(variable, "").strip()) and not forged:
                return variable, url
    return "", ""


def _is_local(host: str) -> bool:
    if host == _LOOPBACK or host.endswith("." + _LOOPBACK):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _is_exempt(endpoint: HTTPEndpoint, environment: Mapping[str, str]) -> bool:
    """Return whether ``NO_PROXY`` contains the host: as a domain, an address or a network, with or without a port."""
    # A domain includes its subdomains, with or without a leading dot, as in curl and Go.
    address = _address(endpoint.host)
    for entry in _no_proxy(environment):
        if entry == "*":
            return True
        name, port = _split_port(entry)
        if port and port != endpoint.port:
            continue
        name = name.removeprefix("*").removeprefix(".").strip("[]")
        if endpoint.host == name or endpoint.host.endswith("." + name):
            return True
        if address is not None and _network_contains(name, address):
            return True
    return False


def _no_proxy(environment: Mapping[str, str]) -> Iterator[str]:
    entries = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    yield from (entry for each in entries.split(",") if (entry := each.strip().lower()))


def _split_port(entry: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[^]]*\]|[^:]*):([0-9]{1,5})", entry)
    return (match[1], int(match[2])) if match else (entry, 0)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network_contains(network: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


async def _open_stream(hosts: Sequence[str], port: int) -> trio.SocketStream:
    """Connect to the first reachable host.

    Raises:
        OSError: No host is reachable. This is the error of the last host.
    """
    *firsts, last = hosts
    for host in firsts:
        with trio.move_on_after(_NEXT_ADDRESS_INTERVAL):
            try:
                return await trio.open_tcp_stream(host, port)
            except OSError:
                continue
    return await trio.open_tcp_stream(last, port)


async def _tunnel(stream: trio.abc.Stream, proxy: HTTPEndpoint, endpoint: HTTPEndpoint) -> None:
    """Open a tunnel through a proxy.

    Raises:
        RequestFailed: The proxy has refused, or has not answered.
    """
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    there = f"{host}:{endpoint.port}"
    headers = [("Host", there)]
    if proxy.authorization is not None:
        headers.append(("Proxy-Authorization", proxy.authorization))
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    request = h11.Request(method="CONNECT", target=there, headers=headers)
    try:
        await stream.send_all((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
        while not isinstance(event := connection.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some(_MAX_READ_BYTES)))
    except (trio.BrokenResourceError, h11.RemoteProtocolError) as error:
        raise _failure(f"the proxy {proxy.authority} sent no readable answer: {_reason(error)}") from error
    if not 200 <= event.status_code < 300:
        raise _failure(f"the proxy {proxy.authority} refused to connect to {there}: HTTP {event.status_code}")


def _failure(message: str) -> RequestFailed:
    return RequestFailed(message, delivered=False)


def _reason(error: BaseException) -> str:
    """Return the system's reason for an error; if there were several attempts, that of the last one."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, OSError) and error.strerror:
        # Trio's text repeats the address, so use the system's text. SSLError and gaierror have their own numbers, of
        # which the system knows nothing.
        if error.errno and error.errno > 0 and not isinstance(error, (ssl.SSLError, socket.gaierror)):
            return os.strerror(error.errno)
        return error.strerror
    if cause is not None:
        return _reason(cause)
    return str(error) or type(error).__name__
