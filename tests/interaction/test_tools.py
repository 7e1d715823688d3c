"""What tools return, and how they are listed."""

from __future__ import annotations

import base64
import functools
from collections.abc import AsyncIterator
from enum import Enum
from typing import Any

import attrs
import trio
import trio.lowlevel

from mcptrio import Blob, Context, tool
from mcptrio.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tests.interaction.applies import MODERN, SINCE_2025_03, SINCE_2025_06, SINCE_2025_11, only, real_time, without
from tests.interaction.serving import Serve

PIXEL = b"\x89PNG"


class Kind(Enum):
    SMALL = "small"
    LARGE = "large"


@attrs.frozen
class Weather:
    """The weather."""

    place: str
    degrees: float


@tool
async def text() -> str:
    """Text."""
    return "hello"


@tool
async def nothing() -> None:
    """Nothing."""


@tool
async def image() -> Blob:
    """An image."""
    return Blob(PIXEL, "image/png")


@tool
async def sound() -> Blob:
    """A sound."""
    return Blob(b"RIFF", "audio/wav")


@tool
async def file() -> Blob:
    """Another file."""
    return Blob(b"%PDF", "application/pdf", "file:///a.pdf")


@tool
async def mixed() -> list[str | TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink]:
    """Several kinds."""
    return [
        "first",
        TextContent(text="second"),
        ImageContent(data="AAAA", mime_type="image/png"),
        AudioContent(data="AAAA", mime_type="audio/wav"),
        EmbeddedResource(resource=TextResourceContents(uri="memo://a", text="third", mime_type="text/plain")),
        ResourceLink(uri="memo://b", name="b"),
    ]


@tool
async def weather(place: str) -> Weather:
    """Weather."""
    return Weather(place, 21.5)


@tool
async def numbers() -> list[int]:
    """Numbers."""
    return [1, 2]


@tool
async def ready() -> CallToolResult:
    """A result made by hand."""
    return CallToolResult(content=(TextContent(text="made"),), is_error=True)


@tool
async def stream() -> Any:
    """Several texts, one by one."""
    yield "a"
    yield "b"


@tool(
    title="Sized",
    read_only=True,
    destructive=False,
    icons=[Icon(src="https://example.com/i.png")],
    meta={"com.example/a": 1},
)
async def sized(kind: Kind, count: int = 1) -> str:
    """Size things.

    Args:
        kind: How large.
    """
    return f"{count} {kind.name}"


async def test_text_result_is_text_content(serve: Serve) -> None:
    peer = await serve(text)

    result = await peer.call("text")

    assert result["content"] == [{"type": "text", "text": "hello"}]
    assert result.get("isError", False) is False


async def test_parameter_may_have_any_name(serve: Serve) -> None:
    @tool
    async def names(work: str, values: str, function: str, scope: str) -> str:
        return work + values + function + scope

    peer = await serve(names)

    result = await peer.call("names", {"work": "a", "values": "b", "function": "c", "scope": "d"})

    assert result["content"] == [{"type": "text", "text": "abcd"}]


async def test_none_result_has_no_content(serve: Serve) -> None:
    peer = await serve(nothing)

    assert (await peer.call("nothing"))["content"] == []


async def test_image_bytes_are_image_content(serve: Serve) -> None:
    peer = await serve(image)

    (block,) = (await peer.call("image"))["content"]

    assert block == {"type": "image", "data": base64.b64encode(PIXEL).decode(), "mimeType": "image/png"}


@only(revisions=SINCE_2025_03, because="2024-11-05 has no audio")
async def test_audio_bytes_are_audio_content(serve: Serve) -> None:
    peer = await serve(sound)

    (block,) = (await peer.call("sound"))["content"]

    assert block == {"type": "audio", "data": base64.b64encode(b"RIFF").decode(), "mimeType": "audio/wav"}


@without(revisions=SINCE_2025_03, because="later revisions have audio")
async def test_audio_becomes_text_in_revisions_without_audio(serve: Serve) -> None:
    peer = await serve(sound)

    (block,) = (await peer.call("sound"))["content"]

    assert block["type"] == "text"
    assert "audio/wav" in block["text"]


