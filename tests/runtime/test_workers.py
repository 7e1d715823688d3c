"""The workers that run requests. Requests do not wait for each other, and leave no state for the next one."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
import trio
import trio.testing

from mcptrio import Context, Server, tool
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Response
from mcptrio.serving import ServerSettings, Timeouts
from tests.runtime.peers import connected
from tests.runtime.peers import tool as call

__all__: list[str] = []

LEFT: ContextVar[str] = ContextVar("left", default="nothing")


class Gate:
    """Calls that wait for each other: with fewer tasks than calls, no call would end."""

    def __init__(self) -> None:
        self.inside = 0
        self.full = trio.Event()

    @tool
    async def meet(self, parties: int) -> int:
        self.inside += 1
        if self.inside == parties:
            self.full.set()
        await self.full.wait()
        return self.inside

    @tool
    async def leave_something(self) -> str:
        value = LEFT.get()
        LEFT.set("something")
        return value

    @tool
    async def wait(self, ctx: Context) -> None:
        await trio.sleep_forever()

    @tool(timeout=1)
    async def linger(self) -> None:
        await trio.sleep_forever()


def text_of(answer: Message) -> str:
    assert isinstance(answer, Response), answer
    text: str = answer.result["content"][0]["text"]
    return text


async def test_all_calls_run_concurrently(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(Server(plugins=[Gate()])) as client:
        await client.send(*(call(id, "meet", {"parties": 200}) for id in range(1, 201)))
        with trio.fail_after(5):
            texts = [text_of(await client.next()) for _ in range(200)]

    assert texts == ["200"] * 200


async def test_context_variable_of_one_call_is_not_visible_to_the_next() -> None:
    async with connected(Server(plugins=[Gate()])) as client:
        texts = [text_of(await client.ask(call(id, "leave_something"))) for id in range(1, 6)]

    assert texts == ["nothing"] * 5


async def test_cancelled_call_does_not_affect_others(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(Server(plugins=[Gate()])) as client:
        await client.send(call(1, "wait"), call(2, "meet", {"parties": 2}))
        await trio.testing.wait_all_tasks_blocked()
        await client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await client.send(call(3, "meet", {"parties": 2}))
        with trio.fail_after(5):
            answers = [await client.next(), await client.next()]

    assert sorted((answer.id, text_of(answer)) for answer in answers if isinstance(answer, Response)) == [
        (2, "2"),
        (3, "2"),
    ]


async def test_deadline_applies_while_other_calls_start_and_end(autojump_clock: trio.testing.MockClock) -> None:
    server = Server(plugins=[Gate()], settings=ServerSettings(timeouts=Timeouts(idle=50)))
    async with connected(server) as client:
        started = trio.current_time()
        await client.send(call(1, "wait"))
        assert isinstance(await client.ask(call(2, "linger")), ErrorResponse)
        assert trio.current_time() - started == pytest.approx(1)
        assert text_of(await client.ask(call(3, "leave_something"))) == "nothing"
        late = await client.next()

    assert isinstance(late, ErrorResponse)
    assert "timed out after 50 s" in late.message
    assert trio.current_time() - started == pytest.approx(50)
