"""Parses the requests of one connection, without I/O and without a clock.

The connection passes the received bytes. llhttp parses them in its strict mode, and this module refuses requests that
llhttp accepts but a server must refuse. If two parsers could disagree on where a request ends, the connection ends.

Source: RFC 9110, RFC 9112 sections 2.2, 3, 5.1, 5.2, 6 and 11.2; RFC 6455 section 4.2.1.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

import httptools
from attrs import define, frozen

__all__ = ["END", "Body", "Event", "MalformedRequest", "ParsedHead", "RequestEnd", "RequestParser", "Upgraded"]


@define(eq=False, slots=True)
class ParsedHead:
    """A request line and its headers."""

    method: str
    target: bytes
    path: str
    """Percent-decoded."""
    query: bytes
    headers: list[tuple[bytes, bytes]]
    """Names in lower case, as ASGI has them."""
    version: str
    keep_alive: bool
    """Whether another request may follow."""
    expects_continue: bool
    is_websocket: bool


Body: TypeAlias = bytes
"""A part of a body."""


@frozen
class RequestEnd:
    """The end of a request."""


END: Final = RequestEnd()


@frozen
class Upgraded:
    """The bytes after a request that opens a WebSocket; they are not HTTP."""

    data: bytes


@frozen
class MalformedRequest:
    """Invalid input, after which the connection cannot continue.

    Args:
        status: The status of the response.
        why: The reason for the log, without any of the input.
    """

    status: int
    why: str


_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{0,5})?")
_FOREIGN: Final = re.compile(rb" +(?:RTSP|ICE)/")
"""The end of a request line in other protocols that llhttp accepts."""

_MAX_PIECE_BYTES: Final = 2048
"""Bytes of heads that are parsed at a time, which takes about 0.3 ms."""

Event: TypeAlias = ParsedHead | Body | RequestEnd | Upgraded | MalformedRequest


class RequestParser:
    """The parser of one connection.

    Args:
        header_bytes: Maximum bytes of one head, of the trailers of one body, and of other parts outside bodies.
    """

    __slots__ = (
        "_events",
        "_headers",
        "_host",
        "_in_head",
        "_limit",
        "_line",
        "_over",
        "_overhead",
        "_parser",
        "_refused",
        "_suspect",
        "_target",
        "began",
        "unread",
    )

    def __init__(self, header_bytes: int) -> None:
        self._limit = header_bytes
        self._parser: httptools.HttpRequestParser | None = None
        """Made when it is needed, because it takes a third of the memory of a waiting connection."""
        self._events: list[Event] = []
        self._refused: MalformedRequest | None = None
        self._over = False
        self._in_head = True
        self._overhead = 0
        """Bytes outside bodies since the last byte of a body."""
        self._suspect = False
        """Whether a head in the present data may exceed the limit, so that its exact size must be computed."""
        self.began = False
        """Whether a head has begun and not ended."""
        self.unread = b""
        """Bytes that are not parsed yet: ``feed(b"")`` continues."""
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._line = b""
        """The received part of the last line of an unfinished head."""
        self._host = b""
        """The last valid value of Host: most requests of a connection repeat it."""

    def feed(self, data: bytes) -> list[Event]:
        """Parse ``data`` and return its events. Never raises; after MalformedRequest or Upgraded, returns nothing."""
        # One packet may hold a thousand heads while other connections wait, so heads are parsed piece by piece; the
        # rest is `unread`.
        if self.unread:
            data, self.unread = self.unread + data, b""
        if len(data) > _MAX_PIECE_BYTES and self._in_head:
            data, self.unread = data[:_MAX_PIECE_BYTES], data[_MAX_PIECE_BYTES:]
        if data and not self._over:
            self.unread = self._read(data) + self.unread
        if self._over:
            self.unread = b""
        events, self._events = self._events, []
        return events

    def rest(self) -> None:
        """Free the parser between two requests, when the next one is not expected soon."""
        if self._in_head and not (self.began or self._over or self._overhead or self.unread):
            self._parser = None
            self._target = b""
            self._headers = []

    def close(self) -> None:
        """Accept no more data."""
        # Breaks a reference cycle: httptools' parser holds this object.
        self._over = True
        self._parser = None

    # Callbacks of llhttp. httptools raises their exceptions as HttpParserCallbackError.

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = []
        self._in_head = self.began = True

    def on_url(self, url: bytes) -> None:
        # A target may arrive in several parts.
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers of a chunked body arrive here too; they are dropped (RFC 9110 section 6.5.1).
        if self._in_head:
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self._in_head = self.began = False
        parser = self._parser
        assert parser is not None
        hosts, is_chunked, expects_continue, upgrade = 0, False, False, b""
        for name, value in self._headers:
            if name == b"host":
                hosts += 1
                self._check_host(value)
            elif name == b"transfer-encoding":
                # Parsers disagree on several codings and on an empty one, which allows request smuggling.
                if is_chunked or value.lower() != b"chunked":
                    self._stop(501, "a transfer coding other than chunked")
                is_chunked = True
            elif name == b"expect":
                if value.lower() != b"100-continue":
                    # RFC 9110 section 10.1.1.
                    self._stop(417, "an expectation other than 100-continue")
                expects_continue = True
            elif name == b"upgrade":
                upgrade = value.lower()
        version = parser.get_http_version()
        # HTTP/1.0 has no transfer codings (RFC 9112 section 6.1).
        if version != "1.1" and (version != "1.0" or is_chunked):
            self._stop(400 if version == "1.0" else 505, "HTTP/1.0 with a transfer coding, or another version")
        # RFC 9112 section 3.2: exactly one Host in HTTP/1.1.
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            self._stop(400, f"{hosts} Host headers")
        if self._suspect and self._size() > self._limit:
            self._stop(431, f"a head of more than {self._limit} bytes")
        method = parser.get_method().decode("ascii")
        path, _, query = self._read_target(method).partition(b"?")
        self._events.append(
            ParsedHead(
                method,
                self._target,
                path.decode("ascii") if b"%" not in path else unquote_to_bytes(path).decode("utf-8", "replace"),
                query,
                self._headers,
                version,
                parser.should_keep_alive(),
                expects_continue and version == "1.1",
                upgrade == b"websocket" and method == "GET" and version == "1.1" and parser.should_upgrade(),
            )
        )

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        self._events.append(body)

    def on_message_complete(self) -> None:
        self._events.append(END)
        self._overhead = 0
        self._in_head = True

    # Private

    def _read(self, data: bytes) -> bytes:
        """Parse some of the data, and return the rest."""
        line = self._line + data if self._line else data
        end, foreign = len(data), 0
        # llhttp also accepts request lines of RTSP and ICE. Stop at such a line to check it.
        if b" RTSP/" in line or b" ICE/" in line:
            foreign = _foreign_end(line, len(line) - len(data))
            end = foreign or end
        piece = data[:end]
        self._overhead += end
        self._suspect = self._overhead > self._limit
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            return self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(self._refused or _refusal(error))
        if self._overhead > self._limit and not self._over:
            self._refuse(
                MalformedRequest(431 if self._in_head else 400, f"more than {self._limit} bytes besides a body")
            )
        if not self.began:
            self._line = b""
        else:
            line = line[: len(line) - len(data) + end]
            if foreign and self._is_foreign(line) and not self._over:
                self._refuse(MalformedRequest(505, "another protocol than HTTP"))
            self._line = line[line.rfind(b"\n") + 1 :]
        return data[end:]

    def _is_foreign(self, line: bytes) -> bool:
        """Return whether ``line`` ends a request line of another protocol. The same bytes in a body do not count."""
        assert self._parser is not None
        start, _, _ = line.rpartition(b"/")[0].rpartition(b" ")
        start = start.rstrip(b" ")
        method = start[: len(start) - len(self._target)].rstrip(b" ")
        return bool(self._target) and start.endswith(self._target) and method.endswith(self._parser.get_method())

    def _stop(self, status: int, why: str) -> None:
        self._refused = MalformedRequest(status, why)
        raise ValueError(why)

    def _refuse(self, refused: MalformedRequest) -> None:
        self._over = True
        self._events.append(refused)

    def _check_host(self, value: bytes) -> None:
        if value != self._host:
            if _HOST.fullmatch(value) is None:
                self._stop(400, "a Host that is none")
            self._host = value

    def _read_target(self, method: str) -> bytes:
        """Return path and query. The host of an absolute target replaces Host (RFC 9112 section 3.2.2)."""
        target = self._target
        # This server is not a proxy, and a fragment is never sent (RFC 9112 section 3.2).
        if method == "CONNECT" or b"#" in target:
            self._stop(400, "CONNECT, or a target with a fragment")
        if target.startswith(b"/") or (target == b"*" and method == "OPTIONS"):
            return target
        scheme, found, rest = target.partition(b"://")
        authority, slash, path = rest.partition(b"/")
        if not found or scheme.lower() not in (b"http", b"https") or not authority or b"@" in authority:
            self._stop(400, "a target that is neither a path nor a URL")
        authority, mark, query = authority.partition(b"?")
        self._check_host(authority)
        self._headers = [(name, value) for name, value in self._headers if name != b"host"]
        self._headers.append((b"host", authority))
        return b"/" + path if slash else b"/" + mark + query

    def _upgrade(self, rest: bytes) -> bytes:
        """Continue after a request with an offer to change the protocol, at which llhttp stops parsing."""
        # Offers other than WebSocket are ignored, as a server may (RFC 9110 section 7.8). Some clients offer HTTP/2
        # with their first request and send a body, so the request is parsed again without the offer.
        head = next(event for event in reversed(self._events) if isinstance(event, ParsedHead))
        if head.is_websocket:
            self._over = True
            self._events.append(Upgraded(rest + self.unread))
            return b""
        while self._events.pop() is not head:
            pass
        lines = [b"%b %b HTTP/%b\r\n" % (head.method.encode("ascii"), head.target, head.version.encode("ascii"))]
        lines += [b"%b: %b\r\n" % each for each in head.headers if each[0] not in (b"upgrade", b"connection")]
        lines.append(b"connection: %b\r\n\r\n" % (b"keep-alive" if head.keep_alive else b"close"))
        self._parser = httptools.HttpRequestParser(self)
        self._overhead, self._line = 0, b""
        again = b"".join(lines)
        while again and not self._over:
            again = self._read(again)
        return rest

    def _size(self) -> int:
        return len(self._target) + sum([len(name) + len(value) + 4 for name, value in self._headers])


def _foreign_end(line: bytes, fed: int) -> int:
    """Return where the next possible name of another protocol ends, counted from ``fed``; 0 if there is none."""
    ends = (found.end() for found in _FOREIGN.finditer(line))
    return next((end - fed for end in ends if end > fed), 0)


def _refusal(error: httptools.HttpParserError) -> MalformedRequest:
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return MalformedRequest(501, "an unknown method")
    # "PRI" begins the connection preface of HTTP/2 (RFC 9113 section 3.4).
    return MalformedRequest(505 if "version" in str(error) or "PRI" in str(error) else 400, str(error)[:80])
