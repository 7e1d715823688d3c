"""Parses the requests of one connection, without I/O and without a clock.

The connection passes the received bytes to it. llhttp parses them in its strict mode, and this module refuses further
requests that a server must refuse. If another parser could disagree on where a request ends, the connection ends.

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
    """The path, percent-decoded."""
    query: bytes
    headers: list[tuple[bytes, bytes]]
    """Names in lower case, as in ASGI, and values."""
    version: str
    keep_alive: bool
    """True if another request may follow."""
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
        reason: A text for the log, which contains nothing of the input.
    """

    status: int
    reason: str


_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{0,5})?")
_FOREIGN: Final = re.compile(rb" +(?:RTSP|ICE)/")
"""The end of a request line of the other protocols that llhttp accepts."""

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
        "_has_ended",
        "_headers",
        "_in_head",
        "_last_host",
        "_limit",
        "_may_exceed_limit",
        "_overhead",
        "_parser",
        "_partial_line",
        "_refused",
        "_target",
        "began",
        "unread",
    )

    def __init__(self, header_bytes: int) -> None:
        self._limit = header_bytes
        self._parser: httptools.HttpRequestParser | None = None
        """Made when it is needed, because the parser takes a third of the memory of a waiting connection."""
        self._events: list[Event] = []
        self._refused: MalformedRequest | None = None
        self._has_ended = False
        self._in_head = True
        self._overhead = 0
        """Bytes outside bodies since the last byte of a body."""
        self._may_exceed_limit = False
        """True if a head in the current data may exceed the limit, so that its exact size must be computed."""
        self.began = False
        """True while a head has begun and not ended."""
        self.unread = b""
        """Bytes that are not parsed yet. ``feed(b"")`` continues with them."""
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._partial_line = b""
        """The received part of the last line of an unfinished head."""
        self._last_host = b""
        """The last valid value of Host, which most requests of a connection repeat."""

    def feed(self, data: bytes) -> list[Event]:
        """Parse ``data`` and return its events. Never raises; after MalformedRequest or Upgraded, returns nothing."""
        # One packet may hold a thousand heads while other connections wait. So heads are parsed piece by piece, and the
        # rest stays in `unread`.
        if self.unread:
            data, self.unread = self.unread + data, b""
        if len(data) > _MAX_PIECE_BYTES and self._in_head:
            data, self.unread = data[:_MAX_PIECE_BYTES], data[_MAX_PIECE_BYTES:]
        if data and not self._has_ended:
            self.unread = self._read(data) + self.unread
        if self._has_ended:
            self.unread = b""
        events, self._events = self._events, []
        return events

    def free_parser(self) -> None:
        """Free the parser between two requests, if the next request is not expected soon."""
        if self._in_head and not (self.began or self._has_ended or self._overhead or self.unread):
            self._parser = None
            self._target = b""
            self._headers = []

    def close(self) -> None:
        """Accept no more data."""
        # Breaks a reference cycle, because the parser of httptools refers to this object.
        self._has_ended = True
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
        # Trailers of a chunked body arrive here too. They are dropped (RFC 9110 section 6.5.1).
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
                    self._reject(501, "a transfer coding other than chunked")
                is_chunked = True
            elif name == b"expect":
                if value.lower() != b"100-continue":
                    # RFC 9110 section 10.1.1.
                    self._reject(417, "an expectation other than 100-continue")
                expects_continue = True
            elif name == b"upgrade":
                upgrade = value.lower()
        version = parser.get_http_version()
        # HTTP/1.0 has no transfer codings (RFC 9112 section 6.1).
        if version != "1.1" and (version != "1.0" or is_chunked):
            self._reject(400 if version == "1.0" else 505, "HTTP/1.0 with a transfer coding, or another version")
        # RFC 9112 section 3.2: exactly one Host in HTTP/1.1.
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            self._reject(400, f"{hosts} Host headers")
        if self._may_exceed_limit and self._head_bytes() > self._limit:
            self._reject(431, f"a head of more than {self._limit} bytes")
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
        line = self._partial_line + data if self._partial_line else data
        end, foreign = len(data), 0
        # llhttp also accepts request lines of RTSP and ICE. Stop at such a line to check it.
        if b" RTSP/" in line or b" ICE/" in line:
            foreign = _foreign_end(line, len(line) - len(data))
            end = foreign or end
        piece = data[:end]
        self._overhead += end
        self._may_exceed_limit = self._overhead > self._limit
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            return self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(self._refused or _refusal(error))
        if self._overhead > self._limit and not self._has_ended:
            self._refuse(
                MalformedRequest(431 if self._in_head else 400, f"more than {self._limit} bytes outside bodies")
            )
        if not self.began:
            self._partial_line = b""
        else:
            line = line[: len(line) - len(data) + end]
            if foreign and self._is_foreign(line) and not self._has_ended:
                self._refuse(MalformedRequest(505, "another protocol than HTTP"))
            self._partial_line = line[line.rfind(b"\n") + 1 :]
        return data[end:]

    def _is_foreign(self, line: bytes) -> bool:
        """Return whether ``line`` ends a request line of another protocol. The same bytes in a body do not count."""
        assert self._parser is not None
        start, _, _ = line.rpartition(b"/")[0].rpartition(b" ")
        start = start.rstrip(b" ")
        method = start[: len(start) - len(self._target)].rstrip(b" ")
        return bool(self._target) and start.endswith(self._target) and method.endswith(self._parser.get_method())

    def _reject(self, status: int, reason: str) -> None:
        self._refused = MalformedRequest(status, reason)
        raise ValueError(reason)

    def _refuse(self, refused: MalformedRequest) -> None:
        self._has_ended = True
        self._events.append(refused)

    def _check_host(self, value: bytes) -> None:
        if value != self._last_host:
            if _HOST.fullmatch(value) is None:
                self._reject(400, "an invalid Host")
            self._last_host = value

    def _read_target(self, method: str) -> bytes:
        """Return path and query. The host of an absolute target replaces Host (RFC 9112 section 3.2.2)."""
        target = self._target
        # This server is not a proxy, and a fragment is never sent (RFC 9112 section 3.2).
        if method == "CONNECT" or b"#" in target:
            self._reject(400, "CONNECT, or a target with a fragment")
        if target.startswith(b"/") or (target == b"*" and method == "OPTIONS"):
            return target
        scheme, separator, rest = target.partition(b"://")
        authority, slash, path = rest.partition(b"/")
        if not separator or scheme.lower() not in (b"http", b"https") or not authority or b"@" in authority:
            self._reject(400, "a target that is neither a path nor a URL")
        authority, mark, query = authority.partition(b"?")
        self._check_host(authority)
        self._headers = [(name, value) for name, value in self._headers if name != b"host"]
        self._headers.append((b"host", authority))
        return b"/" + path if slash else b"/" + mark + query

    def _upgrade(self, rest: bytes) -> bytes:
        """Continue after a request that offers to change the protocol, because llhttp stops parsing there."""
        # Offers other than WebSocket are ignored, as a server may (RFC 9110 section 7.8). Some clients offer HTTP/2
        # with their first request and send a body, so the request is parsed again without the offer.
        head = next(event for event in reversed(self._events) if isinstance(event, ParsedHead))
        if head.is_websocket:
            self._has_ended = True
            self._events.append(Upgraded(rest + self.unread))
            return b""
        while self._events.pop() is not head:
            pass
        lines = [b"%b %b HTTP/%b\r\n" % (head.method.encode("ascii"), head.target, head.version.encode("ascii"))]
        lines += [b"%b: %b\r\n" % each for each in head.headers if each[0] not in (b"upgrade", b"connection")]
        lines.append(b"connection: %b\r\n\r\n" % (b"keep-alive" if head.keep_alive else b"close"))
        self._parser = httptools.HttpRequestParser(self)
        self._overhead, self._partial_line = 0, b""
        replayed = b"".join(lines)
        while replayed and not self._has_ended:
            replayed = self._read(replayed)
        return rest

    def _head_bytes(self) -> int:
        return len(self._target) + sum([len(name) + len(value) + 4 for name, value in self._headers])


def _foreign_end(line: bytes, fed: int) -> int:
    """Return where the next possible name of another protocol ends, counted from ``fed``; 0 if there is none."""
    ends = (match.end() for match in _FOREIGN.finditer(line))
    return next((end - fed for end in ends if end > fed), 0)


def _refusal(error: httptools.HttpParserError) -> MalformedRequest:
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return MalformedRequest(501, "an unknown method")
    # "PRI" begins the connection preface of HTTP/2 (RFC 9113 section 3.4).
    return MalformedRequest(505 if "version" in str(error) or "PRI" in str(error) else 400, str(error)[:80])
