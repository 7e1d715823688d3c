"""Answers the requests of handshake sessions: initialize, POST, GET, resume, DELETE.

``HTTPApp`` calls it with a decision of the rules. If the first message is the whole response to a POST, the body is
plain JSON. Otherwise, or (if the revision has priming events) after ``HTTPLimits.stream_delay``, the response becomes a
stream in the event store, which the client can resume. A lost connection cancels nothing: only a cancellation by the
client and the end of the session cancel a request.

Source: MCP 2025-11-25, basic/transports, "Streamable HTTP".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from mcptrio.abc import STORE_RETRY_SECONDS, Principal
from mcptrio.errors import ConnectionClosed, InvalidRequest, Overloaded, StoreFailed
from mcptrio.http.server.exchange import Exchange
from mcptrio.http.server.rules import SESSION_ID, Decision, Deliver, EndSession, HTTPRefusal, Initialize, Listen, Resume
from mcptrio.http.server.session import GET_STREAM_PREFIX, NULL_SINK, POST_STREAM_PREFIX, HTTPSession
from mcptrio.http.server.session_streams import SessionStream, StreamReader
from mcptrio.http.server.sessions import Sessions
from mcptrio.outbox import Item, Outbox
from mcptrio.protocol.messages import Batch, ErrorResponse, Malformed, Message, Notification, Request, Response
from mcptrio.protocol.revisions.registry import REVISIONS

__all__ = ["serve_session"]

_BATCH_TIMEOUT: Final = 5.0
"""Seconds for the engine to decide whether the revision allows a batch."""
_RECORD_METHODS: Final = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
"""Methods whose only effect is a change to the record."""

_log = logging.getLogger("mcptrio.http.sessions")


async def serve_session(
    sessions: Sessions, exchange: Exchange, decision: Decision, principal: Principal | None
) -> None:
    """Answer an exchange about a session.

    Raises:
        Overloaded: A limit is reached, or the store has failed, and nothing was sent.
    """
    failed: StoreFailed | None = None
    try:
        await _serve(sessions, exchange, decision, principal)
    except StoreFailed as error:
        # Handled below, so that this exception does not become the context of another one.
        failed = error
    if failed is None:
        return
    _log.error("%s", failed)
    if not exchange.is_streaming:
        raise Overloaded("the session store is unavailable", retry_after=STORE_RETRY_SECONDS) from failed
    # The client reconnects for the rest, and tries again later if that fails.
    await exchange.end()


async def _serve(sessions: Sessions, exchange: Exchange, decision: Decision, principal: Principal | None) -> None:
    match decision:
        case Initialize(request):
            await _initialize(sessions, exchange, request, principal)
        case Deliver(id) | Listen(id) | Resume(id) | EndSession(id):
            session = await sessions.find(id, principal)
            if session is None:
                await exchange.refuse(HTTPRefusal.because(404, "no such session; start again with initialize"))
                return
            # Keeps the local part from being released as idle while this exchange waits.
            session.exchanges += 1
            try:
                await _serve_found(sessions, session, exchange, decision, principal)
            finally:
                session.exchanges -= 1


async def _serve_found(
    sessions: Sessions, session: HTTPSession, exchange: Exchange, decision: Decision, principal: Principal | None
) -> None:
    match decision:
        case Deliver(_, incoming):
            await _deliver(session, exchange, incoming, principal)
        case EndSession():
            await sessions.end(session)
            await exchange.respond(204)
        case Listen():
            await _while_connected(exchange, lambda: _listen(session, exchange))
        case Resume(_, event_id):
            await _resume(sessions, session, exchange, event_id)


async def _initialize(sessions: Sessions, exchange: Exchange, request: Request, principal: Principal | None) -> None:
    session = sessions.open(principal)
    kept = False
    try:
        outbox = Outbox()
        session.peer.receive(request, outbox)
        reply: list[Item] = []

        async def collect() -> None:
            # Read to the end, because the record exists only then. Log messages before the answer are dropped, because
            # a session that does not exist yet has no stream for them.
            while True:
                try:
                    reply.extend(await outbox.take())
                except trio.EndOfChannel:
                    return

        await _while_connected(exchange, collect)
        outbox.abort()
        if exchange.is_gone:
            return
        answer = next((item for item in reply if isinstance(item, (Response, ErrorResponse))), None)
        if answer is None:
            raise Overloaded("the request was cancelled by the server")
        if session.peer.record is not None:
            await sessions.keep(session)
            kept = True
            # The client gets the id only now, because its next request may reach another replica, which needs the
            # record.
            exchange.common_headers.append((SESSION_ID.encode(), session.id.encode("ascii")))
        else:
            session.end("initialize has failed")
        await exchange.reply(200, answer)
    finally:
        if not kept:
            session.end("initialize has failed")


async def _deliver(
    session: HTTPSession, exchange: Exchange, incoming: Message | Batch, principal: Principal | None
) -> None:
    expected = _response_count(incoming)
    if not expected and not isinstance(incoming, Batch):
        await session.receive(incoming, NULL_SINK, principal)
        await exchange.respond(202)
        return
    reply = _Reply(session, incoming, expected)
    session.waiting[reply] = None
    try:
        if isinstance(incoming, Request):
            # Other replicas need no copy of a request.
            session.peer.principal = principal
            session.peer.receive(incoming, reply)
        else:
            await session.receive(incoming, reply, principal)
        if expected:
            await _answer(session, exchange, incoming, reply)
        else:
            await _accept(exchange, reply)
    finally:
        session.waiting.pop(reply, None)
        if reply.stream is None or reply.stream.id not in session.streams:
            # The request was answered, or the client has disconnected and knows no event to resume from.
            reply.abort()


class _Reply:
    """The sink of a POST until the form of the response is known.

    It keeps the answer if that is the first message. Any other message, or no message within the interval, opens a
    stream.
    """

    __slots__ = ("_incoming", "_is_closed", "_response_count", "_session", "answer", "arrived", "stream")

    def __init__(self, session: HTTPSession, incoming: Message | Batch, expected: int) -> None:
        self._session = session
        self._incoming = incoming
        self._response_count = expected
        self._is_closed = False
        self.answer: Item | None = None
        self.stream: SessionStream | None = None
        self.arrived = trio.Event()
        """Set when the form of the response is known, or there will be no response."""

    async def send(self, message: Item) -> None:
        if self.stream is not None:
            await self.stream.send(message)
        elif self._is_closed or self.answer is not None:
            raise ConnectionClosed("the message cannot be sent: the response is complete")
        elif _is_final(message, self._response_count):
            self.answer = message
            self.arrived.set()
        else:
            await self.open().send(message)

    def send_latest(self, message: Notification, key: object) -> None:
        if self.stream is not None or not (self._is_closed or self.answer is not None):
            self.open().send_latest(message, key)

    def close(self) -> None:
        self._is_closed = True
        self.arrived.set()
        if self.stream is not None:
            self.stream.close()

    def release(self, retry_ms: int) -> bool:
        """See :meth:`SessionStream.release`."""
        is_possible = self.stream is not None or (_sends_priming_events(self._session) and not self._is_closed)
        return is_possible and self.open().release(retry_ms)

    def send_keepalive(self) -> None:
        """Stop waiting for the first message, and open a stream."""
        self.open()

    def abort(self) -> None:
        """Accept no more messages, and drop the queued ones."""
        self.close()
        if self.stream is not None:
            self.stream.outbox.abort()

    def open(self) -> SessionStream:
        """Return the stream, opened if necessary."""
        if self.stream is None:
            self.stream = self._session.open_stream(
                POST_STREAM_PREFIX, incoming=self._incoming, expected=self._response_count
            )
            if self._is_closed:
                self.stream.close()
            self.arrived.set()
        return self.stream


async def _accept(exchange: Exchange, reply: _Reply) -> None:
    """Answer a batch without requests: 202, or 400 if the revision has no batches."""
    # The engine refuses the batch with an error without an id.
    with trio.move_on_after(_BATCH_TIMEOUT):
        await reply.arrived.wait()
    await (exchange.respond(202) if reply.answer is None else exchange.reply(400, reply.answer))


async def _answer(session: HTTPSession, exchange: Exchange, incoming: Message | Batch, reply: _Reply) -> None:
    """Answer with plain JSON or a stream, depending on the first messages."""
    limits = exchange.limits
    # Without priming events a stream may not be resumable, so opening one early is of no use.
    is_early = exchange.takes_events and _sends_priming_events(session)
    idle = session.keepalives.idle[limits.stream_delay if is_early else limits.keepalive_interval]

    async def wait() -> None:
        idle[reply] = trio.current_time()
        try:
            await reply.arrived.wait()
        finally:
            idle.pop(reply, None)

    await exchange.while_connected(wait, reply.arrived.set)
    if exchange.is_gone:
        return
    if reply.answer is None and (reply.stream is None or session.ended):
        await _answer_without_response(session, exchange)
        return
    # Stored before the response is sent, because the next request may reach another replica.
    if session.peer.record is not session.saved:
        if isinstance(incoming, Request) and incoming.method in _RECORD_METHODS:
            # The result would acknowledge a change that ends with this process. The client may send it again.
            await session.save()
        else:
            await session.try_to_save()
    if reply.answer is not None and (exchange.takes_json or not exchange.takes_events):
        await _reply(exchange, reply.answer)
        return
    stream = reply.open()
    items = stream.outbox.try_take() if reply.answer is None else [reply.answer]
    if not exchange.takes_events:
        expected = _response_count(incoming)
        await _while_connected(exchange, lambda: _answer_plainly(session, exchange, stream, items, expected))
        return
    reader = StreamReader(stream, exchange)
    session.waiting.pop(reply, None)
    session.start(stream, items)
    # If one of these is true, the pump stores an event at once, so no comment is needed to send the head.
    primed = stream.sends_priming_event or bool(items)
    await _while_connected(exchange, lambda: _read(reader, exchange, primed=primed))


async def _answer_plainly(
    session: HTTPSession, exchange: Exchange, stream: SessionStream, items: list[Item], expected: int
) -> None:
    """Answer a client that accepts no event streams. The notifications before the answer are dropped."""
    try:
        while not (items and _is_final(items[-1], expected)):
            await _ask_elsewhere(session, items)
            items = await stream.outbox.take()
    except (trio.EndOfChannel, ConnectionClosed):
        await _answer_without_response(session, exchange)
    else:
        await _reply(exchange, items[-1])


async def _ask_elsewhere(session: HTTPSession, items: list[Item]) -> None:
    """Send requests of the server on the GET stream if the client has one open. Otherwise answer them with an error."""
    for request in [item for item in items if isinstance(item, Request)]:
        if session.get_stream is not None:
            await session.get_stream.send(request)
            continue
        message = "the client takes no event stream for this request: Accept: expected text/event-stream"
        failed = InvalidRequest(message)
        session.peer.receive(ErrorResponse.of(request.id, failed), NULL_SINK)


async def _answer_without_response(session: HTTPSession, exchange: Exchange) -> None:
    """Answer a request without a JSON-RPC response, because it was cancelled or the session has ended."""
    if session.ended:
        await exchange.refuse(HTTPRefusal.because(404, "the session has ended"))
    else:
        await exchange.respond(202)


async def _reply(exchange: Exchange, item: Item) -> None:
    # An error without an id refuses the whole HTTP message. Other errors answer a request.
    refused = isinstance(item, ErrorResponse) and item.id is None
    await exchange.reply(400 if refused else 200, item)


async def _listen(session: HTTPSession, exchange: Exchange, *, from_start: bool = False) -> None:
    stream = await session.listen(is_continued=from_start)
    reader = StreamReader(stream, exchange, from_start=from_start)
    if stream.sends_priming_event:
        await stream.send_priming_event()
    await _read(reader, exchange, primed=stream.sends_priming_event)


async def _resume(sessions: Sessions, session: HTTPSession, exchange: Exchange, event_id: str) -> None:
    page = await sessions.events.after(session.id, event_id)
    if page is None:
        # After a 404, the client would have to begin a new session (2025-11-25, "Session Management", rule 4).
        await exchange.refuse(
            HTTPRefusal.because(400, "Last-Event-ID: no such event, or the events after it were dropped")
        )
        return
    stream = session.resume(page[0])
    get_stream = stream.id.startswith(GET_STREAM_PREFIX)

    async def follow() -> None:
        if not get_stream:
            await _read(StreamReader(stream, exchange, event_id), exchange)
            return
        # When the resumed stream has ended, perhaps with its process, the response continues with the later GET
        # streams, whose events the client has not received, and then with the current one, which always exists.
        complete = await _read(StreamReader(stream, exchange, event_id), exchange, end=False)
        for id in await sessions.events.completed_after(session.id, stream.id) if complete else ():
            if complete and id.startswith(GET_STREAM_PREFIX):
                complete = await _read(
                    StreamReader(session.find_stream(id), exchange, from_start=True), exchange, end=False
                )
        if complete and not session.ended:
            await _listen(session, exchange, from_start=True)
        elif not exchange.is_gone:
            await exchange.end()

    await _while_connected(exchange, follow)


async def _read(reader: StreamReader, exchange: Exchange, *, primed: bool = False, end: bool = True) -> bool:
    """Return whether the whole stream was written."""
    if reader.stream.id.startswith(GET_STREAM_PREFIX):
        # A GET stream may outlive the token that has opened it. A POST stream ends with its request.
        exchange.end_if_unauthorized(reader.dismiss)
    try:
        exchange.begin_stream()
        if not primed:
            # HTTP servers send the head with the first bytes of the body, and the client waits for the head.
            await exchange.write()
        complete = await reader.run()
        if end:
            await exchange.end()
        return complete
    except ConnectionClosed:
        return False
    finally:
        reader.close()


async def _while_connected(exchange: Exchange, function: Callable[[], Awaitable[object]]) -> None:
    """Run the function until it returns or the client disconnects."""
    with trio.CancelScope() as scope:
        await exchange.while_connected(function, lambda: scope.cancel(reason="the client has disconnected"))


def _response_count(incoming: Message | Batch) -> int:
    """Return the number of responses that the message gets."""
    if isinstance(incoming, Batch):
        return sum(isinstance(message, (Request, Malformed)) for message in incoming.messages)
    return int(isinstance(incoming, Request))


def _is_final(item: Item, expected: int) -> bool:
    """Return whether an item has all expected responses, or refuses the whole message."""
    if isinstance(item, Sequence):
        return sum(isinstance(each, (Response, ErrorResponse)) for each in item) >= expected
    if isinstance(item, ErrorResponse) and item.id is None:
        return True
    return isinstance(item, (Response, ErrorResponse)) and expected == 1


def _sends_priming_events(session: HTTPSession) -> bool:
    record = session.peer.record
    return record is not None and REVISIONS[record.revision].http.priming
