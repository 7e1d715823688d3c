"""Requests end once in any sequence of responses, cancellations, deadlines, retries, disconnects and a shutdown.

Hypothesis generates the order of events. Afterwards each request has one response or a recorded reason for none, and
nothing is left: no count, no handler, no thread, no place in a limiter, no memory.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio import Context, Server
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, Response
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.request_lifecycle import TRANSITIONS, Action, RequestEvent, RequestState
from mcptrio.serving import ServerLimits, ServerSettings, Timeouts
from tests.runtime.peers import Client, envelope, handshake, open_client, tool
from tests.runtime.test_round_trips import accept

__all__: list[str] = []

TIMES = Timeouts(request=60, idle=20, input=30, shutdown=10)
LIMITS = ServerLimits(parked=2, requests_per_session=20)
BIG = "x" * 100_000
"""An argument large enough that its memory is counted."""


async def quick(text: str = "") -> int:
    """Return at once."""
    return len(text)


async def slow(seconds: float, text: str = "") -> str:
    """Take a while."""
    await trio.sleep(seconds)
    return "slept"


async def stubborn(ctx: Context) -> str:
    """Take a second to end when it is cancelled, and report progress then."""
    try:
        await trio.sleep(15)
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
            await ctx.report_progress(1)
    return "done"


async def late() -> str:
    """Return a result even if it is cancelled."""
    with trio.CancelScope(shield=True):
        await trio.sleep(3)
    return "late"


async def asks_together(ctx: Context) -> str:
    """Ask in one task while another one works."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 3)
        return await ctx.ask("now?", str, key="now")


async def breaks() -> str:
    """Fail."""
    raise ValueError("broken")


CALLS: dict[str, dict[str, Any]] = {
    "quick": {"text": BIG},
    "slow": {"seconds": 5.0, "text": BIG},
    "stubborn": {},
    "late": {},
    "asks": {},
    "asks_together": {},
    "breaks": {},
    "blocks": {},
}

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.integers(0, 2), st.sampled_from(sorted(CALLS))),
        st.tuples(st.just("call"), st.integers(0, 2), st.sampled_from(["asks", "late"])),
        st.tuples(st.just("listen"), st.integers(1, 2), st.none()),
        st.tuples(st.just("cancel"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("answer"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("answer twice"), st.integers(1, 1), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.just(0), st.sampled_from([0.0, 0.7, 4.0, 25.0, 70.0])),
        st.tuples(st.just("leave"), st.integers(0, 1), st.none()),
        st.tuples(st.just("hurry"), st.just(0), st.none()),
        st.tuples(st.just("drain"), st.just(0), st.none()),
    ),
    max_size=14,
)


