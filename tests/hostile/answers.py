"""A strict reader of HTTP responses.

The player of the cases uses it. Any response that another client could read differently is a failure. It shares no code
with the engines' libraries, so an error in them cannot hide itself.

Source: RFC 9112 sections 4, 5, 6.3 and 7.1.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import define, field, frozen

__all__ = ["Answer", "Answers", "NotHTTP"]

_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [\t -~\x80-\xff]*")
_FIELD = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?|)[ \t]*"
)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")


class NotHTTP(Exception):
    """The received data is no well-formed response."""


@frozen
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def seen(self) -> dict[str, Any]:
        """Return the application's report of the request."""
        value: dict[str, Any] = json.loads(self.body)
        return value


@define
class Answers:
    """The responses parsed from the bytes of one connection.

    Args:
        head: Whether the requests were HEAD, whose responses have no body.

    Attributes:
        complete: Complete responses without interim ones, except one that switches protocols.
        interim: Statuses of the interim responses.
        unread: The received part of the next response, or of the data after a 101.
    """

    head: bool = False
    complete: list[Answer] = field(factory=list)
    interim: list[int] = field(factory=list)
    unread: bytearray = field(factory=bytearray)
    switched: bool = False
    _pending: tuple[int, dict[str, str]] | None = None
    _body: bytearray = field(factory=bytearray)

    @property
    def count(self) -> int:
        return len(self.complete) + len(self.interim)

    def feed(self, data: bytes) -> None:
        """Parse the next received bytes.

        Raises:
            NotHTTP: A response is malformed.
        """
        self.unread += data
        while not self.switched and self._step():
            pass

    def end(self) -> None:
        """Record that the server has closed the connection.

        Raises:
            NotHTTP: The last response is incomplete.
        """
        if self._pending is not None:
            status, headers = self._pending
            if "content-length" not in headers and "transfer-encoding" not in headers:
                self._finish(bytes(self.unread))
                self.unread.clear()
                return
            raise NotHTTP(f"a response with status {status} broke off after {len(self._body) + len(self.unread)} bytes")
        if self.unread and not self.switched:
            raise NotHTTP(f"half a head: {bytes(self.unread[:200])!r}")

    def _step(self) -> bool:
        if self._pending is None:
            return self._read_head()
        _, headers = self._pending
        if "transfer-encoding" in headers:
            return self._read_chunk()
        if "content-length" not in headers:
            return False  # until the connection closes
        length = int(headers["content-length"])
        if len(self.unread) < length:
            return False
        body = bytes(self.unread[:length])
        del self.unread[:length]
        self._finish(body)
        return True

    def _read_head(self) -> bool:
        end = self.unread.find(b"\r\n\r\n")
        if end < 0:
            if len(self.unread) > 65536:
                raise NotHTTP("a head without an end")
            return False
        first, *lines = bytes(self.unread[:end]).split(b"\r\n")
        del self.unread[: end + 4]
        line = _STATUS_LINE.fullmatch(first)
        if line is None:
            raise NotHTTP(f"status line: {first[:200]!r}")
        status = int(line[1])
        headers: dict[str, str] = {}
        for each in lines:
            match = _FIELD.fullmatch(each)
            if match is None:
                raise NotHTTP(f"field: {each[:200]!r}")
            name = match[1].decode().lower()
            if name in headers and name in ("content-length", "transfer-encoding", "date", "content-type"):
                raise NotHTTP(f"{name} twice")
            headers[name] = match[2].decode("latin-1")
        if "content-length" in headers and "transfer-encoding" in headers:
            raise NotHTTP("both Content-Length and Transfer-Encoding")
        if not re.fullmatch("[0-9]{1,15}", headers.get("content-length", "0")):
            raise NotHTTP(f"Content-Length: {headers['content-length']}")
        if headers.get("transfer-encoding", "chunked") != "chunked":
            raise NotHTTP(f"Transfer-Encoding: {headers['transfer-encoding']}")
        if status == 101:
            self.switched = True
            self.complete.append(Answer(status, headers, b""))
        elif status < 200:
            if "content-length" in headers or "transfer-encoding" in headers:
                raise NotHTTP(f"{status} with a body (RFC 9110, 8.6)")
            self.interim.append(status)
        elif self.head or status in (204, 304):
            self.complete.append(Answer(status, headers, b""))
        else:
            self._pending = status, headers
        return True

    def _read_chunk(self) -> bool:
        end = self.unread.find(b"\r\n")
        if end < 0:
            return False
        match = _CHUNK.fullmatch(bytes(self.unread[: end + 2]))
        if match is None:
            raise NotHTTP(f"chunk: {bytes(self.unread[:40])!r}")
        size = int(match[1], 16)
        if len(self.unread) < end + 2 + size + 2:
            return False
        if self.unread[end + 2 + size : end + 4 + size] != b"\r\n":
            raise NotHTTP("a chunk that is longer than it says, or trailers that nobody asked for")
        self._body += self.unread[end + 2 : end + 2 + size]
        del self.unread[: end + 4 + size]
        if size == 0:
            self._finish(bytes(self._body))
        return True

    def _finish(self, body: bytes) -> None:
        assert self._pending is not None
        status, headers = self._pending
        self._pending = None
        self._body.clear()
        self.complete.append(Answer(status, headers, body))
