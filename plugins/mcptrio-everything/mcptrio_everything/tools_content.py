"""Tools that return each kind of content, and one that fails.

``test_simple_text`` is the first listed tool and has no parameters, because the conformance suite calls the first tool
without arguments.
"""

from __future__ import annotations

from mcptrio import ToolError, tool
from mcptrio.types import AudioContent, EmbeddedResource, ImageContent, TextContent, TextResourceContents
from mcptrio_everything.samples import PNG, WAV

__all__ = [
    "test_audio_content",
    "test_embedded_resource",
    "test_error_handling",
    "test_image_content",
    "test_multiple_content_types",
    "test_simple_text",
]


@tool(read_only=True)
async def test_simple_text() -> str:
    """Return one text block."""
    return "This is a simple text response for testing."


@tool(read_only=True)
async def test_image_content() -> ImageContent:
    """Return one image block."""
    return ImageContent(data=PNG, mime_type="image/png")


@tool(read_only=True)
async def test_audio_content() -> AudioContent:
    """Return one audio block."""
    return AudioContent(data=WAV, mime_type="audio/wav")


@tool(read_only=True)
async def test_embedded_resource() -> EmbeddedResource:
    """Return one block that embeds a resource."""
    return EmbeddedResource(
        resource=TextResourceContents(
            uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource content."
        )
    )


@tool(read_only=True)
async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Return a text, an image and a resource block."""
    return [
        TextContent(text="Multiple content types test:"),
        ImageContent(data=PNG, mime_type="image/png"),
        EmbeddedResource(
            resource=TextResourceContents(
                uri="test://mixed-content-resource", mime_type="application/json", text='{"test": "data", "value": 123}'
            )
        ),
    ]


@tool(read_only=True)
async def test_error_handling() -> str:
    """Raise an error whose message the model receives."""
    raise ToolError("This tool intentionally returns an error for testing")
