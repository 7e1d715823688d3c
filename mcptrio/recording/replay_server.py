"""Answers requests from a recording, as the recorded server did.

``mcptrio replay --as server`` serves it over stdio, and :func:`mcptrio.testing.replayed` in memory. A request is
matched by its method and parameters. Equal requests get the recorded responses in order; when none is left, the last
one is repeated. Ids, ``_meta`` and progress tokens are those of the live client.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import trio

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed, InvalidParams, MethodNotFound, Overloaded
from mcptrio.ground.printable import printable
from mcptrio.ground.waiter import Waiter
from mcptrio.protocol.envelope import SUBSCRIPTION_ID
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcptrio.recording.exchanges import RecordedExchange, exchanges_of, revision_of, subscription_of, without_meta
from mcptrio.recording.message_redaction import MessageRedactor
from mcptrio.recording.transcript import RecordedEntry

__all__ = ["ReplayServer"]

MAX_IN_FLIGHT: Final = 256
"""Requests that are answered at the same time."""
ANSWER_TIMEOUT: Final = 600.0
"""Seconds for the client's answer to a question."""
EOF_TIMEOUT: Final = 5.0
"""Seconds for answers in flight after the client has closed its side."""
# The parameters of these methods describe the client, so those of the live client may differ from the recorded ones.
_NEGOTIATION: Final = frozenset({"initialize", "server/discover"})
# Clients send these requests on their own, and their result is empty.
_EMPTY: Final = frozenset({"ping", "logging/setLevel"})
_MAX_COMPARED: Final = 200
"""Recorded requests that are compared to find the nearest one."""
_MAX_SHOWN_CHARS: Final = 300


class ReplayServer:
    """A server that answers requests with the responses of a recording.

    Args:
        name: The name of the recorded server.
        entries: The messages of the recording.
        speed: Recorded pauses are divided by this; 0 leaves them out.
    """

    def __init__(self, name: str, entries: Sequence[RecordedEntry], *, speed: float = 0.0) -> None:
        self.name = name
        self._exchanges = exchanges_of(entries)
        self._speed = speed

    @property
    def revision(self) -> str | None:
        """The revision that the recorded client has negotiated; ``None`` if no message says it."""
        return revision_of(self._exchanges)

    async def serve(self, channel: MessageChannel) -> None:
        """Answer one client from the beginning of the recording, until the client leaves. Closes the channel."""
        try:
            async with trio.open_nursery() as nursery:
                await _Connection(channel, self._exchanges, self._speed, nursery).read()
                # The client sends no more, but it may still read the answers in flight.
                nursery.cancel_scope.deadline = trio.current_time() + EOF_TIMEOUT
        finally:
            with trio.move_on_after(1, shield=True):
                await channel.aclose()


