"""A server with the official Python SDK, written like its documentation, for tests of our client.

The tests run it as a process: ``python_sdk_server.py stdio`` or ``… http``. It has the same features as
typescript_sdk_server.mjs, in every revision of the SDK, with the SDK's public API; if there is none, it follows the
SDK's own conformance server.

Source: mcp 2.3.0, mcp/server; the SDK's examples/servers/everything-server.
"""

from __future__ import annotations

import socket
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Literal

import anyio
from mcp.server import ServerRequestContext
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    AudioContent,
    Completion,
    CompletionArgument,
    CompletionContext,
    ContentBlock,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequiredResult,
    JSONRPCMessage,
    ListPromptsResult,
    ListRootsResult,
    PaginatedRequestParams,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.routing import Mount

__all__: list[str] = []

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAVE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
LINGER_SECONDS = 60
LANGUAGES = ("python", "rust", "ruby")
TOPICS = {"monday": ("cats", "cars"), "tuesday": ("dogs",)}

mcp = MCPServer("python-sdk", version="1.0", instructions="Greet first.", log_level="WARNING")


def modern(ctx: Context) -> bool:
    return ctx.session.protocol_version in MODERN_PROTOCOL_VERSIONS


# Answers


class Sum(BaseModel):
    total: int


@mcp.tool(title="Addition")
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@mcp.tool(structured_output=False)
async def media() -> list[ContentBlock]:
    """Return every kind of content."""
    return [
        TextContent(text="text"),
        ImageContent(data=PIXEL, mime_type="image/png"),
        AudioContent(data=WAVE, mime_type="audio/wav"),
        ResourceLink(uri="memo://today", name="today"),
        EmbeddedResource(resource=TextResourceContents(uri="memo://inside", text="inside")),
    ]


@mcp.tool()
async def locate(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Take an argument that is mirrored in a header."""
    return f"in {region}"


@mcp.tool()
async def session(ctx: Context) -> str:
    """Tell the session, which is the server's to choose."""
    return session_of(ctx.request_context) or "none"


@mcp.tool()
async def refuse(reason: str) -> str:
    """Fail with a message for the model."""
    raise ToolError(reason)


@mcp.tool()
async def crash() -> str:
    """Fail without meaning to."""
    raise RuntimeError("the password is hunter2")


# Time


@mcp.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, and report it."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"{number} of {to}")
    return str(to)


@mcp.tool()
async def linger(file: str, ctx: Context) -> str:
    """Write into a file what has become of this call, which takes a minute."""
    record = anyio.Path(file)
    await record.write_text("begun\n")
    await ctx.report_progress(1, message="begun")
    try:
        await anyio.sleep(LINGER_SECONDS)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await record.write_text("cancelled\n")
        raise
    return "ended"


@mcp.tool()
async def chat(ctx: Context) -> str:
    """Log at four levels."""
    await ctx.debug("a debug message")
    await ctx.info("an info message")
    await ctx.warning({"text": "a warning"}, logger_name="chat")
    await ctx.error("an error message")
    return "said"


@mcp.tool()
async def mutter() -> str:
    """Print to standard output, as a careless author does."""
    print("muttered", flush=True)
    return "muttered"


@mcp.tool()
async def break_off(ctx: Context) -> str:
    """End the response early; the client reconnects for the rest."""
    await ctx.report_progress(1, 2)
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2)
    return "the rest"


# Questions


class Coffee(BaseModel):
    size: Literal["small", "large"]
    sugar: int = 0


class Confirmation(BaseModel):
    sure: bool


async def ask_coffee(message: str) -> Elicit[Coffee]:
    return Elicit(message, Coffee)


async def ask_any_coffee() -> Elicit[Coffee]:
    return Elicit("Which coffee?", Coffee)


async def ask_thought(about: str) -> Sample:
    content = TextContent(text=about)
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=50, system_prompt="Be brief.")


async def ask_tea() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(text="tea?"))], max_tokens=50)


async def ask_roots() -> ListRoots:
    return ListRoots()


async def ask_whether_sure(coffee: Annotated[Coffee, Resolve(ask_any_coffee)]) -> Elicit[Confirmation]:
    return Elicit(f"Really {coffee.size}?", Confirmation)


