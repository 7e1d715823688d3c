"""Demo tools that return content: text, annotated and structured content, links, resources, compressed data.

Names and arguments are those of the reference server "everything".
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
from typing import Annotated, Literal
from urllib.parse import unquote_to_bytes

import trio
from attrs import frozen
from msgspec import Meta

from mcptrio import ToolError, tool
from mcptrio.types import Annotations, BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink, TextContent
from mcptrio_everything.resources import DYNAMIC_BLOB, DYNAMIC_TEXT, embed
from mcptrio_everything.samples import PNG

__all__ = [
    "Weather",
    "echo",
    "get_annotated_message",
    "get_resource_links",
    "get_resource_reference",
    "get_structured_content",
    "get_sum",
    "get_tiny_image",
    "gzip_file_as_resource",
]

MAX_DATA_BYTES = 10 * 1024 * 1024
"""Maximum size before compression, as in the reference server."""

_DATA_URL = re.compile(r"data:(?P<type>[^,;]*)(?:;(?!base64,)[^,;]*)*(?P<base64>;base64)?,(?P<data>.*)", re.DOTALL)


@frozen(kw_only=True)
class Weather:
    """The weather of a city."""

    temperature: float
    """Degrees Celsius."""
    conditions: str
    humidity: float
    """Percent."""


_WEATHER = {
    "New York": Weather(temperature=33, conditions="Cloudy", humidity=82),
    "Chicago": Weather(temperature=36, conditions="Light rain / drizzle", humidity=82),
    "Los Angeles": Weather(temperature=23, conditions="Sunny / Clear", humidity=48),
}


@tool(title="Echo", read_only=True, examples=[{"message": "hello"}])
async def echo(message: str) -> str:
    """Return the message.

    Args:
        message: What to return.
    """
    return f"Echo: {message}"


@tool(name="get-sum", title="Sum", read_only=True, examples=[{"a": 1, "b": 2}])
async def get_sum(a: float, b: float) -> str:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return f"The sum of {a:g} and {b:g} is {a + b:g}."


@tool(name="get-tiny-image", title="Tiny image", read_only=True, examples=[{}])
async def get_tiny_image() -> list[TextContent | ImageContent]:
    """Return an image of one pixel, with a sentence before and after it."""
    return [
        TextContent(text="Here's the image you requested:"),
        ImageContent(data=PNG, mime_type="image/png"),
        TextContent(text="The image above is one red pixel."),
    ]


@tool(
    name="get-annotated-message",
    title="Annotated message",
    read_only=True,
    examples=[{"messageType": "error", "includeImage": True}],
)
async def get_annotated_message(
    messageType: Literal["error", "success", "debug"], includeImage: bool = False
) -> list[TextContent | ImageContent]:
    """Return content with annotations: its audience and its priority.

    Args:
        messageType: Selects the message, its audience and its priority.
        includeImage: Whether an image for the user follows.
    """
    if messageType == "error":
        text, annotations = "Error: Operation failed", Annotations(priority=1.0, audience=("user", "assistant"))
    elif messageType == "success":
        text, annotations = "Operation completed successfully", Annotations(priority=0.7, audience=("user",))
    else:
        text = "Debug: Cache hit ratio 0.95, latency 150ms"
        annotations = Annotations(priority=0.3, audience=("assistant",))
    content: list[TextContent | ImageContent] = [TextContent(text=text, annotations=annotations)]
    if includeImage:
        for_user = Annotations(priority=0.5, audience=("user",))
        content.append(ImageContent(data=PNG, mime_type="image/png", annotations=for_user))
    return content


@tool(name="get-structured-content", title="Structured content", read_only=True, examples=[{"location": "Chicago"}])
async def get_structured_content(location: Literal["New York", "Chicago", "Los Angeles"]) -> Weather:
    """Return an object that fits the tool's output schema.

    Args:
        location: The city.
    """
    return _WEATHER[location]


@tool(name="get-resource-links", title="Resource links", read_only=True, examples=[{"count": 10}])
async def get_resource_links(count: Annotated[int, Meta(ge=1, le=10)] = 3) -> list[TextContent | ResourceLink]:
    """Return links to resources, which the client may read.

    Args:
        count: How many.
    """
    content: list[TextContent | ResourceLink] = [TextContent(text=f"Here are {count} resource links:")]
    for number in range(1, count + 1):
        kind, template, mime_type = (
            ("Text", DYNAMIC_TEXT, "text/plain") if number % 2 else ("Blob", DYNAMIC_BLOB, "application/octet-stream")
        )
        content.append(
            ResourceLink(
                uri=template.replace("{resourceId}", str(number)),
                name=f"{kind} resource {number}",
                description=f"Resource {number}",
                mime_type=mime_type,
            )
        )
    return content


@tool(name="get-resource-reference", title="Resource reference", read_only=True, examples=[{}])
async def get_resource_reference(
    resourceType: Literal["Text", "Blob"] = "Text", resourceId: Annotated[int, Meta(ge=1, le=999_999_999)] = 1
) -> EmbeddedResource:
    """Return a resource, embedded.

    Args:
        resourceType: The kind of the resource.
        resourceId: Its number.
    """
    return await embed(resourceType, str(resourceId))


@tool(
    name="gzip-file-as-resource",
    title="Compress",
    read_only=True,
    examples=[{"data": "data:text/plain,hello"}],
    timeout=30,
)
async def gzip_file_as_resource(data: str, name: str = "data.gz") -> EmbeddedResource:
    """Compress the contents of a data: URL with gzip.

    Only data: URLs: a server that fetches any URL can reach addresses that its caller cannot.

    Args:
        data: A URL like data:text/plain;base64,aGVsbG8=
        name: The name of the result.
    """
    compressed = await trio.to_thread.run_sync(_compress, data)
    return EmbeddedResource(
        resource=BlobResourceContents(
            uri=f"demo://resource/session/{_path_segment(name)}",
            mime_type="application/gzip",
            blob=base64.b64encode(compressed).decode(),
        )
    )


def _compress(url: str) -> bytes:
    match = _DATA_URL.fullmatch(url)
    if match is None:
        raise ToolError(f"expected a URL like data:text/plain;base64,aGVsbG8=, got {url[:40]!r} at `data`")
    if len(match["data"]) > 4 * MAX_DATA_BYTES:  # a byte takes at most three characters, such as %41
        raise ToolError(f"expected at most {MAX_DATA_BYTES} bytes, got more at `data`")
    try:
        raw = (
            base64.b64decode(unquote_to_bytes(match["data"]), validate=True)
            if match["base64"]
            else unquote_to_bytes(match["data"])
        )
    except binascii.Error as error:
        raise ToolError(f"expected base64 ({error}) at `data`") from error
    if len(raw) > MAX_DATA_BYTES:
        raise ToolError(f"expected at most {MAX_DATA_BYTES} bytes, got {len(raw)} at `data`")
    return gzip.compress(raw, mtime=0)


def _path_segment(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[:100] or "data.gz"
