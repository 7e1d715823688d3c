"""Spans of servers and clients: names, kinds, attributes, status, parents and links, by the conventions for MCP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from opentelemetry.trace import StatusCode
from trio.testing import MockClock

from mcptrio import Client, Context, Endpoint, MCPError, Mount, Server, connect, resource, tool
from mcptrio.client import Form, Handlers
from mcptrio.errors import RequestTimeout
from mcptrio.serve.http import serve_http
from mcptrio.serving import ServerLimits, Timeouts
from tests.runtime.peers import connected
from tests.runtime.peers import tool as call
from tests.server_options import server_options
from tests.telemetry.spans import Spans, is_child, trace_of, traced

__all__: list[str] = []

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"


class Shop:
    """A plugin of tools that end in every way."""

    @tool
    async def price(self, item: str, password: str = "") -> str:
        """Return a price."""
        with Spans.current().start_as_current_span("look up"):
            return f"{item}: 3"

    @tool
    async def order(self, ctx: Context) -> str:
        """Ask for a name."""
        return await ctx.ask("Your name?", str)

    @tool
    async def count(self, ctx: Context) -> str:
        """Report progress."""
        await ctx.report_progress(1, 2)
        await ctx.report_progress(2, 2)
        return "2"

    @resource("shop://opening")
    async def opening(self) -> str:
        """The opening hours."""
        return "9 to 5"

    @tool
    async def fail(self) -> str:
        """Fail."""
        raise ValueError("broken")

    @tool
    async def hang(self) -> str:
        """Wait for ever."""
        await trio.sleep_forever()
        raise AssertionError

    @tool(task="required", poll_interval=1)
    async def bake(self, ctx: Context) -> str:
        """Take long."""
        with Spans.current().start_as_current_span("bake it"):
            return await ctx.ask("Your name?", str)


async def fill_in(form: Form) -> Any:
    return form.accept({"value": "Ada"})


@asynccontextmanager
async def shop(revision: str = MODERN, **settings: Any) -> AsyncIterator[Client]:
    server = Server(plugins=[Shop()], **server_options(settings))
    async with connect(server, revision=revision, handlers=Handlers(elicit=fill_in)) as client:
        yield client


@pytest.fixture
def spans() -> Iterator[Spans]:
    with traced() as spans:
        yield spans


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_call_is_one_trace_from_the_client_into_the_handler(spans: Spans, revision: str) -> None:
    async with shop(revision) as client:
        await client.call_tool("price", {"item": "bread"})

    sent, served = spans.one("tools/call price", "CLIENT"), spans.one("tools/call price", "SERVER")
    assert is_child(served, sent)
    assert is_child(spans.one("look up"), served)
    assert served.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "price",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": revision,
        "jsonrpc.request.id": sent.attributes["jsonrpc.request.id"],
    }
    # Neither end of a pipe names its session.
    assert sent.attributes == {**served.attributes, "network.transport": "pipe"}
    assert (served.status.status_code, sent.status.status_code) == (StatusCode.UNSET, StatusCode.UNSET)


async def test_span_of_the_caller_is_the_parent(spans: Spans) -> None:
    async with shop() as client:
        with spans.tracer.start_as_current_span("work"):
            await client.call_tool("price", {"item": "bread"})
            await client.read_resource("shop://opening")

    work = spans.one("work")
    assert is_child(spans.one("tools/call price", "CLIENT"), work)
    read = spans.one("resources/read", "CLIENT")
    assert is_child(read, work)
    assert read.attributes["mcp.resource.uri"] == "shop://opening"


@pytest.mark.parametrize(
    ("revision", "call", "error", "message"),
    [
        (MODERN, ("fail", {}), "tool_error", None),
        (MODERN, ("price", {"item": [3]}), "tool_error", None),
        ("2025-06-18", ("price", {"item": [3]}), "-32602", "at `item`"),
        (MODERN, ("nothing", {}), "-32602", "no such tool: `nothing`"),
    ],
)
async def test_failures_have_an_error_type_and_a_status(
    spans: Spans, revision: str, call: tuple[str, dict[str, Any]], error: str, message: str | None
) -> None:
    async with shop(revision) as client:
        try:
            await client.call_tool(*call)
        except MCPError:
            pass

    for kind in ("CLIENT", "SERVER"):
        span = spans.one(f"tools/call {call[0]}", kind)
        assert span.attributes["error.type"] == error
        assert span.status.status_code is StatusCode.ERROR
        if message is not None:
            assert span.attributes["rpc.response.status_code"] == error
            assert message in (span.status.description or "")


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_late_answer_is_a_timeout_and_its_handler_is_cancelled(
    spans: Spans, revision: str, autojump_clock: MockClock
) -> None:
    async with shop(revision) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("hang", timeout=3)
        await trio.sleep(1)

    assert spans.one("tools/call hang", "CLIENT").attributes["error.type"] == "timeout"
    assert spans.one("tools/call hang", "SERVER").attributes["error.type"] == "cancelled"
    notice = spans.one("notifications/cancelled", "SERVER")
    assert is_child(notice, spans.one("notifications/cancelled", "CLIENT"))


async def test_deadline_of_the_server_is_a_timeout(spans: Spans, autojump_clock: MockClock) -> None:
    async with shop(timeouts=Timeouts(request=5, idle=5)) as client:
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("hang", timeout=60)

    assert spans.one("tools/call hang", "SERVER").attributes["error.type"] == "timeout"


async def test_question_of_a_handshake_server_is_a_separate_request(spans: Spans) -> None:
    async with shop(HANDSHAKE) as client:
        await client.call_tool("order")

    call = spans.one("tools/call order", "SERVER")
    asked, answered = spans.one("elicitation/create", "CLIENT"), spans.one("elicitation/create", "SERVER")
    assert is_child(asked, call)
    assert is_child(answered, asked)


@pytest.mark.parametrize("parked", [0, 10])
async def test_rounds_of_a_call_are_one_trace(spans: Spans, parked: int) -> None:
    """A handler that is parked waits in a span; one that is replayed waits in none."""
    async with shop(limits=ServerLimits(parked=parked)) as client:
        await client.call_tool("order")

    first, second = spans.named("tools/call order", "SERVER")
    assert first.attributes["mcptrio.result.type"] == "input_required"
    assert "mcptrio.result.type" not in second.attributes
    # The caller has no span, so the first request is the parent of all that follows.
    assert is_child(spans.named("tools/call order", "CLIENT")[1], spans.named("tools/call order", "CLIENT")[0])
    waits = spans.named("elicitation/create", "INTERNAL")
    assert {trace_of(span) for span in (first, second, *waits)} == {trace_of(first)}
    asked = [span for span in waits if is_child(span, first)]
    assert len(asked) == 1
    assert (asked[0].end_time > second.start_time) == bool(parked)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_rounds_of_a_client_without_tracing_are_linked(spans: Spans, replicas: int) -> None:
    """The state that the client returns names the first round, which may have been on another replica."""
    options = server_options({"keys": (b"a key of both replicas",)})
    servers = [Server(plugins=[Shop()], **options) for _ in range(replicas)]
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server, revision=None)) for server in servers]
        asked = await clients[0].result(call(1, "order", modern=True))
        [key] = asked["inputRequests"]
        answers = {key: {"action": "accept", "content": {"value": "Ada"}}}
        again = call(2, "order", modern=True, inputResponses=answers, requestState=asked["requestState"])
        await clients[-1].result(again)

    first, second = spans.named("tools/call order", "SERVER")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


async def test_task_belongs_to_the_call_that_made_it(spans: Spans, autojump_clock: MockClock) -> None:
    async with shop() as client:
        await client.call_tool("bake")

    created = spans.one("tools/call bake", "SERVER")
    assert created.attributes["mcptrio.result.type"] == "task"
    work = spans.one("task tools/call bake", "INTERNAL")
    assert is_child(work, created)
    assert is_child(spans.one("bake it"), work)
    polls = spans.named("tasks/get", "SERVER") + spans.named("tasks/update", "SERVER")
    assert {trace_of(span) for span in polls} == {trace_of(created)}


async def test_trace_of_a_message_takes_precedence_over_that_of_its_http_request(spans: Spans) -> None:
    """The span of the HTTP request is linked, for a request without a session and in one."""
    server = Server(plugins=[Shop()])
    async with trio.open_nursery() as nursery:
        [url] = await nursery.start(partial(serve_http, server, port=0))
        headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        for revision in (HANDSHAKE, MODERN):
            async with connect(Endpoint(url=url, headers=headers), revision=revision) as client:
                await client.call_tool("price", {"item": "bread"})

            served = spans.one("tools/call price", "SERVER")
            sent = spans.one("tools/call price", "CLIENT")
            assert is_child(served, sent)
            assert [f"{link.context.span_id:x}" for link in served.links] == ["b7ad6b7169203331"]
            assert served.attributes["network.transport"] == "tcp"
            assert served.attributes["network.protocol.name"] == "http"
            assert served.attributes["client.address"] == "127.0.0.1"
            assert ("mcp.session.id" in served.attributes) == (revision == HANDSHAKE)
            assert sent.attributes["server.port"] == int(url.split(":")[2].split("/")[0])
            spans.clear()
        nursery.cancel_scope.cancel()


async def test_mounted_server_is_part_of_the_trace(spans: Spans) -> None:
    inside = Server(plugins=[Shop()])
    async with inside.open(), connect(Server(plugins=[Mount(inside, name="shop")])) as client:
        await client.call_tool("shop_price", {"item": "bread"})

    outer = spans.one("tools/call shop_price", "SERVER")
    forwarded, inner = spans.one("tools/call price", "CLIENT"), spans.one("tools/call price", "SERVER")
    assert is_child(forwarded, outer)
    assert is_child(inner, forwarded)


async def test_notifications_have_spans_on_both_sides(spans: Spans) -> None:
    async with shop(HANDSHAKE) as client:
        await client.call_tool("count", progress=lambda report: None)

    reports = spans.named("notifications/progress", "CLIENT")
    assert reports
    assert all(is_child(report, spans.one("tools/call count", "SERVER")) for report in reports)
    assert {span.parent.span_id for span in spans.named("notifications/progress", "SERVER")} == {
        span.context.span_id for span in reports
    }
    assert is_child(spans.one("notifications/initialized", "SERVER"), spans.one("notifications/initialized", "CLIENT"))


async def test_arguments_are_recorded_only_on_request_and_without_secrets() -> None:
    for content in (False, True):
        with traced(content=content) as spans:
            async with shop("2025-06-18") as client:
                await client.call_tool("price", {"item": "bread", "password": "hunter22"})
                with pytest.raises(MCPError):
                    await client.call_tool("price", {"item": [1234], "password": "hunter22"})

        for span in spans.named("tools/call price"):
            recorded = f"{span.attributes} {span.status.description}"
            assert "hunter22" not in recorded
            assert ("1234" in recorded) == (content and "error.type" in span.attributes)
            assert ("gen_ai.tool.call.arguments" in span.attributes) == content
        if content:
            recorded = spans.named("tools/call price", "SERVER")[0].attributes
            assert recorded["gen_ai.tool.call.arguments"] == '{"item":"bread","password":"[redacted]"}'
            assert "bread: 3" in recorded["gen_ai.tool.call.result"]


@pytest.mark.parametrize(
    "meta",
    [
        {"traceparent": 5},
        {"traceparent": ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"], "baggage": {}},
        {"traceparent": "00-zz-b7ad6b7169203331-01", "tracestate": "x" * 10_000},
        {"traceparent": "", "baggage": "=" * 9_000},
    ],
)
async def test_invalid_trace_of_a_peer_is_ignored(spans: Spans, meta: dict[str, Any]) -> None:
    server = Server(plugins=[Shop()])
    async with connected(server, revision=None) as client:
        request = call(1, "fail", modern=True)
        request.params["_meta"].update(meta)
        await client.result(request)

    assert spans.one("tools/call fail", "SERVER").parent is None