@define(eq=False)
class Peer:
    """A client of 2025-11-25 or 2026-07-28 on a channel, or one of 2026-07-28 whose requests have no channel."""

    server: Server
    nursery: trio.Nursery
    modern: bool
    channel: Client | None = None
    answers: Counter[Any] = field(factory=Counter)
    sent: dict[int, tuple[str, dict[str, Any]]] = field(factory=dict)
    """Requests by id, with the tool and its arguments."""
    given_up: set[int] = field(factory=set)
    """Ids of requests that this side has cancelled."""
    silenced: set[int] = field(factory=set)
    """Cancelled requests that had no response by then."""
    cancels: dict[int, Callable[[str], None]] = field(factory=dict)
    questions: list[tuple[int, Any]] = field(factory=list)
    """Server requests, or results that request input, with the id of the request that the result is of."""
    gone: bool = False
    _last: int = 0

    async def read(self) -> None:
        assert self.channel is not None
        try:
            while True:
                self.take(await self.channel.next())
        except (trio.EndOfChannel, ConnectionClosed):
            pass

    def take(self, message: Message) -> None:
        if isinstance(message, Request):
            self.questions.append((0, message))
        elif isinstance(message, Response | ErrorResponse):
            self.answers[message.id] += 1
            if isinstance(message, Response) and message.result.get("resultType") == "input_required":
                self.questions.append((int(str(message.id)), message.result))

    def new_id(self, name: str, arguments: dict[str, Any]) -> int:
        self._last += 1
        self.sent[self._last] = name, arguments
        return self._last

    async def call(self, name: str) -> None:
        await self._call(name, {**CALLS[name], "call": f"{id(self)} {self._last}"} if name == "asks" else CALLS[name])

    async def _call(self, name: str, arguments: dict[str, Any], **more: Any) -> None:
        await self.send(tool(self.new_id(name, arguments), name, arguments, modern=self.modern, **more))

    async def listen(self) -> None:
        params = {"notifications": {"toolsListChanged": True}, "_meta": envelope()}
        await self.send(Request(self.new_id("listen", {}), "subscriptions/listen", params))

    async def send(self, message: Message) -> None:
        if self.gone:
            if isinstance(message, Request):
                del self.sent[int(str(message.id))]
        elif self.channel is not None:
            try:
                await self.channel.send(message)
            except ConnectionClosed:
                self.gone = True
        else:
            assert isinstance(message, Request)
            self.nursery.start_soon(self._alone, message)

    async def _alone(self, message: Request) -> None:
        """Serve a message as the HTTP endpoint does; a listening request needs no task."""
        outbox = Outbox()
        self.nursery.start_soon(self._take_all, outbox)
        id = int(str(message.id))

        def opened(cancel: Callable[[str], None]) -> None:
            self.cancels[id] = cancel

        try:
            await self.server.supervisor.answer(message, outbox, opened=opened, may_stay_open=True)
        except Overloaded:
            self.given_up.add(id)

    async def _take_all(self, outbox: Outbox) -> None:
        try:
            while True:
                for message in await outbox.take():
                    assert not isinstance(message, list | tuple)
                    self.take(message)  # type: ignore[arg-type]
        except trio.EndOfChannel:
            pass

    async def cancel(self, number: int, *, settled: bool) -> None:
        ids = [id for id in self.sent if id not in self.given_up]
        if not ids:
            return
        id = ids[number % len(ids)]
        self.given_up.add(id)
        if settled and not self.answers[id] and (self.channel is not None or id in self.cancels):
            self.silenced.add(id)
        if self.channel is not None:
            await self.send(Notification("notifications/cancelled", {"requestId": id}))
        elif id in self.cancels:
            self.cancels[id]("the client left")

    async def answer(self, number: int, times: int = 1) -> None:
        if not self.questions:
            return
        id, question = self.questions.pop(number % len(self.questions))
        if isinstance(question, Request):
            await self.send(Response(question.id, {"action": "accept", "content": {"value": "yes"}}))
            return
        given = {key: accept("yes") for key in question["inputRequests"]}
        for _ in range(times):
            await self._call(*self.sent[id], inputResponses=given, requestState=question["requestState"])

    async def leave(self) -> None:
        if self.channel is not None and not self.gone:
            self.gone = True
            await self.channel.channel.aclose()


