"""The plugin for the tests of the client's commands: arguments of every kind, slow and hostile tools."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any, Literal

import trio
from attrs import field, frozen
from msgspec import Meta

from mcptrio import Context, ToolError, completion, prompt, resource, tool
from mcptrio.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

__all__ = [
    "broken",
    "city",
    "count",
    "files",
    "folders",
    "greet",
    "hostile",
    "log",
    "logo",
    "mood",
    "moods",
    "note",
    "numbers",
    "printing",
    "sleep",
    "take",
    "touch",
    "weather",
]

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
HOSTILE = "\x1b[2J\x1b]0;owned\x07left\u202eright\r\nnext"


@frozen(kw_only=True)
class Place:
    """The location of something."""

    city: str
    floor: int = 0
    tags: list[str] = field(factory=list)


@tool(read_only=True)
async def take(
    text: str,
    whole: Annotated[int, Meta(ge=0, le=10)] = 0,
    share: float = 0.5,
    flag: bool = False,
    kind: Literal["a", "b"] = "a",
    tags: list[str] | None = None,
    numbers: list[int] | None = None,
    place: Place | None = None,
    maybe: int | None = None,
    anything: Any = None,
) -> str:
    """Return the arguments.

    Args:
        text: Any text.
    """
    where = None if place is None else {"city": place.city, "floor": place.floor, "tags": place.tags}
    return json.dumps([text, whole, share, flag, kind, tags, numbers, where, maybe, anything])


@tool(read_only=True)
async def greet(ctx: Context, formal: bool = False) -> str:
    """Ask for a name, and greet."""
    form = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name"],
    }
    answer: Any = await ctx.elicit("Who is there?", form)
    if not answer.accepted:
        return f"The user chose to {answer.action}."
    name = answer.content["name"]
    return f"Good day, {name}." if formal else f"Hello, {name}!"


@tool
async def sleep(ctx: Context, seconds: float = 60, steps: int = 10) -> str:
    """Take a while."""
    try:
        for step in range(1, steps + 1):
            await trio.sleep(seconds / steps)
            await ctx.report_progress(step, total=steps, message=f"step {step}")
    except trio.Cancelled:
        print("the call was taken back", flush=True)
        raise
    return "awake"


@tool
async def count(ctx: Context) -> str:
    """Report three steps at once."""
    for step in (1, 2, 3):
        await ctx.report_progress(step, total=3, message=f"step {step}")
        await trio.sleep(0.01)
    return "counted"


@tool
async def broken() -> str:
    """Fail."""
    raise ToolError("it is broken\nbeyond repair")


@tool
async def hostile() -> str:
    """Return text that controls a terminal."""
    return HOSTILE


@tool
async def printing() -> str:
    """Print in addition to the result."""
    print("printed by the tool", flush=True)
    return "returned by the tool"


@tool
async def log(ctx: Context) -> str:
    """Log at two levels."""
    await ctx.log("debug", "not asked for", logger="plugin")
    await ctx.log("warning", {"disk": "full\x1b[31m"}, logger="plugin")
    return "logged"


@tool
async def files() -> list[TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink]:
    """Return one content block of each kind."""
    data = base64.b64encode(PNG).decode()
    blob = BlobResourceContents(uri="file:///etc/../.hidden name.bin", mime_type="application/octet-stream", blob=data)
    return [
        TextContent(text="here they are"),
        ImageContent(data=data, mime_type="image/png"),
        AudioContent(data=data, mime_type="audio/wav"),
        EmbeddedResource(resource=blob),
        ResourceLink(uri="note://1", name="a note", mime_type="text/plain"),
    ]


@frozen(kw_only=True)
class Weather:
    degrees: float
    sky: str


@tool
async def weather() -> Weather:
    """Return a structured result."""
    return Weather(degrees=21.5, sky="blue")


@tool
async def touch(ctx: Context, uri: str = "note://1") -> str:
    """Report a change of a note."""
    ctx.notify_resource_updated(uri)
    return "touched"


@tool
async def folders(ctx: Context) -> str:
    """Name the folders this server may work in."""
    return ", ".join(root.uri for root in await ctx.list_roots()) or "none"


@resource("note://{number}", mime_type="text/plain")
async def note(number: str) -> str:
    """A note."""
    return f"note {number}"


@resource("logo://png", mime_type="image/png")
async def logo() -> bytes:
    """An image."""
    return PNG


@completion("resource", "note://{number}", "number")
async def numbers(value: str) -> list[str]:
    """Suggest notes by prefix."""
    return [each for each in ("1", "12", "2") if each.startswith(value)]


@prompt
async def moods(city: str, mood: str = "fine") -> str:
    """Ask about moods.

    Args:
        city: The city to ask about.
        mood: Your mood.
    """
    return f"How are things in {city}? I am {mood}."


@completion("prompt", "moods", "city")
async def city(value: str) -> list[str]:
    """Suggest cities by prefix."""
    return [each for each in ("Bonn", "Berlin", "New York") if each.startswith(value)]


@completion("prompt", "moods", "mood")
async def mood(value: str, arguments: dict[str, str]) -> list[str]:
    """Suggest moods of the city."""
    return [f"{arguments.get('city', 'no')} blues"]
