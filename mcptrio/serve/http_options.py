"""The options of an HTTP endpoint, the table ``[http]``, and the ASGI application that they configure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import Attribute, field, frozen

from mcptrio.abc import Guard, UsesStores
from mcptrio.ground.expected import PROGRAM_ONLY, Range, integer, number
from mcptrio.http.server.limits import HTTPLimits

if TYPE_CHECKING:
    from mcptrio.http.server.app import HTTPApp
    from mcptrio.server import Server

__all__ = ["HTTPOptions", "HTTPTable", "make_http_app"]

_SSE, _MESSAGES, _WEBSOCKET = "/sse", "/messages", "/ws"


def _begins_with_slash(_instance: HTTPOptions, attribute: Attribute[str], value: str) -> None:
    if not value.startswith("/"):
        raise ValueError(f"{attribute.name}: expected a path that begins with /, got {value!r}")


def _name_tuple(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"expected a list of strings, got {names!r}")
    return tuple(names)


@frozen(kw_only=True)
class HTTPOptions(HTTPLimits):
    """Paths, protocols and peers of an HTTP endpoint. Its limits are the fields of :class:`HTTPLimits`.

    Args:
        path: The path of the endpoint.
        legacy_sse: True to serve clients of 2024-11-05 (HTTP with SSE), which open their stream on ``/sse`` and post
            messages to ``/messages``.
        websocket: True to serve MCP over WebSocket on ``/ws``.
        http2: True to offer HTTP/2 over TLS. Hypercorn serves the clients that choose it.
        access_log: True to log each request to ``mcptrio.http.access`` at level INFO.
        allow_hosts: Names accepted in ``Host`` in addition to those of this machine; ``*`` accepts all.
        allow_origins: Origins of web pages that may send requests; ``*`` accepts all.
        forwarded: Proxies whose ``X-Forwarded-For`` or ``Forwarded`` headers are trusted for the client address and the
            scheme: addresses, networks like ``10.0.0.0/8``, ``unix`` for the peers of a Unix socket. They have to send
            it with every request. The rightmost address that is not a trusted proxy counts.
        auth: Authenticates requests, for example an :class:`mcptrio.auth.ResourceServer`. By default all requests are
            accepted and anonymous.

    Raises:
        ValueError: ``path`` is a path of ``legacy_sse``, or ``forwarded`` is invalid.
    """

    path: str = "/mcp"
    legacy_sse: bool = True
    websocket: bool = True
    http2: bool = False
    access_log: bool = False
    allow_hosts: tuple[str, ...] = field(default=(), converter=_name_tuple)
    allow_origins: tuple[str, ...] = field(default=(), converter=_name_tuple)
    forwarded: tuple[str, ...] = field(default=(), converter=_name_tuple)
    auth: Guard | None = field(default=None, metadata=PROGRAM_ONLY)

    def __attrs_post_init__(self) -> None:
        if self.legacy_sse and self.path.rstrip("/") in (_SSE, _MESSAGES):
            raise ValueError(
                f"path: expected another path than {_SSE} and {_MESSAGES}, or legacy_sse = false; got {self.path}"
            )
        if self.forwarded:
            from mcptrio.http.client_address import Proxies

            try:
                Proxies.of(self.forwarded)
            except ValueError as error:
                raise ValueError(f"forwarded: {error}") from error


class _Workers:
    expected = 'an integer from 1 to 1024, or "auto"'

    def __call__(self, instance: object, attribute: Attribute[Any], value: Any) -> None:
        if value != "auto":
            Range(int, self.expected, 1, 1024)(instance, attribute, value)


@frozen(kw_only=True)
class HTTPTable(HTTPOptions):
    """The table ``[http]``: the options of the endpoint, its addresses and its worker processes.

    Args:
        host, port: The address to bind; port 0 selects a free one.
        workers: The number of processes, up to 1024; ``"auto"`` for one per CPU.
        worker_timeout: Seconds after which a worker with a blocked event loop is replaced; 0 never replaces it.
        tls_cert, tls_key: The files with the certificate and the key, for HTTPS.
        tls_client_ca: A file of authorities; clients need a certificate of one of them.
        tls_passphrase_file: The file with the passphrase of the key.
    """

    path: str = field(default="/mcp", validator=_begins_with_slash)
    host: str = "127.0.0.1"
    port: int = field(default=8000, validator=integer(0, 65535))
    workers: int | Literal["auto"] = field(default=1, validator=_Workers())
    worker_timeout: float = field(default=60.0, validator=number(0))
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tls_passphrase_file: Path | None = None


def make_http_app(server: Server, options: HTTPOptions, *, host: str = "127.0.0.1") -> HTTPApp:
    """Return the endpoint as an ASGI application. Its method ``run`` must run while it is used.

    Args:
        server: The server. Sessions are kept in its stores, or in memory if it has none.
        options: The options of the endpoint.
        host: The bound address, which is accepted in ``Host``.
    """
    from mcptrio.http.client_address import Proxies
    from mcptrio.http.server.app import HTTPApp
    from mcptrio.http.server.legacy_sse import LegacyPaths
    from mcptrio.http.server.origins import HostPolicy, OriginPolicy
    from mcptrio.stores.memory import memory_stores

    legacy = None
    if options.legacy_sse:
        legacy = LegacyPaths(stream=_SSE, messages=_MESSAGES)
    if server.stores is not None and isinstance(options.auth, UsesStores):
        options.auth.use_stores(server.stores)
    stores = server.stores or memory_stores()
    return HTTPApp(
        server.supervisor,
        sessions=stores.sessions,
        events=stores.events,
        bus=stores.bus,
        path=options.path,
        legacy=legacy,
        websocket=_WEBSOCKET if options.websocket else None,
        hosts=HostPolicy.for_bind(host, options.allow_hosts),
        origins=OriginPolicy.with_loopback(options.allow_origins),
        limits=options,
        guard=options.auth,
        proxies=Proxies.of(options.forwarded),
    )
