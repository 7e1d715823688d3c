"""A raw client: it sends and receives JSON-RPC messages as dicts, in any revision, over any transport.

The ``serve`` fixture creates it, and every test of this directory uses it. A test states the client's intention, and
this file sends it in the form of the revision and transport: a handshake or an envelope and headers, a response or a
retry, a notification or a disconnect.

Source: MCP 2025-11-25, basic/lifecycle and basic/transports; MCP 2026-07-28, basic/index, basic/transports.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import trio
from attrs import define, field

from tests.interaction.applies import HANDSHAKE, SINCE_2025_06
from tests.interaction.wires import ChannelWire, Exchange, HTTPWire

__all__ = ["CAPABILITIES", "INFO", "LOG_LEVEL", "SUBSCRIPTION_ID", "VERSION", "Call", "Peer"]

VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

INFO: Final = {"name": "raw", "version": "1"}
MAX_ROUNDS = 20

_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member of the params that ``Mcp-Name`` repeats, by method."""

Answerer = Callable[[dict[str, Any]], dict[str, Any]]


@define(eq=False)
class Call:
    """A request in flight."""

    id: Any
    peer: Peer
    exchange: Exchange | None = None
    messages: list[dict[str, Any]] = field(factory=list)
    """Messages on the request's own stream (HTTP)."""
    answer: dict[str, Any] | None = None
    arrived: trio.Event = field(factory=trio.Event)

    async def wait(self) -> dict[str, Any]:
        """Return the complete response."""
        with self.peer.deadline():
            if self.exchange is None:
                await self.arrived.wait()
            else:
                await self.exchange.ended.wait()
        assert self.answer is not None, f"no answer to {self.id!r}: {self.exchange}"
        return self.answer

    async def result(self) -> dict[str, Any]:
        message = await self.wait()
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    async def error(self) -> dict[str, Any]:
        message = await self.wait()
        assert "result" not in message, message
        error: dict[str, Any] = message["error"]
        return error

    async def cancel(self, reason: str | None = None) -> None:
        """Cancel the request in the form of the revision and the transport."""
        if self.exchange is not None and not self.peer.handshake:
            self.exchange.disconnect()
            return
        await self.peer.notify(
            "notifications/cancelled", {"requestId": self.id, **({"reason": reason} if reason else {})}
        )

    async def disconnect(self) -> None:
        """Close the socket of the request (HTTP)."""
        assert self.exchange is not None
        self.exchange.disconnect()
        await self.exchange.ended.wait()


