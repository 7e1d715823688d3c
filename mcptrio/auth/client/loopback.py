"""Redirects to a temporary HTTP port on the loopback interface.

:mod:`mcptrio.auth.client.oauth` uses it by default. Any local program and any web page in a local browser can send
requests to the port; only one with the state of the current login ends the wait, all others receive an error page.

Source: RFC 8252 sections 7.3 and 8; RFC 9700 section 4.1.
"""

from __future__ import annotations

import sys
import webbrowser
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from html import escape
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

import h11
import trio
from attrs import define, field, frozen, validators

from mcptrio.auth.client.redirects import Redirect, issuer_mark
from mcptrio.auth.urls import check_url
from mcptrio.errors import AuthorizationError

__all__ = ["LoopbackRedirects"]

# Addresses instead of "localhost", which the hosts file may map elsewhere (RFC 8252 section 8.3).
_HOSTS: Final = ("127.0.0.1", "::1")
# Seconds for one whole request to the port.
_REQUEST_TIMEOUT: Final = 10.0
# Concurrent connections; browsers open a few in advance. Further ones wait in the system's queue.
_MAX_REQUESTS: Final = 16
# Largest request in bytes.
_MAX_HEAD_BYTES: Final = 16 * 1024


def _print(url: str) -> None:
    sys.stderr.write(f"To authorize this program, open this address in a browser:\n\n  {url}\n\n")
    sys.stderr.flush()


@frozen(kw_only=True)
class LoopbackRedirects:
    """Redirects to a port on this machine, for browsers on this machine.

    Args:
        show: A function called with the URL to open; by default, the URL is printed to standard error.
        consent: A function that gets the URL and returns whether to open a browser. The port is already open then. By
            default, no browser is opened.
        port: The port, up to 65535; by default any free one. Needed if an authorization server compares redirect URIs
            with their ports.
        path: The path of the redirect URI. Each authorization server that registers clients gets a path below it.
        timeout: Seconds to wait for the redirect.
        program: The name of the program on the final page.
    """

    show: Callable[[str], object] = _print
    consent: Callable[[str], Awaitable[bool]] | None = None
    port: int = field(default=0, validator=[validators.ge(0), validators.le(65535)])
    path: str = field(default="/callback", validator=validators.matches_re(r"/[A-Za-z0-9._~/-]*"))
    timeout: float = field(default=300.0, validator=validators.gt(0))
    program: str = "the program"

    @property
    def application_type(self) -> Literal["native", "web"]:
        return "native"

    @asynccontextmanager
    async def open(self, registered: Sequence[str], issuer: str | None) -> AsyncIterator[Redirect]:
        """Open a port on the loopback interface. See :meth:`mcptrio.auth.Redirects.open`.

        Raises:
            AuthorizationError: The port is in use, or the machine has no loopback interface.
        """
        path = self.path if issuer is None else f"{self.path.rstrip('/')}/{issuer_mark(issuer)}"
        host, listener = await self._listen(registered, path)
        try:
            port = listener.socket.getsockname()[1]
            authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            yield _LoopbackRedirect(self, listener, authority, path)
        finally:
            listener.socket.close()

    async def _listen(self, registered: Sequence[str], path: str) -> tuple[str, trio.SocketListener]:
        places = [(host, self.port) for host in _HOSTS]
        if not self.port:
            # A registered redirect URI can be reused if its port is free, which saves another registration.
            places = [*_registered_addresses(registered, path), *places]
        failure: OSError | None = None
        for host, port in places:
            try:
                listeners = await trio.open_tcp_listeners(port, host=host, backlog=_MAX_REQUESTS)
            except OSError as error:
                failure = error
            else:
                return host, listeners[0]
        raise AuthorizationError(f"expected a free port on the loopback interface: {failure}") from failure


