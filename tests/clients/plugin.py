"""The plugin that the official clients are tested with, as a plugin author would write it, the same in every revision.

test_python_sdk.py and test_typescript_sdk.py serve it with ``mcptrio serve --plugin``. Files that other calls
make determine the order of events, because these calls may run on another replica.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal
from urllib.parse import quote

import trio
from attrs import define, frozen

from mcptrio import (
    Blob,
    Context,
    Elicit,
    Header,
    ListRoots,
    Sample,
    Server,
    ToolError,
    completion,
    hookimpl,
    prompt,
    resource,
    tool,
)
from mcptrio.types import (
    AudioContent,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

__all__: list[str] = []

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAVE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

# A careless plugin: over stdio this line must not be written among the messages.
print("plugin imported")


@define
class SharedState:
    """State that calls share, on this replica or another one."""

    folder: Path
    """Shared by all replicas, as a database that the tools use would be."""

    def set(self, name: str) -> None:
        self._file(name).touch()

    async def wait(self, name: str) -> None:
        while not self._file(name).exists():  # noqa: ASYNC110 - another process creates it
            await trio.sleep(0.01)

    def count(self, name: str) -> int:
        """Return how often this was called with the name."""
        with self._file(name).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(b".")
            file.flush()
            return file.tell()

    def _file(self, name: str) -> Path:
        return self.folder / quote(name, safe="")


@hookimpl
def lifespan(server: Server) -> AbstractAsyncContextManager[SharedState]:
    @asynccontextmanager
    async def open_state() -> AsyncIterator[SharedState]:
        print("plugin entered", file=sys.stderr)
        try:
            with TemporaryDirectory() as own:
                yield SharedState(Path(os.environ.get("SHARED_FOLDER", own)))
        finally:
            print("plugin left", file=sys.stderr)

    return open_state()


# Results


@frozen
class Area:
    """An area with its unit."""

    value: float
    unit: str


@tool(title="Greeting", read_only=True, icons=[Icon(src="https://example.com/wave.png", mime_type="image/png")])
async def greet(name: str) -> str:
    """Greet a person.

    Args:
        name: The name to greet.
    """
    return f"Hello, {name}!"


@tool(read_only=True)
async def area(width: float, height: float) -> Area:
    """Compute an area."""
    return Area(width * height, "m²")


@tool
async def media() -> list[TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource]:
    """Return every kind of content."""
    return [
        TextContent(text="text"),
        ImageContent(data=PIXEL, mime_type="image/png"),
        AudioContent(data=WAVE, mime_type="audio/wav"),
        ResourceLink(uri="note://today", name="today"),
        EmbeddedResource(resource=TextResourceContents(uri="note://inside", text="inside")),
    ]


@tool
async def locate(region: Annotated[str, Header("Region")]) -> str:
    """Take an argument that is repeated in a header."""
    return f"in {region}"


@tool
async def refuse(reason: str) -> str:
    """Fail with a message for the model."""
    raise ToolError(reason)


@tool
async def crash() -> str:
    """Raise an unexpected error."""
    raise RuntimeError("the password is hunter2")


# Progress and cancellation


@tool
async def count(ctx: Context, name: str, to: int) -> int:
    """Count and report progress, then wait until the client confirms that it received the reports."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, total=to, message=f"{number} of {to}")
    with trio.fail_after(WAIT_TIMEOUT):
        await ctx.state.wait(f"{name} let go")
    return to


@tool
async def hold(ctx: Context, name: str) -> str:
    """Report the start, then wait for the release."""
    try:
        await ctx.report_progress(1, message="begun")
        await ctx.state.wait(f"{name} let go")
    except trio.Cancelled:
        ctx.state.set(f"{name} cancelled")
        raise
    return f"{name} was let go"


@tool
async def let_go(ctx: Context, name: str) -> str:
    """Release a ``hold`` or a ``count``."""
    ctx.state.set(f"{name} let go")
    return "done"


@tool
async def watch_cancelled(ctx: Context, name: str) -> str:
    """Wait until a ``hold`` was cancelled."""
    with trio.fail_after(WAIT_TIMEOUT):
        await ctx.state.wait(f"{name} cancelled")
    return f"{name} was cancelled"


@tool
async def meet(ctx: Context, name: str, parties: int) -> int:
    """Wait until this number of calls run at the same time; return the position of this one."""
    place: int = ctx.state.count(name)
    if place == parties:
        ctx.state.set(f"{name} complete")
    with trio.fail_after(WAIT_TIMEOUT):
        await ctx.state.wait(f"{name} complete")
    return place


@tool
async def break_off(ctx: Context) -> str:
    """End the response early; the client reconnects for the rest."""
    await ctx.report_progress(1, total=2)
    ctx.release_stream(retry_ms=10)
    await ctx.report_progress(2, total=2)
    return "the rest"


