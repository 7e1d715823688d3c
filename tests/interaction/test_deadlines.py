"""How long a call may take: limits per server, plugin, tool and call; idle time, progress; concurrency."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
import trio

from mcptrio import Context, prompt, resource, tool
from mcptrio.serving import ServerLimits, Timeouts
from tests.error_codes import INTERNAL_ERROR
from tests.interaction.applies import only
from tests.interaction.serving import Serve

CALL_TIMEOUT = "mcptrio/timeout"
MOCK_CLOCK = "only in memory is there a mock clock, which skips the waits"


@tool
async def sleep(seconds: float) -> str:
    """Sleep."""
    await trio.sleep(seconds)
    return "slept"


@tool
async def sleep_with_context(ctx: Context, seconds: float) -> str:
    """Sleep, holding a context."""
    await trio.sleep(seconds)
    return "slept"


@tool(timeout=5)
async def hasty() -> str:
    """Take too long."""
    await trio.sleep(60)
    return "slept"


@tool(timeout=inf)
async def patient(seconds: float) -> str:
    """Take as long as it takes."""
    await trio.sleep(seconds)
    return "slept"


@tool
async def steps(ctx: Context, count: int, pause: float) -> str:
    """Report progress, step by step."""
    for step in range(count):
        await trio.sleep(pause)
        await ctx.report_progress(step + 1)
    return "done"


@resource("slow://one", timeout=5)
async def slow_resource() -> str:
    """A resource that takes too long."""
    await trio.sleep(60)
    return ""


@prompt(timeout=5)
async def slow_prompt() -> str:
    """A prompt that takes too long."""
    await trio.sleep(60)
    return ""


class Narrow:
    """A plugin with a tool of limited concurrency."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0

    @tool(concurrency=2)
    async def narrow(self) -> str:
        """At most two at a time."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await trio.sleep(1)
        finally:
            self.inside -= 1
        return ""


class Slow:
    """A plugin with a timeout in its own settings."""

    @tool
    async def dawdle(self) -> str:
        """Take a while."""
        await trio.sleep(60)
        return "slept"


async def _timed_out(call: Any, seconds: float) -> None:
    start = trio.current_time()
    error = await call.error()

    assert error["code"] == INTERNAL_ERROR
    assert "timed out" in error["message"]
    assert error["data"]["timeout"] == pytest.approx(seconds, abs=0.2)
    assert trio.current_time() - start == pytest.approx(seconds, abs=0.2)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_server_timeout_applies_to_every_request(serve: Serve) -> None:
    peer = await serve(sleep, timeouts=Timeouts(request=20, idle=20))

    await _timed_out(await peer.start_call("sleep", {"seconds": 30}), 20)
    assert await peer.text("sleep", {"seconds": 19}) == "slept"


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_server_timeout_cancels_a_handler_with_a_context(serve: Serve) -> None:
    ended: list[float] = []

    @tool
    async def watched(ctx: Context) -> str:
        """Note when it ends."""
        try:
            await trio.sleep(100)
        finally:
            ended.append(trio.current_time())
        return ""

    peer = await serve(watched, timeouts=Timeouts(request=20))
    start = trio.current_time()

    await _timed_out(await peer.start_call("watched"), 20)

    assert ended == [start + 20]


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_timeout_of_a_tool_is_applied(serve: Serve) -> None:
    peer = await serve(hasty)

    await _timed_out(await peer.start_call("hasty"), 5)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_tool_without_a_timeout_is_not_limited(serve: Serve) -> None:
    peer = await serve(patient)

    assert await peer.text("patient", {"seconds": 100_000}) == "slept"


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_timeout_of_a_plugin_is_applied(serve: Serve) -> None:
    peer = await serve(plugins=[Slow()], config={"Slow": {"timeout": 7}})

    await _timed_out(await peer.start_call("dawdle"), 7)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_caller_can_shorten_the_timeout(serve: Serve) -> None:
    peer = await serve(sleep, hasty)

    await _timed_out(await peer.start_call("sleep", {"seconds": 30}, meta={CALL_TIMEOUT: 2}), 2)
    await _timed_out(await peer.start_call("hasty", meta={CALL_TIMEOUT: 2}), 2)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_caller_cannot_extend_the_timeout(serve: Serve) -> None:
    peer = await serve(sleep, hasty, timeouts=Timeouts(request=20, idle=20))

    await _timed_out(await peer.start_call("hasty", meta={CALL_TIMEOUT: 1000}), 5)
    await _timed_out(await peer.start_call("sleep", {"seconds": 30}, meta={CALL_TIMEOUT: 1000}), 20)


@pytest.mark.parametrize("value", ["1", -1, 0, True, None, {}])
@only(transports=["memory"], because=MOCK_CLOCK)
async def test_invalid_timeout_of_a_caller_is_ignored(serve: Serve, value: object) -> None:
    peer = await serve(sleep)

    assert await peer.text("sleep", {"seconds": 10}, meta={CALL_TIMEOUT: value}) == "slept"


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_timeouts_apply_to_resources_and_prompts(serve: Serve) -> None:
    peer = await serve(slow_resource, slow_prompt)

    await _timed_out(await peer.start("resources/read", {"uri": "slow://one"}), 5)
    await _timed_out(await peer.start("prompts/get", {"name": "slow_prompt"}), 5)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_idle_request_ends_before_its_request_timeout(serve: Serve) -> None:
    peer = await serve(sleep_with_context, timeouts=Timeouts(request=100, idle=10))

    await _timed_out(await peer.start_call("sleep_with_context", {"seconds": 30}), 10)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_progress_without_a_token_restarts_the_idle_timeout(serve: Serve) -> None:
    peer = await serve(steps, timeouts=Timeouts(request=100, idle=10))

    assert await peer.text("steps", {"count": 10, "pause": 9}) == "done"


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_progress_does_not_extend_the_request_timeout(serve: Serve) -> None:
    peer = await serve(steps, timeouts=Timeouts(request=100, idle=10))

    await _timed_out(await peer.start_call("steps", {"count": 100, "pause": 9}), 100)


async def test_timeout_ends_a_call_on_every_transport(serve: Serve) -> None:
    peer = await serve(sleep)

    error = await (await peer.start_call("sleep", {"seconds": 30}, meta={CALL_TIMEOUT: 0.05})).error()

    assert error["code"] == INTERNAL_ERROR
    assert "timed out" in error["message"]


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_concurrency_of_a_tool_is_limited(serve: Serve) -> None:
    narrow = Narrow()
    peer = await serve(plugins=[narrow])
    start = trio.current_time()

    calls = [await peer.start_call("narrow") for _ in range(6)]
    for call in calls:
        await call.result()

    assert narrow.most == 2
    assert trio.current_time() - start == pytest.approx(3, abs=0.1)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_queued_call_can_be_cancelled(serve: Serve) -> None:
    narrow = Narrow()
    peer = await serve(plugins=[narrow])
    calls = [await peer.start_call("narrow") for _ in range(2)]
    await trio.sleep(0.1)
    waiting = await peer.start_call("narrow")
    await trio.sleep(0.1)

    await waiting.cancel()
    for call in calls:
        await call.result()

    assert await peer.text("narrow") == ""
    assert waiting.answer is None
    assert (narrow.inside, narrow.most) == (0, 2)


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_number_of_threads_is_limited(serve: Serve) -> None:
    assert ServerLimits(threads=3).threads == 3
    peer = await serve(sleep, limits=ServerLimits(threads=3))

    assert serve.server.threads.total_tokens == 3
    assert await peer.text("sleep", {"seconds": 1}) == "slept"


def test_timeout_of_zero_seconds_is_refused() -> None:
    with pytest.raises(ValueError, match="request"):
        Timeouts(request=0)
