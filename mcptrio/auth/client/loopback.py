"""A way back for a browser to a program on the same machine: a port of the loopback interface, for as long as it takes.

Used by :mod:`mcptrio.auth.client.oauth`, where nothing else was said.
The one rule: no program is started unless the person has said yes to it. Otherwise the address is shown, and opening it
is up to them.

What may come to the port comes from any program of the machine and any page in its browsers, so only a request with the
state of this attempt ends the wait; everything else gets an error page and changes nothing.

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

_HOSTS: Final = ("127.0.0.1", "::1")
"""An address and not ``localhost``, which somebody may have pointed elsewhere (RFC 8252 section 8.3)."""
_REQUEST_TIMEOUT: Final = 10.0
"""For one request to the loopback port, whole."""
_MAX_REQUESTS: Final = 16
"""At once; browsers open a few connections ahead. What comes beyond them waits in the queue of the system."""
_MAX_HEAD_BYTES: Final = 16 * 1024
"""Bytes of a request."""


def _print(url: str) -> None:
    sys.stderr.write(f"To authorize this program, open this address in a browser:\n\n  {url}\n\n")
    sys.stderr.flush()


@frozen(kw_only=True)
class LoopbackRedirects:
    """Browsers of this machine are sent back to a port of this machine.

    Args:
        show: told the address to open; by default it is printed to standard error.
        consent: asked whether a browser may be opened at this address, while the way back is open already. By default
            none is opened.
        port: to listen on; by default any free one. Wanted where an authorization server compares the whole address,
            with the port.
        path: of the address that browsers are sent back to. Each authorization server that registers clients gets one
            of its own below it.
        timeout: seconds the person has.
        program: what the page that ends it calls this program.
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
        """A port of the loopback interface. See :meth:`mcptrio.auth.Redirects.open`.

        Raises:
            AuthorizationError: it is taken, or there is no such interface.
        """
        path = self.path if issuer is None else f"{self.path.rstrip('/')}/{issuer_mark(issuer)}"
        host, listener = await self._listen(registered, path)
        try:
            port = listener.socket.getsockname()[1]
            authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            yield _Loopback(self, listener, authority, path)
        finally:
            listener.socket.close()

    async def _listen(self, registered: Sequence[str], path: str) -> tuple[str, trio.SocketListener]:
        places = [(host, self.port) for host in _HOSTS]
        if not self.port:
            places = [*_known(registered, path), *places]
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
class _Loopback:
    """One way back, and who comes along it."""

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
                nursery.start_soon(self._send_away, url)
                await self._done.wait()
                nursery.cancel_scope.cancel()
        if self._result is None:
            raise AuthorizationError(
                f"nobody came back from the authorization server within {self._settings.timeout:g} seconds"
            )
        return self._result

    async def _send_away(self, url: str) -> None:
        self._settings.show(url)
        if self._settings.consent is not None and await self._settings.consent(url):
            # In a thread: it waits for the program that it starts, and some do not return while they are open.
            await trio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)

    async def _listen(self, nursery: trio.Nursery) -> None:
        slots = trio.CapacityLimiter(_MAX_REQUESTS)
        while True:
            who = object()
            await slots.acquire_on_behalf_of(who)
            try:
                stream = await self._listener.accept()
            except OSError:
                slots.release_on_behalf_of(who)  # one connection, which has gone already
                continue
            nursery.start_soon(self._serve, stream, partial(slots.release_on_behalf_of, who))

    async def _serve(self, stream: trio.SocketStream, release: Callable[[], None]) -> None:
        """One request, answered with a page."""
        try:
            with trio.move_on_after(_REQUEST_TIMEOUT):
                connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
                try:
                    request = await _read_request(stream, connection)
                    status, page, redirected = self._judge(request)
                    with suppress(trio.BrokenResourceError):  # the browser has left; what it brought is here
                        await _answer(stream, connection, status, page)
                    self._take(redirected)
                except (h11.ProtocolError, trio.BrokenResourceError):
                    pass
                finally:
                    await trio.aclose_forcefully(stream)
        finally:
            release()

    def _judge(self, request: h11.Request) -> tuple[int, str, str | None]:
        """What to answer; and the URL, if it is what was waited for."""
        host = next((value.decode("latin-1") for name, value in request.headers if name == b"host"), "")
        target = request.target.decode("ascii", "replace")
        path, _, query = target.partition("?")
        if host.lower() != self._authority or path != self._path:
            return 404, _page("There is nothing here", "This address is not part of a sign-in."), None
        if request.method != b"GET":
            return 405, _page("Not like this", "A browser was expected to come back here by itself."), None
        try:
            states = parse_qs(query, max_num_fields=50).get("state", [])
        except ValueError:
            states = []
        if len(states) != 1 or not self._state or not compare_digest(states[0].encode(), self._state.encode()):
            text = "This is not the sign-in that was started. Go back to the address that was shown, and begin again."
            return 400, _page("This does not belong here", text), None
        program = escape(self._settings.program)
        text = f"You are back. Go to {program}: it goes on, or says what is missing. This window can be closed."
        return 200, _page("Back from signing in", text), f"{self.uri}?{query}"

    def _take(self, redirected: str | None) -> None:
        if redirected is not None and self._result is None:
            self._result = redirected
            self._done.set()


def _known(registered: Sequence[str], path: str) -> list[tuple[str, int]]:
    """The ports that an authorization server knows us by."""
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