async def test_other_bytes_are_an_embedded_resource(serve: Serve) -> None:
    peer = await serve(file)

    (block,) = (await peer.call("file"))["content"]

    blob = base64.b64encode(b"%PDF").decode()
    resource = {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": blob}
    assert block == {"type": "resource", "resource": resource}


async def test_list_of_content_keeps_its_order(serve: Serve) -> None:
    peer = await serve(mixed)

    types = [block["type"] for block in (await peer.call("mixed"))["content"]]

    audio = "audio" if serve.revision in SINCE_2025_03 else "text"
    link = "resource_link" if serve.revision in SINCE_2025_06 else "text"
    assert types == ["text", "text", "image", audio, "resource", link]


async def test_texts_of_a_generator_are_collected(serve: Serve) -> None:
    peer = await serve(stream)

    assert [block["text"] for block in (await peer.call("stream"))["content"]] == ["a", "b"]


async def test_prepared_result_is_sent_unchanged(serve: Serve) -> None:
    peer = await serve(ready)

    result = await peer.call("ready")

    assert result["content"] == [{"type": "text", "text": "made"}]
    assert result["isError"] is True


async def test_object_result_is_structured_and_repeated_as_text(serve: Serve) -> None:
    peer = await serve(weather)

    result = await peer.call("weather", {"place": "here"})

    assert '"degrees":21.5' in result["content"][0]["text"]
    if serve.revision in SINCE_2025_06:
        assert result["structuredContent"] == {"place": "here", "degrees": 21.5}
    else:
        assert "structuredContent" not in result


async def test_list_result_is_wrapped_in_revisions_with_structured_objects_only(serve: Serve) -> None:
    peer = await serve(numbers)

    result = await peer.call("numbers")

    if serve.revision in MODERN:
        assert result["structuredContent"] == [1, 2]
    elif serve.revision in SINCE_2025_06:
        assert result["structuredContent"] == {"result": [1, 2]}
    else:
        assert "structuredContent" not in result
    assert result["content"][0]["text"] == "[1,2]"


async def test_output_schema_matches_the_structured_content(serve: Serve) -> None:
    peer = await serve(numbers, weather)

    tools = {tool["name"]: tool for tool in (await peer.request("tools/list"))["tools"]}

    if serve.revision not in SINCE_2025_06:
        assert "outputSchema" not in tools["weather"]
        return
    assert tools["weather"]["outputSchema"]["required"] == ["place", "degrees"]
    schema = tools["numbers"]["outputSchema"]
    assert schema["type"] == ("array" if serve.revision in MODERN else "object")


async def test_listed_tool_reflects_its_signature(serve: Serve) -> None:
    peer = await serve(sized)

    (listed,) = (await peer.request("tools/list"))["tools"]

    assert listed["description"] == "Size things."
    schema = listed["inputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["kind"]
    assert schema["properties"]["kind"]["description"] == "How large."
    assert schema["properties"]["count"]["default"] == 1


async def test_tool_fields_unknown_to_the_revision_are_omitted(serve: Serve) -> None:
    peer = await serve(sized)

    (listed,) = (await peer.request("tools/list"))["tools"]

    assert ("icons" in listed) == (serve.revision in SINCE_2025_11)
    assert ("title" in listed) == (serve.revision in SINCE_2025_06)
    assert ("_meta" in listed) == (serve.revision in SINCE_2025_06)
    assert ("annotations" in listed) == (serve.revision in SINCE_2025_03)
    if serve.revision in SINCE_2025_03:
        assert listed["annotations"]["title"] == "Sized"
        assert listed["annotations"]["readOnlyHint"] is True


@only(revisions=MODERN, because="only 2026-07-28 allows clients to cache results")
async def test_tool_list_has_a_ttl(serve: Serve) -> None:
    peer = await serve(text, list_ttl_ms=700)

    result = await peer.request("tools/list")

    assert result["ttlMs"] == 700
    assert result["cacheScope"] in ("public", "private")


async def test_enum_argument_is_converted_from_its_value(serve: Serve) -> None:
    peer = await serve(sized)

    assert await peer.text("sized", {"kind": "large", "count": 3}) == "3 LARGE"


def _passed_on(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return wrapper


@only(transports=["memory"], because="the behaviour does not depend on the transport")
@real_time(because="its functions run in threads")
async def test_sync_wrapper_of_an_async_function_is_a_tool(serve: Serve) -> None:
    @_passed_on
    async def waits(ctx: Context, name: str) -> str:
        """Waits."""
        await trio.lowlevel.checkpoint()
        return f"hello {name}"

    @_passed_on
    async def streams() -> AsyncIterator[str]:
        """Streams."""
        yield "a"
        yield "b"

    peer = await serve(tool(waits), tool(streams))

    assert (await peer.call("waits", {"name": "Ada"}))["content"][0]["text"] == "hello Ada"
    assert [block["text"] for block in (await peer.call("streams"))["content"]] == ["a", "b"]


@only(transports=["memory"], because="the behaviour does not depend on the transport")
@real_time(because="its functions run in threads")
async def test_keywords_of_a_partial_are_not_parameters(serve: Serve) -> None:
    def read(path: str, *, root: str = "/") -> str:
        """Read."""
        return f"{root}/{path}"

    peer = await serve()
    serve.server.add_tool(functools.partial(read, root="/safe"), name="read")
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    serve.server.add_tool(functools.partial(read, root="/safe"), name="written", input_schema=schema)

    [listed, _] = (await peer.request("tools/list"))["tools"]
    assert list(listed["inputSchema"]["properties"]) == ["path"]
    for name in ("read", "written"):
        assert (await peer.call(name, {"path": "a"}))["content"][0]["text"] == "/safe/a"
    assert (await peer.call("written", {"path": "a", "root": "/etc"}))["content"][0]["text"] == "/safe/a"