@tool
async def chat(ctx: Context) -> str:
    """Log at four levels."""
    await ctx.debug("a debug message")
    await ctx.info("an info message")
    await ctx.warning({"text": "a warning"}, logger="chat")
    await ctx.error("an error message")
    return "said"


# Requests to the client


@frozen(kw_only=True)
class Coffee:
    """An order of coffee."""

    size: Literal["small", "large"]
    sugar: int = 0
    to_go: bool = False


@tool
async def order(ctx: Context, message: str) -> str:
    """Ask the user for a form."""
    answer = await ctx.elicit(message, Coffee)
    coffee = answer.content
    if coffee is None:
        return answer.action
    return f"{coffee.size}, sugar {coffee.sugar}, {'to go' if coffee.to_go else 'here'}"


@tool
async def sign_in(ctx: Context) -> str:
    """Ask the user to open a page."""
    answer = await ctx.elicit_url("Please sign in", "https://example.com/sign-in", id="sign-in-1")
    return answer.action


@tool
async def think(ctx: Context, about: str) -> str:
    """Request a completion from the client's model."""
    answer = await ctx.sample(about, max_tokens=50, system_prompt="Be brief.")
    content = answer.content if not isinstance(answer.content, tuple) else answer.content[0]
    return f"{answer.model}: {content.text if isinstance(content, TextContent) else content}"


@tool
async def roots(ctx: Context) -> list[str]:
    """Ask for the client's roots."""
    return [root.uri for root in await ctx.list_roots()]


@tool
async def everything(ctx: Context) -> str:
    """Ask three questions at once."""
    coffee, thought, roots = await ctx.ask_all(Elicit("Which coffee?", Coffee), Sample("tea?"), ListRoots())
    return f"{coffee.size}, {thought.model}, {roots[0].name}"


@tool
async def checkout(ctx: Context, name: str) -> str:
    """Run an effect once, then ask twice; the second question contains the first answer."""

    async def charge() -> int:
        return int(ctx.state.count(f"{name} charged"))

    charged = await ctx.once(charge, key="charge")
    first = await ctx.ask("Which coffee?", Coffee)
    second = await ctx.ask(f"Really {first.size}?", bool)
    return f"charged {charged} time(s), {first.size}, {second}"


@prompt
async def interview(ctx: Context) -> str:
    """A prompt that asks the user."""
    return f"Serve a {(await ctx.ask('Which coffee?', Coffee)).size} coffee."


@resource("note://asked")
async def asked(ctx: Context) -> str:
    """A resource that asks the user."""
    return f"a {(await ctx.ask('Which coffee?', Coffee)).size} note"


# Resources, prompts, completion


@resource("note://today", title="Today", mime_type="text/markdown", ttl_ms=60_000)
async def today(ctx: Context) -> str:
    """Today's note; says how often it was read."""
    return f"# Today\n\nRead {ctx.state.count('today')} time(s)."


@resource("note://logo", mime_type="image/png")
async def logo() -> bytes:
    """A binary resource."""
    return b"\x89PNG"


@resource("note://pair")
async def pair() -> list[TextResourceContents | Blob]:
    """A resource with two contents."""
    return [TextResourceContents(uri="note://pair/1", text="one"), Blob(b"two", mime_type="application/x-two")]


@resource("note://{day}/{topic}")
async def note(day: str, topic: str) -> str:
    """The note on a topic."""
    return f"{topic} on {day}"


@resource("log://{name}")
async def log(name: str) -> str:
    """A log."""
    return name


@resource("user://{name}")
async def user(name: str) -> str:
    """A user."""
    return name


@completion("resource", "note://{day}/{topic}", "topic")
async def complete_topic(value: str, arguments: Mapping[str, str]) -> list[str]:
    """Topics of the day."""
    topics = {"monday": ["cats", "cars"], "tuesday": ["dogs"]}
    return [topic for topic in topics.get(arguments.get("day", "monday"), []) if topic.startswith(value)]


@prompt(title="Code review")
async def review(code: str, language: Literal["python", "rust"] = "python") -> str:
    """Have code reviewed.

    Args:
        code: The code to review.
        language: Its language.
    """
    return f"Review this {language}: {code}"


@prompt
async def plain() -> str:
    """A prompt without arguments."""
    return "Just do it."


# Changes


@tool
async def touch(ctx: Context, uri: str) -> str:
    """Report a change of a resource."""
    ctx.notify_resource_updated(uri)
    return uri


@tool
async def extend(ctx: Context) -> str:
    """Add a tool, a prompt and a resource."""
    ctx.server.add_tool(greet, name="extra_tool")
    ctx.server.add_prompt(plain, name="extra_prompt")
    ctx.server.add_resource(logo, "note://extra")
    return "extended"


@tool
async def shrink(ctx: Context) -> str:
    """Remove the added tool, prompt and resource."""
    ctx.server.remove_tool("extra_tool")
    ctx.server.remove_prompt("extra_prompt")
    ctx.server.remove_resource("note://extra")
    return "shrunk"