class Watch:
    """Every request that was in flight, and the check of how it ended."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.seen: dict[int, RequestScope] = {}

    def look(self) -> None:
        for session in self.server.supervisor.sessions:
            for scope in session.in_flight.values():
                self.seen[id(scope)] = scope

    def stopped(self, id: int) -> bool:
        """Return whether the shutdown has ended a request without a session, which its exchange answers."""
        return any(
            scope.request.id == id and scope.session.name == "http" and scope.reason == "the server is stopping"
            for scope in self.seen.values()
        )

    def check(self) -> None:
        supervisor = self.server.supervisor
        for scope in self.seen.values():
            assert scope.state is RequestState.CLOSED, scope.label
            assert scope.reply is not None or scope.reason, scope.label
            assert scope.session.requests == 0
        assert (supervisor.in_flight, len(supervisor.works), len(supervisor.state.parking)) == (0, 0, 0)
        assert supervisor.threads.borrowed_tokens == 0
        assert supervisor.gate.memory.taken == 0
        limiter = self.server.catalog.registries["tools"].get("slow").limiter  # type: ignore[union-attr]
        assert limiter is not None
        assert limiter.borrowed_tokens == 0
        assert not supervisor.sessions


def make_server(released: threading.Event, effects: Counter[str]) -> Server:
    async def asks(ctx: Context, call: str) -> str:
        """Ask, have a side effect, and ask again."""
        first = await ctx.ask("first?", str, key="first")

        async def effect() -> str:
            await trio.sleep(0.5)
            effects[call] += 1
            return "effect"

        await ctx.once(effect, key="effect")
        return first + await ctx.ask("second?", str, key="second")

    def blocks() -> str:
        """Wait in a thread, which cannot be cancelled."""
        released.wait(60)
        return "free"

    server = Server(settings=ServerSettings(timeouts=TIMES, limits=LIMITS))
    for function in (quick, stubborn, late, asks, asks_together, breaks, blocks):
        server.add_tool(function)
    server.add_tool(slow, concurrency=2)
    return server


async def play(events: list[tuple[str, int, Any]]) -> None:
    released = threading.Event()
    effects: Counter[str] = Counter()
    server = make_server(released, effects)
    watch = Watch(server)
    drained = False
    hurried = 0
    """Events that follow immediately, before the server has handled the last one."""
    async with server.open(), open_client(server) as old, open_client(server) as new, trio.open_nursery() as nursery:
        await handshake(old)
        peers = [Peer(server, nursery, False, old), Peer(server, nursery, True, new), Peer(server, nursery, True)]
        for peer in peers[:2]:
            nursery.start_soon(peer.read)
        for what, which, detail in events:
            peer = peers[which]
            settled = hurried <= 0
            if what == "call":
                await peer.call(detail)
            elif what == "listen":
                await peer.listen()
            elif what == "cancel":
                await peer.cancel(detail, settled=settled)
            elif what == "answer":
                await peer.answer(detail)
            elif what == "answer twice":
                await peer.answer(detail, times=2)
            elif what == "wait":
                await trio.sleep(detail)
            elif what == "leave":
                await peer.leave()
            elif what == "hurry":
                hurried = 3
            elif not drained:
                drained = True
                nursery.start_soon(server.supervisor.drain)
            hurried -= 1
            if hurried <= 0:
                await trio.testing.wait_all_tasks_blocked()
            watch.look()
        await trio.testing.wait_all_tasks_blocked()
        watch.look()
        released.set()
        await trio.sleep(0.01)
        await server.supervisor.drain()
        await server.supervisor.works.wait_ended()
        for peer in peers:
            await peer.leave()
        await trio.testing.wait_all_tasks_blocked()
    for peer in peers:
        assert not [id for id, count in peer.answers.items() if count > 1 and id in peer.sent]
        assert not [id for id in peer.silenced if peer.answers[id]]
        silent = {id for id in peer.sent if not peer.answers[id] and id not in peer.given_up}
        if peer.channel is None:
            silent = {id for id in silent if not watch.stopped(id)}
        # A disconnected client gets no responses; a channel closed by the stopped server accepts no requests.
        assert not silent or peer.gone, silent
    watch.check()
    assert max(effects.values(), default=1) == 1


@settings(max_examples=100)
@given(EVENTS)
def test_every_request_ends_once_and_leaves_no_state(events: list[tuple[str, int, Any]]) -> None:
    trio.run(play, events, clock=trio.testing.MockClock(autojump_threshold=0))


def _steps() -> Iterator[Any]:
    for state, row in TRANSITIONS.items():
        for event, (after, action) in row.items():
            yield pytest.param(state, event, after, action, id=f"{state.name}-{event.name}")


@pytest.mark.parametrize(("state", "event", "after", "action"), list(_steps()))
def test_request_states_never_go_back(
    state: RequestState, event: RequestEvent, after: RequestState, action: Action
) -> None:
    assert after >= state or (state, after) == (RequestState.KEPT_OPEN, RequestState.CANCELLED)
    if state is RequestState.ANSWERING and event is not RequestEvent.CLOSE:
        assert (after, action) == (state, Action.NONE)
    if event is RequestEvent.CLOSE:
        assert after is RequestState.CLOSED
    if action is Action.CANCEL_HANDLER:
        assert state is RequestState.RUNNING


@pytest.mark.parametrize("event", [RequestEvent.CANCEL, RequestEvent.FAIL, RequestEvent.CLOSE])
def test_request_can_end_in_every_state(event: RequestEvent) -> None:
    assert all(event in row for row in TRANSITIONS.values())