@define
class _LoopbackRedirect:
    """One login: the open port and the redirect that it receives."""

    _settings: LoopbackRedirects
    _listener: trio.SocketListener
    _authority: str
    _path: str
    _state: str = field(default="", init=False, repr=False)
    _result: str | None = field(default=None, init=False, repr=False)
    _done: trio.Event = field(factory=trio.Event, init=False)

    @property
    def uri(self) -> str:
        return f"http://{self._authority}{self._path}"

    async def authorize(self, url: str) -> str:
        check_url(url, "authorization_endpoint")
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[-1]
        with trio.move_on_after(self._settings.timeout):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, nursery)
                nursery.start_soon(self._show_url, url)
                await self._done.wait()
                nursery.cancel_scope.cancel()
        if self._result is None:
            raise AuthorizationError(
                f"no redirect from the authorization server within {self._settings.timeout:g} s; "
                "complete the login in the browser, or increase the timeout"
            )
        return self._result

    async def _show_url(self, url: str) -> None:
        self._settings.show(url)
        # The URL comes from another machine, so no program is started without the user's consent.
        if self._settings.consent is not None and await self._settings.consent(url):
            # In a thread, because it waits for the program that it starts; some browsers return only when they are
            # closed.
            await trio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)

    async def _listen(self, nursery: trio.Nursery) -> None:
        slots = trio.CapacityLimiter(_MAX_REQUESTS)
        while True:
            borrower = object()
            await slots.acquire_on_behalf_of(borrower)
            try:
                stream = await self._listener.accept()
            except OSError:
                # The connection was closed before it was accepted; the listener still works.
                slots.release_on_behalf_of(borrower)
                continue
            nursery.start_soon(self._serve, stream, partial(slots.release_on_behalf_of, borrower))

    async def _serve(self, stream: trio.SocketStream, release: Callable[[], None]) -> None:
        """Answer one request with a page."""
        try:
            with trio.move_on_after(_REQUEST_TIMEOUT):
                connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
                try:
                    request = await _read_request(stream, connection)
                    status, page, redirected = self._check_redirect(request)
                    # The browser may close the connection early; its request has been received.
                    with suppress(trio.BrokenResourceError):
                        await _answer(stream, connection, status, page)
                    self._take(redirected)
                except (h11.ProtocolError, trio.BrokenResourceError):
                    pass
                finally:
                    await trio.aclose_forcefully(stream)
        finally:
            release()

    def _check_redirect(self, request: h11.Request) -> tuple[int, str, str | None]:
        """Return status and page for a request, and the redirect URL if it is the expected redirect."""
        host = next((value.decode("latin-1") for name, value in request.headers if name == b"host"), "")
        target = request.target.decode("ascii", "replace")
        path, _, query = target.partition("?")
        # A web page can reach the port under another host name (DNS rebinding).
        if host.lower() != self._authority or path != self._path:
            return 404, _page("Not found", "This address is not part of a sign-in."), None
        if request.method != b"GET":
            return 405, _page("Method not allowed", "This address accepts only the redirect of a sign-in."), None
        try:
            states = parse_qs(query, max_num_fields=50).get("state", [])
        except ValueError:
            states = []
        if len(states) != 1 or not self._state or not compare_digest(states[0].encode(), self._state.encode()):
            text = (
                "This is not the sign-in that was started. Open the address that the program showed, and sign in again."
            )
            return 400, _page("Unknown sign-in", text), None
        program = escape(self._settings.program)
        text = f"Return to {program} for the result. You can close this window."
        return 200, _page("Sign-in received", text), f"{self.uri}?{query}"

    def _take(self, redirected: str | None) -> None:
        if redirected is not None and self._result is None:
            self._result = redirected
            self._done.set()


def _registered_addresses(registered: Sequence[str], path: str) -> list[tuple[str, int]]:
    """Return hosts and ports of the redirect URIs that an authorization server has registered."""
    known = []
    for uri in registered[:8]:
        try:
            there = urlsplit(uri)
            host, port = there.hostname, there.port
        except ValueError:
            continue
        if host in _HOSTS and port and (there.scheme, there.path) == ("http", path):
            known.append((host, port))
    return known


async def _read_request(stream: trio.SocketStream, connection: h11.Connection) -> h11.Request:
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise h11.RemoteProtocolError("expected a request")
        connection.receive_data(await stream.receive_some(_MAX_HEAD_BYTES))


async def _answer(stream: trio.SocketStream, connection: h11.Connection, status: int, page: str) -> None:
    body = page.encode()
    headers = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Content-Security-Policy", _POLICY),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("Connection", "close"),
    ]
    for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
        await stream.send_all(connection.send(event) or b"")
    await stream.send_eof()


_STYLE: Final = (
    ":root { color-scheme: light dark; font: 1.125rem/1.6 system-ui, sans-serif }"
    " main { max-width: 32rem; margin: 15vh auto; padding: 0 1rem }"
)
# The page needs only its own style; nothing else may load or frame it.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def _page(title: str, text: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{title}</h1><p>{text}</p></main></body></html>\n"
    )