def coffee_required() -> InputRequiredResult:
    schema = Coffee.model_json_schema()
    params = ElicitRequestFormParams(message="Which coffee?", requested_schema=schema)
    return InputRequiredResult(input_requests={"coffee": ElicitRequest(params=params)})


def answered_coffee(ctx: Context) -> Coffee | None:
    answer = (ctx.input_responses or {}).get("coffee")
    return Coffee.model_validate(answer.content) if isinstance(answer, ElicitResult) else None


def text_of(answer: CreateMessageResult) -> str:
    return answer.content.text if isinstance(answer.content, TextContent) else repr(answer.content)


@mcp.tool()
async def order(message: str, answer: Annotated[ElicitationResult[Coffee], Resolve(ask_coffee)]) -> str:
    """Ask the user for a form."""
    if not isinstance(answer, AcceptedElicitation):
        return answer.action
    return f"{answer.data.size}, sugar {answer.data.sugar}"


@mcp.tool()
async def sign_in(ctx: Context) -> str | InputRequiredResult:
    """Have the user open a page."""
    message, url = "Please sign in", "https://example.com/sign-in"
    if not modern(ctx):
        return (await ctx.elicit_url(message, url, "sign-in-1")).action
    answer = (ctx.input_responses or {}).get("sign-in")
    if isinstance(answer, ElicitResult):
        return answer.action
    return InputRequiredResult(
        input_requests={"sign-in": ElicitRequest(params=ElicitRequestURLParams(message=message, url=url))}
    )


@mcp.tool()
async def think(about: str, answer: Annotated[CreateMessageResult, Resolve(ask_thought)]) -> str:
    """Ask the client's model."""
    return f"{answer.model}: {text_of(answer)}"


