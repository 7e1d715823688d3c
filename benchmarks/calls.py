"""The requests of load generators, in both kinds of revision, encoded beforehand except for the number.

Encoding must not cost the generator time during a measurement. All ids have the same length, so a call is three
pieces of bytes: the text before its id, the id, and the text after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ERAS", "FIRST", "HANDSHAKE", "MEMO", "MODERN", "Call", "Peer"]

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ERAS = (MODERN, HANDSHAKE)

FIRST = 10_000_000
"""The first id, and how many there are before they get longer."""
MEMO = "memo://today"
"""The resource that the tool ``touch`` says has changed."""

_CLIENT = {"name": "benchmark", "version": "1"}


@dataclass(frozen=True)
class Call:
    """A request without its id."""

    before: bytes
    after: bytes

    def numbered(self, number: int) -> bytes:
        return b"%b%d%b" % (self.before, FIRST + number % FIRST, self.after)


@dataclass(frozen=True)
class Peer:
    """A client of an HTTP endpoint: a session, or an anonymous client in 2026-07-28.

    Args:
        session: the id of the session, if there is one.
    """

    port: int
    era: str
    session: str = ""

    def initialize(self) -> bytes:
        params = {"protocolVersion": self.era, "capabilities": {}, "clientInfo": _CLIENT}
        return self._post("", _request("initialize", params)).numbered(0)

    def initialized(self) -> bytes:
        body = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
        return _head(self.port, self._session(), len(body)) + body.encode()

    def delete(self) -> bytes:
        """Return the request that ends the session."""
        return f"DELETE /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n{self._session()}\r\n".encode()

    def call(self, tool: str, arguments: Mapping[str, Any], *, progress: bool = False) -> Call:
        """Return a call of a tool.

        Args:
            progress: True to request progress notifications.
        """
        params = {"name": tool, "arguments": arguments}
        return self._request("tools/call", f"mcp-name: {tool}\r\n", params, {"progressToken": 1} if progress else {})

    def listen(self) -> Call:
        """Return a request for the changes of the memo, in 2026-07-28 only."""
        return self._request("subscriptions/listen", "", {"notifications": {"resourceSubscriptions": [MEMO]}}, {})

    def _request(self, method: str, name: str, params: Mapping[str, Any], meta: Mapping[str, Any]) -> Call:
        if self.era == MODERN:
            headers = f"mcp-protocol-version: {MODERN}\r\nmcp-method: {method}\r\n{name}"
            envelope = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": _CLIENT,
            }
            return self._post(headers, _request(method, {**params, "_meta": {**envelope, **meta}}))
        return self._post(self._session(), _request(method, {**params, **({"_meta": meta} if meta else {})}))

    def _session(self) -> str:
        return f"mcp-session-id: {self.session}\r\nmcp-protocol-version: {self.era}\r\n"

    def _post(self, headers: str, body: str) -> Call:
        before, found, after = body.partition(str(FIRST))
        assert found
        return Call(_head(self.port, headers, len(body)) + before.encode(), after.encode())


def _head(port: int, headers: str, length: int) -> bytes:
    return (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\ncontent-length: {length}\r\n{headers}\r\n"
    ).encode()


def _request(method: str, params: Mapping[str, Any]) -> str:
    message = {"jsonrpc": "2.0", "id": FIRST, "method": method, "params": params}
    return json.dumps(message, separators=(",", ":"))
