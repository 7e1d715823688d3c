"""Sync functions run in threads: limited in number, and without delaying others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import trio

from mcptrio import Context, prompt, resource, tool
from mcptrio.serving import ServerLimits, Timeouts
from tests.interaction.applies import only, real_time
from tests.interaction.serving import Serve

UPDATED = "notifications/resources/updated"
THREADS = "a mock clock does not wait for threads"


@tool
def where() -> str:
    """Say which thread this is."""
    return threading.current_thread().name


@resource("sync://one")
def memo() -> str:
    """A memo."""
    return "one"


@prompt
def greet(name: str) -> str:
    """Greet."""
    return f"Greet {name}"


@tool
def progress(ctx: Context) -> str:
    """Report progress from a thread."""
    trio.from_thread.run(ctx.report_progress, 1, 2)
    return "done"


@resource("watched://{name}")
def watched(name: str) -> str:
    """Something that changes."""
    return name


@tool
def tell(ctx: Context, uri: str) -> str:
    """Call from a thread what a handler may call without waiting."""
    ctx.notify_resource_updated(uri)
    ctx.elicitation_complete("a page")
    ctx.release_stream()
    return "told"


@tool
def count() -> Iterator[str]:
    """Count."""
    yield "one"
    yield "two"


@real_time(because=THREADS)
async def test_sync_tool_runs_in_a_thread(serve: Serve) -> None:
    peer = await serve(where)

    assert await peer.text("where") != threading.current_thread().name


@real_time(because=THREADS)
async def test_sync_resources_and_prompts_run_in_threads(serve: Serve) -> None:
    peer = await serve(memo, greet)

    assert (await peer.request("resources/read", {"uri": "sync://one"}))["contents"][0]["text"] == "one"
    messages = (await peer.request("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}))["messages"]
    assert messages[0]["content"]["text"] == "Greet Ann"


@real_time(because=THREADS)
async def test_sync_generator_is_consumed_in_a_thread(serve: Serve) -> None:
    peer = await serve(count)

    assert [block["text"] for block in (await peer.call("count"))["content"]] == ["one", "two"]


@real_time(because=THREADS)
async def test_thread_can_report_progress(serve: Serve) -> None:
    peer = await serve(progress)

    await peer.call("progress", meta={"progressToken": 1})

    assert [note["progress"] for note in peer.notes("notifications/progress")] == [1]


@real_time(because=THREADS)
@only(
    revisions=["2025-06-18", "2026-07-28"],
    transports=["memory", "http"],
    because="the others notify in the same ways, except that a released stream of 2025-11-25 ends",
)
async def test_thread_can_notify_changes(serve: Serve) -> None:
    peer = await serve(tell, watched)
    await peer.watch(uris=["watched://a", "watched://b"])

    assert await peer.text("tell", {"uri": "watched://a"}) == "told"
    await peer.eventually(lambda: bool(peer.notes(UPDATED)))
    # For example, the thread of a library that watches files.
    outside = threading.Thread(target=serve.server.notify_resource_updated, args=["watched://b"])
    outside.start()
    await peer.eventually(lambda: len(peer.notes(UPDATED)) > 1)
    outside.join()

    assert [note["uri"] for note in peer.notes(UPDATED)] == ["watched://a", "watched://b"]
    assert await peer.text("tell", {"uri": "watched://c"}) == "told"
    assert await trio.to_thread.run_sync(lambda: serve.server.status.sessions)


@real_time(because=THREADS)
@only(transports=["memory", "http"], because="the behaviour does not depend on how messages are framed")
async def test_cancelled_thread_is_abandoned(serve: Serve) -> None:
    release = threading.Event()
    started = threading.Event()
    ended = threading.Event()

    @tool
    def stuck() -> str:
        """Wait for something outside."""
        started.set()
        release.wait(60)
        ended.set()
        return "late"

    peer = await serve(stuck, where)
    try:
        call = await peer.start_call("stuck")
        await peer.eventually(started.is_set)
        await call.cancel()
        await peer.eventually(lambda: serve.server.status.in_flight == 0)

        assert not ended.is_set()
        assert await peer.text("where")
    finally:
        release.set()
        await peer.eventually(ended.is_set)


@real_time(because=THREADS)
@only(transports=["memory"], because="the behaviour does not depend on the transport")
async def test_busy_thread_does_not_delay_the_shutdown(serve: Serve) -> None:
    release = threading.Event()
    started = threading.Event()
    ended = threading.Event()

    @tool
    def stuck() -> str:
        """Wait for something outside."""
        started.set()
        release.wait(60)
        ended.set()
        return "late"

    peer = await serve(stuck, timeouts=Timeouts(shutdown=0.05))
    try:
        await peer.start_call("stuck")
        await peer.eventually(started.is_set)
        serve.shutdown.set()
        with peer.deadline():
            await serve.closed.wait()

        assert not ended.is_set()
    finally:
        release.set()
        await peer.eventually(ended.is_set)


@real_time(because=THREADS)
@only(transports=["memory"], because="the behaviour does not depend on the transport")
async def test_number_of_busy_threads_is_limited(serve: Serve) -> None:
    lock = threading.Lock()
    two = threading.Barrier(2, timeout=20)
    inside, most = 0, 0

    @tool
    def crowd() -> str:
        """Count who is here at the same time."""
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        two.wait()
        time.sleep(0.01)
        with lock:
            inside -= 1
        return ""

    peer = await serve(crowd, limits=ServerLimits(threads=2))
    calls = [await peer.start_call("crowd") for _ in range(8)]
    for call in calls:
        assert not (await call.result()).get("isError")

    assert most == 2


@real_time(because=THREADS)
@only(transports=["memory"], because="the behaviour does not depend on the transport")
async def test_thread_that_checks_sees_the_cancellation(serve: Serve) -> None:
    notified = threading.Event()
    started = threading.Event()

    @tool
    def polite() -> str:
        """Check regularly whether the call was cancelled."""
        started.set()
        try:
            while True:
                trio.from_thread.check_cancelled()
                time.sleep(0.005)
        finally:
            notified.set()

    peer = await serve(polite)
    call = await peer.start_call("polite")
    await peer.eventually(started.is_set)

    await call.cancel()

    await peer.eventually(notified.is_set)
