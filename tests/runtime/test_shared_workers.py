"""Sessions over HTTP: they wait without tasks, share workers, and do not affect each other."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import Context, Server
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import Message, Notification, Request, Response
from mcptrio.runtime.session import Session
from mcptrio.serving import ServerSettings
from tests.runtime.peers import tool

__all__: list[str] = []

INITIALIZE = Request(
    0,
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
)
LEFT: ContextVar[str] = ContextVar("left", default="nothing")


async def ask(session: Session, request: Request) -> list[Any]:
    """Return all events of a request."""
    outbox = Outbox()
    session.receive(request, outbox)
    came: list[Any] = []
    with trio.fail_after(200):
        while True:
            try:
                came += await outbox.take()
            except trio.EndOfChannel:
                break
    return came


async def shaken(server: Server) -> Session:
    """Return an initialized session."""
    session = server.supervisor.open_session()
    (answer,) = await ask(session, INITIALIZE)
    assert isinstance(answer, Response)
    session.receive(Notification("notifications/initialized"), Outbox())
    return session


def text_of(answer: Message) -> str:
    assert isinstance(answer, Response), answer
    text: str = answer.result["content"][0]["text"]
    return text


def tasks_of(server: Server) -> int:
    return len(server.supervisor.nursery.child_tasks)


async def hold() -> str:
    """Waits."""
    await trio.sleep(100)
    return "held"


async def leave_something() -> str:
    """What another call has left."""
    value = LEFT.get()
    LEFT.set("something")
    return value


async def test_idle_sessions_have_no_task(autojump_clock: MockClock) -> None:
    server = Server()
    server.add_tool(leave_something)
    async with server.open():
        await shaken(server)
        before = tasks_of(server)
        sessions = [await shaken(server) for _ in range(20)]
        for session in sessions:
            (answer,) = await ask(session, tool(1, "leave_something"))
            assert text_of(answer) == "nothing"

        assert tasks_of(server) == before
        assert len(server.status.sessions) == 21
        for session in sessions:
            session.end("done")
        assert len(server.status.sessions) == 1


async def test_ended_session_cancels_its_own_requests_only(autojump_clock: MockClock) -> None:
    server = Server()
    server.add_tool(hold)
    async with server.open():
        one, other = await shaken(server), await shaken(server)
        ends: dict[str, list[Any]] = {}

        async def call(name: str, session: Session) -> None:
            ends[name] = await ask(session, tool(1, "hold"))

        with trio.fail_after(200):
            async with trio.open_nursery() as nursery:
                for name, session in (("one", one), ("other", other)):
                    nursery.start_soon(call, name, session)
                await trio.testing.wait_all_tasks_blocked()
                assert server.supervisor.in_flight == 2
                one.end("gone")
                await trio.testing.wait_all_tasks_blocked()
                assert server.supervisor.in_flight == 1
                assert ends["one"] == []

        assert [text_of(answer) for answer in ends["other"]] == ["held"]
        # The workers can still be used.
        (answer,) = await ask(await shaken(server), Request(1, "ping", None))
        assert isinstance(answer, Response)


async def test_handler_counts_against_the_limit_until_its_cleanup_ends(autojump_clock: MockClock) -> None:
    """An ended session frees its place only then."""
    cleaned = trio.Event()

    async def tidy() -> str:
        """Takes its time at the end."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(5, shield=True):
                await trio.sleep(2)
                cleaned.set()
        return ""

    server = Server()
    server.add_tool(tidy)
    async with server.open():
        session = await shaken(server)
        session.receive(tool(1, "tidy"), Outbox())
        await trio.testing.wait_all_tasks_blocked()
        session.end("gone")
        await trio.testing.wait_all_tasks_blocked()

        assert server.supervisor.in_flight == 1
        await cleaned.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert server.supervisor.in_flight == 0


async def test_session_task_starts_on_demand_and_ends_with_the_session(autojump_clock: MockClock) -> None:
    server = Server(settings=ServerSettings(ping_interval=5))

    async def greet(ctx: Context) -> str:
        """Says something."""
        return "hello"

    server.add_tool(greet)
    async with server.open():
        before = tasks_of(server)
        session = await shaken(server)
        await trio.testing.wait_all_tasks_blocked()
        (answer,) = await ask(session, tool(1, "greet"))
        assert text_of(answer) == "hello"
        workers = len(server.supervisor.workers._idle)
        assert tasks_of(server) == before + 1 + workers
        session.end("done")
        await trio.testing.wait_all_tasks_blocked()
        assert tasks_of(server) == before + workers
