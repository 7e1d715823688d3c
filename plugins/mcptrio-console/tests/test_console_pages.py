"""The pages of a server that works, and what their forms change."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import pytest
import trio
from attrs import define
from mcptrio_console.charts import make_charts
from mcptrio_console.diagnosis import find_problems
from mcptrio_console.samples import SAMPLES, Samples

from mcptrio import MCPError, MCPTrioError, Server, connect
from mcptrio.serving import RequestEnded
from mcptrio.types import Implementation

from .conftest import Site, opened


def ended(**changes: object) -> RequestEnded:
    values = {
        "session": 1,
        "channel": "stdio",
        "id": 1,
        "method": "tools/call",
        "label": "water",
        "plugin": "garden",
        "revision": "2026-07-28",
        "client": None,
        "principal": None,
        "seconds": 0.02,
        "waited": 0.0,
        "outcome": "result",
        "code": None,
        "message": None,
    }
    return RequestEnded(**{**values, **changes})  # type: ignore[arg-type]


@define(eq=False)
class Viewer:
    """An open event stream, read from its socket."""

    stream: trio.SocketStream
    seen: bytes = b""

    async def until(self, text: str) -> None:
        """Read until the text has come."""
        while text.encode() not in self.seen:
            data = await self.stream.receive_some()
            assert data, self.seen[-500:]
            self.seen += data

    async def end(self) -> None:
        """Read until the end of the response."""
        await self.until("\r\n0\r\n\r\n")


@asynccontextmanager
async def watching(site: Site, page: str) -> AsyncIterator[Viewer]:
    """Open the event stream of a page."""
    address = urlsplit(site.url)
    assert address.hostname is not None
    assert address.port is not None
    cookies = "; ".join(f"{name}={value}" for name, value in site.http.cookies.items())
    head = f"GET /console/live/{page} HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: {cookies}\r\n\r\n"
    with trio.fail_after(20):
        async with await trio.open_tcp_stream(address.hostname, address.port) as stream:
            await stream.send_all(head.encode())
            viewer = Viewer(stream)
            await viewer.until("\ndata: ")
            yield viewer


async def call(site: Site, failed: list[str], name: str = "Ada <b>Desktop</b>") -> None:
    async with connect(site.server, info=Implementation(name=name, version="1")) as client:
        try:
            await client.call_tool("water", {"bed": "east"})
        except MCPError as error:
            failed.append(str(error))


async def test_request_in_flight_is_shown_and_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    failed: list[str] = []
    async with opened() as site, trio.open_nursery() as nursery:
        await site.enter()
        nursery.start_soon(call, site, failed)
        await site.garden.begun.wait()

        page = (await site.get("tree")).text
        assert "Ada &lt;b&gt;Desktop&lt;/b&gt;" in page
        assert "<b>Desktop" not in page
        assert "runs in garden" in page
        assert '<progress max="100.0" value="30.0"' in page or '<progress max="100" value="30"' in page
        [session] = [each for each in site.server.status.sessions if each.requests]
        fields = {"session": str(session.number), "request": json.dumps(session.requests[0].id), "back": "tree"}

        result = await site.note("cancel", **fields)

        assert result.endswith(f"of session {session.number} was cancelled.")
        assert "cancel (by the link, from 127.0.0.1)" in caplog.text
    assert failed == ["water was cancelled: an operator has cancelled it"]


async def test_request_that_waits_for_a_place_has_that_status() -> None:
    async with opened(config={"garden": {"concurrency": 1}}) as site, trio.open_nursery() as nursery:
        await site.enter()
        nursery.start_soon(call, site, [])
        await site.garden.begun.wait()
        nursery.start_soon(call, site, [], "Bo")
        with trio.fail_after(20):
            while site.server.status.in_flight < 2:  # noqa: ASYNC110 - the status has no event
                await trio.sleep(0.02)

        page = (await site.get("tree")).text
        assert "runs in garden" in page
        assert "waits until garden has a free place: other calls have all of them" in page
        site.garden.go.set()


async def test_session_is_ended() -> None:
    async with opened() as site:
        await site.enter()
        async with connect(site.server, prefer="handshake") as client:
            await client.ping()
            page = (await site.get("sessions")).text
            number = re.search(r'id="s-(\d+)"', page)
            assert number is not None

            assert await site.note("end", session=number[1]) == f"Session {number[1]} was ended."

            with pytest.raises(MCPTrioError):
                await client.ping()


async def grow(site: Site, failed: list[str]) -> None:
    async with connect(site.server, info=Implementation(name="Ada <b>", version="1")) as client:
        try:
            await client.call_tool("grow", {"plant": "peas"})
        except MCPTrioError as error:
            failed.append(str(error))


async def test_task_is_cancelled_and_listed_as_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    failed: list[str] = []
    async with opened() as site:
        await site.enter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(grow, site, failed)
            with trio.fail_after(20):
                while not site.server.status.tasks:  # noqa: ASYNC110 - the status has no event
                    await trio.sleep(0.02)
            [task] = site.server.status.tasks
            assert f'name="task" value="{task.id}"' in (await site.get("tasks")).text

            assert await site.note("cancel_task", task=str(task.id), back="tasks") == f"Task {task.id} was cancelled."

        assert "an operator has cancelled it" in failed[0]
        page = (await site.get("tasks")).text
        assert "Ada &lt;b&gt;" in page
        assert "cancelled: an operator has cancelled it" in page
        assert "1 since the console was opened, 0 of them failed" in page
        result = await site.note("cancel_task", task=str(task.id))
        assert result == f"Task {task.id} had already ended, or another process runs it."
    assert f"cancel_task (by the link, from 127.0.0.1): Task {task.id} was cancelled." in caplog.text


@pytest.mark.parametrize(
    ("action", "fields", "message"),
    [
        ("end", {"session": "x"}, "The session had already ended."),
        ("end", {"session": "9" * 50}, "The session had already ended."),
        ("cancel", {"session": "1", "request": "{}"}, "There is no such request."),
        ("cancel", {"session": "1", "request": "not json"}, "There is no such request."),
        ("cancel", {"session": "1", "request": '"<script>"'}, "Request &lt;script&gt; of session 1 had already ended."),
        ("restart", {"plugin": "<x>"}, "It failed: "),
        ("cancel_task", {"task": "<x>"}, "Task &lt;x&gt; had already ended"),
    ],
)
async def test_action_on_a_missing_item_is_reported(action: str, fields: dict[str, str], message: str) -> None:
    async with opened() as site:
        await site.enter()

        assert (await site.note(action, **fields)).startswith(message)


async def test_unknown_action_is_not_found() -> None:
    async with opened() as site:
        await site.enter()

        assert (await site.act("explode")).status_code == 404


@pytest.mark.parametrize("back", ["https://evil.example", "//evil.example", "/x", "\\x", "", "a" * 600])
async def test_form_leads_back_to_our_pages_only(back: str) -> None:
    async with opened() as site:
        await site.enter()

        done = await site.act("end", session="1", back=back)

        assert done.headers["location"] == "/console/"


async def test_live_part_is_sent_again_when_it_has_changed() -> None:
    async with opened() as site, trio.open_nursery() as nursery:
        await site.enter()
        async with watching(site, "tree") as viewer:
            await viewer.until("No request is in flight")
            nursery.start_soon(call, site, [])
            await viewer.until("runs in garden")
        site.garden.go.set()


async def test_live_part_ends_with_the_session_of_the_browser() -> None:
    async with opened() as site:
        await site.enter()
        async with watching(site, "now") as viewer:
            await site.act("leave")
            await viewer.end()


async def test_number_of_viewers_is_limited() -> None:
    async with opened() as site, AsyncExitStack() as stack:
        await site.enter()
        for _ in range(8):
            await stack.enter_async_context(watching(site, "now"))

        assert (await site.get("live/now")).status_code == 503


async def test_ten_thousand_sessions_are_paged() -> None:
    from mcptrio_console.views import Paged

    paged = Paged.of(range(10_000), {"page": "7"})
    assert (paged.rows[0], len(paged.rows), paged.pages) == (300, 50, 200)
    for page in ("0", "-1", "x", "9" * 99, ""):
        assert Paged.of(range(100), {"page": page}).number == 1
    assert Paged.of(range(100), {"page": "99"}).number == 2


def test_samples_are_bounded() -> None:
    now = 0.0
    samples = Samples(lambda: now)
    for number in range(3000):
        now = number * 1.0
        samples.request_ended(ended(label=f"tool {number}", outcome="error", message="no"))

    assert len(samples.last()) == SAMPLES
    assert sum(each.requests for each in samples.last() if each is not None) == 5 * SAMPLES
    assert len(samples.labels) <= 501
    assert len(samples.failures) == 100


def test_percentiles_leave_out_the_time_in_which_users_answer() -> None:
    samples = Samples(lambda: 100.0)
    for _ in range(99):
        samples.request_ended(ended(seconds=60.02, waited=60.0))
    samples.request_ended(ended(seconds=2.0))

    sample = samples.current
    assert sample.latencies.percentile(0.5) == pytest.approx(0.02, rel=0.16)
    assert sample.latencies.percentile(1) == pytest.approx(2.0, rel=0.16)
    latency = make_charts(samples, sessions=0)[1]
    assert re.fullmatch(r"\d+ ms and \d+ ms", latency.now)


async def test_problems_are_named_in_words() -> None:
    async def broken() -> None: ...

    samples = Samples()
    server = Server("shop")
    async with server.open():
        assert find_problems(server.status, samples) == []
        for _ in range(10):
            samples.request_ended(ended(outcome="tool_error", message="the hose is broken"))
        samples.request_refused("tools/call", "requests")

        texts = [problem.text for problem in find_problems(server.status, samples)]

    assert texts == [
        "Requests refused in the last minute: 1, mostly because too many requests were in flight.",
        "10 of 10 requests failed in the last minute, mostly “water”: the hose is broken",
    ]


async def test_slow_request_is_a_problem_that_names_client_and_tool(autojump_clock: trio.testing.MockClock) -> None:
    from mcptrio import tool

    @tool
    async def water() -> None:
        """Water."""
        await trio.sleep(60)

    server = Server("shop")
    server.add_tool(water)
    info = Implementation(name="Ada's desktop", version="1")
    async with server.open(), connect(server, info=info) as client, trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.call_tool, "water", {}))
        await trio.sleep(20)

        [problem] = find_problems(server.status, Samples())
        nursery.cancel_scope.cancel()

    assert problem.text.startswith("“water” of Ada's desktop (session ")
    assert "has been open for 20 s and" in problem.text
    assert "; its deadline is in" in problem.text