class _Connection:
    """One client."""

    def __init__(
        self, channel: MessageChannel, exchanges: Sequence[RecordedExchange], speed: float, nursery: trio.Nursery
    ) -> None:
        self._channel = channel
        self._speed = speed
        self._nursery = nursery
        self._redactor = MessageRedactor()
        self._recorded: dict[str, dict[bytes, deque[RecordedExchange]]] = {}
        for exchange in exchanges:
            method = exchange.request.method or ""
            key = self._key(method, exchange.request.params)
            self._recorded.setdefault(method, {}).setdefault(key, deque()).append(exchange)
        self._scopes: dict[RequestId, trio.CancelScope] = {}
        self._questions: dict[RequestId, Waiter[None]] = {}
        self._question_count = 0
        # Each request is answered in its own task, but only one task at a time may send on the channel.
        self._sending = trio.Lock()

    async def read(self) -> None:
        try:
            while True:
                for incoming in await self._channel.receive():
                    await self._dispatch(incoming)
        except trio.EndOfChannel:
            return
        except ConnectionClosed:
            self._nursery.cancel_scope.cancel()

    async def _dispatch(self, incoming: Incoming) -> None:
        if isinstance(incoming, Batch):
            for message in incoming.messages:
                await self._dispatch(message)
        elif isinstance(incoming, Malformed):
            await self._send(incoming.reply)
        elif isinstance(incoming, Request):
            await self._begin(incoming)
        elif isinstance(incoming, Notification):
            id = (incoming.params or {}).get("requestId") if incoming.method == "notifications/cancelled" else None
            if isinstance(id, str | int) and id in self._scopes:
                self._scopes[id].cancel()
        elif incoming.id is not None and incoming.id in self._questions:
            self._questions[incoming.id].set(None)

    async def _begin(self, request: Request) -> None:
        exchange = self._find(request)
        if request.id in self._scopes or len(self._scopes) >= MAX_IN_FLIGHT:
            error = Overloaded(f"expected at most {MAX_IN_FLIGHT} requests at once, each with its own id")
            await self._send(ErrorResponse.of(request.id, error))
        elif exchange is not None:
            scope = self._scopes[request.id] = trio.CancelScope()
            self._nursery.start_soon(self._answer, request, exchange, scope)
        elif request.method in _EMPTY:
            await self._send(Response(request.id, {}))
        else:
            await self._send(self._refusal(request))

    # Finding

    def _key(self, method: str, params: Mapping[str, Any] | None) -> bytes:
        if method in _NEGOTIATION:
            return b""
        # The recording has no secrets, so the secrets of the live request are removed before the comparison.
        return orjson.dumps(self._redactor.clean(without_meta(params)), option=orjson.OPT_SORT_KEYS)

    def _find(self, request: Request) -> RecordedExchange | None:
        waiting = self._recorded.get(request.method, {}).get(self._key(request.method, request.params))
        if waiting is None:
            return None
        # The last exchange is kept for all further equal requests.
        return waiting.popleft() if len(waiting) > 1 else waiting[0]

    def _refusal(self, request: Request) -> ErrorResponse:
        recorded = self._recorded.get(request.method)
        if recorded is None:
            known = ", ".join(sorted(self._recorded)) or "none"
            error = MethodNotFound(f"the recording has no request {request.method}; it has: {known}")
            return ErrorResponse.of(request.id, error)
        wanted = self._key(request.method, request.params).decode()
        # difflib takes quadratic time, so both the number of texts and their lengths are bounded.
        texts = [key.decode() for key in list(recorded)[:_MAX_COMPARED]]
        [nearest] = difflib.get_close_matches(_short(wanted), map(_short, texts), n=1, cutoff=0.0)
        message = f"the recording has no {request.method} with {_short(wanted)}; the nearest has {nearest}"
        return ErrorResponse.of(request.id, InvalidParams(message))

    # Answering

    async def _answer(self, request: Request, exchange: RecordedExchange, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._replay(request, exchange)
        finally:
            del self._scopes[request.id]

    async def _replay(self, request: Request, exchange: RecordedExchange) -> None:
        t = exchange.request.t
        for step in exchange.steps:
            await self._pause(step.entry.t - t)
            t = step.entry.t
            if not step.entry.is_request:
                await self._notify(request, step.entry)
            elif step.answer is not None:
                await self._ask(step.entry)
                t = step.answer.t
        if exchange.response is None:
            # The recorded request has no response, so this one stays open until the client cancels it.
            await trio.sleep_forever()
        await self._pause(exchange.response.t - t)
        await self._send(_response(request.id, exchange.response.message))
        t = exchange.response.t
        for entry in exchange.later:
            await self._pause(entry.t - t)
            t = entry.t
            await self._notify(request, entry)

    async def _pause(self, seconds: float) -> None:
        if self._speed and seconds > 0:
            await trio.sleep(seconds / self._speed)

    async def _notify(self, request: Request, entry: RecordedEntry) -> None:
        params = _with_live_id(entry.params, request.id)
        if entry.method == "notifications/progress":
            live = (request.params or {}).get("_meta")
            # The live client has not asked for progress.
            if not isinstance(live, dict) or "progressToken" not in live:
                return
            params["progressToken"] = live["progressToken"]
        await self._send(Notification(entry.method or "", params or None))

    async def _ask(self, entry: RecordedEntry) -> None:
        """Send a request of the recorded server, and wait for any answer."""
        self._question_count += 1
        id = f"replay-{self._question_count}"
        waiter = self._questions[id] = Waiter()
        try:
            await self._send(Request(id, entry.method or "", dict(entry.params) or None))
            with trio.move_on_after(ANSWER_TIMEOUT):
                await waiter.wait()
        finally:
            del self._questions[id]

    async def _send(self, message: Message) -> None:
        try:
            async with self._sending:
                await self._channel.send([message])
        except ConnectionClosed:
            self._nursery.cancel_scope.cancel()


def _response(id: RequestId, message: Mapping[str, Any]) -> Response | ErrorResponse:
    result, error = message.get("result"), message.get("error")
    if isinstance(result, dict):
        return Response(id, _with_live_id(result, id))
    error = error if isinstance(error, dict) else {}
    code = error.get("code")
    return ErrorResponse(id, code if isinstance(code, int) else -32603, str(error.get("message")), error.get("data"))


def _with_live_id(value: Mapping[str, Any], id: RequestId) -> dict[str, Any]:
    """Return params or a result. If it belongs to a subscription, its subscription id becomes the live request's id."""
    if subscription_of(value) is None:
        return dict(value)
    return {**value, "_meta": {**value["_meta"], SUBSCRIPTION_ID: id}}


def _short(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