@define(eq=False, slots=False)
class Peer:
    """One client.

    Attributes:
        answers: Its responses to the server's requests, by method.
        asked: The server's requests in wire form: method and params.
        received: All received messages, in order.
        unread: The messages that :meth:`until` has not returned.
    """

    revision: str
    wire: ChannelWire | HTTPWire
    nursery: trio.Nursery
    capabilities: dict[str, Any] = field(factory=dict)
    seconds: float = 5.0
    """Timeout of a wait, in seconds of the test's clock."""
    answers: dict[str, Answerer] = field(factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(factory=list)
    received: list[Any] = field(factory=list)
    unread: deque[Any] = field(factory=deque)
    initialized: dict[str, Any] | None = None
    """The result of ``initialize``."""
    session: str | None = None
    """The id of the HTTP session."""
    log_level: str | None = None
    ended: trio.Event = field(factory=trio.Event)
    """Set when the channel has ended."""
    refusals: list[Exchange] = field(factory=list)
    """Tasks that send notifications and responses (HTTP)."""
    _last_id: int = 0
    _calls: dict[Any, list[Call]] = field(factory=dict)
    _came: trio.Event = field(factory=trio.Event)
    _stream: Exchange | None = None

    # Revision and transport

    @property
    def handshake(self) -> bool:
        return self.revision in HANDSHAKE

    @property
    def http(self) -> bool:
        return isinstance(self.wire, HTTPWire)

    def deadline(self) -> Any:
        return trio.fail_after(self.seconds)

    # Messages

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read the channel until it ends. Returns at once over HTTP."""
        task_status.started()
        if isinstance(self.wire, HTTPWire):
            return
        while (values := await self.wire.receive()) is not None:
            for value in values:
                self._deliver(value, None)
        self.ended.set()
        for call in [call for calls in self._calls.values() for call in calls]:
            call.arrived.set()
        self._wake()

    async def begin(self) -> None:
        """Run the handshake, if the revision has one."""
        if self.handshake:
            await self.initialize()
            await self.notify("notifications/initialized")

    async def initialize(self, version: str | None = None) -> dict[str, Any]:
        params = {
            "protocolVersion": version or self.revision,
            "capabilities": self.capabilities,
            "clientInfo": INFO,
        }
        call = await self.start("initialize", params)
        self.initialized = await call.result()
        if call.exchange is not None:
            self.session = call.exchange.headers.get("mcp-session-id")
        return self.initialized

    async def start(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        id: Any = None,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Call:
        """Send a request, and return the call, whose response can be awaited."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        with_meta = self.params(params, meta)
        if with_meta:
            message["params"] = with_meta
        return await self.send(message, headers=headers)

    def params(self, params: Mapping[str, Any] | None, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the params with this revision's ``_meta``."""
        params = dict(params or {})
        added = dict(meta or {})
        if not self.handshake:
            added = {VERSION: self.revision, CAPABILITIES: self.capabilities, CLIENT_INFO: INFO, **added}
            if self.log_level is not None:
                added.setdefault(LOG_LEVEL, self.log_level)
        if added:
            params["_meta"] = {**added, **params.get("_meta", {})}
        return params

    async def send(self, message: Any, *, headers: Mapping[str, str] | None = None, own: bool = True) -> Call:
        """Send any message unchanged: a dict, or a list for a batch.

        Args:
            headers: Replace or extend the usual ones; an empty value removes one (HTTP).
        """
        id = message.get("id") if isinstance(message, dict) else None
        call = Call(id, self)
        if isinstance(message, dict) and "method" in message and id is not None:
            self._calls.setdefault(id, []).append(call)
        await self.send_bytes(
            json.dumps(message).encode(), call=call, headers={**self._headers(message), **(headers or {})}
        )
        return call

    async def send_bytes(
        self, data: bytes, *, call: Call | None = None, headers: Mapping[str, str] | None = None
    ) -> Call:
        """Send bytes that may not be a message."""
        call = call or Call(None, self)
        if not isinstance(self.wire, HTTPWire):
            await self.wire.send(data)
            return call
        call.exchange = Exchange()
        sent = self._headers({}) if headers is None else headers
        sent = {name: value for name, value in sent.items() if value}

        def deliver(value: Any, exchange: Exchange) -> None:
            self._deliver(value, call)

        self.nursery.start_soon(self.wire.run, call.exchange, "POST", sent, data, deliver)
        return call

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Call:
        """Send a notification. Over HTTP, return when the server has accepted it."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None or not self.handshake:
            message["params"] = self.params(params)
        call = await self.send(message)
        if call.exchange is not None:
            with self.deadline():
                await call.exchange.ended.wait()
            if call.exchange.status != 202:
                self.refusals.append(call.exchange)
        return call

    # Common requests

    async def request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """Return the result of a request; server requests are answered meanwhile, in the revision's form."""
        call = await self.start(method, params, **options)
        result = await call.result()
        options.pop("id", None)
        for _ in range(MAX_ROUNDS):
            if result.get("resultType") != "input_required" or not self.answers:
                return result
            result = await (await self.retry(method, params, result, **options)).result()
        raise AssertionError("the server never stops asking")

    async def retry(
        self, method: str, params: Mapping[str, Any] | None, result: Mapping[str, Any], **options: Any
    ) -> Call:
        """Send the next round of a request that needs input."""
        responses = {
            key: self._answer(question["method"], question.get("params") or {})
            for key, question in result.get("inputRequests", {}).items()
        }
        more: dict[str, Any] = {"inputResponses": responses}
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        return await self.start(method, {**(params or {}), **more}, **options)

    async def error(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """Return the error of a request that must fail."""
        return await (await self.start(method, params, **options)).error()

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """Return the result of a tool."""
        return await self.request("tools/call", {"name": tool, "arguments": dict(arguments or {})}, **options)

    async def text(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Return the text of a tool that succeeds."""
        result = await self.call(tool, arguments, **options)
        assert not result.get("isError"), result
        return "\n".join(block["text"] for block in result["content"])

    async def failure(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Return the text of a tool that fails with ``isError``."""
        result = await self.call(tool, arguments, **options)
        assert result.get("isError") is True, result
        return "\n".join(block["text"] for block in result["content"])

    async def start_call(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Call:
        return await self.start("tools/call", {"name": tool, "arguments": dict(arguments or {})}, **options)

    async def set_log_level(self, level: str) -> None:
        """Request log messages: for the session, or for every later request."""
        if self.handshake:
            await self.request("logging/setLevel", {"level": level})
        else:
            self.log_level = level

    async def open_stream(self) -> None:
        """Open the stream of the session's own messages, if the channel does not carry them."""
        if self._stream is None and isinstance(self.wire, HTTPWire) and self.handshake:
            self._stream = await self.get()
            assert self._stream.status == 200

    async def get(self, **headers: str) -> Exchange:
        """Send a GET; return when its response has begun."""
        return await self._bodiless("GET", **headers)

    async def _bodiless(self, method: str, **headers: str) -> Exchange:
        assert isinstance(self.wire, HTTPWire)
        exchange = Exchange()
        sent = {**self._headers({}), **{name.replace("_", "-"): value for name, value in headers.items()}}

        def deliver(value: Any, exchange: Exchange) -> None:
            self._deliver(value, None)

        self.nursery.start_soon(self.wire.run, exchange, method, sent, b"", deliver)
        with self.deadline():
            await exchange.began.wait()
        return exchange

    async def leave(self) -> None:
        """Close the channel."""
        assert not isinstance(self.wire, HTTPWire)
        await self.wire.aclose()

    async def delete(self) -> Exchange:
        """End the session (HTTP)."""
        return await self._bodiless("DELETE")

    async def watch(self, *kinds: Literal["tools", "prompts", "resources"], uris: Sequence[str] = ()) -> Call | None:
        """Subscribe to changes in the revision's form. Return the listening request, if there is one."""
        if self.handshake:
            await self.open_stream()
            for uri in uris:
                await self.request("resources/subscribe", {"uri": uri})
            # The response shows that the server has also read `initialized`, before which it may send nothing.
            await self.request("ping")
            return None
        wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in kinds}
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        call = await self.start("subscriptions/listen", {"notifications": wanted})
        await self.until("notifications/subscriptions/acknowledged")
        return call

    # Received messages

    async def eventually(self, claim: Callable[[], bool]) -> None:
        """Wait until this is true of the server, if no message reports it."""
        for _ in range(6000):
            if claim():
                return
            # Short on either clock: a clock that jumps must not pass the server's deadlines.
            await trio.sleep(0.005)
        raise AssertionError("what was waited for did not happen")

    async def until(self, wanted: str | Callable[[Any], bool]) -> Any:
        """Return the next message with this method, or for which the predicate is true; skip the messages before it."""
        with self.deadline():
            while True:
                while self.unread:
                    message = self.unread.popleft()
                    if callable(wanted) and wanted(message):
                        return message
                    if isinstance(message, dict) and message.get("method") == wanted:
                        return message
                assert not self.ended.is_set(), f"the channel has ended before {wanted} came"
                self._came = trio.Event()
                await self._came.wait()

    def notes(self, method: str) -> list[dict[str, Any]]:
        """Return the params of every notification of this method so far."""
        return [
            message.get("params", {})
            for message in self.received
            if isinstance(message, dict) and message.get("method") == method
        ]

    # Private

    def _headers(self, message: Any) -> dict[str, str]:
        headers: dict[str, str] = {}
        method = message.get("method") if isinstance(message, dict) else None
        if self.handshake:
            if self.session is not None:
                headers["mcp-session-id"] = self.session
                if self.revision in SINCE_2025_06:
                    headers["mcp-protocol-version"] = self.revision
            return headers
        headers["mcp-protocol-version"] = self.revision
        if method is not None:
            headers["mcp-method"] = method
            name = (message.get("params") or {}).get(_NAMED.get(method, ""))
            if isinstance(name, str):
                headers["mcp-name"] = name
        return headers

    def _deliver(self, value: Any, call: Call | None) -> None:
        self.received.append(value)
        self.unread.append(value)
        if call is not None:
            call.messages.append(value)
        for message in value if isinstance(value, list) else [value]:
            if "method" in message:
                if "id" in message:
                    self._handle_request(message)
            elif call is not None and call.answer is None and message.get("id") in (call.id, None):
                self._settle(call, message)
            elif message.get("id") in self._calls:
                self._settle(self._calls[message["id"]][-1], message)
        self._wake()

    def _settle(self, call: Call, message: dict[str, Any]) -> None:
        waiting = self._calls.get(call.id)
        if waiting is not None and call in waiting:
            waiting.remove(call)
            if not waiting:
                del self._calls[call.id]
        call.answer = message
        call.arrived.set()

    def _handle_request(self, message: dict[str, Any]) -> None:
        if message["method"] == "ping" and "ping" not in self.answers:
            self.nursery.start_soon(self.respond, message["id"], {})
        elif message["method"] in self.answers:
            self.nursery.start_soon(
                self.respond, message["id"], self._answer(message["method"], message.get("params", {}))
            )

    async def respond(self, id: Any, result: dict[str, Any]) -> None:
        """Respond to a request of the server; a result with the member ``error`` is an error."""
        await self.send({"jsonrpc": "2.0", "id": id, **(result if "error" in result else {"result": result})})

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((method, params))
        return self.answers[method](params)

    def _wake(self) -> None:
        self._came.set()
