"""The resources: those that the conformance suite requires, then those of the demo, with completion."""

from __future__ import annotations

import base64
import json
from typing import Literal

from mcptrio import completion, resource
from mcptrio.errors import ResourceNotFound
from mcptrio.types import BlobResourceContents, EmbeddedResource, TextResourceContents
from mcptrio_everything.samples import PNG

__all__ = [
    "DYNAMIC_BLOB",
    "DYNAMIC_TEXT",
    "complete_blob_id",
    "complete_text_id",
    "dynamic_blob",
    "dynamic_text",
    "embed",
    "features_document",
    "static_binary",
    "static_text",
    "template_data",
    "watched_resource",
]

DYNAMIC_TEXT = "demo://resource/dynamic/text/{resourceId}"
DYNAMIC_BLOB = "demo://resource/dynamic/blob/{resourceId}"


@resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """One red pixel as PNG."""
    return base64.b64decode(PNG)


@resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> str:
    """A document for every id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text to subscribe to."""
    return "Watched resource content"


@resource("demo://resource/static/document/features.md", mime_type="text/markdown")
async def features_document() -> str:
    """What this server shows."""
    return (
        "# Everything\n\n"
        "Tools with every kind of content, progress, logging, questions to the user and the model;\n"
        "resources with templates and completion; prompts with arguments and embedded content.\n"
    )


@resource(DYNAMIC_TEXT, mime_type="text/plain")
async def dynamic_text(resourceId: str) -> str:
    """A text for every number from 1."""
    return f"Resource {_valid_number(DYNAMIC_TEXT, resourceId)}: this is a plain text resource"


@resource(DYNAMIC_BLOB, mime_type="application/octet-stream")
async def dynamic_blob(resourceId: str) -> bytes:
    """Bytes for every number from 1."""
    return f"Resource {_valid_number(DYNAMIC_BLOB, resourceId)}: this is a binary resource".encode()


async def embed(kind: Literal["Text", "Blob"], id: str) -> EmbeddedResource:
    """Return one of the dynamic resources as a content block."""
    if kind == "Text":
        text, uri = await dynamic_text(id), DYNAMIC_TEXT.replace("{resourceId}", id)
        return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type="text/plain", text=text))
    blob, uri = base64.b64encode(await dynamic_blob(id)).decode(), DYNAMIC_BLOB.replace("{resourceId}", id)
    return EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob))


@completion("resource", DYNAMIC_TEXT, "resourceId")
async def complete_text_id(value: str) -> list[str]:
    """Return the numbers that start with the typed text."""
    return _numbers_with_prefix(value)


@completion("resource", DYNAMIC_BLOB, "resourceId")
async def complete_blob_id(value: str) -> list[str]:
    """Return the numbers that start with the typed text."""
    return _numbers_with_prefix(value)


def _valid_number(template: str, id: str) -> int:
    # isdecimal and int() accept the digits of all scripts, so isascii is needed, too. Nine digits suffice for a demo.
    if not (id.isascii() and id.isdecimal() and 1 <= len(id) <= 9 and int(id) >= 1):
        raise ResourceNotFound(template.replace("{resourceId}", id))
    return int(id)


def _numbers_with_prefix(value: str) -> list[str]:
    return [str(number) for number in range(1, 101) if str(number).startswith(value)]
