"""HTTP/1.1 of the hardened Hypercorn: one write for a response, and nothing let through that is ambiguous.

Made by :mod:`mcptrio.http.hypercorn.connection` for each connection that does not speak HTTP/2. Differs from
Hypercorn's own in that

- head and body leave in one write, and nothing is written for an empty end;
- Content-Length beside Transfer-Encoding, a Host that is none, versions but 1.0 and 1.1, and CONNECT are refused;
- a method keeps its case; what is pipelined behind ``Connection: close`` is not read, and spoils no answer;
- 100 Continue is sent when the application waits for the body, not before;
- a WebSocket's handshake is checked, and nothing is compressed, since what is received would have no bound.

The one rule: a request of which two readers could disagree where it ends is refused, and ends the connection.

Source: hypercorn 0.18 ``protocol/h11.py``, its issues #277 and #279; RFC 9110 sections 7.2, 7.8 and 10.1.1; RFC 9112
sections 2.3, 3.2, 6.1, 6.3 and 9.6; RFC 6455 section 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import h11
from hypercorn.events import Closed, RawData
from hypercorn.protocol.events import Body, EndBody, Request, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream

from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.hypercorn.websocket import WebSocket

__all__ = ["HTTP1"]

_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")


class HTTP1(H11Protocol):
    """One connection. Takes what Hypercorn's takes, and is told the limits before anything arrives."""

    limits: ConnectionLimits
    connection: Any  # Hypercorn's annotation knows only its own
    _held: bytes = b""

    def begin(self, limits: ConnectionLimits) -> None:
        """Be ready for the first bytes."""
        self.limits = limits
        self.connection = _Reader(limits.header_bytes)

    @property
    def awaits_continue(self) -> bool:
        """Whether the client waits to be asked for the body."""
        return isinstance(self.connection, _Reader) and self.connection.waits_for_continue

    async def ask_to_continue(self) -> None:
        """The application waits: let the client send its body, if it waits to be told."""
        if self.awaits_continue:
            await self._send_h11_event(
                h11.InformationalResponse(status_code=100, headers=self.config.response_headers("h11"))
            )

    async def stream_send(self, event: StreamEvent) -> None:
        # ASGI starts a response with its first body message, so holding the head back until then loses nothing.
        if isinstance(event, Response) and event.status_code >= 200:
            headers = [*event.headers, *self.config.response_headers("h11")]
            if self.context.terminated.is_set():
                headers.append((b"connection", b"close"))
            self._held = self._encode(h11.Response(headers=headers, status_code=event.status_code))
        elif isinstance(event, Body):
            await self._write(self._encode(h11.Data(data=event.data)))
        elif isinstance(event, EndBody):
            await self._write(self._encode(h11.EndOfMessage()))
        else:
            await super().stream_send(event)

    async def _write(self, data: bytes) -> None:
        data, self._held = self._held + data, b""
        if data:
            await self.send(RawData(data=data))

    def _encode(self, event: Any) -> bytes:
        try:
            return self.connection.send(event) or b""
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return b""

    async def _check_protocol(self, event: h11.Request) -> None:
        if self.limits.http2:
            await super()._check_protocol(event)

    async def _create_stream(self, request: h11.Request) -> None:
        status = _problem(request, self.limits.header_bytes)
        is_websocket = not status and _asks_for_websocket(request)
        if is_websocket:
            status = _websocket_problem(request)
        if status:
            await self._refuse(status)
            return
        headers = list(request.headers)
        kind = WebSocket if is_websocket else HTTPStream
        self.stream = kind(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        if is_websocket:
            self.connection = H11WSConnection(self.connection)
            # Compressed, a message of a few bytes could be one of gigabytes, and its size is known too late.
            headers = [(name, value) for name, value in headers if name != b"sec-websocket-extensions"]
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=headers,
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii"),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        await self.context.mark_request()

    async def _refuse(self, status: int) -> None:
        headers = [(b"content-length", b"0"), (b"connection", b"close"), *self.config.response_headers("h11")]
        if status == 426:
            headers += [(b"sec-websocket-version", b"13"), (b"upgrade", b"websocket")]
        await self._send_h11_event(h11.Response(status_code=status, headers=headers))
        await self._send_h11_event(h11.EndOfMessage())
        await self.send(Closed())


class _Reader(h11.Connection):
    """h11 that is done with a client which said it was, and that leaves it to us when to say 100."""

    def __init__(self, header_bytes: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=header_bytes)
        self._header_bytes = header_bytes

    @property
    def they_are_waiting_for_100_continue(self) -> bool:
        """Never, for Hypercorn, which would say it at once."""
        return False

    @property
    def waits_for_continue(self) -> bool:
        return self.client_is_waiting_for_100_continue

    def receive_data(self, data: bytes) -> None:
        if self.their_state is not h11.MUST_CLOSE:
            super().receive_data(data)

    def next_event(self) -> Any:
        if self.their_state is h11.MUST_CLOSE:
            return h11.NEED_DATA  # h11 would raise where more has come, and a good request be answered with 400
        event = super().next_event()
        # h11 bounds only what is incomplete; what came in a single read passes it.
        if isinstance(event, h11.EndOfMessage) and _size(event.headers) > self._header_bytes:
            raise h11.RemoteProtocolError("trailers too long", error_status_hint=431)
        return event


def _problem(request: h11.Request, header_bytes: int) -> int:
    """The status to refuse a request with; 0 where nothing is wrong with it."""
    if request.http_version not in (b"1.0", b"1.1"):
        return 505
    if len(request.method) + len(request.target) + _size(request.headers) > header_bytes:
        return 431
    if request.method == b"CONNECT" or not request.target.isascii():
        return 400
    framings = 0
    for name, value in request.headers:
        if name == b"host" and not _HOST.fullmatch(value):
            return 400
        if name == b"transfer-encoding" and request.http_version == b"1.0":
            return 400
        framings += name in (b"transfer-encoding", b"content-length")
    # h11 has made one of several lengths that agree, and refuses several codings.
    return 400 if framings > 1 else 0


def _size(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return sum([len(name) + len(value) + 4 for name, value in headers])


def _values(request: h11.Request, wanted: bytes) -> list[bytes]:
    return [value for name, value in request.headers if name == wanted]


def _asks_for_websocket(request: h11.Request) -> bool:
    upgrade = _values(request, b"upgrade")
    if not upgrade or request.method != b"GET" or b",".join(upgrade).strip().lower() != b"websocket":
        return False
    tokens = b",".join(_values(request, b"connection")).lower().split(b",")
    return any(token.strip() == b"upgrade" for token in tokens)


def _websocket_problem(request: h11.Request) -> int:
    """The status to refuse a handshake with; 0 where nothing is wrong with it."""
    keys = _values(request, b"sec-websocket-key")
    if request.http_version != b"1.1" or len(keys) != 1 or not _KEY.fullmatch(keys[0]):
        return 400
    if _values(request, b"transfer-encoding") or any(int(value) for value in _values(request, b"content-length")):
        return 400  # what follows a handshake are frames, and no body
    return 0 if _values(request, b"sec-websocket-version") == [b"13"] else 426
