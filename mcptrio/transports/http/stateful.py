"""The exchanges of handshake sessions: initialize, POST, GET, resume, DELETE.

Called by the ASGI entry with what the rules have decided. A POST whose first message is its whole answer gets plain
JSON. Anything else, or (where the revision primes streams) an answer that takes longer than ``HTTPLimits.priming``,
becomes a stream in the event store, which the client can resume.
The one rule: an exchange that ends early ends nothing else; only the client's word or the session's end does.

Source: MCP 2025-11-25, basic/transports, "Streamable HTTP".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from mcptrio.abc import Principal
from mcptrio.errors import ConnectionClosed, MCPError, Overloaded
from mcptrio.outbox import Item, Outbox
from mcptrio.protocol.messages import Batch, ErrorResponse, Malformed, Message, Request, Response
from mcptrio.transports.http.exchange import Exchange
from mcptrio.transports.http.rules import SESSION_ID, Decision, Deliver, End, Initialize, Listen, Refusal, Resume
from mcptrio.transports.http.session import NOWHERE, POST, STANDING, Session
from mcptrio.transports.http.sessions import Sessions
from mcptrio.transports.http.streams import Reader, Stream

__all__ = ["serve_session"]

_BATCH_PATIENCE: Final = 5.0
"""Seconds in which the engine says whether a batch of notifications or responses is legal."""


async def serve_session(
    sessions: Sessions, exchange: Exchange, decision: Decision, principal: Principal | None
) -> None:
    """Answer an exchange about a session.

    Raises:
        Overloaded: a limit is reached, and nothing has been sent.
    """
    match decision:
        case Initialize(request):
            await _initialize(sessions, exchange, request, principal)
        case Deliver(id) | Listen(id) | Resume(id) | End(id):
            session = await sessions.find(id, principal)
            if session is None:
                await exchange.refuse(Refusal.because(404, "no such session; begin anew with initialize"))
                return
            session.exchanges += 1
            try:
                await _serve(sessions, session, exchange, decision, principal)
            finally:
                session.exchanges -= 1


async def _serve(
    sessions: Sessions, session: Session, exchange: Exchange, decision: Decision, principal: Principal | None
) -> None:
    match decision:
        case Deliver(_, incoming):
            await _deliver(session, exchange, incoming, principal)
        case End():
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
            # To the end, since the record exists only then. Log messages may come before the answer; a session that
            # does not exist yet has no stream for them.
            while True:
                try:
                    reply.extend(await outbox.take())
                except trio.EndOfChannel:
                    return

        await _while_connected(exchange, collect)
        outbox.abort()
        if exchange.gone:
            return
        answer = next((item for item in reply if isinstance(item, (Response, ErrorResponse))), None)
        if answer is None:
            raise Overloaded("the request was cancelled by the server")
        if session.peer.record is not None:
            await sessions.keep(session)
            kept = True
            exchange.common.append((SESSION_ID.encode(), session.id.encode("ascii")))
        else:
            session.end("initialize has failed")
        await exchange.reply(200, answer)
    finally:
        if not kept:
            session.end("initialize has failed")


async def _deliver(
    session: Session, exchange: Exchange, incoming: Message | Batch, principal: Principal | None
) -> None:
    expected = _expected(incoming)
    if not expected and not isinstance(incoming, Batch):
        await session.receive(incoming, NOWHERE, principal)
        await session.repeat(incoming)
        await exchange.respond(202)
        return
    stream = session.open_stream(POST, expected)
    session.waiting.add(stream)
    try:
        await session.receive(incoming, stream, principal)
        if expected:
            await _while_connected(exchange, lambda: _answer(session, exchange, incoming, stream))
        else:
            await session.repeat(incoming)
            await _accept(exchange, stream)
    finally:
        session.waiting.discard(stream)
        if stream.id not in session.streams:
            # Answered, or left by a client that knows no event to resume from.
            stream.outbox.abort()


async def _accept(exchange: Exchange, stream: Stream) -> None:
    """A batch without requests. Whether arrays are legal the engine says, with an error without id."""
    items: list[Item] = []
    with trio.move_on_after(_BATCH_PATIENCE):
        try:
            items = await stream.outbox.take()
        except (trio.EndOfChannel, ConnectionClosed):
            pass
    await (exchange.reply(400, items[0]) if items else exchange.respond(202))


async def _answer(session: Session, exchange: Exchange, incoming: Message | Batch, stream: Stream) -> None:
    """Plain JSON or a stream, whichever the first messages make it."""
    items: list[Item] = []
    stream.patience.deadline = trio.current_time() + (
        exchange.limits.priming if stream.primes and exchange.takes_events else exchange.limits.keep_alive
    )
    with stream.patience:
        try:
            items = await stream.outbox.take()
        except (trio.EndOfChannel, ConnectionClosed):
            await _say_nothing(session, exchange)
            return
    await session.save()
    await session.repeat(incoming)
    if not exchange.takes_events:
        await _answer_plainly(session, exchange, stream, items)
    elif stream.is_final(items) and exchange.takes_json:
        await _reply(exchange, items[0])
    else:
        reader = Reader(stream, exchange)
        if stream.primes:
            await stream.prime()
        session.waiting.discard(stream)
        session.start(stream, items)
        # Whatever the form, there is a first event already.
        await _read(reader, exchange, primed=stream.primes or bool(items))


async def _answer_plainly(session: Session, exchange: Exchange, stream: Stream, items: list[Item]) -> None:
    """For a client that reads no events: what comes before the answer is lost to it."""
    try:
        while not stream.is_final(items[-1:]):
            items = await stream.outbox.take()
    except (trio.EndOfChannel, ConnectionClosed):
        await _say_nothing(session, exchange)
    else:
        await _reply(exchange, items[-1])


async def _say_nothing(session: Session, exchange: Exchange) -> None:
    """No response will come: the client has cancelled its request, which is owed none, or the session is over."""
    if session.ended:
        await exchange.refuse(Refusal.because(404, "the session has ended"))
    else:
        await exchange.respond(202)


async def _reply(exchange: Exchange, item: Item) -> None:
    refused = isinstance(item, ErrorResponse) and item.id is None
    await exchange.reply(400 if refused else 200, item)


async def _listen(session: Session, exchange: Exchange) -> None:
    stream = session.listen()
    reader = Reader(stream, exchange)
    if stream.primes:
        await stream.prime()
    await _read(reader, exchange, primed=stream.primes)


async def _resume(sessions: Sessions, session: Session, exchange: Exchange, event_id: str) -> None:
    found = await sessions.events.after(session.id, event_id)
    if found is None:
        await exchange.refuse(Refusal.because(404, "Last-Event-ID: no such event, or what came after it is gone"))
        return
    stream = session.find_stream(found[0])
    standing = stream.id.startswith(STANDING)

    async def follow() -> None:
        await _read(Reader(stream, exchange, event_id), exchange, end=not standing)
        if standing and not (session.ended or exchange.gone):
            # That one has ended, here or on the replica it began on; the session's own stream never does.
            await _read(Reader(session.listen(), exchange), exchange)

    await _while_connected(exchange, follow)


async def _read(reader: Reader, exchange: Exchange, *, primed: bool = False, end: bool = True) -> None:
    try:
        await exchange.stream()
        if not primed:
            # A server sends the head of a response with its first bytes, and the client waits for it.
            await exchange.write()
        await reader.run()
        if end:
            await exchange.end()
    except ConnectionClosed:
        pass
    finally:
        reader.leave()


async def _while_connected(exchange: Exchange, function: Callable[[], Awaitable[None]]) -> None:
    """Run it until it ends or the client leaves."""
    ended: list[BaseException] = []
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await exchange.disconnected()
            nursery.cancel_scope.cancel(reason="the client has left")

        nursery.start_soon(watch)
        try:
            await function()
        except (trio.EndOfChannel, MCPError) as error:
            # Out of the nursery, which would wrap it into a group.
            ended.append(error)
        nursery.cancel_scope.cancel()
    if ended:
        raise ended[0]


def _expected(incoming: Message | Batch) -> int:
    """How many responses it will get."""
    if isinstance(incoming, Batch):
        return sum(isinstance(message, (Request, Malformed)) for message in incoming.messages)
    return int(isinstance(incoming, Request))