@mcp.tool()
async def roots(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask for the client's roots."""
    return ", ".join(str(root.uri) for root in answer.roots)


@mcp.tool()
async def everything(
    coffee: Annotated[Coffee, Resolve(ask_any_coffee)],
    thought: Annotated[CreateMessageResult, Resolve(ask_tea)],
    answer: Annotated[ListRootsResult, Resolve(ask_roots)],
) -> str:
    """Ask for three things at once."""
    return f"{coffee.size}, {thought.model}, {answer.roots[0].name}"


@mcp.tool()
async def checkout(
    coffee: Annotated[Coffee, Resolve(ask_any_coffee)], confirmation: Annotated[Confirmation, Resolve(ask_whether_sure)]
) -> str:
    """Ask twice, the second question made of the first answer."""
    return f"{coffee.size}, {confirmation.sure}"


# Resources, prompts, completion


@mcp.resource("memo://today", name="today", title="Today", mime_type="text/markdown")
async def today() -> str:
    """Today's memo."""
    return "# Today"


@mcp.resource("memo://logo", name="logo", mime_type="image/png")
async def logo() -> bytes:
    """Bytes."""
    return b"\x89PNG"


@mcp.resource("memo://{day}/{topic}", name="memo", mime_type="text/plain")
async def memo(day: str, topic: str) -> str:
    """The memo on a topic."""
    return f"{topic} on {day}"


@mcp.resource("ask://{topic}", name="asked")
async def asked(topic: str, ctx: Context) -> str | InputRequiredResult:
    """A resource that asks first, which the SDK can in 2026-07-28 only."""
    coffee = answered_coffee(ctx)
    return f"{coffee.size} {topic}" if coffee else coffee_required()


@mcp.prompt(title="Code review")
async def review(code: str, language: str = "python") -> str:
    """Have code reviewed."""
    return f"Review this {language}: {code}"


@mcp.prompt()
async def plain() -> str:
    """A prompt without arguments."""
    return "Just do it."


@mcp.prompt()
async def interview(ctx: Context) -> str | InputRequiredResult:
    """A prompt that asks first, which the SDK can in 2026-07-28 only."""
    coffee = answered_coffee(ctx)
    return f"Serve a {coffee.size} coffee." if coffee else coffee_required()


@mcp.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion | None:
    if isinstance(ref, PromptReference):
        candidates = LANGUAGES if (ref.name, argument.name) == ("review", "language") else ()
    else:
        day = ((context and context.arguments) or {}).get("day", "")
        candidates = TOPICS.get(day, ())
    found = [candidate for candidate in candidates if candidate.startswith(argument.value)]
    return Completion(values=found, total=len(found), has_more=False)


# Changes


subscribed: set[tuple[str | None, str]] = set()
"""Session and URI, of handshake sessions."""


def session_of(ctx: ServerRequestContext) -> str | None:
    return ctx.request.headers.get("mcp-session-id") if ctx.request is not None else None


@mcp.tool()
async def touch(uri: str, ctx: Context) -> str:
    """Say that a resource has changed."""
    await ctx.notify_resource_updated(uri)
    if (session_of(ctx.request_context), uri) in subscribed:
        await ctx.session.send_resource_updated(uri)
    return uri


async def tell_of_changes(ctx: Context) -> None:
    await ctx.notify_tools_changed()
    await ctx.notify_prompts_changed()
    await ctx.notify_resources_changed()
    if not modern(ctx):
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()


@mcp.tool()
async def extend(ctx: Context) -> str:
    """Add a tool, a prompt and a resource."""
    mcp.add_tool(plain, name="extra_tool")
    mcp.add_prompt(Prompt.from_function(plain, name="extra_prompt"))
    mcp.add_resource(FunctionResource.from_function(today, "memo://extra"))
    await tell_of_changes(ctx)
    return "extended"


@mcp.tool()
async def shrink(ctx: Context) -> str:
    """Take the tool and the prompt away again; the SDK cannot remove a resource."""
    mcp.remove_tool("extra_tool")
    mcp.remove_prompt("extra_prompt")
    await tell_of_changes(ctx)
    return "shrunk"


async def subscribe(ctx: ServerRequestContext, params: SubscribeRequestParams) -> EmptyResult:
    subscribed.add((session_of(ctx), str(params.uri)))
    return EmptyResult()


async def unsubscribe(ctx: ServerRequestContext, params: UnsubscribeRequestParams) -> EmptyResult:
    subscribed.discard((session_of(ctx), str(params.uri)))
    return EmptyResult()


async def set_level(ctx: ServerRequestContext, params: SetLevelRequestParams) -> EmptyResult:
    """Accepted, and without effect: the SDK sends all levels."""
    return EmptyResult()


async def list_prompts(ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListPromptsResult:
    """Two a page."""
    prompts = await mcp.list_prompts()
    start = int(params.cursor) if params and params.cursor else 0
    more = str(start + 2) if len(prompts) > start + 2 else None
    return ListPromptsResult(prompts=prompts[start : start + 2], next_cursor=more)


mcp._lowlevel_server.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
mcp._lowlevel_server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
mcp._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
mcp._lowlevel_server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)


# Serving


class Events(EventStore):
    """The sent events, for clients that reconnect. Grows for the whole test run."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        position = int(last_event_id)
        stream = self._sent[position - 1][0]
        for index, (stream_id, message) in enumerate(self._sent[position:], position + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(index)))
        return stream


def application() -> Starlette:
    """Streamable HTTP as sessions with events, with JSON answers, and without sessions; HTTP with SSE."""
    with_events = mcp.streamable_http_app(event_store=Events(), retry_interval=50)
    with_json = mcp.streamable_http_app(json_response=True)
    without_sessions = mcp.streamable_http_app(stateless_http=True)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in (with_events, with_json, without_sessions):
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    return Starlette(
        routes=[
            Mount("/json", with_json),
            Mount("/stateless", without_sessions),
            Mount("/old", mcp.sse_app()),
            Mount("/", with_events),
        ],
        lifespan=lifespan,
    )


async def serve_http() -> None:
    import uvicorn  # a tenth of the start-up time over stdio, which does not need it

    # With the protocol, so that asyncio turns off Nagle's algorithm.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(f"serving http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
        config = uvicorn.Config(application(), log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    anyio.run({"stdio": mcp.run_stdio_async, "http": serve_http}[sys.argv[1]])


if __name__ == "__main__":
    main()
